package keyspace

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"lockd/keyspace/wait"
	"lockd/resp"
)

func returning(numbers ...uint64) resp.Request {
	step := &resp.BlockStep{Kind: resp.BlockTend}
	for _, n := range numbers {
		step.Undelivered = append(step.Undelivered, resp.BlockID{Session: 1, Number: n})
	}
	return resp.Request{Block: step}
}

func suspending(session uint64) resp.Request { return resp.BlockSuspending([]uint64{session}, nil) }

func resuming(session, suspensions uint64) resp.Request {
	return resp.Request{Block: &resp.BlockStep{Kind: resp.BlockTend, Resumed: []resp.BlockID{{Session: session, Number: suspensions}}}}
}

// What a client was given, and was not told of, goes back to where it was, whatever was done meanwhile.
func TestGiveBack(t *testing.T) {
	for _, tc := range []struct{ name, before, ask, fill, meanwhile, look, want string }{
		{"the first", "", "BLPOP l 0", "RPUSH l a b c", "", "LRANGE l 0 -1", "a b c"},
		{"the last", "", "BRPOP l 0", "RPUSH l a b c", "", "LRANGE l 0 -1", "a b c"},
		{"the only one", "", "BLPOP l 0", "RPUSH l a", "", "LRANGE l 0 -1", "a"},
		{"at once", "RPUSH l a b", "BLPOP l 0", "", "", "LRANGE l 0 -1", "a b"},
		{"several of the left", "", "BLMPOP 0 1 l LEFT COUNT 2", "RPUSH l a b c", "", "LRANGE l 0 -1", "a b c"},
		{"several of the right", "", "BLMPOP 0 1 l RIGHT COUNT 2", "RPUSH l a b c", "", "LRANGE l 0 -1", "a b c"},
		{"others came", "", "BLPOP l 0", "RPUSH l a b", "LPUSH l new", "LRANGE l 0 -1", "a new b"},
		{"no list any more", "", "BLPOP l 0", "RPUSH l a", "SET l s", "GET l", "s"},
		{"moved", "", "BLMOVE l to LEFT RIGHT 0", "RPUSH l a b", "", "LRANGE l 0 -1", "a b"},
		{"moved, there", "RPUSH to a z", "BLMOVE l to LEFT LEFT 0", "RPUSH l a b", "", "LRANGE to 0 -1", "a z"},
		{"moved, the right one of two", "RPUSH to a z", "BLMOVE l to LEFT RIGHT 0", "RPUSH l a b", "", "LRANGE to 0 -1", "a z"},
		{"moved, and taken by others", "", "BLMOVE l to LEFT RIGHT 0", "RPUSH l a b", "LPOP to", "LRANGE l 0 -1", "b"},
		{"moved in itself", "", "BLMOVE l l LEFT RIGHT 0", "RPUSH l a b", "", "LRANGE l 0 -1", "a b"},
		{"rotated", "", "BRPOPLPUSH l to 0", "RPUSH l a b", "", "LRANGE l 0 -1", "a b"},
		{"the lowest", "", "BZPOPMIN z 0", "ZADD z 0.1 a 2 b", "", "ZRANGE z 0 -1 WITHSCORES", "a 0.1 b 2"},
		{"the highest", "", "BZPOPMAX z 0", "ZADD z 1 a 1e300 b", "", "ZRANGE z 0 -1 WITHSCORES", "a 1 b 1e+300"},
		{"several scored", "", "BZMPOP 0 1 z MIN COUNT 2", "ZADD z 1 a 2 b 3 c", "", "ZRANGE z 0 -1 WITHSCORES", "a 1 b 2 c 3"},
		{"scored anew by others", "", "BZPOPMIN z 0", "ZADD z 1 a 2 b", "ZADD z 7 a", "ZRANGE z 0 -1 WITHSCORES", "b 2 a 7"},
		{"a lock", "", "LOCK k t PX 5000 WAIT 9000", "", "", "EXISTS k", "0"},
		{"a lock that its program touched", "", "LOCK k t PX 5000 WAIT 9000", "", "RENEW k t PX 9000", "GET k", "t"},
	} {
		s := newBlockStage(t)
		s.send(resp.BlockOpening("n2", 1))
		for _, line := range []string{tc.before, "ask", tc.fill, tc.meanwhile} {
			switch line {
			case "":
			case "ask":
				s.send(asking(1, 1, 0, split(tc.ask)))
			default:
				s.run(line)
			}
		}
		s.m = restored(t, image(t, s.m))
		s.send(returning(1))
		if got := s.run(tc.look); got != tc.want {
			t.Errorf("%s: %s gives %q, want %q", tc.name, tc.look, got, tc.want)
		}
		before := image(t, s.m)
		s.send(returning(1))
		if string(before) != string(image(t, s.m)) && s.run(tc.look) != tc.want {
			t.Errorf("%s: taken back twice", tc.name)
		}
		if s.m.state.Waits.Gifts.Len() > 0 {
			t.Errorf("%s: still remembered", tc.name)
		}
	}
}

