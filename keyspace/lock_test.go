package keyspace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
)

// lineModel is what must be true of one lock, by the words of the README.
type lineModel struct {
	t      *testing.T
	holder string // "": it is free
	until  int64  // tick after which the lease is over; 0: it has none
	line   []inLine
	said   []string
}

type inLine struct {
	number uint64
	token  string
	lease  int64
	end    int64
}

func (l *lineModel) end(number uint64, how string) {
	l.said = append(l.said, fmt.Sprintf("1/%d %s", number, how))
}

// free gives the lock to the first in line whose time was not over at a tick.
func (l *lineModel) free(tick, now int64) {
	l.holder, l.until = "", 0
	for len(l.line) > 0 && l.holder == "" {
		first := l.line[0]
		l.line = l.line[1:]
		if first.end < tick {
			l.end(first.number, "timed out")
			continue
		}
		l.holder, l.until = first.token, now+first.lease
		l.end(first.number, "served FENCE")
	}
}

// pass moves the clock.
func (l *lineModel) pass(now int64) {
	if l.holder != "" && l.until != 0 && now > l.until {
		l.free(l.until+1, now)
	}
	over := slices.Clone(l.line)
	slices.SortStableFunc(over, func(a, b inLine) int { return cmp.Compare(a.end, b.end) })
	for _, w := range over {
		if w.end < now {
			l.leave(func(o inLine) bool { return o == w }, "timed out")
		}
	}
}

func (l *lineModel) lock(number uint64, token string, lease, wait, now int64) {
	at := slices.IndexFunc(l.line, func(w inLine) bool { return w.token == token })
	switch {
	case l.holder == "" || l.holder == token:
		l.holder, l.until = token, now+lease
		l.end(number, "served FENCE")
	case wait == 0:
		l.end(number, "served (nil)")
	case at >= 0:
		l.end(l.line[at].number, "served "+errTokenElsewhere)
		l.line[at] = inLine{number, token, lease, now + wait}
	default:
		l.line = append(l.line, inLine{number, token, lease, now + wait})
	}
}

func (l *lineModel) leave(match func(inLine) bool, how string) {
	l.line = slices.DeleteFunc(l.line, func(w inLine) bool {
		if match(w) {
			l.end(w.number, how)
		}
		return match(w)
	})
}

