package keyspace

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// lineModel is what must be true of one lock, by the words of docs/locks.md.
type lineModel struct {
	mode    string // of its holders: "" (alone), SHARED, LIMIT 2 ...
	holders []holding
	line    []inLine
	said    []lineEnd
	now     int64
}

type holding struct {
	token string
	until int64 // tick after which the lease is over
}

type inLine struct {
	number      uint64
	token, mode string
	lease, end  int64
}

// lineEnd is what one who asked was told; of a grant its token, and whether it held the lock before.
type lineEnd struct {
	words, granted string
	again          bool
}

func (l *lineModel) end(number uint64, how string) {
	l.said = append(l.said, lineEnd{words: fmt.Sprintf("1/%d %s", number, how)})
}

func (l *lineModel) holder(token string) int {
	return slices.IndexFunc(l.holders, func(h holding) bool { return h.token == token })
}

// room reports whether a token may hold the lock in a way now, and why it never may.
func (l *lineModel) room(token, mode string) (room bool, why string) {
	wants, ofLimit := strings.CutPrefix(mode, "LIMIT ")
	has, isLimit := strings.CutPrefix(l.mode, "LIMIT ")
	switch {
	case len(l.holders) == 0:
		return true, ""
	case ofLimit && isLimit && wants != has:
		return false, "ERR this lock is held with LIMIT " + has + " now"
	case l.holder(token) >= 0 && mode != l.mode:
		return false, "ERR this token holds the lock in another way: UNLOCK it first"
	case l.holder(token) >= 0:
		return true, ""
	case mode != l.mode || mode == "":
		return false, ""
	case isLimit:
		return fmt.Sprint(len(l.holders)) < has, ""
	}
	return true, ""
}

func (l *lineModel) grant(w inLine) {
	at := l.holder(w.token)
	l.said = append(l.said, lineEnd{words: fmt.Sprintf("1/%d served ", w.number), granted: w.token, again: at >= 0})
	if l.mode = w.mode; at >= 0 {
		l.holders[at].until = l.now + w.lease
	} else {
		l.holders = append(l.holders, holding{w.token, l.now + w.lease})
	}
}

// serve gives the lock to those in line who may have it, from a tick on.
func (l *lineModel) serve(tick int64) {
	for len(l.line) > 0 {
		first := l.line[0]
		room, why := l.room(first.token, first.mode)
		switch {
		case why != "":
			l.end(first.number, "served "+why)
		case first.end < tick:
			l.end(first.number, "timed out")
		case !room:
			return
		default:
			l.grant(first)
		}
		l.line = l.line[1:]
	}
}

// pass moves the clock, each millisecond for itself.
func (l *lineModel) pass(now int64) {
	before := l.now
	l.now = now
	for tick := before + 1; tick <= now; tick++ {
		l.holders = slices.DeleteFunc(l.holders, func(h holding) bool { return h.until < tick })
		l.serve(tick)
		for at := 0; at < len(l.line); at++ {
			if l.line[at].end < tick {
				l.end(l.line[at].number, "timed out")
				l.line = slices.Delete(l.line, at, at+1)
				l.serve(tick)
				at = -1
			}
		}
	}
}

func (l *lineModel) lock(w inLine) {
	at := slices.IndexFunc(l.line, func(o inLine) bool { return o.token == w.token })
	room, why := l.room(w.token, w.mode)
	switch {
	case why != "":
		l.end(w.number, "served "+why)
	case room && (len(l.line) == 0 || len(l.holders) == 0 || l.holder(w.token) >= 0):
		l.grant(w)
	case w.end == l.now:
		l.end(w.number, "served (nil)")
	case at >= 0:
		l.end(l.line[at].number, "served "+resp.ErrTokenElsewhere)
		l.line[at] = w
		l.serve(l.now)
	default:
		l.line = append(l.line, w)
	}
}