// What goes back goes to the next who waits, and a key that comes into being by that has its deadline again.
func TestGiveBackServesTheNext(t *testing.T) {
	s := newBlockStage(t)
	s.ask(1, "BLPOP l 0")
	s.ask(2, "BLPOP l 0")
	s.run("RPUSH l a")
	s.said = nil
	s.send(returning(1))
	s.expect("1/2 served l a")

	s.run("RPUSH timed a")
	s.run("PEXPIRE timed 60000")
	s.ask(3, "BLPOP timed 0")
	s.tick(s.at.Tick + 20_000)
	s.send(returning(3))
	if got := s.run("PTTL timed"); got != "40000" {
		t.Errorf("PTTL %s, want 40000", got)
	}
}

// What goes back is not refused where memory is full, and not put into a database that was exchanged.
func TestGiveBackWhereThereIsNoRoom(t *testing.T) {
	s := newBlockStage(t)
	s.ask(1, "BLPOP l 0")
	s.ask(2, "BLPOP other 0")
	s.run("RPUSH l a")
	s.run("RPUSH other a")
	s.run("CONFIG SET maxmemory 1")
	s.send(returning(1))
	if got := s.run("LRANGE l 0 -1"); got != "a" {
		t.Errorf("l holds %q", got)
	}
	s.run("SWAPDB 0 1")
	s.send(returning(2))
	if got := s.run("EXISTS other"); got != "0" {
		t.Errorf("%s in a database that was exchanged", got)
	}
}

// What was given from a database that was emptied since does not come back into it, nor is what is there now touched. A
// script that empties one and is undone has changed nothing of that.
func TestNothingReturnsToAnEmptiedDatabase(t *testing.T) {
	for _, tc := range []struct {
		empties    resp.Args
		look, want string
	}{
		{resp.Args{"FLUSHALL"}, "LRANGE l 0 -1", "new"},
		{resp.Args{"FLUSHDB"}, "LRANGE l 0 -1", "new"},
		{resp.Args{"FLUSHDB"}, "EXISTS from to z door", "1"},
		{resp.Args{"EVAL", "FLUSHDB", "0"}, "LRANGE l 0 -1", "new"},
		{resp.Args{"EVAL", "SELECT 1\nFLUSHDB", "0"}, "LRANGE l 0 -1", "a b new"},
		{resp.Args{"EVAL", "FLUSHALL\nFLUSHDB\nlimit", "0"}, "LRANGE l 0 -1", "a b new"},
	} {
		s := newBlockStage(t)
		for i, line := range []string{"BLPOP l 0", "BLMOVE from to LEFT RIGHT 0", "BZPOPMIN z 0", "LOCK door t PX 60000 WAIT 9000"} {
			s.ask(uint64(i+1), line)
		}
		s.run("RPUSH l a b")
		s.run("RPUSH from a")
		s.run("ZADD z 1 a")
		s.do(tc.empties)
		s.run("RPUSH l new")
		s.run("RPUSH to a")
		s.m = restored(t, image(t, s.m))
		s.send(returning(1, 2, 3, 4))
		if got := s.run(tc.look); got != tc.want {
			t.Errorf("%q: %s gives %q, want %q", tc.empties, tc.look, got, tc.want)
		}
		if s.m.state.Waits.Gifts.Len() > 0 {
			t.Errorf("%q: still remembered", tc.empties)
		}
	}
}

