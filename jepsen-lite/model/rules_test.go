package model

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/history"
)

// Each rule has a history that puts it at stake once, without a problem, and one that breaks it.
func TestRules(t *testing.T) {
	const (
		grant      = "0-4 1 grant k v,100 = 1,100,v,1002\n " // until 1102 of the log clock
		reign      = "0-1 1@n1 reign r = 2\n 10-12 1@n1 observe q = 0,-2,nil,11\n 13-14 1@n1 reign r = 2\n 30-32 1@n1 observe q = 0,-2,nil,%d\n 33-34 1@n1 reign r = 2"
		lease      = "0-1 1 set k v,100 = OK\n "
		lock       = "0-1 1 acquire l a,100 = OK\n "
		line       = "0-1 1 enter l a,9000,0 = 7\n "
		fenced     = "0-1 1 acquire l a,100 = OK\n 2-3 1 fence l a = 7\n 200-201 2 acquire l b,100 = OK\n 202-203 2 fence l b = 9\n 204-205 2 write l b,9 = accepted\n "
		told2      = "0-1 1 acquire l a,2000 = OK\n 10-11 2 acquire l b,2000 = nil,1991,a\n "
		ear        = "0-1 1 listen ch = OK\n "
		ears       = "0-1 1 listen ch = OK\n 0-1 3 listen ch = OK\n 2-3 2 publish ch a = 1\n 2-3 4 publish ch b = 1\n 4-5 1 message ch = a\n 6-7 1 message ch = b\n "
		watch      = "0-1 1 listen e = OK\n "
		later      = "\n 20000-20001 9 del z = 0"
		turn       = line + "2-4500 2 enter l b,9000,9000 = 9\n 3000-4600 3 enter l c,9000,9000 = %d\n 4400-4401 1 release l a = 1\n 4550-4551 2 release l b = 1"
		waiting    = line + "2-4500 2 enter l b,9000,9000 = 9\n 3000-3001 3 holder l = %s\n 4400-4401 1 release l a = 1"
		held       = "0-1 1@n1 try succession h,30000,0 = 1\n 5000-5001 1@n1 release succession h = 1\n 20000-20001 1@n1 set x = OK\n "
		first      = " 2@n2 enter succession a,8000,16000"
		second     = " 3@n3 enter succession b,8000,16000"
		inTurn     = "10-5002" + first + " = 2\n 600-5012" + second + " = 3\n 5010-5011 2@n2 release succession a = 1\n "
		turned     = "10-5012" + first + " = 3\n 600-5002" + second + " = 2\n 5010-5011 3@n3 release succession b = 1\n "
		briefly    = "2000-3000 away n2\n 2000-3000 fault pause"
		dead       = "\n 3000-19000 died n2\n 3000-3001 fault kill"
		stale      = "0-1 1@n1 try l h,30000,0 = 1\n 10-9000 2@n2 enter l a,3000,16000 = 2\n 3000-9000 away n2\n 3000-9000 fault pause\n 4000-4001 1@n1 release l h = 1\n "
		gone       = "0-?1002 1@n1 seize k left,9000 gone\n 600-1003 2@n2 seize k left,9000 = "
		offer      = "\n 1000-1001 3@n3 offer k left,a,b = 2\n 90000-90001 3@n3 rest k = "
		two        = "0-1 1 enter l a,9000,0,2 = 7\n 2-3 2 enter l b,9000,0,2 = 8\n "
		pushed     = "0-1 1 push q 1 = 1\n 2-3 1 push q 2 = 2\n "
		asked      = "0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n 4-5 1 release l a,w1.3 = 1\n 6-7 2 enter l b,300,0,w2.4 = 9\n "
		once       = "0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n 10-11 9 history l = "
		wrong      = "100-9000 off n1 0,60000\n"
		until      = "0-1 1 take k a,6000 = OK\n"
		end1       = "released|a|7|UNLOCK|w1.3||1100|100|500|0"
		got2       = "granted|b|9|LOCK|w2.4||1200|0|300|0"
		handed     = "0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n 4-5 1 hand l c,600,a,w1.2 = OK\n 6-7 1 fence l "
		over1      = "overwritten|a|7|SET|w1.2||1003|3|500|0"
		got3       = "granted|c|9|SET|w1.2||1003|0|600|0"
		anew       = "0-1 1 enter l a,100,0 = 7\n 50-51 1 enter l a,9000,0 = 7\n 300-301 1 release l a = "
		has        = "0-1 1 try 3.k h,30000,0,a1, = 5\n "
		afterScene = "\n 9000-9001 1 try 3.z h,30000,0,a1, = 99"
		heard      = "0-1 5 listen e* = OK\n 2-3 1 enter l a,500,0,w1.1 = 7\n "
		wholes     = "0-1 5 listen __lock@*__: = OK\n 2-3 1 end-all 3 w1.1,FLUSHDB, = OK\n "
		hello      = "0-1 1 hello l = OK\n 2-3 1 enter l a,500,0,w1.1 = 7\n "
		taken      = hello + "5-6 2 force l ,r,,w2.1 = 1\n "
		manyWait   = "0-1 1 enter g.2 t1,9000,100,2,o1 = 7\n 0-1 2 enter g.2 t2,9000,100,2,o2 = 8\n 2-3 3 enter g.0 t3,9000,100,,o3 = 9\n " +
			"4-4000 1 enter g.0 t4,9000,3990,,o1 = nil\n 4-4000 2 enter g.0 t5,9000,3990,,o2 = nil\n "
		own = "0-1 1 enter g.0 t1,9000,100,,o1 = 7\n "
	)
	forced := "9000-9001 1 cut l =\n 20000-20001 9 history l = " + told(g1, "forced|a|7|LOCKS FORCE|w2.1|r|1005|5|500|0")
	expired := "510-511 1 lost l = a,7,expired\n 9000-9001 1 cut l =\n 20000-20001 9 history l = " + told(g1, "expired|a|7||||1501|500|500|0")
	writes := ""
	for at := 5; at < 9000; at += 100 {
		writes += fmt.Sprintf("\n%d-%d 9 release z x = 0", at, at+1)
	}
	beat := ""
	for at := 5; at < 3000; at += 100 {
		beat += fmt.Sprintf("%d-%d 7 drop beat none = 0\n", at, at+110)
	}
	unexpected := func(h *history.History) *Verdict {
		for i := range h.Ops {
			if h.Ops[i].Outcome == history.Fail {
				h.Ops[i].Error = Unexpected + "ERR internal"
			}
		}
		return Errors(h)
	}
	cases := []struct {
		rule          *Rule
		check         Checker
		stake, breach string
	}{
		{ruleAnswered, unexpected, "0-1 1@n1 get a = x", "0-1 1@n1 get a failed"},
		{ruleEach, Least("get"), "0-1 1@n1 get a = x", ""},
		{ruleSilence, live, "0-1 1@n1 set a = OK\n 3001-3002 1@n1 set a = OK",
			"0-1 1@n1 set a = OK" + asks("n1", 400, 9000)},
		{ruleLongSilence, live, "0-1 1@n1 set a = OK\n 15001-15002 1@n1 set a = OK",
			"0-1 1@n1 set a = OK" + asks("n1", 400, 20000)},
		{ruleNodeSilence, live, "0-1 1@n1 set a = OK\n 4001-4002 1@n1 set a = OK",
			"0-1 1@n1 set a = OK" + refusals("n1", 400, 9000)},
		{ruleUndisturbed, live, "0-1 1@n1 get a = x", "0-1501 1@n1 get a = x"},

		{ruleKept, Counter, "0-1 1 mark c 0 = 1\n 2-3 2 sum c = 1", "0-1 1 mark c 0 = 1\n 2-3 2 sum c = nil"},
		{ruleOnce, Counter, "0-1 1 mark c 0 = 1\n 2-3 2 sum c = 1", "0-1 1 mark c 0 = 2"},
		{ruleKept, Counter, "0-1 1 add c = 1\n 2-3 1 read c = 1", "0-1 1 add c = 1\n 2-3 1 read c = 0"},
		{ruleOnce, Counter, "0-1 1 add c = 1\n 2-3 1 read c = 1", "0-1 1 add c = 2"},
		{ruleKept, Register, "0-1 1 set r a = OK\n 2-3 2 versions r = a", "0-1 1 set r a = OK\n 2-3 2 versions r ="},
		{ruleUnknown, Counter, "0-? 1 mark c 0\n 2-3 2 sum c = 1", "0-? 1 mark c 0\n 2-3 2 sum c = 2"},
		{ruleRegister, Register, "0-1 1 get r = nil", "0-1 1 get r = x"},
		{ruleRead, Counter, "0-1 1 add c = 1\n 2-3 1 read c = 1", "0-1 1 add c = 1\n 2-3 1 read c = 0\n 4-5 1 read c = 1"},
		{ruleSums, Counter, "0-1 1 mark c 0 = 1\n 2-3 2 sum c = 1", "0-1 1 mark c 0 = 1\n 2-3 2 mark c 1 = 4"},
		{ruleMembers, Set, "0-1 1 add s a = 1\n 2-3 1 read s = a", "0-1 1 add s a = 1\n 2-3 1 read s ="},
		{ruleMembersOnce, Set, "0-1 1 add s a = 1\n 2-3 1 read s = a", "0-1 1 add s a = 1\n 2-3 1 read s = a,a"},
		{ruleList, List, "0-1 1 rpush q a = 1", "0-1 1 rpush q a = 2"},
		{rulePrefix, List, "0-1 1 append l a = 1\n 2-3 2 all l = a\n 4-5 2 all l = a",
			"0-9 1 append l a = 1\n 0-9 2 append l b = 2\n 10-11 3 all l = a,b\n 12-13 4 all l = b,a"},
		{ruleSum, Bank, "0-1 1 init bank 100,100 = OK\n 4-5 2 read bank = 93,107",
			"0-1 1 init bank 100,100 = OK\n 4-5 2 read bank = 93,100"},
		{ruleKept, Append, "0-1 1 txn multi x+1 = 1\n 2-3 2 look multi x = [1]", "0-1 1 txn multi x+1 = 1\n 2-3 2 look multi x = []"},
		{rulePrefix, Append, "0-1 1 txn multi x+1 = 1\n 2-3 2 look multi x = [1]\n 4-5 2 look multi x = [1]",
			"0-9 1 txn multi x+1 = 1\n 0-9 2 txn multi x+2 = 1"},
		{ruleIsolated, Append, "0-9 1 txn multi x+1,y+2 = 1,1\n 0-8 2 look eval x,y = [1],[2]",
			"0-9 1 txn multi x+1,y+2 = 1,1\n 0-8 2 look eval x,y = [1],[]"},
		{rulePipeline, Append, "0-9 1 txn pipe x+1,y+2 = 1,1\n 0-8 2 look eval x,y = [1],[2]",
			"0-9 1 txn pipe x+1,y+2 = 1,1\n 0-8 2 look eval x,y = [1],[]"},
		{ruleStrict, Append, "0-1 1 txn multi r=1 = nil\n 2-3 2 look eval r = 1", "0-1 1 txn multi r=1 = nil\n 2-3 2 look eval r = nil"},
		{ruleUndone, Scripts, "0-1 1 poison a rep = error ERR Script stopped: more\n 2-3 1 left a = nil",
			"0-1 1 poison a rep = error ERR Script stopped: more\n 2-3 1 left a = 4"},
		{ruleScript, Scripts, "0-1 1 poison a rep = 7\n 2-3 1 left a = 4", "0-1 1 poison a rep = 7\n 2-3 1 left a = nil"},

		{ruleForward, Leases, "0-2 1 observe q = 0,-2,nil,1001\n 3-4 1 observe q = 0,-2,nil,1002",
			"0-2 1 observe q = 0,-2,nil,1001\n 3-4 1 observe q = 0,-2,nil,1000"},
		{ruleFast, Leases, "0-2 1 observe q = 0,-2,nil,1001\n 3-4 1 observe q = 0,-2,nil,1002",
			"0-2 1 observe q = 0,-2,nil,1001\n 400-402 1 observe q = 0,-2,nil,1405"},
		{ruleSlow, Leases, fmt.Sprintf(reign, 30), fmt.Sprintf(reign, 27)},
		{ruleLoses, Leases, fmt.Sprintf(reign, 30),
			"10-12 1 observe q = 0,-2,nil,11\n 240-242 1 observe q = 0,-2,nil,201" + sights(0, 200)},
		{ruleLives, Leases, grant, grant + "97-104 2 observe k = 0,-2,nil,1102"},
		{ruleEnds, Leases, grant + "99-104 2 observe k = 0,-2,nil,1103", grant + "99-104 2 observe k = 1,0,v,1103"},
		{ruleLeft, Leases, grant, grant + "50-52 2 observe k = 1,53,v,1050"},
		{ruleNotGone, Expiry, lease + "50-51 1 get k = v", lease + "50-51 1 get k = nil"},
		{ruleGone, Expiry, lease + "110-111 1 get k = nil", lease + "602-603 1 get k = v" + beats(0, 1000)},
		{ruleStaysGone, Expiry, lease + "101-102 1 get k = nil\n 103-104 1 get k = nil",
			lease + "101-102 1 get k = nil\n 103-104 1 get k = v"},
		{ruleOverFaults, Expiry, lease + "10-20 fault kill\n 50-51 1 get k = v", lease + "10-20 fault kill\n 50-51 1 get k = nil"},
		{ruleByClock, Lock, "0-4 1 acquire l a,100 = OK,100,a,1002", "0-4 1 acquire l a,100 = OK,101,a,1002"},
		{ruleLeaseEnds, Lock, lock + "150-151 2 holder l = nil", lock + "602-603 2 acquire l b,100 = nil" + writes},

		{ruleTime, Moments, "1000-1001 1 time - = 6000500", "1000-1001 1 time - = 66000000"},
		{ruleTimeBehind, Moments, "1000-1001 1 id s = 5600-0", "1000-1001 1 id s = 5400-0"},
		{ruleWrongClock, Moments, wrong + "1000-1001 1 time - = 6000500", wrong + "1000-1001 1 time - = 66000000"},
		{ruleTimeForward, Moments, wrong + "500-501 1 time - = 5501000\n1000-1001 1 time - = 6000500",
			wrong + "500-501 1 time - = 5501000\n1000-1001 1 time - = 5500999"},
		{ruleMoment, Moments, until + "900-990 1 holder k a = a", until + "900-980 2 take k b,9000 = OK"},
		{ruleMomentWrong, Moments, wrong + until + "900-990 1 holder k a = a", wrong + until + "900-980 1 holder k a = nil"},
		{ruleMomentEnds, Moments, until + beat + "3090-3100 1 holder k a = nil", until + beat + "3090-3100 1 holder k a = a"},

		{ruleHolder, Lock, lock + "2-3 2 acquire l b,100 = nil", lock + "2-3 2 acquire l b,100 = OK"},
		{ruleHolder, Shared, two + "4-5 3 try l c,100,0,2 = nil", two + "4-5 3 try l c,100,0,2 = 9"},
		{ruleHolder, Line, line + "4-700 3 enter l c,9000,5000 = 9\n 650-651 1 release l a = 1", line + "4-5 3 enter l c,9000,5000 = 9"},
		{ruleHeld, Lock, lock + "4-5 1 release l a = 1", lock + "4-5 1 release l a = 0"},
		{ruleHeld, Line, line + "4-5 2 holder l = a", line + "4-5 2 holder l = nil"},
		{ruleFree, Lock, lock + "4-5 1 release l a = 1\n 6-7 2 acquire l b,100 = OK", lock + "4-5 1 release l a = 1\n 6-7 2 acquire l b,100 = nil"},
		{ruleLongFree, Shared, "0-1 1 enter l a,9000,0,shared = 7\n 4-5 3 try l c,100,0 = nil",
			two + "4-5 1 release l a = 1\n 6-? 3 enter l c,100,5000,2\n 9000-9001 4 try l d,100,0,2 = nil"},
		{ruleReentrant, Reentrant, "0-1 1 lock l a,100 = nil", "0-1 1 lock l a,100 = nil\n 50-51 2 lock l b,100 = nil"},
		{ruleJoins, Reentrant, "0-1 1 join l a-1:write, = 7", "0-1 1 join l a-1:write, = 7\n 2-3 1 join l b-1:write,a-1:write = 7"},
		{ruleFence, Line, line + "2-3 1 release l a = 1\n 4-5 2 enter l b,100,0 = 9", line + "2-3 1 release l a = 1\n 4-5 2 enter l b,100,0 = 6"},
		{ruleFenceOver, Line, line + "2-3 1 release l a = 1\n 3-4 fault kill\n 5-6 2 enter l b,100,0 = 9",
			line + "2-3 1 release l a = 1\n 3-4 fault kill\n 5-6 2 enter l b,100,0 = 6"},
		{ruleSameFence, Shared, line + "2-3 1 try l a,9000,0 = 7", line + "2-3 1 try l a,9000,0 = 8"},
		{ruleResource, Lock, fenced + "206-207 1 write l a,7 = refused", fenced + "206-207 1 write l a,7 = accepted"},
		{ruleCompared, Lock, "0-1 1 compare-get c = nil", "0-1 1 compare-set c IFNE,a,ab = OK\n 2-3 1 compare-del c IFEQ,a = 1"},
		{ruleOwnToken, Lock, lock + "4-5 2 release l ab = 0", lock + "4-5 2 release l ab = 1"},
		{ruleToldLease, Waiters, told2, strings.Replace(told2, "1991", "1900", 1)},
		{ruleToldLong, Waiters, told2, strings.Replace(told2, "1991", "2600", 1)},
		{ruleSleep, Waiters, told2 + "12-500 3 wait l 1991,a = woken\n 498-499 1 release l a = 1", told2 + "12-4500 3 wait l 1991,a = timeout"},
		{ruleWoken, Waiters, told2 + "12-500 3 wait l 1991,a = woken\n 498-499 1 release l a = 1",
			told2 + "12-4500 3 wait l 4000,a = woken\n 498-499 1 release l a = 1"},

		{ruleScene, Keys, has, has + "2-3 1 look 3.k a1 = none,,nil,-2"},
		{ruleNeverFree, Keys, has + "10-1106 2 enter 3.k a,8000,9000,a1, = 9\n 1000-1005 1 change 3.k give,3.k,h,a1,i,a1,30000 = 1,7\n 1100-1101 1 release 3.k i,a1 = 1",
			has + "10-1006 2 enter 3.k a,8000,9000,a1, = 7\n 1000-1005 1 change 3.k give,3.k,h,a1,i,a1,30000 = 1,6\n 1010-1011 1 look 3.k a1 = string,a,7,7995"},
		{ruleCarried, Keys, has + "10-11 1 change 3.k rename,3.k,a1,a2 = OK\n 12-13 1 look 3.k a2 = string,h,7,29990",
			has + "10-11 1 change 3.k rename,3.k,a1,a2 = OK\n 12-13 1 look 3.k a2 = string,h,5,29990"},
		{ruleApart, Keys, has + "2-3 1 try 3.k g,30000,0,b1, = 6\n 10-11 1 change dbs3 wipe,3.k = OK\n 12-13 1 look 3.k b1 = string,g,6,29990",
			has + "2-3 1 try 3.k g,30000,0,b1, = 6\n 10-11 1 change dbs3 wipe,3.k = OK\n 12-13 1 look 3.k b1 = none,,nil,-2"},
		{ruleGivenLease, Keys, has + "10-11 1 change 3.k persist,3.k,a1 = 1\n 12-13 1 look 3.k a1 = string,h,5,-1",
			has + "10-11 1 change 3.k persist,3.k,a1 = 1\n 12-13 1 look 3.k a1 = string,h,5,29990"},
		{ruleHandsOn, Keys, has + "10-1006 2 enter 3.k a,8000,9000,a1, = 7\n 1000-1005 1 change 3.k del,3.k,a1 = 1" + afterScene,
			has + "10-3006 2 enter 3.k a,8000,9000,a1, = 7\n 1000-1005 1 change 3.k del,3.k,a1 = 1" + afterScene},
		{ruleForeign, Keys, has + "10-1006 2 enter 3.k a,8000,9000,a1, = wrongtype\n 1000-1005 1 change 3.k list,3.k,a1 = OK" + afterScene,
			has + "10-3006 2 enter 3.k a,8000,9000,a1, = wrongtype\n 1000-1005 1 change 3.k list,3.k,a1 = OK" + afterScene},

		{ruleLibrary, Waiters, "0-1 1 seek l a,12000 = taken\n 5-900 2 wait l 11995,a = woken\n 800-801 1 end l del,0 = 1\n 20000-20001 1 seek l b,9 = taken",
			"0-1 1 seek l a,12000 = taken\n 5-9000 2 doze l 12000 = timeout\n 800-801 1 end l del,0 = 1\n 20000-20001 1 seek l b,9 = taken"},

		{ruleTurn, Line, fmt.Sprintf(turn, 10), fmt.Sprintf(turn, 8)},
		{ruleMoves, Line, fmt.Sprintf(waiting, "a"), fmt.Sprintf(waiting, "nil")},
		{ruleMoves, Shared, "0-1 1 enter l a,2000,0,shared = 7\n 2-3000 2 enter l b,9000,9000 = 9",
			"0-1 1 enter l a,9000,0,shared = 7\n 2-4500 2 enter l b,9000,9000 = 9\n 2000-2001 1 release l a = 1"},
		{ruleWaitLasts, Line, line + "2-103 2 enter l b,9000,100 = nil", line + "2-50 2 enter l b,9000,100 = nil"},
		{ruleWaitLeft, Line, line + "2-1003 2 enter l b,9000,9000 = nil\n 1001-1002 3 release l b = 0", line + "2-3003 2 enter l b,9000,9000 = nil\n 1001-1002 3 release l b = 0"},
		{ruleNoWait, Line, line + "2-3 2 try l b,9000,0,,whole = nil", line + "2-1600 2 try l b,9000,0,,whole = nil"},
		{ruleKeyOfMany, Shared, two + "4-5 3 key l = 8997,7", two + "4-5 3 key l = 8997,8"},
		{ruleWaitEnds, Line, line + "2-103 2 enter l b,9000,100 = nil", line + "2-2200 2 enter l b,9000,100 = nil"},
		{ruleAnew, Line, anew + "1", anew + "0"},
		{rulePlaceAgain, onThree(Line),
			held + "10-1500" + first + " = displaced\n 600-5012" + second + " = 3\n 1300-5003 4@n1 enter succession a,8000,16000 = 2\n 5010-5011 4@n1 release succession a = 1",
			held + "10-1500" + first + " = displaced\n 600-5002" + second + " = 2\n 1300-5012 4@n1 enter succession a,8000,16000 = 3\n 5010-5011 3@n3 release succession b = 1"},
		{ruleDisplaced, Line, line + "8-? 2 enter l b,9000,9000\n 9-10 3 enter l b,9000,9000 = displaced",
			line + "9-10 3 enter l b,9000,9000 = displaced"},
		{ruleDead, Line, line + "2-?3 2 enter l b,9000,9000\n 2100-2101 3 holder l = a",
			line + "2-?3 2 enter l b,9000,9000\n 600-601 3 holder l = a\n 605-606 1 release l a = 1\n 2100-2101 3 holder l = b"},
		{rulePlaceOver, onThree(Line), held + inTurn + "2000-2500 fault transfer", held + turned + "2000-2500 fault transfer"},
		{rulePlace, onThree(Line), held + inTurn + briefly, held + turned + briefly},
		{ruleGhost, onThree(Line), held + "10-?3001" + first + "\n 600-6000" + second + " = 3" + dead,
			held + "10-?3001" + first + "\n 600-9000" + second + " = 3" + dead},
		{ruleHungUp, onThree(Line), held + "10-?4990" + first + " gone\n 600-6000" + second + " = 3",
			held + "10-?4990" + first + " gone\n 600-9000" + second + " = 3"},
		{ruleStale, onThree(Line), stale + "9001-9002 2@n2 release l a = 1", stale + "9001-9002 2@n2 release l a = 0"},
		{ruleLimit, Shared, two + "4-5 3 try l c,100,0,3 = limit 2", two + "4-5 3 try l c,100,0,3 = limit 4"},

		{ruleGiven, Queue, "0-1 1 push q 1 = 1\n 2-3 2 pop q = 1", "0-1 1 push q 1 = 1\n 2-3 2 pop q = 1\n 2-3 3 pop q = 1"},
		{ruleElement, Queue, "0-1 1 push q 1 = 1\n 2-3 2 pop q = 1\n 4-5 1 left q =", "0-1 1 push q 1 = 1\n 4-5 1 left q ="},
		{ruleFifo, Queue, pushed + "4-5 2 pop q = 1\n 6-7 2 pop q = 2", pushed + "4-5 2 pop q = 2\n 6-7 2 pop q = 1"},
		{ruleVain, Queue, "0-1 1 push q 1 = 1\n 2-3 2 pop q = 1", "0-1 1 push q 1 = 1\n 2-5 2 pop q = nil\n 6-7 2 pop q = 1"},
		{ruleBack, onThree(Probes), gone + "a" + offer + "b", "0-?1002 1@n1 seize k left,9000 gone" + offer + "b,a"},
		{ruleBackSoon, onThree(Probes), gone + "a" + offer + "b",
			gone + "b\n 1000-1001 3@n3 offer k left,a,b = 2\n 9100-9101 3@n3 rest k =\n 90000-90001 3@n3 rest k = a"},

		{ruleWoken, WakeUp, ear + "2-3 2 publish ch a = 1\n 4-5 1 message ch = a", ear + "2-3 2 publish ch a = 1\n 2500-2501 1 message ch = a"},
		{ruleMissed, WakeUp, ear + "2-3 2 count-publish ch a = 7\n 6-7 1 message ch = a,7", ear + "2-3 2 count-publish ch a = 7\n 6-7 1 message ch = a,8"},
		{ruleMissed, WakeUp,
			ear + "2-3 2 publish ch a = 1\n 2.5-3.5 3 listen ch = OK\n 4-5 2 publish ch b = 1\n 6-7 1 message ch = a\n 8-9 1 message ch = b\n 6-7 3 message ch = a\n 8-9 3 message ch = b",
			ear + "2-3 2 publish ch a = 1\n 2.5-3.5 3 listen ch = OK\n 4-5 2 publish ch b = 1\n 8-9 1 message ch = b\n 6-7 3 message ch = a\n 8-9 3 message ch = b"},
		{ruleHeardOnce, WakeUp, ear + "2-3 2 publish ch a = 1\n 4-5 1 message ch = a",
			ear + "2-3 2 publish ch a = 1\n 4-5 1 message ch = a\n 6-7 1 message ch = a"},
		{ruleMessages, WakeUp, ears + "4-5 3 message ch = a\n 6-7 3 message ch = b", ears + "4-5 3 message ch = b\n 6-7 3 message ch = a"},
		{ruleEndTold, Events, watch + "3-4 3 set k 100 = OK\n 103-104 1 message e = k", watch + "3-4 3 set k 100 = OK" + later},
		{ruleEndEarly, Events, watch + "3-4 3 set k 100 = OK\n 103-104 1 message e = k", watch + "3-4 3 set k 100 = OK\n 100-101 1 message e = k"},
		{ruleNoEnd, Events, watch + "3-4 3 set k 100 = OK\n 50-51 3 del k = 1", watch + "3-4 3 set k 100 = OK\n 50-51 3 del k = 1\n 105-106 1 message e = k"},
		{ruleNoEndMissed, Events,
			watch + "3-4 3 set k 100 = OK\n 3.5-4.5 2 listen e = OK\n 5-6 3 set j 200 = OK\n 110-111 1 message e = k\n 210-211 1 message e = j\n 110-111 2 message e = k\n 210-211 2 message e = j",
			watch + "3-4 3 set k 100 = OK\n 3.5-4.5 2 listen e = OK\n 5-6 3 set j 200 = OK\n 210-211 1 message e = j\n 110-111 2 message e = k\n 210-211 2 message e = j"},

		{ruleLockTold, Told, heard + "4-5 5 message e* = l " + g1 + "\n 20000-20001 9 history l = " + told(g1),
			heard + "4-5 5 message e* = l " + got2 + "\n 20000-20001 9 history l = " + told(g1)},
		{ruleLockSoon, Told, heard + "4-5 5 message e* = l " + g1 + "\n 20000-20001 9 history l = " + told(g1),
			heard + "2600-2601 5 message e* = l " + g1 + "\n 20000-20001 9 history l = " + told(g1)},
		{ruleLoss, Told, taken + "7-8 1 lost l = a,7,forced\n " + forced, taken + forced},
		{ruleWholeTold, Told, wholes + "4-5 5 message __lock@*__: = w1.1|3|flushed", wholes + "4-5 5 message __lock@*__: = w1.1|4|flushed"},
		{ruleLossEach, Told, "0-1 3 hello l = OK\n " + taken + "4-4.5 3 enter l a,500,0,w1.2 = 7\n 7-8 1 lost l = a,7,forced\n 9-10 3 cut l = OK\n" + forced,
			"0-1 3 hello l = OK\n " + hello + "4-4.5 3 enter l a,500,0,w1.2 = 7\n 5-6 2 force l ,r,,w2.1 = 1\n " + forced},
		{ruleForgotten, Told, hello + "4-5 1 forgot l =\n 6-7 2 force l ,r,,w2.1 = 1\n " + forced,
			hello + "4-5 1 forgot l =\n 6-7 2 force l ,r,,w2.1 = 1\n 8-9 1 lost l = a,7,forced\n " + forced},
		{ruleLossTrue, Told, taken + "7-8 1 lost l = a,7,forced\n " + forced, taken + "7-8 1 lost l = a,7,forced\n 9-10 1 lost l = a,7,forced\n " + forced},
		{ruleExpiringOnce, Told, taken + "7-8 1 expiring l = a,7,160\n 9-10 1 lost l = a,7,forced\n " + forced,
			taken + "7-8 1 expiring l = a,7,200\n 9-10 1 lost l = a,7,forced\n " + forced},
		{ruleExpiring, Told, hello + "340-341 1 expiring l = a,7,160\n " + expired, hello + expired},

		{ruleCircle, Owners, own + "2-3 1 enter g.0 t2,9000,100,,o1 = deadlock,o1 holds g.0 and waits for g.0",
			own + "2-3 1 enter g.0 t2,9000,100,,o1 = deadlock,o1 holds g.1 and waits for g.0"},
		{ruleDeadlock, manyOwners, own + "2-3 1 enter g.0 t2,9000,100,,o1 = deadlock,o1 holds g.0 and waits for g.0",
			twoOwners + "1000-4900 2 enter g.0 t4,9000,3890,,o2 = nil"},
		{ruleAllStuck, manyOwners, manyWait + "3000-3001 3 enter g.2 t6,9000,900,2,o3 = deadlock,o3 holds g.0 and waits for g.2, held by o1, which waits for g.0",
			strings.Replace(manyWait, "2 enter g.0 t5", "7 enter g.0 t5,9000,3990,,o7 = nil\n 7000-7001 2 enter g.0 t7", 1) +
				"3000-3001 3 enter g.2 t6,9000,900,2,o3 = deadlock,o3 holds g.0 and waits for g.2, held by o1, which waits for g.0"},
		{ruleOneThing, Owners, own + "2-3 1 enter g.0 t2,9000,100,,o1 = deadlock,o1 holds g.0 and waits for g.0",
			own + "2-3000 1 enter g.0 t2,9000,2990,,o1 = nil"},
		{ruleLongest, Owners, own + "4-5 2 enter g.1 t2,9000,100,,o2 = 8\n 6-7 9 list g = held|g.0|t1|o1|7,held|g.1|t2|o2|8",
			own + "4-5 2 enter g.1 t2,9000,100,,o2 = 8\n 6-7 9 list g = held|g.1|t2|o2|8,held|g.0|t1|o1|7"},
		{ruleNow, Owners, own + "4-5 9 info g.0 = held|g.0|t1|o1|7", own + "4-5 9 info g.0 = held|g.0|t1|o2|7"},
		{ruleShown, Owners, own + "2-3000 2 enter g.0 t2,9000,2990,,o2 = nil\n 1000-1001 9 info g.0 = held|g.0|t1|o1|7,waits|g.0|t2|o2",
			own + "2-3000 2 enter g.0 t2,9000,2990,,o2 = nil\n 1000-1001 9 info g.0 = held|g.0|t1|o1|7"},

		{ruleAgrees, Forensics, once + told(g1) + "\n 12-13 8 history l = " + told(g1),
			asked + "10-11 9 history l = " + told(g1, end1) + "\n 12-13 8 history l = " + told(g1, strings.Replace(end1, "1100", "1101", 1))},
		{ruleRemembers, Forensics, once + told(g1), once + told()},
		{ruleCaused, Forensics, once + told(g1), once + told(strings.Replace(g1, "w1.1", "w1.99", 1))},
		{ruleExact, Forensics, once + told(g1), once + told(strings.Replace(g1, "|500|", "|501|", 1))},
		{ruleOrdered, Forensics, "0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n 4-5 1 release l a,w1.3 = 1\n 10-11 9 history l = " + told(g1, end1),
			asked + "10-11 9 history l = " + told(g1, got2, end1)},
		{ruleWhole, Forensics, asked + "10-11 9 history l = " + told(g1, end1, got2), asked + "10-11 9 history l = " + told(g1, got2)},
		{ruleFence, Forensics, asked + "10-11 9 history l = " + told(g1, end1, got2),
			strings.Replace(asked, "= 9", "= 5", 1) + "10-11 9 history l = " + told(g1, end1, strings.Replace(got2, "|9|", "|5|", 1))},
		{ruleHanded, Forensics, handed + "= c,9\n 10-11 9 history l = " + told(g1, over1, got3), handed + "= c,7\n 10-11 9 history l = " + told(g1, over1, got3)},
		{ruleForce, Forensics, "0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n 4-5 2 force l ,r,9,w2.1 = 0\n 10-11 9 history l = " + told(g1),
			"0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n 4-5 2 force l ,r,7,w2.1 = 0\n 10-11 9 history l = " + told(g1)},
		{ruleWhy, Forensics, "0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n 3-4 8 why l a = held,7,,,\n 10-11 9 history l = " + told(g1),
			"0-0.5 9 history l = S\n 1-2 1 enter l a,500,0,w1.1 = 7\n 3-4 8 why l a = nothing,,,,\n 10-11 9 history l = " + told(g1)},
	}
	done := map[*Rule]bool{}
	for _, c := range cases {
		done[c.rule] = true
		tell := story
		if slices.Contains(c.rule.Workloads, "moments") {
			tell = momentStory
		}
		v := c.check(tell(t, c.stake))
		if v.AtStake[c.rule.ID] != 1 || len(v.Problems) > 0 {
			t.Errorf("%s was at stake %d times, problems %v, in\n%s", c.rule.ID, v.AtStake[c.rule.ID], v.Problems, c.stake)
		}
		if len(c.rule.Kinds) == 0 {
			continue
		}
		v = c.check(tell(t, c.breach))
		if !slices.ContainsFunc(v.Problems, func(p Problem) bool { return slices.Contains(c.rule.Kinds, p.Kind) }) {
			t.Errorf("%s is broken, and the problems are %v, in\n%s", c.rule.ID, v.Problems, c.breach)
		}
	}
	for _, r := range Rules {
		ofRun := r.Told && r.Kinds != nil && !slices.Contains([]*Rule{ruleSilence, ruleUndisturbed}, r)
		ofFaults := len(r.Workloads) == 0 && len(r.Need.Faults) > 0
		if !done[r] && !ofRun && !ofFaults {
			t.Errorf("no history puts %s at stake", r.ID)
		}
	}
}

