package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/digest"
	"lockd/keyspace/emit"
	"lockd/keyspace/history"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/settings"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// world is a store whose changes are recorded.
type world struct {
	keys   *store.Store
	events history.Log
	digest digest.Digest
	meter  meter.Meter
	out    emit.Output
	limits settings.Values
	tick   int64
}

const wallAhead = int64(1_700_000_000_000) // of the log clock, in milliseconds

func newWorld() *world {
	w := &world{keys: store.New(), digest: digest.Begin, limits: *settings.Default(), tick: 1}
	w.events.Begin(wallAhead)
	w.out.Begin(1, 1)
	return w
}

func (w *world) recorder() Recorder {
	return Recorder{
		Applying: true, Tick: w.tick, WallMs: wallAhead + w.tick, Index: 1, Settings: &w.limits, Meter: &w.meter,
		Events: &w.events, Digest: &w.digest, Out: &w.out,
	}
}

// get returns the entry of a key, or nil.
func (w *world) get(key string) *store.Entry {
	e, _ := w.keys.DBs[0].Keys.Get(key)
	return e
}

// put stores an entry, or deletes the key, and records what becomes of its lock.
func (w *world) put(why Cause, key string, next *store.Entry) {
	was := w.get(key)
	next, raises := w.recorder().Complete(&why, was, next)
	w.recorder().RecordChange(&why, w.keys.Put(1, 0, was, next, raises))
}

// until is the deadline after some milliseconds; 0: never.
func (w *world) until(ms int64) store.Deadline {
	if ms == 0 {
		return store.Never
	}
	return store.Deadline{Tick: w.tick + ms, WallMs: wallAhead + w.tick + ms}
}

// newest returns the newest events, one line each.
func (w *world) newest(n int) string {
	var all []string
	w.events.Each(0, func(e *history.Event) bool {
		all = append(all, fmt.Sprintf("%v %s %s #%d by %s held %d of %d, renewed %d", e.Kind, e.Key, e.Token, e.Fence, e.By,
			e.HeldMs, e.LeaseMs, e.Renewals))
		return true
	})
	return strings.Join(all[max(0, len(all)-n):], "\n")
}

func client(id uint64) resp.Sender { return resp.Client{ID: id, Addr: "a", Node: "n1"}.Sender() }

// taker is a client that takes a lock that is free.
func taker(id uint64) Cause { return Cause{By: "set", Condition: true, Client: client(id)} }

// held is what a model knows of a lock.
type held struct {
	token               string
	fence               uint64
	since, lease, until int64
	renewals            uint64
	by                  uint64
}

