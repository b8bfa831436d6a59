// Package founding finds a cluster for an empty node without a list of members: the one that is there, or one that it
// founds with other empty nodes by promises. Its law: whatever the nodes hear of each other, in whatever order and over
// restarts, fewer than twice as many nodes as are expected found one cluster at most.
//
// It knows no node: who is at an address, and what founding and joining are, a Finder is told. The proof is in
// ../DESIGN.md, "Founding without a list".
package founding
