// Package founding finds a cluster for an empty node: with a list of members one that it founds with all of them, without
// one that which is there, or one that it founds with other empty nodes. They found it by promises. Its law: whatever the
// nodes hear of each other, in whatever order and over restarts, fewer than twice as many nodes as are expected found one
// cluster at most, and a list founds no other one as long as one of its folders has data.
//
// It knows no node: who is at an address, and what founding and joining are, a Finder is told. The proof is in
// ../DESIGN.md, "Founding".
package founding
