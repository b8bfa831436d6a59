// Package holders sends a RESP3 client that takes locks by LOCK a push when it loses one, and before that when a third
// of the lease is left. Every node learns from the log, in order, which locks are granted and lost: the client's node
// stores the grants, and pushes the losses. It knows no session, only a Conn.
package holders
