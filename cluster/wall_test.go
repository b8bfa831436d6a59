package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/face"
	"lockd/cluster/request"

	"github.com/hashicorp/raft"
)

// wallSlack is how far the time of a cluster without delays may be behind the median of its clocks: what these may have
// drifted apart since they were heard.
const wallSlack = time.Millisecond

// timeAt is the time that a read at a node is told.
func timeAt(t *testing.T, n *testNode) time.Time {
	t.Helper()
	us, err := strconv.ParseInt(strings.TrimPrefix(n.do("TIME"), ":"), 10, 64)
	if err != nil {
		t.Fatalf("TIME at %s: %v", n.id, err)
	}
	return time.UnixMicro(us)
}

// stampAt is the time of the last entry that a node has applied.
func stampAt(n *testNode) time.Time {
	_, wall := n.state.GoOn()
	return time.UnixMicro(wall)
}

// nearly reports whether a time of the cluster is right: not ahead, and behind by at most slack.
func nearly(got, want time.Time, slack time.Duration) bool {
	return !got.After(want) && want.Sub(got) <= slack
}

// handTo moves the leadership to a node.
func (c *testCluster) handTo(id string) *testNode {
	c.t.Helper()
	for range 100 {
		lead := c.leader()
		if lead.id == id {
			return lead
		}
		_ = lead.elections.handOver(c.t.Context(), id)
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("%s does not come to lead", id)
	return nil
}

// With one clock of three wrong by a minute, whichever leads, reads and entries are told the right time on every node.
func TestOneWrongClock(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, -time.Minute} {
		for _, wrong := range []string{"n1", "n2", "n3"} {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 3)
				defer c.close()
				c.settle()
				c.nodes[wrong].clock.stepWall(step)
				time.Sleep(2 * face.SurveyEvery)
				for _, id := range []string{"n1", "n2", "n3"} {
					lead := c.handTo(id)
					c.expect(lead, "SET a 1", "+OK")
					if stamp := stampAt(lead); !nearly(stamp, time.Now(), wallSlack) {
						t.Errorf("%s wrong by %s, %s leads: the entry says %s", wrong, step, id, time.Until(stamp))
					}
					for _, n := range c.others(nil) {
						if told := timeAt(t, n); !nearly(told, time.Now(), wallSlack) {
							t.Errorf("%s wrong by %s, %s leads: TIME at %s is off by %s", wrong, step, id, n.id, time.Until(told))
						}
					}
				}
				for _, n := range c.others(nil) {
					if len(n.machine.backs) > 0 {
						t.Errorf("the time of entries went back: %v", n.machine.backs)
					}
				}
			})
		}
	}
}

// A lock that is taken and renewed until fixed moments, as rueidislock does, is held with any one clock wrong by a
// minute, through hand-overs and the death of a leader; it ends when it was to end, and not before.
func TestLockUntilAMoment(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, -time.Minute} {
		for _, wrong := range []string{"n1", "n2", "n3"} {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 3, withKeyspace)
				defer c.close()
				c.settle()
				c.nodes[wrong].clock.stepWall(step)
				time.Sleep(2 * face.SurveyEvery)
				var end time.Time
				until := func(d time.Duration) string {
					end = time.Now().Add(d).Truncate(time.Millisecond)
					return strconv.FormatInt(end.UnixMilli(), 10)
				}
				c.expect(c.nodes["n1"], "SET lock me NX PXAT "+until(5*time.Second), "+OK")
				for i := range 6 {
					c.handTo(fmt.Sprintf("n%d", 1+i%3))
					c.expect(c.nodes["n2"], "SET lock other NX PXAT "+until(5*time.Second), "_")
					c.expect(c.nodes["n1"], "GET lock", "$2 me")
					c.expect(c.nodes["n3"], "PEXPIREAT lock "+until(5*time.Second), ":1")
					left, want := ms(t, c.nodes["n2"].do("PTTL lock")), time.Until(end).Truncate(time.Millisecond)
					if left < want || left > want+2*wallSlack {
						t.Errorf("%s wrong by %s: %s are left of %s", wrong, step, left, want)
					}
					time.Sleep(time.Second)
				}
				c.expect(c.nodes["n1"], "SET lock me PXAT "+until(20*time.Second), "+OK")
				last := end
				dead := c.leader()
				c.kill(dead.id)
				if gone := goneAt(t, c, "lock"); gone.Before(last) || gone.After(last.Add(3*time.Second)) {
					t.Errorf("%s wrong by %s: the lock ended %s late", wrong, step, gone.Sub(last))
				}
				c.expect(c.leader(), "SET lock next NX PXAT "+until(time.Second), "+OK")
			})
		}
	}
}

