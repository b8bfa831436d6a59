package keyspace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/command"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/keyspace/store"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// checkBlocked compares what is derived of those who wait with what follows from
// them. Between two entries nobody waits for what is there.
func checkBlocked(t testing.TB, m *Machine) {
	t.Helper()
	places, inLine := 0, 0
	suspended := map[uint64]bool{}
	for _, s := range m.Blocks().Sessions() {
		suspended[s.ID] = s.Suspended
	}
	for w := range m.state.Waits.Each {
		if w.Lock() != nil {
			inLine++
			checkInLine(t, m, w, suspended[w.ID.Session])
		} else {
			places += checkQueued(t, m, w, suspended[w.ID.Session])
		}
		if m.Blocks().State(w.ID) != resp.BlockWaiting || !m.state.Waits.Sessions.Used(w.ID) {
			t.Fatalf("%v waits and was never asked for", w.ID)
		}
	}
	if n := m.state.Waits.Line().Len(); inLine != n {
		t.Fatalf("%d stand in line, kept %d", inLine, n)
	}
	if places != m.state.Waits.Queues.Len() || m.state.Waits.Ready.Len() > 0 {
		t.Fatalf("%d places, kept %d; %d queues are ready", places, m.state.Waits.Queues.Len(), m.state.Waits.Ready.Len())
	}
}

// checkQueued compares the places of a waiter in the queues of its keys with what follows from it, and counts them.
func checkQueued(t testing.TB, m *Machine, w *wait.Waiter, suspended bool) (places int) {
	t.Helper()
	c := command.NewCtx(&m.state, resp.Stamp{}, w.DB)
	for i, key := range w.Keys() {
		q := wait.Queue{DB: w.DB, Key: key, Kind: w.Kind()}
		if queued := m.state.Waits.Queues.Next(q, w.Seq-1) == w; queued == suspended {
			t.Fatalf("%v is in the queue of %q: %v; its session is suspended: %v", w.ID, key, queued, suspended)
		}
		if suspended {
			continue
		}
		if !slices.Contains(w.Keys()[:i], key) {
			places++
		}
		if e, ok := m.state.Keys.DBs[w.DB].Keys.Get(key); ok && !m.state.Expired(e) && e.Aggregate() != nil && state.KindOf(e.Aggregate().Kind()) == w.Kind() && command.Ready(&c, w, key) {
			t.Fatalf("%v waits for %q, which is there", w.ID, key)
		}
	}
	return places
}

// checkInLine compares the place of a LOCK in its line with what follows from it.
func checkInLine(t testing.TB, m *Machine, w *wait.Waiter, suspended bool) {
	t.Helper()
	line := m.state.Waits.Line()
	at := line.Waiter(w.Name(), w.Lock().Token)
	if at == nil || m.state.Waits.InLine(at) != w {
		t.Fatalf("%v waits in line for %q; another one has its token", w.ID, w.Name().Key)
	}
	if line.Present(at) == suspended {
		t.Fatalf("%v is present in line: %v; its session is suspended: %v", w.ID, !suspended, suspended)
	}
	if line.First(w.Name()) == at && !isTaken(m, w) {
		t.Fatalf("%v is first in line for %q, and might have it", w.ID, w.Name().Key)
	}
}

// isTaken reports whether a waiter must wait for its lock, even if nobody stands before it.
func isTaken(m *Machine, w *wait.Waiter) bool {
	if e, ok := m.state.Keys.DBs[w.DB].Keys.Get(w.Name().Key); !ok || e.Due(m.state.Tick) {
		return false
	}
	held := m.state.Holdings(0).Holding(w.Name())
	answer, err := held.Admit(w.Lock())
	return err == nil && answer == lock.Taken
}

// blockStage is a machine, and what it has said of blocking commands.
type blockStage struct {
	t    *testing.T
	m    *Machine
	at   resp.Stamp
	said []string
}

