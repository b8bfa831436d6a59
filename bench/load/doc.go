// Package load measures servers that speak Redis's protocol side by side: `bench
// run`. It measures etcd too, where it is given a connection (interface Etcd).
//
// Its law: a figure is worth nothing if it was paid for by something else. So every
// reply is checked and not only counted; the targets are measured in turn, round by
// round, so that a drift of the machine hits all alike; what a server promises (its
// version, how it syncs) stands above the figures; and the path of an operation
// allocates nothing, since the load shares the machine's cores with what it loads.
//
// A workload is a row of a table (workload.go) with a function for each protocol. It
// knows nothing of time: measure.go calls it in a loop and keeps the clock.
//
// Module lockd/bench, in the folder bench of the repository, has etcd's client, and
// starts servers: `make bench-peers` and `make bench-scale`. Go's own benchmarks are held against those
// of a commit by `make bench-compare`.
package load
