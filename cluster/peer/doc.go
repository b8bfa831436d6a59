// Package peer connects the nodes of a cluster. Each node has one port for its peers. A new connection first proves and
// introduces both sides and states its purpose; it then carries Raft's messages, a leader's replication, or requests
// and questions with their answers.
//
// The law of the package:
//
//   - Nothing that the other side says is believed before it has proven that it knows the cluster's secret, and nothing
//     is done for it before both sides have accepted each other.
//   - A call is certainly not done until its last byte has left, and unknown from then on until its answer has arrived.
//   - A status question is younger than the call that asks it.
//   - All input is bounded, in bytes, in number and in time, and panics nowhere.
//
// The package does not know Node: a Handler serves its calls. DESIGN.md gives the reasons.
package peer
