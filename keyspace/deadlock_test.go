package keyspace

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// waitGraph is who holds and who waits, read off the state by words of its own.
type waitGraph struct {
	locks  map[string]*lineModel
	owners map[string]string // of tokens, each of which is used once
}

func newWaitGraph(m *Machine) *waitGraph {
	g := &waitGraph{locks: map[string]*lineModel{}, owners: map[string]string{}}
	m.state.Keys.DBs[0].Keys.Each(func(e *store.Entry) bool {
		l := g.lock(e.Key())
		if e.Lock() == nil {
			l.holders = []holding{{e.Str(), e.Tick}}
			g.owners[e.Str()] = e.Tag().Owner
			return true
		}
		l.mode = "SHARED"
		if n := e.Lock().Mode(); n > 0 {
			l.mode = fmt.Sprint("LIMIT ", n)
		}
		e.Lock().Each(func(h *lock.Holder) bool {
			l.holders = append(l.holders, holding{h.Token, h.Tick})
			g.owners[h.Token] = h.Owner
			return true
		})
		return true
	})
	line := slices.Collect(m.state.Waits.Each)
	slices.SortFunc(line, func(a, b *wait.Waiter) int { return int(a.Seq) - int(b.Seq) })
	for _, w := range line {
		mode := ""
		want := w.Lock()
		if want.Mode == lock.Shared {
			mode = "SHARED"
		} else if want.Mode > 0 {
			mode = fmt.Sprint("LIMIT ", want.Mode)
		}
		g.wait(w.Name().Key, want.Owner, inLine{w.ID.Number, want.Token, mode, leaseOf(w), w.End})
	}
	return g
}

func (g *waitGraph) lock(key string) *lineModel {
	if g.locks[key] == nil {
		g.locks[key] = &lineModel{}
	}
	return g.locks[key]
}

func (g *waitGraph) wait(key, owner string, w inLine) {
	g.lock(key).line = append(g.lock(key).line, w)
	g.owners[w.token] = owner
}

// drop removes holders and waits by their tokens.
func (g *waitGraph) drop(gone func(token string, until int64) bool) {
	for _, l := range g.locks {
		l.holders = slices.DeleteFunc(l.holders, func(h holding) bool { return gone(h.token, h.until) })
		l.line = slices.DeleteFunc(l.line, func(w inLine) bool { return gone(w.token, w.end) })
	}
}

// waits are the keys that each owner waits for.
func (g *waitGraph) waits() map[string][]string {
	waits := map[string][]string{}
	for key, l := range g.locks {
		for _, w := range l.line {
			waits[g.owners[w.token]] = append(waits[g.owners[w.token]], key)
		}
	}
	return waits
}

func (g *waitGraph) holds(owner, key string) bool {
	l := g.locks[key]
	return l != nil && slices.ContainsFunc(l.holders, func(h holding) bool { return g.owners[h.token] == owner })
}

// circles are those waits, "owner key", that stand in a circle of owners who can not go on: it takes
// away whoever may go on until nobody does, and then follows those who are left.
func (g *waitGraph) circles() map[string]bool {
	waits := g.waits()
	stuck := maps.Clone(waits)
	held := func(key string) bool { // by stuck owners alone
		return len(g.locks[key].holders) > 0 && !slices.ContainsFunc(g.locks[key].holders, func(h holding) bool {
			return stuck[g.owners[h.token]] == nil
		})
	}
	for before := -1; before != len(stuck); {
		before = len(stuck)
		maps.DeleteFunc(stuck, func(_ string, keys []string) bool {
			return slices.ContainsFunc(keys, func(key string) bool { return !held(key) })
		})
	}
	list := map[string]bool{}
	for owner, keys := range waits {
		for _, key := range keys {
			if held(key) && g.reaches(key, owner, map[string]bool{}) {
				list[owner+" "+key] = true
			}
		}
	}
	return list
}

func (g *waitGraph) reaches(key, owner string, seen map[string]bool) bool {
	if g.holds(owner, key) {
		return true
	}
	seen[key] = true
	for _, h := range g.locks[key].holders {
		for _, next := range g.waits()[g.owners[h.token]] {
			if !seen[next] && g.reaches(next, owner, seen) {
				return true
			}
		}
	}
	return false
}

