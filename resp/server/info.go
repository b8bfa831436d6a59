package server

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockd/resp"
)

// Info reports the sections of INFO that are about this process and its clients.
func (s *Server) Info() []resp.Section {
	return []resp.Section{s.infoServer(), s.infoClients(), s.infoMemory(), s.infoStats(), infoCPU(),
		s.infoCommands(), s.infoErrors(), s.infoLatency()}
}

// fields gathers the lines of a section.
type fields []resp.Field

func (f *fields) text(name, value string)     { *f = append(*f, resp.Field{Name: name, Value: value}) }
func (f *fields) number(name string, n int64) { f.text(name, strconv.FormatInt(n, 10)) }

func (s *Server) infoServer() resp.Section {
	var f fields
	now := s.clock()
	up := int64(now.Sub(s.started) / time.Second)
	f.text("redis_version", redisVersion)
	f.text("redis_git_sha1", "00000000")
	f.text("redis_git_dirty", "0")
	f.text("redis_build_id", "0")
	f.text("lockd_version", s.version)
	f.text("redis_mode", s.profile.mode)
	f.text("os", osName())
	f.text("arch_bits", strconv.Itoa(strconv.IntSize))
	f.text("multiplexing_api", "epoll")
	f.text("go_version", runtime.Version())
	f.number("process_id", int64(os.Getpid()))
	f.text("process_supervised", "no")
	f.text("run_id", s.runID)
	f.text("tcp_port", s.local["port"])
	f.number("server_time_usec", now.UnixMicro())
	f.number("uptime_in_seconds", up)
	f.number("uptime_in_days", up/86400)
	f.number("hz", int64(time.Second/janitorEvery))
	f.number("configured_hz", int64(time.Second/janitorEvery))
	f.number("lru_clock", now.Unix()&(1<<24-1))
	f.text("executable", executable())
	f.text("config_file", "")
	f.text("io_threads_active", "0")
	return resp.Section{Name: "Server", Fields: f}
}

func executable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

func (s *Server) infoClients() resp.Section {
	var f fields
	list := s.clients()
	waiting, subscribed, tracking, blocked, inputMax, outputMax := int64(0), int64(0), int64(0), int64(0), int64(0), int64(0)
	for _, c := range list {
		if c.waits() {
			blocked++
		} else if c.phase.Load()%phaseKinds == phaseRunning {
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
	f.number("connected_clients", int64(len(list)))
	f.number("cluster_connections", 0)
	f.number("maxclients", min(s.hub.settings.clientsMax.Load(), s.seats.Max()))
	f.number("client_recent_max_input_buffer", inputMax)
	f.number("client_recent_max_output_buffer", outputMax)
	f.number("blocked_clients", blocked)
	f.number("executing_clients", waiting)
	f.number("tracking_clients", tracking)
	f.number("pubsub_clients", subscribed)
	f.number("clients_in_timeout_table", 0)
	return resp.Section{Name: "Clients", Fields: f}
}

// infoMemory reports what the Go runtime holds and what the kernel has given.
// used_memory itself, which maxmemory bounds, is that of the data: the backend's.
func (s *Server) infoMemory() resp.Section {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(samples)
	used, total := int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64())
	rss, system := residentBytes(), systemBytes()
	buffers := s.held.Load()
	for _, c := range s.clients() {
		buffers += c.inputBytes.Load() + int64(c.out.Waiting())
	}
	var f fields
	f.number("used_memory_rss", rss)
	f.text("used_memory_rss_human", human(rss))
	f.number("total_system_memory", system)
	f.text("total_system_memory_human", human(system))
	f.number("allocator_allocated", used)
	f.number("allocator_active", total)
	f.number("allocator_resident", rss)
	f.text("allocator_frag_ratio", ratio(total, used))
	f.number("allocator_frag_bytes", total-used)
	f.text("allocator_rss_ratio", ratio(rss, total))
	f.number("allocator_rss_bytes", rss-total)
	f.text("mem_fragmentation_ratio", ratio(rss, used))
	f.number("mem_fragmentation_bytes", rss-used)
	f.number("mem_not_counted_for_evict", 0)
	f.number("mem_clients_normal", buffers)
	f.number("mem_clients_slaves", 0)
	f.number("active_defrag_running", 0)
	f.number("lazyfree_pending_objects", 0)
	f.number("go_heap_bytes", used)
	f.number("go_total_bytes", total)
	f.text("mem_allocator", "go")
	return resp.Section{Name: "Memory", Fields: f}
}

// residentBytes reads the resident set from the kernel; 0 where it does not tell.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	words := strings.Fields(string(text))
	if err != nil || len(words) < 2 {
		return 0
	}
	pages, _ := resp.ParseInt(words[1])
	return pages * int64(os.Getpagesize())
}

func ratio(part, whole int64) string {
	return strconv.FormatFloat(float64(part)/float64(max(whole, 1)), 'f', 2, 64)
}

