// Package lock decides who gets a lock, and who gets it next.
//
// A Line has the waiters of all locks, each in the order in which they came. A Table decides: it reads the Line and asks
// its Keys how a lock is held. Nothing here knows a connection, a database, a command or an encoding; the time is an
// argument, in milliseconds of the log clock. What a Table says follows from the calls alone, so it is the same on every
// node.
//
//	decide.go    Table: may a token have a lock; whose turn is it when a lock gives way
//	cycle.go     owners that wait for each other
//	line.go      Line: those who wait, for each lock in the order in which they came
//	holding.go   how a lock is held, and whether one more may hold it
//	many.go      a lock that several hold at once
//
// How a token gets a lock:
//
//   - Ask says at once: Yes, or Taken, or why no wait would help.
//   - A waiter enters the line at its end. A token has one place in a line.
//   - When a lock gives way (its key goes, a holder of several leaves, somebody leaves the line), Turn is called until
//     it says Rest. It serves from the front: the first in line has the lock if its holders let it, and those behind
//     it who may share it, up to the first who may not. Nobody overtakes.
//   - A line that cannot move because its owners wait for each other loses the wait that closed the circle.
package lock