// Locks that are strings are taken, renewed, released, deleted, overwritten, and end, in any order. Each change is one
// event, or a loss and a grant, as a model has them. Of every token that ever held a lock the leases tell whether it
// does, or what became of it.
func TestRecorderAgainstModel(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w, locks := newWorld(), map[string]*held{}
		became := map[string]string{} // by key and token: how it was lost last
		var asked []resp.HeldLock
		for step := range 300 {
			w.tick += rng.Int64N(50)
			key := fmt.Sprint("k", rng.IntN(3))
			l, was, want := locks[key], w.get(key), ""
			lose := func(kind history.Kind, at int64, by string) {
				want = fmt.Sprintf("%v %s %s #%d by %s held %d of %d, renewed %d", kind, key, l.token, l.fence, by, at-l.since,
					l.lease, l.renewals)
				became[key+l.token] = kind.String()
				delete(locks, key)
			}
			switch what := rng.IntN(7); {
			case l != nil && w.tick > l.until:
				lose(history.Expired, l.until, "")
				w.put(LeaseIsOver, key, nil)
			case l == nil:
				n := &held{token: fmt.Sprint("t", rng.IntN(5)), since: w.tick, lease: 1 + rng.Int64N(400), by: 1 + rng.Uint64N(2)}
				n.until = w.tick + n.lease
				v, why := value.OfString(n.token), taker(n.by)
				w.put(why, key, store.NewEntry(key, was, v, w.until(n.lease), nil, w.recorder().MarkOf(&why, key, v)))
				n.fence, locks[key] = w.get(key).Fence, n
				want = fmt.Sprintf("granted %s %s #%d by set held 0 of %d, renewed 0", key, n.token, n.fence, n.lease)
				one := resp.HeldLock{Key: key, Token: n.token, Fence: n.fence}
				asked = append(asked[max(0, len(asked)-20):], one)
			case what < 2:
				lease := 1 + rng.Int64N(400)
				w.put(Cause{By: "pexpire"}, key, store.NewEntry(key, was, was.Value(), w.until(lease), nil, was.Mark()))
				if l.until != w.tick+lease { // the same deadline is no renewal
					l.lease, l.until, l.renewals = lease, w.tick+lease, l.renewals+1
				}
				want = w.newest(1)
			case what == 2:
				lose(history.Released, w.tick, "del")
				w.put(Cause{By: "del", Client: client(l.by)}, key, nil)
			case what == 3:
				lose(history.Released, w.tick, "unlock")
				w.put(Cause{By: "unlock", Condition: true, Client: client(9)}, key, nil)
			case what == 4:
				lose(history.Deleted, w.tick, "del")
				w.put(Cause{By: "del", Client: client(9)}, key, nil)
			case what == 5:
				lose(history.Forced, w.tick, "locks")
				w.put(Cause{By: "locks", How: history.Forced}, key, nil)
			default:
				lose(history.Overwritten, w.tick, "set")
				w.put(Cause{By: "set", Client: client(l.by)}, key, store.NewEntry(key, was, value.OfString("data"), store.Never, nil, store.NoLock))
				w.put(Cause{By: "del"}, key, nil) // which is no lock
			}
			if got := w.newest(1); got != want {
				t.Fatalf("seed %d, step %d: %s\nwant %s", seed, step, got, want)
			}
			for i, lease := range Leases(w.keys, &w.events, asked) {
				a := asked[i]
				want := resp.Lease{How: became[a.Key+a.Token], Client: lease.Client}
				if l := locks[a.Key]; l != nil && l.token == a.Token && l.fence == a.Fence {
					want = resp.Lease{Held: true, Until: l.until, LeaseMs: l.lease}
				}
				if lease != want {
					t.Fatalf("seed %d, step %d: %+v of %+v, want %+v", seed, step, lease, a, want)
				}
			}
		}
	}
}

// A key that came into being under a condition is a lock from its first lease on; another key never is.
func TestFirstLeaseMakesTheLock(t *testing.T) {
	w := newWorld()
	why, v := taker(1), value.OfString("t")
	w.put(why, "k", store.NewEntry("k", nil, v, store.Never, nil, w.recorder().MarkOf(&why, "k", v)))
	w.put(Cause{By: "set"}, "data", store.NewEntry("data", nil, v, w.until(100), nil, store.NoLock))
	if got := w.newest(9); got != "" {
		t.Errorf("no lock yet: %s", got)
	}
	e := w.get("k")
	w.put(Cause{By: "pexpire"}, "k", store.NewEntry("k", e, e.Value(), w.until(100), nil, e.Mark()))
	if got := w.newest(9); got != fmt.Sprintf("granted k t #%d by pexpire held 0 of 100, renewed 0", e.Fence) {
		t.Errorf("by its first lease: %s", got)
	}
}

// What a dry run or a read does is not recorded.
func TestNothingIsRecordedOutsideAnEntry(t *testing.T) {
	w := newWorld()
	r, why := w.recorder(), taker(1)
	r.Applying = false
	v := value.OfString("t")
	next := store.NewEntry("k", nil, v, w.until(10), nil, store.MayBeLock)
	if r.MarkOf(&why, "k", v) != store.NoLock || r.NamesLock("k") {
		t.Error("it names a lock")
	}
	next, raises := r.Complete(&why, nil, next)
	r.RecordChange(&why, store.Change{Next: next})
	r.RecordAll(&why, history.Flushed, 0, 0)
	if raises || next.Facts() != (lock.Facts{}) || w.events.Count() > 0 || len(w.out.Messages()) > 0 || w.digest != digest.Begin {
		t.Errorf("%+v, %d events, %d messages", next.Facts(), w.events.Count(), len(w.out.Messages()))
	}
}