func newBlockStage(t *testing.T) *blockStage {
	s := &blockStage{t: t, m: New(fakeScripts{}), at: resp.Stamp{Tick: 1000, Wall: 1_700_000_000_000_000}}
	s.send(resp.BlockOpening("", 0))
	return s
}

// do applies one command in an entry of its own.
func (s *blockStage) do(args resp.Args) resp.Reply {
	return s.send(resp.Request{Cmds: []resp.Cmd{{Args: args}}})
}

// send applies a request in an entry of its own.
func (s *blockStage) send(req resp.Request) resp.Reply {
	s.at.Index++
	results, msgs := s.m.Apply(s.at, []resp.Request{req})
	s.hear(msgs)
	checkDerived(s.t, s.m)
	return results[0].Replies[0]
}

func (s *blockStage) run(line string) string { return plain(s.do(split(line))) }

// ask asks for a command in the first session.
func (s *blockStage) ask(number uint64, line string) int64 {
	return s.send(asking(1, number, 0, split(line))).Int
}

func (s *blockStage) tick(tick int64) {
	s.at.Tick = tick
	s.at.Index++
	_, msgs := s.m.Apply(s.at, nil)
	s.hear(msgs)
	checkDerived(s.t, s.m)
}

var endingWords = map[resp.Ending]string{
	resp.BlockServed: "served", resp.BlockTimedOut: "timed out", resp.BlockCancelled: "cancelled",
	resp.BlockDropped: "dropped", resp.BlockLapsed: "lapsed",
}

func (s *blockStage) hear(msgs []resp.Message) {
	for _, m := range msgs {
		if m.Kind == resp.MessageBlock {
			s.said = append(s.said, strings.TrimRight(fmt.Sprintf("%d/%d %s %s", m.Block.ID.Session, m.Block.ID.Number, endingWords[m.Block.How], plain(m.Block.Reply)), " "))
		}
	}
}

// expect compares what was said since the last call.
func (s *blockStage) expect(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.said, want) {
		s.t.Fatalf("heard %q, want %q", s.said, want)
	}
	s.said = nil
}

// A command is executed once, however often and late its node asks for it.
func TestBlockingCommandIsExecutedOnce(t *testing.T) {
	s := newBlockStage(t)
	s.run("RPUSH list a b c d")
	s.ask(1, "BLPOP list 0")
	s.expect("1/1 served list a")
	s.ask(1, "BLPOP list 0") // its node had not heard
	s.expect("1/1 dropped")

	if left := s.ask(2, "BLPOP none 0"); left != -1 {
		t.Errorf("it may wait for %d ms, not for ever", left)
	}
	if left := s.ask(2, "BLPOP none 0"); left != -1 {
		t.Errorf("asked again, it may wait for %d ms, not for ever", left)
	}
	s.expect()
	s.run("RPUSH none x y")
	s.expect("1/2 served none x")
	s.ask(2, "BLPOP none 0") // the first one had been lost on its way, and arrives
	s.expect("1/2 dropped")

	s.send(cancelling(1, 9)) // before it
	s.expect("1/9 cancelled")
	s.ask(9, "BLPOP list 0")
	s.expect("1/9 dropped")
	s.send(cancelling(1, 2)) // has ended
	s.expect()
	if got := s.run("LRANGE list 0 -1"); got != "b c d" {
		t.Errorf("left are %q", got)
	}
	s.ask(5, "BLPOP list 0") // between numbers that have been used
	s.expect("1/5 served list b")
}

// Only blocking commands are asked for so; another is not executed.
func TestOnlyBlockingCommandsAreAskedFor(t *testing.T) {
	s := newBlockStage(t)
	s.ask(1, "SET k v")
	s.ask(2, "NOTHING k")
	s.ask(3, "BLPOP k")
	s.expect("1/1 served ERR this is no blocking command", "1/2 served ERR unknown command 'NOTHING', with args beginning with: 'k'",
		"1/3 served ERR wrong number of arguments for 'blpop' command")
	if got := s.run("EXISTS k"); got != "0" {
		t.Error("it was executed")
	}
}

