// Package store is the disk of a node: its data folder with the log, the record of votes and the snapshots that Raft
// must find again after a crash. Its law: whatever it has reported as stored is there afterwards, or the node does not
// start; and a disk that fails or hangs ends the process. It does not know nodes and clusters: Hooks tell it about its
// own node.
//
// The layers of a log, from Raft downwards:
//
//	ParallelLog       the leader's disk writes beside the others' (parallel.go)
//	raft.LogCache     the newest entries, in memory
//	guardedLog        an error, a panic, or a write that hangs ends the process (guard.go)
//	checkedLog        a checksum for each entry (checksum.go), and the mark of the log's end (mark.go)
//	raft-wal | bbolt  the files; tailFiler repairs the end of raft-wal's (tail.go)
//
// A file that can be deleted, the ballast, reserves space for the log (reserve.go).
//
// Votes lie below the same guard and checksums, in a file of bbolt, which is read through before it is opened
// (bolt.go). Everything is checked before Raft starts (inspect.go). A test build injects faults (fault.go).
//
// The decisions are in ../DESIGN.md, under Stores and Data folder.
package store
