package stats

import (
	"os"
	"runtime/metrics"
	"strings"

	"lockd/resp"
)

// Executable returns the path of this program; "" if the system does not tell.
func Executable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

// MemorySection returns INFO's section Memory: the memory of the Go runtime and of the process. buffers is the size
// of the clients' buffers in bytes. used_memory, which maxmemory bounds, is the size of the data, so the machine
// reports it.
func MemorySection(buffers int64) resp.Section {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	metrics.Read(samples)
	used, total := int64(samples[0].Value.Uint64()), int64(samples[1].Value.Uint64())
	rss, system := residentBytes(), systemBytes()
	var l Lines
	l.Number("used_memory_rss", rss)
	l.Text("used_memory_rss_human", human(rss))
	l.Number("total_system_memory", system)
	l.Text("total_system_memory_human", human(system))
	l.Number("allocator_allocated", used)
	l.Number("allocator_active", total)
	l.Number("allocator_resident", rss)
	l.Text("allocator_frag_ratio", ratio(total, used))
	l.Number("allocator_frag_bytes", total-used)
	l.Text("allocator_rss_ratio", ratio(rss, total))
	l.Number("allocator_rss_bytes", rss-total)
	l.Text("mem_fragmentation_ratio", ratio(rss, used))
	l.Number("mem_fragmentation_bytes", rss-used)
	l.Number("mem_not_counted_for_evict", 0)
	l.Number("mem_clients_normal", buffers)
	l.Number("mem_clients_slaves", 0)
	l.Number("active_defrag_running", 0)
	l.Number("lazyfree_pending_objects", 0)
	l.Number("go_heap_bytes", used)
	l.Number("go_total_bytes", total)
	l.Text("mem_allocator", "go")
	return resp.Section{Name: "Memory", Fields: l}
}

// residentBytes returns the resident set size; 0 if the kernel does not tell.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	words := strings.Fields(string(text))
	if err != nil || len(words) < 2 {
		return 0
	}
	pages, _ := resp.ParseInt(words[1])
	return pages * int64(os.Getpagesize())
}
