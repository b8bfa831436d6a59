package server

import (
	"strings"
	"sync"
	"time"

	"lockd/resp"
)

// aclLog is what this node has denied lately.
type aclLog struct {
	mu   sync.Mutex
	list []*denied // the newest first
}

type denied struct {
	count                         int64
	reason, context, object, user string
	at                            time.Time
	client                        string
}

// What Redis takes for the same: not longer ago than this, among the newest so many.
const (
	aclLogSame     = time.Minute
	aclLogLookback = 10
)

// denialContext is where a client is that calls a command itself.
func (s *session) denialContext() string {
	if s.tx != nil {
		return "multi"
	}
	return "toplevel"
}

// noteScripts writes into ACL LOG what scripts of a request were denied that had the rights of a user.
func (s *session) noteScripts(user string, res resp.Result) {
	for _, d := range res.Denied {
		s.noteDenied(d.Reason, "lua", user, d.Object)
	}
}

// noteDenied writes into ACL LOG what the user was denied, or who has tried to be a user.
func (s *session) noteDenied(reason, context, user, object string) {
	now := s.srv.clock()
	d := &denied{count: 1, reason: reason, context: context, object: strings.Clone(cut(object, aclLogObjectBytesMax)),
		user: strings.Clone(cut(user, aclLogObjectBytesMax)), at: now,
		client: strings.TrimSuffix(string(s.describe(nil, now)), "\n")}
	s.srv.aclLog.add(d, int(min(s.srv.hub.settings.aclLogMax.Load(), aclLogEntriesMax)))
}

func (l *aclLog) add(d *denied, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, old := range l.list[:min(len(l.list), aclLogLookback)] {
		if old.reason == d.reason && old.context == d.context && old.object == d.object && old.user == d.user &&
			d.at.Sub(old.at) <= aclLogSame {
			d.count += old.count
			l.list = append(l.list[:i], l.list[i+1:]...)
			break
		}
	}
	l.list = append([]*denied{d}, l.list...)
	l.list = l.list[:min(len(l.list), limit)]
}

func (l *aclLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

func (l *aclLog) newest(n int64, now time.Time) resp.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := []resp.Reply{}
	for _, d := range l.list[:min(n, int64(len(l.list)))] {
		entries = append(entries, resp.Map(
			resp.Bulk("count"), resp.Int(d.count), resp.Bulk("reason"), resp.Bulk(d.reason),
			resp.Bulk("context"), resp.Bulk(d.context), resp.Bulk("object"), resp.Bulk(d.object),
			resp.Bulk("username"), resp.Bulk(d.user),
			resp.Bulk("age-seconds"), resp.Double(float64(now.Sub(d.at).Milliseconds())/1000),
			resp.Bulk("client-info"), resp.Bulk(d.client)))
	}
	return resp.Array(entries...)
}
