package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreLogs is one durable append of entries of 256 bytes.
func BenchmarkStoreLogs(b *testing.B) {
	for _, kind := range []string{WAL, BoltDB} {
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
