package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockd/cluster/store"
	"lockd/resp"
)

// BenchmarkPropose measures writes through the log, from Do to its return, with
// clients that each wait for their reply; ops/entry is how many shared an entry.
func BenchmarkPropose(b *testing.B) {
	for _, kind := range []string{"memory", store.WAL, store.BoltDB} {
		for _, nodes := range []int{1, 3} {
			for _, clients := range []int{1, 50} {
				b.Run(fmt.Sprintf("store=%s/nodes=%d/clients=%d", kind, nodes, clients), func(b *testing.B) {
					leader, _ := benchCluster(b, kind, nodes, "")
					benchDo(b, leader, clients, resp.Args{"SET", "key", "value", "30000"})
				})
			}
		}
	}
}

// BenchmarkRead measures confirmed reads.
func BenchmarkRead(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, clients := range []int{1, 50} {
			b.Run(fmt.Sprintf("nodes=%d/clients=%d", nodes, clients), func(b *testing.B) {
				leader, _ := benchCluster(b, "memory", nodes, "")
				benchDo(b, leader, clients, resp.Args{"GET", "key"})
			})
		}
	}
}

// BenchmarkPeerSecret measures what it costs three nodes to speak TLS with each other: a
// write to the leader and one that a follower forwards.
func BenchmarkPeerSecret(b *testing.B) {
	for _, at := range []string{"leader", "follower"} {
		for _, clients := range []int{1, 50} {
			for _, secret := range []string{"", testSecret} {
				b.Run(fmt.Sprintf("at=%s/clients=%d/secret=%t", at, clients, secret != ""), func(b *testing.B) {
					n, follower := benchCluster(b, store.WAL, 3, secret)
					if at == "follower" {
						n = follower
					}
					benchDo(b, n, clients, resp.Args{"SET", "lock:resource", "0123456789abcdef", "PX", "30000"})
				})
			}
		}
	}
}

// benchCluster starts nodes that speak TCP, and returns their leader and one of the others.
func benchCluster(b *testing.B, kind string, nodes int, secret string) (leader, follower *Node) {
	b.Helper()
	dir, members := b.TempDir(), map[string]string{}
	for i := range nodes {
		members[fmt.Sprintf("n%d", i+1)] = freeAddr(b)
	}
	var all []*Node
	for id, addr := range members {
		cfg := Config{
			ID: id, PeerListen: addr, Members: members, Dir: filepath.Join(dir, id), LogStore: kind,
			Machine: newTestMachine(), Publisher: &testPublisher{}, Log: slog.New(slog.DiscardHandler),
			PeerSecrets: secrets(secret),
		}
		if kind == "memory" {
			cfg.Disk = newTestDisk(id).disk()
		}
		n, err := Open(cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = n.shutdown() })
		all = append(all, n)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for i, n := range all {
			if n.lead.Held() {
				return n, all[(i+1)%len(all)]
			}
		}
	}
	b.Fatal("no leader")
	return nil, nil
}

func freeAddr(b testing.TB) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func benchDo(b *testing.B, n *Node, clients int, args resp.Args) {
	req := resp.Request{Cmds: []resp.Cmd{{Args: args}}}
	first := n.raft.LastIndex()
	var left atomic.Int64
	left.Store(int64(b.N))
	var running sync.WaitGroup
	b.ResetTimer()
	for range clients {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				if res := n.Do(context.Background(), req); res.Replies[0].IsErr() {
					b.Error(res.Replies[0].Str)
					return
				}
			}
		})
	}
	running.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	if entries := n.raft.LastIndex() - first; entries > 0 {
		b.ReportMetric(float64(b.N)/float64(entries), "ops/entry")
	}
}

// secrets is a list of one secret, or of none.
func secrets(secret string) [][]byte {
	if secret == "" {
		return nil
	}
	return [][]byte{[]byte(secret)}
}
