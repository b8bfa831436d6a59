// Package server is lockd's front: connections, sessions, Pub/Sub, tracking. It speaks RESP2 and
// RESP3 to clients, and hands every command that is not about the connection itself to a Backend.
// Its law:
//
//   - Replies stand in the order of the commands, one for each, and nothing stands inside a reply:
//     a push goes between two of them.
//   - Only a session writes replies to its socket, through one outbox.
//   - Publishing waits neither for a subscriber nor for finding out who is one: the goroutine that applies the log adds
//     to a queue. A subscriber that is too slow is dropped.
//   - Nothing a client sends is believed before the guard has measured it (package wire): every
//     length, count and total has a named limit (limits.go).
//   - The wall clock is read in one place (config.go).
//   - Locks are taken in the order Hub.counting, Hub.mu, that of its queue, Server.mu, the Outbox's, and never held
//     over a call of the Backend or a write to a socket.
//
// Its files, from top to bottom:
//
//	server.go         who comes in, and how a server stops
//	janitor.go        what is done for all sessions a few times a second
//	info.go           the sections of INFO
//	answers.go        what servers of other nodes ask about this node's clients
//	loop.go           a session from its beginning to its end: each command passes the gates, and runs
//	profile.go        the kinds of server, and the families of commands of each
//	conn_hello.go     the families, their rows first: HELLO, AUTH, PING, SELECT, RESET and the like
//	conn_client.go    CLIENT
//	conn_command.go   COMMAND
//	conn_config.go    CONFIG
//	conn_acl.go       ACL
//	conn_cluster.go   READONLY and its like; -MOVED
//	conn_pause.go     CLIENT PAUSE
//	conn_multi.go     MULTI, EXEC, WATCH
//	conn_pubsub.go    SUBSCRIBE and its like
//	block.go          a command that waits
//	run.go            a run: commands of a pipeline that the backend takes at once
//	followed.go       a request of a session that tracks keys
//	conn_tracking.go  CLIENT TRACKING, and how invalidations reach a client
//	conn_monitor.go   MONITOR
//	sightings.go      what sessions do with locks, for LOCKS DOCTOR
//	conn_stats.go     SLOWLOG, LATENCY, and the figures of commands that ran
//	rights.go         what the session's user may do, and was denied; users as they change
//	others.go         what the servers of other nodes are asked, and how answers are added up
//	deliver.go        messages on their way: to whom they go, and how patterns are matched
//	hub.go            who is subscribed to what; pushes
//	holders.go        locks that clients have taken, and pushes about them
//	queue.go          the queue of messages for subscribers
//	settings.go       settings, the cluster's and the node's own
//	reply.go          replies on their way to the outbox
//	session.go        what a session is, and who may touch what of it; all that there are
//	table.go          what a command is, and how it is found by its name
//	config.go         what a server is given: Config, Backend, Clock, Profile
//	limits.go         the limits, and what is counted against them
//
// Each calls those below it. Up goes only what is called through a value: run.go lends followed.go
// the function that appends replies, and package track tells a session of changes through its Conn;
// and this:
//
//	holders.go -> hub.go         a push about a lock goes the way of a message
//	hub.go -> deliver.go         the queue has something to hand out
//	deliver.go -> rights.go      users have changed
//	rights.go -> conn_client.go  the client that was denied something
//
// Below are packages that know no session:
//
//	describe/  what COMMAND says of rows
//	stats/     figures
//	track/     which keys clients cache, and who gets invalidations
//	access/    wrong passwords, what was denied, and the file of users
//	witness/   what they do with locks
//	wire/      bytes that come and go
//
// DESIGN.md of resp gives the reasons and the roads not taken.
package server
