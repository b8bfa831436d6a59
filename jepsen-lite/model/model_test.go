package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"lockd/jepsen-lite/history"
)

// story writes a history by hand. Each line is
//
//	start-end process op key in,in = out      an operation that was done; times in ms
//	start-? process op key in,in              one whose outcome is unknown
//	start-?end process op key in,in           and its client waited until then
//	start-end process op key in,in failed     one that was not done
//	start-end fault kind what it did          a fault
//	start-end halt                            no majority of the nodes ran
//	start-end dark                            no node ran
//	start-end away node                       a node did not serve
//	start-end died node               its process ended, and another one served
//	start-?end process op ... gone    its client hung up, and heard the end of the connection
//	start-end link node other state           what it sends to another one came slowly, or not
func story(t *testing.T, text string) *history.History {
	t.Helper()
	h := &history.History{}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		left, out, done := strings.Cut(line, " =")
		out = strings.TrimSpace(out)
		w := strings.Fields(left)
		from, to, _ := strings.Cut(w[0], "-")
		o := history.Op{Line: i + 1, Start: ms(from), End: history.Forever, Outcome: history.Info}
		to, doubt := strings.CutPrefix(to, "?")
		if !doubt {
			o.End = ms(to)
		}
		h.End = max(h.End, o.Start)
		if w[1] == "fault" {
			h.Faults = append(h.Faults, history.Window{Start: o.Start, End: o.End, Kind: w[2], What: strings.Join(w[3:], " ")})
			continue
		}
		if w[1] == "halt" || w[1] == "dark" {
			h.Halts = append(h.Halts, history.Halt{Start: o.Start, End: o.End, Dark: w[1] == "dark"})
			continue
		}
		if w[1] == "stood" {
			h.Stood = append(h.Stood, history.Halt{Start: o.Start, End: o.End})
			continue
		}
		if w[1] == "away" {
			h.Marks = append(h.Marks, nodeMark(o.Start, history.Leaves, w[2]), nodeMark(o.End, history.Serves, w[2]))
			continue
		}
		if w[1] == "died" {
			h.Marks = append(h.Marks, nodeMark(o.Start, history.Leaves, w[2]), nodeMark(o.Start, history.Down, w[2]),
				nodeMark(o.End, history.Serves, w[2]))
			continue
		}
		if w[1] == "link" {
			h.Marks = append(h.Marks, linkMark(o.Start, w[2], w[3], w[4]), linkMark(o.End, w[2], w[3], history.LinkWhole))
			continue
		}
		o.Told = o.Start
		if to != "" {
			o.Told = ms(to)
		}
		fmt.Sscan(w[1], &o.Process)
		o.Name, o.Key = w[2], w[3]
		if len(w) > 4 {
			o.In = strings.Split(w[4], ",")
		}
		if done {
			o.Outcome = history.OK
			if out != "" {
				o.Out = strings.Split(out, ",")
			}
		} else if w[len(w)-1] == "failed" {
			o.Outcome = history.Fail
		} else if w[len(w)-1] == "gone" {
			o.Error = Gone
		}
		if process, node, asked := strings.Cut(w[1], "@"); asked {
			o.Node = node
			fmt.Sscan(process, &o.Process)
		}
		h.End = max(h.End, o.Told)
		h.Ops = append(h.Ops, o)
	}
	return h
}

func ms(text string) int64 {
	var f float64
	if _, err := fmt.Sscan(text, &f); err != nil {
		panic(text)
	}
	return int64(f * 1e6)
}

// expect checks that a verdict has exactly these problems, each as "kind@line".
func expect(t *testing.T, check Checker, text string, want ...string) {
	t.Helper()
	v := check(story(t, text))
	var got []string
	for _, p := range v.Problems {
		got = append(got, fmt.Sprintf("%s@%d", p.Kind, p.Line))
	}
	if len(v.Undecided) > 0 {
		t.Errorf("undecided: %v", v.Undecided)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("problems %q, want %q in\n%s\n%v", got, want, text, v.Problems)
	}
}

// The answers of a register must be explained by an order of the operations. The first answer without an explanation is
// named.
func TestRegister(t *testing.T) {
	good := []string{
		"0-1 1 get r = nil\n 2-3 1 set r a = OK\n 4-5 2 get r = a\n 6-7 1 del r = 1\n 8-9 2 get r = nil",
		"0-9 1 set r a = OK\n 1-2 2 get r = a\n 3-4 3 get r = a",                               // seen before it is acknowledged
		"0-? 1 set r a\n 5-6 2 get r = nil\n 50-51 2 get r = a\n 60-61 2 get r = a",            // unknown, done late
		"0-? 1 set r a\n 5-6 2 get r = nil\n 50-51 2 get r = nil",                              // unknown, never done
		"0-1 1 set r a failed\n 5-6 2 get r = nil",                                             // not done
		"0-1 1 set r a = OK\n 2-3 1 cas r a,b = 1\n 2-3 2 cas r a,c = 0\n 4-5 2 get r = b",     // one of two wins
		"0-1 1 setnx r a = OK\n 2-3 2 setnx r b = nil\n 4-5 1 del r = 1\n 6-7 1 del r = 0",     //
		"0-1 1 set r a = OK\n 2-? 2 cas r a,b\n 4-5 3 cas r a,c = 0\n 6-7 3 get r = b",         // the unknown one won
		"0-1 1 set r a = OK\n 2-9 1 set r b = OK\n 3-4 2 get r = b\n 5-6 3 get r = b",          //
		"0-1 1 set r a = OK\n 0-1 2 set s b = OK\n 4-5 2 get s = b\n 4-5 3 get r = a",          // keys do not mix
		"0-1 1 set r a = OK\n 2-3 1 del r = 1\n 4-5 2 setnx r b = OK\n 6-7 1 cas r b,c = 1",    //
		"0-5 1 set r a = OK\n 0-5 2 set r b = OK\n 6-7 3 get r = a\n 8-9 4 get r = a",          // either order
		"0-1 1 set r a = OK\n 2-? 1 del r\n 3-4 2 get r = a\n 5-6 2 get r = nil",               //
		"0-1 1 set r a = OK\n 2-? 2 get r\n 3-4 1 set r b = OK\n 5-6 1 get r = b",              // an unknown read is nothing
		"0-1 1 cas r ,b = 0\n 2-3 1 get r = nil",                                               //
		"0-? 1 set r a\n 1-? 2 set r b\n 2-? 3 del r\n 9-10 4 get r = b\n 11-12 4 get r = nil", //
	}
	for _, s := range good {
		expect(t, Register, s)
	}
	expect(t, Register, "0-1 1 set r a = OK\n 2-3 2 get r = nil", "acknowledged write lost@2")                    // lost
	expect(t, Register, "0-1 1 set r a = OK\n 2-3 1 set r b = OK\n 4-5 2 get r = a", "acknowledged write lost@3") // stale
	expect(t, Register, "0-1 1 set r a failed\n 2-3 2 get r = a", "not linearizable@2")                           // done all the same
	expect(t, Register, "0-1 1 get r = x", "not linearizable@1")                                                  // never written
	expect(t, Register, "0-1 1 set r a = OK\n 2-3 1 cas r a,b = 1\n 2-4 2 cas r a,c = 1", "not linearizable@3")   // both won
	expect(t, Register, "0-1 1 setnx r a = OK\n 2-3 2 setnx r b = OK", "acknowledged write lost@2")               //
	expect(t, Register, "0-? 1 set r a\n 5-6 2 get r = a\n 7-8 2 get r = nil", "not linearizable@3")              // there and back
	expect(t, Register, "0-1 1 swap r a = nil\n 2-3 2 swap r b = a\n 4-5 1 get r = b")
	expect(t, Register, "0-1 1 set r a = OK\n 2-3 2 swap r b = nil", "acknowledged write lost@2")
	expect(t, Register, "0-1 1 swap r a = nil\n 2-3 2 get r = nil", "acknowledged write lost@2")
	expect(t, Register, "0-1 1 del r = 1", "not linearizable@1")                                                                         //
	expect(t, Register, "0-1 1 set r a = OK\n 2-3 1 set r b = OK\n 4-5 1 get r = b\n 6-7 2 get r = a\n 8-9 1 get r = b", "stale read@4") // the event, not its key alone
}

