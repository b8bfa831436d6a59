package model

import (
	"fmt"
	"testing"
)

// sights are glances of another client at a key that is not there, one each 100 ms, by a
// log clock that was 0 at the beginning. They come after the lines of a story.
func sights(from, to int) string {
	s := ""
	for at := from; at < to; at += 100 {
		s += fmt.Sprintf("\n%d-%d 9 observe other = 0,-2,nil,%d", at, at+2, at+1)
	}
	return s
}

// A lease ends exactly when the log clock says so.
func TestLeases(t *testing.T) {
	const key = "0-4 1 grant k v,100 = 1,100,v,1002\n " // until 1102 of the log clock
	good := []string{
		key + "98-104 2 observe k = 1,0,v,1102\n 101-105 2 observe k = 0,-2,nil,1103\n 105-106 3 glance k = 0,-2,nil,1105",
		key + "90-104 2 glance k = 1,0,v,1103",                                                       // nothing of the log has said so
		key + "103-105 2 glance k = 1,0,v,1105\n 106-107 2 get k = v\n 108-109 2 pttl k = 0",         // for as long as that
		key + "50-51 fault transfer\n 5000-5001 2 observe k = 1,1,v,1101\n 5300-5301 2 get k = v",    // its time stands still while nobody leads
		key + "50-52 2 pttl k = 51\n 54-55 2 pttl k = 48\n 99-100 2 get k = v\n 102-103 2 get k = v", // by what the clock may have been
		key + "50-51 2 pttl k = 54\n 60-61 2 observe q = 0,-2,nil,1060",
		key + "95-102 2 exists k = 0",
		"0-4 1 set k v,100 = OK\n 5-6 2 observe k = 1,97,v,1000\n 20-21 2 observe k = 1,82,v,1015\n 99-105 2 observe k = 0,-2,nil,1098",
		"0-4 1 set k v,100 = OK\n 50-51 1 get k = nil\n 60-61 1 get k = v", // nothing is known of the clock, and no more is promised
		"0-? 1 grant k v,100\n 5-6 2 observe k = 0,-2,nil,1000",
	}
	for _, s := range good {
		expect(t, Leases, s)
	}
	expect(t, Leases, "0-4 1 grant k v,100 = 1,150,v,1002", "wrong remaining time@1")
	expect(t, Leases, "0-4 1 grant k v,100 = 1,101,v,1002", "wrong remaining time@1")
	expect(t, Leases, "0-4 1 grant k v,100 = 0,-2,nil,1002", "ended early@1")
	expect(t, Leases, key+"50-52 2 observe k = 1,51,v,1050", "wrong remaining time@2") // 52
	expect(t, Leases, key+"50-52 2 observe k = 1,53,v,1050", "wrong remaining time@2")
	expect(t, Leases, key+"50-52 2 glance k = 1,53,v,1050", "wrong remaining time@2")
	expect(t, Leases, key+"50-52 2 glance k = 1,0,v,1050", "wrong remaining time@2")
	expect(t, Leases, key+"50-52 2 observe k = 1,-1,v,1050", "wrong remaining time@2")
	expect(t, Leases, key+"97-104 2 observe k = 0,-2,nil,1102", "ended early@2")
	expect(t, Leases, key+"97-104 2 glance k = 0,-2,nil,1102", "ended early@2")
	expect(t, Leases, key+"99-104 2 observe k = 1,0,v,1103", "ended late@2")
	expect(t, Leases, key+"50-51 fault transfer\n 5000-5001 2 observe k = 1,0,v,1103", "ended late@3") // whatever is broken
	expect(t, Leases, key+"50-51 fault kill\n 5000-5001 2 observe k = 1,400,v,1101", "wrong remaining time@3")
	expect(t, Leases, key+"50-52 2 observe k = 1,52,w,1050", "wrong value@2")
	expect(t, Leases, key+"50-52 2 observe k = 1,-2,v,1050", "half a key@2")
	expect(t, Leases, key+"50-52 2 observe k = 1,52,nil,1050", "half a key@2")
	expect(t, Leases, key+"50-52 2 observe k = 0,52,v,1050", "half a key@2")

	// Other looks, between two sights of the clock.
	expect(t, Leases, key+"95-96 2 get k = nil", "ended early@2")                                              // it was 1099 at most
	expect(t, Leases, key+"95-96 2 exists k = 0", "ended early@2")                                             //
	expect(t, Leases, key+"95-96 2 pttl k = -2", "ended early@2")                                              //
	expect(t, Leases, key+"50-51 2 pttl k = 40", "wrong remaining time@2")                                     // 1051 at most
	expect(t, Leases, key+"50-51 2 pttl k = 57\n 60-61 2 observe q = 0,-2,nil,1060", "wrong remaining time@2") // and 1048 at least
	expect(t, Leases, key+"100-105 2 observe q = 0,-2,nil,1103\n 106-107 2 get k = v", "ended late@3")
	expect(t, Leases, key+"100-105 2 observe q = 0,-2,nil,1103\n 106-107 3 exists k = 1", "ended late@3")
	expect(t, Leases, key+"100-105 2 observe q = 0,-2,nil,1103\n 106-107 3 pttl k = 0", "ended late@3")
	expect(t, Leases, key+"100-105 2 observe q = 0,-2,nil,1103\n 106-107 3 glance k = 1,0,v,1107", "ended late@3")
	// Of a plain SET the first look tells the deadline.
	const set = "0-1 9 observe q = 0,-2,nil,1000\n 2-5 1 set k v,100 = OK\n "
	expect(t, Leases, set+"8-9 2 observe k = 1,80,v,1008", "wrong remaining time@3")
	expect(t, Leases, set+"8-9 2 observe k = 1,110,v,1008", "wrong remaining time@3")
	expect(t, Leases, set+"8-9 2 observe k = 1,94,v,1008\n 10-11 2 observe k = 1,93,v,1010", "wrong remaining time@4")
	expect(t, Leases, set+"97-98 2 observe k = 0,-2,nil,1097", "ended early@3")
	expect(t, Leases, set+"107-108 2 observe k = 1,0,v,1107", "ended late@3")
}

