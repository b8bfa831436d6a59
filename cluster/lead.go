package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/followers"
	"lockd/cluster/replica"
	"lockd/cluster/request"
	"lockd/cluster/wait"
	"lockd/cluster/wake"
	"lockd/resp"
)

// elections makes a node that was elected ready to lead, and gives the leadership up, or away.
type elections struct {
	*core
	state     *replica.State
	members   *members
	requests  *request.Router
	announcer *followers.Announcer
	contacts  *followers.Contacts
	deaths    *deaths
	clocks    *clock.Members
	watch     *leaderWatch
	suspender *wait.Suspender

	elected chan bool // from Raft: this node was elected, or does not lead any more
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
		e.requests.Proposer.Observe(err)
		if err == nil && e.lead.Load() == nil && e.startClock(term) {
			e.changed.Notify()
			e.requests.Wake()
			wake.Signal(e.members.due)
			wake.Signal(e.suspender.Due)
			e.watch.wake()
			e.deaths.lookAround()
			return
		}
		if !wake.Pause(barrierPause, e.stop) {
			return
		}
	}
}

func (e *elections) barrier() error {
	ctx, cancel := context.WithTimeout(context.Background(), request.CommitWaitMax)
	defer cancel()
	return e.raft.Wait(ctx, e.raft.Barrier(request.EnqueueWaitMax))
}

// startClock starts the clocks of a term, unless leadership has moved since the barrier. A majority is asked in this
// term first: it tells its clocks, and which time of the cluster an earlier leader may have shown.
func (e *elections) startClock(term uint64) bool {
	if !e.requests.Reader.Confirm(&clock.Leadership{Term: term}) {
		return false
	}
	base, wall := e.state.GoOn()
	lead := &clock.Leadership{
		Term: term, Base: base, Origin: e.clock.Monotonic(), Clock: e.clock, From: e.state.Applied.Load(),
		Alone: e.raft.Alone(),
	}
	lead.Wall = clock.StartWall(e.clock, max(wall, e.clocks.Show(0)), e.clocks.Now)
	if e.broken.Load() || e.raft.State() != raft.Leader || e.raft.CurrentTerm() != term {
		return false
	}
	lead.Former, lead.Heard = e.heard.Led(term)
	e.state.Led.Heard(term, lead.Origin, 0)
	e.lead.Store(lead)
	return true
}

// stopLeading gives up the leadership. Waiting ops are answered as not done, and their senders try
// again elsewhere.
func (e *elections) stopLeading() {
	e.stoppedLeading(e.lead.Swap(nil))
}

// recordLoss gives up a leadership that Raft has lost but not reported. If Raft hears a new leader
// first, it stores that leader's entries before it reports the loss, and the disk may hang.
func (e *elections) recordLoss() {
	lead := e.lead.Load()
	if lead != nil && e.raft.State() != raft.Leader && e.lead.CompareAndSwap(lead, nil) {
		e.stoppedLeading(lead)
	}
}

// stoppedLeading ends a leadership; nil: this node did not lead. It certainly led as long as a majority followed it:
// another leader may have come and gone since, of which this node has not heard.
func (e *elections) stoppedLeading(lead *clock.Leadership) {
	if lead != nil {
		e.state.Led.Heard(lead.Term, lead.Origin, e.contacts.FollowedUntil(lead.Term, e.raft.Voters()))
	}
	e.changed.Notify()
	e.requests.Wake()
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
	defer e.requests.Proposer.Resume()
	if !e.requests.Proposer.Pause(ctx) {
		return errors.New("requests on their way have not been settled in time")
	}
	if !e.awaitLog(ctx, to.ID) {
		return fmt.Errorf("node %s has not taken the whole log in time", to.ID)
	}
	e.watch.handingOver(string(to.ID))
	err = e.raft.Wait(ctx, e.raft.LeadershipTransferToServer(to.ID, to.Address))
	if err != nil && e.raft.State() != raft.Leader {
		err = nil // leadership has moved: the successor deposed this node before Raft could answer
	}
	if err != nil {
		e.watch.handingOver("")
	}
	return err
}

// awaitLog waits until a member is known to have this leader's whole log, while the proposer pauses.
// Raft would wait too, but its transfer to a member that stays away never ends: from the second
// attempt on, Raft leads and refuses every write.
func (e *elections) awaitLog(ctx context.Context, id raft.ServerID) bool {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Heartbeat)
	defer cancel()
	return wake.Poll(ctx, func() bool { return e.announcer.Has(id) >= e.raft.LastIndex() })
}

// handOverMax bounds a requested hand-over of leadership: it ends before the pause of the proposer does.
const handOverMax = request.PauseMax / 2

