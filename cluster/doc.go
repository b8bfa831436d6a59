// Package cluster makes one machine of several: every node holds the same
// Machine, and a Raft log decides in which order requests change it.
//
// The law of the package:
//
//   - A reply means: committed on a majority's disk, applied here.
//   - There is one door to the log (propose.go), one place that reads a clock
//     (clock.go), one lock around the machine (state.mu).
//   - A lease is measured in the log clock, which only entries of the log advance.
//     A new leader goes on from the last tick applied and adds monotonic time of its
//     own: a lease never ends early, whatever clocks, pauses and elections do.
//   - An entry stamped under one leadership and logged under another is void.
//   - A read is answered only after a majority has confirmed, to a question asked
//     after the read arrived, that no later leader exists.
//   - What happened to a request has three names, never mixed: done, certainly not
//     done (tried again), unknown (told to the client, never tried again).
//   - An entry that cannot be read stops the node. Stopping beats diverging.
//
// The files in reading order; with few exceptions each uses only what stands behind it:
//
//	node.go                           Node: its parts, how they start and stop
//	sentinel, table*                  what clients are told, and commands about the cluster
//	fsm                               an entry of the log arrives
//	block, do, indoubt, recall        a request's way, and what became of it
//	leases                            what is left of clients' locks
//	member, topology, lead            members, who leads as clients see it, elections
//	transport, announce               Raft's messages
//	read, propose, replicate          read rounds, the door to the log, AppendEntries
//	state, members, rules, snapshot   the machine and its lock, who may take part, images
//	starts, roster, entry             what is stored
//	raft, config, clock               what all parts have in common
//
// DESIGN.md gives the reasons, the lock order and the goroutines.
package cluster
