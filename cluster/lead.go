package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
)

// watchElections follows what Raft says about this node's own leadership.
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

// barrierPause is the pause after a barrier that failed while still leading.
const barrierPause = 10 * time.Millisecond

// startLeading makes a freshly elected leader ready: everything logged before its
// term, and an entry of its own term, have been applied. From then on it may stamp
// entries and answer reads.
func (n *Node) startLeading() {
	for n.raft.State() == raft.Leader && !n.broken.Load() {
		term := n.raft.CurrentTerm()
		err := n.barrier()
		n.transfer.note(n, err)
		if err == nil && n.lead.Load() == nil && n.startClock(term) {
			n.changed.tell()
			signal(n.proposer.wake)
			signal(n.membersDue)
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
	return n.wait(ctx, n.raft.Barrier(enqueueWaitMax))
}

// startClock starts the log clock of a term, unless leadership has moved since
// the barrier.
func (n *Node) startClock(term uint64) bool {
	n.mu.Lock()
	base := n.machine.Tick() + n.ledSinceApplied().Milliseconds()
	n.mu.Unlock()
	lead := &leadership{term: term, base: base, origin: n.clock.Monotonic(), clock: n.clock}
	if n.broken.Load() || n.raft.State() != raft.Leader || n.raft.CurrentTerm() != term {
		return false
	}
	n.lead.Store(lead)
	return true
}

// ledSinceApplied is how long a leader was heard from after the last entry was
// applied here: in that time, in which nobody wrote, the leases ran on. It cannot
// exceed the time that has really passed since the entry was stamped, because the
// entry was applied after that; so no lease ends early by it. What came after the
// leader's last message does not count. Node.mu is held.
func (n *Node) ledSinceApplied() time.Duration {
	heard := n.raft.LastContact()
	if heard.IsZero() {
		return 0
	}
	return max(n.clock.Monotonic()-n.appliedAt-since(heard), 0)
}

// stopLeading forgets the leadership; what waits is answered as not done, and its
// senders try again elsewhere.
func (n *Node) stopLeading() {
	n.lead.Store(nil)
	n.stoppedLeading()
}

// noteLoss forgets a leadership that Raft has lost and does not tell of: where a new leader
// was heard first, Raft takes his entries before it says so, and the disk may hang.
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

// handOver moves leadership to another voter, "" for the one that is best prepared.
// Entries on their way are settled before, so that no request is left in doubt;
// what waits goes to the new leader.
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
	err = n.wait(ctx, n.raft.LeadershipTransferToServer(to.ID, to.Address))
	if err != nil && n.raft.State() != raft.Leader {
		err = nil // it has moved: Raft was deposed by the successor before it could say so
	}
	if err != nil {
		n.leaderWatch.handingOver("")
	}
	return err
}

// awaitLog waits until a member is known to have this leader's whole log, while the
// proposer holds. Raft would wait too, but a member that stays away would never let it
// go: from the second try on Raft leads and refuses every write.
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

// transferWatch ends the process when Raft refuses entries because leadership is being
// transferred, and it is not: where the member hangs to which it was to go, Raft may never
// take that back, not even in a later term, and lead without taking anything.
type transferWatch struct {
	mu    sync.Mutex
	looks int           // refusals since anything else was heard, those apart enough to count
	last  time.Duration // monotonic: of those
}

// What Raft itself does for a transfer ends within 6 s: its election timeout, and the
// message to the successor (peerTimeout). Refusals are counted, and no time is taken, as a
// process that was stopped finds any amount of time gone.
const (
	transferLook     = 100 * time.Millisecond // one refusal in this time counts
	transferLooksMax = 100
)

var errTransferStuck = fmt.Errorf("raft has refused every write for %s because leadership is being transferred, and it is not: this node stops so that another can lead", transferLooksMax*transferLook)

// note hears what Raft has answered to an entry.
func (w *transferWatch) note(n *Node, err error) {
	now := n.clock.Monotonic()
	w.mu.Lock()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress) || n.proposer.holding():
		w.looks = 0
	case w.looks == 0 || now-w.last >= transferLook:
		w.looks++
		w.last = now
	}
	stuck := w.looks >= transferLooksMax
	w.mu.Unlock()
	if stuck {
		n.fatal(errTransferStuck)
	}
}

// handOverMax bounds a change of the leader by hand.
const handOverMax = 5 * time.Second

// successor picks the voter that is to lead next: it answers, and has the longest
// log of those that do.
func (n *Node) successor(ctx context.Context, id string) (raft.Server, error) {
	var best raft.Server
	var bestIndex uint64
	found := false
	for _, m := range n.survey(ctx) {
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

// surveyed is a member, and what it answered when it was asked.
type surveyed struct {
	raft.Server
	peer.Status
	err error // it did not answer
}

// surveyMax bounds the wait for members' answers.
const surveyMax = 500 * time.Millisecond

// survey asks all members how they are.
func (n *Node) survey(ctx context.Context) []surveyed {
	ctx, cancel := context.WithTimeout(ctx, surveyMax)
	defer cancel()
	servers := n.servers()
	answers := make(chan int, len(servers))
	members := make([]surveyed, len(servers))
	for i, s := range servers {
		members[i].Server = s
		go func() {
			if string(s.ID) == n.cfg.ID {
				members[i].Status = n.serveStatus()
			} else {
				members[i].Status, members[i].err = n.peers.Status(ctx, string(s.Address))
			}
			answers <- i
		}()
	}
	for range servers {
		<-answers
	}
	return members
}
