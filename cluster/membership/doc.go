// Package membership judges who may take part in a cluster: the members as the log and the snapshots have them
// (roster.go), what all nodes must have in common (rules.go), and whether a data folder is a copy from before it was
// last seen (starts.go). Its law: a node that has forgotten what it promised, or would apply the log to a different
// end, is refused, with a sentence for its operator.
//
// It knows no node and no network; who introduces himself is a peer.Identity.
package membership
