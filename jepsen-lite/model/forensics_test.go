package model

import (
	"strings"
	"testing"
)

// told is a complete history of a lock, as LOCKS HISTORY tells it; nothing was forgotten since S.
func told(events ...string) string { return strings.Join(append([]string{"S"}, events...), ",") }

// What one lock went through, and each thing that was told of it.
const (
	g1 = "granted|a|7|LOCK|w1.1||1000|0|500|0"
	r1 = "released|a|7|UNLOCK|w1.3||1100|100|600|1"
	g2 = "granted|b|9|SET|w2.4||1200|0|300|0"
	e2 = "expired|b|9||||1500|300|300|0"
	g3 = "granted|c|12|SET in a script|w3.6||1600|0|400|0"
	f3 = "forced|c|12|LOCKS FORCE|w1.7|hangs|1700|100|400|0"
	g4 = "granted|d|15|LOCK|w2.5||1700|0|500|0"
	d4 = "deleted|d|15|DEL|w1.8||1800|100|500|0"
	u5 = "gave-up|e|0||w3.9||1850|0|0|0"

	lived = "0-1 1 enter l a,500,0,w1.1 = 7\n 2-3 1 renew l a,600,w1.2 = 7\n 4-5 1 release l a,w1.3 = 1\n" + // lines 1 to 3
		"10-11 2 acquire l b,300,w2.4 = OK\n 700-910 2 enter l d,500,900,w2.5 = 15\n" + // lines 4 and 5
		"800-801 3 acquire l c,400,w3.6 = OK\n 900-901 1 force l ,hangs,w1.7 = 1\n" + // lines 6 and 7
		"1000-1001 1 delete l w1.8 = 1\n 1050-1150 3 enter l e,500,100,w3.9 = nil\n" // lines 8 and 9
)

func TestForensics(t *testing.T) {
	all := []string{g1, r1, g2, e2, g3, f3, g4, d4, u5}
	altered := func(i int, from, to string) string {
		some := append([]string(nil), all...)
		if !strings.Contains(some[i], from) {
			t.Fatalf("%s has no %s", some[i], from)
		}
		some[i] = strings.Replace(some[i], from, to, 1)
		return told(some...)
	}
	without := func(i int) string { return told(append(append([]string(nil), all[:i]...), all[i+1:]...)...) }
	swapped := func(i int) string {
		some := append([]string(nil), all...)
		some[i], some[i+1] = some[i+1], some[i]
		return told(some...)
	}
	const ask = "2000-2001 9 history l = "
	good := []string{
		ask + told(all...),
		ask + told(all...) + "\n 2002-2003 8 history l = " + told(all...),
		"1-2 9 history l = " + told(g1) + "\n 500-501 9 history l = " + told(g1, r1, g2) + "\n" + ask + told(all...),
		"0-6 9 history l = S\n" + ask + told(all...),                               // it was asked meanwhile
		"2000-2001 9 history l = T," + strings.Join(all[4:], ","),                  // the first was forgotten
		"2000-2001 9 history l = T," + strings.Join(all[1:], ","),                  // also its grant
		"1-2 9 history l = " + told(g1) + "\n 2000-2001 9 history l = T," + all[8], // and all between
	}
	for _, s := range good {
		expect(t, Forensics, "0-0.5 9 history k = S\n"+lived+s)
	}
	for _, c := range []struct{ story, want string }{
		{ask + without(0), "hole in the history"}, {ask + without(1), "hole in the history"},
		{ask + without(3), "hole in the history"}, {ask + without(6), "hole in the history"},
		{ask + without(7), "history forgot"}, // the last one
		{ask + told(), "history forgot"},
		{ask + altered(3, "expired|b|9|||", "released|b|9|UNLOCK|w2.4|"), "told as something else"},
		{ask + altered(3, "expired|b|9|||", "released|b|9|UNLOCK||"), "nobody did that"},
		{ask + altered(3, "expired", "released"), "nobody did that"},
		{ask + altered(3, "|300|300|", "|250|300|"), "told as something else"},
		{ask + altered(7, "deleted", "released"), "told as something else"},
		{ask + altered(7, "w1.8", "w1.99"), "nobody did that"},
		{ask + altered(5, "hangs", "another"), "told as something else"},
		{ask + altered(5, "forced", "deleted"), "told as something else"},
		{ask + altered(1, "|600|1", "|600|0"), "told as something else"}, // renewals
		{ask + altered(1, "|600|1", "|600|9"), "told as something else"},
		{ask + altered(1, "|600|", "|777|"), "told as something else"},
		{ask + altered(0, "|7|", "|6|"), "told as something else"},
		{ask + altered(0, "|500|", "|501|"), "told as something else"},
		{ask + altered(0, "|a|", "|b|"), "told as something else"},
		{ask + altered(2, "|9|", "|5|"), "fence not greater"},
		{ask + altered(1, "|1100|100|", "|1100|99|"), "told as something else"},
		{ask + swapped(7), "out of order"},
		{ask + told(all...) + "\n 2002-2003 8 history l = " + without(8), "history forgot"},
		{"2000-2010 9 history l = " + told(all...) + "\n 2002-2003 8 history l = " + altered(8, "1850", "1851"), "history differs"},
		{"1-2 9 history l = " + told(g1) + "\n" + ask + without(0), "history forgot"},
		{"2000-2001 9 history l = T," + all[8], ""},
		{"2000-2001 9 history l = T," + all[8] + "\n 3000-3001 9 history l = T," + strings.Join(all[4:], ","), "history forgot"},
	} {
		v := Forensics(story(t, "0-0.5 9 history k = S\n"+lived+c.story))
		var kinds []string
		for _, p := range v.Problems {
			kinds = append(kinds, p.Kind)
		}
		if !strings.Contains(strings.Join(append(kinds, ""), "\n"), c.want) || c.want == "" && len(kinds) > 0 {
			t.Errorf("%q, want %q of\n%s", kinds, c.want, c.story)
		}
	}
}

