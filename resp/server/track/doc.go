// Package track has the table of CLIENT TRACKING: which keys each client may have cached, and
// the invalidations that it gets when they change. It knows no session, only a Conn. Its law:
//
//   - No change is lost: reads are answered by the leader and changes come from this node's log, so
//     either may be first, and both have a place in one order.
//   - Where the changes are not known, the client is told that any key may have changed.
//   - Nothing is sent to a client between the beginning of its request and the reply, but for
//     SendEarly.
//   - Keys, their bytes, prefixes and kept changes are bounded.
//
// One lock of the caller's guards the table, its clients and their answers; what needs no lock
// says so. DESIGN.md of resp, "Tracking", has the races.
package track
