package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockd/resp"
	"lockd/resp/lockuse"
)

// Programs of the tests. web-1 and web-2 have names, and each has two connections; the others are told
// apart by their addresses alone.
var (
	web1  = resp.Client{ID: 1, Name: "web-1", Addr: "10.0.0.1:5001", Node: "n1"}
	web1b = resp.Client{ID: 2, Name: "web-1", Addr: "10.0.0.1:5002", Node: "n1"}
	web2  = resp.Client{ID: 1, Name: "web-2", Addr: "10.0.0.1:6001", Node: "n2"}
	job1  = resp.Client{ID: 3, Addr: "10.0.0.3:7001", Node: "n1"}
	job1b = resp.Client{ID: 4, Addr: "10.0.0.3:7002", Node: "n1"}
	job2  = resp.Client{ID: 5, Addr: "10.0.0.4:7001", Node: "n2"}
)

// story is a case that a test tells. A grant is named by its fence.
type story struct {
	events []Event
	report lockuse.Report
}

func (s *story) grant(fence uint64, atMs int64, key, token string, by *resp.Client) *Event {
	s.events = append(s.events, Event{
		Kind: Granted, Key: key, Token: token, Fence: fence, AtMs: atMs, By: "set", Client: by, LeaseMs: 100,
	})
	return &s.events[len(s.events)-1]
}

func (s *story) end(kind Kind, fence uint64, atMs int64, by *resp.Client) {
	for _, g := range s.events {
		if g.Kind == Granted && g.Fence == fence {
			g.Kind, g.AtMs, g.By, g.Client, g.HeldMs = kind, atMs, "del", by, atMs-g.AtMs
			s.events = append(s.events, g)
			return
		}
	}
	panic("no such grant")
}

func (s *story) sees(kind lockuse.Kind, atMs int64, key string, by resp.Client, tokens ...string) {
	x := lockuse.Observation{Kind: kind, Key: key, Hash: lockuse.Hash(key), AtMs: atMs, Count: 1, Client: by}
	for _, t := range tokens {
		x.Tokens = append(x.Tokens, lockuse.Hash(t))
	}
	s.report.Node = by.Node
	s.report.Observations = append(s.report.Observations, x)
}

func (s *story) tell(nowMs int64) *Case {
	c := New(s.report, nowMs)
	for i := range s.events {
		c.Add(&s.events[i])
	}
	return c
}

// names lists findings as "mistake template count".
func names(list []Finding) []string {
	var all []string
	for _, f := range list {
		all = append(all, fmt.Sprint(f.Mistake, " ", f.Template, " ", f.Count))
	}
	return all
}

