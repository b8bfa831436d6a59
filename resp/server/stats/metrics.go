package stats

import (
	"maps"
	"slices"

	"lockd/resp"
)

// family sums up the statistics of the commands of one family.
type family struct {
	calls, micros, rejected, failed int64
	buckets                         [latencyBuckets]int64
}

// Metrics returns the statistics of commands by their family, the group of the row.
func (l Commands) Metrics() []resp.Metric {
	families := map[string]*family{}
	for _, c := range l {
		f := families[c.family]
		if f == nil {
			f = &family{}
			families[c.family] = f
		}
		f.calls += c.calls.Load()
		f.micros += c.micros.Load()
		f.rejected += c.rejected.Load()
		f.failed += c.failed.Load()
		for i := range c.buckets {
			f.buckets[i] += c.buckets[i].Load()
		}
	}
	of := func(name, help string, kind resp.MetricKind) resp.Metric {
		return resp.Metric{Name: name, Help: help, Kind: kind, Labels: []string{"family"}}
	}
	calls := of("lockd_commands_total", "Commands that were executed, or failed.", resp.Counter)
	failed := of("lockd_command_errors_total", "Commands that were answered with an error.", resp.Counter)
	rejected := of("lockd_commands_rejected_total", "Commands that were refused before they ran.", resp.Counter)
	took := of("lockd_command_duration_seconds", "From a command to its answer, with the wait for the commit and "+
		"without that for a lock; commands of a pipeline share their time.", resp.Histogram)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		calls.Add(float64(f.calls), name)
		failed.Add(float64(f.failed), name)
		rejected.Add(float64(f.rejected), name)
		took.Of = append(took.Of, resp.Sample{
			Labels: []string{name}, Value: float64(f.micros) / 1e6, Counts: f.buckets[:],
		})
	}
	return []resp.Metric{calls, failed, rejected, took}
}

// errorCodes are the error codes with a counter of their own. Others may have been invented by a script.
var errorCodes = []string{
	"BUSY", "CLUSTERDOWN", "ERR", "EXECABORT", "LOADING", "MASTERDOWN", "MOVED", "NOAUTH", "NOPERM", "NOSCRIPT", "OOM",
	"READONLY", "UNBLOCKED", "UNKNOWN", "WRONGPASS", "WRONGTYPE",
}

// Metrics returns the statistics of connections.
func (t *Totals) Metrics() []resp.Metric {
	denied := resp.Metric{
		Name: "lockd_connections_denied_total", Kind: resp.Counter, Labels: []string{"reason"},
		Help: "Connections that were turned away (limit: there were too many, protected: of another machine, without a " +
			"password), and wrong passwords.",
	}
	dropped := resp.Metric{
		Name: "lockd_subscribers_dropped_total", Kind: resp.Counter, Labels: []string{"reason"},
		Help: "Clients that were disconnected because they missed what they should be told (slow: they did not read, " +
			"missed: more messages waited than a node keeps, pattern: theirs took too long to match, unsure: the node may " +
			"have missed messages).",
	}
	for why, name := range []string{DropSlow: "slow", DropMissed: "missed", DropPattern: "pattern", DropUnsure: "unsure"} {
		dropped.Add(float64(t.SubscribersDropped[why].Load()), name)
	}
	protected := t.Protected.Load()
	denied.Add(float64(max(0, t.Rejected.Load()-protected)), "limit")
	denied.Add(float64(t.WrongPasswords.Load()), "password")
	denied.Add(float64(protected), "protected")
	return []resp.Metric{
		resp.CounterOf("lockd_connections_total", "Connections of clients that were let in.", t.Connections.Load()),
		denied, t.errorMetric(),
		resp.CounterOf("lockd_input_bytes_total", "Bytes that clients have sent.", t.InputBytes.Load()),
		resp.CounterOf("lockd_output_bytes_total", "Bytes that clients were sent.", t.OutputBytes.Load()),
		dropped,
	}
}

// errorMetric returns the number of error replies by code.
func (t *Totals) errorMetric() resp.Metric {
	m := resp.Metric{
		Name: "lockd_error_replies_total", Kind: resp.Counter, Labels: []string{"code"},
		Help: "Errors that clients were answered, by their first word. UNKNOWN: whether a write was done is not known.",
	}
	other := t.errorReplies.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, code := range errorCodes {
		m.Add(float64(t.errors[code]), code)
		other -= t.errors[code]
	}
	m.Add(float64(max(0, other)), "other")
	return m
}
