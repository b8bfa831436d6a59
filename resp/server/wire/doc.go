// Package wire reads and writes the bytes of one connection: Input turns input into whole commands, and replies and
// pushes go out through one Outbox. It knows no session and runs no command. Its law:
//
//   - Input passes the guard before the parser: every length, count and total has a limit with a name (limits.go).
//   - A publisher never waits: Push appends, or reports that the client is too slow.
//   - Pending output is bounded.
//
// DESIGN.md of resp gives the reasons.
package wire
