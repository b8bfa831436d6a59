package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/followers"
)

// slowCommits has Raft itself tell a commit late, or with the next entry.
func slowCommits(cfg *Config) { cfg.commitTimeout = time.Minute }

// announced checks that the others have applied what the leader has, as soon as they may
// have heard that they can.
func (c *testCluster) announced(lead *testNode) {
	c.t.Helper()
	time.Sleep(2 * followers.AnnouncePause)
	for _, n := range c.others(lead) {
		if got, want := n.state.Applied.Load(), lead.state.Applied.Load(); got != want {
			c.t.Errorf("%s has applied %d entries %s after the leader's %d", n.id, got, 2*followers.AnnouncePause, want)
		}
	}
}

// The others hear at once that an entry is committed, the last one of many too.
func TestCommitIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, slowCommits)
		defer c.close()
		lead := c.leader()
		for range 3 {
			for range 10 {
				c.expect(lead, "INCR k", ":"+lead.do("INCR n")[1:])
			}
			c.announced(lead)
			time.Sleep(time.Second)
		}
	})
}

// A member that lacks the entry is not told, and hears of it when it has caught up; a new
// leader announces as the old one did.
func TestCommitIsAnnouncedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, slowCommits)
		defer c.close()
		lead := c.leader()
		away := c.others(lead)[0]
		c.cut(away)
		c.expect(lead, "SET k v", "+OK")
		time.Sleep(time.Second)
		c.net.Heal()
		time.Sleep(5 * time.Second)
		next := c.leader()
		c.expect(next, "SET k w", "+OK")
		c.announced(next)
		next.do("LOCKD TRANSFER " + c.others(next)[0].id)
		time.Sleep(time.Second)
		newest := c.leader()
		if newest == next {
			t.Fatal("the leader did not hand over")
		}
		c.expect(newest, "SET k x", "+OK")
		c.announced(newest)
		if stopped := strings.TrimSpace(lead.stopped() + next.stopped() + newest.stopped()); stopped != "" {
			t.Error(stopped)
		}
	})
}
