package value

import (
	"lockd/resp"
)

// Redis keeps the entries of a stream in nodes, each a listpack, and trims with ~ by whole nodes. Here they are in a
// tree; for ~ they are cut into the nodes in which Redis 7.0 has them if none was removed but by ~.

// NodeLimits bound a node of a stream.
type NodeLimits struct {
	Entries int64 // 0: any number
	Bytes   int64 // of its listpack
}

// NodeBytesMax bounds a listpack of Redis, in bytes.
const NodeBytesMax = 1 << 30

// WholeNodes returns how many of the first n entries are in nodes that have no entry behind them. next is an entry that
// will be added, or nil. Before each entry it asks afford for the work, and returns false if that refuses.
func (s *Stream) WholeNodes(n int, lim NodeLimits, next *Item, afford func(work int64) bool) (whole int, ok bool) {
	var node streamNode
	i, ok := 0, true
	look := func(it Item) bool {
		if ok = afford(VisitWork * int64(1+len(it.Fields))); !ok {
			return false
		}
		if i == 0 || !node.takes(it, lim) {
			whole, node = i, newStreamNode(it)
		} else {
			node.add(it)
		}
		i++
		return i <= n
	}
	s.items.Scan(look)
	if ok && i == s.Len() && i <= n && next != nil {
		look(*next)
	}
	if i <= n { // there is no entry behind them
		whole = i
	}
	return whole, ok
}

// streamNode is the size of a node, as Redis's streamAppendItem makes it.
type streamNode struct {
	master Item // the first entry: others are stored by what differs
	count  int64
	bytes  int64
}

// listpackBytes is the size of an empty listpack.
const listpackBytes = 7

func newStreamNode(it Item) streamNode {
	n := streamNode{master: it, bytes: listpackBytes + packedInt(0) + packedInt(int64(len(it.Fields)/2)) + packedInt(0)}
	for i := 0; i < len(it.Fields); i += 2 {
		n.bytes += packedText(it.Fields[i])
	}
	n.bytes += packedInt(0) // the count, whose size add corrects
	n.add(it)
	return n
}

// takes reports whether an entry is appended to the node.
func (n *streamNode) takes(it Item, lim NodeLimits) bool {
	size := n.bytes
	for _, text := range it.Fields {
		size += int64(len(text))
	}
	most := lim.Bytes
	if most == 0 || most > NodeBytesMax {
		most = NodeBytesMax
	}
	return size < most && (lim.Entries == 0 || n.count < lim.Entries)
}

// add appends an entry.
func (n *streamNode) add(it Item) {
	n.bytes += packedInt(n.count+1) - packedInt(n.count)
	n.count++
	fields, same := int64(len(it.Fields)/2), n.sameFields(it)
	n.bytes += packedInt(2) + packedInt(int64(it.ID.Ms-n.master.ID.Ms)) + packedInt(int64(it.ID.Seq-n.master.ID.Seq))
	pieces := fields + 3
	if !same {
		n.bytes += packedInt(fields)
		pieces += fields + 1
	}
	for i, text := range it.Fields {
		if !same || i%2 == 1 {
			n.bytes += packedText(text)
		}
	}
	n.bytes += packedInt(pieces)
}

// sameFields reports whether an entry has the fields of the first one.
func (n *streamNode) sameFields(it Item) bool {
	if len(it.Fields) != len(n.master.Fields) {
		return false
	}
	for i := 0; i < len(it.Fields); i += 2 {
		if it.Fields[i] != n.master.Fields[i] {
			return false
		}
	}
	return true
}

// packedText returns the bytes of a text in a listpack.
func packedText(text string) int64 {
	if n, ok := resp.ParseInt(text); ok {
		return packedInt(n)
	}
	size := int64(len(text))
	switch {
	case size < 1<<6:
		return withLength(1 + size)
	case size < 1<<12:
		return withLength(2 + size)
	}
	return withLength(5 + size)
}

// packedInt returns the bytes of a number in a listpack.
func packedInt(n int64) int64 {
	switch {
	case n >= 0 && n < 1<<7:
		return withLength(1)
	case n >= -1<<12 && n < 1<<12:
		return withLength(2)
	case n >= -1<<15 && n < 1<<15:
		return withLength(3)
	case n >= -1<<23 && n < 1<<23:
		return withLength(4)
	case n >= -1<<31 && n < 1<<31:
		return withLength(5)
	}
	return withLength(9)
}

// withLength adds the length behind an element, by which a listpack is read backwards.
func withLength(size int64) int64 {
	switch {
	case size < 1<<7:
		return size + 1
	case size < 1<<14-1:
		return size + 2
	case size < 1<<21-1:
		return size + 3
	case size < 1<<28-1:
		return size + 4
	}
	return size + 5
}
