package model

import (
	"strings"
	"testing"
)

// A released lock goes to a living client, within a second and a half after the node of the first waiter is known to be
// silent. A client whose node returns in time keeps its place.
func TestSuccessions(t *testing.T) {
	const (
		taken    = "0-1 1@n1 try succession h,30000,0 = 1\n "
		released = "5000-5001 1@n1 release succession h = 1\n 20000-20001 1@n1 set x = OK\n "
		first    = " 2@n2 enter succession a,8000,16000" // line 4
		second   = " 3@n3 enter succession b,8000,16000" // line 5
		dead     = "\n 3000-19000 died n2\n 3000-3001 fault kill"
		silent   = "\n 3000-19000 away n2\n 3000-19000 fault pause"
		briefly  = "\n 2000-3000 away n2\n 2000-3000 fault pause"
	)
	story := func(a, b string) string { return taken + released + a + "\n " + b }
	check := onThree(Line)
	expect(t, check, story("10-?3001"+first, "600-6000"+second+" = 3"+dead))
	expect(t, check, story("10-?3001"+first, "600-9000"+second+" = 3"+dead), "left to a ghost@5")
	expect(t, check, story("10-?3001"+first, "600-16600"+second+" = nil"+dead), "left to a ghost@5")
	expect(t, check, story("10-?3001"+first, "600-3500"+second+" failed"+dead)) // it has left the line, too
	expect(t, check, story("10-?16010"+first, "600-6000"+second+" = 3"+silent))
	expect(t, check, story("10-?16010"+first, "600-9000"+second+" = 3"+silent), "left to a ghost@5")
	expect(t, check, story("10-?4990"+first+" gone", "600-6000"+second+" = 3"))
	expect(t, check, story("10-?4990"+first+" gone", "600-9000"+second+" = 3"), "left to one who hung up@5")
	expect(t, check, story("10-5002"+first+" = 2", "600-5012"+second+" = 3\n 5010-5011 2@n2 release succession a = 1"+briefly))
	expect(t, check, story("10-5012"+first+" = 3", "600-5002"+second+" = 2\n 5010-5011 3@n3 release succession b = 1"+briefly),
		"place lost@5")

	// It keeps no place in a second silence.
	again := briefly + "\n 4200-9000 away n2\n 4200-9000 fault pause"
	expect(t, check, story("10-9012"+first+" = 3", "600-5002"+second+" = 2\n 5010-5011 3@n3 release succession b = 1"+again))
}

// A kept promise counts as tested, even if the history ends soon after it.
func TestKeptPromiseCounts(t *testing.T) {
	const watch = "0-1 1@n1 try succession h,30000,0 = 1\n 10-?4990 2@n2 enter succession a,8000,16000 gone\n " +
		"600-5010 3@n3 enter succession b,8000,16000 = 3\n 5000-5001 1@n1 release succession h = 1\n 5011-5012 1@n1 set x = OK"
	v := onThree(Line)(story(t, watch))
	if !v.OK() || v.AtStake[ruleHungUp.ID] != 1 {
		t.Errorf("%v, undecided %q, at stake %v", v.Problems, v.Undecided, v.AtStake)
	}
}

// An answer to a waiter is not older than a second and a half.
func TestGrantedTooLate(t *testing.T) {
	const waits = "0-1 1@n1 try l h,30000,0 = 1\n 10-9000 2@n2 enter l a,3000,16000 = 2\n 3000-9000 away n2\n 3000-9000 fault pause\n " +
		"4000-4001 1@n1 release l h = 1\n "
	check := onThree(Line)
	expect(t, check, waits+"4100-7000 3@n3 enter l b,3000,9000 = 3", "granted too late@2")
	expect(t, check, waits+"4100-8000 3@n3 enter l b,3000,9000 = 3")
	expect(t, check, waits+"9001-9002 2@n2 release l a = 0", "granted too late@2")
	expect(t, check, waits+"9001-9002 2@n2 release l a = 1")
}

