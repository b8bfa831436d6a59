package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/hashicorp/raft"

	"lockd/resp"
	"lockd/resp/fault"
)

// Neither log store detects every damage: raft-wal checks its sums only where it recovers the tail, and takes a damaged
// batch there for an unfinished one, so that stored entries vanish silently; bbolt has sums on its meta pages only. So
// each entry and each vote carries a checksum of lockd, and the mark (mark.go) records how far the log had reached.

// checksumLen is the length of the checksum at the end of a stored value.
const checksumLen = crc32.Size

var errChecksum = errors.New("its checksum does not match")

// withChecksum appends a second line, the checksum of the first.
func withChecksum(line []byte) []byte {
	return fmt.Appendf(slices.Clip(line), "\ncrc32c %08x\n", crc32.Checksum(line, resp.CRC32C))
}

// checkedLog is a raft.LogStore whose entries carry a checksum, as the last bytes of their extensions. Raft, and the
// nodes that it sends entries to, never see it.
type checkedLog struct {
	raft.LogStore
	mark   *logMark
	faults *fault.Set // of a simulated node
}

func (l *checkedLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

func (l *checkedLog) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	summed := make([]raft.Log, len(entries))
	refs := make([]*raft.Log, len(entries))
	size := 0
	for _, e := range entries {
		size += len(e.Extensions) + checksumLen
	}
	buf := make([]byte, 0, size)
	for i, e := range entries {
		start := len(buf)
		buf = append(buf, e.Extensions...)
		buf = binary.BigEndian.AppendUint32(buf, entryChecksum(e, e.Extensions))
		summed[i] = *e
		summed[i].Extensions = buf[start:len(buf):len(buf)]
		refs[i] = &summed[i]
	}
	if err := l.LogStore.StoreLogs(refs); err != nil {
		return err
	}
	return l.mark.set(entries[len(entries)-1].Index)
}

func (l *checkedLog) GetLog(index uint64, entry *raft.Log) error {
	if err := l.LogStore.GetLog(index, entry); err != nil {
		return err
	}
	n := len(entry.Extensions) - checksumLen
	if n < 0 || entry.Index != index ||
		entryChecksum(entry, entry.Extensions[:n]) != binary.BigEndian.Uint32(entry.Extensions[n:]) {
		return fmt.Errorf("entry %d: %w", index, errChecksum)
	}
	if entry.Extensions = entry.Extensions[:n:n]; n == 0 {
		entry.Extensions = nil
	}
	return nil
}

// DeleteRange cuts the log at one end. Before a cut at the tail the mark is lowered, on the disk: otherwise a crash
// right after would look like lost entries.
func (l *checkedLog) DeleteRange(first, last uint64) error {
	end, err := l.LogStore.LastIndex()
	if err != nil {
		return err
	}
	if last >= end && first <= end {
		if err := l.mark.lower(first - 1); err != nil {
			return err
		}
	}
	begin, err := l.LogStore.FirstIndex()
	if err != nil {
		return err
	}
	if first > begin {
		return l.LogStore.DeleteRange(first, last)
	}
	return l.trim(first, last)
}

// trim cuts the log at its head.
func (l *checkedLog) trim(first, last uint64) error {
	if err := l.faults.At(fault.LogTrim); err != nil {
		return err
	}
	if err := l.LogStore.DeleteRange(first, last); err != nil {
		return err
	}
	return l.faults.At(fault.LogTrimmed)
}

// IsMonotonic returns true, whatever store is below: the log has no gaps, and Raft then removes the old log after it
// has installed a snapshot. raft-wal allows no gap; bbolt would, and the loss of entries could not be told from damage.
func (l *checkedLog) IsMonotonic() bool { return true }

func entryChecksum(e *raft.Log, extensions []byte) uint32 {
	var head [8 + 8 + 1 + 8]byte
	binary.BigEndian.PutUint64(head[0:], e.Index)
	binary.BigEndian.PutUint64(head[8:], e.Term)
	head[16] = byte(e.Type)
	binary.BigEndian.PutUint64(head[17:], uint64(len(e.Data)))
	sum := crc32.Checksum(head[:], resp.CRC32C)
	sum = crc32.Update(sum, resp.CRC32C, e.Data)
	return crc32.Update(sum, resp.CRC32C, extensions)
}

// checkedVotes is a raft.StableStore whose values carry a checksum over key and value.
type checkedVotes struct{ raft.StableStore }

func (v checkedVotes) Set(key, val []byte) error {
	return v.StableStore.Set(key, binary.BigEndian.AppendUint32(val[:len(val):len(val)], valueChecksum(key, val)))
}

func (v checkedVotes) Get(key []byte) ([]byte, error) {
	val, err := v.StableStore.Get(key)
	if err != nil {
		return nil, err
	}
	n := len(val) - checksumLen
	if n < 0 || valueChecksum(key, val[:n]) != binary.BigEndian.Uint32(val[n:]) {
		return nil, fmt.Errorf("%s: %w", key, errChecksum)
	}
	return val[:n:n], nil
}

func (v checkedVotes) SetUint64(key []byte, val uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, val))
}

func (v checkedVotes) GetUint64(key []byte) (uint64, error) {
	val, err := v.Get(key)
	if err == nil && len(val) != 8 {
		err = fmt.Errorf("%s: not a number", key)
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(val), nil
}

func valueChecksum(key, val []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, resp.CRC32C), resp.CRC32C, val)
}
