package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// roleKeeper follows who leads. Each change is one line of the log, in words that
// say why; and it is what ends waiting for a leader that is gone.
type roleKeeper struct {
	n      *Node
	due    chan struct{} // capacity 1: look now
	events chan raft.Observation

	mu        sync.Mutex
	last      rule
	successor string          // leadership is being handed over to this node
	closing   bool            // this node stops
	current   context.Context // ends some time after the present leader's reign
	end       context.CancelFunc

	dropped bool            // subscribers have been told that there is no leader
	away    map[string]bool // members that do not answer this leader
	began   time.Duration   // when the node started
}

// rule is who leads as far as this node knows.
type rule struct {
	leader string // "" for nobody
	term   uint64
}

// reignGrace is how long a request at a leader may still be answered after that
// leader's reign: it hands over properly, or it is gone.
const reignGrace = time.Second

func (k *roleKeeper) start(n *Node) {
	k.n = n
	k.due = make(chan struct{}, 1)
	k.events = make(chan raft.Observation, 64)
	k.away = map[string]bool{}
	k.began = n.clock.Monotonic()
	k.current, k.end = context.WithCancel(context.Background())
	n.raft.RegisterObserver(raft.NewObserver(k.events, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState, raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation:
			return true
		}
		return false
	}))
}

func (k *roleKeeper) wake() { signal(k.due) }

// watch runs until the node stops. Raft drops events when it is in a hurry, so it
// also looks by itself.
func (k *roleKeeper) watch() {
	tick := time.NewTicker(k.n.cfg.Heartbeat / 2)
	defer tick.Stop()
	for {
		select {
		case o := <-k.events:
			k.event(o.Data)
		case <-tick.C:
		case <-k.due:
		case <-k.n.stop:
			k.mu.Lock()
			k.end()
			k.mu.Unlock()
			return
		}
		k.n.noteLoss()
		k.look()
		k.listen()
	}
}

// event notes which members answer this leader.
func (k *roleKeeper) event(data any) {
	switch e := data.(type) {
	case raft.FailedHeartbeatObservation:
		if id := string(e.PeerID); !k.away[id] {
			k.away[id] = true
			k.n.log.Warn("a member does not answer", "member", id, "silent", since(e.LastContact).Round(time.Millisecond))
		}
	case raft.ResumedHeartbeatObservation:
		if id := string(e.PeerID); k.away[id] {
			delete(k.away, id)
			k.n.log.Info("a member answers again", "member", id)
		}
	}
}

// look compares who leads with what it was at the last look.
func (k *roleKeeper) look() {
	_, id := k.n.raft.LeaderWithID()
	now := rule{leader: string(id), term: k.n.raft.CurrentTerm()}
	if now.leader == k.n.cfg.ID && !k.n.leads() {
		now.leader = "" // elected, but not ready to lead
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.last
	if was.leader == now.leader && (now.leader == "" || was.term == now.term) {
		return
	}
	k.last = now
	k.say(was, now)
	time.AfterFunc(reignGrace, k.end)
	k.current, k.end = context.WithCancel(context.Background())
	if now.leader != "" {
		k.successor = ""
	}
	k.n.changed.tell()
}

// say writes the one line about a change.
func (k *roleKeeper) say(was, now rule) {
	self, level := k.n.cfg.ID, slog.LevelInfo
	var what, why string
	switch {
	case now.leader == self:
		what, why = "this node leads", "it was elected"+afterWhom(was, k.n.alone())
	case now.leader != "":
		what, why = "this node follows "+now.leader, now.leader+" was elected"
		if was.leader == self {
			why = k.lossOfLeadership() + ", and " + why
		}
	case was.leader == self:
		what, why = "this node does not lead any more", k.lossOfLeadership()
		if k.successor == "" && !k.closing {
			level = slog.LevelWarn
		}
	default:
		what, why, level = "there is no leader", was.leader+" was not heard from for "+k.silence().String(), slog.LevelWarn
		if k.silence() < k.n.cfg.Heartbeat {
			why = was.leader + " has given up, or another node stands for election"
		}
	}
	k.n.log.Log(context.Background(), level, what, "term", now.term, "why", why)
}

func afterWhom(was rule, alone bool) string {
	switch {
	case alone:
		return ": it is the only voter"
	case was.leader != "":
		return " after " + was.leader
	}
	return " by a majority of the voters"
}

func (k *roleKeeper) lossOfLeadership() string {
	switch {
	case k.successor != "":
		return "leadership was handed over to " + k.successor
	case k.closing:
		return "this node stops"
	}
	return fmt.Sprintf("a majority of the voters did not answer for %s, or a later term has begun", k.n.cfg.Heartbeat)
}

// silence is how long no leader has been heard from.
func (k *roleKeeper) silence() time.Duration {
	last := k.n.raft.LastContact()
	if last.IsZero() {
		return k.n.clock.Monotonic() - k.began
	}
	return since(last).Round(time.Millisecond)
}

// listen drops this node's subscribers once no leader has been heard from for as
// long as a request would wait for one: their messages are late by then, and a
// client that subscribes again finds a node that hears.
func (k *roleKeeper) listen() {
	if k.n.raft.State() == raft.Leader || k.silence() < k.n.cfg.LeaderWait {
		k.dropped = false
		return
	}
	if !k.dropped {
		k.dropped = true
		k.n.cfg.Publisher.DropSubscribers("no leader has been heard from for " + k.silence().String())
	}
}

// reign returns a context that ends with ctx, or some time after a leader has lost its
// rule: an answer will hardly come then. It returns false if another one rules by now.
func (k *roleKeeper) reign(ctx context.Context, leader string) (context.Context, context.CancelFunc, bool) {
	k.look() // just after an election the reign before it would end the request
	k.mu.Lock()
	current, now := k.current, k.last.leader
	k.mu.Unlock()
	if now != leader {
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, commitWaitMax)
	stop := context.AfterFunc(current, cancel)
	return ctx, func() { stop(); cancel() }, true
}

func (k *roleKeeper) handingOver(to string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.successor = to
}

func (k *roleKeeper) stopping() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closing = true
}
