// Package server is lockd's front: connections, sessions, Pub/Sub, tracking. It speaks
// RESP2 and RESP3 to clients and hands every command that is not about the
// connection itself to a Backend. Its law:
//
//   - Replies stand in the order of the commands, one for each, and nothing
//     stands inside a reply: a push goes between two of them.
//   - Only a session writes replies to its socket, through one outbox.
//   - Publishing never waits for a subscriber; one that is too slow is dropped.
//   - Nothing a client sends is believed before the guard has measured it (package wire): every
//     length, count and total has a named limit (limits.go).
//   - The wall clock is read in one place (config.go).
//   - Locks are taken in the order Hub.mu, Server.mu, the Outbox's, and never held over a
//     call of the Backend or a write to a socket.
//
// DESIGN.md gives the reasons and the roads not taken.
package server
