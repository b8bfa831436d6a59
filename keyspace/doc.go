// Package keyspace is the machine that the cluster replicates: databases, their
// leases, scripts and settings, and the commands on them.
//
// Its law: the state is a pure function of the calls of Apply. Nothing here reads
// a clock, draws a random number, starts a goroutine or lets the order of a Go map
// reach a reply, the state, a message or an image. The time is an argument (the
// log clock, in milliseconds); what tunes the machine is a replicated setting.
//
//	image.go       the image: Snapshot, Restore
//	machine.go     Apply, View, DryRun: the clock, requests in their order
//	level.go       rows and levels, as the cluster asks for them
//	questions.go   what the cluster asks about the state
//	figures.go     INFO, and figures for Prometheus
//	steps.go       what nodes log about blocking commands of their clients
//	serve.go       the sweep; serving the waiters of what has become ready
//	clientlibs.go  waking programs that wait by a client library
//
// Each calls those below it.
//
// Below them are packages that know nothing of the machine, command/ and then state/ above the others:
//
//	algebra/     union, intersection and difference of sets and sorted sets
//	arg/         the arguments that several families have
//	command/     the commands, by families: rows, parsers, what runs
//	digest/      what nodes compare
//	doctor/      what is wrong with the locks of programs
//	emit/        what an entry emits: messages, keyspace notifications, and changes for clients that track
//	lifecycle/   what becomes of locks, hashes too; no lock is granted that a restored cluster does not know
//	history/     the log of what becomes of locks, and the forms of an event
//	library/     the scripts and functions that are kept
//	lock/        which token gets a lock, which waiter gets it next, and owners that wait for each other
//	meter/       what one request, and one entry, may ask for
//	settings/    CONFIG's parameters, the checks of their values
//	state/       what is replicated, as a value, and Put, the one function that changes a key
//	store/       keys with their leases, in their order
//	value/       what keys hold: strings, hashes, lists, sets, sorted sets, streams
//	wait/        the commands that wait, in their order, and what clients were given and may have to give back
//
// DESIGN.md tells the decisions and the roads not taken.
package keyspace
