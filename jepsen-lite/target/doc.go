// Package target builds the cluster under test, starts it as real processes, and breaks it.
//
// Its law: everything runs on loopback as an ordinary user. Every byte between two
// nodes, and between a client and a node, passes a Proxy that this package owns,
// and obeys the Link of its direction: a partition is a Link that holds bytes back.
// What is held back arrives late and is never lost in the middle of a stream, as
// with TCP; what is reset is gone with its connection. A Proxy refuses while nobody listens
// behind it. Processes are killed with
// SIGKILL and paused with SIGSTOP. A process that ends without having been told to
// is a finding.
package target
