package wait

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/resp"
)

// command is one that waits: TIMEOUT KIND TOKEN KEY ..., a LOCK if KIND is LockLine.
type command resp.Args

func (c command) Kind() Kind       { return Kind(c.number(1)) }
func (c command) Keys() []string   { return c[3:] }
func (c command) TimeoutMs() int64 { return c.number(0) }

func (c command) Lock() *lock.Want {
	if c.Kind() != LockLine {
		return nil
	}
	return &lock.Want{Token: c[2]}
}

func (c command) number(at int) int64 {
	n, _ := strconv.ParseInt(c[at], 10, 64)
	return n
}

type commands struct{}

func (commands) Waiting(args resp.Args) Command {
	if len(args) < 4 {
		return nil
	}
	return command(args)
}

func (commands) Reverses(args resp.Args) bool { return len(args) > 0 && args[0] == "back" }

// world is a table, and a model of it: lists that are searched from end to end.
type world struct {
	t   testing.TB
	r   *rand.Rand
	now int64

	table    Table
	lastSeq  uint64
	last     uint64 // session
	sessions map[uint64]*modelSession
	waiters  []*Waiter // in the order of their places
	ready    []Queue
	gifts    []*Gift // the oldest first
	entry    uint64
	served   map[string]int // what the test has seen, and how often
}

type modelSession struct {
	until       int64
	suspended   bool
	suspensions uint64
	used        map[uint64]bool
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{
		t: t, r: rand.New(rand.NewPCG(seed, 0)), now: 1, table: New(), sessions: map[uint64]*modelSession{},
		served: map[string]int{},
	}
}

// anyID is an id of a session that is open, or was, or never was.
func (w *world) anyID() resp.BlockID {
	return resp.BlockID{Session: 1 + w.r.Uint64N(w.last+1), Number: 1 + w.r.Uint64N(40)}
}

func (w *world) anyKey() string { return string(rune('a' + w.r.IntN(3))) }

func (w *world) anyQueue() Queue {
	return Queue{w.r.IntN(2), w.anyKey(), Kind(1 + w.r.IntN(2))}
}

// ask has a command wait, if its session is open and its number unused.
func (w *world) ask() {
	id := w.anyID()
	s := w.sessions[id.Session]
	if got, want := w.table.Sessions.Has(id.Session), s != nil; got != want {
		w.t.Fatalf("session %d is open: %v", id.Session, got)
	}
	if s == nil || s.used[id.Number] {
		return
	}
	s.used[id.Number], s.until = true, w.now+LeaseMs
	if !w.table.Sessions.Use(id, w.now) {
		w.t.Fatalf("session %d is not open", id.Session)
	}
	timeout, kind := w.r.Int64N(3)*w.r.Int64N(20_000), w.r.IntN(3)
	args := resp.Args{fmt.Sprint(timeout), fmt.Sprint(kind), fmt.Sprint("token", w.r.IntN(6)), w.anyKey()}
	for kind != int(LockLine) && w.r.IntN(2) == 0 {
		args = append(args, w.anyKey())
	}
	waiter := &Waiter{ID: id, DB: w.r.IntN(2), End: store.Never.Tick, Args: args, Command: command(args)}
	if timeout > 0 {
		waiter.End = w.now + timeout
	}
	if w.r.IntN(2) == 0 {
		waiter.Client = resp.Client{ID: w.entry, Name: "me", Addr: "10.0.0.1:1"}.Sender()
	}
	if err := w.table.Admit(waiter); err != nil {
		w.t.Fatal(err)
	}
	if w.lastSeq++; waiter.Seq != w.lastSeq {
		w.t.Fatalf("place %d, want %d", waiter.Seq, w.lastSeq)
	}
	if want := waiter.Lock(); want != nil {
		if before := w.table.Line().Waiter(waiter.Name(), want.Token); before != nil {
			old := w.table.InLine(before)
			waiter.Seq = old.Seq
			w.leave(old, "replaced")
		}
	}
	w.table.Enter(waiter)
	w.waiters = append(w.waiters, waiter)
	slices.SortFunc(w.waiters, func(a, b *Waiter) int { return cmp.Compare(a.Seq, b.Seq) })
}

