package keyspace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
)

// newsStage is a blockStage whose requests come from clients, and which keeps what it tells holders.
type newsStage struct {
	*blockStage
	news []resp.LockNews
}

func newNewsStage(t *testing.T) *newsStage { return &newsStage{blockStage: newBlockStage(t)} }

// clientOf is a client of node n1.
func clientOf(id uint64) resp.Sender {
	return resp.Client{ID: id, Addr: fmt.Sprint("10.0.0.1:", id), Node: "n1"}.Sender()
}

// apply applies a request in an entry of its own, and returns the first reply.
func (s *newsStage) apply(req resp.Request) resp.Reply {
	s.t.Helper()
	s.at.Index++
	results, msgs := s.m.Apply(s.at, []resp.Request{req})
	s.news = nil
	for _, m := range msgs {
		if m.Form == nil {
			continue
		}
		if m.Index != s.at.Index {
			s.t.Errorf("entry %d: %+v", s.at.Index, m)
		}
		if n := m.Form.News(m.Event); n.How != "" {
			s.news = append(s.news, n)
		}
	}
	checkDerived(s.t, s.m)
	if len(results) == 0 || len(results[0].Replies) == 0 {
		return resp.Reply{}
	}
	return results[0].Replies[0]
}

// says is the news of commands that a client sends at once; 0: nobody knows whose they are.
func (s *newsStage) says(id uint64, lines ...string) string {
	s.t.Helper()
	req := request(0, lines...)
	if id != 0 {
		req.Sender = clientOf(id)
	}
	s.apply(req)
	return tellNews(s.news)
}

func tellNews(news []resp.LockNews) string {
	var said []string
	for _, n := range news {
		words := fmt.Sprintf("%s %d/%s %s", n.How, n.DB, n.Key, n.Token)
		if n.How == resp.LockGranted {
			words += fmt.Sprintf(" %d ms", n.LeaseMs)
		}
		if n.Script {
			words += " by a script"
		}
		if n.Client != "" {
			words += fmt.Sprint(" of ", n.Client.Client().ID)
		}
		said = append(said, words)
	}
	return strings.Join(said, ", ")
}

// Every way in which a lock goes is told in the word of LOCKS HISTORY, with who did it; a lock that
// is granted by LOCK is told as well, also to a token that holds it.
func TestLockNews(t *testing.T) {
	for _, c := range []struct{ before, line, want string }{
		{"", "LOCK k a PX 1000", "granted 0/k a 1000 ms of 2"},
		{"LOCK k a PX 1000", "LOCK k a PX 500", "granted 0/k a 500 ms of 2"},
		{"LOCK k a PX 1000", "LOCK k b PX 500", ""},
		{"LOCK k a PX 1000", "RENEW k a PX 500", ""},
		{"SET k a NX PX 1000", "LOCK k a PX 500", "granted 0/k a 500 ms of 2"},
		{"", "LOCK k a PX 1000 SHARED", "granted 0/k a 1000 ms of 2"},
		{"LOCK k a PX 1000 LIMIT 2", "LOCK k b PX 900 LIMIT 2", "granted 0/k b 900 ms of 2"},
		{"LOCK k a PX 1000 LIMIT 2", "LOCK k a PX 900 LIMIT 2", "granted 0/k a 900 ms of 2"},
		{"LOCK k a PX 1000", "UNLOCK k a", "released 0/k a of 2"},
		{"LOCK k a PX 1000", "DELEX k IFEQ a", "released 0/k a of 2"},
		{"LOCK k a PX 1000", "EVAL 'DEL k' 0", "released 0/k a by a script of 2"},
		{"LOCK k a PX 1000", "DEL k", "deleted 0/k a of 2"},
		{"LOCK k a PX 1000", "EXPIRE k -1", "deleted 0/k a of 2"},
		{"LOCK k a PX 1000", "SET k b", "overwritten 0/k a of 2"},
		{"LOCK k a PX 1000", "SET k a", ""},
		{"LOCK k a PX 1000", "LOCKS FORCE k REASON x", "forced 0/k a of 2"},
		{"LOCK k a PX 1000", "RENAME k j", "moved 0/k a of 2"},
		{"LOCK k a PX 1000", "MOVE k 1", "moved 0/k a of 2"},
		{"LOCK k a PX 1000", "FLUSHDB", "flushed 0/  of 2"},
		{"LOCK k a PX 1000", "SWAPDB 0 3", "swapped 0/  of 2"},
		{"LOCK k a PX 1000", "PERSIST k", ""},
		{"LOCK k a PX 1000 SHARED; LOCK k b PX 1000 SHARED", "UNLOCK k a", "released 0/k a of 2"},
		{"LOCK k a PX 1000 SHARED; LOCK k b PX 1000 SHARED", "LOCKS FORCE k REASON x", "forced 0/k a of 2, forced 0/k b of 2"},
		{"LOCK k a PX 1000 SHARED; LOCK k b PX 1000 SHARED", "SET k 1", "overwritten 0/k a of 2, overwritten 0/k b of 2"},
		// What a script does is undone with it; what it takes is not told.
		{"LOCK k a PX 1000", "EVAL 'DEL k\nLOCK k a PX 1000\nlimit' 0", ""},
		{"", "EVAL 'LOCK k a PX 1000' 0", ""},
		// What is no lock by its name is told of as little as it is written down.
		{"CONFIG SET lock-pattern lock:*", "LOCK k a PX 1000", ""},
		{"CONFIG SET lock-history-max-events 0; LOCK k a PX 1000", "DEL k", "deleted 0/k a of 2"},
	} {
		s := newNewsStage(t)
		for line := range strings.SplitSeq(c.before, "; ") {
			if line != "" {
				s.says(1, line)
			}
		}
		if got := s.says(2, c.line); got != c.want {
			t.Errorf("%s; %s: told %q, want %q", c.before, c.line, got, c.want)
		}
	}
}

