package lock

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// world is a table with what a machine has around it: who holds the locks, and the clock. It does what Turn says.
type world struct {
	t     testing.TB
	table *Table
	now   int64
	seq   uint64
	fence uint64
	held  map[Name]*Many // Exclusive too
	owner map[string]string
	moved map[Name]bool
	away  map[uint64]bool // sessions
	line  []*asked        // those who wait, in the order in which they came
	said  []string        // what became of waits, in order
}

// asked is a waiter as the test remembers it.
type asked struct {
	*Waiter
	lease int64
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: 1, held: map[Name]*Many{}, owner: map[string]string{}, moved: map[Name]bool{}, away: map[uint64]bool{}}
	line := NewLine()
	w.table = &Table{Line: &line, Keys: w}
	return w
}

func (w *world) Holding(name Name) Holding {
	switch l := w.held[name]; {
	case l == nil:
		return Holding{}
	case l.Mode() == Exclusive:
		h := l.First()
		return Holding{Held: true, Token: h.Token, Owner: h.Owner, Ends: h.Tick}
	default:
		return Holding{Held: true, Many: l, Ends: l.First().Tick}
	}
}

func (w *world) Moving(name Name) bool { return w.moved[name] }

// ask asks for a lock, for wait ms at most, and answers what a client would hear: its fence, or why not.
func (w *world) ask(session uint64, name Name, want Want, lease, wait int64) string {
	held := w.Holding(name)
	answer, err := w.table.Ask(name, &want, &held)
	switch {
	case err != nil:
		return err.Error()
	case answer == Yes:
		return w.grant(name, want, lease)
	case wait == 0:
		return "taken"
	}
	w.seq++
	waiter := &Waiter{Want: want, ID: ID{session, w.seq}, Lock: name, Seq: w.seq, End: w.now + wait}
	if before := w.table.Waiter(name, want.Token); before != nil {
		waiter.Seq = before.Seq
		w.leave(before, "replaced")
		defer w.serve(name, w.now)
	}
	w.line = append(w.line, &asked{waiter, lease})
	slices.SortFunc(w.line, func(a, b *asked) int { return int(a.Seq) - int(b.Seq) })
	w.table.Enter(waiter)
	if w.away[session] {
		w.table.PassOver(waiter)
	}
	for circle := w.table.Circle(name, w.now); circle != nil; circle = w.table.Circle(name, w.now) {
		w.tells(circle)
		w.leave(circle.Waiter, "deadlock")
		w.serve(name, w.now)
	}
	return "waits"
}

func (w *world) grant(name Name, want Want, lease int64) string {
	w.fence++
	h := &Holder{Token: want.Token, Owner: want.Owner, Fence: w.fence, Tick: w.now + lease}
	switch l := w.held[name]; {
	case l == nil || l.Mode() == Exclusive:
		w.held[name] = NewMany(want.Mode, h)
	default:
		if old := l.Holder(want.Token); old != nil {
			h.Fence = old.Fence
		}
		w.held[name] = l.With(h)
	}
	return fmt.Sprint(h.Fence)
}

func (w *world) leave(waiter *Waiter, how string) {
	w.table.Leave(waiter)
	w.line = slices.DeleteFunc(w.line, func(a *asked) bool { return a.Waiter == waiter })
	w.said = append(w.said, waiter.Token+" "+how)
}

// drop ends what gone says of a lock, and has its line move up.
func (w *world) drop(name Name, gone func(h *Holder) bool) {
	l := w.held[name]
	if l == nil {
		return
	}
	if w.held[name] = l.Without(gone); w.held[name] == nil {
		delete(w.held, name)
	}
	w.serve(name, w.now)
}

// serve has the line of a lock move up, and checks each turn.
func (w *world) serve(name Name, freedAt int64) {
	for {
		turn := w.table.Turn(name, freedAt, w.now, true)
		if turn.Action == Rest {
			return
		}
		waiter := turn.Waiter
		first := w.first(name)
		holds := w.held[name] != nil && w.held[name].Holder(waiter.Token) != nil
		if turn.Action != Deadlock && waiter != first && !holds {
			w.t.Fatalf("%s overtakes %s", waiter.Token, first.Token)
		}
		switch turn.Action {
		case Grant:
			if waiter.End < freedAt && !holds {
				w.t.Fatalf("%s gets a lock after its time", waiter.Token)
			}
			at := slices.IndexFunc(w.line, func(a *asked) bool { return a.Waiter == waiter })
			lease := w.line[at].lease
			w.leave(waiter, "granted")
			w.grant(name, waiter.Want, lease)
		case GiveUp:
			w.leave(waiter, "gave up")
		case Refuse:
			w.leave(waiter, turn.Err.Error())
		case Deadlock:
			w.tells(turn.Circle)
			w.leave(waiter, "deadlock")
		}
	}
}

// first is the first in line that is not away.
func (w *world) first(name Name) *Waiter {
	for _, a := range w.line {
		if a.Lock == name && !w.away[a.ID.Session] {
			return a.Waiter
		}
	}
	return nil
}

// expire lets the clock pass, and ends leases and waits in the order in which their times come.
func (w *world) expire(until int64) {
	for w.now < until {
		w.now++
		for _, name := range slices.SortedFunc(maps.Keys(w.held), byName) {
			w.drop(name, func(h *Holder) bool { return h.Tick < w.now })
		}
		for _, a := range slices.Clone(w.line) {
			if a.End < w.now && w.table.Waiter(a.Lock, a.Token) == a.Waiter {
				w.leave(a.Waiter, "gave up")
				w.serve(a.Lock, w.now)
			}
		}
	}
}