// What is there beyond the memory for gifts is forgotten, the oldest first, and one that is larger alone at once. It is
// taken for delivered, and counted.
func TestGiftsBeyondTheirMemory(t *testing.T) {
	s := newBlockStage(t)
	large := strings.Repeat("x", wait.GiftBytesMax/4)
	forgotten := func(want string) {
		t.Helper()
		if got := figure(s, "lockd_gifts_forgotten"); got != want {
			t.Errorf("lockd_gifts_forgotten is %q, want %s", got, want)
		}
	}
	for n := range uint64(5) {
		s.do(resp.Args{"RPUSH", "l", large})
		s.ask(n+1, "BLPOP l 0")
		s.do(resp.Args{"RPUSH", "l", fmt.Sprint(n)})
		s.run("DEL l")
	}
	forgotten("2")
	s.send(returning(1, 2, 3))
	if got := s.run("LLEN l"); got != "1" {
		t.Errorf("%s elements came back, not the third alone", got)
	}
	s.run("DEL l")
	for range 5 {
		s.do(resp.Args{"RPUSH", "l", large})
	}
	s.ask(6, "BLMPOP 0 1 l LEFT COUNT 5")
	forgotten("3")
	if n := s.m.state.Waits.Gifts.Len(); n != 2 {
		t.Errorf("%d are remembered", n)
	}
	s.send(returning(6))
	if got := s.run("EXISTS l"); got != "0" {
		t.Error("what was not remembered came back")
	}
}

