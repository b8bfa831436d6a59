package keyspace

import (
	"fmt"

	"lockd/resp"
)

// Info reports the machine's sections of INFO, and its part of Stats.
func (m *Machine) Info() []resp.Section {
	return []resp.Section{m.infoMemory(), m.infoStats(), m.infoKeyspace()}
}

// infoMemory reports the estimate that maxmemory is compared with. used_memory itself
// comes first: some tools take the first name that begins so.
func (m *Machine) infoMemory() resp.Section {
	used, most, peak := m.usedBytes(), m.settings.maxMemoryBytes, max(m.seen.peakBytes, m.usedBytes())
	scripts, functions := m.library.bytes, m.functions.bytes
	s := resp.Section{Name: "Memory"}
	add := func(name, value string) { s.Fields = append(s.Fields, resp.Field{Name: name, Value: value}) }
	bytes := func(name string, n int64) {
		add(name, itoa(n))
		add(name+"_human", humanBytes(n))
	}
	bytes("used_memory", used)
	bytes("used_memory_peak", peak)
	add("used_memory_peak_perc", percent(used, peak))
	add("used_memory_overhead", itoa(scripts+functions))
	add("used_memory_startup", "0")
	add("used_memory_dataset", itoa(used-scripts-functions))
	add("used_memory_dataset_perc", percent(used-scripts-functions, used))
	bytes("used_memory_lua", scripts+functions)
	bytes("used_memory_scripts", scripts+functions)
	add("used_memory_scripts_eval", itoa(scripts))
	add("used_memory_functions", itoa(functions))
	add("number_of_cached_scripts", itoa(int64(m.library.bySHA.Len())))
	add("number_of_functions", itoa(int64(m.functions.byName.Len())))
	add("number_of_libraries", itoa(int64(m.functions.libraries.Len())))
	bytes("maxmemory", most)
	add("maxmemory_policy", "noeviction")
	return s
}

func percent(part, whole int64) string {
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(max(whole, 1)))
}

func (m *Machine) infoStats() resp.Section {
	return resp.Section{Name: "Stats", Fields: []resp.Field{
		{Name: "expired_keys", Value: itoa(m.stats.expiredKeys)},
		{Name: "expired_stale_perc", Value: "0.00"},
		{Name: "expired_time_cap_reached_count", Value: "0"},
		{Name: "evicted_keys", Value: "0"},
		{Name: "keyspace_hits", Value: itoa(m.seen.hits)},
		{Name: "keyspace_misses", Value: itoa(m.seen.misses)},
	}}
}

func (m *Machine) infoKeyspace() resp.Section {
	s := resp.Section{Name: "Keyspace"}
	for i, d := range m.dbs {
		if d.keys.len() > 0 {
			s.Fields = append(s.Fields, resp.Field{
				Name:  fmt.Sprintf("db%d", i),
				Value: fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d", d.keys.len(), d.leases.len(), d.averageTTL(m.tick)),
			})
		}
	}
	return s
}

func (d *database) averageTTL(now int64) int64 {
	if d.leases.len() == 0 {
		return 0
	}
	return max(d.leases.averageTick(), now) - now
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
