package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/wake"
	"lockd/resp"
)

// blocker tracks the blocking commands of this node's clients. The commands wait in the machine;
// the blocker only knows which client to tell. A command's end always arrives through the log,
// never as the answer to a proposal. So it does not matter which node leads, and asking again is
// harmless.
//
// What a client that has waited was given it is told only once the leader has agreed (claim.go): the leader takes back
// what belongs to a node that it does not hear from, and a node that was paused or cut off does not know how old the
// news is. What a client is not told, as it is gone, goes back by the next step of this node (tend).
type blocker struct {
	*core
	router  *router
	state   *replica.State
	members *members
	due     chan struct{}  // capacity 1: there is something to tend to
	claim   chan struct{}  // capacity 1: claims is not empty
	tried   wake.Broadcast // an attempt to open a session has ended

	mu      sync.Mutex
	session uint64        // the session of new commands; 0: none is open
	last    uint64        // the last command number given in it
	used    time.Duration // monotonic time of its last use
	opening bool          // a goroutine is opening one
	waiters map[resp.BlockID]*waiter
	cancels []resp.BlockID
	claims  []claimed
	returns []resp.BlockID // what was given to clients that are not told
	closed  bool

	// What clients were given, until the machine knows that they were told, or it was taken back.
	untold    map[resp.BlockID]uint64 // gifts that nobody has been told of yet, with the entry that gave them
	unsettled map[uint64]uint64       // by session: the last entry that gave something
	gifts     int                     // since the last step that settled
}

// waiter is a command whose end this node has not seen.
type waiter struct {
	id     resp.BlockID
	cmd    resp.Cmd
	began  time.Duration      // monotonic: when it was asked for
	ended  chan resp.BlockEnd // capacity 1
	client resp.Waiter
	asking context.Context // the client's; also ends when the command has ended
	quiet  context.CancelFunc

	fate callFate // guarded by the blocker's lock
}

// claimed is the end of a command whose client is told once the leader has agreed.
type claimed struct {
	call *waiter
	end  resp.BlockEnd
}

// callFate says who decides what a client is told.
type callFate uint8

const (
	fateOpen      callFate = iota
	fateTold               // its end: Waiter.Served has been, or is about to be called
	fateAbandoned          // the client has been told something else, or is gone: what it was given goes back
)

// The endings of this node's own.
const (
	// blockMissed: a snapshot replaced the entry that carried the real one.
	blockMissed resp.Ending = 0xff - iota
	// blockTakenBack: the command was served, and nobody was told before that was undone.
	blockTakenBack
	// blockLate: a LOCK was granted, and so long ago that its client would take the lease for longer than it is.
	blockLate
)

const (
	// blockKeepEvery is how often a node with waiting commands renews its session: about a third of
	// the machine's lease.
	blockKeepEvery = 3300 * time.Millisecond
	// blockIdleMax is how long an idle session is used. After that it is assumed to have ended.
	blockIdleMax = 5 * time.Second
	// cancelsMax bounds the commands cancelled by one request, and what one takes back.
	cancelsMax = 1024
	// claimsMax bounds the ends that one claim asks for.
	claimsMax = 1024
	// settleAfter is after how many gifts a node says that they were delivered, before its next renewal.
	settleAfter = 1024
	// answerAgeMax is how old the lease of a lock is at most when a LOCK that may wait is answered: as the leader knows
	// it, and with the time that asking the leader took. An older one is begun anew first.
	answerAgeMax = time.Second
	// waitMsMax bounds a timer in milliseconds. A longer wait is treated as endless.
	waitMsMax = 1 << 40
	// blockLeaveMax bounds the time that a stopping node spends on closing its sessions.
	blockLeaveMax = time.Second
)

func newBlocker(c *core, r *router, s *replica.State, m *members) *blocker {
	return &blocker{
		core: c, router: r, state: s, members: m, due: make(chan struct{}, 1), claim: make(chan struct{}, 1),
		waiters: map[resp.BlockID]*waiter{}, untold: map[resp.BlockID]uint64{}, unsettled: map[uint64]uint64{},
	}
}

