package model

import (
	"fmt"
	"strings"
	"testing"

	"lockd/jepsen-lite/history"
)

// momentStory is a story of three nodes that begins at 5,000 ms of the true time. A line
//
//	start-end off node low,high     marks that a clock was ahead by low to high ms
//	start up node                   marks that a process starts
func momentStory(t *testing.T, text string) *history.History {
	t.Helper()
	var ops, marks []string
	for line := range strings.SplitSeq("0-0 9 now - = 5000000\n"+text, "\n") {
		if w := strings.Fields(line); len(w) > 1 && (w[1] == "off" || w[1] == "up") {
			marks = append(marks, line)
		} else if len(w) > 1 {
			ops = append(ops, line)
		}
	}
	h := story(t, strings.Join(ops, "\n"))
	mark := func(at, op, node string, value ...string) {
		h.Marks = append(h.Marks, history.Event{
			Time: ms(at), Process: history.Nemesis, Type: history.Info, Op: op, Node: node, Value: value,
		})
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		mark("-1", history.Up, node)
	}
	for _, line := range marks {
		w := strings.Fields(line)
		start, end, _ := strings.Cut(w[0], "-")
		if w[1] == "up" {
			mark(start, history.Up, w[2])
			continue
		}
		low, high, _ := strings.Cut(w[3], ",")
		mark(start, history.Clock, w[2], low, high, "0")
		mark(end, history.Clock, w[2], "0", "0", "0")
	}
	h.End = max(h.End, ms("20000"))
	return h
}