// A rule that a fault judges while it lasts is at stake with each such fault.
func TestRulesOfFaults(t *testing.T) {
	for _, r := range Rules {
		if len(r.Workloads) > 0 || len(r.Need.Faults) == 0 || r.Counted {
			continue
		}
		for n := range 3 {
			h, v := &history.History{Asked: int64(time.Minute)}, &Verdict{}
			for range n {
				h.Faults = append(h.Faults, history.Window{Kind: r.Need.Faults[0]})
			}
			v.Weigh(h, "set", false)
			i := slices.IndexFunc(v.Stakes, func(s Stake) bool { return s.Rule == r })
			if (i >= 0) != (n > 0) || i >= 0 && (v.Stakes[i].Times != n || v.Stakes[i].Least != n) {
				t.Errorf("%s with %d faults: %+v", r.ID, n, v.Stakes)
			}
		}
	}
}

// A rule that faults count is at stake as often as they say, and undecided if none of them does.
func TestCountedRules(t *testing.T) {
	h := &history.History{Asked: int64(time.Minute)}
	for range 6 {
		h.Faults = append(h.Faults, history.Window{Kind: RuleClaims.Need.Faults[0]})
	}
	for _, n := range []int{0, 1, 2, 9} {
		v := &Verdict{}
		v.Stake(RuleClaims, n)
		v.Weigh(h, "set", false)
		i := slices.IndexFunc(v.Stakes, func(s Stake) bool { return s.Rule == RuleClaims })
		lacks := slices.ContainsFunc(v.Undecided, func(u string) bool { return strings.HasPrefix(u, RuleClaims.ID+" ") })
		if i < 0 || v.Stakes[i].Times != n || v.Stakes[i].Least != 2 || lacks != (n < 2) {
			t.Errorf("%d times: %+v, %q", n, v.Stakes, v.Undecided)
		}
	}
}