func (w *world) leave(waiter *Waiter, how string) {
	w.table.Leave(waiter)
	w.waiters = slices.DeleteFunc(w.waiters, func(other *Waiter) bool { return other == waiter })
	w.served[how]++
}

func (w *world) of(session uint64) (list []*Waiter) {
	for _, waiter := range w.waiters {
		if waiter.ID.Session == session {
			list = append(list, waiter)
		}
	}
	slices.SortFunc(list, func(a, b *Waiter) int { return cmp.Compare(a.ID.Number, b.ID.Number) })
	return list
}

func (w *world) closeSession(id uint64) {
	if got, want := w.table.Of(id), w.of(id); !slices.Equal(got, want) {
		w.t.Fatalf("of session %d %d wait, want %d", id, len(got), len(want))
	}
	for _, waiter := range w.table.Of(id) {
		w.leave(waiter, "lapsed")
	}
	w.table.Sessions.Close(id)
	delete(w.sessions, id)
}

// suspend suspends a session, or resumes it, perhaps by a step that comes too late.
func (w *world) suspend(id uint64) {
	s := w.sessions[id]
	passed, _, ok := w.table.Suspend(id)
	if want := s != nil && !s.suspended; ok != want {
		w.t.Fatalf("suspended %v, want %v", ok, want)
	}
	if ok {
		s.suspended = true
		s.suspensions++
		w.served["passed over"] += len(passed)
	}
}

func (w *world) resume(id uint64) {
	s, back := w.sessions[id], []*Waiter{}
	suspensions := uint64(0)
	if s != nil {
		suspensions = s.suspensions - w.r.Uint64N(2)
	}
	w.table.Resume(id, suspensions, func(waiter *Waiter, _ int64) { back = append(back, waiter) })
	want := []*Waiter{}
	if s != nil && s.suspended && suspensions == s.suspensions {
		want, s.suspended = w.of(id), false
	}
	if !slices.Equal(back, want) {
		w.t.Fatalf("%d came back, want %d", len(back), len(want))
	}
	w.served["came back"] += len(back)
}

// queue lists those who wait in a queue and are not passed over, in the order in which they came.
func (w *world) queue(q Queue) (list []*Waiter) {
	for _, waiter := range w.waiters {
		if waiter.DB == q.DB && waiter.Kind() == q.Kind && slices.Contains(waiter.Keys(), q.Key) &&
			!w.sessions[waiter.ID.Session].suspended {
			list = append(list, waiter)
		}
	}
	return list
}

// mark marks a queue, or the line for a lock.
func (w *world) mark() {
	q := w.anyQueue()
	waits := len(w.queue(q)) > 0
	if w.r.IntN(3) > 0 {
		w.table.Arrived(q)
	} else {
		q.Kind = LockLine
		waits = slices.ContainsFunc(w.waiters, func(waiter *Waiter) bool {
			return waiter.Lock() != nil && waiter.Name() == lock.Name{Space: q.DB, Key: q.Key}
		})
		w.table.Freed(lock.Name{Space: q.DB, Key: q.Key})
	}
	if waits && !slices.Contains(w.ready, q) {
		w.ready = append(w.ready, q)
	}
}

// serve serves all queues that are ready, some of whose waiters go on waiting.
func (w *world) serve() {
	if w.r.IntN(4) == 0 { // an attempt is taken back
		keep := w.r.IntN(len(w.ready) + 1)
		w.table.Ready.Truncate(keep)
		w.ready = w.ready[:keep]
	}
	for {
		q, ok := w.table.Ready.Take()
		if !ok || len(w.ready) == 0 || q != w.ready[0] {
			if ok || len(w.ready) > 0 {
				w.t.Fatalf("%v is ready (%v), want %v", q, ok, w.ready)
			}
			return
		}
		w.ready = w.ready[1:]
		want := w.queue(q)
		if q.Kind == LockLine {
			w.serveLine(q, want)
			continue
		}
		behind := uint64(0)
		for next := w.table.Queues.Next(q, behind); next != nil; next = w.table.Queues.Next(q, behind) {
			if len(want) == 0 || next != want[0] {
				w.t.Fatalf("%v overtakes in %v", next.ID, q)
			}
			behind, want = next.Seq, want[1:]
			if w.r.IntN(3) > 0 {
				w.leave(next, "served")
				w.give(next.ID)
			}
		}
		if len(want) > 0 {
			w.t.Fatalf("%v was not served", want[0].ID)
		}
	}
}