// figure is a field of INFO.
func figure(s *blockStage, name string) string {
	for _, f := range infoStats(&s.m.state).Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// What is settled is not taken back any more. Gifts are forgotten after their time, and the oldest where there are too
// many.
func TestGiftsAreForgotten(t *testing.T) {
	s := newBlockStage(t)
	s.run("RPUSH l a b c d e")
	s.ask(1, "BLPOP l 0")
	first := s.at.Index
	s.ask(2, "BLPOP l 0")
	s.send(resp.Request{Block: &resp.BlockStep{Kind: resp.BlockTend, Sessions: []uint64{1}, Settled: first}})
	s.send(returning(1, 2))
	if got := s.run("LRANGE l 0 -1"); got != "b c d e" {
		t.Errorf("l holds %q", got)
	}
	s.ask(3, "BLPOP l 0")
	s.tick(s.at.Tick + wait.GiftKeepMs + 1)
	if s.m.state.Waits.Gifts.Len() > 0 {
		t.Error("kept for ever")
	}
	s.send(resp.BlockOpening("n1", 1))
	id := s.m.state.Waits.Sessions.Last
	s.run("DEL l")
	s.run("RPUSH l " + strings.Repeat("x ", 999) + "x")
	for n := range uint64(wait.GiftsMax + 10) {
		if n%500 == 0 {
			s.run("RPUSH l " + strings.Repeat("x ", 500) + "x")
		}
		s.send(asking(id, n+1, 0, split("BLPOP l 0")))
	}
	gifts := &s.m.state.Waits.Gifts
	if got := figure(s, "lockd_gifts_forgotten"); got != "11" { // one of them for its age
		t.Errorf("%s were forgotten", got)
	}
	s.send(resp.Request{Block: &resp.BlockStep{Kind: resp.BlockTend, Undelivered: []resp.BlockID{{Session: id, Number: 10}}}})
	if gifts.Len() != wait.GiftsMax || gifts.Get(resp.BlockID{Session: id, Number: 10}) != nil || gifts.Get(resp.BlockID{Session: id, Number: 11}) == nil {
		t.Errorf("%d are remembered", gifts.Len())
	}
}

// The waiters of a suspended session keep their places and are passed over; a late step resumes nothing.
func TestSuspendedSession(t *testing.T) {
	s := newBlockStage(t)
	s.send(resp.BlockOpening("n2", 1))
	s.run("SET door alice NX PX 600000")
	s.ask(1, "BLPOP l 0")
	s.ask(2, "LOCK door bob PX 9000 WAIT 60000")
	s.ask(3, "BLPOP l 0.5")
	s.send(asking(2, 1, 0, split("BLPOP l 0")))
	s.send(asking(2, 2, 0, split("LOCK door carol PX 9000 WAIT 60000")))
	s.said = nil
	s.send(suspending(1))
	s.send(suspending(1)) // twice is once
	s.m = restored(t, image(t, s.m))
	s.run("RPUSH l a")
	s.run("UNLOCK door alice")
	s.expect("1/0", "2/1 served l a", fmt.Sprintf("2/2 served %s", s.run("FENCE door")))
	s.said = nil
	s.run("RPUSH l b")
	s.run("UNLOCK door carol")
	s.tick(s.at.Tick + 1000)
	s.expect("1/3 timed out")
	s.said = nil
	s.send(resuming(1, 0))
	s.send(resuming(1, 2))
	s.expect()
	s.send(resuming(1, 1))
	s.expect("1/1 served l b", fmt.Sprintf("1/2 served %s", s.run("FENCE door")))
	s.send(suspending(1))
	s.send(resuming(1, 1)) // sent before it
	if got := s.m.Blocks().Sessions(); !got[0].Suspended || got[0].Suspensions != 2 || got[1].Suspended || got[1].Node != "n2" {
		t.Errorf("sessions: %+v", got)
	}
}

// Those who may share a lock go on when those before them are suspended; who comes anew takes a lock that is free.
func TestSuspendedInLine(t *testing.T) {
	s := newBlockStage(t)
	s.send(resp.BlockOpening("n2", 1))
	s.run("LOCK pool a PX 600000 SHARED")
	s.ask(1, "LOCK pool writer PX 9000 WAIT 60000")
	s.send(asking(2, 1, 0, split("LOCK pool b PX 9000 WAIT 60000 SHARED")))
	s.said = nil
	s.send(suspending(1))
	if len(s.said) != 2 || !strings.HasPrefix(s.said[1], "2/1 served") {
		t.Errorf("behind a writer that is suspended: %q", s.said)
	}
	s.run("LOCK door holder PX 600000")
	s.send(asking(2, 2, 0, split("LOCK door waits PX 9000 WAIT 60000")))
	s.send(suspending(2))
	s.run("UNLOCK door holder")
	if got := s.run("LOCK door new PX 5000"); got == "" {
		t.Error("a lock that nobody else can have is not given")
	}
}

// One in line whose token comes to hold the lock in another way is answered, and not granted it again after the
// release.
func TestTokenInLineHoldsTheLock(t *testing.T) {
	for _, tc := range []struct{ hold, ask, take string }{
		{"LOCK q t1 PX 60000", "LOCK q t2 PX 5000 WAIT 60000", "SET q t2 PX 600000"},
		{"LOCK q t1 PX 60000", "LOCK q t2 PX 5000 WAIT 60000", "EVAL 'SET q t2' 0"},
		{"LOCK q t1 PX 60000", "LOCK q t2 PX 5000 WAIT 60000", "GETSET q t2"},
	} {
		s := newBlockStage(t)
		s.run(tc.hold)
		s.ask(1, "LOCK q before PX 5000 WAIT 60000")
		s.ask(2, tc.ask)
		s.said = nil
		s.run(tc.take)
		s.expect("1/2 served " + s.run("FENCE q"))
		s.said = nil
		s.run("UNLOCK q t2")
		s.expect("1/1 served " + s.run("FENCE q"))
	}
}

// A token that waits for one of several places, and comes to hold the lock alone, is told so at once, and is granted
// nothing after its release.
func TestTokenInLineHoldsTheLockOtherwise(t *testing.T) {
	for _, mode := range []string{"LIMIT 2", "SHARED"} {
		s := newBlockStage(t)
		s.run("LOCK q t1 PX 60000 LIMIT 2")
		s.run("LOCK q t4 PX 60000 LIMIT 2")
		if mode == "SHARED" {
			s.run("SET q t1 PX 60000")
		}
		s.ask(1, "LOCK q t2 PX 5000 WAIT 60000 "+mode)
		s.said = nil
		s.run("SET q t2 PX 600000")
		s.expect("1/1 served ERR this token holds the lock in another way: UNLOCK it first")
		s.said = nil
		s.run("UNLOCK q t2")
		s.expect()
		if got := s.run("EXISTS q"); got != "0" {
			t.Errorf("%s: EXISTS answers %s", mode, got)
		}
	}
}

// instead asks for a LOCK anew, as its client could not be told what it was given under another number.
func instead(number, of uint64, line string) resp.Request {
	req := asking(1, number, 0, split(line))
	req.Block.Instead = resp.BlockID{Session: 1, Number: of}
	return req
}

// A token that leaves by UNLOCK between its grant and the answer has left: its LOCK is not granted again, and stands in
// no line, whatever became of the grant.
func TestTokenLeavesBeforeItsGrantIsTold(t *testing.T) {
	const lock = "LOCK door bob PX 9000 WAIT 60000"
	takenBack := resp.BlockSuspending(nil, []resp.BlockID{{Session: 1, Number: 1}})
	for _, tc := range []struct {
		name      string
		holder    string
		ask       string
		before    *resp.Request // the leader's step, before the token leaves
		unlock    string
		unlocked  string
		after     *resp.Request
		given     bool
		otherwise string // what the LOCK is answered when it is asked for again; "": nil
	}{
		{name: "granted", unlock: "UNLOCK door bob", unlocked: "1", given: true},
		{name: "granted at once", holder: "-", unlock: "UNLOCK door bob", unlocked: "1", given: true},
		{name: "shared", ask: lock + " SHARED", unlock: "UNLOCK door bob", unlocked: "1", given: true},
		{name: "taken back before", before: &takenBack, unlock: "UNLOCK door bob", unlocked: "0"},
		{name: "taken back after", unlock: "UNLOCK door bob", unlocked: "1", after: &takenBack},
		{name: "another token", unlock: "UNLOCK door carol", unlocked: "0", given: true, otherwise: "fence"},
		{name: "another lock", unlock: "UNLOCK window bob", unlocked: "0", given: true, otherwise: "fence"},
		{name: "a script", unlock: "EVAL 'UNLOCK door bob' 0", given: true, otherwise: "fence"},
		{name: "forced", unlock: "LOCKS FORCE door REASON stuck", unlocked: "1", given: true, otherwise: "fence"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newBlockStage(t)
			if tc.holder == "" {
				s.run("LOCK door alice PX 600000")
			}
			ask := cmp.Or(tc.ask, lock)
			s.ask(1, ask)
			s.run("UNLOCK door alice")
			if tc.before != nil {
				s.send(*tc.before)
			}
			if got := s.run(tc.unlock); tc.unlocked != "" && got != tc.unlocked {
				t.Errorf("%s: %s, want %s", tc.unlock, got, tc.unlocked)
			}
			if tc.after != nil {
				s.send(*tc.after)
			}
			s.m = restored(t, image(t, s.m))
			if given := s.m.Blocks().Given(resp.BlockID{Session: 1, Number: 1}); given != tc.given {
				t.Errorf("given: %t", given)
			}
			s.said = nil
			s.send(instead(2, 1, ask))
			want := "1/2 served " + plain(resp.Nil())
			if tc.otherwise != "" {
				want = "1/2 served " + s.run("FENCE door")
			}
			s.expect(want)
			if n := s.m.state.Waits.Len(); n > 0 {
				t.Errorf("%d wait", n)
			}
			if tc.otherwise == "" && s.m.state.Waits.Gifts.Len() > 0 {
				t.Error("the first grant is still remembered")
			}
		})
	}
}