// What faults count are rules, and all that they must count.
func TestFaultsCountRules(t *testing.T) {
	counts := regexp.MustCompile(`found\.stake\(("[a-z-]+"|e\.rule)\)|rule: "([a-z-]+)"`)
	files, _ := filepath.Glob("../nemesis/*.go")
	counted := map[string]bool{RuleClaims.ID: true}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range counts.FindAllStringSubmatch(string(text), -1) {
			counted[strings.Trim(m[1]+m[2], `"`)] = true
		}
	}
	delete(counted, "e.rule")
	for _, r := range Rules {
		if r.Counted != counted[r.ID] {
			t.Errorf("%s: counted by faults: %v", r.ID, counted[r.ID])
		}
		delete(counted, r.ID)
	}
	for id := range counted {
		t.Errorf("faults count %s, which is no rule", id)
	}
}

// The table has each rule once, in the form that other pages refer to, and with each kind of problem that there is.
func TestRulesTable(t *testing.T) {
	seen, kinds := map[string]bool{}, map[string]bool{}
	for _, r := range Rules {
		if seen[r.ID] || !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(r.ID) || !strings.HasSuffix(r.Says, ".") {
			t.Errorf("%+v", *r)
		}
		seen[r.ID] = true
		for _, k := range r.Kinds {
			kinds[k] = true
			if !r.Late && isLate(k) {
				t.Errorf("%s: the problem %q is also one of a rule about times", r.ID, k)
			}
		}
		if r.Need.Faults != nil && (r.Need.Of < 1 || r.Need.In > 0) || r.Need.Times < 0 {
			t.Errorf("%s: %+v", r.ID, r.Need)
		}
	}
	used := regexp.MustCompile(`(?:\.Add|found\.add|judgeServing)\(\s*"([^"]+)"`)
	named := regexp.MustCompile(`(?m)^\s+(?:return|kind:) +"([a-z ]{6,})"`)
	files, _ := filepath.Glob("../*/*.go")
	top, _ := filepath.Glob("../*.go")
	found := 0
	for _, file := range append(files, top...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		matches := used.FindAllStringSubmatch(string(text), -1)
		if strings.Contains(file, "model/l") { // the names of machines and of what their answers break
			matches = append(matches, named.FindAllStringSubmatch(string(text), -1)...)
		}
		for _, m := range matches {
			if found++; !kinds[m[1]] && !slices.Contains([]string{"lock of a token", "a number", "nothing"}, m[1]) {
				t.Errorf("%s: no rule has the problem %q", file, m[1])
			}
		}
	}
	if found < 100 {
		t.Errorf("%d problems in all files", found)
	}
}
