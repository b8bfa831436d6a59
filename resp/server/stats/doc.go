// Package stats keeps the statistics of one server: traffic of its connections, times of its commands, slow commands.
// It knows no session, and writes figures as INFO, SLOWLOG and LATENCY show them. Its law:
//
//   - Whatever clients can make it store is bounded: error kinds, slow commands and their arguments, spikes.
//   - Counting takes no lock, except for errors and slow commands.
//
// Everything in it is safe for concurrent use, unless stated otherwise.
package stats
