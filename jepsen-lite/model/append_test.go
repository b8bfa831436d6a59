package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/jepsen-lite/history"
)

// Transactions over lists and registers fit one order. What leaves none is named after its worst kind of cycle.
func TestAppend(t *testing.T) {
	const look = "\n 90-91 9 look multi x,y = "
	good := []string{
		"0-1 1 txn multi x+1,y+2 = 1,1\n 2-3 2 look eval x,y = [1],[2]",
		"0-9 1 txn multi x+1,y+2 = 1,1\n 0-9 2 txn eval x+3,y+4 = 2,2\n 0-9 3 txn pipe z+5 = 1",
		"0-9 1 txn multi x+1,y = 1,[]\n 0-9 2 txn eval x,y+2 = [1],1" + look + "[1],[2]",                      // one after the other
		"0-9 1 txn multi x+1,x,x+2,x = 1,[1],2,[1 2]\n 0-9 2 look eval x = []",                                // it sees its own
		"0-? 1 txn multi x+1,y+2\n 5-6 2 look eval x,y = [],[]\n 7-8 2 look eval x,y = [1],[2]",               // unknown, done late
		"0-? 1 txn multi x+1,y+2" + look + "[],[]",                                                            // unknown, never done
		"0-1 1 txn multi x+1,y+2 failed" + look + "[],[]",                                                     //
		"0-1 1 txn multi r=1,s=2 = nil,nil\n 2-3 2 txn eval r=3,s = 1,2\n 4-5 1 look eval r,s = 3,2",          //
		"0-9 1 txn multi r=1,r=2,r = nil,1,2\n 0-9 2 txn eval r,s=3 = 2,nil",                                  //
		"0-9 1 txn pipe x+1,y+2 = 1,1\n 0-9 2 look eval x,y = [1],[]\n 0-20 fault clients",                    // it came in pieces
		"0-9 1 txn pipe x+1,y+2 failed\n 10-11 2 look eval x,y = [1],[]\n 0-20 fault clients",                 // so one may be done
		"0-? 1 txn pipe x+1,y+2\n 10-11 2 look eval x,y = [],[2]\n 0-20 fault clients",                        //
		"0-? 1 txn multi x+1,y+2\n 3-4 2 txn multi x+3,y = 2,[2]" + look + "[1 3],[2]",                        // seen by its place
		"0-1 1 txn multi x+1,y+2 = 1,1\n 0-? 2 txn multi x+3\n 5-6 1 txn eval x+4 = 3" + look + "[1 3 4],[2]", //
	}
	for _, s := range good {
		expect(t, Append, s)
	}
	bad := []struct {
		story string
		want  []string
	}{
		{"0-9 1 txn multi x+1,y+2 = 1,2\n 0-9 2 txn multi x+3,y+4 = 2,1" + look + "[1 3],[4 2]", []string{"write cycle (G0)@1"}},
		{"0-9 1 txn multi x+1,x+2 = 1,3\n 0-9 2 txn multi x+3 = 2", []string{"write cycle (G0)@1"}},
		{"0-1 1 txn multi x+1 failed\n 2-3 2 look eval x = [1]", []string{"failed but done@2"}}, // G1a
		{"2-3 2 look eval x = [1]", []string{"never sent@1"}},
		{"0-9 1 txn multi x+1,x+2 = 1,2\n 0-9 2 look eval x = [1]", []string{"intermediate read (G1b)@2", "read skew (G-single)@2"}},
		{"0-9 1 txn multi r=1,r=2 = nil,1\n 0-9 2 look eval r = 1", []string{"intermediate read (G1b)@2"}},
		{"0-9 1 txn multi x+1,y = 1,[2]\n 0-9 2 txn eval y+2,x = 1,[1]", []string{"circular reads (G1c)@1"}},
		{"0-9 1 txn multi x+1,y+2 = 1,1\n 0-8 2 look eval x,y = [1],[]", []string{"read skew (G-single)@1"}},
		{"0-9 1 txn pipe x+1,y+2 = 1,1\n 0-8 2 look eval x,y = [1],[]", []string{"read skew (G-single)@1"}},
		{"0-9 1 txn multi r=1,s=2 = nil,nil\n 0-8 2 look eval r,s = 1,nil", []string{"read skew (G-single)@1"}},
		{"0-? 1 txn multi x+1,y+2\n 0-8 2 look eval x,y = [1],[]", []string{"read skew (G-single)@2"}}, // it was done, so wholly
		{"0-9 1 txn multi x,y+1 = [],1\n 0-8 2 txn multi y,x+2 = [],1", []string{"write skew (G2)@1"}},
		{"0-9 1 txn multi r,s=1 = nil,nil\n 0-8 2 txn multi s,r=2 = nil,nil", []string{"write skew (G2)@1"}},
		{"0-1 1 txn multi x+1 = 2\n 2-3 2 txn multi x+2 = 1", []string{"write cycle (G0-realtime)@2"}},
		{"0-9 1 txn multi x+1,z = 1,[5]\n 1-3 2 look eval x = [1]\n 4-5 3 txn multi z+5 = 1", []string{"circular reads (G1c-realtime)@1"}},
		{"0-1 1 txn multi r=1,x+1 = nil,1\n 2-3 2 look eval r = nil", []string{"stale read (G-single-realtime)@2"}},
		{"0-1 1 txn multi x+1 = 1\n 2-3 2 look eval x = []", []string{"update lost@2", "stale read (G-single-realtime)@2"}},
		{"0-9 1 txn multi x,z+7 = [],1\n 1-3 2 txn eval x+1 = 1\n 4-5 3 look multi z = []", []string{"write skew (G2-realtime)@1"}},
		{"0-9 1 txn multi x+1,x = 1,[]", []string{"own writes not seen@1"}},
		{"0-9 1 txn multi x+1,x,x = 1,[1],[2 1]", []string{"own writes not seen@1"}},
		{"0-9 1 txn multi r=1,r = nil,nil", []string{"own writes not seen@1"}},
		{"0-9 1 txn multi x+1 = 1\n 0-9 2 txn multi x+2 = 2\n 0-9 3 look eval x = [1 2]\n 0-9 4 look eval x = [2 1]", []string{"order differs@4"}},
		{"0-9 1 txn multi x+1 = 1\n 0-9 2 txn multi x+2 = 1", []string{"wrong place@2"}},
		{"0-9 1 txn multi r=1 = nil\n 0-9 2 txn multi r=2 = nil", []string{"update lost@2"}},
		{"0-9 1 txn multi x+1 = 1\n 0-9 3 look eval x = [1 1]", []string{"done twice@2"}},
	}
	for _, c := range bad {
		expect(t, Append, c.story, c.want...)
	}
}

