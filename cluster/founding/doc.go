// Package founding finds a cluster for an empty node. With a list of members, the node founds a cluster together with
// all of them. Without a list, it joins a cluster that exists, or founds one with other empty nodes, by promises. Its
// law: whatever the nodes hear of each other, in whatever order and over restarts, fewer than twice the expected number
// of nodes found at most one cluster, and a list founds no second cluster while one of its folders has data.
//
// The package does not know Node: a Finder gets the functions that look up nodes, found and join. The proof is in
// ../DESIGN.md, "Founding".
package founding
