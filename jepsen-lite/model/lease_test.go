package model

import (
	"fmt"
	"testing"
)

// sights are looks of another client at an absent key, every 100 ms, with a log clock that was 0 at the beginning. They
// come after the lines of a story.
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

// The log clock runs like real time while a node leads, and never faster.
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
		"10-12 1 " + other + "11\n 150-151 fault point kill at vote.write [n1]\n 240-242 1 " + other + "201" + sights(0, 200),
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
	expect(t, Leases, "10-12 1 "+other+"11\n 150-151 fault point kill at log.write [n1]\n 240-242 1 "+other+"201"+sights(0, 200), "log clock lost time@3")
	// A leader whose disk hangs hands over.
	expect(t, Leases, "10-12 1 "+other+"11\n 150-151 fault stall log.sync stalls 3s [n1]\n 240-242 1 "+other+"201"+sights(0, 200))
	expect(t, Leases, "1010-1012 1 "+other+"11\n 1240-1242 1 "+other+"201"+beats(1000, 1300), "log clock lost time@2") // it had lost some before
	// Of one reign a millisecond is known.
	const led = "0-1 1@n1 reign r = 2\n 10-12 1@n1 " + other + "11\n 13-14 1@n1 reign r = 2\n "
	expect(t, Leases, led+"30-32 1@n1 "+other+"27\n 33-34 1@n1 reign r = 2", "log clock slow@4")
	expect(t, Leases, led+"20-21 2@n1 reign r = 2\n 30-32 2@n1 "+other+"20\n 33-34 2@n1 reign r = 2", "log clock slow@5")
	expect(t, Leases, led+"20-21 fault transfer\n 30-32 1@n1 "+other+"20\n 33-34 1@n1 reign r = 2", "log clock slow@5")
	expect(t, Leases, led+"30-32 1@n1 glance q = 0,-2,nil,20\n 33-34 1@n1 reign r = 2", "log clock slow@4")
}

// Judged for safety, time that the log clock lost outside a known reign may be the machine's fault, and is no problem;
// everything else is.
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