// A command that waits ends when its node says so, and is not served any more.
func TestCancelledWaiter(t *testing.T) {
	s := newBlockStage(t)
	s.ask(1, "BLPOP list 0")
	s.ask(2, "BLPOP list 0")
	s.send(cancelling(1, 1))
	s.expect("1/1 cancelled")
	s.run("RPUSH list a b")
	s.expect("1/2 served list a")
	s.send(cancelling(7, 1)) // of no session
	s.expect()
}

// A session of which nothing is heard ends with its lease, and all that waits in it;
// others do not. What is asked for in it later is not executed, and its number store.Never
// comes again.
func TestSessionLapses(t *testing.T) {
	s := newBlockStage(t)
	s.send(resp.BlockOpening("", 0))
	s.ask(1, "BLPOP list 0")
	s.ask(2, "BLPOP list 60")
	s.send(asking(2, 1, 0, split("BLPOP list 0")))
	if next, ok := s.m.NextDeadline(); !ok || next != 1000+wait.LeaseMs {
		t.Errorf("the next store.Deadline is %d, %t", next, ok)
	}
	s.tick(8000)
	if n := s.send(keeping(2, 3)).Int; n != 1 {
		t.Errorf("%d of two sessions are there", n)
	}
	s.tick(1000 + wait.LeaseMs)
	s.expect()
	s.tick(1001 + wait.LeaseMs)
	s.expect("1/1 lapsed", "1/2 lapsed")
	s.run("RPUSH list a b")
	s.expect("2/1 served list a")
	s.ask(3, "BLPOP list 0")
	s.expect("1/3 lapsed")
	if id := s.send(resp.BlockOpening("", 0)).Int; id != 3 {
		t.Errorf("the third session is %d", id)
	}
	s.send(asking(3, 1, 0, split("BLPOP empty 0")))
	s.send(resp.BlockClosing([]uint64{3, 9}))
	s.expect("3/1 lapsed")
	if got := s.run("LLEN list"); got != "1" {
		t.Errorf("%s are left", got)
	}
}

// The time of a command is counted by the log clock, from when its client asked. What
// is at its end at once is still executed if it can be.
func TestTimeOfWaiter(t *testing.T) {
	s := newBlockStage(t)
	if left := s.send(asking(1, 1, 300, split("BLPOP list 1"))).Int; left != 700 {
		t.Errorf("%d ms are left", left)
	}
	s.send(asking(1, 2, 1000, split("BLPOP list 1")))
	s.expect("1/2 timed out")
	s.tick(1500)
	if left := s.ask(1, "BLPOP list 1"); left != 200 {
		t.Errorf("asked again, %d ms are left", left)
	}
	s.tick(1700)
	s.expect()
	if next, ok := s.m.NextDeadline(); !ok || next != 1700 {
		t.Errorf("the next store.Deadline is %d, %t", next, ok)
	}
	s.tick(1701)
	s.expect("1/1 timed out")
	s.run("RPUSH list x")
	s.send(asking(1, 3, 5000, split("BLPOP list 1")))
	s.expect("1/3 served list x")
}

// More than sweepMax waits that end together take more than one entry.
func TestManyWaitsEnd(t *testing.T) {
	s := newBlockStage(t)
	for n := range uint64(sweepMax + 1) {
		s.m.Apply(s.at, []resp.Request{asking(1, n+1, 0, split("BLPOP list 1"))})
	}
	s.tick(3000)
	if len(s.said) != sweepMax {
		t.Errorf("%d have ended", len(s.said))
	}
	if next, ok := s.m.NextDeadline(); !ok || next != 2000 {
		t.Errorf("the next store.Deadline is %d, %t", next, ok)
	}
	s.said = nil
	s.tick(3000)
	s.expect(fmt.Sprintf("1/%d timed out", sweepMax+1))
}

