package keyspace

import (
	"fmt"

	"lockd/resp"
)

// Info reports the machine's sections of INFO, and its part of Stats.
func (m *Machine) Info() []resp.Section {
	return []resp.Section{m.infoMemory(), m.infoStats(), m.infoKeyspace()}
}

func (m *Machine) infoMemory() resp.Section {
	used, most := m.usedBytes(), m.settings.maxMemoryBytes
	return resp.Section{Name: "Memory", Fields: []resp.Field{
		{Name: "used_memory", Value: itoa(used)},
		{Name: "used_memory_human", Value: humanBytes(used)},
		{Name: "used_memory_dataset", Value: itoa(used - m.library.bytes)},
		{Name: "used_memory_scripts", Value: itoa(m.library.bytes)},
		{Name: "used_memory_scripts_human", Value: humanBytes(m.library.bytes)},
		{Name: "number_of_cached_scripts", Value: itoa(int64(m.library.bySHA.Len()))},
		{Name: "number_of_functions", Value: "0"},
		{Name: "number_of_libraries", Value: "0"},
		{Name: "maxmemory", Value: itoa(most)},
		{Name: "maxmemory_human", Value: humanBytes(most)},
		{Name: "maxmemory_policy", Value: "noeviction"},
	}}
}

func (m *Machine) infoStats() resp.Section {
	return resp.Section{Name: "Stats", Fields: []resp.Field{
		{Name: "expired_keys", Value: itoa(m.stats.expiredKeys)},
		{Name: "evicted_keys", Value: "0"},
	}}
}

func (m *Machine) infoKeyspace() resp.Section {
	s := resp.Section{Name: "Keyspace"}
	for i, d := range m.dbs {
		if d.keys.len() > 0 {
			s.Fields = append(s.Fields, resp.Field{
				Name:  fmt.Sprintf("db%d", i),
				Value: fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d", d.keys.len(), d.leases.Len(), d.averageTTL(m.tick)),
			})
		}
	}
	return s
}

// ttlSamples is how many leases the average of INFO is taken from, evenly spread.
const ttlSamples = 16

func (d *database) averageTTL(now int64) int64 {
	n := d.leases.Len()
	samples := min(n, ttlSamples)
	var sum float64
	for i := range samples {
		l, _ := d.leases.GetAt(i * n / samples)
		sum += float64(max(0, l.tick-now))
	}
	if samples == 0 {
		return 0
	}
	return int64(sum / float64(samples))
}

// humanBytes writes a size as INFO's _human fields do.
func humanBytes(n int64) string {
	units := "BKMGTP"
	if n < 1024 {
		return itoa(n) + "B"
	}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	return fmt.Sprintf("%.2f%c", f, units[u])
}