// Block runs a blocking command of one of this node's clients and returns when it has ended. A
// value on unblock ends the wait; the command may have been served just before. When ctx ends, the
// client is gone: Block returns at once, its reply has no meaning, and the command is cancelled in
// the background. If the command is served, Block tells waiter, maybe after it has returned. Only
// Waiter.Served decides whether the client will hear of it: if it returns false, the client
// never does, and what it was given is taken back.
func (n *Node) Block(
	ctx context.Context, cmd resp.Cmd, by resp.Sender, unblock <-chan resp.Unblock, waiter resp.Waiter,
) resp.Reply {
	cmds := []resp.Cmd{cmd}
	n.commands.identify(cmds)
	w := &blockWait{b: n.blocker, cmd: cmds[0], by: by, unblock: unblock, waiter: waiter}
	w.start = n.clock.Monotonic()
	if req := w.request(resp.BlockID{}); req.Size() > record.RequestBytesMax {
		return resp.Err(errRequestTooLarge)
	}
	if err := n.checkLevel(ctx, resp.Request{Cmds: cmds}); err != nil {
		return resp.Fail(err)
	}
	if fail, wrong := n.commands.check(&cmds[0]); wrong {
		return fail
	}
	for {
		call := w.begin(ctx)
		if call == nil {
			w.giveUpLock()
			return w.undone()
		}
		if reply, again := w.await(ctx, call); !again {
			w.giveUpLock()
			return reply
		}
	}
}

// blockWait is a client that waits for one blocking command.
type blockWait struct {
	b         *blocker
	cmd       resp.Cmd
	by        resp.Sender
	unblock   <-chan resp.Unblock
	waiter    resp.Waiter
	start     time.Duration // monotonic
	instead   resp.BlockID  // the lock was granted under this name, too late to be told; the zero value: it was not
	unblocked bool          // CLIENT UNBLOCK, or the server stops
	why       resp.Unblock
}

func (w *blockWait) request(id resp.BlockID) resp.Request {
	spent := (w.b.clock.Monotonic() - w.start).Milliseconds()
	req := resp.BlockAsking(id, spent, w.cmd)
	req.Sender, req.Block.Instead = w.by, w.instead
	return req
}

// giveUpLock takes a lock back that was granted too late to be told, and was not granted again.
func (w *blockWait) giveUpLock() {
	if w.instead != (resp.BlockID{}) {
		w.b.giveBack(w.instead)
	}
}

// begin registers the command under a new number, which needs an open session. It returns nil if no
// session opens within LeaderWait, or if the client is unblocked; the command has not been asked
// for then. Each client has the whole of LeaderWait, whatever others spent on it.
func (w *blockWait) begin(ctx context.Context) *waiter {
	b := w.b
	patience, leave := context.WithTimeout(ctx, b.cfg.LeaderWait)
	defer leave()
	for {
		tried := b.tried.Next() // before the check, so that no change is missed
		call := b.number(ctx, w)
		if call != nil || !b.open(patience) {
			return call
		}
		select {
		case <-tried:
		case w.why = <-w.unblock:
			w.unblocked = true
			return nil
		case <-patience.Done():
			return nil
		case <-b.stop:
			return nil
		}
	}
}

// await asks for the command and waits for its end. again means that nothing was done: the command
// has to be asked for under another number.
func (w *blockWait) await(ctx context.Context, call *waiter) (reply resp.Reply, again bool) {
	defer call.quiet()
	o, left := w.b.router.retryUntilDone(call.asking, func() resp.Request { return w.request(call.id) })
	select {
	case end := <-call.ended:
		return w.answer(end)
	default:
	}
	switch o {
	case outcomeNotDone:
		w.b.forget(call.id)
		return resp.Err(w.b.router.commands.notDone), false
	case outcomeUnknown:
		w.b.cancel(call.id)
		return w.abandon(call)
	}
	return w.sleep(ctx, call, left.Int)
}

// abandon answers a client that does not know what becomes of its command, unless its end is about to be told.
func (w *blockWait) abandon(call *waiter) (reply resp.Reply, again bool) {
	if w.b.abandon(call) {
		return resp.Err(resp.ErrUnknown), false
	}
	return w.answer(<-call.ended)
}

