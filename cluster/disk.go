package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/figures"
	"lockd/cluster/replica"
	"lockd/cluster/request"
	"lockd/cluster/store"
	"lockd/resp"
)

// diskEvery is the time between two measurements of the room on the disk of a node.
const diskEvery = time.Second

// yieldEvery is the time after which a leader whose disk is nearly full tries again to have another node lead, whose
// disk is not.
const yieldEvery = 30 * time.Second

// diskWatch follows the room on this node's disk. Before full disks cost the cluster its majority, it has the cluster
// refuse commands that let the state grow. A single full disk stops its own node only.
type diskWatch struct {
	*core
	room      *figures.Room
	look      func() store.Room // nil: in memory
	state     *replica.State
	members   *members
	elections *elections
	requests  *request.Router

	again time.Duration // monotonic: not before does this leader try to hand over
}

// run measures until the node stops.
func (d *diskWatch) run() {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		d.measure()
		if d.lead.Held() {
			d.report()
		}
		select {
		case <-tick.C:
		case <-d.stop:
			return
		}
	}
}

func (d *diskWatch) measure() {
	room, was := d.look(), d.room.Now()
	d.room.Set(room)
	switch {
	case was.Ballast > 0 && room.Ballast == 0:
		d.log.Warn("the disk is full: the space that was reserved for the log is used now; make room",
			"freeMiB", room.Free>>20)
	case was == store.Room{} && room.Free > 0 && room.Ballast == 0 && !room.Short:
		d.log.Info("no space of the disk is reserved for the log: the disk is small, or its file system cannot reserve " +
			"any")
	}
	switch {
	case room.Short && !was.Short:
		d.log.Warn("the disk is nearly full: make room on it, or this node stops; if the disks of too many nodes are, "+
			"new locks and keys are refused",
			"freeMiB", room.Free>>20, "reservedMiB", room.Ballast>>20, "missingMiB", room.Missing>>20)
	case !room.Short && was.Short:
		d.log.Info("there is room on the disk again", "freeMiB", room.Free>>20)
	}
}

// report has the log say whose disks are full, if that is another list than it says.
func (d *diskWatch) report() {
	members := d.members.survey(context.Background())
	list := strings.Join(hindered(members), ", ")
	if list != d.state.Full.Load().Nodes {
		ctx, cancel := context.WithTimeout(context.Background(), request.CommitWaitMax)
		defer cancel()
		req := d.cfg.Machine.NameFullDisks(list)
		d.requests.Commands.Identify(req.Cmds)
		d.requests.Run(ctx, req)
	}
	now := d.clock.Monotonic()
	if d.room.Now().Short && now >= d.again && slices.ContainsFunc(members, leadsBetter) {
		d.again = now + yieldEvery
		if err := d.elections.handOver(context.Background(), ""); err != nil {
			d.log.Debug("another node whose disk has room could not be made leader", "why", err)
		}
	}
}

// leadsBetter reports whether a member may lead, and its disk has room.
func leadsBetter(m surveyed) bool { return m.Suffrage == raft.Voter && m.err == nil && !m.Short }

// hindered returns the voters whose disks are nearly full, unless a majority answers and has room.
func hindered(members []surveyed) (short []string) {
	voters, able := 0, 0
	for _, m := range members {
		if m.Suffrage != raft.Voter {
			continue
		}
		voters++
		switch {
		case m.err != nil:
		case m.Short:
			short = append(short, string(m.ID))
		default:
			able++
		}
	}
	if able > voters/2 {
		return nil
	}
	slices.Sort(short)
	return short
}

// metrics returns figures of the disk; none in memory, or where nothing is known.
func (d *diskWatch) metrics() []resp.Metric {
	room := d.room.Now()
	if room == (store.Room{}) {
		return nil
	}
	return []resp.Metric{
		resp.GaugeOf("lockd_disk_free_bytes", "What is left of the disk for this node, without the space that is "+
			"reserved for its log.", room.Free),
		resp.GaugeOf("lockd_disk_reserved_bytes", "Space that is reserved for the log; 0: it is in use, as the disk is "+
			"full, or cannot be reserved.", room.Ballast),
		resp.GaugeOf("lockd_disk_short", "1 while the disk of this node is nearly full.", resp.One(room.Short)),
		resp.GaugeOf("lockd_disk_refusing", "1 while new locks and keys are refused, as too few disks have room.",
			resp.One(d.state.Full.Load().Nodes != "")),
		resp.CounterOf("lockd_disk_refused_total", "Requests that this node has refused as a leader for want of room, "+
			"before they were logged.", d.requests.NoRoom.Load()),
	}
}
