package request

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/resp"
	"lockd/resp/fault"
)

// proposerAt returns a proposer of a leader whose term is open, at a standing clock, with nothing to do.
func proposerAt() (*Proposer, *clock.Leadership, *steppingClock) {
	standing := &steppingClock{now: time.Hour}
	c := configOf(standing)
	c.State.Deadline.Store(1 << 40)
	return newProposer(c), &clock.Leadership{Clock: standing}, standing
}

func queued(size int) *op { return &op{size: size, done: func(peer.Outcome, resp.Result) {}} }

// An entry takes as many requests as it may, and as many bytes; one request finds room however large it is.
func TestEntryLimits(t *testing.T) {
	const half = record.BatchBytesMax / 2
	for _, c := range []struct {
		sizes []int
		want  string
	}{
		{[]int{half, half}, "[2]"},
		{[]int{half, half, 1}, "[2 1]"},
		{[]int{half, half + 1, 1}, "[1 2]"},
		{[]int{record.BatchBytesMax + 1, 1, 1}, "[1 2]"},
		{[]int{1, record.BatchBytesMax, record.BatchBytesMax - 1, 1}, "[1 1 2]"},
		{make([]int, record.BatchRequestsMax+1), fmt.Sprint([]int{record.BatchRequestsMax, 1})},
	} {
		p, lead, _ := proposerAt()
		for _, size := range c.sizes {
			p.submit(queued(size))
		}
		var taken []int
		for len(p.waiting) > 0 {
			ops, _ := p.take(lead)
			taken = append(taken, len(ops))
			completeFlight(p, ops)
			p.delay.want = 0
		}
		if fmt.Sprint(taken) != c.want || p.bytes != 0 {
			t.Errorf("%.60s: entries of %v, %d bytes are left", fmt.Sprint(c.sizes), taken, p.bytes)
		}
	}
}

// A change of the roster travels alone.
func TestChangeTravelsAlone(t *testing.T) {
	p, lead, _ := proposerAt()
	change := func() *op {
		o := queued(1)
		o.change = &membership.Change{}
		return o
	}
	for _, o := range []*op{queued(1), queued(1), change(), queued(1), queued(1), change(), change()} {
		p.submit(o)
	}
	for i, want := range []int{2, 1, 2, 1, 1} {
		ops, _ := p.take(lead)
		if len(ops) != want {
			t.Fatalf("entry %d has %d ops, not %d", i, len(ops), want)
		}
		completeFlight(p, ops)
		p.delay.want = 0
	}
}

// Behind an entry the next one waits for the clients of the last, to the nanosecond; beside one that is in flight it does
// not. The proposer knows that it gathers.
func TestGathers(t *testing.T) {
	p, lead, standing := proposerAt()
	p.delay.want, p.delay.until = 10, standing.now+1
	p.submit(queued(1))
	if ops, left := p.take(lead); len(ops) != 0 || left != 1 || !p.gathers {
		t.Errorf("took %d ops, waits %v, gathers %v", len(ops), left, p.gathers)
	}
	p.inFlight = 1
	if ops, _ := p.take(lead); len(ops) != 1 || p.gathers {
		t.Errorf("beside an entry: took %d ops, gathers %v", len(ops), p.gathers)
	}
}

// An op that only joins others waits to the nanosecond.
func TestJoinsToTheEnd(t *testing.T) {
	p, lead, standing := proposerAt()
	o := queued(1)
	o.joins = standing.now + 1
	p.submit(o)
	if ops, left := p.take(lead); len(ops) != 0 || left != 1 {
		t.Errorf("took %d ops, waits %v", len(ops), left)
	}
	standing.now++
	if ops, _ := p.take(lead); len(ops) != 1 {
		t.Errorf("took %d ops", len(ops))
	}
}

// An entry without requests ends a lease. None follows while one is in flight, nor before tickPause is over.
func TestTicks(t *testing.T) {
	p, lead, standing := proposerAt()
	p.State.Deadline.Store(-1)
	if ops, left := p.take(lead); len(ops) != 0 || left != 0 {
		t.Fatalf("a lease is over: took %d ops, waits %v", len(ops), left)
	}
	p.Stored()
	if _, left := p.take(lead); left != clock.IdleMax {
		t.Errorf("one is in flight: waits %v", left)
	}
	completeFlight(p, nil)
	standing.now += tickPause - 1
	if _, left := p.take(lead); left != time.Millisecond {
		t.Errorf("a nanosecond before the pause is over: waits %v", left)
	}
	standing.now++
	if _, left := p.take(lead); left != 0 {
		t.Errorf("the pause is over: waits %v", left)
	}
}

