package cluster

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/store"
)

// rooms are the disks of a cluster in memory, by node.
type rooms struct {
	mu    sync.Mutex
	short map[string]bool
}

func (r *rooms) set(short ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short = map[string]bool{}
	for _, id := range short {
		r.short[id] = true
	}
}

func startWithDisks(t *testing.T, n int, config ...func(*Config)) (*testCluster, *rooms) {
	r := &rooms{}
	c := startCluster(t, n, append(config, func(cfg *Config) {
		id := cfg.ID
		cfg.KeepRoom = true
		withStores(cfg, func(open func() (*store.Stores, error)) (*store.Stores, error) {
			s, err := open()
			if err == nil {
				s.MeasureSpace = func() store.Room {
					r.mu.Lock()
					defer r.mu.Unlock()
					return store.Room{Free: 1 << 30, Ballast: 1 << 20, Short: r.short[id]}
				}
			}
			return s, err
		})
	})...)
	return c, r
}

// While a majority has room nothing is refused, and a node whose disk is nearly full does not lead. When it has not, what
// lets the state grow is refused, on every node, and is not logged; the rest goes on. It is over when there is room.
func TestFullDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, keep := warned()
		c, disks := startWithDisks(t, 3, keep)
		defer c.close()
		first := c.leader()
		c.expect(first, "SET counter 1", "+OK")

		disks.set(first.id)
		time.Sleep(2 * time.Second)
		lead := c.leader()
		if lead == first {
			t.Fatal("a node whose disk is nearly full leads, and others have room")
		}
		c.expect(first, "SETNX a 1", ":1")
		if logs[first.id].count("the disk is nearly full") != 1 || first.figure("lockd_disk_short") != 1 || lead.figure("lockd_disk_short") != 0 {
			t.Error("it does not say that its disk is nearly full")
		}

		disks.set(first.id, lead.id)
		time.Sleep(2 * diskEvery)
		lead = c.leader()
		full := strings.Join(hindered(lead.members.survey(t.Context())), ", ")
		if strings.Count(full, ", ") != 1 {
			t.Fatalf("full: %q", full)
		}
		before := lead.raft.LastIndex()
		for _, n := range c.nodes {
			c.expect(n, "SETNX b 1", "-OOM the disk of "+full)
			c.expect(n, "GET b", "_")
		}
		if got := lead.raft.LastIndex(); got != before {
			t.Errorf("%d entries were logged", got-before)
		}
		if lead.figure("lockd_disk_refused_total") != 3 || lead.figure("lockd_disk_refusing") != 1 {
			t.Error("what is refused is not counted")
		}
		for i, n := range c.others(lead) {
			c.expect(n, "INCR counter", ":"+string(rune('2'+i)))
		}

		disks.set(first.id)
		time.Sleep(2 * diskEvery)
		c.expect(first, "SETNX b 1", ":1")
		if lead = c.leader(); lead.figure("lockd_disk_refusing") != 0 {
			t.Error("it is still refused")
		}
		c.agree()
	})
}

// A member that does not answer has no room, as far as the others know.
func TestFullDiskBesideADeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, disks := startWithDisks(t, 3)
		defer c.close()
		lead := c.leader()
		others := c.others(lead)
		c.kill(others[0].id)
		time.Sleep(2 * diskEvery)
		c.expect(lead, "SET a 1", "+OK")
		disks.set(others[1].id)
		time.Sleep(3 * diskEvery)
		c.expect(lead, "SET a 1", "-OOM the disk of "+others[1].id)
		c.start(others[0].id)
		time.Sleep(3 * diskEvery)
		c.expect(lead, "SET a 1", "+OK")
	})
}