// The time of the cluster follows the median of the clocks forward, and never goes back; a lock is held until its
// moment. Each story must have these problems.
func TestMoments(t *testing.T) {
	for _, c := range []struct{ story, want string }{
		// one clock of three changes nothing
		{"100-9000 off n1 0,60000\n1000-1001 1 time - = 6000500", ""},
		{"100-9000 off n1 0,60000\n1000-1001 1 time - = 66000000", "time ahead"},
		{"100-9000 off n1 -60000,0\n1000-1001 1 id s = 5400-0", "time behind"},
		{"1000-1001 1 id s = 5600-0", ""},
		// two clocks do, as far as both are wrong, and a clock counts for a while when it is right again
		{"100-9000 off n1 0,60000\n100-9000 off n2 0,3000\n1000-1001 1 time - = 8900000", ""},
		{"100-9000 off n1 0,60000\n100-9000 off n2 0,3000\n1000-1001 1 time - = 9100000", "time ahead"},
		{"100-900 off n1 0,60000\n1000-9000 off n2 0,3000\n1000-1001 1 time - = 8900000", ""},
		{"100-900 off n1 0,60000\n4000-9000 off n2 0,3000\n4000-4001 1 time - = 11900000", "time ahead"},
		{"0-10000 fault partition leader\n100-900 off n1 0,60000\n4000-9000 off n2 0,3000\n4000-4001 1 time - = 11900000", ""},
		{"100-9000 off n1 -60000,0\n100-9000 off n2 -3000,0\n1000-1001 1 time - = 2600000", ""},
		{"100-9000 off n1 -60000,0\n100-9000 off n2 -3000,0\n1000-1001 1 time - = 2400000", "time behind"},
		{"0-10 fault pause leader\n1000-1001 1 id s = 5400-0", ""}, // answers between nodes may take long
		// what it is ahead is worked off by seven eighths of the time that passes
		{"100-200 off n1 0,8000\n100-200 off n2 0,8000\n7200-7201 1 time - = 16600000", ""},
		{"100-200 off n1 0,8000\n100-200 off n2 0,8000\n7200-7201 1 time - = 17000000", "time ahead"},
		// it never goes back
		{"0-1 1 time - = 5001000\n2-3 2 time - = 5001000\n4-5 2 id s = 5001-0", ""},
		{"0-4 1 time - = 5003000\n2-5 2 time - = 5002000", ""}, // at once
		{"0-4 1 time - = 5003000\n5-6 2 time - = 5002000", "time went back"},
		{"0-4 1 id s = 5003-0\n5-6 2 time - = 5002000", "time went back"},
		{"0-4 1 time - = 5003999\n5-6 2 id s = 5003-0", ""},
		{"0-4 1 time - = 5004000\n5-6 2 id s = 5003-0", "time went back"},
		{"0-4 1 time - = 5003000\n4.5 up n1\n5-6 2 time - = 5002000", ""},               // it was shown to reads only
		{"0-4 1 id s = 5003-0\n4.5 up n1\n5-6 2 time - = 5002000", "time went back"},    // it is in the log
		{"1-4 1 time - = 5003000\n0.5 up n1\n5-6 2 time - = 5002000", "time went back"}, // the process has lived since
		{"0-4 1 time - = 5003000\n7 up n1\n5-6 2 time - = 5002000", "time went back"},   // it starts later
		{"0-4 1 time - = 5003000\n5.5 up n1\n5-6 2 time - = 5002000", ""},               //
		{"0-4 1 time - = 5003000\n5-? 2 time -\n5-6 3 time - failed", ""},               // no answer
		// a lock is held until its moment, whichever clock steps
		{"0-1 1 take k a,6000 = OK\n900-990 1 holder k a = a\n1001-1002 2 take k b,9000 = OK", ""},
		{"0-1 1 take k a,6000 = OK\n900-980 1 holder k a = nil", "gone early"},
		{"0-1 1 take k a,6000 = OK\n900-999 1 holder k a = nil", ""},
		{"0-1 1 take k a,6000 = OK\n900-980 2 take k b,9000 = OK", "two holders"},
		{"0-1 1 take k a,6000 = OK\n900-999 2 take k b,9000 = OK", ""},
		{"0-1 1 take k a,6000 = OK\n900-980 2 take j b,9000 = OK", ""}, // another lock
		{"0-901 1 take k a,6000 = OK\n900-980 2 take k b,9000 = OK", ""},
		{"0-1 1 take k a,6000 = nil\n900-980 2 take k b,9000 = OK", ""},
		{"0-? 1 take k a,6000\n900-980 2 take k b,9000 = OK", ""},
		{"0-10 off n1 0,60000\n0-1 1 take k a,6000 = OK\n900-980 1 holder k a = nil", "gone early"},
		{"0-10 off n1 0,500\n0-10 off n2 0,500\n0-1 1 take k a,6000 = OK\n600-700 1 holder k a = nil", ""},
		{"0-10 off n1 0,500\n0-10 off n2 0,500\n0-1 1 take k a,6000 = OK\n300-400 1 holder k a = nil", "gone early"},
		{"0-1 1 take k a,6000 = OK\n500-900 off n1 0,500\n500-900 off n2 0,500\n700-800 1 holder k a = nil", "gone early"},
		// and no longer
		{"0-1 1 take k a,6000 = OK\n1000-2100 2 id s = 6500-0\n1990-1999 1 holder k a = a", ""},
		{"0-1 1 take k a,6000 = OK\n2090-2100 1 holder k a = a", "gone late"},
		// until another moment
		{"0-1 1 take k a,6000 = OK\n10-11 1 extend k a,7000 = 1\n1500-1600 2 take k b,9000 = OK", "two holders"},
		{"0-1 1 take k a,7000 = OK\n10-11 1 extend k a,6000 = 1\n1500-1600 2 take k b,9000 = OK", ""},
		{"0-1 1 take k a,7000 = OK\n10-? 1 extend k a,6000\n1500-1600 2 take k b,9000 = OK", ""},
		{"0-1 1 take k a,7000 = OK\n10-11 1 extend k a,6000 failed\n1500-1600 2 take k b,9000 = OK", "two holders"},
		{"0-1 1 take k a,7000 = OK\n10-11 1 extend k a,8000 = 0", "gone early"},
		{"0-1 1 take k a,7000 = OK\n2010-2011 1 extend k a,8000 = 0", ""},
		// or until it is given up
		{"0-1 1 take k a,7000 = OK\n10-20 1 drop k a = 1\n15-16 2 take k b,9000 = OK", ""},
		{"0-1 1 take k a,7000 = OK\n10-? 1 drop k a\n1500-1600 2 take k b,9000 = OK", ""},
		{"0-1 1 take k a,7000 = OK\n10-20 1 drop k a = 0", "gone early"},
	} {
		beats := "" // writes, so that the log clock loses nothing
		for at := 0; at < 3000; at += 100 {
			beats += fmt.Sprintf("%d-%d 7 drop beat none = 0\n", at, at+110)
		}
		v := Moments(momentStory(t, c.story+"\n"+beats))
		got := ""
		for _, p := range v.Problems {
			got += p.Kind
		}
		if got != c.want || len(v.Undecided) > 0 {
			t.Errorf("%q, want %q in\n%s\n%v", got, c.want, c.story, v)
		}
	}
}