// A lease that ends is told without a client, whoever's entry finds it over; in the same entry the
// next in line has the lock, and his client is told.
func TestLockNewsOfALine(t *testing.T) {
	s := newNewsStage(t)
	s.says(1, "LOCK k a PX 1000")
	waits := asking(1, 1, 0, split("LOCK k b PX 700 WAIT 60000"))
	waits.Sender = clientOf(7)
	s.apply(waits)
	s.at.Tick += 1001
	if got, want := s.says(3, "SET other 1"), "expired 0/k a, granted 0/k b 700 ms of 7"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	granted := s.news[1]
	if l := s.m.Leases([]resp.HeldLock{granted.HeldLock})[0]; !l.Held || granted.Client != clientOf(7) {
		t.Errorf("%+v, %+v", granted, l)
	}
}

// News are in the order of what happened, in one entry too.
func TestLockNewsInOrder(t *testing.T) {
	s := newNewsStage(t)
	got := s.says(1, "LOCK k a PX 1000", "UNLOCK k a", "LOCK k a PX 900", "DEL k", "LOCK k b PX 800")
	if want := "granted 0/k a 1000 ms of 1, released 0/k a of 1, granted 0/k a 900 ms of 1, released 0/k a of 1, granted 0/k b 800 ms of 1"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// Leases tells who holds a lock, by token and by the fence that LOCK has answered; else, from the
// history, how it was lost.
func TestLeases(t *testing.T) {
	const lost = "LOCK k a PX 1000"
	for _, c := range []struct{ lines, want string }{
		{"LOCK k a PX 1000", "until 2000, 1000 ms"},
		{"LOCK k a PX 1000; RENEW k a PX 5000", "until 6000, 5000 ms"},
		{"LOCK k a PX 1000; PERSIST k", "until 9223372036854775807, -1 ms"},
		{"LOCK k a PX 1000 SHARED; LOCK k b PX 3000 SHARED", "until 2000, 1000 ms"},
		{"SWAPDB 0 1; LOCK k a PX 1000", "until 2000, 1000 ms"},
		{"LOCK j a PX 1000 SHARED; RENAME j k; LOCK k a PX 1000 SHARED", "until 2000, 1000 ms"},
		{lost + "; UNLOCK k a", "released of 1"},
		{lost + "; UNLOCK k a; LOCK k a PX 1000", "released of 1"}, // with another fence
		{lost + "; EVAL 'DEL k' 0", "released by a script of 1"},
		{lost + "; DEL k; LOCK k b PX 1000; DEL k; FLUSHALL", "released of 1"},
		{lost + "; SET k b", "overwritten of 1"},
		{lost + "; FLUSHALL; LOCK k a PX 1000; DEL k", "released of 1"}, // which has another fence, and was lost last
		{lost + "; FLUSHALL; SET x 1; FLUSHALL", "flushed of 1"},
		{lost + "; DEL k; LOCK k a PX 1000; FLUSHALL", "flushed of 1"}, // likewise
		{lost + "; SWAPDB 1 0; SWAPDB 0 1", "swapped of 1"},
		{lost + "; RENAME k j; RENAME j k", "moved of 1"},
		{lost + " SHARED; LOCK k b PX 1000 SHARED; LOCKS FORCE k TOKEN a REASON x; UNLOCK k b", "forced of 1"},
		{"CONFIG SET lock-history-max-events 0; " + lost + "; DEL k", "unknown"},
		{"CONFIG SET lock-pattern nosuch; " + lost, "unknown"},
		{lost + "; DEL k; CONFIG SET lock-history-max-events 1; LOCK j a PX 1000", "unknown"},
	} {
		s := newNewsStage(t)
		fence := uint64(0)
		for _, line := range strings.Split(c.lines, "; ") {
			req := request(0, line)
			req.Sender = clientOf(1)
			reply := s.apply(req)
			if strings.HasPrefix(line, "LOCK k a ") && reply.Kind == resp.KindInt && (fence == 0 || strings.Contains(c.want, "until")) {
				fence = uint64(reply.Int)
			}
		}
		of := []resp.HeldLock{
			{Key: "k", Token: "a", Fence: fence}, {Key: "k", Token: "nosuch", Fence: fence}, {DB: 99, Key: "k"}, {DB: -1}}
		for range 2 { // and of an image
			leases := s.m.Leases(of)
			if got := tellLease(leases[0]); got != c.want {
				t.Errorf("%s: %q, want %q", c.lines, got, c.want)
			}
			for _, l := range leases[2:] {
				if l.Held || l.How != resp.LockUnknown {
					t.Errorf("%s: %+v", c.lines, l)
				}
			}
			var image bytes.Buffer
			if err := s.m.Snapshot()(&image); err != nil {
				t.Fatal(err)
			}
			s.m = New(fakeScripts{})
			if err := s.m.Restore(&image); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func tellLease(l resp.Lease) string {
	if l.Held {
		return fmt.Sprintf("until %d, %d ms", l.Until, l.LeaseMs)
	}
	said := l.How
	if l.Script {
		said += " by a script"
	}
	if l.Client != "" {
		said += fmt.Sprint(" of ", l.Client.Client().ID)
	}
	return said
}

// A lease that is over is there until an entry has ended it: its end comes with a word for it.
func TestLeaseThatIsOverIsHeld(t *testing.T) {
	s := newNewsStage(t)
	var lines []string
	for i := range sweepMax + 5 {
		lines = append(lines, fmt.Sprintf("LOCK k%04d a PX 1000", i))
	}
	s.says(1, lines...)
	of := resp.HeldLock{Key: fmt.Sprintf("k%04d", sweepMax+4), Token: "a", Fence: s.news[sweepMax+4].Fence}
	s.at.Tick += 2000
	s.apply(resp.Request{})
	if l := s.m.Leases([]resp.HeldLock{of})[0]; !l.Held || l.Until >= s.m.Tick() {
		t.Errorf("%+v", l)
	}
	s.apply(resp.Request{})
	if said := tellNews(s.news); strings.Count(said, "expired") != 5 || !slices.ContainsFunc(s.news, func(n resp.LockNews) bool { return n.Key == of.Key }) {
		t.Errorf("told %q", said)
	}
	if l := s.m.Leases([]resp.HeldLock{of})[0]; l.Held || l.How != "expired" {
		t.Errorf("%+v", l)
	}
}
