// Package witness looks at the commands of sessions for what is wrong with the locks of their programs, as
// far as the log does not tell: what was only read, refused or found gone. It judges little: most of what
// it sees LOCKS DOCTOR compares with the log (package keyspace/doctor). Its law:
//
//   - It changes nothing, and what it remembers is bounded, for each session and in all.
//   - A session that uses no locks pays for a look at a pointer. One that does takes a lock of its own,
//     which nobody else wants but LOCKS DOCTOR, and no memory for each command.
//   - It reads no clock.
package witness