func byName(a, b Name) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

// suspend has the waiters of a session passed over; resume gives them their places again.
func (w *world) suspend(session uint64) {
	w.away[session] = true
	w.each(session, w.table.PassOver)
}

func (w *world) resume(session uint64) {
	w.away[session] = false
	w.each(session, w.table.Resume)
}

func (w *world) each(session uint64, do func(*Waiter)) {
	moves := map[Name]bool{}
	for _, a := range w.line {
		if a.ID.Session == session {
			do(a.Waiter)
			moves[a.Lock] = true
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(moves), byName) {
		w.serve(name, w.now)
	}
}

// tells checks that a circle is there as it is told: the owner of each link holds its lock and waits for that of the next
// one, the last owner waits for that of the first.
func (w *world) tells(c *Circle) {
	w.t.Helper()
	for i, l := range c.links {
		next := c.links[(i+1)%len(c.links)].key
		if !w.holds(l.holder, l.key) || !w.waits(l.holder, next) {
			w.t.Fatalf("%v: %s does not hold %s, or does not wait for %s", c.links, l.holder, l.key, next)
		}
	}
	if last := c.links[len(c.links)-1].holder; last != c.Waiter.owner() || c.links[0].key != c.Waiter.Lock.Key {
		w.t.Fatalf("%v: %s waits for %s", c.links, c.Waiter.owner(), c.Waiter.Lock.Key)
	}
}

func (w *world) holds(owner, key string) bool {
	for name, l := range w.held {
		for h := range l.Each {
			if name.Key == key && h.Owner == owner {
				return true
			}
		}
	}
	return false
}

func (w *world) waits(owner, key string) bool {
	return slices.ContainsFunc(w.line, func(a *asked) bool { return a.Owner == owner && a.Lock.Key == key })
}

// check holds what is always true of locks and their lines.
func (w *world) check() {
	w.t.Helper()
	for name, l := range w.held {
		room := 1
		if l.Mode() == Shared {
			room = HoldersMax
		} else if l.Mode() > 0 {
			room = int(l.Mode())
		}
		if l.Len() > room {
			w.t.Fatalf("%v is held %d times, in mode %d", name, l.Len(), l.Mode())
		}
	}
	for _, a := range w.line {
		if w.table.Waiter(a.Lock, a.Token) != a.Waiter {
			w.t.Fatalf("%s waits, and the line does not have it", a.Token)
		}
		if w.table.Present(a.Waiter) == w.away[a.ID.Session] {
			w.t.Fatalf("%s: away %v", a.Token, w.away[a.ID.Session])
		}
		if w.first(a.Lock) != a.Waiter {
			continue
		}
		held := w.Holding(a.Lock)
		if answer, err := held.Admit(&a.Want); answer != Taken || err != nil {
			w.t.Fatalf("%s is first in line for %v and could have it: %v, %v", a.Token, a.Lock, answer, err)
		}
	}
	if w.table.Len() != len(w.line) {
		w.t.Fatalf("%d wait, the line has %d", len(w.line), w.table.Len())
	}
}

// TestTableAtRandom plays owners who take, renew, release and give up locks in all modes, from sessions that fall
// silent and come back. What a lock promises is checked after each step: it is held by no more than may hold it, nobody
// is overtaken, nobody waits for what it could have, nobody is granted a lock after its time.
func TestTableAtRandom(t *testing.T) {
	what := map[string]int{}
	for seed := range uint64(50) {
		w, r := newWorld(t), rand.New(rand.NewPCG(seed, 0))
		for range 2000 {
			w.step(r)
			w.check()
		}
		for _, said := range w.said {
			_, how, _ := strings.Cut(said, " ")
			what[how]++
		}
	}
	for _, how := range []string{"granted", "gave up", "deadlock", "replaced", ErrHeldOtherwise.Error(), LimitError{2}.Error()} {
		if what[how] < 50 {
			t.Errorf("%q became of %d waits: too few to say anything", how, what[how])
		}
	}
}

func (w *world) step(r *rand.Rand) {
	name := Name{r.IntN(2), string(rune('k' + r.IntN(3)))}
	owner := string(rune('a' + r.IntN(5)))
	token := fmt.Sprint(owner, r.IntN(3))
	switch r.IntN(20) {
	default:
		mode := []Mode{Exclusive, Exclusive, Shared, Shared, 2, 3}[r.IntN(6)]
		w.ask(r.Uint64N(3), name, Want{token, owner, mode}, 1+r.Int64N(40), r.Int64N(60))
	case 10, 11, 12, 13, 14:
		if l := w.held[name]; l != nil {
			token := l.Newest().Token
			w.drop(name, func(h *Holder) bool { return h.Token == token })
		}
	case 15:
		if waiter := w.table.Waiter(name, token); waiter != nil {
			w.leave(waiter, "left")
			w.serve(name, w.now)
		}
	case 16, 17:
		w.expire(w.now + r.Int64N(8))
	case 18:
		w.suspend(r.Uint64N(3))
	case 19:
		w.resume(r.Uint64N(3))
	}
}

// BenchmarkTable has a step of TestTableAtRandom, with its checks.
func BenchmarkTable(b *testing.B) {
	w, r := newWorld(b), rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		w.step(r)
		w.check()
		w.said = w.said[:0]
	}
}