// A request that was refused is not told, and an event must have a request.
func TestForensicsOfNothing(t *testing.T) {
	const begin = "0-0.5 9 history l = S\n "
	for _, c := range []struct {
		story, event string
		want         []string
	}{
		{"1-2 1 try l a,500,0,w1.1 = nil", g1, []string{"nobody did that@3"}},
		{"1-2 1 enter l a,500,0,w1.1 = displaced", g1, []string{"nobody did that@3"}},
		{"1-2 1 enter l a,500,0,w1.1 failed", g1, []string{"nobody did that@3"}},
		{"1-2 1 enter l a,500,900,w1.1 failed", "gone|a|0||w1.1||1100|0|0|0", nil}, // its node was told to end
		{"1-? 1 enter l a,500,0,w1.1", g1, nil},
		{"1-? 1 enter l a,500,0,w1.1", g1 + ",released|a|7|UNLOCK|||1100|100|500|0", nil}, // taken back
		{"1-2 1 enter l a,500,0,w1.1 = 7", g1 + ",released|a|7|UNLOCK|||1100|100|500|0", []string{"nobody did that@3"}},
		{"1-2 1 enter l a,500,0,w1.1 = 7", g1 + ",moved|a|7|RENAME|w1.1||1100|100|500|0", []string{"told as something else@3"}},
		// Granted, and lost before the leader agreed that its client is told.
		{"1-2 1 enter l a,500,900,w1.1 = nil", g1 + ",released|a|7|UNLOCK|||1100|100|500|0", nil},
		{"1-2 1 enter l a,500,900,w1.1 = nil\n 1-9 2 enter l b,500,900,w2.1 failed",
			g1 + ",gone|b|0||w2.1||1050|0|0|0,released|a|7|UNLOCK|||1100|100|500|0", nil},
		{"1-2 1 enter l a,500,900,w1.1 = nil", g1 + ",expired|a|7||||1500|500|500|0", nil},
		{"1-2 1 enter l a,500,900,w1.1 = nil", g1, []string{"nobody did that@3"}},
		{"1-1500 1 try l a,500,0,w1.1 = nil", g1 + ",expired|a|7||||1500|500|500|0", nil},
		{"1-900 1 try l a,500,0,w1.1 = nil", g1 + ",expired|a|7||||1500|500|500|0",
			[]string{"nobody did that@3", "told as something else@3"}},
		{"1-1500 1 try l a,500,0,w1.1 = 9", g1 + ",expired|a|7||||1500|500|500|0,granted|a|9|LOCK|w1.1||1600|0|500|0", nil},
		{"1-1500 1 try l a,500,0,w1.1 = 9", g1 + ",granted|a|9|LOCK|w1.1||1600|0|500|0",
			[]string{"told as something else@3", "hole in the history@3"}},
		// The node was cut off then, and found no leader.
		{"1-2 1 enter l a,500,900,w1.1 failed", g1 + ",released|a|7|UNLOCK|||1100|100|500|0", nil},
		{"1-2 1 enter l a,500,900,w1.1 failed\n 900-901 2 overwrite l data,100,w2.1 = OK",
			g1 + ",overwritten|a|7|SET|w2.1||1100|100|500|0", nil},
		{"1-2 1 enter l a,500,900,w1.1 failed\n 9000-9001 2 overwrite l data,100,w2.1 = OK",
			g1 + ",overwritten|a|7|SET|w2.1||1100|100|500|0", []string{"nobody did that@4"}},
		{"1-2 1 enter l a,500,900,w1.1 = nil", g1 + ",released|a|7|UNLOCK|||1100|100|501|0",
			[]string{"told as something else@3"}},
		{"1-2 1 enter l a,500,900,w1.1 = nil", g1 + ",released|a|7|UNLOCK|||1100|100|500|2",
			[]string{"told as something else@3"}},
		{"1-2 1 enter l a,500,0,w1.1 = nil", g1 + ",released|a|7|UNLOCK|||1100|100|500|0",
			[]string{"nobody did that@3", "nobody did that@3"}},
		{"1-4 1 enter l a,500,900,w1.1 = 9\n 2-5 2 delete l w2.2 = 1",
			g1 + ",deleted|a|7|DEL|w2.2||1100|100|500|0,granted|a|9|LOCK|w1.1||1200|0|500|0", nil},
		{"1-2 1 enter l a,500,900,w1.1 = 9\n 3-5 2 delete l w2.2 = 1",
			g1 + ",deleted|a|7|DEL|w2.2||1100|100|500|0,granted|a|9|LOCK|w1.1||1200|0|500|0",
			[]string{"told as something else@4", "out of order@4"}},
		{"1-4 1 enter l a,500,900,w1.1 = 9", g1 + ",granted|a|9|LOCK|w1.1||1200|0|500|0",
			[]string{"told as something else@3", "hole in the history@3"}},
		{"1-2 1 enter l a,500,0,w1.1 = nil", "gave-up|a|0||w1.1||1100|0|0|0", nil},
		{"1-2 1 enter l a,500,0,w1.1 = 7", g1 + ",gave-up|a|0||w1.1||1100|0|0|0", []string{"nobody did that@3"}},
		{"1-2 1 enter l a,500,0,w1.1 = nil", "left|a|0||w1.1||1100|0|0|0", []string{"told as something else@3"}},
		{"1-2 1 enter l a,500,0,w1.1 = nil", "refused|a|0||w1.1|no||1100|0|0|0", []string{"told as something else@3"}},
	} {
		expect(t, Forensics, begin+c.story+"\n 10000-10001 9 history l = "+told(c.event), c.want...)
	}
}