// Locks are judged by the log clock to the millisecond, as far as scripts tell it, during faults, too. Each of these
// histories breaks one rule at one point.
func TestExactLocks(t *testing.T) {
	const key = "0-4 1 acquire l a,100 = OK,100,a,1002\n " // until 1102 of the log clock
	good := []string{
		key + "98-104 2 acquire l b,100 = nil,0,a,1102\n 101-105 2 acquire l b,100 = OK,100,b,1103",
		key + "98-104 1 release l a = 1,-2,nil,1102\n 105-106 2 holder l = nil",
		key + "50-52 1 renew l a,300 = 1,300,a,1051\n 352-353 2 acquire l b,9 = nil,0,a,1351\n 354-355 2 holder l = nil,-2,nil,1354",
		key + "50-51 fault transfer\n 5000-5001 2 acquire l b,9 = nil,1,a,1101\n 5002-5003 2 holder l = a", // nobody led meanwhile
		key + "90-104 2 holder l = a,0,a,1103",                                                             // nothing of the log has said so
		key + "50-? 1 renew l a,100\n 140-141 2 acquire l b,9 = nil,9,a,1141\n 150-151 1 release l a = 1,-2,nil,1150",
		key + "50-? 1 release l a\n 60-61 2 acquire l b,9 = OK,9,b,1060\n 70-71 1 release l a = 0,-2,nil,1070",
		"0-? 1 acquire l a,100\n 50-51 2 acquire l b,100 = nil,52,a,1050\n 102-103 2 acquire l b,100 = OK,100,b,1103", // done between
		"0-1 9 holder q = nil,-2,nil,1000\n 2-5 1 acquire l a,100 = OK\n 5-6 2 acquire l b,9 = nil,97,a,1006\n 110-111 2 holder l = nil",
		key + "10-60 1 release l a = 1,-2,nil,1010\n 30-31 2 acquire l b,9 = nil\n 40-41 2 holder q = nil,-2,nil,1040", // refused by a read, before that was applied
		"0-4 1 acquire l a,100 = OK\n 500-501 1 release l a = 1",                                                       // nothing is known of the log clock
		"0-4 1 acquire l a,100 = OK,100,a,-5000\n 5-6 2 acquire l b,9 = nil,98,a,-4998",
	}
	for _, s := range good {
		expect(t, Lock, s)
	}
	expect(t, Lock, "0-4 1 acquire l a,100 = OK,101,a,1002", "wrong remaining time@1")
	expect(t, Lock, "0-4 1 acquire l a,100 = OK,99,a,1002", "wrong remaining time@1")
	expect(t, Lock, "0-4 1 acquire l a,100 = OK,-1,a,1002", "wrong remaining time@1")
	expect(t, Lock, "0-4 1 acquire l a,100 = OK,-2,a,1002", "wrong remaining time@1")
	expect(t, Lock, "0-4 1 acquire l a,100 = OK,100,b,1002", "lock held by the wrong one@1")
	expect(t, Lock, key+"50-51 2 acquire l b,100 = nil,51,a,1050", "wrong remaining time@2") // 52
	expect(t, Lock, key+"50-51 2 holder l = a,53,a,1050", "wrong remaining time@2")
	expect(t, Lock, key+"50-51 fault kill\n 5000-5001 2 holder l = a,400,a,1101", "wrong remaining time@3")
	expect(t, Lock, "0-1 9 holder q = nil,-2,nil,1000\n 2-20 1 acquire l a,100 = OK\n 10-12 2 acquire l b,9 = nil,400,a,1011",
		"wrong remaining time@2") // what the other one tells
	expect(t, Lock, key+"50-51 2 acquire l b,100 = nil,52,c,1050", "lock held by the wrong one@2")
	expect(t, Lock, key+"50-51 1 release l a = 1,52,a,1050", "lock held by the wrong one@2") // it is free
	expect(t, Lock, key+"50-52 1 renew l a,300 = 1,52,a,1050", "wrong remaining time@2")
	expect(t, Lock, key+"50-? 1 renew l a,100\n 140-141 2 acquire l b,9 = nil,62,a,1141", "wrong remaining time@3") // it was renewed until 1102
	// Early: nobody can have led for so long, and by the log clock the lease had not ended.
	const away = key + "10-20 fault pause\n "
	expect(t, Lock, away+"5000-5001 2 acquire l b,100 = OK,100,b,1102", "ended early@3")
	expect(t, Lock, away+"5000-5001 2 holder l = nil,-2,nil,1102", "ended early@3")
	expect(t, Lock, away+"5000-5001 1 release l a = 0,-2,nil,1102", "ended early@3")
	expect(t, Lock, away+"5000-5001 1 renew l a,9 = 0,-2,nil,1102", "ended early@3")
	expect(t, Lock, away+"5000-5001 2 holder q = nil,-2,nil,1050\n 5010-5011 2 holder l = nil", "ended early@4") // by what the clock may have been
	expect(t, Lock, key+"50-? 1 renew l a,100\n 5000-5001 2 acquire l b,9 = OK,9,b,1102", "ended early@3")
	// Late: whatever was broken meanwhile.
	expect(t, Lock, away+"101-102 2 acquire l b,100 = nil,0,a,1103", "ended late@3")
	expect(t, Lock, away+"101-102 1 release l a = 1,-2,nil,1103", "ended late@3")
	expect(t, Lock, away+"101-102 1 renew l a,9 = 1,9,a,1103", "ended late@3")
	expect(t, Lock, away+"101-102 2 release q x = 0,-2,nil,1103\n 103-104 2 holder l = a", "ended late@4")
	expect(t, Lock, away+"101-102 2 release q x = 0,-2,nil,1103\n 103-104 2 acquire l b,9 = nil", "ended late@4")
	expect(t, Lock, away+"101-102 2 release q x = 0,-2,nil,1103\n 103-104 2 fence l x = 7", "ended late@4")
	expect(t, Lock, key+"50-51 1 renew l a,9 = 1,9,a,1050\n 60-61 2 acquire l b,9 = nil,0,a,1060", "ended late@3") // a renewal may shorten
	expect(t, Lock, key+"50-51 1 release l a = 1\n 60-61 2 acquire l b,9 = OK,9,b,1060\n 70-71 1 acquire l c,9 = nil,0,b,1070", "ended late@4")
	expect(t, Lock, key+"10-60 1 release l a = 1,-2,nil,1010\n 30-31 3 renew l a,9 = 1\n 40-41 2 holder q = nil,-2,nil,1040", "ended late@2") // what is written later is later in the log
	// What breaks a rule of real time, too, has its name.
	expect(t, Lock, key+"50-51 2 acquire l b,100 = OK,100,b,1050", "two holders@2")
	expect(t, Lock, key+"50-51 1 release l a = 1,-2,nil,1050\n 52-53 2 acquire l b,9 = nil,50,a,1052", "refused although free@3")
	// The log clock itself is judged; if it cannot be trusted, leases are judged by real time.
	expect(t, Lock, key+"5-6 2 holder q = nil,-2,nil,1001", "log clock went back@2")
	expect(t, Lock, key+"50-51 2 acquire l b,9 = nil,0,a,1103", "log clock fast@2")
	expect(t, Lock, "0-1 1@n1 reign r = 2\n 2-3 1@n1 release q x = 0,-2,nil,1003\n 40-41 1@n1 release q x = 0,-2,nil,1030\n"+
		"42-43 1@n1 reign r = 2", "log clock slow@3")
}