// successor picks the voter that is to lead next: the one with the longest log among those that
// answer, and whose disks have room if any of them has.
func (e *elections) successor(ctx context.Context, id string) (raft.Server, error) {
	var best raft.Server
	var bestIndex uint64
	found, bestShort := false, true
	for _, m := range e.members.survey(ctx) {
		switch {
		case m.Suffrage != raft.Voter || string(m.ID) == e.cfg.ID || id != "" && string(m.ID) != id:
			continue
		case m.err != nil:
			found = true
			continue
		}
		if bestShort && !m.Short || bestShort == m.Short && m.LastIndex >= bestIndex {
			best, bestIndex, bestShort = m.Server, m.LastIndex, m.Short
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

// leaderWatch follows changes of the leader. It logs each change in one line that says why, and it ends the
// wait for a leader that is gone.
type leaderWatch struct {
	*core
	contacts  *followers.Contacts
	noteLoss  func()      // gives up a leadership that is lost
	diskHangs func() bool // an append to the log has been under way for long

	due    chan struct{} // capacity 1: check now
	events chan raft.Observation

	mu        sync.Mutex
	last      leaderTerm
	successor string          // the node to which leadership is being handed over
	closing   bool            // this node is stopping
	current   context.Context // ends termGrace after the present leader's term
	end       context.CancelFunc

	changes [changeKinds]int64 // how often this node has seen each change
	untold  []logLine          // changes that run has yet to log: nobody logs under mu

	led atomic.Int64 // ns of monotonic time when this node was last seen to lead; 0: never

	dropped bool            // subscribers were dropped because there is no leader
	away    map[string]bool // members that do not answer this leader
	began   time.Duration   // when the node started
}

// change says what becomes of the leadership, as this node sees it, and why.
type change uint8

const (
	leadsFirst change = iota // this node leads; it has not heard of a leader before
	leadsAfter
	leadsAlone
	follows
	lostHandedOver
	lostStopping
	lostResigned
	lostDisk
	lostDeposed
	leaderSilent
	leaderGaveUp
	leaderEnded
	changeKinds
)

// changeNames lists the event and the reason of each change.
var changeNames = [changeKinds][2]string{
	leadsFirst: {"leads", "elected"}, leadsAfter: {"leads", "succeeded"}, leadsAlone: {"leads", "only-voter"},
	follows:        {"follows", "elected"},
	lostHandedOver: {"lost", "handed-over"}, lostStopping: {"lost", "stopping"},
	lostResigned: {"lost", "resigned"}, lostDisk: {"lost", "disk"}, lostDeposed: {"lost", "deposed"},
	leaderSilent: {"leaderless", "silent"}, leaderGaveUp: {"leaderless", "gave-up"},
	leaderEnded: {"leaderless", "ended"},
}

// metric counts the changes.
func (w *leaderWatch) metric() resp.Metric {
	m := resp.Metric{
		Name: "lockd_leader_changes_total", Kind: resp.Counter, Labels: []string{"event", "reason"},
		Help: "What has become of the leadership, as this node has seen it. lost deposed: this leader has lost its " +
			"majority; lost disk: its disk hung; lost resigned: its entries did not arrive.",
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, n := range w.changes {
		m.Add(float64(n), changeNames[kind][0], changeNames[kind][1])
	}
	return m
}

// leaderTerm is the leader that this node knows of.
type leaderTerm struct {
	leader string // "" for nobody
	term   uint64
}

// termGrace bounds the wait for a leader's answer after its term. A leader that hands over still answers, a dead one
// does not.
const termGrace = time.Second

func newLeaderWatch(c *core, contacts *followers.Contacts, noteLoss func(), diskHangs func() bool) *leaderWatch {
	return &leaderWatch{
		core: c, contacts: contacts, noteLoss: noteLoss, diskHangs: diskHangs,
		due: make(chan struct{}, 1), events: make(chan raft.Observation, 64),
		away: map[string]bool{},
	}
}

// start begins to hear of changes, once Raft has been made.
func (w *leaderWatch) start() {
	w.began = w.clock.Monotonic()
	w.current, w.end = context.WithCancel(context.Background())
	w.raft.RegisterObserver(raft.NewObserver(w.events, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState, raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation:
			return true
		}
		return false
	}))
}

func (w *leaderWatch) wake() { wake.Signal(w.due) }

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
			w.tell()
			return
		}
		w.noteLoss()
		w.refresh()
		w.tell()
		w.listen()
	}
}

