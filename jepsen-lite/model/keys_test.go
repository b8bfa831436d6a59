package model

import "testing"

// A scene has a lock that one client has and two others wait for, and something happens to its key.
func TestKeys(t *testing.T) {
	const (
		took   = "0-1 1 try 3.k h,30000,0,a1, = 5\n "
		twin   = "2-3 1 try 3.k g,30000,0,b1, = 6\n "
		inLine = "10-%s 2 enter 3.k a,8000,9000,a1, = %s\n "
	)
	waits := func(end, answer string) string {
		return "10-" + end + " 2 enter 3.k a,8000,9000,a1, = " + answer + "\n "
	}
	look := func(at, place, out string) string {
		return at + ".1-" + at + ".9 1 look 3.k " + place + " = " + out + "\n "
	}
	good := []string{
		// whatever frees the lock gives it to the first in line
		took + waits("1006", "7") + "1000-1005 1 change 3.k del,3.k,a1 = 1\n " + look("1010", "a1", "string,a,7,7995"),
		took + waits("1006", "7") + "1000-1005 1 change 3.k rename,3.k,a1,a2 = OK\n " + look("1010", "a2", "string,h,8,28990") + look("1012", "a1", "string,a,7,7995"),
		took + waits("1006", "7") + "1000-1005 1 change 3.k move,3.k,a1,b1 = 1\n " + look("1010", "b1", "string,h,8,28990"),
		took + waits("1006", "7") + "1000-1005 1 change dbs3 wipe,3.k = OK\n " + look("1010", "a1", "string,a,7,7995"),
		took + waits("1006", "7") + "1000-1005 1 change all flushall,3.k = OK",
		took + waits("1006", "7") + "1000-1005 1 change dbs3 swap,3.k = OK\n " + look("1010", "b1", "string,h,8,28990"),
		took + waits("1506", "7") + "1000-1005 1 change 3.k expire,3.k,a1,500 = 1\n " + look("1010", "a1", "string,h,5,491"),
		// a lock that is taken again was never free
		took + waits("1106", "9") + "1000-1005 1 change 3.k give,3.k,h,a1,i,a1,30000 = 1,7\n " + look("1010", "a1", "string,i,7,29990") + "1100-1101 1 release 3.k i,a1 = 1",
		took + waits("1106", "9") + "1000-1005 1 change 3.k give,3.k,h,a1,h,a2,30000 = 1,7\n " + look("1110", "a1", "string,a,9,7990"),
		// another one has it after all
		took + twin + waits("1106", "9") + "1000-1005 1 change dbs3 swap,3.k = OK\n " + look("1010", "a1", "string,g,7,28992") + "1100-1101 1 release 3.k g,a1 = 1",
		took + "2-3 1 try 3.k a,30000,0,b1, = 6\n " + waits("1006", "7") + "1000-1005 1 change dbs3 swap,3.k = OK\n " + look("1010", "a1", "string,a,7,7995"),
		// it is no lock any more
		took + waits("1006", "wrongtype") + "1000-1005 1 change 3.k list,3.k,a1 = OK\n " + look("1010", "a1", "list,,8,-1"),
		took + "2-3 1 change 3.k list,3.k,a2 = OK\n " + waits("1006", "wrongtype") + "1000-1005 1 change 3.k rename,3.k,a2,a1 = OK",
		// leases
		took + waits("1106", "9") + "1000-1005 1 change 3.k persist,3.k,a1 = 1\n " + look("1010", "a1", "string,h,5,-1") + "1100-1101 1 release 3.k h,a1 = 1",
		"0-1 1 try 3.k h,30000,0,a1,shared = 5\n 2-3 1 try 3.k i,30000,0,a1,shared = 6\n 4-5 1 change 3.k persist,3.k,a1 = 1\n " +
			look("7", "a1", "lock,,5,-1") + "20-21 2 try 3.k w,30000,0,a1, = nil",
		"0-1 1 try 3.k h,30000,0,a1,hash = taken\n 4-5 1 change 3.k expire,3.k,a1,100 = 1\n " + look("7", "a1", "hash,,5,98") +
			"104-105 2 try 3.k i,30000,0,a1,hash = taken",
		// what another scene gives to a waiter is renamed before the waiter is told, which waits on
		took + waits("1020", "9") + "600-1012 3 enter 3.k b,8000,9000,a1, = 8\n 990-1001 7 change all flushall,3.j = OK\n " +
			"995-1002 1 change 3.k rename,3.k,a1,a2 = OK\n 1013-1014 3 release 3.k b,a1 = 1\n " + look("1030", "a2", "string,a,7,7980"),
		// what a waiter was given was taken back before it was told, and it is refused, or waits on: a leader was lost
		took + "10-1200 2 enter 3.k a,8000,9000,a1, failed\n 1000-1005 1 change 3.k del,3.k,a1 = 1\n " + look("1010", "a1", "string,a,7,7995") + look("1300", "a1", "none,,nil,-2"),
		took + waits("1306", "9") + "600-1150 3 enter 3.k b,8000,9000,a1, failed\n 1000-1005 1 change 3.k del,3.k,a1 = 1\n " +
			look("1010", "a1", "string,a,7,7995") + look("1100", "a1", "none,,nil,-2"),
		// unknown outcomes, also of another scene
		took + waits("1006", "7") + "1000-? 1 change 3.k del,3.k,a1",
		"0-? 9 change dbs3 swap,3.j\n " + took + twin + look("10", "a1", "string,g,7,29992") + look("12", "b1", "string,h,8,29990"),
		"0-? 9 change all flushall,3.j\n " + took + look("10", "a1", "none,,nil,-2"),
		took + "10-? 2 enter 3.k a,8000,9000,a1,\n 20-21 3 enter 3.k b,8000,9000,a1, = 9\n 18-19 1 release 3.k h,a1 = 1",
	}
	for _, s := range good {
		expect(t, Keys, s)
	}
	const later = "\n 9000-9001 1 try 3.z h,30000,0,a1, = 99"
	for _, c := range []struct{ story, want string }{
		{took + waits("1006", "7") + "1000-1005 1 change 3.k give,3.k,h,a1,i,a1,30000 = 1,6\n " + look("1010", "a1", "string,a,7,7995"), "two holders@2"},
		{took + "1000-1005 1 change 3.k rename,3.k,a1,a2 = OK\n " + look("1010", "a2", "string,h,5,28990"), "fence not greater@3"},
		{took + "1000-1005 1 change 3.k rename,3.k,a1,a2 = OK\n " + look("1010", "a1", "string,h,5,28990"), "no order of keys@3"},
		{took + "1000-1005 1 change 3.k rename,3.k,a1,a2 = OK\n " + look("1010", "a2", "string,h,7,30000"), ""},
		{took + "1000-1005 1 change 3.k copy,3.k,a1,a2 = 1\n 1010-1011 1 release 3.k h,a1 = 0", "lock lost early@3"},
		{took + twin + "1000-1005 1 change dbs3 wipe,3.k = OK\n " + look("1010", "b1", "none,,nil,-2"), "no order of keys@4"},
		{took + "1000-1005 1 change 3.k persist,3.k,a1 = 1\n " + look("1010", "a1", "string,h,5,28990"), "wrong lease@3"},
		{took + "1000-1005 1 change 3.k expire,3.k,a1,500 = 1\n " + look("1010", "a1", "string,h,5,-1"), "wrong lease@3"},
		{took + "1000-1005 1 change 3.k expire,3.k,a1,500 = 1\n 1490-1491 2 try 3.k b,9000,0,a1, = 9", "two holders@3"},
		{"0-1 1 try 3.k h,30000,0,a1,shared = 5\n 4-5 1 change 3.k persist,3.k,a1 = 1\n " + look("7", "a1", "lock,,5,29990"), "wrong lease@3"},
		{took + waits("1306", "9") + "1000-1005 1 change 3.k del,3.k,a1 = 1\n " + look("1010", "a1", "string,a,7,7995") + look("1100", "a1", "none,,nil,-2"), "two holders@2"},
		{took + "10-11 1 change 3.k del,3.k,a1 = 1\n 12-13 2 try 3.k b,9000,0,a1, = nil", "refused although free@3"},
		// those in line are served, and told, at once
		{took + waits("3006", "7") + "1000-1005 1 change 3.k del,3.k,a1 = 1" + later, "left in line@2"},
		{took + "2-3 1 try 3.k a,30000,0,b1, = 6\n " + waits("3006", "7") + "1000-1005 1 change dbs3 swap,3.k = OK" + later, "left in line@3"},
		{took + waits("3006", "wrongtype") + "1000-1005 1 change 3.k list,3.k,a1 = OK" + later, "left in line@2"},
		{took + waits("1308", "8") + "600-1307 3 enter 3.k b,8000,9000,a1, = 7\n 1200-1301 1 change 3.k del,3.k,a1 = 1\n 1307.5-1307.8 3 release 3.k b,a1 = 1" + later, "overtaken@3"},
	} {
		var want []string
		if c.want != "" {
			want = append(want, c.want)
		}
		expect(t, Keys, c.story, want...)
	}
}
