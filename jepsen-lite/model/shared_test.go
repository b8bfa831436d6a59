package model

import (
	"fmt"
	"testing"
)

// Readers hold a lock together, or one writer holds it alone, in one line.
func TestShared(t *testing.T) {
	const readers = "0-1 1 enter l a,9000,0,shared = 7\n 2-3 2 enter l b,9000,0,shared = 8\n " // lines 1 and 2
	good := []string{
		"4-5 3 try l c,100,0 = nil\n 4-5 4 holder l = many\n 6-7 1 renew l a,9000 = 7\n 8-9 1 release l a = 1\n " +
			"10-11 2 release l b = 1\n 12-13 3 try l c,100,0 = 9\n 14-15 3 holder l = c\n 16-17 3 release l c = 1\n 18-19 3 holder l = nil",
		"4-5 3 acquire l c,100 = nil\n 6-7 1 try l a,9000,0,shared = 7",
		"4-900 3 enter l c,9000,5000 = 10\n 5-6 4 try l d,100,0,shared = nil\n 800-801 1 release l a = 1\n 802-803 2 release l b = 1", // behind a writer
		"4-? 3 enter l c,9000,5000\n 5-6 4 try l d,100,0,shared = nil",                                                                // who may stand in line yet
		"4-5 3 enter l c,100,0 = nil\n 20000-20001 3 try l c,100,0 = 11",                                                              // their leases have ended
		"4-? 1 release l a\n 5-6 2 release l b = 1\n 7-8 3 try l c,100,0 = 9",
	}
	for _, s := range good {
		expect(t, Shared, readers+s)
	}
	for _, c := range []struct{ story, want string }{
		{"4-5 3 enter l c,9000,0 = 9", "two holders@3"},
		{"4-5 3 acquire l c,9000 = OK", "two holders@3"},
		{"4-5 3 try l c,9000,0,2 = 9", "two holders@3"},
		{"4-5 1 release l a = 1\n 6-7 3 enter l c,9000,0 = 9", "two holders@4"},
		{"4-5 3 try l c,9000,0,shared = nil", "refused although free@3"},
		{"4-5 1 release l a = 1\n 6-7 2 release l b = 1\n 8-9 3 try l c,9000,0 = nil", "refused although free@5"},
		{"4-5 1 release l a = 1\n 6-7 2 release l b = 1\n 8-9 3 acquire l c,9000 = nil", "refused although free@5"},
		{"4-5 3 holder l = nil", "lock lost early@3"},
		{"4-? 3 enter l c,9000,0\n 4-5 3 holder l = c", "lock held by the wrong one@4"},
		{"4-5 1 renew l a,9000 = nil", "lock lost early@3"},
		{"4-5 1 release l a = 0", "lock lost early@3"},
		{"4-5 1 renew l a,9000 = 8", "lock held by the wrong one@3"},
		{"4-5 1 try l a,9000,0,shared = nil", "holder refused@3"},
		{"4-5 1 try l a,9000,0,shared = 9", "fence changed@3"},
		{"4-5 1 release l a = 1\n 6-7 1 renew l a,9000 = 7", "lock held by the wrong one@4"},
		{"4-5 3 enter l c,9000,0,shared = 6", "fence not greater@3"},
		{"4-5 3 enter l c,9000,0,shared = displaced", "displaced by nobody@3"},
	} {
		expect(t, Shared, readers+c.story, c.want)
	}
	// Nobody else holds what one holds alone.
	const alone = "0-1 1 enter l a,9000,0 = 7\n "
	expect(t, Shared, alone+"2-3 2 holder l = a\n 4-5 2 try l b,9000,0,shared = nil")
	expect(t, Shared, alone+"2-3 2 holder l = many", "lock held by the wrong one@2")
	expect(t, Shared, alone+"2-3 2 enter l b,9000,0,shared = 8", "two holders@2")
}

// A lease ends by the log clock, whatever the real time is.
// The key of a lock that several hold is there as long as any of them.
func TestKeyOfMany(t *testing.T) {
	const two = "0-1 1 enter l a,900,0,2 = 7\n 2-3 2 enter l b,5000,0,2 = 8\n "
	expect(t, Shared, two+"4-5 3 key l = 4997,7\n 1000-1001 3 key l = 4001,8")
	for _, wrong := range []string{"895,7", "4997,8", "-2,nil", "4997,nil"} {
		expect(t, Shared, two+"4-5 3 key l = "+wrong, "wrong key@3")
	}
	expect(t, Shared, two+"4-5 3 key l = 4997,7\n 10-11 2 renew l b,9000 = 8\n 12-13 3 key l = 8997,7") // it was renewed later
	expect(t, Shared, two+"10-11 2 renew l b,9000 = 8\n 12-13 3 key l = 4997,7", "wrong key@4")
	expect(t, Shared, two+"4-5 1 release l a = 1\n 6-7 2 release l b = 1\n 8-9 3 key l = -2,nil")
}