// sleep waits for the end of a command that the machine knows. leftMs is how long the command may
// still wait, in milliseconds: -1 is for ever, and 0 means that it has ended but this node has not
// applied that entry yet.
func (w *blockWait) sleep(ctx context.Context, call *waiter, leftMs int64) (reply resp.Reply, again bool) {
	patience := time.NewTimer(time.Duration(min(max(leftMs, 0), waitMsMax))*time.Millisecond + w.b.cfg.Heartbeat)
	defer patience.Stop()
	if leftMs < 0 {
		patience.Stop()
	}
	unblock, cancelled := w.unblock, false
	for {
		select {
		case end := <-call.ended:
			return w.answer(end)
		case w.why = <-unblock:
			w.unblocked, unblock = true, nil
		case <-patience.C:
			if cancelled {
				return w.abandon(call) // the cancellation goes on in the background
			}
		case <-ctx.Done():
			w.b.cancel(call.id)
			return w.abandon(call)
		case <-w.b.stop:
			return w.abandon(call)
		}
		cancelled = true // also if its time is over and the log has not said so
		w.b.cancel(call.id)
		patience.Reset(w.b.cfg.LeaderWait)
	}
}

// answer translates an ending into a reply. Only the log may say that nothing came. A command that
// ended in any other way is asked for again, even if its time is over.
func (w *blockWait) answer(end resp.BlockEnd) (reply resp.Reply, again bool) {
	switch end.How {
	case resp.BlockServed:
		if end.Given && w.instead != (resp.BlockID{}) {
			w.b.forgetGift(w.instead) // it was granted again
			w.instead = resp.BlockID{}
		}
		return end.Reply, false
	case resp.BlockTimedOut:
		return w.nothing(), false
	case blockMissed:
		return resp.Err(resp.ErrUnknown), false
	case resp.BlockCancelled:
		if !w.unblocked {
			return w.nothing(), false // it waited until its time was over, and longer
		}
	case resp.BlockLapsed:
		w.b.lapse(end.ID.Session)
	case blockLate:
		w.instead = end.ID
	}
	if end.Args != nil {
		w.cmd.Args = end.Args // what it has waited for counts from when it began to
	}
	if !w.unblocked {
		return resp.Reply{}, true
	}
	return w.undone(), false
}

// undone is the reply to a client whose command did nothing and will do nothing.
func (w *blockWait) undone() resp.Reply {
	switch {
	case w.unblocked && w.why == resp.UnblockTimeout:
		return w.nothing()
	case w.unblocked && w.why == resp.UnblockError:
		return resp.Err(resp.ErrUnblocked)
	}
	return resp.Err(w.b.router.commands.notDone)
}

// nothing is the answer to a client that has waited in vain.
func (w *blockWait) nothing() resp.Reply {
	if w.cmd.Spec != nil && w.cmd.Spec.NilBulk {
		return resp.Nil()
	}
	return resp.NilArray()
}

// open starts to open a session, unless one is open or being opened. The attempt ends with ctx. It
// returns false if the blocker is closed.
func (b *blocker) open(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && !b.opening && !b.hasSession() {
		b.opening = true
		go b.enter(ctx)
	}
	return !b.closed
}

// enter opens a session. If its number gets lost on the way, the session ends with its lease.
func (b *blocker) enter(ctx context.Context) {
	o, session := b.router.retryUntilDone(ctx, func() resp.Request { return resp.BlockOpening(b.cfg.ID, b.members.starts) })
	b.mu.Lock()
	b.opening = false
	if o == outcomeDone && !b.closed {
		b.session, b.last, b.used = uint64(session.Int), 0, b.clock.Monotonic()
	}
	b.mu.Unlock()
	b.tried.Notify()
}

// hasSession reports whether commands can be asked for in the present session. mu is held.
func (b *blocker) hasSession() bool {
	return b.session != 0 && (len(b.waiters) > 0 || b.clock.Monotonic()-b.used <= blockIdleMax)
}

// number registers a command in the present session, or returns nil if there is none.
func (b *blocker) number(ctx context.Context, w *blockWait) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hasSession() {
		return nil
	}
	b.last++
	b.used = b.clock.Monotonic()
	call := &waiter{
		id:     resp.BlockID{Session: b.session, Number: b.last},
		cmd:    w.cmd,
		began:  b.used,
		ended:  make(chan resp.BlockEnd, 1),
		client: w.waiter,
	}
	call.asking, call.quiet = context.WithCancel(ctx)
	b.waiters[call.id] = call
	return call
}