// The answer of LOCKS WHY must follow from the history at a moment during the question.
func TestForensicsWhy(t *testing.T) {
	story := func(why string) string {
		return "0-0.5 9 history k = S\n" + lived + why + "\n2000-2001 9 history l = " +
			told(g1, r1, g2, e2, g3, f3, g4, d4, u5)
	}
	for _, c := range []struct {
		why string
		ok  bool
	}{
		{"1500-1501 8 why l a = released,7,,b,9", true},
		{"1500-1501 8 why l b = expired,9,,c,12", true},
		{"1500-1501 8 why l c = forced,12,hangs,d,15", true},
		{"1500-1501 8 why l d = DEL,15,,,", true},
		{"1500-1501 8 why l e = gave-up,,,,", true},
		{"1500-1501 8 why l f = nothing,,,,", true},
		{"1-6 8 why l a = held,7,,,", true},
		{"0-6 8 why l a = nothing,,,,", true},
		{"6-7 8 why l a = released,7,,,", true}, // nobody has it yet
		{"1060-1070 8 why l e = waits,,,,", true},
		{"1500-1501 8 why l a = released,7,,,", false},
		{"1500-1501 8 why l a = released,7,,c,12", false},
		{"1500-1501 8 why l a = released,9,,b,9", false},
		{"1500-1501 8 why l a = held,7,,,", false},
		{"1500-1501 8 why l b = released,9,,c,12", false},
		{"1500-1501 8 why l c = forced,12,x,d,15", false},
		{"1500-1501 8 why l d = nothing,,,,", false},
		{"6-7 8 why l a = held,7,,,", false},
		{"1500-1501 8 why l e = waits,,,,", false},
		{"2-3 8 why l c = forced,12,hangs,d,15", false}, // that was later
	} {
		want := []string{"wrong why@11"}
		if c.ok {
			want = nil
		}
		expect(t, Forensics, story(c.why), want...)
	} // Nobody knows any more.
	expect(t, Forensics, "0-0.5 9 history k = S\n"+lived+"1500-1501 8 why l a = released,7,,b,9\n 2000-2001 9 history l = T")
}

