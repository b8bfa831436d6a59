// Package server is lockd's front: connections, sessions, Pub/Sub, tracking. It speaks RESP2 and
// RESP3 to clients, and hands every command that is not about the connection itself to a Backend.
// Its law:
//
//   - Replies stand in the order of the commands, one for each, and nothing stands inside a reply:
//     a push goes between two of them.
//   - Only a session writes replies to its socket, through one outbox.
//   - Publishing never waits: the goroutine that applies the log hands messages on (package pubsub).
//   - Input of a client passes the guard first (package wire): every length, count and total has a named limit
//     (limits.go).
//   - The wall clock is read in one place (config.go).
//   - Locks are taken in the order Broker.counting, the Broker's, that of its queue, registry.mu, the Outbox's, and
//     never held over a call of the Backend or a write to a socket.
//
// Its files, from top to bottom:
//
//	server.go         admits connections; Shutdown
//	janitor.go        checks all clients a few times a second
//	info.go           figures, for INFO and monitoring
//	hub.go            what the log tells this node's clients; questions of other nodes' servers about them
//	loop.go           a session: each command passes the gates, and is run or queued
//	gates.go          the gates, in order; a pause
//	profile.go        the kinds of server, their families of commands; READONLY, READWRITE, ASKING
//	conn_hello.go     the families, their rows first: HELLO, AUTH, PING, SELECT, RESET and others
//	conn_client.go    CLIENT, but for tracking; the pause of CLIENT PAUSE
//	conn_command.go   COMMAND
//	conn_config.go    CONFIG
//	conn_acl.go       ACL
//	conn_multi.go     MULTI, EXEC, WATCH; an execution
//	transaction.go    the queued commands and the watched keys of a session
//	conn_pubsub.go    SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE; PUBSUB
//	waiter.go         blocking commands
//	run.go            a run: commands of a pipeline that the backend takes at once; the requests of a client
//	conn_tracking.go  CLIENT TRACKING, requests of sessions that track keys, invalidations
//	conn_observe.go   MONITOR, SLOWLOG, LATENCY; the accounts of commands
//	registry.go       all clients: counted, killed, unblocked
//	stream.go         the bytes of a connection: commands in, replies out
//	session.go        a session, what it shares with others, and its client, which other goroutines know
//	index.go          commands, and their look-up by name
//	config.go         dependencies of a server: Config, Backend, Clock, Profile
//	limits.go         the limits, and counts against them
//
// Each calls those below it. Upward calls go through values only: a stream has a runner, which is its session; packages
// track, pubsub and holders reach a client through their Conn; and run.go lends track the function that appends replies.
//
// Below are packages that know no session:
//
//	pubsub/    subscriptions, the delivery of messages, pushes
//	describe/  answers of COMMAND
//	stats/     statistics
//	holders/   locks that clients hold, and pushes about them
//	track/     keys that clients cache, requests that read them, invalidations
//	settings/  settings, the cluster's and the node's own
//	access/    users and their rights, wrong passwords, ACL LOG, the file of users
//	observer/  observes the use of locks
//	wire/      input and output of sockets
//
// DESIGN.md of resp gives the reasons and the roads not taken.
package server
