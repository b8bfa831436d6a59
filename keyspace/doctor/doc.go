// Package doctor says what is wrong with the locks of programs, and what leases they need, from what has
// become of their locks (Event) and from what a node has seen its clients do (sight.Report). It knows no
// machine and no command. Its law:
//
//   - It is silent about programs that are right: what it can not be certain of it does not say. A client is
//     a connection; a program is all clients with one name at one address, as pools have many.
//   - Locks are classed by templates, of which a bounded number has a name.
//   - Of equal events and reports it says the same. It is used by one goroutine at a time.
//
// case.go gathers, verdict.go compares what was seen with what has happened, says.go has the words, and
// advice.go the figures.
package doctor