func TestFindings(t *testing.T) {
	for _, tt := range []struct {
		name string
		tell func(s *story)
		want []string
	}{
		{"locks that are taken and released", func(s *story) {
			for i := range uint64(50) {
				at := int64(100 * i)
				s.grant(i, at, "l1", fmt.Sprint("t", i), &web1)
				s.end(Released, i, at+50, &web1b)
			}
		}, nil},
		{"a holder dies", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 110, "l1", "t2", &web2)
			s.end(Released, 2, 150, &web2)
		}, nil},
		{"a DEL that comes late", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 110, "l1", "t2", &web2)
			s.end(Deleted, 2, 150, &web1b)
		}, []string{"del-of-anothers-lock l* 1"}},
		{"the same, without names", func(s *story) {
			s.grant(1, 0, "l1", "t1", &job1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 110, "l1", "t2", &job1b)
			s.end(Deleted, 2, 150, &job1)
		}, []string{"del-of-anothers-lock l* 1"}},
		{"a pool frees by another connection", func(s *story) {
			for i := range uint64(9) {
				at := int64(100 * i)
				s.grant(i, at, "l1", fmt.Sprint("t", i), &job1)
				s.end(Deleted, i, at+50, &job1b)
			}
		}, nil},
		{"a worker deletes what a server has taken for it", func(s *story) {
			for i := range uint64(9) {
				at := int64(100 * i)
				s.grant(i, at, "unique:1", fmt.Sprint("t", i), &web1)
				s.end(Deleted, i, at+50, &job2)
			}
		}, nil},
		{"a limit that is lifted now and then", func(s *story) {
			for i := range uint64(9) {
				at := int64(1000 * i)
				s.grant(i, at, "pause:1", "1", &job1)
				if i == 5 {
					s.end(Deleted, i, at+50, &job2)
				} else {
					s.end(Expired, i, at+100, nil)
				}
			}
		}, nil},
		{"one token for all", func(s *story) {
			for i, by := range []*resp.Client{&web1, &web2, &web1} {
				at := int64(100 * i)
				s.grant(uint64(i), at, "l1", "secret", by)
				s.end(Released, uint64(i), at+50, by)
			}
		}, []string{"constant-token l* 3"}},
		{"a flag for a token", func(s *story) {
			for i := range uint64(3) {
				at := int64(100 * i)
				s.grant(i, at, "l1", "1", &job1)
				s.end(Released, i, at+50, &job1)
			}
		}, []string{"constant-token l* 3"}},
		{"the token is the name of the one leader", func(s *story) {
			for i := range uint64(9) {
				at := int64(100 * i)
				s.grant(i, at, "leader", "pod-7", &job1)
				s.end(Released, i, at+50, &job1b)
			}
		}, nil},
		{"a script that stores a flag", func(s *story) {
			for i := range uint64(9) {
				at := int64(100 * i)
				s.grant(i, at, "latch:1", "1", &job1).Script = true
				s.end(Deleted, i, at+50, &job1)
			}
		}, nil},
		{"a mark that ends by itself", func(s *story) {
			for i := range uint64(9) {
				s.grant(i, int64(i), fmt.Sprint("seen:", i), "1", &job1)
				s.end(Expired, i, int64(i)+100, nil)
			}
		}, nil},
		{"a token of two", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 110, "l1", "t1", &web2)
			s.end(Released, 2, 150, &web1)
			s.grant(3, 160, "l1", "t3", &web1)
			s.end(Released, 3, 190, &web1)
		}, []string{"shared-token l* 1"}},
		{"a release that comes late", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.sees(lockuse.Missed, 350, "l1", web1b, "t1")
			s.sees(lockuse.Missed, 400, "l1", web1, "t1", "50")
		}, []string{"late-release l* 1"}},
		{"a release that comes twice", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Released, 1, 50, &web1)
			s.sees(lockuse.Missed, 60, "l1", web1, "t1")
		}, nil},
		{"a release of what was never got", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.sees(lockuse.Missed, 150, "l1", web2, "t2")
		}, nil},
		{"a try before the lock was got", func(s *story) {
			s.sees(lockuse.Missed, 9000, "l1", web1, "pod-7")
			s.grant(1, 0, "l1", "pod-7", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 9010, "l1", "pod-7", &web1)
		}, nil},
		{"a release that was sent before the lock was got", func(s *story) {
			s.sees(lockuse.Missed, 5000, "l1", web1, "t1")
			s.grant(1, 5010, "l1", "t1", &web1)
			s.end(Expired, 1, 5110, nil)
		}, nil},
		{"a script that answers 0 when it has renewed", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.sees(lockuse.Missed, 59_900, "l1", web1, "t1")
			s.end(Expired, 1, 60_000, nil) // its client has died
		}, nil},
		{"a DEL of nothing", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Released, 1, 20, &web1)
			s.grant(2, 100, "l1", "t2", &web1)
			s.end(Expired, 2, 200, nil)
			s.sees(lockuse.MissedDel, 350, "l1", web1)
			s.sees(lockuse.MissedDel, 350, "l1", web2)
		}, []string{"late-release l* 1"}},
		{"a renewal without PX", func(s *story) {
			s.sees(lockuse.LeaseDropped, 50, "l1", web1, "t1")
			s.sees(lockuse.LeaseDropped, 50, "data", web1, "v")
			s.grant(1, 0, "l1", "t1", &web1)
		}, []string{"renewal-drops-lease l* 1"}},
		{"another's lease is lengthened", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 110, "l1", "t2", &web2)
			s.sees(lockuse.Extended, 150, "l1", web1, "t1")
		}, []string{"expire-of-anothers-lock l* 1"}},
		{"another's lease is lengthened, and it is lost later", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 110, "l1", "t2", &web2)
			s.end(Released, 2, 160, &web2)
			s.sees(lockuse.Extended, 150, "l1", web1, "t1")
		}, []string{"expire-of-anothers-lock l* 1"}},
		{"one's own lease is lengthened late, as the log clock stood still", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.sees(lockuse.Extended, 150, "l1", web1, "t1")
			s.end(Expired, 1, 300, nil)
			s.grant(2, 310, "l1", "t2", &web2)
		}, nil},
		{"it is lengthened before another has it, or afterwards", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 160, "l1", "t2", &web2)
			s.end(Released, 2, 180, &web2)
			s.sees(lockuse.Extended, 150, "l1", web1, "t1")
			s.sees(lockuse.Extended, 190, "l1", web1, "t1")
		}, nil},
		{"a pool lengthens by another connection", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 110, "l1", "t2", &web1b)
			s.sees(lockuse.Extended, 150, "l1", web1, "t1")
		}, nil},
		{"a mark that two programs set alike", func(s *story) {
			s.grant(1, 0, "l1", "on", &web1)
			s.end(Expired, 1, 100, nil)
			s.grant(2, 110, "l1", "on", &web2)
			s.sees(lockuse.Extended, 150, "l1", web1, "on")
		}, nil},
		{"a lock that was released", func(s *story) {
			s.grant(1, 0, "l1", "t1", &web1)
			s.end(Released, 1, 90, &web1b)
			s.grant(2, 110, "l1", "t2", &web2)
			s.sees(lockuse.Extended, 150, "l1", web1, "t1")
		}, nil},
		{"get and set, twice", func(s *story) {
			s.sees(lockuse.GetThenSet, 1, "l1", web1, "t")
			s.report.Observations[0].Count = twoStepsMin - 1
		}, nil},
		{"get and set, again and again", func(s *story) {
			s.sees(lockuse.GetThenSet, 1, "l1", web1, "t")
			s.report.Observations[0].Count = twoStepsMin
		}, []string{"get-then-set l* 3"}},
		{"what is certain when it is seen", func(s *story) {
			s.sees(lockuse.LeaseAfterwards, 1, "l1", web1, "t")
			s.sees(lockuse.NoLease, 1, "l2", web1, "t")
			s.sees(lockuse.Polls, 1, "l3", web1, "t")
			s.sees(lockuse.GetThenDel, 1, "l4", web1, "t")
		}, []string{"setnx-without-lease l* 1", "setnx-then-expire l* 1", "get-then-del l* 1", "fast-polling l* 1"}},
		{"Redlock over the nodes", func(s *story) {
			for i := range uint64(3) {
				at, token := int64(1000*i), fmt.Sprint("t", i)
				s.sees(lockuse.Refused, at+1, "l1", web1, token)
				by := web1b
				by.Node = "n2"
				s.grant(i, at, "l1", token, &by)
				s.end(Released, i, at+5, &by)
			}
		}, []string{"redlock-masters l* 3"}},
		{"a retry by another node", func(s *story) {
			s.sees(lockuse.Refused, 1, "l1", web1, "t1")
			s.sees(lockuse.Refused, 1, "l2", web1, "t2")
			for i := range uint64(2) {
				by := web1b
				by.Node = "n2"
				s.grant(i+1, 0, fmt.Sprint("l", i+1), fmt.Sprint("t", i+1), &by)
			}
		}, nil},
		{"retries by another node in several failovers", func(s *story) {
			by := web1b
			by.Node = "n2"
			for i := range uint64(3) {
				at, token := int64(10_000*i), fmt.Sprint("t", i)
				s.sees(lockuse.Refused, at+1, "l1", by, token)
				s.grant(10*i, at, "l1", token, &web1)
				s.end(Released, 10*i, at+5, &web1)
				for j := range uint64(3) {
					s.grant(10*i+j+1, at+10, "l1", fmt.Sprint("u", i, j), &by)
					s.end(Released, 10*i+j+1, at+15, &by)
				}
			}
		}, nil},
		{"polls with one token", func(s *story) {
			for i := range uint64(9) {
				s.sees(lockuse.Refused, int64(i)*1000, "l1", web1, fmt.Sprint("t", i))
				s.grant(i, int64(i)*1000+500, "l1", fmt.Sprint("t", i), &web1b)
				s.end(Released, i, int64(i)*1000+600, &web1b)
			}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &story{}
			tt.tell(s)
			found := s.tell(100_000).Findings()
			if got := names(found); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			for _, f := range found {
				if says := f.Sentence(); strings.Contains(says, "$") || strings.Count(says, ".") < 1 || !strings.HasSuffix(says, ".") {
					t.Errorf("%s", says)
				}
			}
		})
	}
}