func (l *lineModel) leave(match func(inLine) bool, how string) {
	l.line = slices.DeleteFunc(l.line, func(w inLine) bool {
		if match(w) {
			l.end(w.number, how)
		}
		return match(w)
	})
	l.serve(l.now)
}

// free takes the lock from all its holders.
func (l *lineModel) free() {
	l.holders = nil
	l.serve(l.now)
}

// linePlay is a machine that plays with a model of one of its locks.
type linePlay struct {
	*blockStage
	*lineModel
	number    uint64
	fences    map[string]uint64
	lastFence uint64
}

// turn does one thing at random, to both, and says what.
func (p *linePlay) turn(r *rand.Rand) string {
	s, l := p.blockStage, p.lineModel
	token, what := string(rune('a'+r.IntN(6))), r.IntN(15)
	switch what {
	case 0, 1, 2, 3, 4, 5:
		p.number++
		lease, wait := 1+r.Int64N(50), r.Int64N(3)*r.Int64N(60)
		mode := []string{"", "", "", "SHARED", "SHARED", "SHARED", "LIMIT 2", "LIMIT 2", "LIMIT 3"}[r.IntN(9)]
		s.ask(p.number, fmt.Sprintf("LOCK door %s PX %d WAIT %d %s", token, lease, wait, mode))
		l.lock(inLine{p.number, token, mode, lease, l.now + wait})
	case 6:
		at := l.holder(token)
		if got := s.run("UNLOCK door " + token); got != boolWord(at >= 0) {
			p.fail("UNLOCK by %s is answered %s", token, got)
		}
		if at >= 0 {
			l.holders = slices.Delete(l.holders, at, at+1)
			l.serve(l.now)
		} else {
			l.leave(func(w inLine) bool { return w.token == token }, "served (nil)")
		}
	case 7:
		if got := s.run("SET door poll NX PX 20"); (got == "OK") != (len(l.holders) == 0) {
			p.fail("SET NX is answered %s", got)
		} else if got == "OK" {
			l.mode, l.holders = "", []holding{{"poll", l.now + 20}}
		}
	case 8:
		s.run([]string{"DEL door", "FLUSHALL", "UNLINK door"}[r.IntN(3)])
		l.free()
	case 9:
		gone := 1 + r.Uint64N(p.number+1)
		if slices.ContainsFunc(l.line, func(w inLine) bool { return w.number == gone }) {
			s.send(cancelling(1, gone))
			l.leave(func(w inLine) bool { return w.number == gone }, "cancelled")
		}
	case 10, 11:
		s.send(keeping(1)) // not for the session's sake: its lease is 10 s
		s.tick(l.now + r.Int64N(40))
		l.pass(s.at.Tick)
	case 12: // a node that has only the image goes on alike
		next := New(fakeScripts{})
		if err := next.Restore(bytes.NewReader(image(p.t(), s.m))); err != nil {
			p.fail("%v", err)
		}
		s.m = next
	case 13:
		at := l.holder(token)
		if got := s.run("RENEW door " + token + " PX 30"); at < 0 && got != "(nil)" || at >= 0 && got != fmt.Sprint(p.fences[token]) {
			p.fail("RENEW by %s is answered %s", token, got)
		} else if at >= 0 {
			l.holders[at].until = l.now + 30
		}
	case 14:
		if r.IntN(3) == 0 {
			s.run("SET door poll PX 25")
			l.mode, l.holders = "", []holding{{"poll", l.now + 25}}
		} else {
			s.run("PEXPIRE door 25")
			for i := range l.holders {
				l.holders[i].until = l.now + 25
			}
		}
	}
	return fmt.Sprintf("%d by %s at %d", what, token, l.now)
}

func (p *linePlay) t() *testing.T { return p.blockStage.t }

func (p *linePlay) fail(format string, args ...any) {
	p.t().Helper()
	p.t().Fatalf(format+fmt.Sprintf("; held %q by %v, line %v", p.mode, p.holders, p.line), args...)
}