// While the leader changes a waiter keeps its place, if its node serves all the time, nothing happens when the lock is
// released, and nothing happened before both stood in line.
func TestPlaceOverFaults(t *testing.T) {
	const turned = "0-1 1@n1 try succession h,30000,0 = 1\n 5000-5001 1@n1 release succession h = 1\n 20000-20001 1@n1 set x = OK\n " +
		"10-5012 2@n2 enter succession a,8000,16000 = 3\n 600-5002 3@n3 enter succession b,8000,16000 = 2\n "
	for faults, judged := range map[string]bool{
		"2000-2500 fault kill\n 2000-2500 died n1":          true,
		"2000-2500 fault transfer":                          true,
		"2000-2500 fault kill\n 2000-2500 died n2":          false, // its node died
		"2000-2500 fault partition":                         false, // a node may have been cut off
		"700-701 fault transfer\n 2000-2500 fault transfer": false, // the second may not have been in line
		"2000-4000 fault transfer":                          false, // a grant may be taken back
		"2000-2500 fault kill\n 5000-5010 fault transfer":   false,
		"15000-15010 fault transfer":                        false, // nothing happened before
	} {
		v := onThree(Line)(story(t, turned+faults))
		if lost := len(onlyKind(v, "place lost")) > 0; lost != judged || (v.AtStake[rulePlaceOver.ID] == 1) != judged {
			t.Errorf("%s: %v, at stake %v", faults, v.Problems, v.AtStake)
		}
	}
}

// Each element is given to one client, or is at its place.
func TestProbes(t *testing.T) {
	const (
		offer = "\n 1000-1001 3@n3 offer k left,a,b = 2\n 90000-90001 3@n3 rest k = "
		gone  = "0-?1002 1@n1 seize k left,9000 gone\n 600-1003 2@n2 seize k left,9000 = "
		died  = "0-?800 1@n1 seize k left,9000\n 600-9600 2@n2 seize k left,9000 = nil" // line 2
		dead  = "\n 790-60000 died n1\n 790-791 fault kill"
	)
	check := onThree(Probes)
	expect(t, check, gone+"a"+offer+"b")
	expect(t, check, gone+"b"+offer+"a")
	expect(t, check, gone+"b"+offer, "lost@3")
	expect(t, check, gone+"b"+offer+"a\n 1100-1101 3@n3 rest k =")
	expect(t, check, gone+"b"+offer+"a\n 9100-9101 3@n3 rest k =", "lost@3")
	expect(t, check, gone+"a"+offer+"a,b", "given out twice@4")
	expect(t, check, gone+"c"+offer+"a,b", "never pushed@2")
	expect(t, check, gone+"nil"+offer+"a,b", "left to one who hung up@2")
	expect(t, check, "0-?1002 1@n1 seize k left,9000 gone"+offer+"b,a", "put back elsewhere@3")
	expect(t, check, died+dead+offer+"a,b", "left to a ghost@2")
	expect(t, check, died+dead+strings.Replace(offer, "a,b = 2", "a = 1", 1)+"a", "left to a ghost@2")
	expect(t, check, "0-1002 1@n1 seize k left,9000 = a\n 600-9600 2@n2 seize k left,9000 = nil"+strings.Replace(offer, "a,b = 2", "a = 1", 1))
	expect(t, check, strings.Replace(died, "9600", "1200", 1)+dead+strings.Replace(offer, "left,a,b", "left-two,a,b", 1)+"a", "lost@5", "left to a ghost@2")
	expect(t, check, "0-?800 1@n1 seize k left,9000"+offer+"b")                 // it may have been answered, and gone then
	expect(t, check, "0-?1002 1@n1 seize k left,9000"+dead+offer+"b", "lost@4") // its node had died before
	const briefly = "\n 700-1700 away n1\n 700-1700 fault pause\n 4000-4001 3@n3 offer k right,a,b = 2\n 90000-90001 3@n3 rest k ="
	expect(t, check, "0-4002 1@n1 seize k right,9000 = b\n 600-4001 2@n2 seize k right,9000 = a"+briefly)
	expect(t, check, "0-4001 1@n1 seize k right,9000 = a\n 600-4002 2@n2 seize k right,9000 = b"+briefly, "place lost@2")
	const moved = "\n 1000-1001 3@n3 offer k left-move,a,b = 2\n 90000-90001 3@n3 rest k = "
	expect(t, check, "0-?1002 1@n1 seize k left-move,9000 gone"+moved+"b,>a", "moved for nobody@3")
	expect(t, check, "0-1002 1@n1 seize k left-move,9000 = a"+moved+"b,>a")
	expect(t, check, "0-1002 1@n1 seize k left-move,9000 = a"+moved+"b", "lost@2")
}