// Clocks before 1970 and after what nodes can tell each other count as what they are: far off.
func TestAbsurdClocks(t *testing.T) {
	const year = 365 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		lead := c.settle()
		others := c.others(lead)
		others[0].clock.stepWall(-100 * year)
		others[1].clock.stepWall(290 * year)
		time.Sleep(2 * face.SurveyEvery)
		for id := range c.nodes {
			c.expect(c.handTo(id), "SET a 1", "+OK")
			if told := timeAt(t, c.nodes[id]); !nearly(told, time.Now(), wallSlack) {
				t.Errorf("%s leads: TIME is off by %s", id, time.Until(told))
			}
		}
	})
}

// Of two voters the clock that is behind counts. A dead third one outvotes a wrong one for an hour.
func TestTwoClocksLeft(t *testing.T) {
	for _, step := range []time.Duration{time.Minute, -time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3, forHours)
			defer c.close()
			lead := c.settle()
			dead, wrong := c.others(lead)[0], c.others(lead)[1]
			time.Sleep(2 * face.SurveyEvery)
			c.kill(dead.id)
			lead.clock.stepWall(step)
			lead = c.leader()
			time.Sleep(clock.VoterKept - time.Minute)
			if told := timeAt(t, lead); !nearly(told, time.Now(), time.Second) {
				t.Errorf("a clock wrong by %s outvotes the dead: TIME is off by %s", step, time.Until(told))
			}
			time.Sleep(5 * time.Minute)
			told := timeAt(t, lead)
			switch want := time.Now().Add(min(step, 0)); {
			case !nearly(told, want, wallSlack):
				t.Errorf("of two, one of which is wrong by %s: TIME is off by %s", step, time.Until(told))
			case wrong.figure("lockd_clock_offset_seconds") > time.Minute.Seconds():
				t.Error("the offset is wrong")
			}
		})
	}
}

// After a restart of all nodes the time is that of the clocks at once, however long they were down; if the clocks were
// set back meanwhile, it does not go back, and goes slower until they have caught up.
func TestTimeAfterRestartOfAll(t *testing.T) {
	for _, step := range []time.Duration{0, -20 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3, func(cfg *Config) { cfg.commitTimeout = time.Second })
			defer c.close()
			c.expect(c.settle(), "SET a 1", "+OK")
			before := time.Now()
			for _, n := range c.others(nil) {
				n.clock.stepWall(step)
				c.kill(n.id)
			}
			time.Sleep(10 * time.Minute)
			for id := range c.nodes {
				c.start(id)
			}
			lead := c.leader()
			c.expect(lead, "SET a 2", "+OK")
			began, stamp := time.Now(), stampAt(lead)
			if step == 0 {
				if !nearly(stamp, time.Now(), wallSlack) {
					t.Errorf("after the restart the time is off by %s", time.Until(stamp))
				}
				return
			}
			if stamp.Before(before.Add(-wallSlack)) || stamp.After(before.Add(time.Second)) {
				t.Errorf("the clocks are behind: an entry before was of %s, now it is %s", before, stamp)
			}
			if ahead := lead.figure("lockd_wall_clock_ahead_seconds"); ahead < 590 || ahead > 600 {
				t.Errorf("%v s ahead are shown", ahead)
			}
			behind := stamp.Sub(time.Now().Add(step)) // the clocks are, by so much
			time.Sleep(behind * clock.SlewPart / (clock.SlewPart - 1) / 2)
			if half := timeAt(t, lead).Sub(time.Now().Add(step)); half > behind/2+time.Second || half < behind/2-time.Second {
				t.Errorf("after half of the time %s of %s are left", half, behind)
			}
			time.Sleep(time.Until(began.Add(behind*clock.SlewPart/(clock.SlewPart-1) + time.Second)))
			if told := timeAt(t, lead); !nearly(told, time.Now().Add(step), wallSlack) {
				t.Errorf("it is not worked off: TIME differs by %s", told.Sub(time.Now().Add(step)))
			}
			if ahead := lead.figure("lockd_wall_clock_ahead_seconds"); ahead != 0 {
				t.Errorf("%v s ahead are shown", ahead)
			}
		})
	}
}

