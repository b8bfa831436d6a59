package process

import (
	"fmt"
	"path/filepath"
	"strings"

	"lockd/internal/freeport"
)

// Node is a node of lockd to be started.
type Node struct {
	ID   string
	Addr string   // for clients
	Dir  string   // its data folder
	Args []string // of lockd; more may be appended
}

// Cluster lays out n nodes on loopback that form a cluster. Their ids, and their data folders in dir, are the prefix
// and a number from 1 on.
func Cluster(dir, prefix string, n int) ([]Node, error) {
	addrs, err := freeport.Addrs("127.0.0.1", 2*n)
	if err != nil {
		return nil, err
	}
	clients, peers := addrs[:n], addrs[n:]
	nodes, members := make([]Node, n), make([]string, n)
	for i := range nodes {
		id := fmt.Sprintf("%s%d", prefix, i+1)
		members[i] = id + "=" + peers[i]
		nodes[i] = Node{ID: id, Addr: clients[i], Dir: filepath.Join(dir, id)}
	}
	for i := range nodes {
		at := &nodes[i]
		at.Args = []string{"serve", "--id", at.ID, "--listen", at.Addr, "--peer-listen", peers[i], "--dir", at.Dir,
			"--cluster", strings.Join(members, ",")}
	}
	return nodes, nil
}