// Promises about wrong clocks are at stake while a clock is wrong. Without a true time nothing is judged.
func TestMomentsAtStake(t *testing.T) {
	off := "100-900 off n1 0,60000\n1100-1900 off n1 0,60000\n2100-2900 off n1 0,60000\n"
	seen := "500-501 2 time - = 5500000\n200-201 1 take k a,8000 = OK\n950-951 1 holder k a = a\n"
	for _, c := range []struct {
		story        string
		times, locks int
	}{
		{off + seen, 1, 1},
		{off, 0, 0},
		{seen, 0, 0},
		{off + strings.ReplaceAll(seen, "950-951", "3950-3951"), 1, 0}, // the lock has ended
	} {
		v := Moments(momentStory(t, c.story))
		times, locks := v.AtStake[ruleWrongClock.ID], v.AtStake[ruleMomentWrong.ID]
		if len(v.Problems) > 0 || times != c.times || locks != c.locks {
			t.Errorf("at stake %d and %d times, want %d and %d, in\n%s\n%v", times, locks, c.times, c.locks, c.story, v)
		}
	}
	for _, now := range []string{"1-2 1 time - = 5002000", "10-11 9 now - = 6000000"} {
		h := momentStory(t, now)
		if now[0] == '1' && now[1] == '-' {
			h.Ops = h.Ops[1:]
		}
		if v := Moments(h); len(v.Undecided) == 0 {
			t.Errorf("decided with %s: %v", now, v)
		}
	}
}

// Of an even number of clocks the lower of the two in the middle counts; of five, two may be wrong, while all are heard.
func TestMedianOfClocks(t *testing.T) {
	s := int64(1e9)
	for _, c := range []struct {
		nodes         int
		wrong         []int64 // s
		heardAll      bool
		ahead, behind int64
	}{
		{1, []int64{9}, true, 9, 0},
		{1, []int64{-9}, true, 0, 9},
		{2, []int64{9}, true, 0, 0},
		{2, []int64{-9}, true, 0, 9},
		{3, []int64{9}, true, 0, 0},
		{3, []int64{9, 4}, true, 4, 0},
		{3, []int64{9, -4}, true, 0, 0},
		{3, []int64{-9}, true, 0, 0},
		{3, []int64{-9, -4}, true, 0, 4},
		{3, []int64{9}, false, 0, 0},
		{5, []int64{9, 8}, true, 0, 0},
		{5, []int64{9, 8, 7}, true, 7, 0},
		{5, []int64{-9, -8}, true, 0, 0},
		{5, []int64{9, 8}, false, 8, 0},
		{5, []int64{9}, false, 0, 0},
	} {
		w := &wallClocks{}
		for i, off := range c.wrong {
			w.off = append(w.off, offClock{
				node: fmt.Sprint(i), from: 1, to: 2 * s, heard: 3 * s, low: min(off, 0) * s, high: max(off, 0) * s,
			})
		}
		others := history.Forever
		if !c.heardAll {
			others = 0
		}
		w.lay(c.nodes, others, 0)
		if ahead, behind := w.during(s, s); ahead != c.ahead*s || c.heardAll && behind != c.behind*s {
			t.Errorf("%+v: ahead %d s, behind %d s", c, ahead/s, behind/s)
		}
	}
}
