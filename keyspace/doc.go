// Package keyspace is the machine that the cluster replicates: databases, their
// leases, scripts and settings, and the commands on them.
//
// Its law: the state is a pure function of the calls of Apply. Nothing here reads
// a clock, draws a random number, starts a goroutine or lets the order of a Go map
// reach a reply, the state, a message or an image. The time is an argument (the
// log clock, in milliseconds); what tunes the machine is a replicated setting.
//
//	table.go     the rows of all families
//	machine.go   Apply, View: the clock, the sweep, requests in their order
//	ctx.go       what a command is, and all that it may touch
//	db.go        databases; store, the one function that changes them
//	value/       what keys hold: strings, hashes, lists, sets, sorted sets, streams
//	entry.go     a key with all that belongs to it    keytree.go: entries in their order
//	lookup.go    how commands reach and change what a key holds
//	setop.go     union and its like, of sets          zsetop.go: of sorted sets
//	block.go     who waits for a key, and how they are served; cmd_lock.go: in line for a lock
//	script.go    what surrounds a running script: call, and taking it back
//	library.go   the scripts              functions.go the libraries of functions
//	settings.go  CONFIG's parameters      notify.go  keyspace notifications
//	image.go     the image: Snapshot, Restore
//	cmd_*.go     one file for each family of commands, its rows first; what several of them need:
//	             arguments.go, scan.go, condition.go, draw.go, replies.go
//
// DESIGN.md tells the decisions and the roads not taken.
package keyspace
