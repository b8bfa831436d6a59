// Package wire is the bytes of one connection: what arrives becomes whole commands (Input), and
// replies and pushes go out through one Outbox. It knows no session and runs no command. Its law:
//
//   - Nothing reaches the parser before the guard has measured it: every length, count and total
//     has a limit with a name (limits.go).
//   - A publisher never waits: Push appends, or says that the client is too slow.
//   - What waits to be written is bounded.
//
// DESIGN.md of resp gives the reasons.
package wire