// event records which members answer this leader.
func (w *leaderWatch) event(data any) {
	switch e := data.(type) {
	case raft.FailedHeartbeatObservation:
		id, silent := string(e.PeerID), clock.Since(e.LastContact)
		if w.away[id] || silent < w.cfg.Heartbeat/2 || w.raft.State() != raft.Leader || w.contacts.Rests() {
			return // a connection broke, or this node does not ask any more
		}
		w.away[id] = true
		w.log.Warn("a member does not answer: start it, or look at its log and at the network",
			"member", id, "silent", silent.Round(time.Millisecond))
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
	if now.leader == w.cfg.ID && !w.lead.Held() {
		now.leader = "" // elected, but not ready to lead
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.last
	if was.leader == now.leader && (now.leader == "" || was.term == now.term) {
		return
	}
	w.last = now
	loss := w.loss() // asked once, so that the figure and the line of the log agree
	w.count(was, now, loss)
	w.untold = append(w.untold, w.lineOf(was, now, loss))
	w.wake()
	time.AfterFunc(termGrace, w.end)
	w.current, w.end = context.WithCancel(context.Background())
	if now.leader != "" {
		w.successor = ""
	}
	w.changed.Notify()
}

// count counts a change. mu is held.
func (w *leaderWatch) count(was, now leaderTerm, loss change) {
	self := w.cfg.ID
	if was.leader == self && now.leader != self {
		w.changes[loss]++
	}
	switch {
	case now.leader == self && w.raft.Alone():
		w.changes[leadsAlone]++
	case now.leader == self && was.leader != "":
		w.changes[leadsAfter]++
	case now.leader == self:
		w.changes[leadsFirst]++
	case now.leader != "":
		w.changes[follows]++
	case was.leader != self && w.contacts.Gone(was.leader):
		w.changes[leaderEnded]++
	case was.leader != self && w.silence() < w.cfg.Heartbeat:
		w.changes[leaderGaveUp]++
	case was.leader != self:
		w.changes[leaderSilent]++
	}
}

// logLine is a line of the log.
type logLine struct {
	level     slog.Level
	what, why string
	term      uint64
}

// tell logs the changes, in their order.
func (w *leaderWatch) tell() {
	w.mu.Lock()
	lines := w.untold
	w.untold = nil
	w.mu.Unlock()
	for _, l := range lines {
		w.log.Log(context.Background(), l.level, l.what, "term", l.term, "why", l.why)
	}
}

// lineOf describes a change in one line. mu is held.
func (w *leaderWatch) lineOf(was, now leaderTerm, loss change) logLine {
	self, level := w.cfg.ID, slog.LevelInfo
	var what, why string
	switch {
	case now.leader == self:
		what, why = "this node leads", "it was elected"+afterWhom(was, w.raft.Alone())
	case now.leader != "":
		what, why = "this node follows "+now.leader, now.leader+" was elected"
		if was.leader == self {
			why = w.lossText(loss) + ", and " + why
		}
	case was.leader == self:
		what, why = "this node does not lead any more", w.lossText(loss)
		if loss != lostHandedOver && loss != lostStopping {
			level = slog.LevelWarn
		}
	default:
		what = "there is no leader" // if that lasts, keeper.logAwaited says what to do
		why = was.leader + " was not heard from for " + w.silence().String()
		switch {
		case w.contacts.Gone(was.leader):
			why = "the process of " + was.leader + " has ended"
		case w.silence() < w.cfg.Heartbeat:
			why = was.leader + " has given up, or another node stands for election"
		}
	}
	return logLine{level: level, what: what, why: why, term: now.term}
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

// loss returns why this node does not lead any more, if it did. mu is held.
func (w *leaderWatch) loss() change {
	switch {
	case w.successor != "":
		return lostHandedOver
	case w.closing:
		return lostStopping
	case w.contacts.Rests():
		return lostResigned
	case w.diskHangs():
		return lostDisk
	}
	return lostDeposed
}

// lossText returns a loss in the words of the log. mu is held.
func (w *leaderWatch) lossText(loss change) string {
	switch loss {
	case lostHandedOver:
		return "leadership was handed over to " + w.successor
	case lostStopping:
		return "this node stops"
	case lostResigned:
		return "what it sent the others to store did not arrive in time"
	case lostDisk:
		return "its disk has not taken an entry for a while"
	}
	return fmt.Sprintf("a majority of the voters did not answer for %s, or a later term has begun", w.cfg.Heartbeat)
}

// silence returns the time since this node led, or another one is known to have led. A message proves that its leader
// led when the answer before it was sent, not when it arrives (serveLog).
func (w *leaderWatch) silence() time.Duration {
	since := max(w.began, time.Duration(w.led.Load()), w.heard.Sure())
	return (w.clock.Monotonic() - since).Round(time.Millisecond)
}

// listen drops this node's subscribers once no leader has been heard from for LeaderWait. Their
// messages are late by then, and a client that subscribes again finds a node that is up to date.
func (w *leaderWatch) listen() {
	leads := w.raft.State() == raft.Leader
	if leads {
		w.led.Store(int64(w.clock.Monotonic()))
	}
	if leads || w.silence() < w.cfg.LeaderWait {
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
	ctx, cancel := context.WithTimeout(ctx, request.CommitWaitMax)
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
