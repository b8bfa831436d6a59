// Package doctor finds mistakes in how programs use locks, and the leases that they need. It compares what happened to
// the locks (Event) with what a node saw its clients do (lockuse.Report). It knows no machine and no command. Its law:
//
//   - It reports only what is certain, and nothing about correct programs. A client is a connection; a program is all
//     clients with one name at one address, as pools have many.
//   - Locks are grouped by templates, of which a bounded number has a name.
//   - Equal events and reports have equal findings. One goroutine at a time uses it.
//
// case.go gathers, verdict.go compares, words.go has the words, advice.go the figures.
package doctor