// compare compares what those who asked were told, and who holds the lock.
func (p *linePlay) compare(what string) {
	heard, want := p.blockStage.said, p.lineModel.said
	for i, line := range heard {
		if i >= len(want) || !p.told(line, want[i]) {
			p.fail("%s: heard %q, want %v", what, heard, want)
		}
	}
	if len(heard) != len(want) {
		p.fail("%s: heard %q, want %v", what, heard, want)
	}
	p.blockStage.said, p.lineModel.said = nil, nil
	var holders []holding
	e, _ := p.m.state.Keys.DBs[0].Keys.Get("door")
	switch {
	case e == nil:
	case e.Lock() == nil:
		holders = []holding{{e.Str(), e.Tick}}
	default:
		e.Lock().Each(func(h *lock.Holder) bool {
			holders = append(holders, holding{h.Token, h.Tick})
			return true
		})
	}
	if !slices.Equal(holders, p.holders) {
		p.fail("%s: %v hold the lock", what, holders)
	}
}

// told compares what one was told: a fence rises with each holder, and is the same again for one.
func (p *linePlay) told(line string, want lineEnd) bool {
	if want.granted == "" {
		return line == want.words
	}
	number, isGrant := strings.CutPrefix(line, want.words)
	fence, err := strconv.ParseUint(number, 10, 64)
	if want.granted == "poll" || want.again {
		return isGrant && fence == p.fences[want.granted]
	}
	last := p.lastFence
	p.fences[want.granted], p.lastFence = fence, fence
	return isGrant && err == nil && fence > last
}

// Whatever happens to a lock, it goes to the first in line, and to those who may share it, in the entry
// in which it is free; nobody else takes it meanwhile, and who has left the line does not get it.
func TestLineOfLock(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 14))
		p := &linePlay{
			blockStage: newBlockStage(t), lineModel: &lineModel{now: 1000}, fences: map[string]uint64{},
		}
		for range 300 {
			p.compare(fmt.Sprintf("seed %d: %s", seed, p.turn(r)))
		}
	}
}

// Those in line come first also where more leases end at once than an entry ends before its requests.
func TestLineBeforePollers(t *testing.T) {
	s := newBlockStage(t)
	for i := range 2 * sweepMax {
		s.m.Apply(s.at, []resp.Request{request(0, fmt.Sprintf("SET k%d v PX 1000", i))})
	}
	s.run("LOCK door alice PX 1001")
	s.ask(1, "LOCK door bob PX 5000 WAIT 60000")
	s.at.Tick += 2000
	if got := s.run("SET door mallory NX PX 5000"); got != "(nil)" {
		t.Errorf("a program that polls is answered %s before who waits in line", got)
	}
	if got := s.run("GET door"); got != "bob" || len(s.said) != 1 {
		t.Errorf("%s has the lock; heard %q", got, s.said)
	}
}

// A lease that is over when it is given frees the lock in the same entry.
func TestLineAfterPastLease(t *testing.T) {
	s := newBlockStage(t)
	s.run("LOCK door alice PX 5000")
	s.ask(1, "LOCK door bob PX 5000 WAIT 60000")
	s.at.Index++
	results, msgs := s.m.Apply(s.at, []resp.Request{request(0, "SET door x PXAT 1"), request(0, "SET door mallory NX")})
	s.hear(msgs)
	if got := plain(results[1].Replies[0]); got != "(nil)" || len(s.said) != 1 {
		t.Errorf("a program that polls is answered %s before who waits in line; heard %q", got, s.said)
	}
}

