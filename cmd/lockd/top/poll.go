package top

import (
	"context"
	"strconv"
	"strings"
	"time"

	"lockd/internal/client"
	"lockd/internal/locks"
	"lockd/resp"
)

// historyCount is the number of events that the page of a lock shows.
const historyCount = 200

// Reading a million keys keeps a server busy: the pause after a poll is a multiple of the poll's duration, up to a
// bound.
const (
	pauseFactor = 9
	pauseMax    = 30 * time.Second
)

// Pause returns the time to wait until the next poll.
func (m *Model) Pause() time.Duration {
	if m.missed != nil {
		return m.Interval
	}
	return max(m.Interval-m.last.Took, min(pauseFactor*m.last.Took, pauseMax), 0)
}

// Poller asks the servers. Its methods are called one after the other.
type Poller struct {
	Cluster *client.Cluster

	doctor time.Time // when it was asked last
	flags  []Flag
	mute   bool // the server does not answer it
}

// Poll asks once. The error is an answer of a server (resp.Error), or the error of the last node when no node
// answered.
func (p *Poller) Poll(ctx context.Context, a Ask) (s Snapshot, err error) {
	s = Snapshot{Ask: a, At: time.Now()}
	first := p.Cluster.Addr()
	list := []string{"LIST", "COUNT", strconv.Itoa(a.Count)}
	if a.Match != "" {
		list = append(list, "MATCH", a.Match)
	}
	if a.Waited {
		list = append(list, "WAITED")
	}
	r, err := p.ask(ctx, list...)
	if err == nil {
		s.Locks, err = locks.ParseList(r)
	}
	if err == nil && a.Open {
		s.Detail, err = p.detail(ctx, a.Lock)
	}
	if err == nil {
		s.Flags, err = p.askDoctor(ctx)
	}
	s.Addr = p.Cluster.Addr()
	if err == nil && s.Addr == first { // what it takes to find another node is no work of that
		s.Took = time.Since(s.At)
	}
	return s, err
}

func (p *Poller) ask(ctx context.Context, words ...string) (resp.Reply, error) {
	return p.Cluster.DoIdempotent(ctx, append([]string{"LOCKS"}, words...)...)
}

func (p *Poller) detail(ctx context.Context, key string) (d Detail, err error) {
	r, err := p.ask(ctx, "INFO", key)
	if err == nil {
		d.Info, err = locks.ParseInfo(key, r)
	}
	if err != nil {
		return d, err
	}
	r, err = p.ask(ctx, "HISTORY", key, "COUNT", strconv.Itoa(historyCount))
	if err == nil {
		d.History, err = locks.ParseHistory(r)
	}
	return d, err
}

// doctorEvery is the interval of LOCKS DOCTOR, whose findings change slowly.
const doctorEvery = 10 * time.Second

// askDoctor asks LOCKS DOCTOR at intervals. A server that lacks it, or refuses it to this user, is not asked again.
// It fails only if no server answers.
func (p *Poller) askDoctor(ctx context.Context) ([]Flag, error) {
	if p.mute || time.Since(p.doctor) < doctorEvery {
		return p.flags, nil
	}
	r, err := p.ask(ctx, "DOCTOR")
	if err != nil {
		return nil, err
	}
	said, err := locks.ParseDoctor(r)
	if err != nil {
		p.mute, p.flags = true, nil
		return nil, nil
	}
	p.doctor, p.flags = time.Now(), nil
	for _, f := range said.Findings {
		p.flags = append(p.flags, flagOf(f))
	}
	return p.flags, nil
}

// flagOf takes the keys of a finding for a pattern in which only the star is special.
func flagOf(f locks.Finding) Flag {
	return Flag{Pattern: strings.NewReplacer(`\`, `\\`, `[`, `\[`, `?`, `\?`).Replace(f.Keys), Said: f.Says}
}
