// Package peer is how the nodes of a cluster reach each other: one port of each, at which a
// connection first proves itself and says what it is for, and then carries Raft's messages, a
// leader's replication, or requests and questions with their answers.
//
// The law of the package:
//
//   - Nothing that the other side says is believed before it has proven that it knows the
//     cluster's secret, and nothing is done for it before both sides have agreed to the other.
//   - A call is certainly not done until its last byte has left, and unknown from then on until
//     its answer is there.
//   - A status question is younger than the call that asks it.
//   - Whatever comes in is bounded, in bytes, in number and in time, and panics nowhere.
//
// It knows nothing of the node behind a port but what Handler says. DESIGN.md gives the reasons.
package peer