// What a script has undone has freed nothing.
func TestLineAndUndoneScript(t *testing.T) {
	s := newBlockStage(t)
	s.run("LOCK door alice PX 5000")
	s.ask(1, "LOCK door bob PX 5000 WAIT 60000")
	for _, script := range []string{"DEL door", "FLUSHALL", "UNLOCK door alice", "SWAPDB 0 1", "UNLOCK door bob"} {
		s.do(resp.Args{"EVAL", script + "\nlimit", "0"})
		s.expect()
		if got := s.run("GET door"); got != "alice" {
			t.Fatalf("%s: %s has the lock", script, got)
		}
	}
	s.run("UNLOCK door alice")
	s.expect("1/1 served " + s.run("FENCE door"))
}

// A lease, and a wait, ends at its moment, however many others end in the same entry: a reader behind a
// writer who has given up has the lock, though his own time was over before the next lease ended.
func TestLineAtItsMoment(t *testing.T) {
	for _, others := range []int{0, 2 * sweepMax} {
		s := newBlockStage(t)
		for i := range others {
			s.m.Apply(s.at, []resp.Request{request(0, fmt.Sprintf("SET k%d v PX 100", i))})
		}
		s.run("LOCK door r1 PX 9000 SHARED")
		s.run("LOCK door r2 PX 170 SHARED")
		s.ask(1, "LOCK door writer PX 5000 WAIT 150")
		s.ask(2, "LOCK door r3 PX 5000 WAIT 160 SHARED")
		s.ask(3, "LOCK door writer2 PX 5000 WAIT 60000")
		s.at.Tick += 200
		if got := s.run("LOCK door r4 PX 5000 SHARED"); got != "(nil)" {
			t.Errorf("a reader overtakes the line: %s", got)
		}
		l := s.m.state.Keys.DBs[0]
		e, _ := l.Keys.Get("door")
		if e.Lock().Holder("r3") == nil || e.Lock().Holder("r2") != nil || len(s.said) != 2 {
			t.Errorf("%d others: heard %q", others, s.said)
		}
	}
}

// Waits that end in the same millisecond end together: a reader behind a writer who gives up does not get the lock after
// its own time.
func TestWaitsThatEndTogether(t *testing.T) {
	for _, others := range []int{0, 2 * sweepMax} {
		s := newBlockStage(t)
		for i := range others {
			s.m.Apply(s.at, []resp.Request{request(0, fmt.Sprintf("SET k%d v PX 100", i))})
		}
		s.run("LOCK door r1 PX 9000 SHARED")
		s.ask(1, "LOCK door writer PX 5000 WAIT 150")
		s.ask(2, "LOCK door r2 PX 5000 WAIT 150 SHARED")
		s.ask(3, "LOCK door r3 PX 5000 WAIT 151 SHARED")
		s.tick(1200)
		if len(s.said) != 3 || s.said[0] != "1/1 timed out" || s.said[1] != "1/2 timed out" || !strings.HasPrefix(s.said[2], "1/3 served") {
			t.Errorf("%d others: heard %q", others, s.said)
		}
	}
}

// The end of a lease that closes a circle of owners ends a wait of it at that moment, before what ends later.
func TestLeaseEndClosesCircle(t *testing.T) {
	s := newBlockStage(t)
	s.run("LOCK a x PX 100")
	s.run("LOCK b z PX 60000 OWNER z")
	s.ask(1, "LOCK a y1 PX 60000 WAIT 60000 OWNER y")
	s.ask(2, "LOCK a z1 PX 60000 WAIT 60000 OWNER z")
	s.ask(3, "LOCK b y2 PX 60000 WAIT 60000 OWNER y")
	s.ask(4, "BLPOP list 0.15")
	s.tick(1200)
	if len(s.said) != 3 || !strings.HasPrefix(s.said[1], "1/2 served DEADLOCK") || s.said[2] != "1/4 timed out" {
		t.Errorf("heard %q", s.said)
	}
}