// LOCKS FORCE ends the lock of the holder that it names, and of no other one.
func TestForceNames(t *testing.T) {
	const got, then = "1-2 1 enter l a,500,0,w1.1 = 7\n 4-5 2 force l ", "\n 10-11 9 history l = "
	forced := "forced|a|7|LOCKS FORCE|w2.1|r|1003|3|500|0"
	for _, named := range []string{",r,7,", "a,r,7,", "a,r,,", ",r,,"} {
		expect(t, Forensics, got+named+"w2.1 = 1"+then+told(g1, forced))
	}
	for _, named := range []string{",r,8,", "a,r,6,", "b,r,7,", "b,r,,"} {
		expect(t, Forensics, got+named+"w2.1 = 0"+then+told(g1))
		expect(t, Forensics, got+named+"w2.1 = 1"+then+told(g1, forced), "another one forced@3")
	}
	for _, named := range []string{",r,7,", "a,r,7,", "a,r,,"} {
		expect(t, Forensics, got+named+"w2.1 = 0"+then+told(g1), "forced in vain@2")
	}
	// Its lease had ended, or it came later.
	expect(t, Forensics, got+"a,r,,w2.1 = 0"+then+told(g1, "expired|a|7||||1500|500|500|0"))
	expect(t, Forensics, "1-5 1 enter l a,500,0,w1.1 = 7\n 4-5 2 force l a,r,,w2.1 = 0"+then+told(g1))
}

// A lock that changes hands is lost by one token, and granted to the other one with a greater fence.
func TestForensicsOfHands(t *testing.T) {
	const (
		got   = "0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n "
		hand  = "4-5 1 hand l c,600,a,w1.2 = OK\n "
		over  = "overwritten|a|7|SET|w1.2||1003|3|500|0"
		grant = "granted|c|9|SET|w1.2||1003|0|600|0"
		then  = "10-11 9 history l = "
	)
	expect(t, Forensics, got+hand+then+told(g1, over, grant))
	expect(t, Forensics, got+hand+then+told(g1, over), "handed to nobody@3")
	expect(t, Forensics, got+hand+then+told(g1, over, strings.Replace(grant, "|9|", "|7|", 1)), "fence not greater@4")
	expect(t, Forensics, got+hand+then+told(g1, over, strings.Replace(grant, "|600|", "|500|", 1)), "told as something else@4")
	expect(t, Forensics, got+hand+then+told(g1), "history forgot@4", "handed to nobody@3")
	expect(t, Forensics, got+strings.Replace(hand, "OK", "nil", 1)+then+told(g1, over, grant), "nobody did that@4", "nobody did that@4")
	expect(t, Forensics, got+strings.Replace(hand, "= OK", "failed", 1)+then+told(g1))
	expect(t, Forensics, got+hand+"6-7 1 fence l = c,9\n "+then+told(g1, over, grant))
	expect(t, Forensics, got+hand+"6-7 1 fence l = c,7\n "+then+told(g1, over, grant), "another fence@4")
	expect(t, Forensics, got+hand+"6-7 1 fence l = data,11\n "+then+told(g1, over, grant))
}

