package server

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"lockd/resp"
	"lockd/resp/server/stats"
)

// Info reports the sections of INFO that are about this process and its clients.
func (s *Server) Info() []resp.Section {
	figures := s.index.figures
	return []resp.Section{s.infoServer(), s.infoClients(), s.infoMemory(), s.infoStats(), stats.CPUSection(),
		figures.Section(), s.stats.ErrorSection(), figures.LatencySection()}
}

func (s *Server) infoServer() resp.Section {
	var l stats.Lines
	now := s.clock()
	up := int64(now.Sub(s.started) / time.Second)
	l.Text("redis_version", redisVersion)
	l.Text("redis_git_sha1", "00000000")
	l.Text("redis_git_dirty", "0")
	l.Text("redis_build_id", "0")
	l.Text("lockd_version", s.version)
	l.Text("redis_mode", s.profile.mode)
	l.Text("os", stats.OSName())
	l.Text("arch_bits", strconv.Itoa(strconv.IntSize))
	l.Text("multiplexing_api", "epoll")
	l.Text("go_version", runtime.Version())
	l.Number("process_id", int64(os.Getpid()))
	l.Text("process_supervised", "no")
	l.Text("run_id", s.runID)
	l.Text("tcp_port", s.local["port"])
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

func (s *Server) infoClients() resp.Section {
	var l stats.Lines
	list := s.clients()
	var waiting, subscribed, tracking, blocked, inputMax, outputMax int64
	for _, c := range list {
		if c.waits() {
			blocked++
		} else if c.kind() == phaseRunning {
			waiting++
		}
		if c.subscribed() {
			subscribed++
		}
		if c.trackFlags.Load()&flagTracks != 0 {
			tracking++
		}
		inputMax = max(inputMax, c.inputBytes.Load())
		outputMax = max(outputMax, int64(c.out.Waiting()))
	}
	l.Number("connected_clients", int64(len(list)))
	l.Number("cluster_connections", 0)
	l.Number("maxclients", min(s.hub.settings.clientsMax.Load(), s.seats.Max()))
	l.Number("client_recent_max_input_buffer", inputMax)
	l.Number("client_recent_max_output_buffer", outputMax)
	l.Number("blocked_clients", blocked)
	l.Number("executing_clients", waiting)
	l.Number("tracking_clients", tracking)
	l.Number("pubsub_clients", subscribed)
	l.Number("clients_in_timeout_table", 0)
	return resp.Section{Name: "Clients", Fields: l}
}

func (s *Server) infoMemory() resp.Section {
	buffers := s.held.Load()
	for _, c := range s.clients() {
		buffers += c.inputBytes.Load() + int64(c.out.Waiting())
	}
	return stats.MemorySection(buffers)
}

func (s *Server) infoStats() resp.Section {
	s.hub.mu.Lock()
	channels, patterns, shards := len(s.hub.channels), len(s.hub.byGlob), len(s.hub.shards)
	keys, items, prefixes := s.hub.tracking.Sizes()
	s.hub.mu.Unlock()
	var l stats.Lines
	l.Number("pubsub_channels", int64(channels))
	l.Number("pubsub_patterns", int64(patterns))
	l.Number("pubsubshard_channels", int64(shards))
	l.Number("tracking_total_keys", int64(keys))
	l.Number("tracking_total_items", int64(items))
	l.Number("tracking_total_prefixes", int64(prefixes))
	return s.stats.Section(l)
}
