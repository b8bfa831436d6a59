// Package state holds the replicated state as a value, and Put, the one function that changes a key.
//
// Its law is the machine's: what it computes follows from the log alone.
//
//	change.go    Put, its observers in their order; ends of leases; the journal that takes an attempt back
//	waiters.go   what a change makes ready for waiters, and ends of waits
//	gone.go      locks that have gone, for programs that wait by a library
//	holdings.go  how keys hold their locks, as package lock asks; what WATCH compares
//	lifecycle.go what becomes of locks is told to package lifecycle; the embargo
//	state.go     the state, what the running entry uses, and limits that follow from both
//	request.go   what is known of the running request
//	scripts.go   what runs scripts
//
// Each calls those below it. The package knows no command: the packages above parse, run, and serve waiters.
package state