// Of a lock of several the history has who has left and who has joined, in the order of their fences.
func TestLockOfSeveral(t *testing.T) {
	w := newWorld()
	lease := func(token string, fence uint64) *lock.Holder {
		h := &lock.Holder{Token: token, Fence: fence, Tick: w.tick + 100}
		why := taker(1)
		w.recorder().StampLease(&why, "s", h)
		return h
	}
	hold := func(mode lock.Mode, why Cause, holders ...*lock.Holder) {
		var next *store.Entry
		if len(holders) > 0 {
			next = store.NewEntry("s", w.get("s"), value.OfAggregate((*value.Lock)(lock.NewMany(mode, holders...))), store.Never, nil, store.NoLock)
		}
		w.put(why, "s", next)
	}
	a, b, c := lease("a", 1), lease("b", 2), lease("c", 3)
	free := &lock.Holder{Token: "free", Fence: 4, Tick: lock.NoLease} // has never had a lease
	hold(2, taker(1), a, b)
	w.tick += 10
	again := *b
	again.Tick += 50
	w.recorder().StampLease(&Cause{}, "s", &again)
	hold(2, taker(1), &again, c, free)
	w.tick += 10
	hold(2, Cause{By: "unlock", Condition: true}, c)
	w.tick += 500
	hold(2, LeaseIsOver)
	const want = `granted s a #1 by set held 0 of 100, renewed 0
granted s b #2 by set held 0 of 100, renewed 0
released s a #1 by set held 10 of 100, renewed 0
granted s c #3 by set held 0 of 100, renewed 0
released s b #2 by unlock held 20 of 140, renewed 1
expired s c #3 by  held 100 of 100, renewed 0`
	if got := w.newest(99); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func uuid(n int) string { return fmt.Sprintf("%08x-0000-0000-0000-000000000000:1", n) }

// hashOf makes a hash of pairs of fields and values.
func hashOf(pairs ...string) *value.Hash {
	h := value.NewHash(0)
	h.Limit(settings.Default().Hashes)
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// A hash is a lock of Redisson's kind if it counts one holder once, or says how it is held. Other names, counts and
// fields are data, and so is what Redisson keeps beside its locks.
func TestHashMark(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		want  store.Mark
	}{
		{[]string{uuid(1), "1"}, store.MayBeLock},
		{[]string{"mode", "read"}, store.MayBeLock},
		{[]string{"mode", "write", uuid(1) + HashWrite, "1"}, store.MayBeLock},
		{[]string{uuid(1), "2"}, store.NoLock},
		{[]string{"name", "1"}, store.NoLock},
		{[]string{uuid(1)[1:], "1"}, store.NoLock},
		{[]string{"mode", "read", uuid(1), "1", uuid(2), "1"}, store.NoLock},
	} {
		w := newWorld()
		if got := w.recorder().HashMark("k", hashOf(c.pairs...)); got != c.want {
			t.Errorf("%q: %d, want %d", c.pairs, got, c.want)
		}
		if got := w.recorder().HashMark(strings.Repeat("k", KeyBytesMax+1), hashOf(c.pairs...)); got != store.NoLock {
			t.Errorf("a long name: %d", got)
		}
	}
	for key, want := range map[string]bool{
		"redisson_x": true, "redissonx": false, "a:rwlock_timeout:1": true, "a": false,
	} {
		why := Cause{Script: true, Condition: true}
		w := newWorld()
		if got := w.recorder().MarkOf(&why, key, value.OfString("t")); HelpsRedisson(key) != want || got == store.NoLock != want {
			t.Errorf("%s helps: %v, its mark is %d", key, HelpsRedisson(key), got)
		}
	}
}

// A lock that is a hash is granted to each holder that it counts, and lost by each that it counts no longer. A holder
// that shares it with nobody has a new fence; one that counts twice is the same.
func TestLockThatIsAHash(t *testing.T) {
	w := newWorld()
	var fences []uint64
	store1 := func(why Cause, pairs ...string) {
		var next *store.Entry
		if len(pairs) > 0 {
			h := hashOf(pairs...)
			mark := w.recorder().HashMark("h", h)
			if was := w.get("h"); was != nil {
				mark = was.Mark()
			}
			next = store.NewEntry("h", w.get("h"), value.OfAggregate(h), w.until(100), nil, mark)
		}
		w.put(why, "h", next)
		if e := w.get("h"); e != nil {
			fences = append(fences, e.Fence)
		}
		w.tick += 10
	}
	why := Cause{By: "hincrby", Script: true}
	store1(why, uuid(1), "1")
	store1(why, uuid(1), "2")
	store1(why, uuid(2), "1")
	store1(Cause{By: "del", Script: true, Condition: true})
	store1(why, "mode", "read", uuid(3), "1")
	store1(why, "mode", "read", uuid(3), "1", uuid(4), "1")
	store1(why, "mode", "read", uuid(5), "1")
	store1(LeaseIsOver)
	if fences[0] != fences[1] || fences[2] <= fences[1] || fences[3] <= fences[2] || fences[4] != fences[3] ||
		fences[5] <= fences[4] {
		t.Errorf("fences %v", fences)
	}
	var got []string
	w.events.Each(0, func(e *history.Event) bool {
		got = append(got, fmt.Sprintf("%v %c %d", e.Kind, e.Token[7], e.Permits))
		return true
	})
	want := []string{
		"granted 1 0", "deleted 1 0", "granted 2 0", "released 2 0", "granted 3 -1", "granted 4 -1",
		"deleted 3 -1", "deleted 4 -1", "granted 5 -1", "expired 5 -1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// looks counts how often a hash is asked for a field.
type looks struct {
	*value.Hash
	at int
}

func (l *looks) At(i int) (name, val string) {
	l.at++
	return l.Hash.At(i)
}

// holding makes a hash that counts some holders, as a lock has them.
func holding(n int) (*value.Hash, []store.HashHolder) {
	pairs := []string{hashMode, "read"}
	var held []store.HashHolder
	for i := range n {
		pairs = append(pairs, uuid(i), "1")
		held = append(held, store.HashHolder{Token: uuid(i), Shared: true})
	}
	return hashOf(pairs...), held
}

// A lock that is a hash is compared with its holders at each change: each field is looked at once, as long as they are
// the same, and a hash that has grown to something else not at all.
func TestSameHoldersIsLinear(t *testing.T) {
	h, held := holding(store.HashHoldersMax)
	last := len(held) - 1
	others := slices.Clone(held)
	others[last].Token = uuid(last + 1)
	for _, c := range []struct {
		what string
		held []store.HashHolder
		same bool
		most int
	}{
		{"the same", held, true, h.Len()},
		{"another is last", others, false, h.Len()},
		{"another is first", slices.Concat(others[last:], held[1:]), false, 2},
		{"one has left", append(slices.Clone(held), others[last]), false, h.Len()},
		{"one has come", held[:last], false, h.Len()},
		{"two have come", held[:last-1], false, 0},
	} {
		l := looks{Hash: h}
		if same := sameHolders(c.held, &l); same != c.same || l.at > c.most {
			t.Errorf("%s: %t after %d looks at %d fields, want %t after %d at most", c.what, same, l.at, h.Len(), c.same, c.most)
		}
	}
}

// A change of a lock that is a hash counts for each holder, and for no more than that: for one visit if the holders
// stay, and otherwise for finding each of them and each field in memory of its own.
func TestHoldersOfAHashAreCounted(t *testing.T) {
	for _, c := range []struct {
		what        string
		change      func(h *value.Hash)
		least, most int64 // visits for each holder
	}{
		{"nobody comes or leaves", func(*value.Hash) {}, 1, 2},
		{"one leaves", func(h *value.Hash) { h.Delete(uuid(0)) }, 4, 6},
		{"one comes in place of another", func(h *value.Hash) { h.Delete(uuid(0)); h.Set(uuid(999), "1") }, 4, 6},
	} {
		for _, n := range []int{8, store.HashHoldersMax} {
			w := newWorld()
			h, held := holding(n)
			c.change(h)
			w.recorder().hashHolders(&Cause{By: "hset", Script: true}, held, h)
			work, each := w.meter.Work(), value.FarWork*int64(n)
			if work < c.least*each || work > c.most*each {
				t.Errorf("%s of %d: work %d, want %d to %d", c.what, n, work, c.least*each, c.most*each)
			}
		}
	}
}

// The history says which locks may be: by the pattern, and up to some length of the name.
func TestNamesLock(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"*", "k", true},
		{"*", strings.Repeat("k", KeyBytesMax), true},
		{"*", strings.Repeat("k", KeyBytesMax+1), false},
		{"lock:*", "lock:1", true},
		{"lock:*", "data:1", false},
		{"", "k", false},
	} {
		w := newWorld()
		w.limits.LockPattern = c.pattern
		if got := w.recorder().NamesLock(c.key); got != c.want {
			t.Errorf("%q names %.10s: %v", c.pattern, c.key, got)
		}
	}
}

// While an embargo lasts, a command that would grant a lock is refused, and one that goes on with a lock is not.
func TestEmbargo(t *testing.T) {
	named := func(key, s string, mark store.Mark) *store.Entry {
		return store.NewEntry(key, nil, value.OfString(s), store.Deadline{Tick: 10}, nil, mark)
	}
	text := func(s string, mark store.Mark) *store.Entry { return named("k", s, mark) }
	many := func(fences ...uint64) *store.Entry {
		var all []*lock.Holder
		for _, f := range fences {
			all = append(all, &lock.Holder{Token: fmt.Sprint(f), Fence: f})
		}
		return store.NewEntry("k", nil, value.OfAggregate((*value.Lock)(lock.NewMany(2, all...))), store.Never, nil, store.NoLock)
	}
	list := store.NewEntry("k", nil, value.OfAggregate(value.NewList(0)), store.Never, nil, store.NoLock)
	hash := store.NewEntry("k", nil, value.OfAggregate(hashOf("f", "1")), store.Never, nil, store.NoLock)
	for name, c := range map[string]struct {
		why       Cause
		watched   bool
		was, next *store.Entry
		met       bool
	}{
		"taken if free":              {why: taker(1), next: text("t", store.MayBeLock), met: true},
		"stored":                     {why: Cause{By: "set"}, next: text("t", store.NoLock)},
		"deleted":                    {why: taker(1), was: text("t", store.MayBeLock)},
		"renewed":                    {why: Cause{By: "pexpire"}, was: text("t", store.MayBeLock), next: text("t", store.MayBeLock)},
		"handed over":                {why: Cause{By: "set"}, was: text("t", store.MayBeLock), next: text("u", store.MayBeLock), met: true},
		"data replaced":              {why: Cause{By: "set"}, was: text("t", store.NoLock), next: text("u", store.NoLock)},
		"by LOCK":                    {why: Cause{By: "lock"}, next: text("t", store.NoLock), met: true},
		"copied":                     {why: Cause{By: "copy"}, next: text("t", store.NoLock), met: true},
		"in a transaction that saw":  {why: Cause{By: "set"}, watched: true, next: text("t", store.NoLock), met: true},
		"a string of a script":       {why: Cause{By: "set", Script: true}, next: text("t", store.NoLock), met: true},
		"a hash of a script":         {why: Cause{By: "hset", Script: true}, next: hash, met: true},
		"a list of a script":         {why: Cause{By: "rpush", Script: true}, next: list},
		"beside a lock of Redisson":  {why: Cause{By: "set", Script: true}, next: named("redisson_k", "t", store.NoLock)},
		"a lock of several":          {why: Cause{By: "x"}, next: many(1), met: true},
		"one more of several":        {why: Cause{By: "x"}, was: many(1), next: many(1, 2), met: true},
		"another one of several":     {why: Cause{By: "x"}, was: many(1), next: many(2), met: true},
		"one less of several":        {why: Cause{By: "x"}, was: many(1, 2), next: many(2)},
		"a lock of several is freed": {why: Cause{By: "x"}, was: many(1, 2)},
	} {
		for _, guards := range []bool{true, false} {
			e := Embargo{Guards: guards, Watched: c.watched}
			if e.Check(&c.why, c.was, c.next); e.Met != (c.met && guards) {
				t.Errorf("%s: guards %v, met %v", name, guards, e.Met)
			}
		}
	}
	if r := EmbargoError(30); !strings.HasPrefix(r.Str, "LOADING ") || !strings.Contains(r.Str, " 30 ms ") {
		t.Error(r.Str)
	}
}

// The end of a whole database is the end of each lock in it, also for a token that was lost before.
func TestLeasesAfterFlush(t *testing.T) {
	w := newWorld()
	why, v := taker(1), value.OfString("t")
	w.put(why, "k", store.NewEntry("k", nil, v, w.until(100), nil, store.MayBeLock))
	w.put(LeaseIsOver, "k", nil)
	w.put(why, "k", store.NewEntry("k", nil, v, w.until(100), nil, store.MayBeLock))
	one := resp.HeldLock{Key: "k", Token: "t", Fence: w.get("k").Fence}
	flush := Cause{By: "flushall", Script: true, Client: client(7)}
	w.recorder().RecordAll(&flush, history.Flushed, 0, 0)
	w.keys.DBs[0] = store.NewDatabase()
	for _, c := range []struct {
		lock resp.HeldLock
		how  string
	}{
		{one, "flushed"},
		{resp.HeldLock{DB: 1, Key: "k", Token: "t", Fence: one.Fence}, resp.LockUnknown},
		{resp.HeldLock{DB: store.Databases, Key: "k", Token: "t", Fence: one.Fence}, resp.LockUnknown},
		{resp.HeldLock{DB: -1, Key: "k", Token: "t", Fence: one.Fence}, resp.LockUnknown},
	} {
		l := Leases(w.keys, &w.events, []resp.HeldLock{c.lock})[0]
		if l.Held || l.How != c.how || c.how == "flushed" && (!l.Script || l.Client.Client().ID != 7) {
			t.Errorf("%+v: %+v", c.lock, l)
		}
	}
	if LeaseOf(w.keys, one).Held {
		t.Error("it is held")
	}
}

// The end of a database is the end of its locks alone, also of some of one key; the end of a lock whose key is empty is
// that lock's. SWAPDB is the end of those of two.
func TestLeasesAfterEndsOfDatabases(t *testing.T) {
	w, flush := newWorld(), Cause{By: "flushdb"}
	var asked []resp.HeldLock
	add := func(kind history.Kind, db int, key, token string) {
		w.events.Add(&history.Event{Kind: kind, DB: db, Key: key, Token: token})
	}
	for db := range 3 {
		for _, token := range []string{"a", "b"} {
			add(history.Granted, db, "k", token)
			asked = append(asked, resp.HeldLock{DB: db, Key: "k", Token: token, Fence: 1})
		}
	}
	asked = append(asked, asked[0])
	asked[6].Fence = 2
	asked = append(asked, resp.HeldLock{Key: "", Token: "a", Fence: 1})
	for _, c := range []struct {
		what func()
		want string
	}{
		{func() {}, "unknown unknown unknown unknown unknown unknown unknown unknown"},
		{func() { add(history.Released, 0, "k", "b") }, "unknown released unknown unknown unknown unknown unknown unknown"},
		{func() { add(history.Released, 0, "", "a") }, "unknown released unknown unknown unknown unknown unknown released"},
		{func() { w.recorder().RecordAll(&flush, history.Flushed, 0, 0) }, "flushed released unknown unknown unknown unknown flushed released"},
		{func() { add(history.Granted, 0, "k", "a") }, "flushed released unknown unknown unknown unknown flushed released"},
		{func() {
			w.recorder().RecordAll(&flush, history.Swapped, 0, 1)
			w.recorder().RecordAll(&flush, history.Swapped, 1, 0)
		}, "swapped released swapped swapped unknown unknown swapped released"},
		{func() { w.recorder().RecordAll(&flush, history.Flushed, 1, 0) }, "swapped released swapped swapped unknown unknown swapped released"},
		{func() { add(history.Expired, 1, "k", "b") }, "swapped released swapped expired unknown unknown swapped released"},
	} {
		c.what()
		var got []string
		for _, l := range Leases(w.keys, &w.events, asked) {
			got = append(got, l.How)
		}
		if said := strings.Join(got, " "); said != c.want {
			t.Errorf("%s, want %s", said, c.want)
		}
	}
}

// The end of a database visits only the locks that it ends, however many were asked for, and once.
func TestLossesAreLinear(t *testing.T) {
	const many, asked = 2000, 500
	var lost losses
	for i := range asked {
		lost.add(resp.HeldLock{DB: i % 2, Key: "k", Token: fmt.Sprint("t", i)}, i)
	}
	steps := 0
	for i := range many {
		for db := range 3 {
			steps += len(lost.open[db])
			lost.follow(&history.Event{Kind: history.Flushed, DB: db})
		}
		lost.follow(&history.Event{Kind: history.Granted, DB: 1, Key: "k", Token: fmt.Sprint("t", i%asked)})
	}
	if most := asked + many; steps > most {
		t.Errorf("%d steps, want at most %d", steps, most)
	}
	if len(lost.of) != asked || len(lost.hashes) != 1 {
		t.Errorf("%d locks of %d keys", len(lost.of), len(lost.hashes))
	}
}
