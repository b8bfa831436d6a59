// Package value has the data structures of what keys hold, and nothing of the machine: strings,
// hashes, lists, sets, sorted sets and streams, how large they are, which forms of Redis they have,
// what it costs to use them, and how they stand in an image.
//
// One goroutine at a time uses a value that may change. Whoever changes an aggregate has made it its
// own (Aggregate.Own); another one may read what it was before on another goroutine meanwhile. Nothing
// here depends on anything but what was called: the same calls make the same value on every node.
//
//	value.go      a string or an aggregate, in two words; the rows of all kinds
//	aggregate.go  what every type but the string is
//	hash.go list.go set.go zset.go stream.go    the types
//	streamnode.go  the nodes into which Redis cuts a stream
//	tree.go       strings in the order of their hash    sequence.go  strings by position
//	score.go longdouble.go                      the numbers of Redis, to the digit
//	work.go       what it costs to use them             codec.go     the parts of an image
//
// The DESIGN.md of keyspace tells the decisions.
package value