// The log clock runs like real time while somebody leads, and never faster.
func TestLogClock(t *testing.T) {
	const other = "observe q = 0,-2,nil,"
	good := []string{
		"0-2 1 " + other + "1001\n 10-12 2 " + other + "1011\n 50-60 2 " + other + "1049",
		"0-2 1 " + other + "1000\n 0-3 2 " + other + "1003\n 2-4 1 " + other + "1002",                    // side by side; a whole millisecond
		"0-2 1 " + other + "1001\n 1000-1002 1 " + other + "1101",                                        // nobody led, as far as is known
		"0-2 1 glance q = 0,-2,nil,1001\n 3-4 1 glance q = 0,-2,nil,980",                                 // a new leader counts from the last entry
		"0-2 1 " + other + "1\n 1600-1602 1 " + other + "102" + sights(0, 100),                           //
		"10-12 1 " + other + "11\n 240-242 1 " + other + "211" + sights(0, 200),                          // it may have lost 30 ms
		"10-12 1 " + other + "11\n 150-151 fault transfer\n 900-902 1 " + other + "701" + sights(0, 700), // or more
		"0-1 1@n1 reign r = 2\n 10-12 1@n1 " + other + "11\n 13-14 1@n1 reign r = 2\n 30-32 1@n1 " + other + "30\n 33-34 1@n1 reign r = 2",
		"0-1 1@n1 reign r = 2\n 10-12 1@n1 " + other + "11\n 13-14 1@n1 reign r = 2\n 30-32 1@n1 " + other + "20\n 33-34 1@n1 reign r = 3\n 40-42 1@n1 " + other + "25\n 43-44 1@n1 reign r = 3", // deposed meanwhile
		"0-1 1@n1 reign r = 2\n 10-12 1@n1 " + other + "11\n 13-14 1@n1 reign r = 2\n 30-32 1@n2 " + other + "20\n 33-34 1@n1 reign r = 2",                                                       // asked elsewhere
		"0-1 1@n1 reign r = 2\n 10-12 1@n1 " + other + "11\n 13-14 1@n1 reign r = 2\n 20-21 2@n1 reign r = 3\n 30-32 2@n1 " + other + "20\n 33-34 2@n1 reign r = 3",
		"0-1 1@n1 reign r = nil\n 10-12 1@n1 " + other + "11\n 13-14 1@n1 reign r = nil\n 30-32 1@n1 " + other + "20\n 33-34 1@n1 reign r = nil",
		"0-100 dark\n 200-202 1 " + other + "50\n 300-302 1 " + other + "151",
		"0-2 1 " + other + "1001\n 100-4000 dark\n 4400-4402 1 " + other + "1503",
	}
	for _, s := range good {
		expect(t, Leases, s)
	}
	expect(t, Leases, "0-2 1 "+other+"1001\n 3-4 1 "+other+"1000", "log clock went back@2")
	expect(t, Leases, "0-2 1 "+other+"1001\n 3-4 1 glance q = 0,-2,nil,1000", "log clock went back@2")
	expect(t, Leases, "0-2 1 "+other+"1001\n 400-402 1 "+other+"1405", "log clock fast@2")
	expect(t, Leases, "0-2 1 glance q = 0,-2,nil,1001\n 400-402 1 glance q = 0,-2,nil,1405", "log clock fast@2")
	expect(t, Leases, "0-2 1 "+other+"1001\n 10-20 fault clock\n 400-402 1 "+other+"1405", "log clock fast@3")
	expect(t, Leases, "0-2 1 "+other+"1001\n 100-4000 dark\n 4400-4402 1 "+other+"1600", "log clock fast@3") // nobody led for 3.9 s
	expect(t, Leases, "10-12 1 "+other+"11\n 240-242 1 "+other+"201"+sights(0, 200), "log clock lost time@2")
	expect(t, Leases, "1010-1012 1 "+other+"11\n 1240-1242 1 "+other+"201"+beats(1000, 1300), "log clock lost time@2") // it had lost some before
	// Of one reign a millisecond is known.
	const led = "0-1 1@n1 reign r = 2\n 10-12 1@n1 " + other + "11\n 13-14 1@n1 reign r = 2\n "
	expect(t, Leases, led+"30-32 1@n1 "+other+"27\n 33-34 1@n1 reign r = 2", "log clock slow@4")
	expect(t, Leases, led+"20-21 2@n1 reign r = 2\n 30-32 2@n1 "+other+"20\n 33-34 2@n1 reign r = 2", "log clock slow@5")
	expect(t, Leases, led+"20-21 fault transfer\n 30-32 1@n1 "+other+"20\n 33-34 1@n1 reign r = 2", "log clock slow@5")
	expect(t, Leases, led+"30-32 1@n1 glance q = 0,-2,nil,20\n 33-34 1@n1 reign r = 2", "log clock slow@4")
}

// What the log clock lost without a reign may be the machine's fault; all else is not.
func TestLeasesOfSafety(t *testing.T) {
	for text, fine := range map[string]bool{
		"10-12 1 observe q = 0,-2,nil,11\n 240-242 1 observe q = 0,-2,nil,201" + sights(0, 200): true,
		"0-2 1 observe q = 0,-2,nil,1001\n 3-4 1 observe q = 0,-2,nil,1000":                     false,
		"0-4 1 grant k v,100 = 1,101,v,1002":                                                    false,
	} {
		v := Leases(story(t, text))
		if v.OK() {
			t.Fatalf("nothing is wrong with %q", text)
		}
		if v.SafetyOnly(); v.OK() != fine {
			t.Errorf("%q: problems %v, not judged %v", text, v.Problems, v.NotJudged)
		}
	}
}