func TestSharedLeases(t *testing.T) {
	// Until 1105 of the log clock, which stands still for a while.
	const stood = "0-1 1 enter l a,100,0,shared = 7\n 5-6 1 renew l a,100 = 7,,,1005\n 350-351 9 release q z = 0,,,1090\n "
	expect(t, Shared, stood+"400-405 2 enter l b,100,0,shared = 8\n 420-421 1 renew l a,100 = nil,,,1150")
	expect(t, Shared, stood+"355-356 2 enter l b,100,0,shared = 8")
	expect(t, Shared, stood+"370-371 2 enter l b,100,0 = 8") // it may have moved on
	expect(t, Shared, stood+"355-356 2 enter l b,100,0 = 8", "ended early@4")
	expect(t, Shared, stood+"355-356 1 renew l a,100 = nil", "ended early@4")
	expect(t, Shared, stood+"365-370 1 renew l a,100 = nil,,,1105", "ended early@4")
	expect(t, Shared, stood+"365-370 1 renew l a,100 = 7,,,1106", "ended late@4")
	expect(t, Shared, stood+"365-366 2 release q z = 0,,,1106\n 367-368 2 try l b,100,0 = nil", "refused although free@5")
}

// No token holds a lock longer than its own lease.
func TestSharedLeasesEnd(t *testing.T) {
	story := "0-1 1 enter l a,100,0,shared = 7\n 2-3 2 enter l b,9000,0,shared = 8\n"
	for at := 50; at < 1000; at += 100 { // somebody leads
		story += fmt.Sprintf("%d-%d 9 release q z = 0\n", at, at+2)
	}
	expect(t, Shared, story+"600-601 1 renew l a,100 = 7\n 1000-1001 2 renew l b,100 = 8")
	expect(t, Shared, story+"1000-1001 1 renew l a,100 = 7", "lock never ends@13")
}

// A semaphore has as many holders as permits, and waiters get free permits.
func TestLimit(t *testing.T) {
	const two = "0-1 1 enter l a,9000,0,2 = 7\n 2-3 2 enter l b,9000,0,2 = 8\n " // lines 1 and 2
	good := []string{
		"4-5 3 try l c,100,0,2 = nil\n 6-7 1 release l a = 1\n 8-9 3 try l c,100,0,2 = 9\n 10-11 4 holder l = many",
		"4-5 3 try l c,100,0,3 = limit 2\n 6-7 4 try l d,100,0,shared = nil\n 8-9 5 acquire l e,100 = nil",
		"4-900 3 enter l c,9000,5000,2 = 9\n 800-801 1 release l a = 1",
		"4-20 3 enter l c,9000,5000,3 = limit 2\n 5-6 1 release l a = 1\n 7-8 2 release l b = 1", // at once, and told late
		"4-5 1 release l a = 1\n 6-? 3 enter l c,9000,5000,2\n 8-9 4 try l d,100,0,2 = nil",      // it may be c's
		"4-5 1 release l a = 1\n 6-?7 3 enter l c,9000,5000\n 8-9 4 try l d,100,0,2 = nil",       // who may stand before it
	}
	for _, s := range good {
		expect(t, Shared, two+s)
	}
	for _, c := range []struct{ story, want string }{
		{"4-5 3 enter l c,9000,0,2 = 9", "too many holders@3"},
		{"4-5 3 enter l c,9000,0,3 = 9", "two holders@3"},
		{"4-5 1 release l a = 1\n 6-7 3 try l c,9000,0,2 = nil", "refused although free@4"},
		{"4-5 3 try l c,9000,0,3 = limit 4", "refused although free@3"},
		{"4-5 1 release l a = 1\n 6-7 2 release l b = 1\n 8-9 3 try l c,9000,0,3 = limit 2", "refused although free@5"},
		{"4-5 1 release l a = 1\n 6-? 3 enter l c,100,5000,2\n 9000-9001 4 try l d,100,0,2 = nil", "refused although long free@5"},
	} {
		expect(t, Shared, two+c.story, c.want)
	}
	// By the log clock.
	const stood = "0-1 1 enter l a,100,0,2 = 7\n 5-6 1 renew l a,100 = 7,,,1005\n 7-8 2 enter l b,9000,0,2 = 8\n " +
		"350-351 9 release q z = 0,,,1090\n "
	expect(t, Shared, stood+"370-371 3 enter l c,100,0,2 = 9")
	expect(t, Shared, stood+"355-356 3 enter l c,100,0,2 = 9", "ended early@5")
}

