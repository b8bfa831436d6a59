package server

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"lockd/resp"
	"lockd/resp/server/settings"
	"lockd/resp/server/stats"
)

// figures tells what is counted in this process, for INFO and for monitoring.
type figures struct {
	version  string // lockd's own
	runID    string
	mode     string
	started  time.Time
	clock    Clock
	settings *settings.Node
	hub      *Hub
	clients  *registry
	limit    func() int64 // of clients
	totals   *stats.Totals
	commands stats.Commands
}

// sections returns the sections of INFO.
func (f *figures) sections() []resp.Section {
	n := f.clients.census()
	return []resp.Section{f.serverSection(), f.clientsSection(n), stats.MemorySection(n.buffers), f.statsSection(),
		stats.CPUSection(), f.commands.Section(), f.totals.ErrorSection(), f.commands.LatencySection()}
}

func (f *figures) serverSection() resp.Section {
	var l stats.Lines
	now := f.clock()
	up := int64(now.Sub(f.started) / time.Second)
	port, _ := f.settings.Value("port")
	l.Text("redis_version", redisVersion)
	l.Text("redis_git_sha1", "00000000")
	l.Text("redis_git_dirty", "0")
	l.Text("redis_build_id", "0")
	l.Text("lockd_release", f.version)
	l.Text("redis_mode", f.mode)
	l.Text("os", stats.OSName())
	l.Text("arch_bits", strconv.Itoa(strconv.IntSize))
	l.Text("multiplexing_api", "epoll")
	l.Text("go_release", runtime.Version()) // programs take what ends with _version for a number
	l.Number("process_id", int64(os.Getpid()))
	l.Text("process_supervised", "no")
	l.Text("run_id", f.runID)
	l.Text("tcp_port", port)
	l.Number("server_time_usec", now.UnixMicro())
	l.Number("uptime_in_seconds", up)
	l.Number("uptime_in_days", up/86400)
	l.Number("hz", int64(time.Second/janitorEvery))
	l.Number("configured_hz", int64(time.Second/janitorEvery))
	l.Number("lru_clock", now.Unix()&(1<<24-1))
	l.Text("executable", stats.Executable())
	l.Text("config_file", "")
	l.Text("io_threads_active", "0")
	return resp.Section{Name: "Server", Fields: l}
}

func (f *figures) clientsSection(n census) resp.Section {
	var l stats.Lines
	l.Number("connected_clients", n.clients)
	l.Number("cluster_connections", 0)
	l.Number("maxclients", f.limit())
	l.Number("client_recent_max_input_buffer", n.inputMax)
	l.Number("client_recent_max_output_buffer", n.outputMax)
	l.Number("blocked_clients", n.blocked)
	l.Number("executing_clients", n.executing)
	l.Number("tracking_clients", n.tracking)
	l.Number("pubsub_clients", n.subscribed)
	l.Number("clients_in_timeout_table", 0)
	return resp.Section{Name: "Clients", Fields: l}
}

// metrics returns the figures for monitoring.
func (f *figures) metrics() []resp.Metric {
	n := f.clients.census()
	doing := resp.Metric{
		Name: "lockd_clients", Labels: []string{"state"},
		Help: "Clients by what they do: blocked ones wait in a blocking command, or for a lock.",
	}
	doing.Add(float64(n.blocked), "blocked")
	doing.Add(float64(n.executing), "executing")
	doing.Add(float64(n.clients-n.blocked-n.executing), "idle")
	list := []resp.Metric{
		doing,
		resp.GaugeOf("lockd_clients_max", "How many clients may be connected: maxclients, or what the process has "+
			"file descriptors for.", f.limit()),
		resp.GaugeOf("lockd_clients_subscribed", "Clients that are subscribed to something.", n.subscribed),
		resp.GaugeOf("lockd_clients_tracking", "Clients that cache keys (CLIENT TRACKING).", n.tracking),
		resp.GaugeOf("lockd_client_buffer_bytes", "Bytes that clients have sent and not yet been served, have queued, "+
			"or have not yet read.", n.buffers),
	}
	list = append(list, f.commands.Metrics()...)
	return append(list, f.totals.Metrics()...)
}

func (f *figures) statsSection() resp.Section {
	channels, patterns, shards := f.hub.broker.Sizes()
	f.hub.broker.Lock()
	keys, items, prefixes := f.hub.tracking.Sizes()
	f.hub.broker.Unlock()
	var l stats.Lines
	l.Number("pubsub_channels", int64(channels))
	l.Number("pubsub_patterns", int64(patterns))
	l.Number("pubsubshard_channels", int64(shards))
	l.Number("tracking_total_keys", int64(keys))
	l.Number("tracking_total_items", int64(items))
	l.Number("tracking_total_prefixes", int64(prefixes))
	return f.totals.Section(l)
}
