package keyspace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/history"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/resp"
)

func eventsOf(l *history.Log) (all []history.Event) {
	l.Each(0, func(e *history.Event) bool {
		all = append(all, *e)
		return true
	})
	return all
}

// The log is bounded by its bytes as well: large tokens do not make it larger than its events may be.
func TestEventLogIsBoundedInBytes(t *testing.T) {
	m := New(nil)
	mustApply(t, m, resp.Stamp{}, 0, "CONFIG SET lock-history-max-events 100")
	for i := range 300 {
		mustApply(t, m, resp.Stamp{Tick: int64(i)}, 0, fmt.Sprintf("SET %s%d %s NX PX 9000", strings.Repeat("k", 1000), i, strings.Repeat("t", 500)))
		if m.state.Events.Bytes() > 100*history.EventBytesMax {
			t.Fatalf("%d bytes after %d locks", m.state.Events.Bytes(), i)
		}
	}
	if n := m.state.Events.Count(); n < 20 || n > 100 {
		t.Errorf("%d events", n)
	}
}

// What is no token, or no name of a lock, is no lock: it is too long.
func TestWhatIsLongIsNoLock(t *testing.T) {
	m := New(nil)
	long := strings.Repeat("x", lifecycle.KeyBytesMax+1)
	mustApply(t, m, resp.Stamp{}, 0, "SET "+long+" token NX PX 9000", "SET data "+strings.Repeat("x", lifecycle.TokenBytesMax+1)+" NX PX 9000",
		"LOCK "+long+"1 token PX 9000", "LOCK "+long+"2 token PX 9000 SHARED", "SET short token NX PX 9000", "RENAME short "+long+"3")
	if got := eventsOf(&m.state.Events); len(got) != 2 || got[0].Key != "short" || got[1].Kind != history.Moved {
		t.Errorf("%+v", got)
	}
	if got := plain(view(m, resp.Stamp{}, 0, "LOCKS LIST")); got != "" {
		t.Error(got)
	}
}

// toldEvent is what a test knows of an event.
type toldEvent struct{ event, token string }

// lockTeller plays programs that take and lose locks, and writes down what becomes of them.
type lockTeller struct {
	*Machine
	at   resp.Stamp
	held map[string]string // tokens by key
	ends map[string]int64
	told map[string][]toldEvent
	news map[string][]toldEvent // as it was told at once
}

func newLockTeller() *lockTeller {
	return &lockTeller{
		Machine: New(fakeScripts{}), held: map[string]string{}, ends: map[string]int64{},
		told: map[string][]toldEvent{}, news: map[string][]toldEvent{},
	}
}

func (l *lockTeller) tell(key, event, token string) {
	l.told[key] = append(l.told[key], toldEvent{event, token})
}

func (l *lockTeller) lose(key, event string) {
	if l.held[key] != "" {
		l.tell(key, event, l.held[key])
	}
	delete(l.held, key)
}

func (l *lockTeller) take(key, token string, ms int64) {
	if was := l.held[key]; was == "" {
		l.tell(key, "granted", token)
	} else if was != token {
		return
	}
	l.held[key], l.ends[key] = token, l.at.Tick+ms
}

// step lets time pass, plays one command, and writes down what it should do.
func (l *lockTeller) step(t *testing.T, rng *rand.Rand) {
	l.at.Tick += rng.Int64N(60)
	l.at.Wall = l.at.Tick * 1000
	l.at.Index++
	for key := range l.held {
		if l.at.Tick > l.ends[key] {
			l.lose(key, "expired")
		}
	}
	key, token, ms := fmt.Sprint("k", rng.IntN(3)), fmt.Sprint("t", rng.IntN(4)), 1+rng.Int64N(300)
	holds := l.held[key] == token
	line := ""
	switch rng.IntN(11) {
	case 0, 1:
		if line = fmt.Sprintf("SET %s %s NX PX %d", key, token, ms); l.held[key] == "" {
			l.take(key, token, ms)
		}
	case 2, 3:
		line = fmt.Sprintf("LOCK %s %s PX %d", key, token, ms)
		l.take(key, token, ms)
	case 4:
		if line = fmt.Sprintf("EVAL 'SET %s %s NX PX %d' 0", key, token, ms); l.held[key] == "" {
			l.take(key, token, ms)
		}
	case 5:
		line = fmt.Sprintf("EVAL 'DEL %s\nSET %s %s NX PX 5\nlimit' 0", key, key, token) // it is taken back
	case 6:
		if line = fmt.Sprintf("RENEW %s %s PX %d", key, token, ms); holds {
			l.ends[key] = l.at.Tick + ms
		}
	case 7:
		if line = []string{"UNLOCK ", "DELIFEQ "}[ms%2] + key + " " + token; holds {
			l.lose(key, "released")
		}
	case 8:
		line = "DEL " + key
		l.lose(key, "deleted")
	case 10:
		line = "LOCKS FORCE " + key + " REASON why"
		l.lose(key, "forced")
	case 9:
		line = "EVAL 'DEL " + key + "' 0"
		l.lose(key, "released")
	}
	_, msgs := l.Apply(l.at, []resp.Request{request(0, line)})
	l.hear(t, msgs)
	for _, key := range []string{"k0", "k1", "k2"} {
		if got := l.history(key); !slices.Equal(got, l.told[key]) {
			t.Fatalf("after %s: LOCKS HISTORY %s has\n%v, want\n%v", line, key, got, l.told[key])
		}
	}
	if got := len(view(l.Machine, l.at, 0, "LOCKS LIST").Elems); got != len(l.held) {
		t.Fatalf("after %s: LOCKS LIST has %d, want %d", line, got, len(l.held))
	}
}

