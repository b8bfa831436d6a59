// Package observer observes the commands of sessions for mistakes with locks that the log does not show: reads,
// refusals, and keys found missing. It judges little itself: LOCKS DOCTOR compares most observations with the log
// (package keyspace/doctor). Its law:
//
//   - It changes nothing, and its memory is bounded, for each session and in all.
//   - A session that uses no locks pays for reading a pointer. One that does takes a mutex of its own, contended only
//     by LOCKS DOCTOR, and allocates no memory for each command.
//   - It reads no clock.
package observer
