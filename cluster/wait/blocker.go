// Package wait keeps the blocking commands of a node's clients, and lets a leader suspend the waiters of nodes that it
// does not hear. A client learns of its gift only with the leader's agreement.
package wait

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockd/cluster/clock"
	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/cluster/wake"
	"lockd/resp"
)

// Blocker tracks the blocking commands of this node's clients. The commands wait in the machine; the blocker only knows
// the client to tell. A command's end always arrives through the log, never as the answer to a proposal. So any node
// may lead, and asking again is harmless.
//
// A client that has waited learns of its gift only once the leader has agreed (claim.go): the leader takes back the
// gifts of a node that it does not hear, and a node that was paused or cut off does not know the age of its news. A
// gift whose client has gone goes back by the node's next step (tend).
type Blocker struct {
	BlockerConfig
	due   chan struct{}  // capacity 1: there is something to tend to
	claim chan struct{}  // capacity 1: claims is not empty
	tried wake.Broadcast // an attempt to open a session has ended

	closed atomic.Bool // by Leave

	mu      sync.Mutex
	session uint64        // the session of new commands; 0: none is open
	last    uint64        // the last command number given in it
	used    time.Duration // monotonic time of its last use
	opening bool          // a goroutine is opening one
	waiters map[resp.BlockID]*waiter
	cancels []resp.BlockID
	claims  []claimed
	gifts   gifts
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

	telling telling // guarded by the blocker's lock
}

// claimed is the end of a command whose client is told once the leader has agreed.
type claimed struct {
	call *waiter
	end  resp.BlockEnd
}

// telling says whether a client is told of the end of its command.
type telling uint8

const (
	tellingOpen      telling = iota
	tellingDone              // its end: Waiter.Served has been, or is about to be called; or it is asked for again
	tellingAbandoned         // the client has been told something else, or is gone: what it was given goes back
)

// The endings of this node's own.
const (
	// blockMissed: a snapshot replaced the entry that carried the real one.
	blockMissed resp.Ending = 0xff - iota
	// blockTakenBack: the command was served, and that is undone before the client is told.
	blockTakenBack
	// blockLate: a LOCK was granted so long ago that its client would overestimate the lease.
	blockLate
)

const (
	// KeepEvery is the interval at which a node with waiting commands renews its session: about a third of the
	// machine's lease.
	KeepEvery = 3300 * time.Millisecond
	// blockIdleMax is the time after which an idle session is assumed to have ended.
	blockIdleMax = 5 * time.Second
	// CancelsMax bounds the commands that one request cancels, and the gifts that it returns.
	CancelsMax = 1024
	// claimsMax bounds the ends that one claim asks for.
	claimsMax = 1024
	// settleAfter is the number of gifts after which a node reports their delivery before its next renewal.
	settleAfter = 1024
	// AnswerAgeMax bounds the age of a lease, including the time of asking the leader, when a LOCK that may wait is
	// answered. An older lease is renewed first.
	AnswerAgeMax = time.Second
	// waitMsMax bounds a timer in milliseconds. A longer wait is treated as endless.
	waitMsMax = 1 << 40
	// blockLeaveMax bounds the time that a stopping node spends on its sessions, blockEndMax the part in which commands
	// end and clients are told.
	blockLeaveMax = time.Second
	blockEndMax   = blockLeaveMax / 2
)

// BlockerConfig provides what a blocker uses of its node.
type BlockerConfig struct {
	State      *replica.State
	Clock      clock.Clock
	Changed    *wake.Broadcast // the leader has changed
	Stop       <-chan struct{}
	Self       string // id of this node
	Starts     uint64 // of this node's data folder
	Heartbeat  time.Duration
	LeaderWait time.Duration
	NotDone    string // the error after which clients send a command again
	// do repeats an idempotent request until it is done, or for leaderWait.
	Do func(ctx context.Context, request func() resp.Request) (peer.Outcome, resp.Reply)
	// read makes one attempt at a read. ok: the result is the leader's.
	Read func(ctx context.Context, req resp.Request) (res resp.Result, ok bool)
}

// NewBlocker returns a blocker without clients.
func NewBlocker(c BlockerConfig) *Blocker {
	return &Blocker{
		BlockerConfig: c, due: make(chan struct{}, 1), claim: make(chan struct{}, 1),
		waiters: map[resp.BlockID]*waiter{}, gifts: newGifts(),
	}
}