// goOn plays what can still happen: whoever does not wait releases all that it holds, and the lines
// move up. Who waits at the end waits for ever.
func (g *waitGraph) goOn() *waitGraph {
	g = &waitGraph{maps.Clone(g.locks), g.owners}
	for key, l := range g.locks {
		g.locks[key] = &lineModel{mode: l.mode, holders: slices.Clone(l.holders), line: slices.Clone(l.line)}
	}
	for again := true; again; {
		again = false
		waits := g.waits()
		for _, key := range slices.Sorted(maps.Keys(g.locks)) {
			l := g.locks[key]
			before := len(l.holders)
			l.holders = slices.DeleteFunc(l.holders, func(h holding) bool { return waits[g.owners[h.token]] == nil })
			line := len(l.line)
			l.serve(0)
			again = again || len(l.holders) != before || len(l.line) != line
		}
	}
	return g
}

// answered ends a wait; granted says that it has the lock.
func (l *lineModel) answered(number uint64, granted bool) {
	at := slices.IndexFunc(l.line, func(w inLine) bool { return w.number == number })
	if at < 0 {
		return
	}
	w := l.line[at]
	l.line = slices.Delete(l.line, at, at+1)
	if granted {
		l.mode, l.holders = w.mode, append(l.holders, holding{w.token, w.lease})
	}
}

// tells checks the words of a deadlock against who holds and who waits.
func (g *waitGraph) tells(words, owner, key string) bool {
	circle, ok := strings.CutPrefix(words, owner+" holds ")
	parts := strings.Split(circle, ", held by ")
	first, wanted, _ := strings.Cut(parts[0], " and waits for ")
	ok = ok && g.holds(owner, first) && wanted == key
	for _, part := range parts[1:] {
		by, next, _ := strings.Cut(part, ", which waits for ")
		ok = ok && g.holds(by, wanted) && slices.Contains(g.waits()[by], next)
		wanted = next
	}
	return ok && wanted == first
}

// deadlockPlay plays owners who take locks at random.
type deadlockPlay struct {
	*blockStage
	r      *rand.Rand
	single bool // an owner waits for one lock at a time
	number uint64
	asked  map[uint64]string // who has asked for what, as "owner key"
	began  string            // who has in this turn
	found  int
}

// turn does one thing, and returns what the graph was when it was to be decided who waits for ever.
func (p *deadlockPlay) turn() *waitGraph {
	g := newWaitGraph(p.m)
	tokens := slices.Sorted(maps.Keys(g.owners))
	key, owner := string(rune('w'+p.r.IntN(4))), string(rune('a'+p.r.IntN(4)))
	p.began = ""
	switch what := p.r.IntN(12); {
	case what < 7 && (!p.single || g.waits()[owner] == nil):
		p.number++
		p.began = owner + " " + key
		p.asked[p.number] = p.began
		token, mode := fmt.Sprint("t", p.number), []string{"", "", "SHARED", "SHARED", "LIMIT 2"}[p.r.IntN(5)]
		lease, wait := 50+p.r.Int64N(500), 50+p.r.Int64N(500)
		g.wait(key, owner, inLine{p.number, token, mode, lease, p.at.Tick + wait})
		p.ask(p.number, fmt.Sprintf("LOCK %s %s PX %d WAIT %d %s OWNER %s", key, token, lease, wait, mode, owner))
	case what < 10 && len(tokens) > 0:
		token := tokens[p.r.IntN(len(tokens))]
		for _, key := range slices.Sorted(maps.Keys(g.locks)) {
			p.run("UNLOCK " + key + " " + token)
		}
		g.drop(func(t string, _ int64) bool { return t == token })
	case what == 10:
		p.send(keeping(1))
		p.tick(p.at.Tick + 1 + p.r.Int64N(10))
		g.drop(func(_ string, until int64) bool { return until < p.at.Tick })
	case what == 11:
		p.run("DEL " + key)
		g.lock(key).holders = nil
	}
	return g
}