// lapse records that a session is over.
func (b *blocker) lapse(session uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == session {
		b.session = 0
	}
}

// forget drops a command that certainly never reached the log.
func (b *blocker) forget(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, id)
}

// cancel queues a command to be cancelled. The blocker retries until that is done.
func (b *blocker) cancel(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancels = append(b.cancels, id)
	wake.Signal(b.due)
}

// giveBack queues what was given to be taken back: its client is not told.
func (b *blocker) giveBack(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returns = append(b.returns, id)
	wake.Signal(b.due)
}

// forgetGift drops a gift that another one has taken the place of.
func (b *blocker) forgetGift(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.untold, id)
}

// abandon has a client not be told of the end of its command. It returns false if the client is being told.
func (b *blocker) abandon(call *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if call.fate == fateOpen {
		call.fate = fateAbandoned
	}
	return call.fate == fateAbandoned
}

// end tells a client of this node how its command has ended, by the entry of an index; false if this node has no such
// client. It is called from the goroutine that applies.
func (b *blocker) end(index uint64, e resp.BlockEnd) bool {
	if e.How == resp.BlockSuspended {
		wake.Signal(b.due) // tend resumes the session, if it is this node's
		return true
	}
	b.mu.Lock()
	call := b.waiters[e.ID]
	delete(b.waiters, e.ID)
	if call != nil && e.Given {
		b.untold[e.ID], b.unsettled[e.ID.Session] = index, index
		if b.gifts++; b.gifts >= settleAfter {
			wake.Signal(b.due)
		}
	}
	b.mu.Unlock()
	switch {
	case call == nil:
		return false
	case e.How != resp.BlockServed:
		call.end(e)
	case b.mustClaim(call, &e):
		call.client.Hold()
		b.mu.Lock()
		b.claims = append(b.claims, claimed{call, e})
		b.mu.Unlock()
		wake.Signal(b.claim)
	default:
		b.tell(call, e)
	}
	return true
}

func (c *waiter) end(e resp.BlockEnd) {
	c.ended <- e
	c.quiet()
}

// mustClaim reports whether the leader has to agree before the client is told. A command that was served when it was
// asked for was granted no earlier than it was asked for; what it was given no leader takes back.
func (b *blocker) mustClaim(call *waiter, e *resp.BlockEnd) bool {
	late := !e.Waited && b.clock.Monotonic()-call.began > answerAgeMax
	return e.Waited && e.Given || call.grantsLock(e) && (e.Waited || late)
}

// grantsLock reports whether an end is that of a LOCK that was granted.
func (c *waiter) grantsLock(e *resp.BlockEnd) bool {
	return e.Reply.Kind == resp.KindInt && c.cmd.Spec != nil && c.cmd.Spec.Name == resp.LockCommand
}

// lock is what a LOCK was granted.
func (c *waiter) lock(e *resp.BlockEnd) resp.HeldLock {
	return resp.HeldLock{DB: c.cmd.DB, Key: c.cmd.Args[1], Token: c.cmd.Args[2], Fence: uint64(e.Reply.Int)}
}

// tell tells a client what its command was answered. What it was given goes back if it does not hear of it.
func (b *blocker) tell(call *waiter, e resp.BlockEnd) {
	b.mu.Lock()
	abandoned := call.fate == fateAbandoned
	call.fate = fateTold
	b.mu.Unlock()
	told := !abandoned && call.client.Served(e.Reply)
	b.mu.Lock()
	if told || !e.Given {
		delete(b.untold, e.ID)
	} else {
		b.returns = append(b.returns, e.ID)
		wake.Signal(b.due)
	}
	b.mu.Unlock()
	call.end(e)
}

// claimAll asks the leader, again and again, whether the clients may be told whose commands were served.
func (b *blocker) claimAll(ctx context.Context) {
	for {
		select {
		case <-b.claim:
		case <-ctx.Done():
			return
		}
		for all := b.nextClaims(); len(all) > 0 && ctx.Err() == nil; all = b.nextClaims() {
			b.settleClaims(ctx, all)
		}
	}
}