// When the session of a node is over its clients leave the line, before the requests of the entry.
func TestLineOfLapsedSession(t *testing.T) {
	s := newBlockStage(t)
	s.send(resp.BlockOpening("", 0))
	s.run("LOCK door r1 PX 60000 SHARED")
	s.ask(1, "LOCK door writer PX 5000 WAIT 60000")
	s.send(asking(2, 1, 0, split("LOCK door r2 PX 5000 WAIT 60000 SHARED")))
	s.at.Tick += wait.LeaseMs
	s.send(keeping(2))
	s.tick(s.at.Tick + 1)
	if len(s.said) != 2 || s.said[0] != "1/1 lapsed" || !strings.HasPrefix(s.said[1], "2/1 served") {
		t.Errorf("heard %q", s.said)
	}
}

// The limits of a lock.
func TestLimitsOfLock(t *testing.T) {
	s := newBlockStage(t)
	long := strings.Repeat("t", lifecycle.TokenBytesMax)
	if got := s.run("LOCK door " + long + " PX 5000"); got != s.run("FENCE door") {
		t.Errorf("the longest token is answered %s", got)
	}
	const tooLong = "ERR the %s of a lock may have %d bytes at most"
	want := fmt.Sprintf(tooLong, "token", lifecycle.TokenBytesMax)
	for _, line := range []string{"LOCK door " + long + "t PX 5000", "RENEW door " + long + "t PX 5000"} {
		if got := s.run(line); got != want {
			t.Errorf("a token that is too long is answered %s", got)
		}
	}
	for option, bytesMax := range map[string]int{"OWNER": 512, "NOTE": 1024} {
		longest := "LOCK free f PX 5000 " + option + " " + strings.Repeat("o", bytesMax)
		want := fmt.Sprintf(tooLong, strings.ToLower(option), bytesMax)
		if got := s.run(longest + "o"); got != want {
			t.Errorf("%s that is too long is answered %s", option, got)
		}
		if got := s.run(longest); got != s.run("FENCE free") {
			t.Errorf("the longest %s is answered %s", option, got)
		}
	}
	ask := func(number uint64, token string) {
		_, msgs := s.m.Apply(s.at, []resp.Request{asking(1, number, 0, split("LOCK door "+token+" PX 5000 WAIT 60000"))})
		s.hear(msgs)
	}
	for i := range uint64(wait.LineMax) {
		ask(1+i, fmt.Sprint("t", i))
	}
	s.expect()
	ask(wait.LineMax+1, "late")
	s.expect(fmt.Sprintf("1/%d served %s", wait.LineMax+1, wait.ErrTooManyInLine))
	ask(wait.LineMax+2, "t7") // has its place already
	s.expect("1/8 served " + resp.ErrTokenElsewhere)
}

// So many may hold a lock that is shared, and wait for all locks; others may still wait for other things.
func TestLimitsOfLocksInAll(t *testing.T) {
	s := newBlockStage(t)
	apply := func(req resp.Request) string {
		results, msgs := s.m.Apply(s.at, []resp.Request{req})
		s.hear(msgs)
		return plain(results[0].Replies[0])
	}
	for i := range lock.HoldersMax {
		apply(request(0, fmt.Sprintf("LOCK readers t%d PX 5000 SHARED", i)))
	}
	if got := apply(request(0, "LOCK readers late PX 5000 SHARED")); got != "(nil)" {
		t.Errorf("beyond the most holders: %s", got)
	}
	const lines = 5
	for i := range uint64(lines + wait.LinesMax) { // the first ones have the locks
		apply(asking(1, 1+i, 0, split(fmt.Sprintf("LOCK door%d t%d PX 5000 WAIT 60000", i%lines, i))))
	}
	if len(s.said) != lines {
		t.Errorf("heard %q", s.said)
	}
	s.said = nil
	apply(asking(1, 1<<20, 0, split("LOCK door0 late PX 5000 WAIT 60000")))
	apply(asking(1, 1<<20+1, 0, split("BLPOP none 0")))
	s.expect(fmt.Sprintf("1/%d served %s", 1<<20, wait.ErrTooManyInLines))
}