// check compares what was said with the graph, and with a machine that has only the image.
func (p *deadlockPlay) check(g *waitGraph, twin *deadlockPlay) {
	p.t.Helper()
	if !slices.Equal(p.said, twin.said) || !bytes.Equal(image(p.t, p.m), image(p.t, twin.m)) {
		p.t.Fatalf("heard %q; after an image %q", p.said, twin.said)
	}
	for _, line := range p.said {
		number := uint64(0)
		_, words, served := strings.Cut(line, " served ")
		if _, err := fmt.Sscanf(line, "1/%d", &number); err != nil || !served {
			continue
		}
		if circle, ok := strings.CutPrefix(words, "DEADLOCK "); ok {
			p.judge(g, number, circle)
		}
		_, key, _ := strings.Cut(p.asked[number], " ")
		g.lock(key).answered(number, words[0] >= '0' && words[0] <= '9')
	}
	for circle := range newWaitGraph(p.m).circles() {
		if p.single || circle == p.began { // circles that the end of another wait closes are not found
			p.t.Fatalf("%s is in a circle; heard %q", circle, p.said)
		}
	}
	p.said = nil
}

// judge checks what one was told, against who holds and who waits at that moment.
func (p *deadlockPlay) judge(g *waitGraph, number uint64, circle string) {
	p.t.Helper()
	owner, key, _ := strings.Cut(p.asked[number], " ")
	if !g.circles()[p.asked[number]] || !g.tells(circle, owner, key) {
		p.t.Fatalf("%s waits for %s in no such circle: %s", owner, key, circle)
	}
	if last := g.goOn(); !slices.ContainsFunc(last.lock(key).line, func(w inLine) bool { return w.number == number }) {
		p.t.Fatalf("%s, though it would get the lock", circle)
	}
	p.found++
}

// Whatever owners do with locks of all kinds, a deadlock is told if, and only if, there is one: a search
// of another kind finds it, too, and those in it wait for ever whatever all others release. A machine
// that has only the image tells the same.
func TestDeadlocks(t *testing.T) {
	for _, single := range []bool{true, false} {
		found := 0
		for seed := range uint64(10) {
			p := &deadlockPlay{
				blockStage: newBlockStage(t), single: single, asked: map[uint64]string{},
			}
			for i := range uint64(120) {
				twin := *p
				twin.blockStage = &blockStage{t: t, m: restored(t, image(t, p.m)), at: p.at}
				twin.asked = map[uint64]string{}
				twin.r = rand.New(rand.NewPCG(seed, i))
				twin.turn()
				p.r = rand.New(rand.NewPCG(seed, i))
				p.check(p.turn(), &twin)
			}
			found += p.found
		}
		if t.Logf("one wait at a time %v: %d", single, found); found < 50 {
			t.Errorf("%d deadlocks are too few to say anything", found)
		}
	}
}

// ring has owners o0, o1 ... each of whom holds a lock and waits for that of the next but the last, who
// is asked for here.
func (s *blockStage) ring(owners int) {
	apply := func(req resp.Request) {
		s.at.Index++
		_, msgs := s.m.Apply(s.at, []resp.Request{req})
		s.hear(msgs)
	}
	for i := range owners {
		apply(request(0, fmt.Sprintf("LOCK k%d t%d PX 90000 OWNER o%d", i, i, i)))
	}
	for i := range owners {
		line := fmt.Sprintf("LOCK k%d t%d PX 90000 WAIT 60000 OWNER o%d", (i+1)%owners, i, i)
		apply(asking(1, uint64(i+1), 0, split(line)))
	}
}

