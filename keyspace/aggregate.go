package keyspace

import "lockd/resp"

// aggregate is a value of many elements: everything that is not a string. It is all
// that the rest of the package knows of one. A new type is a file with the type, a
// file with its commands, and a row in kinds.
//
// What is stored is immutable for whoever holds it; only editAs changes one, after
// own. The order in which an aggregate visits its elements is a function of what it
// holds and how it came to, never of a Go map or a pointer, and an image keeps it.
type aggregate interface {
	// kind is its row.
	kind() *kind
	// form says which of the row's encodings it has now.
	form() int
	// len is the number of its elements. One without any is never stored, unless its
	// row says so.
	len() int
	// size estimates the memory it takes; see entry.size. It does not look at the
	// elements.
	size() int64
	// own is the aggregate itself if generation made it, and otherwise a copy that
	// generation may change: somebody else (a snapshot, a script's journal) still
	// reads this one, perhaps on another goroutine.
	own(generation uint64) aggregate
	// clone is an independent copy that the same generation owns: COPY.
	clone() aggregate
	// write writes the elements, in their order, for the kind's read.
	write(w *imageWriter)
}

// kind is the row of a type of aggregate.
type kind struct {
	name      string   // the word of TYPE, and of SCAN's option
	encodings []string // the answers of OBJECT ENCODING, one for each form
	image     byte     // the kind of form 0 in an image; the other forms follow it

	keepsEmpty bool // one without elements is stored: XDEL leaves the ids of a stream

	// read makes an aggregate of n elements, n > 0 unless it keepsEmpty, of what write has written. Its
	// elements are only as good as the reader's err says.
	read func(r *imageReader, n uint64, form int, generation uint64) aggregate
}

// kinds has a row for each type of aggregate. A row's places in the image are its
// own for ever: a new one takes those after the last.
var kinds = []*kind{hashKind, listKind, setKind, zsetKind, streamKind}

// kindOfImage finds the row and the form of a kind byte of an image; nil where it is
// no aggregate's.
func kindOfImage(b byte) (k *kind, form int) {
	for _, k := range kinds {
		if b >= k.image && int(b-k.image) < len(k.encodings) {
			return k, int(b - k.image)
		}
	}
	return nil, 0
}

// lookupAs finds a key that must hold an aggregate of the type T, if it is there: v
// is nil where it is absent. It is for reading; see editAs. Where ok is false the
// reply is the error.
func lookupAs[T aggregate](c *ctx, key string) (v T, fail resp.Reply, ok bool) {
	e := c.lookup(key)
	if e == nil {
		return v, resp.Reply{}, true
	}
	if v, ok = e.agg().(T); !ok {
		return v, resp.Err(resp.ErrWrongType), false
	}
	return v, resp.Reply{}, true
}

// editAs lets edit change the aggregate at key, one that fresh makes where key is
// absent. The caller has made sure (lookupAs) that key holds nothing else. What is
// left empty is deleted, unless its kind keeps it; emptied says so, and the caller sends the event "del" after
// its own.
func editAs[T aggregate](c *ctx, key string, fresh func(owner uint64) T, edit func(v T)) (emptied bool) {
	was := c.lookup(key)
	var v T
	d := never
	if was == nil {
		v = fresh(c.m.generation)
	} else {
		v, d = was.agg().own(c.m.generation).(T), was.deadline
		if aggregate(v) != was.agg() {
			c.m.spend(cloneWork(v))
		}
	}
	form := v.form()
	edit(v)
	if v.form() != form {
		c.m.spend(int64(v.len())*treeWork(v.len()) + hashWork*v.size())
	}
	if v.len() > 0 || v.kind().keepsEmpty {
		c.m.store(c.db, key, was, newEntry(key, was, aggregateValue(v), d))
		return false
	}
	if was != nil {
		c.m.store(c.db, key, was, nil)
	}
	return was != nil
}

// cloneWork is the work of a copy: that of a small form whole, or of some nodes of a tree.
func cloneWork(v aggregate) int64 {
	if v.len() > smallMax {
		return compareWork * smallMax
	}
	return 160 * int64(v.len())
}

// smallMax and smallValueMax bound the small forms, whatever the settings say: whoever
// looks for an element in one looks at all, and no setting may make that the work of
// millions, or of megabytes each.
const (
	smallMax      = 4096
	smallValueMax = 4096
)

// smallWork is the work of looking for a name in a small form of n elements, which have
// so many bytes together: only those of its length are compared with it.
func smallWork(n int, bytes int64, name string) int64 {
	return compareWork*int64(1+n) + min(bytes, int64(n*len(name)))/4
}