// An image in which a token stands twice in a line is damaged.
func TestImageOfLine(t *testing.T) {
	s := newBlockStage(t)
	s.run("LOCK door alice PX 5000")
	s.ask(1, "LOCK door bob PX 5000 WAIT 60000")
	s.ask(2, "LOCK door rob PX 5000 WAIT 60000")
	s.m.state.Waits.Waiter(resp.BlockID{Session: 1, Number: 2}).Args[2] = "bob"
	if err := New(fakeScripts{}).Restore(bytes.NewReader(image(t, s.m))); !errors.Is(err, value.ErrDamaged) {
		t.Errorf("restored with %v", err)
	}
}

// An image with holders that can not be those of their key is damaged.
func TestImageOfHolders(t *testing.T) {
	same := func(d store.Deadline) store.Deadline { return d }
	for name, spoil := range map[string]struct {
		holder func(h *lock.Holder)
		end    func(d store.Deadline) store.Deadline
	}{
		"":                     {func(*lock.Holder) {}, same},
		"a fence to come":      {func(h *lock.Holder) { h.Fence = 99 }, same},
		"a version to come":    {func(h *lock.Holder) { h.Version = 99 }, same},
		"another lease":        {func(h *lock.Holder) { h.Tick++ }, same},
		"another end":          {func(*lock.Holder) {}, func(d store.Deadline) store.Deadline { return store.Deadline{Tick: d.Tick + 1, WallMs: d.WallMs} }},
		"an end told wrong":    {func(*lock.Holder) {}, func(d store.Deadline) store.Deadline { return store.Deadline{Tick: d.Tick, WallMs: d.WallMs + 1} }},
		"no end, with a lease": {func(*lock.Holder) {}, func(store.Deadline) store.Deadline { return store.Never }},
	} {
		s := newBlockStage(t)
		s.run("LOCK door a PX 4000 SHARED")
		s.run("LOCK door b PX 5000 SHARED")
		was, _ := s.m.state.Keys.DBs[0].Keys.Get("door")
		e := store.NewEntry("door", was, was.Value(), spoil.end(was.Deadline()), nil, store.NoLock)
		e.Fence, e.Version = was.Fence, was.Version
		spoil.holder(e.Lock().Newest())
		s.m.state.Keys.DBs[0].Replace(was, e)
		if err := New(fakeScripts{}).Restore(bytes.NewReader(image(t, s.m))); errors.Is(err, value.ErrDamaged) != (name != "") {
			t.Errorf("%s: restored with %v", name, err)
		}
	}
}

// A LOCK that was granted tells the version of its key, for the case that its client is gone.
func TestGrantedLock(t *testing.T) {
	s := newBlockStage(t)
	granted := func(req resp.Request) (list []resp.Watch) {
		s.at.Index++
		_, msgs := s.m.Apply(s.at, []resp.Request{req})
		for _, m := range msgs {
			if m.Kind == resp.MessageBlock && m.Block.Given {
				list = append(list, *s.m.state.Waits.Gifts.Get(m.Block.ID).Lock)
			}
		}
		return list
	}
	take := func(number uint64, token string) []resp.Watch {
		return granted(asking(1, number, 0, split("LOCK door "+token+" PX 5000 WAIT 60000")))
	}
	if got := take(1, "alice"); len(got) != 1 || got[0] != (resp.Watch{Key: "door", Version: s.m.state.Version(0, "door")}) {
		t.Errorf("granted at once: %v", got)
	}
	if got := take(2, "bob"); got != nil {
		t.Errorf("in line: %v", got)
	}
	got := granted(request(0, "UNLOCK door alice"))
	if len(got) != 1 || got[0].Version != s.m.state.Version(0, "door") {
		t.Fatalf("from the line: %v", got)
	}
	s.run("LOCK door bob PX 5000") // its program, by another connection
	s.send(resp.Request{Block: &resp.BlockStep{Kind: resp.BlockTend, Undelivered: []resp.BlockID{{Session: 1, Number: 2}}}})
	if s.run("GET door") != "bob" {
		t.Error("taken back, though its program has it")
	}
	if got := take(3, "bob"); got != nil {
		t.Errorf("again, as its program may have been told: %v", got)
	}
}

