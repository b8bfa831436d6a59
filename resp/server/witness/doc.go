// Package witness observes the commands of sessions for what is wrong with the locks of their programs and is
// not in the log: what was only read, refused or found gone. It decides little: LOCKS DOCTOR compares most of
// what it has seen with the log (package keyspace/doctor). Its law:
//
//   - It changes nothing, and what it remembers is bounded, for each session and in all.
//   - A session that uses no locks pays for reading a pointer. One that does takes a lock of its own,
//     which nobody else wants but LOCKS DOCTOR, and no memory for each command.
//   - It reads no clock.
package witness