// A single node has its own clock, which is followed forwards at once, and never back, over restarts too.
func TestTimeOfASingleNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		lead := c.leader()
		told := timeAt(t, lead)
		if !told.Equal(time.Now()) {
			t.Errorf("TIME is off by %s", time.Until(told))
		}
		lead.clock.stepWall(time.Minute)
		c.expect(lead, "SET a 1", "+OK")
		if stamp := stampAt(lead); !stamp.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("stepped a minute forwards, the entry says %s", time.Until(stamp))
		}
		lead.clock.stepWall(-time.Hour)
		for range 3 {
			was := timeAt(t, lead)
			time.Sleep(8 * time.Second)
			if now := timeAt(t, lead); now.Sub(was) != time.Second {
				t.Errorf("stepped an hour back, TIME went on by %s in 8 s", now.Sub(was))
			}
			stamp := stampAt(lead)
			c.kill("n1")
			c.start("n1")
			lead = c.leader()
			if now := timeAt(t, lead); now.Before(stamp) {
				t.Errorf("after a restart TIME is %s, and an entry was of %s", now, stamp)
			}
			c.expect(lead, "SET a 1", "+OK")
		}
	})
}

// The clock of a member without a vote does not count, and it is told when it is off. With its vote it does: of two
// clocks the one that is behind.
func TestClockWithoutVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		lead, far := c.settle(), c.add("n2") // which does not run yet
		if err := lead.raft.AddNonvoter("n2", raft.ServerAddress(far.addr), 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		write := func() {
			for range 2 * promoteLagMax {
				c.expect(lead, "SET a 1", "+OK")
			}
		}
		for range 2 {
			write()
			c.expect(lead, "SAVE", "+OK") // it will get a snapshot, in which it is a member
		}
		write()
		far.disk.rate.Store(1 << 10) // and takes half a minute for the rest
		c.start("n2")
		far.clock.stepWall(-time.Minute)
		time.Sleep(5 * time.Second)
		if len(lead.raft.Voters()) != 1 || len(far.raft.Servers()) != 2 {
			t.Fatal("n2 has its vote already, or does not know that it is a member")
		}
		if off := far.figure("lockd_clock_offset_seconds"); off > -59.9 || off < -60.1 {
			t.Errorf("its offset is %v", off)
		}
		told := timeAt(t, lead)
		if !told.Equal(time.Now()) {
			t.Errorf("TIME is off by %s", time.Until(told))
		}
		far.disk.rate.Store(0)
		for len(lead.raft.Voters()) == 1 {
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		if now := timeAt(t, lead); !nearly(now, time.Now().Add(-time.Minute), wallSlack) || now.Before(told) {
			t.Errorf("with two votes TIME is off by %s", time.Until(now))
		}
	})
}

