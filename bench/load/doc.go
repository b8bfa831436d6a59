// Package load measures servers that speak Redis's protocol side by side: `bench run`. It also measures etcd, through
// etcd's own client.
//
// Its law: a result must not be bought with something that the report hides. Every reply is checked and not only
// counted; the targets are measured in turn, round by round, so that a drift of the machine affects all alike; the
// promises of a server (its version, how it syncs) stand above the results; and the path of an operation allocates
// nothing, because the load shares the machine's cores with the servers.
//
// A workload is a row of a table (workload.go) with a function for each protocol. Workloads do not measure time:
// measure.go calls them in a loop and keeps the clock.
//
// The package starts no servers: the program around it does, for `make bench-peers` and `make bench-scale`.
package load