func (w *world) serveLine(q Queue, want []*Waiter) {
	at := w.table.Line().First(lock.Name{Space: q.DB, Key: q.Key})
	switch {
	case at == nil && len(want) == 0:
	case at == nil || len(want) == 0 || w.table.InLine(at) != want[0]:
		w.t.Fatalf("first in line for %v: %v, want %d", q, at, len(want))
	default:
		w.leave(want[0], "granted")
		w.give(want[0].ID)
		if w.table.InLine(at) != nil {
			w.t.Fatalf("%v is in line, and was served", at.ID)
		}
	}
}

// give remembers a gift; the model has a bound of its age only.
func (w *world) give(id resp.BlockID) {
	w.entry++
	g := &Gift{ID: id, Entry: w.entry, Tick: w.now, DB: w.r.IntN(3), Version: w.entry, Waited: w.r.IntN(2) == 0}
	g.Cmds, g.Key = []resp.Args{{"back", fmt.Sprint(w.entry), w.anyToken()}}, "key"
	if w.r.IntN(2) == 0 {
		g.Lock = &resp.Watch{DB: g.DB, Key: "key", Version: w.entry, Holder: w.r.IntN(2) == 0}
	}
	if kept, _ := w.table.Gifts.Give(g); !kept {
		w.t.Fatal("a gift was not remembered")
	}
	w.gifts = slices.DeleteFunc(w.gifts, func(other *Gift) bool { return w.now-other.Tick > GiftKeepMs })
	model := *g
	w.gifts = append(w.gifts, &model)
}

func (w *world) anyToken() string { return fmt.Sprint("token ", w.r.IntN(3)) }

// unlock has a token leave.
func (w *world) unlock() {
	db, token := w.r.IntN(3), w.anyToken()
	if len(w.gifts) > 0 && w.r.IntN(4) > 0 {
		g := w.gifts[w.r.IntN(len(w.gifts))]
		db, token = g.DB, g.token()
	}
	w.table.Gifts.Leave(db, "key", token)
	for _, g := range w.gifts {
		if g.Lock != nil && g.DB == db && g.token() == token {
			g.Left = true
			w.served["left"]++
		}
	}
}

// takeBack takes a gift back; if its command may be asked for again, a lock stays.
func (w *world) takeBack(again bool) {
	if len(w.gifts) == 0 {
		return
	}
	want, take := w.gifts[w.r.IntN(len(w.gifts))], w.table.Gifts.TakeBack
	if again {
		take = w.table.Gifts.Return
	}
	g := take(want.ID)
	if (g == nil) != want.Returned || g != nil && (g.Entry != want.Entry || g.Cmds[0][1] != want.Cmds[0][1] || (g.Lock != nil) != (want.Lock != nil)) {
		w.t.Fatalf("taken back %v, want %v", g, want)
	}
	w.served["taken back"]++
	if again && want.Lock != nil && !want.Returned {
		want.Returned = true
		w.served["returned"]++
		return
	}
	w.gifts = slices.DeleteFunc(w.gifts, func(other *Gift) bool { return other == want })
}

