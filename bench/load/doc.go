// Package load measures servers that speak Redis's protocol side by side: `bench
// run`. It measures etcd too, through etcd's own client.
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
// It starts no server: the program around it does, for `make bench-peers` and `make bench-scale`.
package load
