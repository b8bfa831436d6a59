// Package pubsub delivers published messages, and other pushes, to the clients of this node that subscribe. Its law:
//
//   - Publishing never waits, neither for subscribers nor for the matching of patterns: the goroutine that applies the
//     log adds to a queue. A subscriber that is too slow is dropped.
//   - A subscriber gets messages, other pushes and its replies in one order: that of the log.
//   - What a subscription's confirmation precedes, it gets; what came before, it does not.
//
// A Broker has the subscribers of a node, and a Subscriber the subscriptions of one connection. The package knows no
// session, only a Conn. DESIGN.md of resp, "The hub", has the reasons.
package pubsub
