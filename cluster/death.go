package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/figures"
	"lockd/cluster/followers"
	"lockd/cluster/peer"
	"lockd/cluster/wake"
)

// A process that ends takes its connections with it, and its port refuses, so nobody has to wait for its silence. But a
// port may refuse though the process lives, and a connection may break. So a node that has lost its last connection
// with a member looks twice whether the member's port refuses, and asks the other voters, each of which looks for
// itself. If a majority of all voters finds that the process has ended, and none sees it alive, it has ended: another
// node replaces a leader at once, and nobody waits for a follower.

const (
	// lookPause is the time between two looks at a port.
	lookPause = 20 * time.Millisecond
	// looksEnough is the least number of looks in a row that find that the port refuses.
	looksEnough = 2
	// looksMax bounds the looks that wait for the last connection to end: what the connection has brought is stored first.
	looksMax = 4
	// lookMax bounds a look. A process that lives answers in a few milliseconds, whatever its disks do, unless its machine
	// is cut off.
	lookMax = 100 * time.Millisecond
	// reportMax bounds the age of a report, that a process has ended, that this node tells another one.
	reportMax = 100 * time.Millisecond
	// askMax bounds the wait for the reports of the others. Members that are cut off do not answer.
	askMax = 100 * time.Millisecond
	// inquiryMax bounds an inquiry. After that the silence of a heartbeat timeout decides.
	inquiryMax = time.Second
	// standStep is the time that a node leaves the one before it to begin to stand for election. A node that stands is
	// waited for: it stores its vote before it asks for others.
	standStep = 100 * time.Millisecond
	// keepEvery is the time between two calls of a leader to each member, so that there is a connection on which the end
	// of the member is read at once. Package peer closes a connection that is idle for longer.
	keepEvery = 20 * time.Second
	// formerMax bounds the replaced processes of a member that are remembered.
	formerMax = 8
)

// deaths finds out that the process of a member has ended. All methods may be called concurrently.
type deaths struct {
	*core
	peers    *peer.Port
	trans    *transport
	members  *members
	contacts *followers.Contacts
	replicas *followers.Conns
	ownLog   *ownLog
	room     *figures.Room

	// gone is called on the leader, by a goroutine of its own and without locks, with the id of a member whose process
	// has ended: once for each process. A node that begins to lead asks contacts.Gone for ends that it knew of before.
	gone func(id string)

	due chan struct{} // capacity 1: this node leads, or a member has another process

	mu      sync.Mutex
	lives   map[string]*life // by id
	closed  bool
	running sync.WaitGroup
}

// life records the processes of a member.
type life struct {
	process     uint64        // the latest
	starts      uint64        // its number, where it has one
	incarnation string        // of its data folder; "": this node has not met it
	former      []uint64      // those before
	heard       time.Duration // monotonic: when the latest introduced itself last
	told        uint64        // the last process that a majority has found to have ended, and that was not heard since

	inquiry *inquiry
	again   bool // another connection has ended meanwhile
	found   peer.Liveness
	foundOf uint64        // the process
	foundAt time.Duration // monotonic
	waiting []asker
}

// asker is another node that waits for the report of this one.
type asker struct {
	process uint64
	respond func(peer.Report)
}

// inquiry finds out whether one process of a member has ended.
type inquiry struct {
	id      string
	addr    string
	process uint64
	term    uint64        // in which that member led this node when the inquiry began; 0: it did not
	asked   bool          // by another node
	agreed  time.Duration // monotonic: when the others agreed for the first time; 0: they have not
}

// overtaken reports whether a later process of the member may have ended, too. The lock of deaths is held.
func (q *inquiry) overtaken(l *life) bool { return l.again && l.process != q.process }

// replaced reports whether a later process of the same data folder has introduced itself. The lock is held.
func (q *inquiry) replaced(l *life) bool { return slices.Contains(l.former, q.process) }

// heardSince reports whether the process has introduced itself since a monotonic time. The lock is held.
func (q *inquiry) heardSince(l *life, t time.Duration) bool {
	return l.process == q.process && l.heard > t
}

// known reports whether it is known already that the process has ended. The lock is held.
func (q *inquiry) known(l *life) bool { return l.told == q.process }

func newDeaths(c *core, peers *peer.Port, t *transport, room *figures.Room, gone func(id string)) *deaths {
	return &deaths{
		core: c, peers: peers, trans: t, members: t.members, contacts: t.contacts, replicas: t.replicas, ownLog: t.ownLog,
		room: room, gone: gone, lives: map[string]*life{}, due: make(chan struct{}, 1),
	}
}