// Two clients never certainly hold one lock at the same time. A lease counts from before its request was sent.
func TestLock(t *testing.T) {
	good := []string{
		"0-1 1 acquire l a,100 = OK\n 2-3 2 acquire l b,100 = nil\n 4-5 1 release l a = 1\n 6-7 2 acquire l b,100 = OK",
		"0-1 1 acquire l a,100 = OK\n 100-101 2 acquire l b,100 = OK\n 102-103 1 release l a = 0",                 // the lease has run out
		"0-20 1 acquire l a,100 = OK\n 10-15 2 holder l = nil\n 104-105 2 acquire l b,100 = OK",                   // its lease began when it was stamped, before others could see it
		"0-1 1 acquire l a,100 = OK\n 500-501 1 renew l a,100 = 1",                                                // late is allowed
		"0-1 1 acquire l a,100 = OK\n 50-51 1 renew l a,100 = 1\n 149-150 2 acquire l b,100 = OK",                 //
		"0-1 1 acquire l a,100 = OK\n 50-51 1 renew l a,10 = 1\n 60-61 2 acquire l b,100 = OK",                    // a renewal may shorten
		"0-1 1 acquire l a,100 = OK\n 5-? 1 release l a\n 10-11 2 acquire l b,100 = OK",                           // the release may have been done
		"0-? 1 acquire l a,100\n 5-6 2 acquire l b,100 = nil\n 7-8 2 holder l = a\n 100-101 2 acquire l b,9 = OK", // the unknown one holds
		"0-? 1 acquire l a,100\n 5-6 2 acquire l b,100 = OK\n 7-8 2 release l b = 1\n 9-10 2 holder l = a",        // it came later
		"0-1 1 acquire l a,100 = OK\n 2-3 1 fence l a = 7\n 4-5 1 write l a,7 = accepted\n 200-201 2 acquire l b,100 = OK\n" + // a holder that sleeps
			"202-203 2 fence l b = 9\n 204-205 2 write l b,9 = accepted\n 206-207 1 write l a,7 = refused",
		"0-1 1 acquire l a,100 = OK\n 2-3 1 fence l a = 7\n 4-5 1 release l a = 1\n 6-7 2 acquire k b,100 = OK\n 8-9 2 fence k b = 8",
		"0-9 1 acquire l a,100 = OK\n 0-9 2 acquire k b,100 = OK\n 10-11 1 fence l a = 8\n 10-11 2 fence k b = 7", // at the same time: either order
	}
	for _, s := range good {
		expect(t, Lock, s)
	}
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 98-99 2 acquire l b,100 = OK", "two holders@2")
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 50-51 1 renew l a,100 = 1\n 148-149 2 acquire l b,100 = OK", "two holders@3")
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 5-6 1 release l a failed\n 10-11 2 acquire l b,100 = OK", "two holders@3")
	expect(t, Lock, "0-? 1 acquire l a,100\n 7-8 2 holder l = a\n 50-51 2 acquire l b,100 = OK", "two holders@3")
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 50-51 1 release l a = 0", "lock lost early@2")
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 50-51 1 renew l a,100 = 0", "lock lost early@2")
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 50-51 1 holder l = nil", "lock lost early@2")
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 5-6 1 release l a = 1\n 7-8 2 acquire l b,100 = nil", "refused although free@3")
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 5-6 2 release l b = 1", "lock held by the wrong one@2")
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 2-3 1 fence l a = 7\n 4-5 1 fence l a = 8", "fence changed@3")
	// fences: not greater on another lock, given twice, and a holder that is refused
	expect(t, Lock, "0-1 1 acquire l a,100 = OK\n 2-3 1 fence l a = 7\n 6-7 2 acquire k b,100 = OK\n 8-9 2 fence k b = 6", "fence not greater@4")
	expect(t, Lock, "0-9 1 acquire l a,100 = OK\n 0-9 2 acquire k b,100 = OK\n 10-11 1 fence l a = 7\n 10-11 2 fence k b = 7", "fence not greater@4")
	const taken = "0-1 1 acquire l a,100 = OK\n 2-3 1 fence l a = 7\n "
	expect(t, Lock, taken+"4-5 3 write l z,8 = accepted\n 6-7 1 write l a,7 = refused", "holder fenced off@4")
	// the resource: an older fence that it took, and a refusal that nothing explains
	expect(t, Lock, taken+"4-5 3 write l z,8 = accepted\n 6-7 1 write l a,7 = accepted", "older fence accepted@4")
	expect(t, Lock, taken+"4-5 3 write k z,8 = accepted\n 206-207 1 write l a,7 = refused", "refused for nothing@4")
	expect(t, Lock, taken+"204-209 1 write l a,7 = refused\n 206-207 3 write l z,8 = accepted")
	expect(t, Lock, taken+"204-209 1 write l a,7 = accepted\n 206-207 3 write l z,8 = accepted")
}

// Writes of late holders to a resource without fences are counted.
func TestUnfenced(t *testing.T) {
	v := Lock(story(t, "0-1 1 acquire l a,100 = OK\n 2-3 1 unfenced l a = accepted\n 200-201 2 acquire l b,100 = OK\n"+
		"202-203 1 unfenced l a = accepted\n 202-203 2 unfenced l b = accepted\n 310-311 1 unfenced l a = accepted"))
	if want := "1 writes of late holders"; !v.OK() || !strings.Contains(fmt.Sprint(v.Notes), want) {
		t.Errorf("notes %q, problems %v, want %q", v.Notes, v.Problems, want)
	}
}

