// Package settings has the settings that tune the connections of a node: those of the cluster, which are replicated
// (Cluster), and those of the node (Node).
package settings