// What ends all locks of a database is told once, for that database, without a key.
func TestToldOfWholeDatabases(t *testing.T) {
	const ends = "0-1 5 listen __lock@*__: = OK\n 2-3 1 end-all 3 w1.1,FLUSHDB, = OK\n 4-5 1 end-all 3 w1.2,SWAPDB,4 = OK\n "
	const m, late = "5 message __lock@*__: = ", "\n 20000-20001 1 renew l a,9,w1.9 = nil"
	expect(t, Told, ends+"6-7 "+m+"w1.1|3|flushed\n 6-7 "+m+"w1.2|3|swapped\n 6-7 "+m+"w1.2|4|swapped"+late)
	expect(t, Told, ends+"6-7 "+m+"w1.2|3|swapped"+late, "missed@2")
	expect(t, Told, ends+"6-7 "+m+"w1.1|3|flushed"+late, "not told@3")
	expect(t, Told, ends+"6-7 "+m+"w1.1|3|flushed\n 8-9 5 cut __lock@*__: ="+late)
	expect(t, Told, ends+"6-7 "+m+"w1.1|3|flushed\n 2600-2601 "+m+"w1.2|3|swapped"+late, "told late@5")
	for _, wrong := range []string{"w1.1|4|flushed", "w1.1|3|swapped", "w1.1|3|flushed|key", "w1.9|3|flushed", "nonsense"} {
		expect(t, Told, ends+"6-7 "+m+wrong+"\n 8-9 5 cut __lock@*__: ="+late, "another end told@4")
	}
	expect(t, Told, "0-1 5 listen __lock@*__: = OK\n 2-3 1 end-all 3 w1.1,FLUSHDB, failed\n 4-5 "+m+"w1.1|3|flushed", "another end told@3")
}