// What a read was shown no later leader is behind of, though no entry has it, and all clocks were set back meanwhile.
func TestShownTimeOutlivesItsLeader(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3)
			defer c.close()
			lead := c.settle()
			step := func(d time.Duration) {
				for _, n := range c.others(nil) {
					n.clock.stepWall(d)
				}
				time.Sleep(2 * face.SurveyEvery)
			}
			step(time.Hour)
			told := timeAt(t, lead)
			if !nearly(told, time.Now().Add(time.Hour), wallSlack) {
				t.Errorf("all clocks went forwards an hour, and TIME %s", time.Until(told))
			}
			step(-time.Hour)
			if dies {
				c.kill(lead.id)
				lead = c.leader()
			} else {
				lead = c.handTo(c.others(lead)[0].id)
			}
			if now := timeAt(t, lead); now.Before(told) || now.Sub(told) > time.Minute {
				t.Errorf("TIME was %s, and at the next leader %s", told, now)
			}
		})
	}
}

// A leader that was not told what an earlier one has shown hears it from a majority before it shows anything itself.
func TestShownTimeIsAskedFor(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3, func(cfg *Config) { cfg.Heartbeat = 200 * time.Millisecond })
			defer c.close()
			lead := c.settle()
			time.Sleep(2 * face.SurveyEvery)
			cut, asked := c.others(lead)[0], c.others(lead)[1]
			c.cut(cut)
			lead.clock.stepWall(time.Hour)
			asked.clock.stepWall(time.Hour)
			// The members have just asked each other: until they do again there is time for an election.
			time.Sleep(time.Until(time.Now().Truncate(face.SurveyEvery).Add(face.SurveyEvery + 10*time.Millisecond)))
			told := timeAt(t, lead)
			if !nearly(told, time.Now().Add(time.Hour), wallSlack+request.HedgeAfter) {
				t.Errorf("two clocks went forwards an hour, and TIME %s", time.Until(told))
			}
			lead.clock.stepWall(-time.Hour)
			asked.clock.stepWall(-time.Hour)
			asked.contacts.Resigned() // it leaves it to the other to stand for election
			c.kill(lead.id)
			c.net.Heal()
			for range 1000 {
				if cut.lead.Held() {
					break
				}
				asked.contacts.Resigned()
				time.Sleep(10 * time.Millisecond)
			}
			if !cut.lead.Held() {
				t.Fatal("the member that was not told has not come to lead")
			}
			if now := timeAt(t, c.leader()); now.Before(told) {
				t.Errorf("TIME was %s, and at the next leader %s", told, now)
			}
		})
	}
}

const wallFuzzSeeds = 3

// Clocks are set at random, leaders hand over, die, are cut off and come back: no client sees the time go back, at
// whatever node, nor does that of entries; and once everything is well the time is right.
func TestFuzzWall(t *testing.T) {
	for seed := range uint64(seeds(wallFuzzSeeds)) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fuzzWall(t, rand.New(rand.NewPCG(seed, 11))) })
		})
	}
}

