// Package cluster makes one machine of several: every node holds the same
// Machine, and a Raft log decides in which order requests change it.
//
// The law of the package:
//
//   - A reply means: committed on a majority's disk, applied here.
//   - There is one door to the log (package request), one place that reads a clock
//     (package clock), one lock around the machine (package replica).
//   - A lease is measured in the log clock, which only entries of the log advance.
//     A new leader goes on from the last tick applied and adds monotonic time of its
//     own: a lease never ends early, whatever clocks, pauses and elections do.
//   - The cluster has one wall clock, the median of the voters' clocks. It never goes back.
//   - An entry stamped under one leadership and logged under another is void.
//   - A read is answered only after a majority has confirmed, to a question asked
//     after the read arrived, that no later leader exists.
//   - What happened to a request has three names, never mixed: done, certainly not
//     done (tried again), unknown (told to the client, never tried again).
//   - An entry that cannot be read stops the node. Stopping beats diverging.
//
// The files, from top to bottom:
//
//	node.go           Node: its parts, how they start and stop, and what is left of clients' locks
//	discover.go       a node comes into a cluster: by a list, by package founding, by package join
//	table.go          commands about the node and the cluster: LOCKD's, and the tables of all
//	table_cluster.go  CLUSTER's
//	table_info.go     INFO, ROLE, WAIT, SAVE and others of Redis's about a server
//	metrics.go        figures for monitoring, and whether a node can serve
//	fsm.go            an entry of the log arrives
//	disk.go           room on disks, and what the log says of it
//	do.go             what a session asks: Do, Block, Await
//	keeper.go         the members in order while this node leads, LOCKD ADD and REMOVE
//	lead.go           elections, and changes of the leader
//	death.go          detecting that the process of a member has ended
//	transport.go      Raft's messages
//	yield.go          yielder: a leader that cannot go on lets another one lead
//	commands.go       what clients may send, and what must not be logged any more
//	level.go          which level is in force, when it rises, and the formats of each
//	replicate.go      AppendEntries is answered, and what is here already
//	members.go        the identity of this node, admission of others, members that do not answer
//	core.go           what all parts share
//	config.go         what a node is given: Config, Disk, Publisher
//
// Each calls those below it. DESIGN.md says which parts use which.
//
// DESIGN.md gives the reasons, the lock order and the goroutines.
package cluster
