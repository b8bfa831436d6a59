package stats

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"lockd/resp"
)

// Limits of what is stored.
const (
	slowlogLenMax      = 1 << 14
	slowlogArgsMax     = 32  // arguments kept of a slow command
	slowlogArgBytesMax = 128 // bytes kept of each
	latencySamplesMax  = 160 // samples kept of one event
	errorKindsMax      = 128 // kinds of error counted apart
)

// Totals counts the traffic of the connections of a server.
type Totals struct {
	Connections        atomic.Int64
	Rejected           atomic.Int64 // refused connections
	Protected          atomic.Int64 // of them, those refused by protected mode
	WrongPasswords     atomic.Int64
	Commands           atomic.Int64
	InputBytes         atomic.Int64
	OutputBytes        atomic.Int64
	Reads              atomic.Int64 // of sockets
	Writes             atomic.Int64
	SubscribersDropped Drops
	errorReplies       atomic.Int64

	mu     sync.Mutex
	errors map[string]int64 // by the first word of the error

	commandRate, inputRate, outputRate rate
}

// DropReason is the reason for disconnecting a client with subscriptions: it missed messages, or would have.
type DropReason int

// The reasons.
const (
	DropSlow    DropReason = iota // its outbox was full
	DropMissed                    // more messages waited than this node keeps
	DropPattern                   // its pattern took too long to match
	DropUnsure                    // this node may have missed messages itself
	dropReasons
)

// Drops counts dropped clients by reason.
type Drops [dropReasons]atomic.Int64

// Add counts one client.
func (d *Drops) Add(why DropReason) { d[why].Add(1) }

// Load returns the number of all reasons together.
func (d *Drops) Load() (n int64) {
	for i := range d {
		n += d[i].Load()
	}
	return n
}

// CountError counts an error reply by its first word.
func (t *Totals) CountError(r resp.Reply) {
	t.errorReplies.Add(1)
	kind, _, _ := strings.Cut(r.Str, " ")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.errors == nil {
		t.errors = map[string]int64{}
	}
	if _, known := t.errors[kind]; !known && len(t.errors) >= errorKindsMax && !slices.Contains(errorCodes, kind) {
		return
	}
	t.errors[strings.Clone(kind)]++
}

// Sample measures the rates of growth. It is called regularly, with the seconds since the last call.
func (t *Totals) Sample(seconds float64) {
	t.commandRate.sample(t.Commands.Load(), seconds)
	t.inputRate.sample(t.InputBytes.Load(), seconds)
	t.outputRate.sample(t.OutputBytes.Load(), seconds)
}

// Reset sets all figures to 0 (CONFIG RESETSTAT).
func (t *Totals) Reset() {
	for _, n := range []*atomic.Int64{&t.Connections, &t.Rejected, &t.Protected, &t.WrongPasswords, &t.Commands,
		&t.InputBytes, &t.OutputBytes, &t.Reads, &t.Writes, &t.errorReplies} {
		n.Store(0)
	}
	for i := range t.SubscribersDropped {
		t.SubscribersDropped[i].Store(0)
	}
	t.mu.Lock()
	t.errors = nil
	t.mu.Unlock()
}

// Section returns INFO's section Stats. sizes, of Pub/Sub and tracking, go in the middle of it.
func (t *Totals) Section(sizes Lines) resp.Section {
	var l Lines
	l.Number("total_connections_received", t.Connections.Load())
	l.Number("total_commands_processed", t.Commands.Load())
	l.Number("instantaneous_ops_per_sec", int64(t.commandRate.perSecond()))
	l.Number("total_net_input_bytes", t.InputBytes.Load())
	l.Number("total_net_output_bytes", t.OutputBytes.Load())
	l.Text("instantaneous_input_kbps", decimals(t.inputRate.perSecond()/1024, 2))
	l.Text("instantaneous_output_kbps", decimals(t.outputRate.perSecond()/1024, 2))
	l.Number("total_reads_processed", t.Reads.Load())
	l.Number("total_writes_processed", t.Writes.Load())
	l.Number("rejected_connections", t.Rejected.Load())
	l.Number("sync_full", 0)
	l.Number("sync_partial_ok", 0)
	l.Number("sync_partial_err", 0)
	l.Number("evicted_clients", 0)
	l.Number("total_forks", 0)
	l.Number("latest_fork_usec", 0)
	l = append(l, sizes...)
	l.Number("client_output_buffer_limit_disconnections", t.SubscribersDropped[DropSlow].Load())
	l.Number("subscribers_dropped_missed", t.SubscribersDropped[DropMissed].Load())
	l.Number("subscribers_dropped_pattern", t.SubscribersDropped[DropPattern].Load())
	l.Number("subscribers_dropped_unsure", t.SubscribersDropped[DropUnsure].Load())
	l.Number("total_error_replies", t.errorReplies.Load())
	l.Number("unexpected_error_replies", 0)
	return resp.Section{Name: "Stats", Fields: l}
}

// ErrorSection returns INFO's section Errorstats, by name.
func (t *Totals) ErrorSection() resp.Section {
	t.mu.Lock()
	defer t.mu.Unlock()
	kinds := make([]string, 0, len(t.errors))
	for kind := range t.errors {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	var l Lines
	for _, kind := range kinds {
		l.Text("errorstat_"+kind, "count="+strconv.FormatInt(t.errors[kind], 10))
	}
	return resp.Section{Name: "Errorstats", Fields: l}
}

// rate estimates the growth of a figure per second, from its last samples.
type rate struct {
	mu      sync.Mutex
	last    int64
	samples [16]float64
	next    int
}

func (r *rate) sample(sum int64, seconds float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seconds > 0 {
		r.samples[r.next%len(r.samples)] = max(0, float64(sum-r.last)/seconds)
		r.next++
	}
	r.last = sum
}

func (r *rate) perSecond() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := 0.0
	for _, s := range r.samples {
		sum += s
	}
	return sum / float64(len(r.samples))
}