// A waiter is told how long the lock may be held, and sleeps no longer, nor through a release.
func TestWaiters(t *testing.T) {
	const taken = "0-1 1 acquire l a,2000 = OK\n 10-11 2 acquire l b,2000 = nil,1991,a\n " // lines 1 and 2
	good := []string{
		"12-500 3 wait l 1991,a = woken\n 498-499 1 release l a = 1",
		"12-2004 3 wait l 1991,a = timeout\n 2005-2006 2 acquire l b,100 = OK",
		"12-800 3 wait l 1991,a = cut\n 498-499 1 release l a = 1",
		"12-7800 3 wait l 6991,a = woken\n 498-499 1 release l a = 1\n 500-900 fault kill", // until its effects are over
		"500-2495 3 wait l 1990,a = timeout\n 498-? 1 release l a",                         // nobody knows when it was released
		"1900-1901 4 acquire l c,9 = nil,500,a",                                            // late is allowed without other writes
	}
	for _, s := range good {
		expect(t, Waiters, taken+s)
	}
	writes := ""
	for at := 20; at < 4000; at += 100 {
		writes += fmt.Sprintf("\n%d-%d 9 release z x = 0", at, at+1)
	}
	expect(t, Waiters, taken+"12-4500 3 wait l 1991,a = timeout", "overslept@3")
	expect(t, Waiters, taken+"12-4500 3 wait l 4000,a = woken\n 498-499 1 release l a = 1\n 499-500 1 holder l = nil", "not woken@3")
	expect(t, Waiters, taken+"20-21 4 acquire l c,9 = nil,2600,a", "told too long@3")
	expect(t, Waiters, taken+"1000-1001 4 acquire l c,9 = nil,1600,a"+writes, "told too long@3")
	expect(t, Waiters, taken+"20-21 4 acquire l c,9 = nil,1900,a", "told too short@3")
	expect(t, Waiters, taken+"20-21 4 acquire l c,9 = nil,-1,a", "told nonsense@3")
	expect(t, Waiters, taken+"20-21 4 acquire l c,9 = nil,1900,x", "lock held by the wrong one@3")
	expect(t, Waiters, taken+"20-21 4 acquire l c,9 = OK", "two holders@3")
}

// Redisson's lock counts the entries of its owner, and belongs to no other owner meanwhile.
// The fence of a read-write lock rises with each holder that does not share it.
func TestJoins(t *testing.T) {
	const (
		two   = "0-1 1 join l a-1:write, = 7\n 2-3 1 join l b-1:write,a-1:write = 9\n "
		read  = "4-5 1 join l c-1,b-1:write = 9\n 6-7 1 join l d-1, = 9\n 8-9 1 leave l c-1 = 1\n "
		past1 = "granted|a|7,granted|b|9,released|a|"
		past2 = ",granted|c|9,released|b|,granted|d|9,released|c|9"
	)
	expect(t, Reentrant, two+"10-11 1 joined l = "+past1)
	expect(t, Reentrant, two+read+"10-11 1 joined l = "+past1+past2)
	expect(t, Reentrant, two+read+"10-11 1 joined l = "+past1+strings.Replace(past2, "b|", "b|9", 1), "wrong fence of a hash@6")
	expect(t, Reentrant, two+read+"10-11 1 joined l = "+past1, "wrong fence of a hash@6")
	expect(t, Reentrant, two+strings.Replace(read, "c-1,b-1:write = 9", "c-1,b-1:write = 11", 1), "wrong fence of a hash@3", "wrong fence of a hash@4")
	expect(t, Reentrant, strings.Replace(two, "= 9", "= 7", 1), "wrong fence of a hash@2")
	expect(t, Reentrant, strings.Replace(two, "= 7", "failed", 1))
}

func TestReentrant(t *testing.T) {
	good := []string{
		"0-1 1 lock l a,100 = nil\n 2-3 1 lock l a,100 = nil\n 4-5 2 lock l b,100 = held\n 6-7 1 unlock l a,100 = 0\n 8-9 1 unlock l a,100 = 1\n 10-11 2 lock l b,9 = nil",
		"0-1 1 lock l a,100 = nil\n 101-102 1 unlock l a,100 = nil",
		"0-1 1 lock l a,100 = nil\n 2-? 1 lock l a,100\n 4-5 1 count l a,1 = 2\n 6-7 1 unlock l a,100 = 0",
		"0-1 1 lock l a,100 = nil\n 50-51 1 renew l a,100 = 1\n 120-121 2 lock l b,100 = held\n 130-131 2 renew l b,100 = 0",
		"0-1 1 lock l a,100 = nil\n 2-3 1 lock l a,100 = nil\n 50-51 1 unlock l a,100 = 0\n 140-141 1 count l a,1 = 1", // unlocking a level renews
	}
	for _, s := range good {
		expect(t, Reentrant, s)
	}
	expect(t, Reentrant, "0-1 1 lock l a,100 = nil\n 50-51 2 lock l b,100 = nil", "reentrant lock@2")
	expect(t, Reentrant, "0-1 1 lock l a,100 = nil\n 2-3 1 unlock l a,100 = 0", "reentrant lock@2")
	expect(t, Reentrant, "0-1 1 lock l a,100 = nil\n 2-3 1 lock l a,100 = nil\n 4-5 1 unlock l a,100 = 1", "reentrant lock@3")
	expect(t, Reentrant, "0-1 1 lock l a,100 = nil\n 2-3 1 lock l a,100 = nil\n 4-5 1 count l a,1 = 3", "reentrant lock@3") // done twice
	expect(t, Reentrant, "0-1 1 lock l a,100 = nil\n 50-51 1 unlock l a,100 = nil", "reentrant lock@2")                     // ended early
}

// beats are writes of another client, every 100 ms. They come after the lines of a story.
func beats(from, to int) string {
	s := ""
	for at := from; at < to; at += 100 {
		s += fmt.Sprintf("\n%d-%d 9 beat b = OK", at, at+1)
	}
	return s
}

