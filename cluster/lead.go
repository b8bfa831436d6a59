package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// elections makes a node that was elected ready to lead, and gives the leadership up, or away.
type elections struct {
	*core
	state     *state
	members   *members
	proposer  *proposer
	reader    *reader
	announcer *announcer
	watch     *leaderWatch

	elected  chan bool // from Raft: this node was elected, or does not lead any more
	transfer transferWatch
}

func newElections(n *Node) *elections {
	return &elections{
		core: n.core, state: n.state, members: n.members, proposer: n.proposer, reader: n.reader, announcer: n.announcer, watch: &n.leaderWatch,
		elected:  make(chan bool, 16),
		transfer: transferWatch{core: n.core, proposer: n.proposer},
	}
}

// run follows Raft's reports about this node's own leadership.
func (e *elections) run() {
	for {
		select {
		case leads := <-e.elected:
			if leads {
				e.startLeading()
			} else {
				e.stopLeading()
			}
		case <-e.stop:
			e.stopLeading()
			return
		}
	}
}

// barrierPause is the pause after a barrier that failed while this node still leads.
const barrierPause = 10 * time.Millisecond

// startLeading makes an elected leader ready: everything logged before its term, and an entry of
// its own term, has been applied. From then on it may stamp entries and answer reads.
func (e *elections) startLeading() {
	for e.raft.State() == raft.Leader && !e.broken.Load() {
		term := e.raft.CurrentTerm()
		err := e.barrier()
		e.transfer.observe(err)
		if err == nil && e.lead.Load() == nil && e.startClock(term) {
			e.changed.tell()
			signal(e.proposer.wake)
			signal(e.members.due)
			e.watch.wake()
			return
		}
		select {
		case <-time.After(barrierPause):
		case <-e.stop:
			return
		}
	}
}

func (e *elections) barrier() error {
	ctx, cancel := context.WithTimeout(context.Background(), commitWaitMax)
	defer cancel()
	return e.raft.wait(ctx, e.raft.Barrier(enqueueWaitMax))
}

// startClock starts the log clock of a term, unless leadership has moved since the barrier.
func (e *elections) startClock(term uint64) bool {
	s := e.state
	s.mu.Lock()
	base := s.machine.Tick() + s.ledSinceApplied(e.raft.LastContact()).Milliseconds()
	s.mu.Unlock()
	lead := &leadership{term: term, base: base, origin: e.clock.Monotonic(), clock: e.clock}
	if e.broken.Load() || e.raft.State() != raft.Leader || e.raft.CurrentTerm() != term {
		return false
	}
	e.lead.Store(lead)
	return true
}

// stopLeading gives up the leadership. Waiting ops are answered as not done, and their senders try
// again elsewhere.
func (e *elections) stopLeading() {
	e.lead.Store(nil)
	e.stoppedLeading()
}

// noteLoss gives up a leadership that Raft has lost but not reported. If Raft hears a new leader
// first, it stores that leader's entries before it reports the loss, and the disk may hang.
func (e *elections) noteLoss() {
	lead := e.lead.Load()
	if lead != nil && e.raft.State() != raft.Leader && e.lead.CompareAndSwap(lead, nil) {
		e.stoppedLeading()
	}
}

func (e *elections) stoppedLeading() {
	e.changed.tell()
	signal(e.proposer.wake)
	signal(e.reader.wake)
	e.watch.wake()
}

// handOver moves leadership to another voter; "" chooses the one that is best prepared. Entries in
// flight end first, so that no request is left in doubt. Waiting ops go to the new leader.
func (e *elections) handOver(ctx context.Context, id string) error {
	to, err := e.successor(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, handOverMax)
	defer cancel()
	defer e.proposer.release()
	if !e.proposer.hold(ctx) {
		return errors.New("requests on their way have not been settled in time")
	}
	if !e.awaitLog(ctx, to.ID) {
		return fmt.Errorf("node %s has not taken the whole log in time", to.ID)
	}
	e.watch.handingOver(string(to.ID))
	err = e.raft.wait(ctx, e.raft.LeadershipTransferToServer(to.ID, to.Address))
	if err != nil && e.raft.State() != raft.Leader {
		err = nil // leadership has moved: the successor deposed this node before Raft could answer
	}
	if err != nil {
		e.watch.handingOver("")
	}
	return err
}

// awaitLog waits until a member is known to have this leader's whole log, while the proposer holds.
// Raft would wait too, but its transfer to a member that stays away never ends: from the second
// attempt on, Raft leads and refuses every write.
func (e *elections) awaitLog(ctx context.Context, id raft.ServerID) bool {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Heartbeat)
	defer cancel()
	tick := time.NewTicker(holdPoll)
	defer tick.Stop()
	for e.announcer.has(id) < e.raft.LastIndex() {
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

	*core
	proposer *proposer
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
func (w *transferWatch) observe(err error) {
	now := w.clock.Monotonic()
	w.mu.Lock()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress) || w.proposer.holding():
		w.refusals = 0
	case w.refusals == 0 || now-w.last >= transferRefusalEvery:
		w.refusals++
		w.last = now
	}
	stuck := w.refusals >= transferRefusalsMax
	w.mu.Unlock()
	if stuck {
		w.fatal(errTransferStuck)
	}
}

// handOverMax bounds a requested hand-over of leadership.
const handOverMax = 5 * time.Second

// successor picks the voter that is to lead next: the one with the longest log among those that
// answer.
func (e *elections) successor(ctx context.Context, id string) (raft.Server, error) {
	var best raft.Server
	var bestIndex uint64
	found := false
	for _, m := range e.members.survey(ctx) {
		switch {
		case m.Suffrage != raft.Voter || string(m.ID) == e.cfg.ID || id != "" && string(m.ID) != id:
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
