package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// A bbolt file is read through before it is opened, because bbolt answers damage with a panic, a fault of the memory it
// maps (which kills the process from a goroutine of its own, even in its own checker), an endless walk, or silently
// with the transaction before the last. This reader maps nothing and follows no number that it has not checked. The
// format is bbolt's version 2, native byte order:
//
//	page    id(8) flags(2) count(2) overflow pages(4), then by flags
//	meta    magic(4) version(4) page size(4) flags(4) root(8) sequence(8)
//	        freelist(8) pages(8) transaction(8) sum(8, FNV-1a of what precedes)
//	branch  count x { position(4) key length(4) page(8) }, keys
//	leaf    count x { flags(4) position(4) key length(4) value length(4) }, keys and values
//	free    ids(8); if count is 0xffff the first one is their number
//
// A position counts from its own element. A leaf element of flag 1 is a bucket: its value is root(8) sequence(8),
// followed by a page of its own if the root is 0.
const (
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	boltPageHead = 16
	boltMetaLen  = 64
	boltElemLen  = 16
	boltPageMax  = 64 << 10 // bytes of a page
	boltRunMax   = 1 << 30  // bytes of a page with its overflow

	boltBranch   = 0x01
	boltLeaf     = 0x02
	boltFreelist = 0x10
	boltBucket   = 0x01 // of a leaf element
)

// boltFile is a bbolt file being checked.
type boltFile struct {
	f        *os.File
	pageSize int
	pages    uint64
	seen     map[uint64]bool // pages in use
}