// Wait is a client that waits for one blocking command.
type Wait struct {
	b         *Blocker
	cmd       resp.Cmd
	by        resp.Sender
	unblock   <-chan resp.Unblock
	waiter    resp.Waiter
	start     time.Duration // monotonic
	instead   resp.BlockID  // the id under which the lock was granted, and could not be told; the zero value: it was not
	unblocked bool          // by CLIENT UNBLOCK, or as the server stops; false again if it was served before
	why       resp.Unblock
}

// Wait returns a client that waits from now on. A value on unblock ends its wait; the command may have been served
// just before. If the command is served, waiter is told, maybe after Run has returned.
func (b *Blocker) Wait(cmd resp.Cmd, by resp.Sender, unblock <-chan resp.Unblock, waiter resp.Waiter) *Wait {
	return &Wait{b: b, cmd: cmd, by: by, unblock: unblock, waiter: waiter, start: b.Clock.Monotonic()}
}

// Size returns the size of the request, in bytes.
func (w *Wait) Size() int {
	req := w.request(resp.BlockID{})
	return req.Size()
}

// Run runs the command and returns when it has ended; unblocked tells whether by a value on unblock. When ctx ends, the
// client is gone: Run returns at once, its reply has no meaning, and the command is cancelled in the background. Only
// Waiter.Served decides whether the client hears of what it was given: if it returns false, the client never does, and
// what it was given is taken back.
func (w *Wait) Run(ctx context.Context) (reply resp.Reply, unblocked bool) {
	defer w.giveUpLock()
	for {
		call := w.begin(ctx)
		if call == nil {
			return w.undone(), w.unblocked
		}
		if reply, again := w.await(ctx, call); !again {
			return reply, w.unblocked
		}
	}
}

func (w *Wait) request(id resp.BlockID) resp.Request {
	spent := (w.b.Clock.Monotonic() - w.start).Milliseconds()
	req := resp.BlockAsking(id, spent, w.cmd)
	req.Sender, req.Block.Instead = w.by, w.instead
	return req
}

// giveUpLock returns a lock that was granted, could not be told, and was not granted again.
func (w *Wait) giveUpLock() {
	if w.instead != (resp.BlockID{}) {
		w.b.giveBack(w.instead)
	}
}

// begin registers the command under a new number, which needs an open session. It returns nil if no
// session opens within LeaderWait, or if the client is unblocked; the command has not been asked
// for then. Each client has the whole of LeaderWait, whatever others spent on it.
func (w *Wait) begin(ctx context.Context) *waiter {
	b := w.b
	patience, leave := context.WithTimeout(ctx, b.LeaderWait)
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
		case <-b.Stop:
			return nil
		}
	}
}

// await asks for the command and waits for its end. again means that nothing was done: the command
// has to be asked for under another number.
func (w *Wait) await(ctx context.Context, call *waiter) (reply resp.Reply, again bool) {
	defer call.quiet()
	o, left := w.b.Do(call.asking, func() resp.Request { return w.request(call.id) })
	select {
	case end := <-call.ended:
		return w.answer(end)
	default:
	}
	switch o {
	case peer.NotDone:
		w.b.forget(call.id)
		return w.undone(), false
	case peer.Unknown:
		w.b.cancel(call.id)
		return w.abandon(call)
	}
	return w.sleep(ctx, call, left.Int)
}

// abandon answers a client whose command may still be executed, unless its end is about to be told.
func (w *Wait) abandon(call *waiter) (reply resp.Reply, again bool) {
	if w.b.abandon(call) {
		return resp.Err(resp.ErrUnknown), false
	}
	return w.answer(<-call.ended)
}

// sleep waits for the end of a command that the machine knows. leftMs is how long the command may
// still wait, in milliseconds: -1 is for ever, and 0 means that it has ended but this node has not
// applied that entry yet.
func (w *Wait) sleep(ctx context.Context, call *waiter, leftMs int64) (reply resp.Reply, again bool) {
	patience := time.NewTimer(time.Duration(min(max(leftMs, 0), waitMsMax))*time.Millisecond + w.b.Heartbeat)
	defer patience.Stop()
	if leftMs < 0 {
		patience.Stop()
	}
	unblock, cancelled := w.unblock, false
	if leftMs != 0 {
		w.b.forgetGift(w.instead) // its token waits again: the machine has forgotten it as well
		w.instead = resp.BlockID{}
	}
	for {
		select {
		case end := <-call.ended:
			return w.answer(end)
		case w.why = <-unblock:
			w.unblocked, unblock = true, nil
		case <-patience.C:
			if cancelled {
				return w.abandon(call) // the cancellation continues in the background
			}
		case <-ctx.Done():
			w.b.cancel(call.id)
			return w.abandon(call)
		case <-w.b.Stop:
			return w.abandon(call)
		}
		cancelled = true // also if its time is over and the log has not said so
		w.b.cancel(call.id)
		patience.Reset(w.b.LeaderWait)
	}
}