// human writes a size as Redis does: 1.23M.
func human(n int64) string {
	units := []string{"B", "K", "M", "G", "T"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return strconv.FormatInt(n, 10) + "B"
	}
	return strconv.FormatFloat(f, 'f', 2, 64) + units[i]
}

func (s *Server) infoStats() resp.Section {
	s.hub.mu.Lock()
	channels, patterns, shards := len(s.hub.channels), len(s.hub.byGlob), len(s.hub.shards)
	keys, items, prefixes := len(s.hub.tracking.readers), s.hub.tracking.items, len(s.hub.tracking.prefixes)
	s.hub.mu.Unlock()
	var f fields
	f.number("total_connections_received", s.stats.connections.Load())
	f.number("total_commands_processed", s.stats.commands.Load())
	f.number("instantaneous_ops_per_sec", int64(s.stats.rate.perSecond()))
	f.number("total_net_input_bytes", s.stats.inputBytes.Load())
	f.number("total_net_output_bytes", s.stats.outputBytes.Load())
	f.text("instantaneous_input_kbps", strconv.FormatFloat(s.stats.inputRate.perSecond()/1024, 'f', 2, 64))
	f.text("instantaneous_output_kbps", strconv.FormatFloat(s.stats.outputRate.perSecond()/1024, 'f', 2, 64))
	f.number("total_reads_processed", s.stats.reads.Load())
	f.number("total_writes_processed", s.stats.writes.Load())
	f.number("rejected_connections", s.stats.rejected.Load())
	f.number("sync_full", 0)
	f.number("sync_partial_ok", 0)
	f.number("sync_partial_err", 0)
	f.number("evicted_clients", 0)
	f.number("total_forks", 0)
	f.number("latest_fork_usec", 0)
	f.number("pubsub_channels", int64(channels))
	f.number("pubsub_patterns", int64(patterns))
	f.number("pubsubshard_channels", int64(shards))
	f.number("tracking_total_keys", int64(keys))
	f.number("tracking_total_items", int64(items))
	f.number("tracking_total_prefixes", int64(prefixes))
	f.number("client_output_buffer_limit_disconnections", s.stats.subscribersDropped.Load())
	f.number("total_error_replies", s.stats.errorReplies.Load())
	f.number("unexpected_error_replies", 0)
	return resp.Section{Name: "Stats", Fields: f}
}

func infoCPU() resp.Section {
	var f fields
	for _, who := range []struct {
		kind   int
		suffix string
	}{{syscall.RUSAGE_SELF, ""}, {syscall.RUSAGE_CHILDREN, "_children"}} {
		var u syscall.Rusage
		if syscall.Getrusage(who.kind, &u) == nil {
			f.text("used_cpu_sys"+who.suffix, seconds(u.Stime))
			f.text("used_cpu_user"+who.suffix, seconds(u.Utime))
		}
	}
	return resp.Section{Name: "CPU", Fields: f}
}

func seconds(t syscall.Timeval) string {
	return strconv.FormatFloat(float64(t.Sec)+float64(t.Usec)/1e6, 'f', 6, 64)
}

func (s *Server) infoCommands() resp.Section {
	var f fields
	for _, c := range s.index.all {
		calls, rejected := c.stats.calls.Load(), c.stats.rejected.Load()
		if calls == 0 && rejected == 0 {
			continue
		}
		micros := c.stats.micros.Load()
		perCall := 0.0
		if calls > 0 {
			perCall = float64(micros) / float64(calls)
		}
		f.text("cmdstat_"+c.spec.Name, "calls="+strconv.FormatInt(calls, 10)+",usec="+strconv.FormatInt(micros, 10)+
			",usec_per_call="+strconv.FormatFloat(perCall, 'f', 2, 64)+",rejected_calls="+strconv.FormatInt(rejected, 10)+
			",failed_calls="+strconv.FormatInt(c.stats.failed.Load(), 10))
	}
	return resp.Section{Name: "Commandstats", Fields: f}
}

func (s *Server) infoErrors() resp.Section {
	var f fields
	kinds, counts := s.stats.errorKinds()
	for i, kind := range kinds {
		f.text("errorstat_"+kind, "count="+strconv.FormatInt(counts[i], 10))
	}
	return resp.Section{Name: "Errorstats", Fields: f}
}

func (s *Server) infoLatency() resp.Section {
	var f fields
	for _, c := range s.index.all {
		if c.stats.calls.Load() > 0 {
			p := func(q float64) string { return strconv.FormatFloat(float64(c.stats.percentile(q)), 'f', 3, 64) }
			f.text("latency_percentiles_usec_"+c.spec.Name, "p50="+p(0.5)+",p99="+p(0.99)+",p99.9="+p(0.999))
		}
	}
	return resp.Section{Name: "Latencystats", Fields: f}
}