// A LOCK of many that was granted tells the version of its holder: what others do is no matter, what its
// own program does by another connection is.
func TestGrantedToHolder(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		back  bool // it may be taken back
	}{
		"nothing":            {nil, true},
		"others":             {[]string{"LOCK door c PX 5000 LIMIT 3", "UNLOCK door a", "RENEW door c PX 9000"}, true},
		"its program":        {[]string{"LOCK door b PX 5000 LIMIT 3"}, false},
		"renewed":            {[]string{"RENEW door b PX 5000"}, false},
		"all renewed":        {[]string{"PEXPIRE door 5000"}, false},
		"again":              {[]string{"UNLOCK door b", "LOCK door b PX 5000 LIMIT 3"}, false},
		"moved and back":     {[]string{"RENAME door gate", "RENAME gate door"}, false},
		"another one by now": {[]string{"DEL door", "SET door b"}, false},
		"another database":   {[]string{"SWAPDB 0 1", "SWAPDB 0 1"}, false},
		"gone":               {[]string{"UNLOCK door b"}, false},
	} {
		s := newBlockStage(t)
		s.run("LOCK door a PX 5000 LIMIT 3")
		s.at.Index++
		_, msgs := s.m.Apply(s.at, []resp.Request{asking(1, 1, 0, split("LOCK door b PX 5000 LIMIT 3 WAIT 60000"))})
		var granted *resp.Watch
		for _, m := range msgs {
			if m.Kind == resp.MessageBlock {
				granted = s.m.state.Waits.Gifts.Get(m.Block.ID).Lock
			}
		}
		if granted == nil || !granted.Holder {
			t.Fatalf("remembered of what was granted: %v", granted)
		}
		for _, line := range tc.lines {
			s.run(line)
		}
		s.m = restored(t, image(t, s.m))
		held := s.run("LOCKS INFO door")
		s.send(resp.Request{Block: &resp.BlockStep{Kind: resp.BlockTend, Undelivered: []resp.BlockID{{Session: 1, Number: 1}}}})
		if back := held != s.run("LOCKS INFO door"); back != tc.back {
			t.Errorf("%s: taken back: %v", name, back)
		}
	}
}

// What is known of a token goes where its key goes, and goes with what it is known of.
func TestTagOfLock(t *testing.T) {
	s := newBlockStage(t)
	tag := func(db int, key string) string {
		e, ok := s.m.state.Keys.DBs[db].Keys.Get(key)
		if !ok || e.Tag() == nil {
			return ""
		}
		return e.Tag().Owner + "/" + e.Tag().Note
	}
	for _, tc := range []struct{ line, key, want string }{
		{"LOCK door a PX 5000 OWNER me NOTE why", "door", "me/why"},
		{"EXPIRE door 10", "door", "me/why"},
		{"RENEW door a PX 9000", "door", "me/why"},
		{"LOCK door a PX 9000", "door", "me/why"},
		{"LOCK door a PX 9000 NOTE done", "door", "me/done"},
		{"COPY door gate", "gate", "me/done"},
		{"RENAME gate yard", "yard", "me/done"},
		{"PERSIST yard", "yard", "me/done"},
		{"EVAL 'SET yard a\nlimit' 0", "yard", "me/done"},
		{"SET yard a", "yard", ""},
		{"APPEND door b", "door", ""},
		{"LOCK pool a PX 5000 OWNER me", "pool", "me/"},
		{"UNLOCK pool a", "pool", ""},
		{"LOCK pool a PX 5000", "pool", ""},
	} {
		s.run(tc.line)
		if got := tag(0, tc.key); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.line, got, tc.want)
		}
	}
	s.run("LOCK away a PX 5000 OWNER me")
	s.run("MOVE away 1")
	if got := tag(1, "away"); got != "me/" {
		t.Errorf("MOVE: %q", got)
	}
	before := s.m.state.UsedBytes() - s.m.state.Events.Bytes()
	s.run("LOCK free a PX 5000 OWNER me")
	s.run("DEL free")
	if got := s.m.state.UsedBytes() - s.m.state.Events.Bytes(); got != before {
		t.Errorf("%d bytes are left of a tag", got-before)
	}
}