func (b *blocker) nextClaims() []claimed {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.claims), claimsMax)
	all := b.claims[:n:n]
	b.claims = b.claims[n:]
	return all
}

// settleClaims asks for some ends, and tells their clients. A LOCK that was granted too long ago is asked for again, by
// the token that holds it: so its lease begins anew.
func (b *blocker) settleClaims(ctx context.Context, all []claimed) {
	var given []resp.BlockID
	var locks []resp.HeldLock
	for _, c := range all {
		if c.end.Given {
			given = append(given, c.end.ID)
		}
		if c.call.grantsLock(&c.end) {
			locks = append(locks, c.call.lock(&c.end))
		}
	}
	began := b.clock.Monotonic()
	verdicts := b.askClaims(ctx, resp.BlockClaiming(given, locks))
	if len(verdicts) != len(given)+len(locks) {
		return // this node stops
	}
	took := b.clock.Monotonic() - began
	ofGiven, ofLocks := verdicts[:len(given)], verdicts[len(given):]
	for _, c := range all {
		how := resp.BlockServed
		if c.end.Given {
			if ofGiven[0].Int == resp.ClaimRefused {
				how = blockTakenBack
			}
			ofGiven = ofGiven[1:]
		}
		if c.call.grantsLock(&c.end) {
			switch age := ofLocks[0].Int; {
			case how != resp.BlockServed:
			case age == resp.ClaimRefused:
				how = blockTakenBack
				b.giveBack(c.end.ID)
			case millis(age)+took > answerAgeMax:
				how = blockLate
			}
			ofLocks = ofLocks[1:]
		}
		b.settleClaim(c, how)
	}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// settleClaim tells a client, or has its command asked for again.
func (b *blocker) settleClaim(c claimed, how resp.Ending) {
	b.mu.Lock()
	abandoned := c.call.fate == fateAbandoned
	if how == blockTakenBack && !slices.Contains(b.returns, c.end.ID) {
		delete(b.untold, c.end.ID)
	}
	b.mu.Unlock()
	if how == resp.BlockServed || abandoned {
		b.tell(c.call, c.end)
		return
	}
	c.call.client.Release()
	c.call.end(resp.BlockEnd{ID: c.end.ID, How: how})
}

// askClaims asks the leader until it has answered; nothing if this node stops.
func (b *blocker) askClaims(ctx context.Context, req resp.Request) []resp.Reply {
	for pause := retryPauseMin; ctx.Err() == nil; pause = min(2*pause, retryPauseMax) {
		changed := b.changed.Next()
		out := b.router.attempt(ctx, req, false)
		if out.outcome == outcomeDone && len(out.result.Replies) == 1 && !out.result.Replies[0].IsErr() {
			return out.result.Replies[0].Elems
		}
		wake.Sleep(ctx, changed, pause)
	}
	return nil
}

// reconcile is called when a snapshot has replaced entries. Commands that the restored state no
// longer knows have ended, and how they ended is lost. What they were given goes back: nobody was told.
func (b *blocker) reconcile() {
	b.mu.Lock()
	ids := slices.Collect(maps.Keys(b.waiters))
	b.mu.Unlock()
	for _, id := range ids {
		if b.state.Blocked(id) != resp.BlockOver {
			continue
		}
		how := blockMissed
		if b.state.Given(id) {
			how = blockTakenBack
			b.giveBack(id)
		}
		b.end(b.state.Applied.Load(), resp.BlockEnd{ID: id, How: how})
	}
	wake.Signal(b.due) // a session may have been suspended
}

// keep renews the session while commands wait in it, and sends what is due, until the node stops.
func (b *blocker) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		<-b.stop
		cancel()
	})
	others.Go(func() { b.claimAll(ctx) })
	tick := time.NewTicker(blockKeepEvery)
	defer tick.Stop()
	for {
		prolong := false
		select {
		case <-tick.C:
			prolong = true
		case <-b.due:
		case <-b.stop:
			return
		}
		b.tend(ctx, prolong)
	}
}