// run keeps a leader's connections with the members until the node stops.
func (d *deaths) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.running.Go(func() {
		<-d.stop
		cancel()
	})
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-d.due:
		case <-tick.C:
		case <-d.stop:
			return
		}
		if d.lead.Held() {
			d.members.survey(ctx)
		}
	}
}

// heard implements peer.Handler.
func (d *deaths) heard(who peer.Identity, admitted bool) {
	if who.Process == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lives[who.ID]
	same := l != nil && (l.incarnation == who.Incarnation || l.incarnation == "")
	switch {
	case !admitted && (!same || who.Cluster != d.members.identity().Cluster), l == nil && len(d.lives) >= metMax:
		return // another node that has its name
	case same && (who.Starts < l.starts || slices.Contains(l.former, who.Process)):
		return // what is left of an earlier process
	case l == nil:
		l = &life{process: who.Process}
		d.lives[who.ID] = l
	case !same: // its own, so that an inquiry that is under way hears of it
		l.process, l.former, l.told = who.Process, nil, 0
		wake.Signal(d.due)
	}
	l.starts, l.incarnation, l.heard = who.Starts, who.Incarnation, d.clock.Monotonic()
	if l.told == who.Process {
		l.told = 0
	}
	if l.process != who.Process {
		former := l.process
		l.former = append(l.former[max(0, len(l.former)-formerMax+1):], former)
		l.process = who.Process
		wake.Signal(d.due)
		d.begin(who.ID, l, former, false)
	}
	d.contacts.Back(who.ID)
}

// ended implements peer.Handler.
func (d *deaths) ended(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.lives[id]; l != nil {
		d.begin(id, l, l.process, false)
	}
}

// suspected implements peer.Handler: another node asks what this one sees of a process.
func (d *deaths) suspected(q peer.Suspicion, respond func(peer.Report)) {
	d.mu.Lock()
	l := d.lives[q.ID]
	if l == nil && d.addrOf(q.ID) != "" { // followers need not have met
		l = &life{process: q.Process}
		d.lives[q.ID] = l
	}
	fresh := l != nil && l.found == peer.Ended && l.foundOf == q.Process && l.heard <= l.foundAt &&
		d.clock.Monotonic()-l.foundAt < reportMax
	if l != nil && !fresh && d.begin(q.ID, l, q.Process, true) {
		l.waiting = append(l.waiting, asker{q.Process, respond})
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	sees := peer.Unsure
	if fresh {
		sees = peer.Ended
	}
	respond(d.report(sees))
}

// lookAround inquires about the members when this node begins to lead: it may not have been told of processes that ended
// before.
func (d *deaths) lookAround() {
	wake.Signal(d.due)
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, l := range d.lives {
		if d.peers.Open(id, l.process) == 0 && !d.contacts.Gone(id) {
			d.begin(id, l, l.process, true)
		}
	}
}

// close waits until all inquiries have ended, and lets no other begin.
func (d *deaths) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.running.Wait()
}

// begin begins an inquiry unless one is under way, which then begins again. It returns false if there is none: the node
// stops, or knows no such member. mu is held.
func (d *deaths) begin(id string, l *life, process uint64, asked bool) bool {
	if l.inquiry != nil {
		l.again = l.again || !asked
		return true
	}
	addr := d.addrOf(id)
	if addr == "" || d.closed {
		return false
	}
	q := &inquiry{id: id, addr: addr, process: process, asked: asked}
	if _, leader := d.raft.LeaderWithID(); string(leader) == id {
		q.term = d.raft.CurrentTerm()
	}
	l.inquiry = q
	d.running.Go(func() { d.inquire(l, q) })
	return true
}

// addrOf returns the peer address of another member; "" if there is no such member.
func (d *deaths) addrOf(id string) string {
	for _, s := range d.raft.StartedServers() {
		if string(s.ID) == id && id != d.cfg.ID {
			return string(s.Address)
		}
	}
	return ""
}

// inquire finds out what has become of a process, and does what follows. Where it is not sure it looks again: a process
// that ends may close its connections before its port, and reset new connections meanwhile.
func (d *deaths) inquire(l *life, q *inquiry) {
	defer d.end(l, q)
	if !q.asked && d.connected(q) {
		return
	}
	for until := d.clock.Monotonic() + inquiryMax; d.clock.Monotonic() < until; {
		sees := d.look(l, q)
		d.found(l, q, sees)
		d.log.Debug("looked whether the process of a member has ended", "member", q.id, "sees", sees, "asked", q.asked)
		switch {
		case sees == peer.Alive, sees == peer.Unsure && q.asked, sees == peer.Ended && d.conclude(l, q):
			return
		case d.inspect(l, q.overtaken), !wake.Pause(lookPause, d.stop):
			return
		}
	}
}

