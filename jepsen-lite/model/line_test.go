package model

import (
	"strings"
	"testing"
)

// A lock with a line is a lock. A token may come again, waiters are served in turn, and disconnected ones are not.
func TestLine(t *testing.T) {
	const taken = "0-1 1 enter l a,9000,0 = 7\n " // line 1
	good := []string{
		"2-3 2 try l b,100,0 = nil\n 4-500 3 enter l c,100,5000 = 9\n 400-401 1 release l a = 1\n 402-403 2 holder l = c",
		"2-3 1 enter l a,9000,0 = 7\n 4-5 1 renew l a,9000 = 7\n 6-7 1 release l a = 1",
		"2-? 2 enter l b,9000,5000\n 10-11 1 release l a = 1\n 12-13 3 holder l = b\n 14-15 4 enter l b,9000,5000 = 9",
		"2-?3 2 enter l b,9000,5000\n 10-11 1 release l a = 1\n 12-13 3 holder l = b\n 20-21 3 holder l = nil",  // taken back
		"2-?50 2 enter l b,9000,5000\n 10-11 1 release l a = 1\n 12-13 3 holder l = b\n 20-21 3 holder l = nil", // its client hears last that it is cut off
		"2-?3 2 enter k b,9000,0\n 4-5 3 enter m c,9000,0 = 9\n 6-7 2 enter k b,9000,0 = 8",                     // granted by its first request
		"2-4000 2 enter l b,9000,3990 = nil\n 100-4500 3 enter l c,9000,5000 = 9\n 4400-4401 1 release l a = 1", // its time was over
		"2-4500 2 enter l b,9000,9000 = 8\n 100-4400 3 enter l c,9000,9000 = 9\n 200-4401 1 release l a = 1\n" +
			"4410-4411 3 release l c = 1",
		"3000-4500 2 enter l b,9000,9000 = 9\n 3001-3500 3 enter l c,9000,9000 = 8\n 3400-3401 1 release l a = 1\n 4000-4001 3 release l c = 1", // who came first is not known
		"2-4500 2 enter l b,9000,9000 = 9\n 3000-3500 3 enter l c,9000,9000 = 8\n 3400-3401 1 release l a = 1\n 4000-4001 3 release l c = 1\n 1000-1500 fault kill",
	}
	// Granted and taken back before its client is told, and then in line again.
	const back = "2-900 2 enter l b,9000,9000 = 9\n 10-11 1 release l a = 1\n 12-13 3 holder l = b\n " +
		"20-30 4 enter l c,9000,9000 = 8\n 40-41 4 release l c = 1\n 50-51 3 holder l = nil\n "
	good = append(good, back+"5-6 fault partition", strings.Replace(back, "9000 = 9", "890 = nil", 1)+"5-6 fault partition")
	// Granted while its node is cut off, which then finds no leader.
	const noLeader = "2-900 2 enter l b,9000,890 failed\n 10-11 1 release l a = 1\n 12-13 3 holder l = b\n " +
		"950-951 3 holder l = nil\n "
	good = append(good, noLeader+"5-6 fault partition")
	expect(t, Line, taken+noLeader, "lock held by the wrong one@4")
	for _, s := range good {
		expect(t, Line, taken+s)
	}
	expect(t, Line, taken+back, "two holders@2")
	expect(t, Line, taken+back+"901-902 3 holder l = c\n 5-6 fault partition", "lock held by the wrong one@8")
	expect(t, Line, taken+"2-3 2 enter l b,100,0 = 9", "two holders@2")
	expect(t, Line, taken+"2-3 2 acquire l b,100 = OK", "two holders@2")
	expect(t, Line, taken+"2-3 1 release l a = 1\n 4-5 2 try l b,100,0 = nil", "refused although free@3")
	expect(t, Line, taken+"2-3 1 renew l a,100 = nil", "lock lost early@2")
	expect(t, Line, taken+"2-?3 1 enter l a,9000,0\n 4-5 1 renew l a,100 = nil", "lock lost early@3") // it was told
	expect(t, Line, taken+"2-?3 1 enter l a,9000,0\n 4-5 2 enter l b,100,0 = 9", "two holders@3")
	expect(t, Line, "0-?1 1 enter l a,9000,0\n 2-3 4 enter l a,9000,0 = 7\n 4-5 2 enter l b,100,0 = 9", "two holders@3") // the first request came late
	expect(t, Line, taken+"2-3 1 try l a,100,0 = 8", "two holders@2")                                                    // another fence: it was lost between
	expect(t, Line, taken+"2-3 1 release l a = 1\n 4-5 2 enter l b,100,0 = 6", "fence not greater@3")                    //
	expect(t, Line, taken+"2-3 1 release l a = 1\n 4-5 2 enter k b,100,0 = 7", "fence not greater@3", "fence not greater@3")
	const waits = taken + "2-4500 2 enter l b,9000,9000 = 9\n "                                                                             // line 2
	expect(t, Line, waits+"3000-3500 3 enter l c,9000,9000 = 8\n 3400-3401 1 release l a = 1\n 4000-4001 3 release l c = 1", "overtaken@3") //
	expect(t, Line, waits+"3400-3401 1 release l a = 1\n 3500-3501 3 acquire l c,9000 = OK\n 4000-4001 3 release l c = 1", "overtaken@4")
	expect(t, Line, waits+"3000-4600 3 enter l c,9000,9000 = 8\n 3400-3401 1 release l a = 1\n 4000-4001 4 release l c = 1", "overtaken@3") // told later
	// Granted, and freed by UNLOCK before its client was told: its wait has ended.
	const leaves = "3000-3500 3 enter l c,9000,9000 = 8\n 3400-3401 1 release l a = 1\n 3402-3403 5 release l b = 1\n " +
		"4000-4001 3 release l c = 1"
	expect(t, Line, taken+"2-3500 2 enter l b,9000,9000 = nil\n "+leaves)
	expect(t, Line, waits+leaves, "overtaken@3")
	expect(t, Line, waits+"3000-3500 3 enter l c,9000,9000 = 8\n 3400-3401 1 release l a = 1\n 3402-3403 5 release l b = 0\n "+
		"4000-4001 3 release l c = 1", "overtaken@3")
	expect(t, Line, waits+"3400-3401 1 release l a = 1\n 3500-3501 3 holder l = nil", "free in spite of a line@4")
	expect(t, Line, taken+"9-10 3 enter l b,9000,9000 = displaced", "displaced by nobody@2")
	expect(t, Line, taken+"8-? 2 enter l b,9000,9000\n 9-10 3 enter l b,9000,9000 = displaced")
	const gone = taken + "2-?3 2 enter l b,9000,9000\n 600-601 3 holder l = a\n 605-606 1 release l a = 1\n " // line 2
	expect(t, Line, gone+"700-701 3 holder l = b")
	expect(t, Line, gone+"2100-2101 3 holder l = b", "held by the dead@5")
	// The answer was on its way when its client went.
	expect(t, Line, taken+"2-?4 2 enter l b,9000,9000\n 2-3 1 release l a = 1\n 2100-2101 3 holder l = b")
	expect(t, Line, gone+"607-608 4 enter l b,9000,9000 = 9\n 2100-2101 3 holder l = b")
}
