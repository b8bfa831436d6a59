package top

import (
	"context"
	"strconv"
	"time"

	"lockd/internal/client"
	"lockd/internal/locks"
	"lockd/resp"
)

// historyCount is how many events of a lock its page has.
const historyCount = 200

// Looking at a million keys keeps a server busy: the pause after a look is so many times as long as that
// took, but for no longer than the other.
const (
	pauseFactor = 9
	pauseMax    = 30 * time.Second
)

// Pause is how long to wait until the next look.
func (m *Model) Pause() time.Duration {
	if m.missed != nil {
		return m.Interval
	}
	return max(m.Interval-m.last.Took, min(pauseFactor*m.last.Took, pauseMax), 0)
}

// Looker asks the servers. Its methods are called one after the other.
type Looker struct {
	Cluster *client.Cluster

	doctor time.Time // when it was asked last
	flags  []Flag
	mute   bool // the server does not answer it
}

// Look asks once. The error is one that the server has answered (resp.Error), or that of the last
// node of all, none of which has answered.
func (l *Looker) Look(ctx context.Context, a Ask) (look Look, err error) {
	look = Look{Ask: a, At: time.Now()}
	first := l.Cluster.Addr()
	list := []string{"LIST", "COUNT", strconv.Itoa(a.Count)}
	if a.Match != "" {
		list = append(list, "MATCH", a.Match)
	}
	if a.Waited {
		list = append(list, "WAITED")
	}
	r, err := l.ask(ctx, list...)
	if err == nil {
		look.Locks, err = locks.ParseList(r)
	}
	if err == nil && a.Open {
		look.Detail, err = l.detail(ctx, a.Lock)
	}
	if err == nil {
		look.Flags, err = l.askDoctor(ctx)
	}
	look.Addr = l.Cluster.Addr()
	if err == nil && look.Addr == first { // what it takes to find another node is no work of that
		look.Took = time.Since(look.At)
	}
	return look, err
}

func (l *Looker) ask(ctx context.Context, words ...string) (resp.Reply, error) {
	return l.Cluster.Ask(ctx, append([]string{"LOCKS"}, words...)...)
}

func (l *Looker) detail(ctx context.Context, key string) (d Detail, err error) {
	r, err := l.ask(ctx, "INFO", key)
	if err == nil {
		d.Info, err = locks.ParseInfo(key, r)
	}
	if err != nil {
		return d, err
	}
	r, err = l.ask(ctx, "HISTORY", key, "COUNT", strconv.Itoa(historyCount))
	if err == nil {
		d.History, err = locks.ParseHistory(r)
	}
	return d, err
}