// A watchdog that renews for ever is told from a leader, and from work that takes long.
func TestZombies(t *testing.T) {
	for _, tt := range []struct {
		name     string
		others   int
		tell     func(s *story)
		renewals uint64
		want     int
	}{
		{"far longer than others", 30, func(*story) {}, 500, 1},
		{"there are no others", 0, func(*story) {}, 500, 0},
		{"it is not renewed", 30, func(*story) {}, 0, 0},
		{"its program goes on", 30, func(s *story) { s.grant(1000, 5000, "l2", "t", &web1b) }, 500, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &story{}
			for i := range tt.others {
				s.grant(uint64(i), int64(i), "l1", fmt.Sprint("t", i), &web2)
				s.end(Released, uint64(i), int64(i)+40, &web2)
			}
			s.grant(999, 4000, "l1", "zombie", &web1)
			tt.tell(s)
			c := s.tell(4000 + zombieMs)
			for _, x := range c.Suspects() {
				x.Renewed(c, tt.renewals)
			}
			if got := c.Findings(); len(got) != tt.want || tt.want == 1 && (got[0].Mistake != Zombie || got[0].Ms != zombieMs) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// The end of a database ends its holds alone, also one whose fence another database had. SWAPDB is the end of two.
func TestEndOfDatabase(t *testing.T) {
	s := &story{}
	s.report.Observations = []lockuse.Observation{{Key: "l1", Hash: lockuse.Hash("l1")}}
	for fence, db := range []int{0, 1, 2, 1, 0, 1} {
		s.grant(uint64(fence), 10, "l1", fmt.Sprint("t", fence), &web1).DB = db
	}
	s.grant(4, 20, "l1", "t4", &web1).DB = 2 // MOVE: the fence goes along
	s.end(Released, 5, 25, &web1)
	c := s.tell(100)
	ends := func() string {
		all := ""
		for _, h := range c.observed[lockuse.Hash("l1")] {
			all += fmt.Sprint(" ", h.db, ":", h.fence, ":", h.end, ":", h.toMs)
		}
		return all
	}
	for _, x := range []struct {
		db   int
		want string
	}{
		{0, " 0:0:5:30 1:1:0:0 2:2:0:0 1:3:0:0 0:4:0:0 1:5:2:25 2:4:0:0"},
		{3, " 0:0:5:30 1:1:0:0 2:2:0:0 1:3:0:0 0:4:0:0 1:5:2:25 2:4:0:0"},
		{1, " 0:0:5:30 1:1:5:32 2:2:0:0 1:3:5:32 0:4:0:0 1:5:2:25 2:4:0:0"},
		{2, " 0:0:5:30 1:1:5:32 2:2:5:33 1:3:5:32 0:4:0:0 1:5:2:25 2:4:5:33"},
		{0, " 0:0:5:30 1:1:5:32 2:2:5:33 1:3:5:32 0:4:0:0 1:5:2:25 2:4:5:33"},
	} {
		c.Add(&Event{Kind: AllEnded, DB: x.db, AtMs: c.nowMs - 70})
		if got := ends(); got != x.want {
			t.Errorf("database %d:\n%s, want\n%s", x.db, got, x.want)
		}
		c.nowMs++
	}
	if len(c.open.byFence) > 0 || len(c.open.byDB) > 0 {
		t.Errorf("%+v", c.open)
	}
}

// Each hold is ended once, however often databases are flushed.
func TestEndsOfDatabasesAreLinear(t *testing.T) {
	const many = 2000
	c, steps := New(lockuse.Report{}, 100), 0
	add := func(e Event) {
		if e.Kind == AllEnded {
			steps += len(c.open.byDB[e.DB])
		}
		c.Add(&e)
	}
	for i := range uint64(many) {
		add(Event{Kind: Granted, DB: 1, Key: "l1", Token: "t", Fence: 2*i + 1})
		add(Event{Kind: Granted, DB: 2, Key: "l1", Token: "t", Fence: 2*i + 2})
		add(Event{Kind: Released, DB: 2, Key: "l1", Token: "t", Fence: 2*i + 2})
	}
	if left := len(c.open.byFence); left != many || len(c.open.byDB[1]) != many || len(c.open.byDB[2]) != 0 {
		t.Fatalf("%d of %d are open, by database %d and %d", left, many, len(c.open.byDB[1]), len(c.open.byDB[2]))
	}
	for range many {
		for db := range 3 {
			if db != 1 {
				add(Event{Kind: AllEnded, DB: db})
			}
		}
	}
	for range many {
		add(Event{Kind: AllEnded, DB: 1})
	}
	if steps != many {
		t.Errorf("%d steps for %d holds", steps, many)
	}
}

// Others who want a key that has no lease show that it is a lock, unless they would store the same.
func TestNoLease(t *testing.T) {
	s := &story{}
	s.sees(lockuse.StillTaken, 1, "l1", web1, "mine")
	c := s.tell(100)
	for _, x := range c.StillTaken() {
		c.NoLease(x, "mine")
	}
	if got := c.Findings(); got != nil {
		t.Errorf("%+v", got)
	}
	c = s.tell(100)
	for _, x := range c.StillTaken() {
		c.NoLease(x, "another's")
	}
	want := "l* is taken without a lease (once, such as l1 by web-1): if a holder dies, nobody gets it any more; take it by SET key token NX PX milliseconds."
	if got := c.Findings(); len(got) != 1 || got[0].Sentence() != want {
		t.Errorf("%+v", got)
	}
}

func TestAdvice(t *testing.T) {
	s := &story{}
	for i := range uint64(100) {
		at := int64(1000 * i)
		g := s.grant(i, at, "l"+strconv.Itoa(int(i)), fmt.Sprint("t", i), &web1)
		g.By, g.WaitedMs, g.LeaseMs = "lock", int64(i), 5000
		s.end(Released, i, at+int64(i)+1, &web1)
	}
	s.grant(200, 200_000, "l200", "late", &web1)
	s.end(Expired, 200, 200_100, nil)
	s.sees(lockuse.Missed, 200_350, "l200", web1, "late")
	s.grant(300, 300_000, "one", "t", &web1)
	s.events = append(s.events, Event{Kind: AllEnded, AtMs: 300_001}, Event{Kind: Waited, Key: "one", WaitedMs: 7})
	c := s.tell(400_000)
	c.Findings()
	want := []Advice{
		{"l*", 101, 1, 1, Spread{51, 100, 350}, Spread{49, 98, 99}, 5000, 600},
		{"one", 1, 0, 0, Spread{-1, -1, -1}, Spread{7, 7, 7}, 100, -1},
	}
	if got := c.Advice(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A client that makes up names does not fill the table.
func TestTemplatesAreBounded(t *testing.T) {
	s := &story{}
	for i := range uint64(1000) {
		s.grant(i, 0, "lock-"+strings.Repeat("x", int(i)%100)+strings.Repeat("y", int(i)/100), "t", &web1)
	}
	c := s.tell(1)
	c.Findings()
	if got := c.Advice(); len(got) != templatesMax+1 || got[0].Template != others {
		t.Errorf("%d templates, first %+v", len(got), got[0])
	}
}