// The first entry of a term is due although no lease is.
func TestFirstEntryOfTerm(t *testing.T) {
	p, lead, standing := proposerAt()
	if _, left := p.take(lead); left <= 0 {
		t.Errorf("nothing to do: waits %v", left)
	}
	lead = &clock.Leadership{Term: 5, Clock: standing}
	if ops, left := p.take(lead); len(ops) != 0 || left != 0 {
		t.Errorf("took %d ops, waits %v", len(ops), left)
	}
	(&flight{p: p, term: 5}).complete(peer.Done, nil)
	if _, left := p.take(lead); left <= 0 || !p.hasOpened(lead) {
		t.Errorf("the term is open: waits %v", left)
	}
	(&flight{p: p, term: 4}).complete(peer.Done, nil)
	if !p.hasOpened(lead) {
		t.Error("an entry of an older term closes it")
	}
}

// That the disk is free wakes the proposer if an entry waits for that.
func TestStored(t *testing.T) {
	p, lead, _ := proposerAt()
	woken := func() bool {
		select {
		case <-p.wake:
			return true
		default:
			return false
		}
	}
	if p.Stored(); woken() {
		t.Error("no entry is being stored")
	}
	p.submit(queued(1))
	woken()
	p.take(lead)
	if p.Stored(); !woken() {
		t.Error("an entry is stored")
	}
	if p.Stored(); woken() {
		t.Error("it was stored before")
	}
}