// Whatever happens to a lock, it goes to the first in line in the entry in which it is free, nobody
// else takes it meanwhile, and who has left the line does not get it.
func TestLineOfLock(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 14))
		s, l, now := newBlockStage(t), &lineModel{t: t}, int64(1000)
		number, lastFence := uint64(0), ""
		for range 300 {
			token, what := string(rune('a'+r.IntN(6))), r.IntN(12)
			said := fmt.Sprintf("seed %d: %d by %s", seed, what, token)
			switch what {
			case 0, 1, 2, 3:
				number++
				lease, wait := 1+r.Int64N(50), r.Int64N(3)*r.Int64N(60)
				s.ask(number, fmt.Sprintf("LOCK door %s PX %d WAIT %d", token, lease, wait))
				l.lock(number, token, lease, wait, now)
			case 4:
				if s.run("UNLOCK door "+token) == "1" {
					l.free(now, now)
				} else {
					l.leave(func(w inLine) bool { return w.token == token }, "served (nil)")
				}
			case 5:
				if got := s.run("SET door poll NX PX 20"); (got == "OK") != (l.holder == "") {
					t.Fatalf("%s: SET NX is answered %s, and %q has the lock", said, got, l.holder)
				} else if got == "OK" {
					l.holder, l.until = "poll", now+20
				}
			case 6:
				s.run("DEL door")
				if l.holder != "" {
					l.free(now, now)
				}
			case 7:
				s.run("FLUSHALL")
				if l.holder != "" {
					l.free(now, now)
				}
			case 8:
				gone := 1 + r.Uint64N(number+1)
				if m := slices.ContainsFunc(l.line, func(w inLine) bool { return w.number == gone }); m {
					s.send(cancelling(1, gone))
					l.leave(func(w inLine) bool { return w.number == gone }, "cancelled")
				}
			case 9, 10:
				now += r.Int64N(40)
				s.send(keeping(1)) // not for the session's sake: its lease is 10 s
				s.tick(now)
				l.pass(now)
			case 11: // a node that has only the image goes on alike
				next := New(fakeScripts{})
				if err := next.Restore(bytes.NewReader(image(t, s.m))); err != nil {
					t.Fatal(said, err)
				}
				s.m = next
			}
			for i, line := range s.said { // a fence rises with each holder
				head, fence, _ := strings.Cut(line, " served ")
				if fence != "" && fence[0] >= '0' && fence[0] <= '9' {
					lastFence, s.said[i] = fence, head+" served FENCE"
				}
			}
			if !slices.Equal(s.said, l.said) {
				t.Fatalf("%s: heard %q, want %q", said, s.said, l.said)
			}
			s.said, l.said = nil, nil
			want := "(nil)"
			if l.holder != "" {
				want = l.holder
			}
			if got := s.run("GET door"); got != want {
				t.Fatalf("%s: %q has the lock, want %q", said, got, want)
			}
			if fence := s.run("FENCE door"); l.holder != "" && l.holder != "poll" && fence != lastFence && what < 4 {
				t.Fatalf("%s: fence %s, LOCK answered %s", said, fence, lastFence)
			}
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

// The limits of a lock.
func TestLimitsOfLock(t *testing.T) {
	s := newBlockStage(t)
	long := strings.Repeat("t", lockTokenBytesMax)
	if got := s.run("LOCK door " + long + " PX 5000"); got != s.run("FENCE door") {
		t.Errorf("the longest token is answered %s", got)
	}
	want := fmt.Sprintf(errTokenTooLongFmt, lockTokenBytesMax)
	for _, line := range []string{"LOCK door " + long + "t PX 5000", "RENEW door " + long + "t PX 5000"} {
		if got := s.run(line); got != want {
			t.Errorf("a token that is too long is answered %s", got)
		}
	}
	ask := func(number uint64, token string) {
		_, msgs := s.m.Apply(s.at, []resp.Request{asking(1, number, 0, split("LOCK door "+token+" PX 5000 WAIT 60000"))})
		s.hear(msgs)
	}
	for i := range uint64(lockWaitersMax) {
		ask(1+i, fmt.Sprint("t", i))
	}
	s.expect()
	ask(lockWaitersMax+1, "late")
	s.expect(fmt.Sprintf("1/%d served %s", lockWaitersMax+1, errTooManyInLine))
	ask(lockWaitersMax+2, "t7") // has its place already
	s.expect("1/8 served " + errTokenElsewhere)
}

// An image in which a token stands twice in a line is damaged.
func TestImageOfLine(t *testing.T) {
	s := newBlockStage(t)
	s.run("LOCK door alice PX 5000")
	s.ask(1, "LOCK door bob PX 5000 WAIT 60000")
	s.ask(2, "LOCK door rob PX 5000 WAIT 60000")
	s.m.blocked.waiter(resp.BlockID{Session: 1, Number: 2}).args[2] = "bob"
	if err := New(fakeScripts{}).Restore(bytes.NewReader(image(t, s.m))); !errors.Is(err, ErrImage) {
		t.Errorf("restored with %v", err)
	}
}

// A LOCK that was granted tells the version of its key, for the case that its client is gone.
func TestGrantedLock(t *testing.T) {
	s := newBlockStage(t)
	granted := func(req resp.Request) (list []resp.Watch) {
		s.at.Index++
		_, msgs := s.m.Apply(s.at, []resp.Request{req})
		for _, m := range msgs {
			if m.Kind == resp.MessageBlock && m.Block.Granted != nil {
				list = append(list, *m.Block.Granted)
			}
		}
		return list
	}
	take := func(number uint64, token string) []resp.Watch {
		return granted(asking(1, number, 0, split("LOCK door "+token+" PX 5000 WAIT 60000")))
	}
	if got := take(1, "alice"); len(got) != 1 || got[0] != (resp.Watch{Key: "door", Version: s.m.version(0, "door")}) {
		t.Errorf("granted at once: %v", got)
	}
	if got := take(2, "bob"); got != nil {
		t.Errorf("in line: %v", got)
	}
	got := granted(request(0, "UNLOCK door alice"))
	if len(got) != 1 || got[0].Version != s.m.version(0, "door") {
		t.Fatalf("from the line: %v", got)
	}
	back := resp.Request{Watch: &resp.Watching{Check: got}, Cmds: request(0, "UNLOCK door bob").Cmds, Multi: true}
	s.run("LOCK door bob PX 5000") // its program, by another connection
	s.at.Index++
	if results, _ := s.m.Apply(s.at, []resp.Request{back}); results[0].Watched == nil || !results[0].Watched.Aborted {
		t.Errorf("taken back, though its program has it: %v", results)
	}
	if got := take(3, "bob"); len(got) != 1 {
		t.Errorf("again: %v", got)
	}
}

// A try for a lock that is taken is refused without an entry of the log; one that would take it, or
// begin its lease anew, is not.
func TestTryLock(t *testing.T) {
	s := newBlockStage(t)
	try := func(line string) (string, bool) {
		res, ok := s.m.Try(s.at, request(0, line))
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
	s.at.Tick += 5001 // the log has not ended the lease
	if got, ok := try("LOCK door bob PX 5000"); ok {
		t.Errorf("when the lease is over a try says %s", got)
	}
}