// answer translates an ending into a reply. Only the log may say that nothing came. A command that
// ended in any other way is asked for again, even if its time is over.
func (w *Wait) answer(end resp.BlockEnd) (reply resp.Reply, again bool) {
	switch end.How {
	case resp.BlockServed:
		if end.Given && w.instead != (resp.BlockID{}) {
			w.b.forgetGift(w.instead) // it was granted again
			w.instead = resp.BlockID{}
		}
		w.unblocked = false
		return end.Reply, false
	case resp.BlockTimedOut:
		return w.nothing(), false
	case blockMissed:
		return resp.Err(resp.ErrUnknown), false
	case resp.BlockCancelled:
		if !w.unblocked && !w.b.closed.Load() {
			return w.nothing(), false // it has waited out its time
		}
	case resp.BlockLapsed:
		w.b.lapse(end.ID.Session)
	case blockLate, blockTakenBack:
		if isLock(&w.cmd) {
			w.b.forgetGift(w.instead) // it was granted again
			w.instead = end.ID        // if the token still holds it, it is granted again, and can go back
		}
	}
	if end.Args != nil {
		w.cmd.Args = end.Args // with an id in place of XREAD's $: it waits for what came after it began to
	}
	if !w.unblocked {
		return resp.Reply{}, true
	}
	return w.undone(), false
}

// undone is the reply to a client whose command is asked for no more. It did nothing and will do nothing, except that
// its token may hold the lock that could not be told until that has gone back.
func (w *Wait) undone() resp.Reply {
	switch {
	case w.instead != resp.BlockID{}:
		return resp.Err(resp.ErrUnknown)
	case w.unblocked && w.why == resp.UnblockTimeout:
		return w.nothing()
	case w.unblocked && w.why == resp.UnblockError:
		return resp.Err(resp.ErrUnblocked)
	}
	return resp.Err(w.b.NotDone)
}

// nothing returns the answer after a wait in vain.
func (w *Wait) nothing() resp.Reply {
	if w.cmd.Spec != nil && w.cmd.Spec.NilBulk {
		return resp.Nil()
	}
	return resp.NilArray()
}

// open starts to open a session, unless one is open or being opened. The attempt ends with ctx. It
// returns false if the blocker is closed.
func (b *Blocker) open(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed.Load() && !b.opening && !b.hasSession() {
		b.opening = true
		go b.enter(ctx)
	}
	return !b.closed.Load()
}

// enter opens a session. If its number gets lost on the way, the session ends with its lease.
func (b *Blocker) enter(ctx context.Context) {
	o, session := b.Do(ctx, func() resp.Request { return resp.BlockOpening(b.Self, b.Starts) })
	b.mu.Lock()
	b.opening = false
	if o == peer.Done && !b.closed.Load() {
		b.session, b.last, b.used = uint64(session.Int), 0, b.Clock.Monotonic()
	}
	b.mu.Unlock()
	b.tried.Notify()
}

// hasSession reports whether commands can be asked for in the present session. mu is held.
func (b *Blocker) hasSession() bool {
	return b.session != 0 && (len(b.waiters) > 0 || b.Clock.Monotonic()-b.used <= blockIdleMax)
}

// number registers a command in the present session, or returns nil if there is none.
func (b *Blocker) number(ctx context.Context, w *Wait) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hasSession() {
		return nil
	}
	b.last++
	b.used = b.Clock.Monotonic()
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
func (b *Blocker) lapse(session uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == session {
		b.session = 0
	}
}

// forget drops a command that certainly never reached the log.
func (b *Blocker) forget(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, id)
}

// cancel queues a command to be cancelled. The blocker retries until that is done.
func (b *Blocker) cancel(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancels = append(b.cancels, id)
	wake.Signal(b.due)
}

// giveBack queues a gift to be taken back: its client is not told.
func (b *Blocker) giveBack(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gifts.giveBack(id)
	wake.Signal(b.due)
}

