package stats

import (
	"math/bits"
	"strconv"
	"strings"
	"sync/atomic"

	"lockd/resp"
)

// latencyBuckets is the number of buckets of the histogram: bucket i counts durations below 2^i microseconds; the
// last one all longer ones, from some nine minutes on.
const latencyBuckets = 30

// Command has the statistics of one command.
type Command struct {
	name     string
	family   string
	calls    atomic.Int64
	micros   atomic.Int64
	rejected atomic.Int64 // refused before it ran
	failed   atomic.Int64 // answered with an error
	buckets  [latencyBuckets]atomic.Int64
}

// Count counts a call.
func (c *Command) Count(micros int64, failed bool) {
	c.calls.Add(1)
	c.micros.Add(micros)
	c.buckets[min(bits.Len64(uint64(micros)), latencyBuckets-1)].Add(1)
	if failed {
		c.failed.Add(1)
	}
}

// Reject counts a call that was refused before it ran.
func (c *Command) Reject() { c.rejected.Add(1) }

func (c *Command) reset() {
	c.calls.Store(0)
	c.micros.Store(0)
	c.rejected.Store(0)
	c.failed.Store(0)
	for i := range c.buckets {
		c.buckets[i].Store(0)
	}
}

// line returns the command's value in Commandstats; "" if it was never called.
func (c *Command) line() string {
	calls, rejected := c.calls.Load(), c.rejected.Load()
	if calls == 0 && rejected == 0 {
		return ""
	}
	micros := c.micros.Load()
	perCall := 0.0
	if calls > 0 {
		perCall = float64(micros) / float64(calls)
	}
	return "calls=" + strconv.FormatInt(calls, 10) + ",usec=" + strconv.FormatInt(micros, 10) +
		",usec_per_call=" + decimals(perCall, 2) + ",rejected_calls=" + strconv.FormatInt(rejected, 10) +
		",failed_calls=" + strconv.FormatInt(c.failed.Load(), 10)
}

// percentile returns the upper end, in microseconds, of the bucket with the fraction q of calls.
func (c *Command) percentile(q float64) int64 {
	total := int64(0)
	for i := range c.buckets {
		total += c.buckets[i].Load()
	}
	want, seen := int64(q*float64(total)), int64(0)
	for i := range c.buckets {
		if seen += c.buckets[i].Load(); seen > 0 && seen >= want {
			return 1 << i
		}
	}
	return 0
}

// bucketEnd returns the end of a bucket as Redis's histogram has it: a power of two microseconds, and a little more.
func bucketEnd(i int) int64 { return (129<<(i+3) - 1) / 1000 }

// distribution returns the histogram as LATENCY HISTOGRAM shows it: pairs of the end of a bucket and the number of
// calls up to it.
func (c *Command) distribution() []resp.Reply {
	var elems []resp.Reply
	sum := int64(0)
	for i := range c.buckets {
		if n := c.buckets[i].Load(); n > 0 {
			sum += n
			elems = append(elems, resp.Int(bucketEnd(i)), resp.Int(sum))
		}
	}
	return elems
}

// Commands has the statistics of all commands of a server, in the order of its table. The list is complete before it
// is shared.
type Commands []*Command

// Add adds a command. A subcommand is named like "client|list"; family is the group of its row.
func (l *Commands) Add(name, family string) *Command {
	c := &Command{name: name, family: family}
	*l = append(*l, c)
	return c
}

// Reset sets all figures to 0 (CONFIG RESETSTAT).
func (l Commands) Reset() {
	for _, c := range l {
		c.reset()
	}
}

// Section returns INFO's section Commandstats.
func (l Commands) Section() resp.Section {
	var lines Lines
	for _, c := range l {
		if line := c.line(); line != "" {
			lines.Text("cmdstat_"+c.name, line)
		}
	}
	return resp.Section{Name: "Commandstats", Fields: lines}
}

// LatencySection returns INFO's section Latencystats.
func (l Commands) LatencySection() resp.Section {
	var lines Lines
	for _, c := range l {
		if c.calls.Load() > 0 {
			p := func(q float64) string { return decimals(float64(c.percentile(q)), 3) }
			lines.Text("latency_percentiles_usec_"+c.name, "p50="+p(0.5)+",p99="+p(0.99)+",p99.9="+p(0.999))
		}
	}
	return resp.Section{Name: "Latencystats", Fields: lines}
}

// Histogram returns the answer of LATENCY HISTOGRAM: the cumulative distribution of each wanted command that has run.
// Names are in lower case; a container stands for all its subcommands, and an empty map for every command.
func (l Commands) Histogram(wanted map[string]bool) resp.Reply {
	elems := []resp.Reply{}
	for _, c := range l {
		container, _, _ := strings.Cut(c.name, "|")
		if len(wanted) == 0 || wanted[c.name] || wanted[container] {
			if calls := c.calls.Load(); calls > 0 {
				elems = append(elems, resp.Bulk(c.name), resp.Map(resp.Bulk("calls"), resp.Int(calls),
					resp.Bulk("histogram_usec"), resp.Map(c.distribution()...)))
			}
		}
	}
	return resp.Map(elems...)
}
