// Package stats keeps the figures of one server: what its connections did, what each command
// took, which were slow. It knows no session, and writes figures as INFO, SLOWLOG and LATENCY
// show them. Its law:
//
//   - What clients can make it keep is bounded: error kinds, slow commands and their arguments,
//     spikes.
//   - To count takes no lock, but for errors and for what is slow.
//
// Everything in it may be called concurrently, unless it says otherwise.
package stats