// A fault at the point of gathering strikes when the proposer gathers, and not before.
func TestGatherFault(t *testing.T) {
	p, lead, standing := proposerAt()
	p.Lead.Store(lead)
	p.Faults = &fault.Set{}
	struck, err := p.Faults.Arm(fault.Gather, fault.ActError, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	is := func() bool {
		select {
		case <-struck:
			return true
		default:
			return false
		}
	}
	if p.step(); is() {
		t.Error("nothing is gathered")
	}
	p.delay.want, p.delay.until = 10, standing.now+1
	p.submit(queued(1))
	if p.step(); !is() {
		t.Error("it gathers")
	}
}

// Raft's answers to barriers count in the watch over transfers.
func TestObserve(t *testing.T) {
	stopped := false
	p, _, standing := proposerAt()
	p.Fatal = func(error) { stopped = true }
	for range transferRefusalsMax {
		p.Observe(raft.ErrLeadershipTransferInProgress)
		standing.now += transferRefusalEvery
	}
	if !stopped {
		t.Error("a node that leads and takes nothing goes on")
	}
}

// A proposer that is told to stop answers what waits, and all that comes.
func TestProposerStops(t *testing.T) {
	stop := make(chan struct{})
	c := configOf(clock.NewSystem())
	c.Stop = stop
	p := newProposer(c)
	p.paused, p.pausedTill = 1, 1<<62
	outcomes := make(chan peer.Outcome, 2)
	submit := func() {
		p.submit(&op{size: 1, done: func(o peer.Outcome, _ resp.Result) { outcomes <- o }})
	}
	c.Lead.Store(&clock.Leadership{Clock: c.Clock})
	submit()
	close(stop)
	p.Run()
	submit()
	for range 2 {
		if o := <-outcomes; o != peer.NotDone {
			t.Error(o)
		}
	}
}

// An entry that is void tells its node that the attempt is not done, in the same term too.
func TestVoidAttempt(t *testing.T) {
	r := newAttempts()
	r.Applied(8, &record.Entry{}, nil)
	a := r.begin(8, func() {})
	if r.Open() != 1 {
		t.Errorf("%d are open", r.Open())
	}
	r.Applied(8, &record.Entry{Origins: []record.Origin{a.Origin}, Reqs: []resp.Request{command("W")}}, voidEntry)
	if r.Open() != 0 || a.out.Outcome != peer.NotDone {
		t.Errorf("%d are open, %+v", r.Open(), a.out)
	}
}

// The end of an entry wakes the proposer, starts the wait for its clients if it was the last one in flight, and counts.
func TestComplete(t *testing.T) {
	p, _, standing := proposerAt()
	p.inFlight, p.opsInFlight, p.storing = 2, 30, true
	<-wakeOf(p)
	fl := &flight{p: p, took: 10, began: standing.now - time.Second}
	fl.complete(peer.Done, nil)
	select {
	case <-p.wake:
	default:
		t.Error("the proposer is not woken")
	}
	if p.inFlight != 1 || p.opsInFlight != 20 || !p.storing || p.delay.until != 0 || p.refused != 0 {
		t.Errorf("%d entries of %d ops, storing %v, waits until %v", p.inFlight, p.opsInFlight, p.storing, p.delay.until)
	}
	p.waiting = []*op{queued(1), queued(1)}
	if p.Ops() != 22 {
		t.Errorf("%d ops are on their way", p.Ops())
	}
	began := standing.now - 100*time.Microsecond
	(&flight{p: p, took: 20, began: began}).complete(peer.NotDone, nil)
	if p.inFlight != 0 || p.storing || p.delay.until != standing.now+50*time.Microsecond || p.delay.want != 20 || p.refused != 0 {
		t.Errorf("%d entries, storing %v, %+v, refused at %v", p.inFlight, p.storing, p.delay, p.refused)
	}
	if count, took := commits(p); count != 1 || took != 1 {
		t.Errorf("%d commits in %v s", count, took)
	}
	p.inFlight = 1
	tick := &flight{p: p}
	tick.complete(peer.Done, nil)
	if p.refused != 0 {
		t.Error("an entry without requests that is done counts as refused")
	}
	p.inFlight = 1
	if tick.complete(peer.NotDone, nil); p.inFlight != 1 {
		t.Error("an entry ends twice")
	}
	if (&flight{p: p}).complete(peer.NotDone, nil); p.refused != standing.now {
		t.Errorf("refused at %v", p.refused)
	}
}

// wakeOf returns the channel that wakes a proposer, with a signal in it.
func wakeOf(p *Proposer) chan struct{} {
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return p.wake
}

// refusing is an entry that Raft refuses because leadership is being transferred.
type refusing struct{ raft.ApplyFuture }

func (refusing) Error() error { return raft.ErrLeadershipTransferInProgress }

// What Raft says of entries counts in the watch over transfers, from the first refusal on.
func TestRefusedEntries(t *testing.T) {
	stopped := false
	p, _, standing := proposerAt()
	standing.now = 0
	p.Fatal = func(error) { stopped = true }
	for i := range transferRefusalsMax {
		if stopped {
			t.Fatalf("it stopped after %d", i)
		}
		p.inFlight = 1
		(&flight{p: p, timer: time.NewTimer(time.Hour)}).await(refusing{})
		if p.transfer.refusals != i+1 {
			t.Fatalf("%d refusals count as %d", i+1, p.transfer.refusals)
		}
		standing.now += transferRefusalEvery
	}
	if !stopped {
		t.Error("it did not stop")
	}
}

// What waits is bounded in bytes, but for one request that waits alone.
func TestQueueBytes(t *testing.T) {
	refused := 0
	submit := func(q *opQueue, size int) {
		q.submit(&op{size: size, done: func(peer.Outcome, resp.Result) { refused++ }})
	}
	q := &opQueue{wake: make(chan struct{}, 1)}
	if submit(q, queueBytesMax+1); refused != 0 || len(q.waiting) != 1 {
		t.Error("one that is too large, alone")
	}
	q = &opQueue{wake: make(chan struct{}, 1)}
	submit(q, queueBytesMax-1)
	if submit(q, 2); refused != 1 || len(q.waiting) != 1 {
		t.Error("one more than the limit")
	}
	if submit(q, 1); refused != 1 || len(q.waiting) != 2 {
		t.Error("up to the limit")
	}
}

// An op joins others from the first moment of a clock on, until it is hurried, once.
func TestJoiners(t *testing.T) {
	q := &opQueue{wake: make(chan struct{}, 1)}
	joins, plain := queued(1), queued(1)
	joins.joins = 1
	q.submit(plain)
	q.submit(joins)
	if ops := q.joiners(); q.joining != 1 || len(ops) != 1 || ops[0] != joins {
		t.Errorf("%d join, %d are listed", q.joining, len(ops))
	}
	q.hurry([]*op{joins, plain})
	if q.hurry([]*op{joins}); q.joining != 0 || joins.joins != 0 {
		t.Errorf("%d join", q.joining)
	}
	if q.joiners() != nil {
		t.Error("some are listed")
	}
}

// A delay whose time is up at this very moment was in vain.
func TestDelayInVain(t *testing.T) {
	d := entryDelay
	d.want, d.until = 10, time.Hour
	if left := d.left(1, time.Hour); left != 0 || d.skip != delaySkips {
		t.Errorf("it waits %v, and skips %d", left, d.skip)
	}
}
