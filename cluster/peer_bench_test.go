package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkForward is the round trip of a small request over loopback TCP.
func BenchmarkForward(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			pb := startPeers(b, TCPNetwork{}, "b", "127.0.0.1:0", &fakePeer{})
			pa := startPeers(b, TCPNetwork{}, "a", "127.0.0.1:0", &fakePeer{})
			defer pb.close()
			defer pa.close()
			req, addr := command("set", "lock:resource", "0123456789abcdef", "NX", "PX", "30000"), pb.listenAddr()
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan struct{})
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				go func() {
					for left.Add(-1) >= 0 {
						if o, _ := pa.forward(context.Background(), addr, req); o != outcomeDone {
							b.Error(o)
						}
					}
					done <- struct{}{}
				}()
			}
			for range callers {
				<-done
			}
		})
	}
}

// BenchmarkStoreLogs is one durable append of entries of 256 bytes.
func BenchmarkStoreLogs(b *testing.B) {
	for _, kind := range []string{logStoreWAL, logStoreBoltDB} {
		for _, batch := range []uint64{1, 64} {
			b.Run(fmt.Sprintf("store=%s/entries=%d", kind, batch), func(b *testing.B) {
				d, s := openTestStores(b, filepath.Join(b.TempDir(), "data"), kind)
				defer closeTestStores(b, d, s)
				next, data := uint64(1), make([]byte, 256)
				b.ReportAllocs()
				for b.Loop() {
					logs := make([]*raft.Log, batch)
					for i := range logs {
						logs[i] = &raft.Log{Index: next, Term: 1, Data: data}
						next++
					}
					if err := s.Log.StoreLogs(logs); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