// A key exists until its time and not much longer, and never comes back.
func TestExpiry(t *testing.T) {
	good := []string{
		"0-1 1 set k v,100 = OK\n 50-51 1 get k = v\n 90-99 1 exists k = 1\n 100-101 1 get k = nil\n 110-111 1 pttl k = -2" + beats(0, 200),
		"0-1 1 set k v,100 = OK\n 600-601 1 get k = v\n 602-603 1 get k = nil" + beats(0, 1000),                          // the bound
		"0-1 1 set k v,100 = OK\n 3000-3001 1 get k = v",                                                                 // nobody led meanwhile, as far as is known
		"0-1 1 set k v,100 = OK\n 1400-1401 1 get k = v" + beats(0, 200) + beats(1100, 2000),                             // nor here, for a second
		"0-1 1 set k v,100 = OK\n 10-11 1 pttl k = 91\n 50-51 1 pttl k = 52\n 95-96 1 pttl k = 5" + beats(0, 200),        //
		"0-1 1 set k v,9000 = OK\n 150-151 1 pttl k = 8852\n 980-981 1 pttl k = 8900" + beats(0, 200) + beats(900, 2000), // a new leader has another clock
		"0-1 1 set k v,9000 = OK\n 150-151 1 pttl k = 8852\n 180-190 fault transfer\n 195-196 1 pttl k = 8900" + beats(0, 500),
		"0-? 1 set k v,100\n 10-11 1 get k = nil\n 12-13 1 get k = v", // unknown: nothing is promised
		"0-9 1 set k v,100 = OK\n 95-101 1 get k = nil",
	}
	for _, s := range good {
		expect(t, Expiry, s)
	}
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 50-51 1 get k = nil", "gone early@2")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 98-99 1 exists k = 0", "gone early@2")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 50-51 1 pttl k = -2", "gone early@2")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 602-603 1 get k = v"+beats(0, 1000), "gone late@2")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 50-60 fault kill\n 9000-9001 1 get k = v"+beats(0, 500)+beats(3000, 9100), "gone late@3")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 101-102 1 get k = nil\n 103-104 1 get k = v", "came back@3")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 50-51 1 get k = w", "wrong value@2")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 50-51 1 pttl k = 101", "remaining time grew@2")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 50-51 1 pttl k = 50\n 52-53 1 pttl k = 60"+beats(0, 200), "remaining time grew@3")
	expect(t, Expiry, "0-1 1 set k v,9000 = OK\n 150-151 1 pttl k = 8852\n 160-170 fault kill\n 180-181 1 pttl k = 8860"+beats(0, 500), "remaining time grew@4")
	expect(t, Expiry, "0-1 1 set k v,9000 = OK\n 2000-2001 1 pttl k = 8900"+beats(0, 3000), "remaining time too long@2") // an election that renews leases
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 50-51 1 pttl k = 20", "remaining time too short@2")
	expect(t, Expiry, "0-1 1 set k v,100 = OK\n 50-51 1 pttl k = -1", "wrong remaining time@2")
}

// Time in which certainly no node led does not count for a key's time.
func TestExpiryOverDowntime(t *testing.T) {
	const key = "0-1 1 set k v,4000 = OK\n "
	good := []string{
		key + "100-5000 dark\n 5500-5501 1 get k = v\n 8910-8911 1 get k = nil",
		key + "100-5000 halt\n 6910-6911 1 get k = nil",                       // a survivor may have led for some time
		key + "100-1900 halt\n 4000-4001 1 get k = nil",                       // or all the time
		key + "100-5000 halt\n 50-5000 fault pause\n 4001-4002 1 get k = nil", // or longer
		key + "4100-5000 dark\n 5500-5501 1 get k = nil",                      // it had ended before
		key + "100-300 dark\n 600-800 dark\n 4400-4401 1 get k = nil",         //
		key + "100-300 halt\n 300-4000 dark\n 4000-5000 halt\n 5700-5701 1 pttl k = 3100",
		key + "100-2100 dark\n 100-2100 fault kill\n 2500-2501 1 pttl k = 3580" + beats(0, 100) + beats(2100, 5000),
	}
	for _, s := range good {
		expect(t, Expiry, s)
	}
	expect(t, Expiry, key+"100-5000 dark\n 5500-5501 1 get k = nil", "gone early@3")
	expect(t, Expiry, key+"100-5000 dark\n 8890-8891 1 get k = nil", "gone early@3")
	expect(t, Expiry, key+"100-5000 halt\n 6890-6891 1 get k = nil", "gone early@3")
	expect(t, Expiry, key+"100-5000 halt\n 50-5000 fault kill\n 6890-6891 1 get k = nil", "gone early@4")
	expect(t, Expiry, key+"100-300 halt\n 300-4000 dark\n 4000-5000 halt\n 5690-5691 1 pttl k = 3000", "remaining time too short@5") // nobody led after the dark
	expect(t, Expiry, key+"100-5000 dark\n 5500-5501 1 pttl k = 300", "remaining time too short@3")
}

// An error without a reason is a problem in every workload.
func TestErrors(t *testing.T) {
	h := story(t, "0-? 1 get r\n 2-? 2 get r")
	h.Ops[0].Error = "connection reset"
	h.Ops[1].Error = Unexpected + "ERR internal"
	if v := Errors(h); len(v.Problems) != 1 || v.Problems[0].Line != 2 {
		t.Errorf("%v", v.Problems)
	}
}

// A counter loses no acknowledged addition and does none twice.
func TestCounter(t *testing.T) {
	good := []string{
		"0-1 1 read c = nil\n 2-3 1 add c = 1\n 4-5 2 add c = 2\n 6-7 1 read c = 2",
		"0-? 1 add c\n 2-3 1 add c = 1\n 4-5 2 read c = 1\n 6-7 2 read c = 2", // unknown, done late
		"0-? 1 add c\n 2-3 1 add c = 2",
		"0-1 1 add c failed\n 2-3 1 add c = 1",
		"0-9 1 add c = 2\n 0-9 2 add c = 1\n 3-4 3 read c = 2",
	}
	for _, s := range good {
		expect(t, Counter, s)
	}
	expect(t, Counter, "0-1 1 add c = 1\n 2-3 1 read c = 0", "update lost@2")
	expect(t, Counter, "0-1 1 add c = 1\n 2-3 1 read c = 0\n 4-5 1 read c = 1", "stale read@2")
	expect(t, Counter, "0-1 1 add c = 1\n 2-3 2 add c = 1", "update lost@2", "update lost@2")
	expect(t, Counter, "0-1 1 add c = 2", "done twice@1")
	expect(t, Counter, "0-1 1 add c failed\n 2-3 2 read c = 1", "done twice@2")
	expect(t, Counter, "0-? 1 add c\n 2-3 2 read c = 1\n 4-5 2 read c = 0", "went back@3")
}

// Marks show each addition that was done twice, and each that is missing.
func TestMarks(t *testing.T) {
	good := []string{
		"0-1 1 sum c = nil\n 2-3 1 mark c 0 = 1\n 4-5 2 mark c 2 = 17\n 6-7 1 sum c = 17",
		"0-? 1 mark c 1\n 2-3 1 mark c 0 = 1\n 4-5 1 sum c = 1\n 6-7 2 sum c = 5", // unknown, done late
		"0-? 1 mark c 1\n 2-3 1 mark c 0 = 5",
		"0-1 1 mark c 0 failed\n 2-3 2 mark c 1 = 4",
		"0-9 1 mark c 0 = 1\n 0-9 2 mark c 1 = 5\n 3-4 3 sum c = 1",
		"0-1 1 mark c 0 = 1\n 2-3 1 mark d 0 = 1",
		"0-1 1 mark c 30 = 1152921504606846976",
	}
	for _, s := range good {
		expect(t, Counter, s)
	}
	expect(t, Counter, "0-1 1 mark c 0 = 1\n 2-3 2 mark c 1 = 4", "update lost@2", "order differs@2")
	expect(t, Counter, "0-1 1 mark c 0 = 2", "done twice@1")
	expect(t, Counter, "0-? 1 mark c 0\n 2-3 2 mark c 1 = 6", "done twice@2")
	expect(t, Counter, "0-? 1 mark c 0\n 2-3 2 mark c 1 = 5\n 4-5 3 sum c = 6", "done twice@3", "order differs@3")
	expect(t, Counter, "0-1 1 mark c 0 = 1\n 2-3 2 sum c = nil", "update lost@2", "went back@2")
	expect(t, Counter, "0-1 1 mark c 0 failed\n 2-3 2 sum c = 1", "failed but done@2")
	expect(t, Counter, "2-3 2 sum c = 4\n 4-5 1 mark c 1 = 4", "never sent@1")
	expect(t, Counter, "0-? 1 mark c 0\n 2-3 2 sum c = 1\n 4-5 2 sum c = 0", "went back@3")
	expect(t, Counter, "0-? 1 mark c 0\n 0-5 2 sum c = 1\n 0-3 3 sum c = 0\n 6-7 4 sum c = 0", "went back@4")
	expect(t, Counter, "0-? 1 mark c 0\n 0-? 2 mark c 1\n 2-9 3 sum c = 1\n 2-9 4 sum c = 4", "order differs@4")
}