// A wait counts for its keys, so no entry ends many that wait for thousands each; nor does one end many locks that a
// thousand hold each.
func TestOneEntryEndsSoMuch(t *testing.T) {
	s := newBlockStage(t)
	for n := range uint64(4) {
		keys := "BLPOP" + strings.Repeat(" k", 600) + " 1"
		s.m.Apply(s.at, []resp.Request{asking(1, n+1, 0, split(keys))})
	}
	s.tick(3000)
	s.expect("1/1 timed out", "1/2 timed out")
	s.tick(3000)
	s.expect("1/3 timed out", "1/4 timed out")
	for i := range 4 {
		for j := range 600 {
			s.m.Apply(s.at, []resp.Request{request(0, fmt.Sprintf("LOCK lock%d t%d PX 100 SHARED", i, j))})
		}
	}
	for _, left := range []int{2, 0} {
		s.tick(3500)
		if got := s.m.state.Keys.DBs[0].Keys.Len(); got != left {
			t.Errorf("%d locks are left, want %d", got, left)
		}
	}
}

// There are limits to who may wait, and for how much; who is refused has changed
// nothing.
func TestLimitsOfWaiters(t *testing.T) {
	s := newBlockStage(t)
	s.ask(1, "BLPOP "+strings.Repeat("k ", wait.KeysMax+1)+"0")
	s.expect("1/1 served " + wait.ErrTooManyKeys.Error())
	large := strings.Repeat("k", wait.BytesMax/4)
	for n := range uint64(3) {
		s.ask(2+n, "BLPOP "+large+" 0")
	}
	s.ask(5, "BLPOP "+large+" 0")
	s.expect("1/5 served " + wait.ErrTooManyWaiters.Error())
	s.ask(6, "BLPOP k 0")
	s.expect()

	s = newBlockStage(t)
	reqs := make([]resp.Request, wait.WaitersMax)
	for i := range reqs {
		reqs[i] = asking(1, uint64(i+1), 0, resp.Args{"BLPOP", "k", "0"})
	}
	s.m.Apply(s.at, reqs)
	s.ask(wait.WaitersMax+1, "BLPOP k 0")
	s.expect(fmt.Sprintf("1/%d served %s", wait.WaitersMax+1, wait.ErrTooManyWaiters))
	s.run("RPUSH k x")
	s.expect("1/1 served k x")
	s.ask(wait.WaitersMax+2, "BLPOP k 0")
	s.expect()
}

// What is popped for those who wait counts as an answer: beyond the limit of an entry
// they are told to ask again, and nothing is taken from the key.
func TestServedBytesAreBounded(t *testing.T) {
	s := newBlockStage(t)
	large := strings.Repeat("v", meter.ReplyBytesMax/2)
	for _, key := range []string{"a", "b", "c"} {
		s.do(resp.Args{"RPUSH", key, large})
	}
	for n := range uint64(4) {
		s.ask(1+n, "BLPOP ready 0")
	}
	s.at.Index++
	_, msgs := s.m.Apply(s.at, []resp.Request{request(0, "LMOVE a ready LEFT LEFT"), request(0, "LMOVE b ready LEFT LEFT"), request(0, "LMOVE c ready LEFT LEFT")})
	var how []string
	for _, m := range msgs {
		if m.Block != nil {
			how = append(how, endingWords[m.Block.How])
		}
	}
	if want := []string{"served", "served", "dropped", "dropped"}; !slices.Equal(how, want) {
		t.Errorf("%q, want %q", how, want)
	}
	if got := s.run("LLEN ready"); got != "1" {
		t.Errorf("%s are left", got)
	}
}

