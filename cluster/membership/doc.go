// Package membership decides which nodes may take part in a cluster: it holds the members as the log and the snapshots
// have them (roster.go), compares the rules that all nodes must share (rules.go), and detects a data folder that is an
// old copy (starts.go). Its law: a node that has forgotten a promise, or would apply the log with another result, is
// refused, with a sentence for its operator.
//
// It knows neither Node nor the network; a node introduces itself as a peer.Identity.
package membership