// A stock sells each piece once, and each buyer gets one piece.
func TestStock(t *testing.T) {
	good := []string{
		"0-1 1 take s a,l = 999999,1\n 2-3 2 take s b,l = 999998,1\n 4-5 2 read s = 999998\n 6-7 2 sold l = a,1,b,1",
		"0-? 1 take s a,l\n 2-3 2 take s b,l = 999998,1\n 4-5 2 sold l = a,1,b,1",
		"0-? 1 take s a,l\n 2-3 2 take s b,l = 999999,1\n 4-5 2 sold l = b,1",
		"0-1 1 take s a,l = 999999,1\n 2-3 2 take s b,m = 999998,1\n 4-5 2 sold m = b,1\n 6-7 2 sold n = ",
	}
	for _, s := range good {
		expect(t, Stock, s)
	}
	expect(t, Stock, "0-1 1 take s a,l = 999999,1\n 4-5 2 read s = 999998", "done twice@2")
	expect(t, Stock, "0-1 1 take s a,l = 999999,1\n 4-5 2 read s = 1000000", "update lost@2")
	expect(t, Stock, "0-? 1 take s a,l\n 2-3 2 take s b,l = 999998,2", "done twice@2")
	expect(t, Stock, "0-? 1 take s a,l\n 2-3 2 sold l = a,2", "done twice@2")
	expect(t, Stock, "0-1 1 take s a,l = 999999,1\n 2-3 2 sold l = b,1", "never sent@2", "update lost@2")
	expect(t, Stock, "0-1 1 take s a,l failed\n 2-3 2 sold l = a,1", "failed but done@2")
}

// A set keeps members that were acknowledged or seen.
func TestSet(t *testing.T) {
	good := []string{
		"0-1 1 add s a = 1\n 2-3 2 add s b = 1\n 4-5 1 read s = a,b",
		"0-? 1 add s a\n 2-3 2 add s b = 1\n 4-5 1 read s = b\n 6-7 1 read s = a,b",
		"0-9 1 add s a = 1\n 2-3 1 read t = b\n 1-2 3 add t b = 1",
	}
	for _, s := range good {
		expect(t, Set, s)
	}
	expect(t, Set, "0-1 1 add s a = 1\n 2-3 2 add s b = 1\n 4-5 1 read s = b", "lost@3")
	expect(t, Set, "0-? 1 add s a\n 2-3 1 read s = a\n 4-5 2 read s = b\n 3-6 2 add s b = 1", "lost@3")
	expect(t, Set, "0-1 1 add s a failed\n 4-5 1 read s = a", "failed but done@2")
	expect(t, Set, "4-5 1 read s = x\n 0-1 1 add s a = 1", "never added@1", "lost@1")
	expect(t, Set, "0-1 1 add s a = 0", "added twice@1")
	expect(t, Set, "0-1 1 add s a = 1\n 2-3 1 read s = a,a", "listed twice@2")
}

// The sum of all accounts never changes.
func TestBank(t *testing.T) {
	expect(t, Bank, "0-1 1 init bank 100,100 = OK\n 2-3 1 transfer bank 0,1,7 = done\n 4-5 2 read bank = 93,107")
	expect(t, Bank, "0-1 1 init bank 100,100 = OK\n 4-5 2 read bank = 93,100", "sum changed@2")
	expect(t, Bank, "0-1 1 init bank 100,100 = OK\n 4-5 2 read bank = 93,nil", "sum changed@2")
	expect(t, Bank, "0-1 1 init bank 100,100 = OK\n 4-5 2 read bank = -7,207", "overdrawn@2")
}

// A subscriber gets each message soon, once, and in the order of all others, or is disconnected.
func TestWakeUp(t *testing.T) {
	good := []string{
		"0-1 1 listen ch = OK\n 2-3 2 publish ch a = 1\n 4-5 1 message ch = a\n 9000-9001 2 publish ch z failed",
		"0-1 1 listen ch = OK\n 2-3 2 publish ch a = 0\n 4-5 1 cut ch = x\n 9000-9001 2 publish ch z failed", // cut off
		"2-3 2 publish ch a = 0\n 4-5 1 listen ch = OK\n 9000-9001 2 publish ch z failed",                    // before it listened
		"0-1 1 listen ch = OK\n 2-? 2 publish ch a\n 9000-9001 2 publish ch z failed",                        // unknown
		"0-1 1 listen ch = OK\n 2-? 2 publish ch a\n 50-51 1 message ch = a",
		"0-1 1 listen ch = OK\n 2-3 2 publish ch a = 1", // not due yet at the end
		"0-1 1 listen ch = OK\n 1-100 fault pause\n 2-3 2 publish ch a = 1\n 4000-4001 1 message ch = a",
	}
	for _, s := range good {
		expect(t, WakeUp, s)
	}
	expect(t, WakeUp, "0-1 1 listen ch = OK\n 2-3 2 publish ch a = 1\n 90000-90001 2 publish ch z failed", "not woken@2")
	expect(t, WakeUp, "0-1 1 listen ch = OK\n 2-3 2 publish ch a = 1\n 2500-2501 1 message ch = a", "woken late@3")
	expect(t, WakeUp, "0-1 1 listen ch = OK\n 2-3 2 publish ch a = 1\n 4-5 1 message ch = a\n 6-7 1 message ch = a", "heard twice@4")
	expect(t, WakeUp, "0-1 1 listen ch = OK\n 4-5 1 message ch = x", "never published@2")
	expect(t, WakeUp, "0-1 1 listen ch = OK\n 2-3 2 publish ch a failed\n 4-5 1 message ch = a", "never published@3")
	expect(t, WakeUp, "0-1 1 listen ch = OK\n 0-1 3 listen ch = OK\n 2-3 2 publish ch a = 1\n 2-3 4 publish ch b = 1\n"+
		"4-5 1 message ch = a\n 6-7 1 message ch = b\n 4-5 3 message ch = b\n 6-7 3 message ch = a", "order differs@7")
	// A subscriber that gets a later message has missed the other one for good, under every fault.
	expect(t, WakeUp, "0-1 1 listen ch = OK\n 0-1 3 listen ch = OK\n 2-? 2 publish ch a\n 2-3 4 publish ch b = 1\n"+
		"4-5 1 message ch = a\n 6-7 1 message ch = b\n 4-5 3 message ch = b\n 0-9000 fault kill", "missed@7")
}

