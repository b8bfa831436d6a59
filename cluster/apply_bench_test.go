package cluster

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/hashicorp/raft"

	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/resp"
)

// BenchmarkApply is what the goroutine that applies pays for an entry: to decode it,
// and all around the machine; the machine here does next to nothing.
func BenchmarkApply(b *testing.B) {
	for _, requests := range []int{1, 64} {
		b.Run(fmt.Sprintf("requests=%d", requests), func(b *testing.B) {
			addr := freeAddr(b)
			n, err := Open(Config{
				ID: "n1", PeerListen: addr, Members: map[string]string{"n1": addr}, Dir: b.TempDir(), LogStore: "memory",
				Machine: newTestMachine(), Publisher: &testPublisher{}, Log: slog.New(slog.DiscardHandler),
				Disk: newTestDisk("n1").disk(),
			})
			if err != nil {
				b.Fatal(err)
			}
			if err := n.shutdown(); err != nil { // so that nobody else applies
				b.Fatal(err)
			}
			e := record.Entry{Kind: record.Batch, Term: 1, Tick: 1, Wall: 1}
			for i := range requests {
				e.Reqs = append(e.Reqs, resp.Request{
					Cmds:   []resp.Cmd{{Args: resp.Args{"SET", "lock:resource", "0123456789abcdef"}}},
					Sender: resp.Client{ID: uint64(i), Addr: "127.0.0.1:5000", Node: "n1"}.Sender(),
				})
			}
			log := raft.Log{Term: 1, Data: record.Append(nil, &e)}
			next := n.state.Applied.Load()
			b.ReportAllocs()
			for b.Loop() {
				next++
				log.Index = next
				if a, ok := n.fsm.Apply(&log).(*replica.Applied); !ok || len(a.Results) != requests {
					b.Fatalf("entry %d was not applied", next)
				}
			}
		})
	}
}
