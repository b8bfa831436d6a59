package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// leaderWatch follows who leads. It logs each change in one line that says why, and it ends the
// wait for a leader that is gone.
type leaderWatch struct {
	*core
	elections *elections

	due    chan struct{} // capacity 1: check now
	events chan raft.Observation

	mu        sync.Mutex
	last      leaderTerm
	successor string          // the node that leadership is being handed over to
	closing   bool            // this node is stopping
	current   context.Context // ends termGrace after the present leader's term
	end       context.CancelFunc

	dropped bool            // subscribers were dropped because there is no leader
	away    map[string]bool // members that do not answer this leader
	began   time.Duration   // when the node started
}

// leaderTerm is the leader that this node knows of.
type leaderTerm struct {
	leader string // "" for nobody
	term   uint64
}

// termGrace is how long a leader may still answer a request after its term. A leader that hands
// over does answer; one that is gone does not.
const termGrace = time.Second

func (w *leaderWatch) start(n *Node) {
	w.core, w.elections = n.core, n.elections
	w.due = make(chan struct{}, 1)
	w.events = make(chan raft.Observation, 64)
	w.away = map[string]bool{}
	w.began = n.clock.Monotonic()
	w.current, w.end = context.WithCancel(context.Background())
	n.raft.RegisterObserver(raft.NewObserver(w.events, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState, raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation:
			return true
		}
		return false
	}))
}

func (w *leaderWatch) wake() { signal(w.due) }

// run watches until the node stops. Raft drops events when it is busy, so run also checks
// periodically.
func (w *leaderWatch) run() {
	tick := time.NewTicker(w.cfg.Heartbeat / 2)
	defer tick.Stop()
	for {
		select {
		case o := <-w.events:
			w.event(o.Data)
		case <-tick.C:
		case <-w.due:
		case <-w.stop:
			w.mu.Lock()
			w.end()
			w.mu.Unlock()
			return
		}
		w.elections.noteLoss()
		w.refresh()
		w.listen()
	}
}

// event records which members answer this leader.
func (w *leaderWatch) event(data any) {
	switch e := data.(type) {
	case raft.FailedHeartbeatObservation:
		if id := string(e.PeerID); !w.away[id] {
			w.away[id] = true
			w.log.Warn("a member does not answer",
				"member", id, "silent", since(e.LastContact).Round(time.Millisecond))
		}
	case raft.ResumedHeartbeatObservation:
		if id := string(e.PeerID); w.away[id] {
			delete(w.away, id)
			w.log.Info("a member answers again", "member", id)
		}
	}
}

// refresh compares the present leader with the last one seen.
func (w *leaderWatch) refresh() {
	_, id := w.raft.LeaderWithID()
	now := leaderTerm{leader: string(id), term: w.raft.CurrentTerm()}
	if now.leader == w.cfg.ID && !w.lead.held() {
		now.leader = "" // elected, but not ready to lead
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.last
	if was.leader == now.leader && (now.leader == "" || was.term == now.term) {
		return
	}
	w.last = now
	w.say(was, now)
	time.AfterFunc(termGrace, w.end)
	w.current, w.end = context.WithCancel(context.Background())
	if now.leader != "" {
		w.successor = ""
	}
	w.changed.tell()
}

// say logs a change in one line.
func (w *leaderWatch) say(was, now leaderTerm) {
	self, level := w.cfg.ID, slog.LevelInfo
	var what, why string
	switch {
	case now.leader == self:
		what, why = "this node leads", "it was elected"+afterWhom(was, w.raft.alone())
	case now.leader != "":
		what, why = "this node follows "+now.leader, now.leader+" was elected"
		if was.leader == self {
			why = w.lossOfLeadership() + ", and " + why
		}
	case was.leader == self:
		what, why = "this node does not lead any more", w.lossOfLeadership()
		if w.successor == "" && !w.closing {
			level = slog.LevelWarn
		}
	default:
		what, level = "there is no leader", slog.LevelWarn
		why = was.leader + " was not heard from for " + w.silence().String()
		if w.silence() < w.cfg.Heartbeat {
			why = was.leader + " has given up, or another node stands for election"
		}
	}
	w.log.Log(context.Background(), level, what, "term", now.term, "why", why)
}

func afterWhom(was leaderTerm, alone bool) string {
	switch {
	case alone:
		return ": it is the only voter"
	case was.leader != "":
		return " after " + was.leader
	}
	return " by a majority of the voters"
}

func (w *leaderWatch) lossOfLeadership() string {
	switch {
	case w.successor != "":
		return "leadership was handed over to " + w.successor
	case w.closing:
		return "this node stops"
	}
	return fmt.Sprintf("a majority of the voters did not answer for %s, or a later term has begun", w.cfg.Heartbeat)
}

// silence is how long this node has not heard from a leader.
func (w *leaderWatch) silence() time.Duration {
	last := w.raft.LastContact()
	if last.IsZero() {
		return w.clock.Monotonic() - w.began
	}
	return since(last).Round(time.Millisecond)
}

// listen drops this node's subscribers once no leader has been heard from for LeaderWait. Their
// messages are late by then, and a client that subscribes again finds a node that is up to date.
func (w *leaderWatch) listen() {
	if w.raft.State() == raft.Leader || w.silence() < w.cfg.LeaderWait {
		w.dropped = false
		return
	}
	if !w.dropped {
		w.dropped = true
		w.cfg.Publisher.DropSubscribers("no leader has been heard from for " + w.silence().String())
	}
}

// termOf returns a context that ends with ctx, or termGrace after a leader's term, when an answer
// is unlikely. It returns false if another node leads by now.
func (w *leaderWatch) termOf(ctx context.Context, leader string) (context.Context, context.CancelFunc, bool) {
	w.refresh() // otherwise, just after an election, the end of the former term would end the request
	w.mu.Lock()
	current, now := w.current, w.last.leader
	w.mu.Unlock()
	if now != leader {
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, commitWaitMax)
	stop := context.AfterFunc(current, cancel)
	return ctx, func() { stop(); cancel() }, true
}

func (w *leaderWatch) handingOver(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.successor = to
}

func (w *leaderWatch) stopping() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
}