// checkBolt checks a whole bbolt file; nil if there is none.
func checkBolt(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b := &boltFile{f: f, seen: map[uint64]bool{0: true, 1: true}}
	if err := b.check(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

func (b *boltFile) check() error {
	root, free, err := b.meta()
	if err != nil {
		return err
	}
	if info, err := b.f.Stat(); err != nil || uint64(info.Size()) < b.pages*uint64(b.pageSize) {
		return errors.Join(errors.New("it is cut short"), err)
	}
	if err := b.tree(root, nil, nil); err != nil {
		return err
	}
	return b.freelist(free)
}

// meta checks both meta pages, which are written in turn. If one is damaged, bbolt silently falls back to the other,
// and the last transaction, perhaps a vote, is lost. A crash does not leave such a page: its few bytes lie in one
// sector.
func (b *boltFile) meta() (root, free uint64, err error) {
	var page [boltPageHead + boltMetaLen]byte
	m := page[boltPageHead:]
	var newest uint64
	for i := range 2 {
		if _, err := b.f.ReadAt(page[:], int64(i*b.pageSize)); err != nil {
			return 0, 0, fmt.Errorf("meta page %d: %w", i, err)
		}
		sum := fnv.New64a()
		_, _ = sum.Write(m[:boltMetaLen-8])
		size := int(num32(m[8:]))
		if num32(m) != boltMagic || num32(m[4:]) != boltVersion || num64(m[56:]) != sum.Sum64() ||
			size < 1024 || size > boltPageMax || i > 0 && size != b.pageSize {
			return 0, 0, fmt.Errorf("meta page %d: %w", i, errChecksum)
		}
		b.pageSize = size
		if tx := num64(m[48:]); i == 0 || tx > newest {
			newest, root, free, b.pages = tx, num64(m[16:]), num64(m[32:]), num64(m[40:])
		}
	}
	return root, free, nil
}

// page reads a page with its overflow, and records that it is in use.
func (b *boltFile) page(id uint64) (flags, count uint16, page []byte, err error) {
	var head [boltPageHead]byte
	if id >= b.pages {
		return 0, 0, nil, fmt.Errorf("page %d of %d", id, b.pages)
	}
	if _, err := b.f.ReadAt(head[:], int64(id)*int64(b.pageSize)); err != nil {
		return 0, 0, nil, err
	}
	run := 1 + uint64(num32(head[12:]))
	if num64(head[:]) != id || run > b.pages-id || run*uint64(b.pageSize) > boltRunMax {
		return 0, 0, nil, fmt.Errorf("page %d: not what it should be", id)
	}
	for i := id; i < id+run; i++ {
		if b.seen[i] {
			return 0, 0, nil, fmt.Errorf("page %d: used twice", i)
		}
		b.seen[i] = true
	}
	page = make([]byte, run*uint64(b.pageSize))
	_, err = b.f.ReadAt(page, int64(id)*int64(b.pageSize))
	return num16(head[8:]), num16(head[10:]), page, err
}

// tree checks a page and all below it. Its keys are at least low, and less than high unless that is nil.
func (b *boltFile) tree(id uint64, low, high []byte) error {
	flags, count, page, err := b.page(id)
	if err != nil {
		return err
	}
	if err := b.elements(flags, count, page, low, high); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (b *boltFile) elements(flags, count uint16, page, low, high []byte) error {
	switch flags {
	case boltLeaf:
		return b.leaf(count, page, low, high)
	case boltBranch:
		return b.branch(count, page, low, high)
	}
	return fmt.Errorf("of unknown kind %#x", flags)
}

func (b *boltFile) leaf(count uint16, page, low, high []byte) error {
	for i := range int(count) {
		at := boltPageHead + i*boltElemLen
		e, err := slice(page, at, boltElemLen)
		if err != nil {
			return err
		}
		keyAt, keyLen := at+int(num32(e[4:])), int(num32(e[8:]))
		key, err := slice(page, keyAt, keyLen)
		if err != nil {
			return err
		}
		val, err := slice(page, keyAt+keyLen, int(num32(e[12:])))
		if err != nil {
			return err
		}
		if low, err = inOrder(key, low, high, i == 0); err != nil {
			return err
		}
		if num32(e) == boltBucket {
			err = b.bucket(val)
		} else if num32(e) != 0 {
			err = errors.New("an element of unknown kind")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *boltFile) bucket(val []byte) error {
	if len(val) < 16 {
		return errors.New("a bucket cut short")
	}
	if root := num64(val); root != 0 {
		return b.tree(root, nil, nil)
	}
	page := val[16:]
	if len(page) < boltPageHead || num16(page[8:]) != boltLeaf {
		return errors.New("a bucket cut short")
	}
	return b.leaf(num16(page[10:]), page, nil, nil)
}

func (b *boltFile) branch(count uint16, page, low, high []byte) error {
	keys, pages := make([][]byte, count), make([]uint64, count)
	for i := range int(count) {
		at := boltPageHead + i*boltElemLen
		e, err := slice(page, at, boltElemLen)
		if err != nil {
			return err
		}
		if keys[i], err = slice(page, at+int(num32(e)), int(num32(e[4:]))); err != nil {
			return err
		}
		if low, err = inOrder(keys[i], low, high, i == 0); err != nil {
			return err
		}
		pages[i] = num64(e[8:])
	}
	for i, id := range pages {
		end := high
		if i+1 < len(keys) {
			end = keys[i+1]
		}
		if err := b.tree(id, keys[i], end); err != nil {
			return err
		}
	}
	if count == 0 {
		return errors.New("an empty branch")
	}
	return nil
}

// freelist checks that each page is either in use or free.
func (b *boltFile) freelist(id uint64) error {
	flags, count, page, err := b.page(id)
	if err != nil {
		return fmt.Errorf("list of free pages: %w", err)
	}
	n, at := uint64(count), boltPageHead
	if count == 0xffff {
		n, at = num64(page[at:]), at+8
	}
	if flags != boltFreelist || n > uint64(len(page)-at)/8 {
		return errors.New("the list of free pages is not what it should be")
	}
	for range n {
		free := num64(page[at:])
		if free >= b.pages || b.seen[free] {
			return fmt.Errorf("page %d: both free and used", free)
		}
		b.seen[free] = true
		at += 8
	}
	if uint64(len(b.seen)) != b.pages {
		return fmt.Errorf("%d pages are neither used nor free", b.pages-uint64(len(b.seen)))
	}
	return nil
}

// inOrder checks a key against its predecessor and the end of its range, and returns it.
func inOrder(key, before, high []byte, first bool) ([]byte, error) {
	c := bytes.Compare(key, before)
	if c < 0 || c == 0 && !first || high != nil && bytes.Compare(key, high) >= 0 {
		return nil, errors.New("keys out of order")
	}
	return key, nil
}

func slice(b []byte, at, n int) ([]byte, error) {
	if at < 0 || n < 0 || at > len(b) || n > len(b)-at {
		return nil, errors.New("an element beyond its page")
	}
	return b[at : at+n], nil
}

func num16(b []byte) uint16 { return binary.NativeEndian.Uint16(b) }
func num32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func num64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
