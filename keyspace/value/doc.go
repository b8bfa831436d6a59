// Package value has the data structures that keys hold: strings, hashes, lists, sets, sorted sets, streams and locks of
// many. It knows their sizes, their forms in Redis, the work of using them, and their bytes in an image, and nothing of
// the machine.
//
// One goroutine at a time uses a value that may change. A change owns an aggregate first (Aggregate.Own); another
// goroutine may read the value of before meanwhile. The same calls make the same value on every node.
//
//	value.go      a string or an aggregate, in two words; the rows of all kinds
//	aggregate.go  Aggregate: every type except the string
//	hash.go list.go set.go zset.go stream.go many.go    the types
//	streamnode.go  the nodes into which Redis cuts a stream
//	tree.go       strings in the order of their hash    sequence.go  strings by position
//	score.go longdouble.go                      the numbers of Redis, to the digit
//	work.go       the work of using them                codec.go     the parts of an image
//
// The decisions are in the DESIGN.md of keyspace.
package value