// inspect calls see with what is known of the processes of a member, under the lock.
func (d *deaths) inspect(l *life, see func(*life) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return see(l)
}

// end ends an inquiry, or has it begin again.
func (d *deaths) end(l *life, q *inquiry) {
	d.mu.Lock()
	again := l.again
	l.inquiry, l.again = nil, false
	var left []asker
	switch {
	case len(l.waiting) > 0:
		if !d.begin(q.id, l, l.waiting[0].process, true) {
			left, l.waiting = l.waiting, nil
		}
	}
	if again { // after what was asked, if anything
		d.begin(q.id, l, l.process, false)
	}
	d.mu.Unlock()
	for _, w := range left {
		w.respond(d.report(peer.Unsure))
	}
}

// found keeps the report of a look, and answers the nodes that have asked.
func (d *deaths) found(l *life, q *inquiry, sees peer.Liveness) {
	d.mu.Lock()
	l.found, l.foundOf, l.foundAt = sees, q.process, d.clock.Monotonic()
	var asked []asker
	l.waiting = slices.DeleteFunc(l.waiting, func(w asker) bool {
		mine := w.process == q.process
		if mine {
			asked = append(asked, w)
		}
		return mine
	})
	d.mu.Unlock()
	for _, w := range asked {
		w.respond(d.report(sees))
	}
}

// report returns this node's answer to another one.
func (d *deaths) report(sees peer.Liveness) peer.Report {
	f := peer.Report{Sees: sees}
	if !d.raft.Started.Load() {
		return f
	}
	f.Stands = d.raft.State() == raft.Candidate
	f.Term, f.Able, f.Short = d.raft.CurrentTerm(), d.able(), d.room.Now().Short
	f.LastTerm, f.LastIndex = d.ownLog.last()
	return f
}

// able reports whether this node may stand for election.
func (d *deaths) able() bool {
	self := func(s raft.Server) bool { return s.ID == d.raft.Self }
	return d.raft.State() == raft.Follower && !d.broken.Load() && slices.ContainsFunc(d.raft.Voters(), self) &&
		d.trans.yielder.standsBack() == nil
}

// connected reports whether a connection with the process has not ended. Nobody reads those on which a leader
// replicates while it does not.
func (d *deaths) connected(q *inquiry) bool {
	d.replicas.Prune(raft.ServerAddress(q.addr))
	return d.peers.Open(q.id, q.process) > 0
}

// look finds out whether a process has ended, as far as this node can see.
func (d *deaths) look(l *life, q *inquiry) peer.Liveness {
	began := d.clock.Monotonic()
	for refused := 1; ; refused++ {
		switch sees := d.lookOnce(l, q); {
		case sees == peer.Alive || d.inspect(l, func(l *life) bool { return q.heardSince(l, began) }):
			return peer.Alive
		case sees == peer.Unsure && d.connected(q):
			return peer.Alive
		case sees == peer.Unsure:
			return peer.Unsure
		case refused >= looksEnough && !d.connected(q):
			return peer.Ended
		case refused >= looksMax:
			return peer.Alive
		}
		if !wake.Pause(lookPause, d.stop) {
			return peer.Unsure
		}
	}
}

// lookOnce asks at the address of the process who is there.
func (d *deaths) lookOnce(l *life, q *inquiry) peer.Liveness {
	if d.inspect(l, q.replaced) {
		return peer.Ended
	}
	who, err := d.peers.IdentifyWithin(q.addr, lookMax)
	switch {
	case peer.Refuses(err):
		return peer.Ended
	case err != nil || who.ID != q.id:
		return peer.Unsure // nobody, or a stranger, says anything of the process
	}
	d.heard(who, false)
	switch {
	case who.Process == q.process:
		return peer.Alive
	case d.inspect(l, q.replaced):
		return peer.Ended
	}
	return peer.Unsure
}

