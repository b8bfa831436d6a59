package keyspace

import (
	"strconv"
	"testing"

	"lockd/resp"
)

// BenchmarkSweep ends sweepMax leases by one entry, as one entry does when many end in
// the same moment; another million goes on.
func BenchmarkSweep(b *testing.B) {
	for _, others := range []int{0, 1_000_000} {
		b.Run("others="+strconv.Itoa(others), func(b *testing.B) {
			m := filled(b, others)
			tick, index := int64(1), uint64(others)
			for b.Loop() {
				b.StopTimer()
				for i := range sweepMax {
					index++
					m.Apply(resp.Stamp{Tick: tick, Index: index}, []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{"SET", "ends" + strconv.Itoa(i), "token", "PX", "10"}}}}})
				}
				before := m.state.Stats.ExpiredKeys
				tick, index = tick+20, index+1
				b.StartTimer()
				m.Apply(resp.Stamp{Tick: tick, Index: index}, nil)
				if n := m.state.Stats.ExpiredKeys - before; n != sweepMax {
					b.Fatalf("%d leases ended, want %d", n, sweepMax)
				}
			}
		})
	}
}