// A try for a lock that is taken is refused without an entry of the log; one that would take it, or
// begin its lease anew, is not.
func TestTryLock(t *testing.T) {
	s := newBlockStage(t)
	try := func(line string) (string, bool) {
		res, ok := s.m.DryRun(s.at, request(0, line))
		if !ok {
			return "", false
		}
		return plain(res.Replies[0]), true
	}
	if got, ok := try("LOCK door alice PX 5000"); ok {
		t.Errorf("of a free lock a try says %s", got)
	}
	s.run("LOCK door alice PX 5000")
	if got, ok := try("LOCK door alice PX 9000"); ok {
		t.Errorf("to its holder a try says %s", got)
	}
	if got, ok := try("LOCK door bob PX 5000"); !ok || got != "(nil)" {
		t.Errorf("to another a try says %s %v", got, ok)
	}
	if got := s.run("PTTL door"); got != "5000" {
		t.Errorf("a try has changed the lease to %s", got)
	}
	s.run("LOCK readers r1 PX 20000 SHARED")
	s.run("LOCK readers r2 PX 4000 SHARED")
	if got, ok := try("LOCK readers r3 PX 9000 SHARED"); ok {
		t.Errorf("to who may share a lock a try says %s", got)
	}
	if got, ok := try("LOCK readers bob PX 5000"); !ok || got != "(nil)" {
		t.Errorf("to who would hold it alone a try says %s %v", got, ok)
	}
	s.ask(1, "LOCK readers bob PX 5000 WAIT 3000")
	if got, ok := try("LOCK readers r3 PX 9000 SHARED"); !ok || got != "(nil)" {
		t.Errorf("behind a line a try says %s %v", got, ok)
	}
	s.at.Tick += 3001 // the log has not ended the wait
	if got, ok := try("LOCK readers r3 PX 9000 SHARED"); ok {
		t.Errorf("behind one whose time is over a try says %s", got)
	}
	s.at.Tick += 2000 // nor the leases
	if got, ok := try("LOCK readers bob PX 5000"); ok {
		t.Errorf("when a lease of a holder is over a try says %s", got)
	}
	if got, ok := try("LOCK door bob PX 5000"); ok {
		t.Errorf("when the lease is over a try says %s", got)
	}
}

// randomLockWrite draws a command on a lock, for one or for many.
func randomLockWrite(rng *rand.Rand, key string) string {
	key = []string{"door", "door", "pool", key}[rng.IntN(4)]
	n := rng.IntN(4)
	switch rng.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("LOCK %s t%d PX %d SHARED", key, n, 100+n*300)
	case 2:
		return fmt.Sprintf("LOCK %s t%d PX %d LIMIT 2 OWNER o%d", key, n, 100+n*300, n)
	case 3:
		return fmt.Sprintf("LOCK %s t%d PX %d NOTE n%d", key, n, 100+n*300, n)
	case 4:
		return fmt.Sprintf("RENEW %s t%d PX 500", key, n)
	case 5, 6:
		return fmt.Sprintf("UNLOCK %s t%d", key, n)
	}
	return []string{"PERSIST door", "PEXPIRE pool 400", "RENAME door pool", "COPY pool door REPLACE"}[n]
}
