// Package lock decides which token gets a lock, and which waiter gets it next.
//
// A Line has the waiters of all locks, for each lock in the order of their arrival. A Table decides: it reads the Line
// and asks its Keys how a lock is held. Nothing here knows a connection, a database, a command or an encoding; the time
// is an argument, in milliseconds of the log clock. The answers of a Table follow from the calls alone, so they are the
// same on every node.
//
//	decide.go    Table: whether a token gets a lock, and the next waiter when a lock gives way
//	cycle.go     owners that wait for each other
//	line.go      Line: the waiters of each lock in the order of their arrival
//	holding.go   Holding: how a lock is held, and whether one more token may hold it
//	many.go      a lock that several hold at once
//
// How a token gets a lock:
//
//   - Ask answers at once: Yes, Taken, or an error if no wait would help.
//   - A waiter enters the line at its end. A token has one place in a line.
//   - When a lock gives way (its key goes, one of several holders leaves, a waiter leaves the line), the caller calls
//     Turn until it returns Rest. Turn serves from the front: the first in line gets the lock if the holders let it,
//     then the waiters behind it that may share the lock, up to the first that may not. Nobody overtakes; a token that
//     has got the lock otherwise is answered where it stands.
//   - A line that cannot move because its owners wait for each other loses the wait that closed the circle.
package lock