// The same holds for Redisson's locks, and for locks whose waiters are told the remaining time.
func TestExactLocksOfOthers(t *testing.T) {
	const locked = "0-4 1 lock l a,100 = nil,100,a,1002\n 10-11 1 lock l a,200 = nil,200,a,1010\n " // until 1210
	good := []string{
		locked + "208-211 2 lock l b,9 = held,0,a,1210\n 212-213 2 lock l b,9 = nil,9,b,1212",
		locked + "50-51 1 unlock l a,300 = 0,300,a,1050\n 340-341 1 count l a,1 = 1,10,a,1340\n 342-343 1 unlock l a,9 = 1,-2,nil,1342",
		locked + "50-51 2 unlock l b,300 = nil,160,a,1050\n 60-61 1 renew l a,500 = 1,500,a,1060\n 500-501 1 count l a,1 = 2",
	}
	for _, s := range good {
		expect(t, Reentrant, s)
	}
	expect(t, Reentrant, locked+"50-51 2 lock l b,9 = held,161,a,1050", "wrong remaining time@3")
	expect(t, Reentrant, locked+"50-51 1 unlock l a,300 = 0,160,a,1050", "wrong remaining time@3") // one level less renews
	expect(t, Reentrant, locked+"50-51 2 lock l b,9 = held,160,b,1050", "lock held by the wrong one@3")
	expect(t, Reentrant, locked+"209-212 2 lock l b,9 = nil,9,b,1210", "ended early@3")
	expect(t, Reentrant, locked+"209-212 1 unlock l a,9 = nil,-2,nil,1210", "ended early@3")
	expect(t, Reentrant, locked+"209-212 2 lock l b,9 = held,0,a,1211", "ended late@3")
	expect(t, Reentrant, locked+"209-212 1 unlock l a,9 = 0,9,a,1211", "ended late@3")
	expect(t, Reentrant, locked+"209-210 2 renew q b,9 = 0,-2,nil,1211\n 211-212 1 count l a,1 = 2", "ended late@4")
	expect(t, Reentrant, locked+"50-51 1 count l a,1 = 3,160,a,1050", "reentrant lock@3")
	expect(t, Reentrant, locked+"12-13 2 renew q b,9 = 0,-2,nil,1009", "log clock went back@3")

	const taken = "0-4 1 acquire l a,1000 = OK,1000,a,1002\n "
	expect(t, Waiters, taken+"10-11 2 acquire l b,9 = nil,992,a,1010\n 12-13 3 wait l 992,a = woken\n 11-12 1 release l a = 1,-2,nil,1012")
	expect(t, Waiters, taken+"10-11 2 acquire l b,9 = nil,991,a,1010", "wrong remaining time@2")
	expect(t, Waiters, taken+"1000-1001 2 acquire l b,9 = nil,0,a,2005", "log clock fast@2")
	expect(t, Waiters, taken+"1001-1002 2 acquire l b,9 = nil,0,a,2003", "ended late@2")
	expect(t, Waiters, taken+"1001-1002 2 acquire l b,9 = OK,9,b,2002", "ended early@2")
}