// settle ends gifts: delivered, taken back, or of a database that was emptied.
func (w *world) settle() {
	session, upTo := w.anyID().Session, w.entry-w.r.Uint64N(w.entry+1)
	switch w.r.IntN(8) {
	case 0:
		w.table.Gifts.Settle(session, upTo)
		w.gifts = slices.DeleteFunc(w.gifts, func(g *Gift) bool { return g.ID.Session == session && g.Entry <= upTo })
	case 1, 2:
		w.takeBack(false)
	case 4, 5:
		w.takeBack(true)
	case 6, 7:
		w.unlock()
	case 3:
		from, before := w.r.IntN(3), w.table.Gifts.Copy()
		found, _ := w.table.Gifts.Returnable(from, from+1)
		w.table.Gifts.Forfeit(found)
		if left, _ := w.table.Gifts.Returnable(from, from+1); len(left) > 0 {
			w.t.Fatalf("%d could return", len(left))
		}
		if again, _ := before.Returnable(from, from+1); len(again) != len(found) {
			w.t.Fatalf("the copy was changed: %d of %d", len(again), len(found))
		}
		w.table.Gifts = *before // an attempt is taken back
	}
}

// pass lets the clock pass, and ends what is over.
func (w *world) pass() {
	next, ok := w.table.NextEnd()
	switch w.r.IntN(20) {
	default:
		w.now += w.r.Int64N(6000)
	case 0:
		w.now += GiftKeepMs / 3
	case 1, 2, 3, 4:
		if ok { // what is next has its time until then, included
			w.now = max(w.now, next)
		}
	}
	for first := w.table.FirstEnd(); first != nil && first.End < w.now; first = w.table.FirstEnd() {
		for _, other := range w.waiters {
			if other.End < first.End || other.End == first.End && other.Seq < first.Seq {
				w.t.Fatalf("%v ends before %v", first.ID, other.ID)
			}
		}
		if !slices.Contains(w.waiters, first) {
			w.t.Fatalf("%v ends, and does not wait", first.ID)
		}
		w.leave(first, "timed out")
	}
	over := w.table.Sessions.Over(w.now)
	for _, id := range slices.Sorted(maps.Keys(w.sessions)) {
		if w.sessions[id].until < w.now {
			if len(over) == 0 || over[0] != id {
				w.t.Fatalf("over are %v, want %d", over, id)
			}
			over = over[1:]
			w.closeSession(id)
		}
	}
	if len(over) > 0 {
		w.t.Fatalf("%v are not over", over)
	}
	w.table.Gifts.Sweep(w.now)
	w.gifts = slices.DeleteFunc(w.gifts, func(g *Gift) bool { return w.now-g.Tick > GiftKeepMs })
}

func (w *world) step() {
	switch id := w.anyID(); w.r.IntN(20) {
	default:
		w.ask()
	case 8, 9, 10:
		w.mark()
	case 11, 12:
		w.serve()
	case 13:
		if w.last < 3 || w.r.IntN(4) == 0 {
			if w.last++; w.table.Sessions.Open("node", w.last, w.now) != w.last {
				w.t.Fatalf("%d sessions were opened", w.last)
			}
			w.sessions[w.last] = &modelSession{until: w.now + LeaseMs, used: map[uint64]bool{}}
		}
	case 14:
		if s := w.sessions[id.Session]; w.table.Sessions.Keep(id.Session, w.now) {
			s.until = w.now + LeaseMs
		}
	case 15:
		w.suspend(id.Session)
	case 16:
		w.resume(id.Session)
	case 17:
		w.settle()
	case 18:
		w.pass()
	case 19:
		if len(w.waiters) > 0 {
			w.leave(w.waiters[w.r.IntN(len(w.waiters))], "cancelled")
		}
	}
}