// Numbered messages show what is missing, during faults, too, and which other subscriber got it.
func TestNumbers(t *testing.T) {
	const ear = "0-9000 fault kill\n 0-1 1 listen ch = OK\n " // lines 1 and 2
	good := []string{
		ear + "2-3 2 count-publish ch a = 7\n 4-5 2 count-publish ch b = 8\n 6-7 1 message ch = a,7\n 8-9 1 message ch = b,8",
		ear + "2-? 2 count-publish ch a\n 4-5 2 count-publish ch b = 8\n 6-7 1 message ch = a,7\n 8-9 1 message ch = b,8",
		ear + "2-? 2 count-publish ch a\n 4-5 2 count-publish ch b = 8\n 8-9 1 message ch = b,8", // it came never, or before it listened
		ear + "0-1 2 count-publish ch a = 7\n 4-5 2 count-publish ch b = 8\n 8-9 1 message ch = b,8",
		ear + "2-3 2 count-publish ch a = 7\n 4-5 2 publish ch x = 1\n 6-7 1 message ch = a,7\n 8-9 1 message ch = x",
		ear + "2-3 2 count-publish ch a = 7\n 4-5 2 count-publish d b = 6\n 6-7 1 message ch = a,7",
		ear + "2-3 2 count-publish ch a = 7\n 4-5 1 cut ch = x\n 6-7 1 listen ch = OK\n 8-9 2 count-publish ch b = 9\n 10-11 1 message ch = b,9",
	}
	for _, s := range good {
		expect(t, WakeUp, s)
	}
	expect(t, WakeUp, ear+"2-? 2 count-publish ch a\n 2-? 3 count-publish ch b\n 6-7 1 message ch = a,7\n 8-9 1 message ch = b,9", "missed@6")
	expect(t, WakeUp, ear+"2-? 2 count-publish ch a\n 2-? 3 count-publish ch b\n 6-7 1 message ch = a,7\n 8-9 1 message ch = b,6", "order differs@6")
	expect(t, WakeUp, ear+"2-3 2 count-publish ch a = 7\n 4-5 2 count-publish ch b = 8\n 8-9 1 message ch = b,8", "missed@3")
	expect(t, WakeUp, ear+"2-3 2 count-publish ch a = 7\n 6-7 1 message ch = a,8", "wrong number@4")
}

// A subscriber that is told of the end of a lease was told of the leases that ended before.
func TestEventsSkipped(t *testing.T) {
	const ear = "0-90000 fault kill\n 0-1 1 listen e = OK\n 3-4 2 set k 100 = OK\n " // lines 1 to 3
	good := []string{
		ear + "5-6 2 set j 200 = OK\n 150-151 1 message e = k\n 250-251 1 message e = j",
		ear + "5-6 2 set j 100 = OK\n 250-251 1 message e = j",                                             // at the same time
		ear + "3-6 2 set j 200 = OK\n 250-251 1 message e = j",                                             // it may have been set before
		ear + "5-6 2 set j 200 = OK\n 20-? 2 del k\n 250-251 1 message e = j",                              // it may be deleted
		ear + "5-6 2 set j 200 = OK\n 90-91 2 renew k 900 = 1\n 250-251 1 message e = j",                   // it ends later
		ear + "5-6 2 set j 200 = OK\n 90-? 2 renew k 900\n 250-251 1 message e = j",                        // or may
		ear + "5-6 2 set j 200 = OK\n 40-41 1 cut e = x\n 42-43 1 listen e = OK\n 250-251 1 message e = j", // it was not there
	}
	for _, s := range good {
		expect(t, Events, s)
	}
	expect(t, Events, ear+"5-6 2 set j 200 = OK\n 250-251 1 message e = j", "missed@5")
	expect(t, Events, ear+"90-91 2 renew k 100 = 1\n 95-96 2 set j 200 = OK\n 350-351 1 message e = j", "missed@6")
}

// A subscriber is told of every lease that ends by itself, once and in time.
func TestEvents(t *testing.T) {
	const subs = "0-1 1 listen e = OK\n 0-1 2 listen e = OK\n " // lines 1 and 2
	const end = "\n 20000-20001 9 del z = 0"
	good := []string{
		"3-4 3 set k 100 = OK\n 103-104 1 message e = k\n 105-106 2 message e = k",
		"3-4 3 set k 100 = OK\n 50-51 3 renew k 100 = 1\n 150-151 1 message e = k\n 190-191 2 message e = k",
		"3-4 3 set k 100 = OK\n 110-111 3 renew k 100 = 0\n 150-151 1 message e = k\n 190-191 2 message e = k",
		"3-4 3 set k 100 = OK\n 50-51 3 del k = 1",
		"3-4 3 set k 100 = OK\n 50-? 3 del k",
		"3-4 3 set k 100 = OK\n 50-? 3 renew k 1000\n 1200-1201 1 message e = k\n 1200-1201 2 message e = k",
		"3-4 3 set k 100 = OK\n 50-? 3 renew k 10\n 60-61 1 message e = k\n 103-104 2 message e = k",
		"3-? 3 set k 100",
		"3-? 3 set k 100\n 8000-8001 1 message e = k\n 8000-8001 2 message e = k",
		"3-4 3 set k 100 failed",
		"3-4 3 set k 100 = OK\n 103-104 1 message e = k\n 50-51 2 cut e = x",
		"3-4 3 set k 100 = OK\n 50-51 4 listen e = OK\n 103-104 1 message e = k\n 105-106 2 message e = k", // came too late
		"3-4 3 set k 100 = OK\n 50-3000 fault kill\n 6000-6001 1 message e = k\n 6000-6001 2 message e = k",
	}
	for _, s := range good {
		expect(t, Events, subs+s+end)
	}
	expect(t, Events, subs+"3-4 3 set k 100 = OK\n 103-104 1 message e = k"+end, "not told@3")
	expect(t, Events, subs+"3-4 3 set k 100 = OK\n 100-101 1 message e = k\n 105-106 2 message e = k"+end, "told early@4")
	expect(t, Events, subs+"3-4 3 set k 100 = OK\n 10-3000 dark\n 10-3000 fault kill\n 3050-3051 1 message e = k\n 3095-3096 2 message e = k"+end, "told early@6")
	expect(t, Events, subs+"3-4 3 set k 100 = OK\n 50-51 3 renew k 100 = 1\n 140-141 1 message e = k\n 190-191 2 message e = k"+end, "told early@5")
	expect(t, Events, subs+"3-4 3 set k 100 = OK\n 103-104 1 message e = k\n 2500-2501 2 message e = k"+end, "told late@5")
	expect(t, Events, subs+"3-4 3 set k 100 = OK\n 103-104 1 message e = k\n 105-106 1 message e = k\n 105-106 2 message e = k"+end, "heard twice@5")
	expect(t, Events, subs+"3-4 3 set k 100 = OK\n 50-51 3 del k = 1\n 105-106 1 message e = k"+end, "told of no end@5")
	expect(t, Events, subs+"3-4 3 set k 100 failed\n 105-106 1 message e = k"+end, "told of no end@4")
	expect(t, Events, subs+"105-106 1 message e = k"+end, "never set@3")
	expect(t, Events, subs+"3-? 3 set k 100\n 3-? 4 set j 100\n 110-111 1 message e = k\n 112-113 1 message e = j\n"+
		"110-111 2 message e = j\n 112-113 2 message e = k"+end, "order differs@7")
	expect(t, Events, subs+"3-? 3 set k 100\n 3-? 4 set j 100\n 110-111 1 message e = k\n 112-113 1 message e = j\n 110-111 2 message e = j"+end, "missed@7")
}

