package cluster

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"lockd/cluster/clock"
	"lockd/cluster/group"
	"lockd/cluster/wake"
)

// core holds what all parts of a node share.
type core struct {
	cfg   Config
	log   *slog.Logger
	clock clock.Clock
	raft  *group.Group
	lead  clock.CurrentTerm
	heard clock.LastLeader

	changed      wake.Broadcast // the leader or the members have changed
	wakeProposer chan struct{}  // capacity 1
	stop         chan struct{}

	fatalOnce sync.Once
	broken    atomic.Bool // after fatal: this node must not lead any more
}

func newCore(cfg Config) *core {
	c := &core{cfg: cfg, log: cfg.Log, clock: cfg.Clock}
	c.wakeProposer, c.stop = make(chan struct{}, 1), make(chan struct{})
	c.raft = group.New(cfg.ID, c.stop)
	return c
}

// fatal ends the process, because to go on would put the agreement of the replicas at risk.
func (c *core) fatal(err error) {
	c.fatalOnce.Do(func() {
		c.broken.Store(true)
		c.lead.Store(nil)
		wake.Signal(c.wakeProposer)
		c.cfg.Fatal(err)
	})
}
