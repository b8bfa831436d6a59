// Package wait keeps the commands that wait: for which keys, in which order, which of them are passed over, and what a
// client was given that may have to be taken back.
//
// A Table is told what happens: a node opens, renews, closes, suspends and resumes a session; a command enters and
// leaves; a key comes to hold something, or a lock gives way. It answers which queue is ready, and which waiter is next in it.
// The caller runs the command of a waiter, and takes back what a gift says. Nothing here knows what a command does,
// what a key holds or how a client is answered; the time is an argument, in milliseconds of the log clock. What a Table
// says follows from the calls alone, so it is the same on every node. A Table is for one goroutine at a time; waiters,
// sessions and gifts do not change, so any goroutine may read them.
//
//	image.go     what of it is in an image
//	table.go     Table: the waiters, by id, by queue and by the end of their time
//	queues.go    Queues: the waiters by key, in their order
//	waiter.go    a command that waits
//	ready.go     queues whose keys have become ready, in that order
//	gifts.go     what clients were given, until it is known to be delivered
//	sessions.go  the nodes that ask, and which numbers each has used
//
// How a wait ends:
//
//   - A command that finds nothing enters the queues of its keys: Admit gives it its place among all waiters, Enter
//     puts it there. A LOCK enters the line of its lock (package lock) instead.
//   - A change of a key marks its queue as ready (Arrived), or the line of its lock (Freed). At the end of the command
//     that has made the change the queues are taken in the order of their marks (Ready.Take), and the waiters of each
//     in the order of their places (Queues.Next). Serving takes a waiter away (Leave), so chains end.
//   - The waiters of a session that is suspended are passed over. They keep their places, and their time goes on.
//   - What a waiter was given is remembered (Gifts.Give) until its node says that it was delivered (Settle), or not
//     (TakeBack). UNLOCK by the token of a LOCK marks what that was given (Leave).
package wait