// What one who waited has changed is told as such, at its place.
func TestChangesOfWaiters(t *testing.T) {
	s := newBlockStage(t)
	s.ask(1, "BLMOVE list other LEFT LEFT 0")
	_, msgs := s.m.Apply(s.at, []resp.Request{request(0, "RPUSH list x", "SET k v")})
	if got, want := changedKeys(msgs), []string{"list", "w list", "w other", "k"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	before := s.m.state.Version(0, "other")
	s.ask(2, "BLMOVE list other LEFT LEFT 0")
	s.run("RPUSH list y")
	if s.m.state.Version(0, "other") == before {
		t.Error("who watches the key does not notice")
	}
}

// A script that is taken back has made nothing ready.
func TestUndoneScriptServesNobody(t *testing.T) {
	s := newBlockStage(t)
	s.ask(1, "BLPOP list 0")
	s.do(resp.Args{"EVAL", "RPUSH list x\nlimit", "0"})
	s.expect()
	s.run("RPUSH list y")
	s.expect("1/1 served list y")
}

// An image with a waiter that could not be there is refused.
func TestImageOfImpossibleWaiters(t *testing.T) {
	for name, spoil := range map[string]func(all *wait.Table, w *wait.Waiter){
		"no session":     func(_ *wait.Table, w *wait.Waiter) { w.ID.Session = 9 },
		"never asked":    func(_ *wait.Table, w *wait.Waiter) { w.ID.Number = 9 },
		"no place":       func(all *wait.Table, w *wait.Waiter) { w.Seq = all.LastSeq + 1 },
		"same place":     func(_ *wait.Table, w *wait.Waiter) { w.Seq = 1 },
		"database":       func(_ *wait.Table, w *wait.Waiter) { w.DB = store.Databases },
		"other command":  func(_ *wait.Table, w *wait.Waiter) { w.Args = split("LPOP list") },
		"unknown":        func(_ *wait.Table, w *wait.Waiter) { w.Args = split("NOTHING list") },
		"wrong argument": func(_ *wait.Table, w *wait.Waiter) { w.Args = split("BLPOP list x") },
		"nothing":        func(_ *wait.Table, w *wait.Waiter) { w.Args = nil },
		"future session": func(all *wait.Table, _ *wait.Waiter) { all.Sessions.Last = 0 },
	} {
		s := newBlockStage(t)
		s.ask(1, "BLPOP list 0")
		s.ask(2, "BLPOP list 0")
		spoil(&s.m.state.Waits, s.m.state.Waits.Waiter(resp.BlockID{Session: 1, Number: 2}))
		if err := New(nil).Restore(bytes.NewReader(image(t, s.m))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// queueModel is what blocking commands on lists mean, as simple as it can be: lists of
// strings, and one queue of those who wait.
type queueModel struct {
	lists map[string][]string
	queue []queued
	said  []string
}

// queued pops from the left of keys, or moves to the right of target.
type queued struct {
	number uint64
	keys   []string
	target string
}

func (q *queueModel) push(key, value string) {
	q.lists[key] = append(q.lists[key], value)
	for ready := []string{key}; len(ready) > 0; ready = ready[1:] {
		ready = append(ready, q.serve(ready[0])...)
	}
}

// serve serves who waits for a key, and returns the keys that were moved to.
func (q *queueModel) serve(key string) (ready []string) {
	for i := 0; i < len(q.queue) && len(q.lists[key]) > 0; i++ {
		if w := q.queue[i]; slices.Contains(w.keys, key) {
			q.queue = slices.Delete(q.queue, i, i+1)
			i--
			ready = append(ready, q.take(w, key)...)
		}
	}
	return ready
}

func (q *queueModel) take(w queued, key string) (ready []string) {
	value := q.lists[key][0]
	q.lists[key] = q.lists[key][1:]
	if w.target == "" {
		q.said = append(q.said, fmt.Sprintf("1/%d served %s %s", w.number, key, value))
		return nil
	}
	q.lists[w.target] = append(q.lists[w.target], value)
	q.said = append(q.said, fmt.Sprintf("1/%d served %s", w.number, value))
	return []string{w.target}
}

func (q *queueModel) ask(w queued) {
	for _, key := range w.keys {
		if len(q.lists[key]) > 0 {
			for ready := q.take(w, key); len(ready) > 0; ready = ready[1:] {
				ready = append(ready, q.serve(ready[0])...)
			}
			return
		}
	}
	q.queue = append(q.queue, w)
}

// Random pushes and blocking commands end as in the model, also through images, and
// also if some are asked for more than once.
func TestQueuesAgreeWithModel(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 11))
		s, q := newBlockStage(t), &queueModel{lists: map[string][]string{}}
		key := func() string { return string(rune('a' + rng.IntN(3))) }
		var asked []uint64
		for n := range uint64(400) {
			switch rng.IntN(5) {
			case 0, 1:
				k, v := key(), fmt.Sprint(n)
				s.run("RPUSH " + k + " " + v)
				q.push(k, v)
			case 2, 3:
				w := queued{number: n + 1, keys: []string{key(), key()}}
				s.ask(n+1, "BLPOP "+strings.Join(w.keys, " ")+" 0")
				q.ask(w)
				asked = append(asked, n+1)
			case 4:
				w := queued{number: n + 1, keys: []string{key()}, target: key()}
				s.ask(n+1, "BLMOVE "+w.keys[0]+" "+w.target+" LEFT RIGHT 0")
				q.ask(w)
			}
			if rng.IntN(10) == 0 {
				s.m = restored(t, image(t, s.m))
			}
			s.expect(q.said...)
			q.said = nil
			if len(asked) > 0 && rng.IntN(4) == 0 {
				s.ask(asked[rng.IntN(len(asked))], "BLPOP a b c 0") // whatever it was, it is not done again
				s.said = slices.DeleteFunc(s.said, func(line string) bool { return strings.HasSuffix(line, "dropped") })
				s.expect()
			}
		}
	}
}

// The end of a command that has waited stands before what it did and behind what came
// before it: so its client is answered in its place, as in Redis.
func TestEndComesBeforeWhatTheCommandDid(t *testing.T) {
	s := newBlockStage(t)
	s.run("CONFIG SET notify-keyspace-events El")
	s.ask(1, "BLMOVE list other LEFT LEFT 0")
	s.ask(2, "BLPOP other 0")
	s.expect()
	entry := func(req resp.Request) (list []string) {
		s.at.Index++
		_, msgs := s.m.Apply(s.at, []resp.Request{request(0, "SET x 1"), req, request(0, "SET y 1")})
		for _, m := range msgs {
			switch m.Kind {
			case resp.MessageChanges:
				list = append(list, fmt.Sprintf("changes after %d: %s", m.From, strings.Join(changedKeys([]resp.Message{m}), ", ")))
			case resp.MessageBlock:
				list = append(list, fmt.Sprintf("end of %d: %s", m.Block.ID.Number, plain(m.Block.Reply)))
			default:
				list = append(list, strings.TrimPrefix(m.Channel, "__keyevent@0__:")+" "+m.Payload)
			}
		}
		checkDerived(t, s.m)
		return list
	}
	for _, c := range []struct {
		req  resp.Request
		want []string
	}{
		{request(0, "RPUSH list a"), []string{
			"changes after 0: x, list", "rpush list", "end of 1: a",
			"changes after 2: w list, w other", "lpush other", "lpop list", "end of 2: other a",
			"changes after 4: w other, y", "lpop other",
		}},
		{request(0, "RPUSH list b"), []string{"changes after 0: x, list, y", "rpush list"}},
		{asking(1, 3, 0, split("BLPOP list 0")), []string{
			"changes after 0: x", "end of 3: list b", "changes after 1: list, y", "lpop list",
		}},
		{asking(1, 4, 0, split("BLPOP x 0")), []string{
			"changes after 0: x", "end of 4: WRONGTYPE Operation against a key holding the wrong kind of value", "changes after 1: y",
		}},
	} {
		if got := entry(c.req); !slices.Equal(got, c.want) {
			t.Errorf("%v tells\n%s\nwant\n%s", c.req, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