// The limits of a search; beyond them nobody is told. The error names a few, with the beginnings of
// their names.
func TestLimitsOfDeadlocks(t *testing.T) {
	s := newBlockStage(t)
	s.ring(lock.CircleOwnersMax)
	s.expect(fmt.Sprintf("1/%d served DEADLOCK o255 holds k255 and waits for k0, held by o0, which waits for k1, "+
		"held by o1, which waits for k2, held by o2, which waits for k3, held by o3, which waits for k4, ..., "+
		"held by o251, which waits for k252, held by o252, which waits for k253, "+
		"held by o253, which waits for k254, held by o254, which waits for k255", lock.CircleOwnersMax))
	s = newBlockStage(t)
	s.ring(lock.CircleOwnersMax + 1)
	s.expect()

	s = newBlockStage(t)
	s.run("LOCK own t PX 90000 OWNER b")
	for i := range 4 { // with the fourth there are too many holders to look at
		for j := range lock.HoldersMax {
			s.m.Apply(s.at, []resp.Request{request(0, fmt.Sprintf("LOCK r%d t%d PX 90000 SHARED OWNER a", i, j))})
		}
		s.ask(uint64(1+i), fmt.Sprintf("LOCK r%d t PX 90000 WAIT 60000 OWNER b", i))
		if i >= 2 {
			s.ask(uint64(8+i), "LOCK own t9 PX 90000 WAIT 60000 OWNER a")
		}
	}
	s.expect("1/10 served DEADLOCK a holds r0 and waits for own, held by b, which waits for r0")
}

// What is shown of names is short: of a token in particular, which is a secret of a kind.
func TestWordsOfDeadlock(t *testing.T) {
	s := newBlockStage(t)
	key, owner := strings.Repeat("k", 65), strings.Repeat("ü", 65)
	s.run("LOCK " + key + " t PX 5000 OWNER " + owner)
	s.run("LOCK free secret-of-mine PX 5000")
	s.ask(1, "LOCK free t2 PX 5000 WAIT 5000 OWNER "+owner)
	s.ask(2, "LOCK "+key+" secret-of-mine PX 5000 WAIT 5000")
	s.expect("1/2 served DEADLOCK secret-o... holds free and waits for " + key[:64] + "..., held by " +
		strings.Repeat("ü", 64) + "..., which waits for free")
}

// An entry that would have to look at too much looks no more, and the next one does again.
func TestDeadlocksOfEntry(t *testing.T) {
	s := newBlockStage(t)
	s.run("LOCK x t1 PX 5000 OWNER a")
	s.run("LOCK y t2 PX 5000 OWNER b")
	s.ask(1, "LOCK y t3 PX 5000 WAIT 5000 OWNER a")
	s.m.state.Searched = deadlockEntryWorkMax + 1
	if serviceAt(&s.m.state, s.at).circle(s.at.Tick, lock.Name{Key: "y"}); s.m.state.Searched != deadlockEntryWorkMax+1 {
		t.Error("it looks still")
	}
	s.ask(2, "LOCK x t4 PX 5000 WAIT 5000 OWNER b")
	s.expect("1/2 served DEADLOCK b holds y and waits for x, held by a, which waits for y")
}

// A circle that is about to end is none: a lock that the same script has freed, a wait that is over.
func TestNoDeadlock(t *testing.T) {
	s := newBlockStage(t)
	for _, line := range []string{
		"LOCK pool t1 PX 9000 LIMIT 2 OWNER a", "LOCK pool t2 PX 9000 LIMIT 2 OWNER c",
		"LOCK door t3 PX 9000 SHARED OWNER b", "LOCK door t4 PX 9000 SHARED OWNER c",
	} {
		s.run(line)
	}
	s.ask(1, "LOCK door t5 PX 9000 WAIT 9000 OWNER a")
	s.ask(2, "LOCK pool t6 PX 9000 WAIT 9000 LIMIT 2 OWNER b")
	s.do(resp.Args{"EVAL", "UNLOCK door t4\nUNLOCK pool t2", "0"})
	s.expect("1/2 served " + s.run("RENEW pool t6 PX 9000"))

	s = newBlockStage(t)
	s.run("LOCK door t1 PX 9000 SHARED OWNER a")
	s.run("LOCK door t2 PX 100 SHARED OWNER c")
	s.run("LOCK x t3 PX 9000 OWNER b")
	s.ask(1, "LOCK x t4 PX 9000 WAIT 150 OWNER a")
	s.ask(2, "LOCK door t5 PX 9000 WAIT 9000 OWNER b")
	s.tick(s.at.Tick + 200)
	s.expect("1/1 timed out")
}

// leaseOf returns the lease that a LOCK waits for.
func leaseOf(w *wait.Waiter) (ms int64) {
	at := slices.IndexFunc(w.Args, func(word string) bool { return resp.Is(word, "PX") })
	ms, _ = resp.ParseInt(w.Args[at+1])
	return ms
}
