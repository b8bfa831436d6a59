// Package store is the disk of a node: its data folder, and in it the log, the record of
// votes and the snapshots that Raft must find again after a crash. Its law: what it has
// said to be stored is there afterwards, or the node does not start; and a disk that fails
// or hangs ends the process. It knows nothing of nodes and clusters: what it must hear of
// its own node comes through Hooks.
//
// The layers of a log, from Raft downwards:
//
//	ParallelLog       the leader's disk writes beside the others' (parallel.go)
//	raft.LogCache     the newest entries, in memory
//	guardedLog        an error, a panic, or a write that hangs ends the process (guard.go)
//	checkedLog        a checksum for each entry (checksum.go), and how far it had reached (mark.go)
//	raft-wal | bbolt  the files; tailFiler repairs the end of raft-wal's (tail.go)
//
// Space on the disk is kept for the log by a file that gives way to it (reserve.go).
//
// Votes lie below the same guard and checksums, in a file of bbolt, which is read through
// before it is opened (bolt.go). All of it is checked before Raft starts (inspect.go).
// A test build puts faults into it (fault.go).
//
// The decisions are in ../DESIGN.md, under Stores and Data folder.
package store