// forgetGift drops a gift that another one has taken the place of.
func (b *Blocker) forgetGift(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gifts.forget(id)
}

// abandon ends the interest of a client in its command. It returns false if the client is being told.
func (b *Blocker) abandon(call *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if call.telling == tellingOpen {
		call.telling = tellingAbandoned
	}
	return call.telling == tellingAbandoned
}

// End tells a client of this node how its command has ended, by the entry of an index; false if this node has no such
// client. It is called from the goroutine that applies.
func (b *Blocker) End(index uint64, e resp.BlockEnd) bool {
	if e.How == resp.BlockSuspended {
		wake.Signal(b.due) // tend resumes the session, if it is this node's
		return true
	}
	b.mu.Lock()
	call := b.waiters[e.ID]
	delete(b.waiters, e.ID)
	if call != nil && e.Given && b.gifts.add(e.ID, index) {
		wake.Signal(b.due)
	}
	b.mu.Unlock()
	switch {
	case call == nil:
		return false
	case e.How != resp.BlockServed:
		call.end(e)
	case call.mustClaim(&e, b.Clock.Monotonic()):
		call.client.DelayPushes()
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

// mustClaim reports whether the leader has to agree before the client is told. A command that was served at once was
// granted no earlier than it was asked for, and no leader takes its gift back.
func (c *waiter) mustClaim(e *resp.BlockEnd, now time.Duration) bool {
	late := !e.Waited && now-c.began > AnswerAgeMax
	return e.Waited && e.Given || c.grantsLock(e) && (e.Waited || late)
}

// grantsLock reports whether an end is that of a LOCK that was granted.
func (c *waiter) grantsLock(e *resp.BlockEnd) bool {
	return e.Reply.Kind == resp.KindInt && isLock(&c.cmd)
}

func isLock(cmd *resp.Cmd) bool { return cmd.Spec != nil && cmd.Spec.Name == resp.LockCommand }

// lock returns the lock that a LOCK was granted.
func (c *waiter) lock(e *resp.BlockEnd) resp.HeldLock {
	return resp.HeldLock{DB: c.cmd.DB, Key: c.cmd.Args[1], Token: c.cmd.Args[2], Fence: uint64(e.Reply.Int)}
}

// tell tells a client the answer to its command. The gift goes back if the client is not told.
func (b *Blocker) tell(call *waiter, e resp.BlockEnd) {
	b.mu.Lock()
	abandoned := call.telling == tellingAbandoned
	call.telling = tellingDone
	b.mu.Unlock()
	told := !abandoned && call.client.Served(e.Reply)
	b.mu.Lock()
	if told || !e.Given {
		b.gifts.forget(e.ID)
	} else {
		b.gifts.giveBack(e.ID)
		wake.Signal(b.due)
	}
	b.mu.Unlock()
	call.end(e)
}

// Reconcile handles a snapshot that has replaced entries. Commands that the restored state no longer has have ended in
// an unknown way. Their gifts go back: no client was told.
func (b *Blocker) Reconcile() {
	b.mu.Lock()
	ids := slices.Collect(maps.Keys(b.waiters))
	b.mu.Unlock()
	for _, id := range ids {
		if b.State.Blocked(id) != resp.BlockOver {
			continue
		}
		how := blockMissed
		if b.State.Given(id) {
			how = blockTakenBack
			b.giveBack(id)
		}
		b.End(b.State.Applied.Load(), resp.BlockEnd{ID: id, How: how})
	}
	wake.Signal(b.due) // a session may have been suspended
}

// Keep renews the session while commands wait in it, and logs due steps, until the node stops.
func (b *Blocker) Keep() {
	ctx, cancel := context.WithCancel(context.Background())
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		<-b.Stop
		cancel()
	})
	others.Go(func() { (&claimer{b}).run(ctx) })
	tick := time.NewTicker(KeepEvery)
	defer tick.Stop()
	for {
		prolong := false
		select {
		case <-tick.C:
			prolong = true
		case <-b.due:
		case <-b.Stop:
			return
		}
		b.tend(ctx, prolong)
	}
}

