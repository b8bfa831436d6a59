package clock

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

// Members keeps the wall clocks of the members as this node has heard them. Each answer to a status question has one;
// the time of the cluster is the median of the voters' clocks, see DESIGN.md of cluster, "The wall clock". All methods
// may be called concurrently.
type Members struct {
	clock Clock
	raft  *group.Group
	lead  *CurrentTerm
	log   *slog.Logger
	peers *peer.Port

	logged loglimit.Limiter

	mu    sync.Mutex
	of    map[raft.ServerID]sample
	shown int64 // the latest time of the cluster that clients may have seen, in microseconds since 1970
	off   bool  // this node's clock was off at the last check
}

// NewMembers returns Members that have heard no clock. lead is this node's leadership, peers asks the others.
func NewMembers(clock Clock, raft *group.Group, lead *CurrentTerm, log *slog.Logger, peers *peer.Port) *Members {
	return &Members{clock: clock, raft: raft, lead: lead, log: log, peers: peers}
}

// sample says that a member's wall clock is ahead of this node's monotonic time by low to high microseconds. The
// width of the interval is the time that the answer took.
type sample struct {
	low, high int64
	at        time.Duration // monotonic: when it was made
}

const (
	// VoterKept is the time for which the clock of a voter counts after its last answer: it counts also if its node is
	// dead, and outvotes a wrong clock. In that time the error stays below offsetMax.
	VoterKept = time.Hour
	// driftPart bounds the drift between two clocks: a second in this number of seconds, 200 ppm.
	driftPart = 5000
	// offsetMax bounds the distance of a node's clock from the median of all; beyond it the clock is off.
	offsetMax = time.Second
)

// later returns the sample as of a later monotonic time, widened by the possible drift of the two clocks.
func (s sample) later(now time.Duration) sample {
	drift := max(0, (now-s.at)/driftPart).Microseconds()
	return sample{low: s.low - drift, high: s.high + drift, at: now}
}

// observe returns the sample of a clock that was read between two monotonic times.
func observe(wall int64, before, after time.Duration) sample {
	return sample{low: wall - after.Microseconds(), high: wall - before.Microseconds(), at: after}
}

// Ask asks a member for its status, records its clock, and tells it the latest time that clients may have seen.
func (c *Members) Ask(ctx context.Context, m raft.Server) (peer.Status, error) {
	before := c.clock.Monotonic()
	st, err := c.peers.Status(ctx, string(m.Address), c.Show(0))
	if err == nil && st.Wall > 0 {
		c.record(m.ID, observe(st.Wall, before, c.clock.Monotonic()))
	}
	c.Show(st.Shown)
	return st, err
}

// record stores a sample. It is intersected with the one before, which may be of a faster answer, unless the two
// exclude each other: then the clock was set.
func (c *Members) record(id raft.ServerID, s sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[raft.ServerID]sample{}
	}
	if last, ok := c.of[id]; ok {
		last = last.later(s.at)
		if joined := (sample{max(last.low, s.low), min(last.high, s.high), s.at}); joined.low <= joined.high {
			s = joined
		}
	}
	c.of[id] = s
}

// Show records that clients may see a time of the cluster from now on, and returns the latest such time.
func (c *Members) Show(us int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = max(c.shown, min(us, peer.WallMax))
	return c.shown
}

// Wall returns this node's own clock, within the range of the protocol between nodes.
func (c *Members) Wall() int64 { return min(max(c.clock.Wall(), 1), peer.WallMax) }

// own observes this node's clock.
func (c *Members) own() sample {
	before := c.clock.Monotonic()
	return observe(c.Wall(), before, c.clock.Monotonic())
}

// median returns the median of the voters' clocks that were heard lately, the lower one of an even number; known
// reports that they are a majority. The true median is within the sample, as each clock is within its own.
func (c *Members) median() (m sample, known bool) {
	voters, own := c.raft.Voters(), c.own()
	lows, highs := make([]int64, 0, len(voters)), make([]int64, 0, len(voters))
	c.mu.Lock()
	for _, v := range voters {
		s, ok := c.of[v.ID]
		if v.ID == c.raft.Self {
			s, ok = own, true
		}
		if ok && own.at-s.at < VoterKept {
			s = s.later(own.at)
			lows, highs = append(lows, s.low), append(highs, s.high)
		}
	}
	c.mu.Unlock()
	if len(lows) <= len(voters)/2 {
		return sample{}, false
	}
	slices.Sort(lows)
	slices.Sort(highs)
	middle := (len(lows) - 1) / 2
	return sample{lows[middle], highs[middle], own.at}, true
}

// Now returns the lowest possible median of the clocks, in microseconds since 1970: a lease that ends at a time of day
// rather ends late than early.
func (c *Members) Now() (us int64, known bool) {
	m, known := c.median()
	return max(m.low+m.at.Microseconds(), 0), known
}

// Offset returns the time by which this node's clock is ahead of the median, and the possible error of that. It is not
// known before a majority of the voters was heard.
func (c *Members) Offset() (ahead, wrong time.Duration, known bool) {
	own := c.own()
	m, known := c.median()
	ahead = time.Duration(own.low-(m.low+m.high)/2) * time.Microsecond
	return ahead, time.Duration(m.high-m.low) * time.Microsecond / 2, known
}

// Check logs a clock that is off: this node's, and the cluster's while it waits for the median. It forgets the clocks of
// nodes that are no longer members.
func (c *Members) Check() {
	c.forget()
	ahead, wrong, known := c.Offset()
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
		if ahead := lead.Wall.Ahead(); ahead > offsetMax {
			c.warn("the time of the cluster is ahead of its clocks, and goes slower until they have caught up", "ahead", ahead)
		}
	}
}

func (c *Members) warn(what, name string, d time.Duration) {
	if suppressed, ok := c.logged.Allow(what); ok {
		c.log.Warn(what, name, d.Round(time.Millisecond).String(), "suppressed", suppressed)
	}
}

func (c *Members) forget() {
	servers := c.raft.Servers()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.of {
		if !slices.ContainsFunc(servers, func(s raft.Server) bool { return s.ID == id }) {
			delete(c.of, id)
		}
	}
}