func (l *lockTeller) history(key string) (told []toldEvent) {
	for _, e := range field(view(l.Machine, l.at, 0, "LOCKS HISTORY "+key+" COUNT 100000"), "events").Elems {
		told = append(told, toldEvent{field(e, "event").Str, field(e, "token").Str})
	}
	return told
}

// field is a field of a map.
func field(r resp.Reply, name string) resp.Reply {
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if r.Elems[i].Str == name {
			return r.Elems[i+1]
		}
	}
	return resp.Reply{}
}

// LOCKS HISTORY and LIST agree with what programs did, also behind images.
func TestHistoryIsWhatWasDone(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 11))
		l := newLockTeller()
		for range 400 {
			l.step(t, rng)
			if rng.IntN(30) == 0 {
				l.Machine = restored(t, image(t, l.Machine))
			}
		}
		for _, key := range []string{"k0", "k1", "k2"} {
			if len(l.told[key]) < 50 {
				t.Errorf("only %d events", len(l.told[key]))
			}
		}
	}
}

// An entry with what is known of a lock gives back what it was made of, and keeps it as long as the
// token is the same.
func TestEntryOfALock(t *testing.T) {
	for _, k := range []int{1, 7, 8, 100, 200, 300} {
		for _, v := range []int{0, 1, 8, 100, 300} {
			for _, tag := range []*store.Tag{nil, {Owner: "o"}} {
				key, token := strings.Repeat("k", k), strings.Repeat("v", v)
				maybe := store.NewEntry(key, nil, store.StringValue(token), store.Never, tag, store.MayBeLock)
				if maybe.Mark() != store.MayBeLock || maybe.Key() != key || maybe.Str() != token {
					t.Fatalf("%d, %d: %+v", k, v, maybe)
				}
				e := store.NewEntry(key, maybe, maybe.Value(), store.Deadline{Tick: 5, WallMs: 6}, tag, maybe.Mark())
				if e.Mark() != store.IsLock || e.Size() != maybe.Size()+store.LeaseOverheadBytes+store.FactsOverheadBytes {
					t.Fatalf("%d, %d: %+v", k, v, e)
				}
				facts := lock.Facts{SinceTick: 1, SinceMs: 2, LeaseMs: 3, Renewals: 4, Client: 5}
				e = e.WithFacts(facts)
				next := store.NewEntry(key, e, e.Value(), store.Never, tag, e.Mark()).WithFacts(facts)
				if e.Facts() != facts || next.Facts() != facts || next.Key() != key || next.Str() != token || next.Tag() != tag {
					t.Fatalf("%d, %d: %+v, %+v", k, v, next, next.Facts())
				}
				if other := store.NewEntry(key, e, store.StringValue(token+"x"), store.Never, tag, store.NoLock); other.Mark() != store.NoLock || other.Str() != token+"x" {
					t.Fatalf("%d, %d: %+v", k, v, other)
				}
			}
		}
	}
}

// Events say which client it was, of a grant that of the waiter; what the holder's own client deletes is
// released. All of it is in the image.
func TestEventsNameTheClient(t *testing.T) {
	m := New(fakeScripts{})
	web := resp.Client{ID: 7, Name: "web", Addr: "10.0.0.1:5000", Node: "n1"}.Sender()
	job := resp.Client{ID: 8, Addr: "10.0.0.2:6000", Node: "n2"}.Sender()
	at := resp.Stamp{Tick: 1}
	by := func(c resp.Sender, reqs ...resp.Request) {
		for i := range reqs {
			reqs[i].Sender = c
		}
		at.Index++
		m.Apply(at, reqs)
		m = restored(t, image(t, m))
	}
	by(web, resp.BlockOpening("", 0), request(0, "SET a token1 NX PX 9000", "SET b token2 NX PX 9000", "LOCK c token3 PX 9000"))
	by(job, asking(1, 1, 0, split("LOCK c token4 PX 9000 WAIT 5000")), asking(1, 2, 0, split("LOCK b token5 PX 9000 WAIT 5000")))
	if got := field(field(view(m, at, 0, "LOCKS INFO c"), "line").Elems[0], "client-addr").Str; got != job.Client().Addr {
		t.Errorf("in line: %q", got)
	}
	by(web, request(0, "DEL a", "UNLOCK c token3"))
	by(job, request(0, "DEL b"))
	by("", cancelling(1, 2))
	for _, tc := range []struct{ key, event, token, name string }{
		{"a", "released", "token1", "web"}, {"b", "deleted", "token2", ""}, {"c", "granted", "token4", ""},
	} {
		events := field(view(m, at, 0, "LOCKS HISTORY "+tc.key), "events").Elems
		found := ""
		for _, e := range events {
			if field(e, "event").Str == tc.event && field(e, "token").Str == tc.token {
				found = field(e, "client-addr").Str + " " + field(e, "client-name").Str + " " + field(e, "node").Str
			}
		}
		want := "10.0.0.2:6000  n2"
		if tc.name != "" {
			want = "10.0.0.1:5000 web n1"
		}
		if found != want {
			t.Errorf("%s %s: %q, want %q", tc.key, tc.event, found, want)
		}
	}
	if got := view(m, at, 0, "LOCKS WHY b token2").Str; !strings.Contains(got, "deleted by DEL of client 8 from 10.0.0.2:6000 at node n2, after 0 ms, never renewed. Next was token5 at ") {
		t.Errorf("%s", got)
	}
	if got := field(field(view(m, at, 0, "LOCKS INFO c"), "holders").Elems[0], "client-id").Int; got != 8 {
		t.Errorf("holder: client %d", got)
	}
}