// conclude asks the other voters, if it matters here that the process has ended, and does what follows. It returns false
// if they do not all agree, and may yet.
func (d *deaths) conclude(l *life, q *inquiry) bool {
	leads := d.lead.Held()
	switch {
	case leads && d.inspect(l, q.known), !leads && q.term != 0 && !d.mayStand(q):
		return true
	case !leads && q.term == 0:
		return d.raft.State() != raft.Leader // which it may soon be ready to be
	}
	reports, agreed := d.ask(q)
	d.log.Debug("asked whether the process of a member has ended",
		"member", q.id, "agreed", agreed, "reports", len(reports))
	if !agreed {
		return false
	}
	marked, gone := d.mark(l, q)
	switch {
	case !marked:
		return false
	case !leads:
		return d.standInTurn(q, reports)
	case gone:
		d.log.Warn("the process of a member has ended: start it, or look at its log", "member", q.id)
	default:
		d.log.Info("the process of a member has ended, and its next one runs", "member", q.id)
	}
	d.gone(q.id)
	return true
}

// mark keeps that a process has ended, unless it was heard since that was found; gone: no later one was heard, either.
func (d *deaths) mark(l *life, q *inquiry) (marked, gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.heardSince(l, l.foundAt) {
		return false, false
	}
	l.told = q.process
	if gone = l.process == q.process; gone {
		d.contacts.Lost(q.id)
	}
	return true, gone
}

// voterReport is the report of one of the voters.
type voterReport struct {
	id string
	peer.Report
}

// ask asks the other voters. They agree if a majority of all voters, this node among them, has found that the
// process has ended, none has found that it lives, and, where it led, none knows of a later term.
func (d *deaths) ask(q *inquiry) (ended []voterReport, agreed bool) {
	voters := d.raft.Voters()
	ctx, cancel := context.WithTimeout(context.Background(), askMax)
	defer cancel()
	answers, asked := make(chan voterReport, len(voters)), 0
	for _, v := range voters {
		if v.ID == d.raft.Self {
			ended = append(ended, voterReport{d.cfg.ID, d.report(peer.Ended)})
		}
		if v.ID == d.raft.Self || string(v.ID) == q.id {
			continue
		}
		asked++
		go func() {
			f, err := d.peers.Suspect(ctx, string(v.Address), peer.Suspicion{ID: q.id, Process: q.process})
			if err != nil {
				f = peer.Report{}
			}
			answers <- voterReport{string(v.ID), f}
		}()
	}
	for range asked {
		switch v := <-answers; {
		case v.Sees == peer.Alive, q.term != 0 && v.Term > q.term:
			return nil, false
		case v.Sees == peer.Ended:
			ended = append(ended, v)
		}
	}
	return ended, len(ended) >= len(voters)/2+1
}

// standInTurn has this node stand for election in place of the leader that has ended, if its turn has come among
// the nodes that have found it ended. It returns false if its turn may still come.
func (d *deaths) standInTurn(q *inquiry, reports []voterReport) bool {
	turn, ok := turnOf(d.cfg.ID, reports)
	if !ok {
		return true
	}
	now := d.clock.Monotonic()
	if q.agreed == 0 {
		q.agreed = now
	}
	another := func(v voterReport) bool { return v.Stands }
	if now-q.agreed < time.Duration(turn)*standStep || slices.ContainsFunc(reports, another) {
		return false
	}
	d.log.Info("the process of the leader has ended: this node stands for election", "leader", q.id, "term", q.term)
	// While Raft is busy this node answers the others, so that another one may stand.
	return d.trans.elect(func() bool { return d.mayStand(q) && d.clock.Monotonic()-now < lookPause })
}

// mayStand reports whether this node may stand for election in place of the leader that has ended: it has heard of no
// later one.
func (d *deaths) mayStand(q *inquiry) bool {
	_, leader := d.raft.LeaderWithID()
	return string(leader) == q.id && d.raft.CurrentTerm() == q.term && d.able()
}

// turnOf returns how many nodes may stand for election before a node. A longer log comes first, as its node elects
// nobody with a shorter one, then a disk that is not nearly full, then the lower id. ok is false if the node may not
// stand.
func turnOf(id string, reports []voterReport) (turn int, ok bool) {
	able := slices.DeleteFunc(slices.Clone(reports), func(v voterReport) bool { return !v.Able })
	slices.SortFunc(able, func(a, b voterReport) int {
		room := map[bool]int{true: 1}
		return cmp.Or(
			cmp.Compare(b.LastTerm, a.LastTerm), cmp.Compare(b.LastIndex, a.LastIndex),
			cmp.Compare(room[a.Short], room[b.Short]), cmp.Compare(a.id, b.id),
		)
	})
	turn = slices.IndexFunc(able, func(v voterReport) bool { return v.id == id })
	return turn, turn >= 0
}
