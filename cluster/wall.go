package cluster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/group"
	"lockd/cluster/peer"
	"lockd/internal/loglimit"
)

// clocks is what this node knows of the members' wall clocks. Each answer to a status question tells one; the cluster's
// time is the median of those of the voters, see DESIGN.md, "The wall clock". All methods may be called concurrently.
type clocks struct {
	clock Clock
	raft  *group.Group
	lead  *currentTerm
	log   *slog.Logger
	peers *peer.Port

	logged loglimit.Limiter

	mu    sync.Mutex
	of    map[raft.ServerID]observation
	shown int64 // the latest time of the cluster that clients may have been shown, in microseconds since 1970
	off   bool  // this node's clock was off at the last check
}

func newClocks(clock Clock, raft *group.Group, lead *currentTerm, log *slog.Logger, peers *peer.Port) *clocks {
	return &clocks{clock: clock, raft: raft, lead: lead, log: log, peers: peers}
}

// observation says how far a member's wall clock is ahead of this node's monotonic time: between low and high
// microseconds. How far the two are apart depends on how long the answer took.
type observation struct {
	low, high int64
	at        time.Duration // monotonic: when it was true
}

const (
	// sightingKept is how long the clock of a voter counts after its last answer: it goes on, also where its node is
	// dead, and outvotes a wrong one. In that time the error stays below offsetMax.
	sightingKept = time.Hour
	// driftPart bounds by how much two clocks drift apart: a second in so many seconds, 200 ppm.
	driftPart = 5000
	// offsetMax is how far a node's clock may be from the median of all before it is called off.
	offsetMax = time.Second
)

// later is what an observation is good for at a later monotonic time.
func (s observation) later(now time.Duration) observation {
	drift := max(0, (now-s.at)/driftPart).Microseconds()
	return observation{low: s.low - drift, high: s.high + drift, at: now}
}

// observe is the observation of a clock that was read between two monotonic times.
func observe(wall int64, before, after time.Duration) observation {
	return observation{low: wall - after.Microseconds(), high: wall - before.Microseconds(), at: after}
}

// ask asks a member for its status, notes its clock, and tells it which time clients may have been shown.
func (c *clocks) ask(ctx context.Context, m raft.Server) (peer.Status, error) {
	before := c.clock.Monotonic()
	st, err := c.peers.Status(ctx, string(m.Address), c.show(0))
	if err == nil && st.Wall > 0 {
		c.saw(m.ID, observe(st.Wall, before, c.clock.Monotonic()))
	}
	c.show(st.Shown)
	return st, err
}

// saw notes an observation. It is joined with the one before, which may have been of an answer that took less time, unless
// the two exclude each other: then the clock was set.
func (c *clocks) saw(id raft.ServerID, s observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[raft.ServerID]observation{}
	}
	if last, ok := c.of[id]; ok {
		last = last.later(s.at)
		if joined := (observation{max(last.low, s.low), min(last.high, s.high), s.at}); joined.low <= joined.high {
			s = joined
		}
	}
	c.of[id] = s
}

// show notes that clients may be shown a time of the cluster from now on, and returns the latest such time.
func (c *clocks) show(us int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = max(c.shown, min(us, peer.WallMax))
	return c.shown
}

// wall is this node's own clock, within what nodes can tell each other.
func (c *clocks) wall() int64 { return min(max(c.clock.Wall(), 1), peer.WallMax) }

// own is the observation of this node's clock.
func (c *clocks) own() observation {
	before := c.clock.Monotonic()
	return observe(c.wall(), before, c.clock.Monotonic())
}

// median is the median of the voters' clocks that were heard lately, the lower one of an even number; known: they are a
// majority. The true median is within the observation, as each clock is within its own.
func (c *clocks) median() (m observation, known bool) {
	voters, own := c.raft.Voters(), c.own()
	lows, highs := make([]int64, 0, len(voters)), make([]int64, 0, len(voters))
	c.mu.Lock()
	for _, v := range voters {
		s, ok := c.of[v.ID]
		if v.ID == c.raft.Self {
			s, ok = own, true
		}
		if ok && own.at-s.at < sightingKept {
			s = s.later(own.at)
			lows, highs = append(lows, s.low), append(highs, s.high)
		}
	}
	c.mu.Unlock()
	if len(lows) <= len(voters)/2 {
		return observation{}, false
	}
	slices.Sort(lows)
	slices.Sort(highs)
	middle := (len(lows) - 1) / 2
	return observation{lows[middle], highs[middle], own.at}, true
}

// now is the least that the median of the clocks can be, in microseconds since 1970: a time at which a lease ends is
// rather reached late than early.
func (c *clocks) now() (us int64, known bool) {
	m, known := c.median()
	return max(m.low+m.at.Microseconds(), 0), known
}

// offset is how far this node's clock is ahead of the median, and how far that may be wrong. It is not known before a
// majority of the voters was heard.
func (c *clocks) offset() (ahead, wrong time.Duration, known bool) {
	own := c.own()
	m, known := c.median()
	ahead = time.Duration(own.low-(m.low+m.high)/2) * time.Microsecond
	return ahead, time.Duration(m.high-m.low) * time.Microsecond / 2, known
}

// check logs a clock that is off: this node's, and that of the cluster while it waits for the median. It forgets the
// clocks of those that are no members any more.
func (c *clocks) check() {
	c.forget()
	ahead, wrong, known := c.offset()
	off := known && ahead.Abs()-wrong > offsetMax
	c.mu.Lock()
	was := c.off
	c.off = off
	c.mu.Unlock()
	if off {
		c.warn("this node's wall clock is off: set it right, and keep it so, as by NTP", "ahead", ahead)
	} else if was && known {
		c.log.Info("this node's wall clock is right again", "ahead", ahead.Round(time.Millisecond).String())
	}
	if lead := c.lead.Load(); lead != nil {
		if ahead := lead.wall.ahead(); ahead > offsetMax {
			c.warn("the time of the cluster is ahead of its clocks, and goes slower until they have caught up", "ahead", ahead)
		}
	}
}

func (c *clocks) warn(what, name string, d time.Duration) {
	if suppressed, ok := c.logged.Allow(what); ok {
		c.log.Warn(what, name, d.Round(time.Millisecond).String(), "suppressed", suppressed)
	}
}

func (c *clocks) forget() {
	servers := c.raft.Servers()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.of {
		if !slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id }) {
			delete(c.of, id)
		}
	}
}
