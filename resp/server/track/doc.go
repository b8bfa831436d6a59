// Package track implements the table of CLIENT TRACKING: the keys that each client may have cached, and the
// invalidations when they change. It knows no session, only a Conn. Its law:
//
//   - No change is lost. Reads are answered by the leader and changes come from this node's log, so either may arrive
//     first; both have a place in one order.
//   - If changes are unknown, the client is told that any key may have changed.
//   - No invalidation is sent to a client between the beginning of its request and the reply, except by SendEarly.
//   - Keys, their bytes, prefixes and kept changes are bounded.
//
// A lock of the caller guards the table, its clients and their answers; methods that need no lock say so. DESIGN.md
// of resp, "Tracking", has the races.
package track
