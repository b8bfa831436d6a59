package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// leaderWatch follows who leads. Each change is one line of the log, in words that
// say why; and it is what ends waiting for a leader that is gone.
type leaderWatch struct {
	n      *Node
	due    chan struct{} // capacity 1: look now
	events chan raft.Observation

	mu        sync.Mutex
	last      leaderTerm
	successor string          // leadership is being handed over to this node
	closing   bool            // this node stops
	current   context.Context // ends some time after the present leader's term
	end       context.CancelFunc

	dropped bool            // subscribers have been told that there is no leader
	away    map[string]bool // members that do not answer this leader
	began   time.Duration   // when the node started
}

// leaderTerm is who leads as far as this node knows.
type leaderTerm struct {
	leader string // "" for nobody
	term   uint64
}

// termGrace is how long a request at a leader may still be answered after that
// leader's term: it hands over properly, or it is gone.
const termGrace = time.Second

func (w *leaderWatch) start(n *Node) {
	w.n = n
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

// run watches until the node stops. Raft drops events when it is in a hurry, so it
// also looks by itself.
func (w *leaderWatch) run() {
	tick := time.NewTicker(w.n.cfg.Heartbeat / 2)
	defer tick.Stop()
	for {
		select {
		case o := <-w.events:
			w.event(o.Data)
		case <-tick.C:
		case <-w.due:
		case <-w.n.stop:
			w.mu.Lock()
			w.end()
			w.mu.Unlock()
			return
		}
		w.n.noteLoss()
		w.look()
		w.listen()
	}
}

// event notes which members answer this leader.
func (w *leaderWatch) event(data any) {
	switch e := data.(type) {
	case raft.FailedHeartbeatObservation:
		if id := string(e.PeerID); !w.away[id] {
			w.away[id] = true
			w.n.log.Warn("a member does not answer", "member", id, "silent", since(e.LastContact).Round(time.Millisecond))
		}
	case raft.ResumedHeartbeatObservation:
		if id := string(e.PeerID); w.away[id] {
			delete(w.away, id)
			w.n.log.Info("a member answers again", "member", id)
		}
	}
}

// look compares who leads with what it was at the last look.
func (w *leaderWatch) look() {
	_, id := w.n.raft.LeaderWithID()
	now := leaderTerm{leader: string(id), term: w.n.raft.CurrentTerm()}
	if now.leader == w.n.cfg.ID && !w.n.leads() {
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
	w.n.changed.tell()
}

// say writes the one line about a change.
func (w *leaderWatch) say(was, now leaderTerm) {
	self, level := w.n.cfg.ID, slog.LevelInfo
	var what, why string
	switch {
	case now.leader == self:
		what, why = "this node leads", "it was elected"+afterWhom(was, w.n.alone())
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
		what, why, level = "there is no leader", was.leader+" was not heard from for "+w.silence().String(), slog.LevelWarn
		if w.silence() < w.n.cfg.Heartbeat {
			why = was.leader + " has given up, or another node stands for election"
		}
	}
	w.n.log.Log(context.Background(), level, what, "term", now.term, "why", why)
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
	return fmt.Sprintf("a majority of the voters did not answer for %s, or a later term has begun", w.n.cfg.Heartbeat)
}

// silence is how long no leader has been heard from.
func (w *leaderWatch) silence() time.Duration {
	last := w.n.raft.LastContact()
	if last.IsZero() {
		return w.n.clock.Monotonic() - w.began
	}
	return since(last).Round(time.Millisecond)
}

// listen drops this node's subscribers once no leader has been heard from for as
// long as a request would wait for one: their messages are late by then, and a
// client that subscribes again finds a node that hears.
func (w *leaderWatch) listen() {
	if w.n.raft.State() == raft.Leader || w.silence() < w.n.cfg.LeaderWait {
		w.dropped = false
		return
	}
	if !w.dropped {
		w.dropped = true
		w.n.cfg.Publisher.DropSubscribers("no leader has been heard from for " + w.silence().String())
	}
}

// termOf returns a context that ends with ctx, or some time after a leader's
// term is over: an answer will hardly come then. It returns false if another one leads by now.
func (w *leaderWatch) termOf(ctx context.Context, leader string) (context.Context, context.CancelFunc, bool) {
	w.look() // just after an election the term before it would end the request
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