// A script that meets a limit leaves nothing behind, and any other script its writes.
func TestScripts(t *testing.T) {
	good := []string{
		"0-1 1 poison a rep = error ERR Script stopped: it needs more\n 2-3 1 left a = nil",
		"0-1 1 poison a rep = 7\n 2-3 1 left a = 4",
		"0-1 1 poison a rep = error ERR stack overflow\n 2-3 1 left a = 4",
		"0-? 1 poison a rep\n 2-3 1 left a = 4",
		"0-1 1 poison a rep failed\n 2-3 1 left a = nil\n 4-5 2 script a x = 7",
	}
	for _, s := range good {
		expect(t, Scripts, s)
	}
	expect(t, Scripts, "0-1 1 poison a rep = error ERR Script stopped: it needs more\n 2-3 1 left a = 4", "not undone@2")
	expect(t, Scripts, "0-1 1 poison a rep = 7\n 2-3 1 left a = nil", "acknowledged write lost@2")
	expect(t, Scripts, "0-1 1 poison a rep failed\n 2-3 1 left a = 4", "failed but done@2")
}

// Many acquisitions of one lock have unknown outcomes, as a leader that is cut off leaves them: each may have held the
// lock, after others or never. An order is found quickly; to show that there is none takes longer.
func TestManyUnknownAcquisitions(t *testing.T) {
	unknown := func(n int) string {
		text := "0-1 1 acquire l a,10 = OK\n"
		for i := range n {
			text += fmt.Sprintf("%d-? %d acquire l t%d,%d\n", 2+i, i+2, i, 100+37*i%50)
		}
		return text
	}
	expect(t, Lock, unknown(24)+"5000-5001 90 holder l = t7\n 6000-6001 90 acquire l b,10 = nil\n 7000-7001 90 holder l = nil")
	expect(t, Lock, unknown(8)+"5000-5001 90 holder l = t7\n 5002-5003 90 holder l = t3\n 5004-5005 90 holder l = t7", "lock held by the wrong one@12")
}

// Judged for safety alone, a history may show that something took long, and no other problem.
func TestSafetyOnly(t *testing.T) {
	for _, c := range []struct {
		history string
		fine    bool
	}{
		{"0-1 1 set k v,100 = OK\n 602-603 1 get k = v" + beats(0, 1000), true},                        // gone late
		{"0-1 1 set k v,9000 = OK\n 2000-2001 1 pttl k = 8900" + beats(0, 3000), true},                 // remaining time too long
		{"0-1 1 set k v,100 = OK\n 50-51 1 get k = nil", false},                                        // gone early
		{"0-1 1 set k v,100 = OK\n 50-51 1 pttl k = 20", false},                                        // remaining time too short
		{"0-1 1 set k v,100 = OK\n 602-603 1 get k = v\n 604-605 1 get k = w" + beats(0, 1000), false}, // late, and a wrong value
	} {
		v := Expiry(story(t, c.history))
		if found := len(v.Problems); v.OK() {
			t.Fatalf("nothing is wrong with %q", c.history)
		} else if v.SafetyOnly(); v.OK() != c.fine || len(v.Problems)+len(v.NotJudged) != found {
			t.Errorf("%q: problems %v, not judged %v", c.history, v.Problems, v.NotJudged)
		}
	}
	v := &Verdict{Undecided: []string{"key k"}}
	if v.SafetyOnly(); !v.OK() || len(v.NotJudged) != 1 {
		t.Errorf("undecided: %+v", v)
	}
}

// The versions of a register show every write that was done, once, even if another one followed at once.
func TestVersions(t *testing.T) {
	const two = "0-1 1 set r a = OK\n 2-3 1 set r b = OK\n "
	good := []string{
		two + "4-5 2 versions r = a,b",
		two + "4-5 2 cas r a,c = 0\n 4-5 2 versions r = a,b",
		two + "4-5 2 cas r b,c = 1\n 4-5 3 versions r = a,b",
		two + "4-5 2 cas r b,c = 1\n 6-7 3 versions r = a,b,c",
		two + "1-? 2 set r c\n 4-5 3 versions r = a,c,b\n 6-7 3 versions r = a,c,b",
		two + "1-? 2 set r c\n 4-5 3 versions r = a,b\n 6-7 3 get r = b",
		two + "4-5 2 set r c failed\n 6-7 3 versions r = a,b",
		two + "4-5 2 versions s =",
	}
	for _, s := range good {
		expect(t, Register, s)
	}
	expect(t, Register, two+"4-5 2 versions r = b", "update lost@3")
	expect(t, Register, two+"4-5 2 versions r = a,b,a", "done twice@3")
	expect(t, Register, two+"1-? 2 set r c\n 4-5 2 versions r = c,a,c,b", "done twice@4")
	expect(t, Register, two+"4-5 2 cas r b,c = 1\n 6-7 2 versions r = a,b", "update lost@4")
	expect(t, Register, two+"4-5 2 cas r a,c = 0\n 6-7 2 versions r = a,b,c", "failed but done@4")
	expect(t, Register, two+"4-5 2 set r c failed\n 6-7 2 versions r = a,b,c", "failed but done@4")
	expect(t, Register, two+"4-5 2 versions r = a,b,x", "never sent@3")
}

// Each transfer is in the ledger once if it was acknowledged, and at most once otherwise.
func TestLedger(t *testing.T) {
	const done = "0-1 1 transfer l 0,1,7,a = done\n "
	good := []string{
		done + "2-3 2 ledger l = a,1",
		done + "0-9 1 transfer l 0,1,7,b = done\n 2-3 2 ledger l = a,1",
		done + "0-? 1 transfer l 0,1,7,b\n 2-3 2 ledger l = a,1,b,1",
		done + "0-? 1 transfer l 0,1,7,b\n 2-3 2 ledger l = a,1",
		done + "0-1 1 transfer l 0,1,7,b = poor\n 2-3 2 ledger l = a,1",
		done + "0-1 1 transfer m 0,1,7,b = done\n 2-3 2 ledger m = b,1",
	}
	for _, s := range good {
		expect(t, Bank, s)
	}
	expect(t, Bank, done+"2-3 2 ledger l = a,2", "done twice@2")
	expect(t, Bank, done+"2-3 2 ledger l =", "update lost@2")
	expect(t, Bank, done+"2-? 1 transfer l 0,1,7,b\n 4-5 2 ledger l = a,1,b,2", "done twice@3")
	expect(t, Bank, done+"2-3 1 transfer l 0,1,7,b = aborted\n 4-5 2 ledger l = a,1,b,1", "failed but done@3")
	expect(t, Bank, done+"2-3 1 transfer l 0,1,7,b failed\n 4-5 2 ledger l = a,1,b,1", "failed but done@3")
	expect(t, Bank, done+"2-3 2 ledger l = a,1,x,1", "never sent@2")
}

