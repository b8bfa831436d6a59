// Package store keeps the keys of the machine's databases: each key with its value, its lease, its fence and its
// version, in the order of the keys and in the order in which the leases end.
//
// Nothing here knows a command, a setting, a waiter or the rules of locks. Whether a key is a lock is a Mark that the
// callers decide; what a lock remembers of its holder is kept beside the value. What the store says follows from the
// calls alone, so it is the same on every node. A store is for one goroutine at a time; an Entry that is stored, and a
// KeyView, do not change, so any goroutine may read them.
//
//	image.go     the databases as an image has them
//	store.go     Store: all databases, Put, and the Change that it tells; versions and fences
//	journal.go   an attempt that is taken back, and databases that are replaced
//	database.go  a numbered database: its keys, its leases, and what follows from them
//	leases.go    which key ends first
//	keytree.go   the tree of keys
//	hashlock.go  what is known of a lock that is a hash
//	entry.go     a key with all that belongs to it
//	nocopy.go    what may not be copied
package store
