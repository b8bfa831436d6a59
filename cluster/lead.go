package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// watchElections follows Raft's reports about this node's own leadership.
func (n *Node) watchElections() {
	for {
		select {
		case leads := <-n.elected:
			if leads {
				n.startLeading()
			} else {
				n.stopLeading()
			}
		case <-n.stop:
			n.stopLeading()
			return
		}
	}
}

// barrierPause is the pause after a barrier that failed while this node still leads.
const barrierPause = 10 * time.Millisecond

// startLeading makes an elected leader ready: everything logged before its term, and an entry of
// its own term, has been applied. From then on it may stamp entries and answer reads.
func (n *Node) startLeading() {
	for n.raft.State() == raft.Leader && !n.broken.Load() {
		term := n.raft.CurrentTerm()
		err := n.barrier()
		n.transfer.observe(n, err)
		if err == nil && n.lead.Load() == nil && n.startClock(term) {
			n.changed.tell()
			signal(n.proposer.wake)
			signal(n.members.due)
			n.leaderWatch.wake()
			return
		}
		select {
		case <-time.After(barrierPause):
		case <-n.stop:
			return
		}
	}
}

func (n *Node) barrier() error {
	ctx, cancel := context.WithTimeout(context.Background(), commitWaitMax)
	defer cancel()
	return n.raft.wait(ctx, n.raft.Barrier(enqueueWaitMax))
}

// startClock starts the log clock of a term, unless leadership has moved since the barrier.
func (n *Node) startClock(term uint64) bool {
	s := n.state
	s.mu.Lock()
	base := s.machine.Tick() + s.ledSinceApplied(n.raft.LastContact()).Milliseconds()
	s.mu.Unlock()
	lead := &leadership{term: term, base: base, origin: n.clock.Monotonic(), clock: n.clock}
	if n.broken.Load() || n.raft.State() != raft.Leader || n.raft.CurrentTerm() != term {
		return false
	}
	n.lead.Store(lead)
	return true
}

// stopLeading gives up the leadership. Waiting ops are answered as not done, and their senders try
// again elsewhere.
func (n *Node) stopLeading() {
	n.lead.Store(nil)
	n.stoppedLeading()
}

// noteLoss gives up a leadership that Raft has lost but not reported. If Raft hears a new leader
// first, it stores that leader's entries before it reports the loss, and the disk may hang.
func (n *Node) noteLoss() {
	lead := n.lead.Load()
	if lead != nil && n.raft.State() != raft.Leader && n.lead.CompareAndSwap(lead, nil) {
		n.stoppedLeading()
	}
}

func (n *Node) stoppedLeading() {
	n.changed.tell()
	signal(n.proposer.wake)
	signal(n.reader.wake)
	n.leaderWatch.wake()
}

// handOver moves leadership to another voter; "" chooses the one that is best prepared. Entries in
// flight end first, so that no request is left in doubt. Waiting ops go to the new leader.
func (n *Node) handOver(ctx context.Context, id string) error {
	to, err := n.successor(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, handOverMax)
	defer cancel()
	defer n.proposer.release()
	if !n.proposer.hold(ctx) {
		return errors.New("requests on their way have not been settled in time")
	}
	if !n.awaitLog(ctx, to.ID) {
		return fmt.Errorf("node %s has not taken the whole log in time", to.ID)
	}
	n.leaderWatch.handingOver(string(to.ID))
	err = n.raft.wait(ctx, n.raft.LeadershipTransferToServer(to.ID, to.Address))
	if err != nil && n.raft.State() != raft.Leader {
		err = nil // leadership has moved: the successor deposed this node before Raft could answer
	}
	if err != nil {
		n.leaderWatch.handingOver("")
	}
	return err
}

// awaitLog waits until a member is known to have this leader's whole log, while the proposer holds.
// Raft would wait too, but its transfer to a member that stays away never ends: from the second
// attempt on, Raft leads and refuses every write.
func (n *Node) awaitLog(ctx context.Context, id raft.ServerID) bool {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Heartbeat)
	defer cancel()
	tick := time.NewTicker(holdPoll)
	defer tick.Stop()
	for n.announcer.has(id) < n.raft.LastIndex() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// transferWatch ends the process if Raft refuses entries because of a leadership transfer that is
// not happening. If the chosen member hangs, Raft may never end the transfer, not even in a later
// term: it leads and takes no entries.
type transferWatch struct {
	mu       sync.Mutex
	refusals int           // consecutive refusals, at most one per transferRefusalEvery
	last     time.Duration // monotonic time of the last one counted
}

// Raft's own part of a transfer ends within 6 s: its election timeout, and the message to the
// successor (peerTimeout). The watch counts refusals instead of measuring time, because any amount
// of time may pass while a process is stopped.
const (
	transferRefusalEvery = 100 * time.Millisecond // one refusal per this time counts
	transferRefusalsMax  = 100
)

var errTransferStuck = fmt.Errorf("raft has refused every write for %s because leadership is being transferred, and "+
	"it is not: this node stops so that another can lead",
	transferRefusalsMax*transferRefusalEvery)

// observe records Raft's answer to an entry.
func (w *transferWatch) observe(n *Node, err error) {
	now := n.clock.Monotonic()
	w.mu.Lock()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress) || n.proposer.holding():
		w.refusals = 0
	case w.refusals == 0 || now-w.last >= transferRefusalEvery:
		w.refusals++
		w.last = now
	}
	stuck := w.refusals >= transferRefusalsMax
	w.mu.Unlock()
	if stuck {
		n.fatal(errTransferStuck)
	}
}

// handOverMax bounds a requested hand-over of leadership.
const handOverMax = 5 * time.Second

// successor picks the voter that is to lead next: the one with the longest log among those that
// answer.
func (n *Node) successor(ctx context.Context, id string) (raft.Server, error) {
	var best raft.Server
	var bestIndex uint64
	found := false
	for _, m := range n.members.survey(ctx) {
		switch {
		case m.Suffrage != raft.Voter || string(m.ID) == n.cfg.ID || id != "" && string(m.ID) != id:
			continue
		case m.err != nil:
			found = true
			continue
		}
		if m.LastIndex >= bestIndex {
			best, bestIndex = m.Server, m.LastIndex
		}
	}
	switch {
	case best.ID != "":
		return best, nil
	case found:
		return best, errors.New("no other voter that could lead answers")
	case id != "":
		return best, fmt.Errorf("node %s is no other voter of this cluster", id)
	}
	return best, errors.New("there is no other voter")
}