// check compares the table with the model, and its image with that of a table made of it.
func (w *world) check() {
	w.t.Helper()
	places, size, ends := 0, int64(0), int64(math.MaxInt64)
	for _, waiter := range w.waiters {
		size += waiter.bytes()
		ends = min(ends, waiter.End)
		if w.table.Waiter(waiter.ID) != waiter || w.table.State(waiter.ID) != resp.BlockWaiting {
			w.t.Fatalf("%v does not wait", waiter.ID)
		}
		away := w.sessions[waiter.ID.Session].suspended
		if waiter.Lock() != nil && w.table.Line().Present(waiter.inLine) == away {
			w.t.Fatalf("%v: passed over %v", waiter.ID, !away)
		}
		if waiter.Lock() == nil && !away {
			keys := slices.Compact(slices.Sorted(slices.Values(waiter.Keys())))
			places += len(keys)
		}
	}
	for _, s := range w.sessions {
		ends = min(ends, s.until)
	}
	if tick, ok := w.table.NextEnd(); ok != (len(w.sessions) > 0) || ok && tick != ends {
		w.t.Fatalf("next end %d, want %d", tick, ends)
	}
	if w.table.Len() != len(w.waiters) || w.table.Queues.Len() != places || w.table.Bytes() != size {
		w.t.Fatalf("%d wait in %d places, %d bytes; want %d, %d, %d",
			w.table.Len(), w.table.Queues.Len(), w.table.Bytes(), len(w.waiters), places, size)
	}
	for db := range 2 {
		want := map[string]bool{}
		for _, key := range []string{"a", "b", "c"} {
			if len(w.queue(Queue{db, key, 1}))+len(w.queue(Queue{db, key, 2})) > 0 {
				want[key] = true
			}
		}
		if got := w.table.Queues.Keys(db); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			w.t.Fatalf("somebody waits for %q, want %v", got, want)
		}
	}
	id := w.anyID()
	s, over := w.sessions[id.Session], resp.BlockOver
	switch {
	case w.table.Waiter(id) != nil:
		over = resp.BlockWaiting
	case id.Session > w.last, s != nil && !s.used[id.Number]:
		over = resp.BlockUnseen
	}
	if got := w.table.State(id); got != over {
		w.t.Fatalf("%v is %v, want %v", id, got, over)
	}
	bytes, locks := int64(0), 0
	for _, g := range w.gifts {
		bytes += g.bytes()
		if got := w.table.Gifts.Get(g.ID); got == nil || got.Entry != g.Entry || got.Left != g.Left || got.Returned != g.Returned {
			w.t.Fatalf("of %v is remembered %v, want %v", g.ID, got, g)
		}
		locks += resp.One(g.Lock != nil && !g.Left)
	}
	if n := w.table.Gifts.byLock.Len(); n != locks {
		w.t.Fatalf("%d gifts can be found by their locks, want %d", n, locks)
	}
	if w.table.Gifts.Len() != len(w.gifts) || w.table.Gifts.byAge.Len() != len(w.gifts) || w.table.Gifts.bytes != bytes {
		w.t.Fatalf("%d gifts of %d bytes, want %d of %d", w.table.Gifts.Len(), w.table.Gifts.bytes, len(w.gifts), bytes)
	}
}

// restore goes on with a table made of the image, whose image is the same.
func (w *world) restore() {
	w.t.Helper()
	frozen := w.table.Frozen()
	img := image(w.t, &frozen)
	next, err := restored(img)
	if err != nil {
		w.t.Fatal(err)
	}
	if !bytes.Equal(image(w.t, &next), img) {
		w.t.Fatal("the image of the restored table differs")
	}
	next.Ready = w.table.Ready
	w.table = next
	for i, waiter := range w.waiters {
		w.waiters[i] = next.Waiter(waiter.ID)
	}
	slices.SortFunc(w.waiters, func(a, b *Waiter) int { return cmp.Compare(a.Seq, b.Seq) })
}

// TestTableAtRandom plays nodes that ask, fall silent, come back and lapse, keys that become ready, and what was given
// and is settled or taken back. The table agrees with the model after each step, also through images.
func TestTableAtRandom(t *testing.T) {
	what := map[string]int{}
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		for range 3000 {
			w.step()
			w.check()
			if w.r.IntN(50) == 0 {
				w.restore()
				w.check()
			}
		}
		for how, n := range w.served {
			what[how] += n
		}
	}
	for _, how := range []string{
		"served", "granted", "timed out", "cancelled", "lapsed", "replaced", "passed over", "came back", "taken back",
		"returned", "left",
	} {
		if what[how] < 50 {
			t.Errorf("%d were %s: too few to say anything", what[how], how)
		}
	}
	t.Log(what)
}

// BenchmarkTable has a step of TestTableAtRandom.
func BenchmarkTable(b *testing.B) {
	w := newWorld(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		w.step()
	}
}