// The first client in line is served first, and soon, with whatever is free for it.
func TestSharedInTurn(t *testing.T) {
	const (
		reader = "0-1 1 enter l a,9000,0,shared = 7\n " // line 1
		two    = "0-1 1 enter l a,9000,0,2 = 6\n 0-2 2 enter l b,9000,0,2 = 7\n "
	)
	good := []string{
		reader + "2-4500 2 enter l b,9000,9000 = 8\n 3000-4700 3 enter l c,9000,9000,shared = 9\n 4400-4401 1 release l a = 1\n 4600-4601 2 release l b = 1",
		reader + "2-4500 2 enter l b,9000,9000 = 9\n 400-401 3 enter l c,9000,9000,shared = 8\n 4000-4001 3 release l c = 1\n 4400-4401 1 release l a = 1", // who came first is not known
		reader + "2-4500 2 enter l b,9000,9000 = 9\n 3000-3001 3 enter l c,9000,9000,shared = 8\n 4000-4001 3 release l c = 1\n 4400-4401 1 release l a = 1\n 3500-3600 fault kill",
		reader + "2-4500 2 enter l b,9000,4490 = nil\n 3000-4501 3 enter l c,9000,9000,shared = 8",                                                     // he gave up
		two + "2-4500 3 enter l c,9000,9000,2 = 8\n 3000-4400 4 enter l d,9000,9000,2 = 9\n 4300-4301 1 release l a = 1\n 4300-4301 2 release l b = 1", // told later
		two + "2-4500 3 enter l c,9000,9000,2 = 8\n 3000-3001 1 release l a = 1",
		reader + "2-4500 2 enter l b,9000,9000 = 9\n 2000-2001 1 release l a = 1\n 2100-2200 fault kill",
		"0-?1 1 enter l a,2000,0,2\n 2-3 2 enter l b,9000,0,2 = 7\n 4-2600 3 enter l c,9000,9000,2 = 9", // whoever is a
	}
	for _, s := range good {
		expect(t, Shared, s)
	}
	for _, c := range []struct{ story, want string }{
		{reader + "2-4500 2 enter l b,9000,9000 = 9\n 3000-3001 3 enter l c,9000,9000,shared = 8\n 4000-4001 3 release l c = 1\n 4400-4401 1 release l a = 1", "overtaken@3"},
		{reader + "2-4500 2 enter l b,9000,4490 = nil\n 3000-3001 3 enter l c,9000,9000,shared = 8", "overtaken@3"},
		{two + "2-4500 3 enter l c,9000,9000,2 = 9\n 3000-4300 4 enter l d,9000,9000,2 = 8\n 4200-4201 1 release l a = 1\n 4400-4401 2 release l b = 1", "overtaken@4"},
		{reader + "2-4500 2 enter l b,9000,9000 = 9\n 2000-2001 1 release l a = 1", "free in spite of a line@2"},
		{reader + "2-4500 2 enter l b,9000,9000,shared = 9", "free in spite of a line@2"},
		{two + "2-4500 3 enter l c,9000,9000,2 = 8\n 2000-2001 1 release l a = 1", "free in spite of a line@3"},
		{"0-?1 1 enter l a,2000,0,2\n 2-3 2 enter l b,9000,0,2 = 7\n 4-4600 3 enter l c,9000,9000,2 = 9", "free in spite of a line@3"},
	} {
		expect(t, Shared, c.story, c.want)
	}
}

// A token may ask again any number of times, and holds nothing after it was told that it released the lock.
func TestIdempotent(t *testing.T) {
	const lost = "0-?1 1 enter l a,9000,5000\n " // line 1
	good := []string{
		"2-3 2 enter l a,9000,5000 = 7\n 4-5 2 renew l a,9000 = 7\n 6-7 2 release l a = 1\n 8-9 2 release l a = 0",
		"2-3 2 release l a = 0\n 4-5 2 renew l a,9000 = nil",
		"2-3 2 release l a = 0\n 4-5 3 holder l = a",                    // it came late
		"2-3 3 enter l b,9000,5000 = 8\n 4-5 2 try l a,9000,0 = nil",    // it was taken back
		"2-3 3 enter k b,9000,5000 = 8\n 4-5 2 enter l a,9000,5000 = 7", // it was granted before
	}
	for _, s := range good {
		expect(t, Shared, lost+s)
	}
	const told = lost + "2-3 2 enter l a,9000,5000 = 7\n " // line 2
	for _, c := range []struct{ story, want string }{
		{"0-1 1 enter l a,9000,5000 = 7\n 2-3 1 enter l a,9000,5000 = 8", "fence changed@2"},
		{told + "4-5 2 renew l a,9000 = nil", "lock lost early@3"}, // its first request came late
		{told + "4-5 2 enter l a,9000,5000 = 8", "fence changed@3"},
		{told + "4-5 3 enter l b,9000,5000 = 9", "two holders@3"},
		{told + "4-5 3 holder l = nil", "lock lost early@3"},
		{"0-1 1 enter l a,9000,5000 = 7\n 2-?3 1 enter l a,9000,5000\n 4-5 2 renew l a,9000 = nil", "lock lost early@3"}, // of a repeated request
		{told + "604-605 2 release l a = 1\n 606-607 2 release l a = 0\n 3100-3101 3 holder l = a", "held by the dead@5"},
		{lost + "602-603 2 release l a = 0\n 3100-3101 3 holder l = a", "held by the dead@3"},
	} {
		expect(t, Shared, c.story, c.want)
	}
}
