package stats

import (
	"slices"
	"sync"
	"time"

	"lockd/resp"
)

// Latency records the spikes of a server: commands that took longer than the setting latency-monitor-threshold, under
// Redis's event names. As in Redis it keeps at most one sample a second, the worst.
type Latency struct {
	mu     sync.Mutex
	events [2]latencyEvent // command, fast-command
}

type latencyEvent struct {
	samples []latencySample // oldest first
	maxMs   int64           // since the last reset
}

type latencySample struct{ unix, ms int64 }

var latencyNames = [2]string{"command", "fast-command"}

// Add adds a spike of ms milliseconds. fast: the command has Redis's flag fast.
func (l *Latency) Add(fast bool, start time.Time, ms int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.events[0]
	if fast {
		e = &l.events[1]
	}
	e.maxMs = max(e.maxMs, ms)
	at := start.Unix()
	if n := len(e.samples); n > 0 && e.samples[n-1].unix == at {
		e.samples[n-1].ms = max(e.samples[n-1].ms, ms)
		return
	}
	e.samples = append(e.samples, latencySample{at, ms})
	if extra := len(e.samples) - latencySamplesMax; extra > 0 {
		e.samples = append(e.samples[:0], e.samples[extra:]...)
	}
}

// Latest returns the answer of LATENCY LATEST.
func (l *Latency) Latest() resp.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []resp.Reply{}
	for i := range l.events {
		e := &l.events[i]
		if n := len(e.samples); n > 0 {
			list = append(list, resp.Array(resp.Bulk(latencyNames[i]),
				resp.Int(e.samples[n-1].unix), resp.Int(e.samples[n-1].ms), resp.Int(e.maxMs)))
		}
	}
	return resp.Array(list...)
}

// History returns the answer of LATENCY HISTORY.
func (l *Latency) History(event string) resp.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := []resp.Reply{}
	for i := range l.events {
		if !resp.Is(event, latencyNames[i]) {
			continue
		}
		for _, p := range l.events[i].samples {
			list = append(list, resp.Array(resp.Int(p.unix), resp.Int(p.ms)))
		}
	}
	return resp.Array(list...)
}

// Reset removes the samples of the named events, or of all if none is named. It returns how many events had samples.
func (l *Latency) Reset(events []string) (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.events {
		named := len(events) == 0 ||
			slices.ContainsFunc(events, func(word string) bool { return resp.Is(word, latencyNames[i]) })
		if named && len(l.events[i].samples) > 0 {
			l.events[i] = latencyEvent{}
			n++
		}
	}
	return n
}