// No lock is held longer than its leases allow.
func TestLockEnds(t *testing.T) {
	writes := ""
	for at := 5; at < 9000; at += 100 {
		writes += fmt.Sprintf("\n%d-%d 9 release z x = 0", at, at+1)
	}
	const taken = "0-1 1 acquire l a,100 = OK\n "
	good := []string{
		taken + "600-601 2 acquire l b,100 = nil" + writes,                                           // half a second is allowed
		taken + "3000-3001 2 acquire l b,100 = nil",                                                  // nobody led meanwhile, as far as is known
		taken + "90-91 1 renew l a,3000 = 1\n 3500-3501 2 holder l = a" + writes,                     //
		taken + "90-? 1 renew l a,100\n 2600-2601 2 holder l = a" + writes,                           // it may have come two seconds later
		taken + "80-7000 fault pause\n 90-? 1 renew l a,100\n 8900-8901 2 holder l = a" + writes,     // or much later
		taken + "2-3 1 release l a = 1\n 4-? 2 acquire l b,2000\n 4000-4001 3 holder l = b" + writes, //
		taken + "700-701 2 holder l = nil\n 702-703 1 release l a = 0" + writes,
	}
	for _, s := range good {
		expect(t, Lock, s)
	}
	expect(t, Lock, taken+"602-603 2 acquire l b,100 = nil"+writes, "lock never ends@2")
	expect(t, Lock, taken+"602-603 2 holder l = a"+writes, "lock never ends@2")
	expect(t, Lock, taken+"602-603 2 fence l = 7"+writes, "lock never ends@2")
	expect(t, Lock, taken+"602-603 1 release l a = 1"+writes, "lock never ends@2")
	expect(t, Lock, taken+"602-603 1 renew l a,100 = 1"+writes, "lock never ends@2")
	expect(t, Lock, taken+"90-91 1 renew l a,3000 = 1\n 3800-3801 2 holder l = a"+writes, "lock never ends@3")
	expect(t, Lock, taken+"90-? 1 renew l a,100\n 2800-2801 2 holder l = a"+writes, "lock never ends@3")
	expect(t, Waiters, taken+"602-603 2 acquire l b,100 = nil,9,a"+writes, "lock never ends@2")

	writes = strings.ReplaceAll(writes, "release z x", "renew z x,9")
	const locked = "0-1 1 lock l a,100 = nil\n "
	good = []string{
		locked + "600-601 2 lock l b,100 = held" + writes,
		locked + "602-603 2 lock l b,100 = nil" + writes,
		locked + "90-91 1 renew l a,3000 = 1\n 3500-3501 2 lock l b,9 = held" + writes,
		locked + "2-3 1 lock l a,100 = nil\n 90-91 1 unlock l a,3000 = 0\n 3500-3501 2 lock l b,9 = held" + writes,
		locked + "602-603 1 count l a,1 = nil" + writes,
	}
	for _, s := range good {
		expect(t, Reentrant, s)
	}
	expect(t, Reentrant, locked+"602-603 2 lock l b,100 = held"+writes, "lock never ends@2")
	expect(t, Reentrant, locked+"602-603 1 count l a,1 = 1"+writes, "lock never ends@2")
	expect(t, Reentrant, locked+"602-603 1 renew l a,100 = 1"+writes, "lock never ends@2")
	expect(t, Reentrant, locked+"602-603 1 unlock l a,100 = 1"+writes, "lock never ends@2")
	expect(t, Reentrant, locked+"2-3 1 lock l a,100 = nil\n 90-91 1 unlock l a,3000 = 0\n 3700-3701 2 lock l b,9 = held"+writes, "lock never ends@4")
}

// One of many operations of unknown outcome must have happened late, after each of the others could have happened.
func TestUnknownOutcomeThatCameLate(t *testing.T) {
	text := "0-1 1 acquire k a,9000 = OK\n"
	for i := range 40 {
		text += fmt.Sprintf("2-? %d acquire k t%d,9000\n", i+2, i)
	}
	h := story(t, text+"10-11 1 holder k = a\n 12-13 1 release k a = 1\n 14-15 1 holder k = t0")
	m, steps := plainLock.picture(h), 0
	step := m.step
	m.step = func(state any, o *history.Op, horizon int64) []any {
		steps++
		return step(state, o, horizon)
	}
	var ops []*history.Op
	for i := range h.Ops {
		ops = append(ops, &h.Ops[i])
	}
	if got := searchModel(m.model(ops, true), ops, decideMax); got != porcupine.Ok || steps > 40*40*40 {
		t.Errorf("%s after %d steps", got, steps)
	}
}

// A value that is compared with an operand is compared as a whole, and absent is unlike all.
func TestCompared(t *testing.T) {
	const set = "0-1 1 compare-set c IFNE,x,ab = OK\n "
	for _, good := range []string{
		"2-3 1 compare-set c IFEQ,a,x = nil", "2-3 1 compare-set c IFNE,a,x = OK\n 4-5 1 compare-get c = x",
		"2-3 1 compare-del c IFDEQ,abc = 0\n 4-5 1 compare-get c = ab", "2-3 1 compare-del c IFDNE,abc = 1\n 4-5 1 compare-get c = nil",
		"2-3 1 compare-expire c IFEQ,ab = 1", "2-3 1 compare-del c IFEQ,ab = 1\n 4-5 1 compare-expire c IFNE,x = 0",
		"2-? 1 compare-del c IFEQ,ab\n 4-5 1 compare-get c = nil", "2-? 1 compare-del c IFEQ,ab\n 4-5 1 compare-get c = ab",
	} {
		expect(t, Lock, set+good)
	}
	for _, bad := range []string{
		"2-3 1 compare-set c IFEQ,a,x = OK", "2-3 1 compare-set c IFNE,ab,x = OK", "2-3 1 compare-del c IFDEQ,abc = 1",
		"2-3 1 compare-expire c IFEQ,a = 1", "2-3 1 compare-expire c IFDNE,a = 0", "2-3 1 compare-get c = nil",
	} {
		expect(t, Lock, set+bad, "wrong comparison@2")
	}
	expect(t, Lock, set+"2-? 1 compare-del c IFEQ,a\n 4-5 1 compare-get c = nil", "wrong comparison@3")
}