// A LOCK that was granted and taken back stands in line again, where its token leaves as any other; nothing is
// remembered of its first grant.
func TestTakenBackAndInLineAgain(t *testing.T) {
	s := newBlockStage(t)
	s.run("LOCK door alice PX 600000")
	s.ask(1, "LOCK door bob PX 9000 WAIT 60000")
	s.ask(2, "LOCK door carol PX 9000 WAIT 60000")
	s.run("UNLOCK door alice")
	s.said = nil
	s.send(resp.BlockSuspending(nil, []resp.BlockID{{Session: 1, Number: 1}}))
	s.expect("1/2 served " + s.run("FENCE door"))
	s.send(instead(3, 1, "LOCK door bob PX 9000 WAIT 60000"))
	s.expect()
	if n := s.m.state.Waits.Gifts.Len(); n != 1 {
		t.Errorf("%d gifts are remembered, want that of carol alone", n)
	}
	s.run("UNLOCK door bob")
	s.expect("1/3 served " + plain(resp.Nil()))
}

// To take back one grant of a token is no UNLOCK by it: its other grants may still be told.
func TestTakenBackIsNotLeft(t *testing.T) {
	s := newBlockStage(t)
	s.ask(1, "LOCK door bob PX 9000 WAIT 60000")
	s.run("DEL door")
	s.ask(2, "LOCK door bob PX 9000 WAIT 60000")
	s.send(returning(2))
	if got := s.run("EXISTS door"); got != "0" {
		t.Error("the second grant was not taken back")
	}
	if gift := s.m.state.Waits.Gifts.Get(resp.BlockID{Session: 1, Number: 1}); gift == nil || gift.Left {
		t.Errorf("the first grant: %+v", gift)
	}
}
