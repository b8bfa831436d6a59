// Package console serves lockd's web pages: the locks that are held, their waiters and histories, the members, and
// mistakes in locking.
//
// Its law: it is a client like any other. It gets everything by commands, on a connection of its own with the
// password that the browser gave, so the rules for clients (passwords, limits, MONITOR, the slow log) apply to its
// visitors. It never delays a lock: its questions are bounded, and browsers that watch the same page share one
// question.
package console