// What is told of a lock as it happens is what LOCKS HISTORY tells later.
func TestTold(t *testing.T) {
	const (
		hears  = "0-1 5 listen e* = OK\n 2-3 1 enter l a,500,0,w1.1 = 7\n 4-5 2 force l ,r,,w2.1 = 1\n "
		ev     = "5 message e* = l "
		forced = "forced|a|7|LOCKS FORCE|w2.1|r|1003|3|500|0"
		left   = "left|b|0|UNLOCK|w3.1||1001|0|0|0"
	)
	then := "\n 20000-20001 9 history l = " + told(g1, left, forced)
	expect(t, Told, hears+"6-7 "+ev+g1+"\n 8-9 "+ev+left+"\n 10-11 "+ev+forced+then)
	expect(t, Told, hears+"6-7 "+ev+g1+"\n 10-11 "+ev+forced+then, "missed@5")
	expect(t, Told, hears+"6-7 "+ev+forced+"\n 10-11 "+ev+g1+then, "order differs@5")
	expect(t, Told, hears+"6-7 "+ev+g1+"\n 8-9 "+ev+g1+"\n 9-10 "+ev+left+"\n 10-11 "+ev+forced+then, "heard twice@5")
	expect(t, Told, hears+"6-7 "+ev+g1+then, "not told@3")
	expect(t, Told, hears+"6-7 "+ev+g1+"\n 8-9 5 cut e* ="+then)
	expect(t, Told, hears+"6-7 "+ev+g1+"\n 8-9 "+ev+left+"\n 10-11 "+ev+strings.Replace(forced, "|3|", "|4|", 1)+then,
		"told of nothing@6", "not told@3")

	const holds = "0-1 1 hello l = OK\n 2-3 1 enter l a,300,0,w1.1 = 7\n "
	after := func(events ...string) string {
		return "9000-9001 1 cut l =\n 20000-20001 9 history l = " + told(append([]string{strings.Replace(g1, "500", "300", 1)}, events...)...)
	}
	f, e := strings.Replace(forced, "500", "300", 1), "expired|a|7||||1300|300|300|0"
	const force = "4-5 2 force l ,r,,w2.1 = 1\n "
	expect(t, Told, holds+force+"6-7 1 lost l = a,7,forced\n "+after(f))
	expect(t, Told, holds+force+"6-7 1 lost l = a,7,deleted\n "+after(f), "another loss told@4")
	expect(t, Told, holds+force+"6-7 1 lost l = a,8,forced\n "+after(f), "told of no loss@4", "loss not told@2")
	expect(t, Told, holds+"6-7 1 lost l = a,7,forced\n "+after(), "told of no loss@3")
	expect(t, Told, holds+"3-3.5 1 lost l = a,7,forced\n "+force+after(f), "told of no loss@3", "loss not told@2")
	expect(t, Told, holds+force+strings.Replace(after(f), "9000-9001", "2000-2001", 1))
	expect(t, Told, holds+"220-221 1 expiring l = a,7,98\n 310-311 1 lost l = a,7,expired\n "+after(e))
	expect(t, Told, holds+"310-311 1 lost l = a,7,expired\n "+after(e), "end not announced@3")
	expect(t, Told, holds+"310-311 1 lost l = a,7,expired\n 320-321 1 expiring l = a,7,0\n "+after(e), "announced after the end@4")
	expect(t, Told, holds+"220-221 1 expiring l = a,7,98\n 230-231 1 expiring l = a,7,88\n 310-311 1 lost l = a,7,expired\n "+after(e),
		"end announced twice@4")
	expect(t, Told, holds+"220-221 1 expiring l = a,7,98\n "+after(e), "loss not told@2")
	// Another connection has taken the lock, too.
	const also = "0-1 3 hello l = OK\n 5-5.5 3 enter l a,310,0,w1.2 = 7\n "
	expect(t, Told, holds+also+"6-7 2 force l ,r,,w2.1 = 1\n 8-9 1 lost l = a,7,forced\n 8-9 3 lost l = a,7,forced\n "+after(f))
	expect(t, Told, holds+also+"6-7 2 force l ,r,,w2.1 = 1\n 8-9 1 lost l = a,7,forced\n "+after(f), "loss not told to each@4")
	// The connection has forgotten the lock.
	expect(t, Told, holds+"3-4 1 forgot l =\n "+force+after(f))
	expect(t, Told, holds+"3-4 1 forgot l =\n "+force+"6-7 1 lost l = a,7,forced\n "+after(f), "forgotten lock told@5")
	expect(t, Told, holds+"3-4 1 forgot l =\n 220-221 1 expiring l = a,7,98\n "+after(e), "forgotten lock told@4")
	// It was granted before, lost, and granted again, before the answer: nothing is told of the grant before.
	before := strings.Replace(g1, "|7|LOCK|w1.1||1000|0|500", "|6|LOCK|w1.1||900|0|300", 1)
	lostBefore := "forced|a|6|LOCKS FORCE|w2.1|r|950|50|300|0"
	again := "0-1 1 hello l = OK\n 2-300 1 enter l a,300,900,w1.1 = 7\n " + force + "301-302 1 lost l = a,6,forced\n " +
		"9000-9001 1 cut l =\n 20000-20001 9 history l = "
	regot := strings.Replace(g1, "500", "300", 1)
	expect(t, Told, again+told(before, lostBefore, regot), "told of no loss@4")
	expect(t, Told, again+told(regot), "told of no loss@4")
	released := "released|a|7|UNLOCK|w2.2||1003|3|300|0"
	const release = "4-5 2 release l a,w2.2 = 1\n "
	expect(t, Told, holds+release+after(released))
	expect(t, Told, holds+release+"6-7 1 lost l = a,7,released\n "+after(released), "told of no loss@4")
	released = strings.Replace(released, "UNLOCK", "DEL in a script", 1)
	expect(t, Told, holds+release+"6-7 1 lost l = a,7,released\n "+after(released))
	expect(t, Told, holds+release+after(released), "loss not told@2")
}
