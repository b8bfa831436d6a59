package keyspace

import (
	"fmt"
	"strconv"

	"lockd/keyspace/history"
	"lockd/keyspace/state"
	"lockd/keyspace/store"
	"lockd/resp"
)

// The figures that are watched: INFO's, and those of Prometheus.

// Info reports the machine's sections of INFO, and its part of Stats.
func (m *Machine) Info() []resp.Section {
	return []resp.Section{infoMemory(&m.state), infoStats(&m.state), infoKeyspace(m.state.Keys, m.state.Tick)}
}

// infoMemory reports the estimate that maxmemory is compared with. used_memory itself
// comes first: some tools take the first name that begins so.
func infoMemory(s *state.State) resp.Section {
	used, most, peak := s.UsedBytes(), s.Settings.MaxMemoryBytes, max(s.Seen.PeakBytes, s.UsedBytes())
	scripts, functions := s.Library.Bytes(), s.Functions.Bytes()
	section := resp.Section{Name: "Memory"}
	add := func(name, value string) {
		section.Fields = append(section.Fields, resp.Field{Name: name, Value: value})
	}
	bytes := func(name string, n int64) {
		add(name, decimal(n))
		add(name+"_human", humanBytes(n))
	}
	bytes("used_memory", used)
	bytes("used_memory_peak", peak)
	add("used_memory_peak_perc", percent(used, peak))
	add("used_memory_overhead", decimal(scripts+functions))
	add("used_memory_startup", "0")
	add("used_memory_dataset", decimal(used-scripts-functions))
	add("used_memory_dataset_perc", percent(used-scripts-functions, used))
	bytes("used_memory_lua", scripts+functions)
	bytes("used_memory_scripts", scripts+functions)
	add("used_memory_scripts_eval", decimal(scripts))
	add("used_memory_functions", decimal(functions))
	add("number_of_cached_scripts", decimal(int64(s.Library.Len())))
	add("number_of_functions", decimal(int64(s.Functions.Len())))
	add("number_of_libraries", decimal(int64(s.Functions.Libraries())))
	bytes("maxmemory", most)
	add("maxmemory_policy", "noeviction")
	return section
}

func percent(part, whole int64) string {
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(max(whole, 1)))
}

func infoStats(s *state.State) resp.Section {
	return resp.Section{Name: "Stats", Fields: []resp.Field{
		{Name: "expired_keys", Value: decimal(s.Stats.ExpiredKeys)},
		{Name: "expired_stale_perc", Value: "0.00"},
		{Name: "expired_time_cap_reached_count", Value: "0"},
		{Name: "evicted_keys", Value: "0"},
		{Name: "keyspace_hits", Value: decimal(s.Seen.Hits)},
		{Name: "keyspace_misses", Value: decimal(s.Seen.Misses)},
		{Name: "lockd_gifts_forgotten", Value: decimal(s.Waits.Gifts.Forgotten)},
	}}
}

func infoKeyspace(keys *store.Store, tick int64) resp.Section {
	s := resp.Section{Name: "Keyspace"}
	for i, d := range keys.DBs {
		if d.Keys.Len() > 0 {
			s.Fields = append(s.Fields, resp.Field{
				Name:  fmt.Sprintf("db%d", i),
				Value: fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d", d.Keys.Len(), d.Leases.Len(), d.AverageTTL(tick)),
			})
		}
	}
	return s
}

// Metrics returns figures of the state, and of what this node has applied since it was started.
func (m *Machine) Metrics() []resp.Metric {
	s := &m.state
	keys, leases, locks := 0, 0, 0
	for _, d := range s.Keys.DBs {
		keys, leases, locks = keys+d.Keys.Len(), leases+d.Leases.Len(), locks+d.Locks
	}
	events := resp.Metric{
		Name: "lockd_lock_events_total", Kind: resp.Counter, Labels: []string{"event"},
		Help: "What has become of locks, in the words of LOCKS HISTORY, since this node was started.",
	}
	for kind := history.Granted; kind < history.Kinds; kind++ {
		events.Add(float64(s.Seen.Events[kind]), kind.String())
	}
	return []resp.Metric{
		resp.GaugeOf("lockd_keys", "Keys in all databases.", keys),
		resp.GaugeOf("lockd_leases", "Keys that have a lease.", leases),
		resp.GaugeOf("lockd_locks_held", "Locks that are held.", locks),
		resp.GaugeOf("lockd_lock_waiters", "Clients of all nodes that wait in line for a lock.", s.Waits.Line().Len()),
		resp.GaugeOf("lockd_blocked_commands", "Commands of clients of all nodes that wait, those for locks included.",
			s.Waits.Len()),
		resp.CounterOf("lockd_gifts_forgotten_total", "What waiting clients were given, and was forgotten before it was "+
			"known to be delivered, as it was too much or too old, since this node was started.", s.Waits.Gifts.Forgotten),
		events,
		resp.GaugeOf("lockd_last_fence", "The highest fence that was given. It never falls.", s.Keys.LastFence),
		resp.CounterOf("lockd_expired_keys_total", "Keys whose lease has ended, in the life of the cluster.",
			s.Stats.ExpiredKeys),
		resp.CounterOf("lockd_key_hits_total", "Keys that reads on this node have found.", s.Seen.Hits),
		resp.CounterOf("lockd_key_misses_total", "Keys that reads on this node have not found.", s.Seen.Misses),
		resp.GaugeOf("lockd_memory_used_bytes", "What the data take, as maxmemory counts it.", s.UsedBytes()),
		resp.GaugeOf("lockd_memory_max_bytes", "The setting maxmemory; 0: no limit.", s.Settings.MaxMemoryBytes),
	}
}

// humanBytes writes a size as INFO's _human fields do.
func humanBytes(n int64) string {
	units := "BKMGTP"
	if n < 1024 {
		return decimal(n) + "B"
	}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	return fmt.Sprintf("%.2f%c", f, units[u])
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
