package server

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"lockd/resp"
	"lockd/resp/server/stats"
)

// Info returns the sections of INFO on this process and its clients.
func (s *Server) Info() []resp.Section {
	figures := s.index.figures
	return []resp.Section{s.infoServer(), s.infoClients(), s.infoMemory(), s.infoStats(), stats.CPUSection(),
		figures.Section(), s.stats.ErrorSection(), figures.LatencySection()}
}

func (s *Server) infoServer() resp.Section {
	var l stats.Lines
	now := s.clock()
	up := int64(now.Sub(s.started) / time.Second)
	port, _ := s.settings.Value("port")
	l.Text("redis_version", redisVersion)
	l.Text("redis_git_sha1", "00000000")
	l.Text("redis_git_dirty", "0")
	l.Text("redis_build_id", "0")
	l.Text("lockd_release", s.version)
	l.Text("redis_mode", s.profile.mode)
	l.Text("os", stats.OSName())
	l.Text("arch_bits", strconv.Itoa(strconv.IntSize))
	l.Text("multiplexing_api", "epoll")
	l.Text("go_release", runtime.Version()) // programs take what ends with _version for a number
	l.Number("process_id", int64(os.Getpid()))
	l.Text("process_supervised", "no")
	l.Text("run_id", s.runID)
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

// clientsMax returns how many clients may be connected, regardless of file descriptors.
func (s *Server) clientsMax() int64 {
	if own := s.settings.ClientsMax(); own > 0 {
		return own
	}
	return s.hub.settings.ClientsMax.Load()
}

// census counts the clients by what they are doing, and their buffers.
type census struct {
	clients, limit                           int64
	executing, blocked, subscribed, tracking int64
	buffers, inputMax, outputMax             int64 // bytes
}

func (s *Server) census() census {
	list := s.clients()
	n := census{
		clients: int64(len(list)), limit: min(s.clientsMax(), s.seats.Max()), buffers: s.held.Load(),
	}
	for _, c := range list {
		if c.waits() {
			n.blocked++
		} else if c.kind() == phaseRunning {
			n.executing++
		}
		if c.sub.Subscribes() {
			n.subscribed++
		}
		if c.trackFlags.Load()&flagTracks != 0 {
			n.tracking++
		}
		in, out := c.inputBytes.Load(), int64(c.out.Waiting())
		n.inputMax, n.outputMax, n.buffers = max(n.inputMax, in), max(n.outputMax, out), n.buffers+in+out
	}
	return n
}

func (s *Server) infoClients() resp.Section {
	var l stats.Lines
	n := s.census()
	l.Number("connected_clients", n.clients)
	l.Number("cluster_connections", 0)
	l.Number("maxclients", n.limit)
	l.Number("client_recent_max_input_buffer", n.inputMax)
	l.Number("client_recent_max_output_buffer", n.outputMax)
	l.Number("blocked_clients", n.blocked)
	l.Number("executing_clients", n.executing)
	l.Number("tracking_clients", n.tracking)
	l.Number("pubsub_clients", n.subscribed)
	l.Number("clients_in_timeout_table", 0)
	return resp.Section{Name: "Clients", Fields: l}
}

// Metrics returns the figures of INFO as metrics, for monitoring.
func (s *Server) Metrics() []resp.Metric {
	n := s.census()
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
			"file descriptors for.", n.limit),
		resp.GaugeOf("lockd_clients_subscribed", "Clients that are subscribed to something.", n.subscribed),
		resp.GaugeOf("lockd_clients_tracking", "Clients that cache keys (CLIENT TRACKING).", n.tracking),
		resp.GaugeOf("lockd_client_buffer_bytes", "Bytes that clients have sent and not yet been served, have queued, "+
			"or have not yet read.", n.buffers),
	}
	list = append(list, s.index.figures.Metrics()...)
	return append(list, s.stats.Metrics()...)
}

func (s *Server) infoMemory() resp.Section { return stats.MemorySection(s.census().buffers) }

func (s *Server) infoStats() resp.Section {
	channels, patterns, shards := s.hub.broker.Sizes()
	s.hub.broker.Lock()
	keys, items, prefixes := s.hub.tracking.Sizes()
	s.hub.broker.Unlock()
	var l stats.Lines
	l.Number("pubsub_channels", int64(channels))
	l.Number("pubsub_patterns", int64(patterns))
	l.Number("pubsubshard_channels", int64(shards))
	l.Number("tracking_total_keys", int64(keys))
	l.Number("tracking_total_items", int64(items))
	l.Number("tracking_total_prefixes", int64(prefixes))
	return s.stats.Section(l)
}