// tend logs what is due in one request: cancellations, what goes back, suspensions that end, and the renewal of the
// sessions if prolong is set.
func (b *blocker) tend(ctx context.Context, prolong bool) {
	step, gifts, began := b.nextStep(prolong)
	if step == nil {
		return
	}
	o, _ := b.router.retryUntilDone(ctx, func() resp.Request { return resp.Request{Block: step} })
	b.mu.Lock()
	defer b.mu.Unlock()
	if o == outcomeDone {
		b.tended(step, gifts)
		if len(step.Sessions) > 0 {
			b.used = began
		}
	}
	if len(b.cancels)+len(b.returns) > 0 || len(step.Resumed) > 0 && o != outcomeDone {
		wake.Signal(b.due)
	}
}

// nextStep is what is to be logged now, with the number of gifts so far; nil if that is nothing.
func (b *blocker) nextStep(prolong bool) (step *resp.BlockStep, gifts int, began time.Duration) {
	suspended := b.suspended()
	b.mu.Lock()
	defer b.mu.Unlock()
	step = &resp.BlockStep{
		Kind: resp.BlockTend, Settled: b.settled(), Resumed: suspended,
		Cancelled:   slices.Clone(b.cancels[:min(len(b.cancels), cancelsMax)]),
		Undelivered: slices.Clone(b.returns[:min(len(b.returns), cancelsMax)]),
	}
	if prolong || b.gifts >= settleAfter {
		step.Sessions = b.inUse()
	}
	if len(step.Sessions)+len(step.Cancelled)+len(step.Undelivered)+len(step.Resumed) == 0 {
		return nil, 0, 0
	}
	return step, b.gifts, b.clock.Monotonic()
}

// tended takes note of a step that was logged. mu is held.
func (b *blocker) tended(step *resp.BlockStep, gifts int) {
	b.cancels = b.cancels[len(step.Cancelled):]
	b.returns = b.returns[len(step.Undelivered):]
	for _, id := range step.Undelivered {
		delete(b.untold, id)
	}
	if len(step.Sessions) == 0 {
		return
	}
	b.gifts -= gifts
	for _, session := range step.Sessions {
		if b.unsettled[session] <= step.Settled {
			delete(b.unsettled, session)
		}
	}
}

// settled is the last entry by which everything that it and those before it gave was delivered. mu is held.
func (b *blocker) settled() uint64 {
	upTo := b.state.Delivered.Load()
	for _, entry := range b.untold {
		upTo = min(upTo, entry-1)
	}
	return upTo
}

// suspended lists the sessions in use that the machine passes over, with the number of the suspension.
func (b *blocker) suspended() (list []resp.BlockID) {
	b.mu.Lock()
	sessions := b.inUse()
	b.mu.Unlock()
	if len(sessions) == 0 {
		return nil
	}
	for _, s := range b.state.Sessions() {
		if s.Suspended && slices.Contains(sessions, s.ID) {
			list = append(list, resp.BlockID{Session: s.ID, Number: s.Suspensions})
		}
	}
	return list
}

// inUse lists the sessions of commands that have not ended, or have given what is not settled. mu is held.
func (b *blocker) inUse() []uint64 {
	var sessions []uint64
	note := func(session uint64) {
		if !slices.Contains(sessions, session) {
			sessions = append(sessions, session)
		}
	}
	for id := range b.waiters {
		note(id.Session)
	}
	for session := range b.unsettled {
		note(session)
	}
	slices.Sort(sessions)
	return sessions
}

// leave closes this node's sessions before it stops, so that nothing is given to clients that are
// gone.
func (b *blocker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, blockLeaveMax)
	defer cancel()
	b.mu.Lock()
	b.session, b.closed = 0, true
	step := &resp.BlockStep{Kind: resp.BlockClose, Sessions: b.inUse(), Undelivered: slices.Clone(b.returns)}
	b.mu.Unlock()
	b.tried.Notify() // wakes clients that wait for a session
	if len(step.Sessions) > 0 {
		b.router.retryUntilDone(ctx, func() resp.Request { return resp.Request{Block: step} })
	}
	wake.Poll(ctx, func() bool { return !b.waits() }) // until this node has applied it as well
}

// waits reports whether a command has not ended, or something is to be taken back.
func (b *blocker) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters)+len(b.claims)+len(b.returns) > 0
}
