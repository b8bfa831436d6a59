package access

import (
	"strings"
	"sync"
	"time"

	"lockd/resp"
)

// Denials are the latest denials on this node, as ACL LOG shows them. Its methods are safe for concurrent use.
type Denials struct {
	mu   sync.Mutex
	list []*Denied // the newest first
}

// Denied is one denial; Client is the client's line of CLIENT LIST.
type Denied struct {
	Reason, Context, Object, User string
	Client                        string
	At                            time.Time

	count int64 // of equal denials
}

const (
	denialsMax     = 1 << 14             // whatever the setting acllog-max-len says
	objectBytesMax = resp.DenialBytesMax // bytes kept of a key, channel or name
)

// Redis merges a denial with an equal one not older than this, among the newest sameAmong.
const (
	sameWithin = time.Minute
	sameAmong  = 10
)

// Add adds a denial and keeps the newest limit entries; a denial equal to an entry raises the entry's count.
func (l *Denials) Add(d Denied, limit int) {
	d.count = 1
	d.Object, d.User = kept(d.Object), kept(d.User)
	limit = min(limit, denialsMax)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, old := range l.list[:min(len(l.list), sameAmong)] {
		if old.Reason == d.Reason && old.Context == d.Context && old.Object == d.Object && old.User == d.User &&
			d.At.Sub(old.At) <= sameWithin {
			d.count += old.count
			l.list = append(l.list[:i], l.list[i+1:]...)
			break
		}
	}
	l.list = append([]*Denied{&d}, l.list...)
	l.list = l.list[:min(len(l.list), limit)]
}

// kept returns a copy of the part of a text that is kept.
func kept(text string) string { return strings.Clone(text[:min(len(text), objectBytesMax)]) }

// Reset removes all entries.
func (l *Denials) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

// Newest returns the answer of ACL LOG: up to n entries, the newest first.
func (l *Denials) Newest(n int64, now time.Time) resp.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := []resp.Reply{}
	for _, d := range l.list[:min(n, int64(len(l.list)))] {
		entries = append(entries, resp.Map(
			resp.Bulk("count"), resp.Int(d.count), resp.Bulk("reason"), resp.Bulk(d.Reason),
			resp.Bulk("context"), resp.Bulk(d.Context), resp.Bulk("object"), resp.Bulk(d.Object),
			resp.Bulk("username"), resp.Bulk(d.User),
			resp.Bulk("age-seconds"), resp.Double(float64(now.Sub(d.At).Milliseconds())/1000),
			resp.Bulk("client-info"), resp.Bulk(d.Client)))
	}
	return resp.Array(entries...)
}