func fuzzWall(t *testing.T, r *rand.Rand) {
	c := startCluster(t, 3+2*r.IntN(2), func(cfg *Config) { cfg.commitTimeout = time.Second })
	defer c.close()
	c.settle()
	ids := []string{"n1", "n2", "n3", "n4", "n5"}[:len(c.nodes)]
	var told time.Time
	looks := 0
	look := func() {
		up := c.others(nil)
		n := up[r.IntN(len(up))]
		line := []string{"TIME", "SET a 1"}[r.IntN(2)]
		reply := n.do(line)
		us, err := strconv.ParseInt(strings.TrimPrefix(reply, ":"), 10, 64)
		if err != nil {
			return // not TIME, or nobody leads
		}
		if now := time.UnixMicro(us); now.Before(told) {
			t.Errorf("TIME at %s is %s before what was told before", n.id, told.Sub(now))
		} else {
			told, looks = now, looks+1
		}
	}
	for range 60 {
		id := ids[r.IntN(len(ids))]
		n := c.nodes[id]
		switch r.IntN(6) {
		case 0, 1:
			if n.clock != nil {
				n.clock.stepWall(time.Duration(r.IntN(120)-60)*time.Second - n.clock.step)
			}
		case 2:
			if n.Node == nil {
				c.start(id)
			} else if len(c.others(nil)) > len(ids)/2+1 {
				c.kill(id)
			}
		case 3:
			if n.Node != nil && n.lead.Held() {
				_ = n.elections.handOver(t.Context(), "")
			}
		case 4:
			if n.Node != nil {
				c.cut(n)
			}
		case 5:
			c.net.Heal()
		}
		for range r.IntN(4) {
			look()
			time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
		}
	}
	c.net.Heal()
	for _, id := range ids {
		if c.nodes[id].Node == nil {
			c.start(id)
		}
	}
	time.Sleep(3 * time.Minute) // whatever the time was ahead is worked off
	var steps []time.Duration
	for _, n := range c.nodes {
		steps = append(steps, n.clock.step)
		if len(n.machine.backs) > 0 {
			t.Errorf("the time of entries went back by %v µs", n.machine.backs)
		}
	}
	if slices.Sort(steps); looks < 10 {
		t.Errorf("the time was told %d times", looks)
	}
	if now, want := timeAt(t, c.leader()), time.Now().Add(steps[len(steps)/2]); !nearly(now, want, wallSlack) {
		t.Errorf("in the end TIME is off by %s", now.Sub(want))
	}
}

// A node whose clock is off says so once a minute, in its log, INFO and its figures, and that it is right again.
func TestWrongClockIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, keep := warned()
		c := startCluster(t, 3, keep)
		defer c.close()
		c.settle()
		time.Sleep(2 * face.SurveyEvery)
		wrong := c.nodes["n2"]
		offset := func(n *testNode, want float64) {
			t.Helper()
			if got := n.figure("lockd_clock_offset_seconds"); got < want-0.01 || got > want+0.01 {
				t.Errorf("%s shows an offset of %v s, want %v", n.id, got, want)
			}
			if info := n.do("INFO raft"); !strings.Contains(info, fmt.Sprintf("clock_offset_ms:%d", int(want*1000))) {
				t.Errorf("%s: %s", n.id, info)
			}
		}
		wrong.clock.stepWall(-900 * time.Millisecond)
		time.Sleep(2 * face.SurveyEvery)
		offset(wrong, -0.9)
		wrong.clock.stepWall(-time.Minute + 900*time.Millisecond)
		time.Sleep(3*time.Minute + 2*face.SurveyEvery)
		for _, n := range c.others(nil) {
			want, lines := 0., 0
			if n == wrong {
				want, lines = -60, 4
			}
			offset(n, want)
			if got := logs[n.id].count("this node's wall clock is off"); got != lines {
				t.Errorf("%s said %d times that its clock is off: %q", n.id, got, logs[n.id].said)
			}
		}
		if logs["n2"].count("this node's wall clock is off", "-1m0s") != 4 {
			t.Errorf("%q", logs["n2"].said)
		}
		wrong.clock.stepWall(time.Minute)
		time.Sleep(2 * face.SurveyEvery)
		offset(wrong, 0)
		time.Sleep(2 * time.Minute)
		if logs["n2"].count("this node's wall clock is off") != 4 {
			t.Errorf("a clock that is right is said to be off: %q", logs["n2"].said)
		}
	})
}

// A leader whose time is ahead of the clocks says so, once a minute.
func TestTimeAheadIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, keep := warned()
		c := startCluster(t, 1, keep)
		defer c.close()
		lead := c.leader()
		c.expect(lead, "SET a 1", "+OK")
		lead.clock.stepWall(-10 * time.Minute)
		time.Sleep(70 * time.Second)
		if n := logs["n1"].count("the time of the cluster is ahead of its clocks"); n != 2 {
			t.Errorf("said %d times: %q", n, logs["n1"].said)
		}
		if info := lead.do("INFO raft"); !strings.Contains(info, "clock_ahead_ms:5") {
			t.Error(info)
		}
	})
}
