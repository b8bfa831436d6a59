package peer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkForward is the round trip of a small request over loopback TCP.
func BenchmarkForward(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			pb := startPeers(b, TCPNetwork{}, "b", "127.0.0.1:0", &fakePeer{})
			pa := startPeers(b, TCPNetwork{}, "a", "127.0.0.1:0", &fakePeer{})
			defer pb.Close()
			defer pa.Close()
			req, addr := command("set", "lock:resource", "0123456789abcdef", "NX", "PX", "30000"), pb.ListenAddr()
			var left atomic.Int64
			left.Store(int64(b.N))
			done := make(chan struct{})
			b.ReportAllocs()
			b.ResetTimer()
			for range callers {
				go func() {
					for left.Add(-1) >= 0 {
						if o, _ := forward(context.Background(), pa, addr, req); o != Done {
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