// tend logs the due steps in one request: cancellations, returned gifts, resumed sessions, and the renewal of the
// sessions if prolong is set.
func (b *Blocker) tend(ctx context.Context, prolong bool) {
	step, gifts, began := b.nextStep(prolong)
	if step == nil {
		return
	}
	o, _ := b.Do(ctx, func() resp.Request { return resp.Request{Block: step} })
	b.mu.Lock()
	defer b.mu.Unlock()
	if o == peer.Done {
		b.cancels = b.cancels[len(step.Cancelled):]
		b.gifts.tended(step, gifts)
		if len(step.Sessions) > 0 {
			b.used = began
		}
	}
	if len(b.cancels)+len(b.gifts.returns) > 0 || len(step.Resumed) > 0 && o != peer.Done {
		wake.Signal(b.due)
	}
}

// nextStep returns the step to log now, with the number of gifts so far; nil: none.
func (b *Blocker) nextStep(prolong bool) (step *resp.BlockStep, gifts int, began time.Duration) {
	suspended := b.suspended()
	b.mu.Lock()
	defer b.mu.Unlock()
	step = &resp.BlockStep{
		Kind: resp.BlockTend, Settled: b.gifts.settled(b.State.Delivered.Load()), Resumed: suspended,
		Cancelled:   slices.Clone(b.cancels[:min(len(b.cancels), CancelsMax)]),
		Undelivered: b.gifts.nextReturns(),
	}
	if prolong || b.gifts.count >= settleAfter {
		step.Sessions = b.inUse()
	}
	if len(step.Sessions)+len(step.Cancelled)+len(step.Undelivered)+len(step.Resumed) == 0 {
		return nil, 0, 0
	}
	return step, b.gifts.count, b.Clock.Monotonic()
}

// suspended lists the suspended sessions that are in use, each with the number of its suspension.
func (b *Blocker) suspended() (list []resp.BlockID) {
	b.mu.Lock()
	sessions := b.inUse()
	b.mu.Unlock()
	if len(sessions) == 0 {
		return nil
	}
	for _, s := range b.State.Sessions() {
		if s.Suspended && slices.Contains(sessions, s.ID) {
			list = append(list, resp.BlockID{Session: s.ID, Number: s.Suspensions})
		}
	}
	return list
}

// Sessions lists the sessions of commands that have not ended, or whose gifts are not settled.
func (b *Blocker) Sessions() []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse()
}

// inUse is Sessions with mu held.
func (b *Blocker) inUse() []uint64 {
	var sessions []uint64
	note := func(session uint64) {
		if !slices.Contains(sessions, session) {
			sessions = append(sessions, session)
		}
	}
	for id := range b.waiters {
		note(id.Session)
	}
	for session := range b.gifts.unsettled {
		note(session)
	}
	slices.Sort(sessions)
	return sessions
}

// Leave ends all commands and closes this node's sessions before it stops, so that clients that are gone are given
// nothing. To close a session settles its gifts. So one that may have gifts that are not told stays open: the leader
// takes them back once it hears no more of this node.
func (b *Blocker) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, blockLeaveMax)
	defer cancel()
	b.close()
	b.tried.Notify() // wakes clients that wait for a session
	ending, ended := context.WithTimeout(ctx, blockEndMax)
	wake.Poll(ending, func() bool { return len(b.undecided()) == 0 })
	ended()
	if step := b.lastStep(); len(step.Sessions) > 0 {
		b.Do(ctx, func() resp.Request { return resp.Request{Block: step} })
	}
	wake.Poll(ctx, func() bool { return !b.Waits() }) // until this node has applied it as well
}

// close lets no command begin, and cancels those that wait.
func (b *Blocker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = 0
	b.closed.Store(true)
	b.cancels = slices.AppendSeq(b.cancels, maps.Keys(b.waiters))
	wake.Signal(b.due)
}

// lastStep returns the step that closes the sessions.
func (b *Blocker) lastStep() *resp.BlockStep {
	undecided := b.undecided()
	b.mu.Lock()
	defer b.mu.Unlock()
	sessions := slices.DeleteFunc(b.inUse(), func(id uint64) bool { return slices.Contains(undecided, id) })
	return &resp.BlockStep{Kind: resp.BlockClose, Sessions: sessions, Undelivered: slices.Clone(b.gifts.returns)}
}

// undecided lists the sessions of commands that have not ended, and of gifts that neither were told nor are to go back.
func (b *Blocker) undecided() (sessions []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.waiters {
		sessions = append(sessions, id.Session)
	}
	return append(sessions, b.gifts.undecided()...)
}

// Waits reports whether a command has not ended, or a gift is to be taken back.
func (b *Blocker) Waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiters)+len(b.claims)+len(b.gifts.returns) > 0
}