// A cycle is told in words: who came before whom, by which lines, and why.
func TestAppendTells(t *testing.T) {
	v := Append(story(t, "0-1 1 txn multi r=1,x+2 = nil,1\n 2-3 2 look eval r = nil"))
	text := fmt.Sprint(v.Problems)
	for _, want := range []string{
		"line 2 before line 1: it did not see 1 in r, which the other wrote (rw)",
		"line 1 before line 2: it was answered before the other began (real time)",
		`line 1: process 1 txn multi["r=1" "x+2"] = ["nil" "1"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

// Random histories of a server that does one transaction after the other have no problem. With two answers of one
// kind swapped, or a transaction in two halves, most have one.
func TestAppendAtRandom(t *testing.T) {
	caught := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := serial(r, 200, 0)
		if v := Append(h); !v.OK() {
			t.Fatalf("seed %d: %v", seed, v.Problems)
		}
		if v := Append(serial(r, 200, 4)); !v.OK() {
			caught++
		}
	}
	if caught < 55 {
		t.Errorf("%d of 60 servers that tear transactions were caught", caught)
	}
}

// serial makes the history of a server that does transactions one after the other, each at a random time between its
// start and its end. One in torn of them is done in two halves, with another one between.
func serial(r *rand.Rand, n, torn int) *history.History {
	h := &history.History{}
	lists, registers := map[string][]string{}, map[string]string{}
	unique := 0
	do := func(o *history.Op, from, to int) {
		for i := from; i < to; i++ {
			s, out := parseStep(o.In[i], ""), ""
			switch {
			case s.verb == stepAppend:
				lists[s.key] = append(lists[s.key], s.value)
				out = fmt.Sprint(len(lists[s.key]))
			case s.verb == stepWrite || s.key[0] == 'r':
				if out = registers[s.key]; out == "" {
					out = absent
				}
				if s.verb == stepWrite {
					registers[s.key] = s.value
				}
			default:
				out = fmt.Sprint(lists[s.key])
			}
			o.Out = append(o.Out, out)
		}
	}
	for i := range n {
		o := history.Op{Process: i, Name: "txn", Key: []string{"multi", "eval", "pipe"}[r.IntN(3)], Outcome: history.OK, Line: i + 1}
		for range 2 + r.IntN(3) {
			unique++
			o.In = append(o.In, []string{
				fmt.Sprintf("l%d+%d", r.IntN(3), unique), fmt.Sprintf("l%d", r.IntN(3)),
				fmt.Sprintf("r%d=%d", r.IntN(2), unique), fmt.Sprintf("r%d", r.IntN(2)),
			}[r.IntN(4)])
		}
		at := int64(i*10) * msNs
		o.Start, o.End = at-r.Int64N(40*msNs), at+r.Int64N(40*msNs)
		o.Told = o.End
		h.Ops = append(h.Ops, o)
	}
	for i := 0; i < n; i++ {
		o := &h.Ops[i]
		if torn > 0 && i+1 < n && r.IntN(torn) == 0 {
			next, half := &h.Ops[i+1], len(o.In)/2
			do(o, 0, half)
			do(next, 0, len(next.In))
			do(o, half, len(o.In))
			i++
			continue
		}
		do(o, 0, len(o.In))
	}
	for i := range h.Ops {
		if o := &h.Ops[i]; r.IntN(12) == 0 { // nobody was told
			o.Outcome, o.End, o.Out = history.Info, history.Forever, nil
		}
	}
	slices.SortFunc(h.Ops, func(a, b history.Op) int { return int(a.Start - b.Start) })
	return h
}
