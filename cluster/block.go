package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lockd/resp"
)

// blocker tracks the blocking commands of this node's clients. The commands wait in the machine;
// the blocker only knows which client to tell. A command's end always arrives through the log,
// never as the answer to a proposal. So it does not matter which node leads, and asking again is
// harmless.
type blocker struct {
	*core
	router *router
	state  *state
	due    chan struct{} // capacity 1: cancels is not empty
	owed   chan struct{} // capacity 1: returns is not empty
	tried  broadcast     // an attempt to open a session has ended

	mu      sync.Mutex
	session uint64        // the session of new commands; 0: none is open
	last    uint64        // the last command number given in it
	used    time.Duration // monotonic time of its last use
	opening bool          // a goroutine is opening one
	calls   map[resp.BlockID]*pendingCall
	cancels []resp.BlockID
	returns []resp.Request // release locks that were granted to clients that are gone
	closed  bool
}

// pendingCall is a command whose end this node has not seen.
type pendingCall struct {
	id     resp.BlockID
	cmd    resp.Cmd
	ended  chan resp.BlockEnd    // capacity 1
	served func(resp.Reply) bool // called with the reply before anybody else sees it: see Block
	asking context.Context       // the client's; also ends when the command has ended
	quiet  context.CancelFunc
}

// blockMissed is an ending of this node's own: a snapshot replaced the entry that carried the real
// one.
const blockMissed resp.Ending = 0xff

const (
	// blockKeepEvery is how often a node with waiting commands renews its session: about a third of
	// the machine's lease.
	blockKeepEvery = 3300 * time.Millisecond
	// blockIdleMax is how long an idle session is used. After that it is assumed to have ended.
	blockIdleMax = 5 * time.Second
	// cancelsMax bounds the commands cancelled by one request.
	cancelsMax = 1024
	// waitMsMax bounds a timer in milliseconds. A longer wait is treated as endless.
	waitMsMax = 1 << 40
	// blockLeaveMax bounds the time that a stopping node spends on closing its sessions.
	blockLeaveMax = time.Second
)

func newBlocker(c *core, r *router, s *state) *blocker {
	return &blocker{
		core: c, router: r, state: s,
		due: make(chan struct{}, 1), owed: make(chan struct{}, 1), calls: map[resp.BlockID]*pendingCall{},
	}
}

// Block runs a blocking command of one of this node's clients and returns when it has ended. A
// value on unblock ends the wait; the command may have been served just before. When ctx ends, the
// client is gone: Block returns at once, its reply has no meaning, and the command is cancelled in
// the background. If the command is served, Block calls served with the reply from the goroutine
// that applies, before the command's changes are published, at most once, and maybe after Block has
// returned. Only served decides whether the client will hear of it: if it returns false, the client
// never does, and a lock that was granted to it is released.
func (n *Node) Block(
	ctx context.Context, cmd resp.Cmd, by resp.Sender, unblock <-chan resp.Unblock, served func(resp.Reply) bool,
) resp.Reply {
	w := &blockWait{b: n.blocker, cmd: cmd, by: by, unblock: unblock, served: served}
	w.start = n.clock.Monotonic()
	if req := w.request(resp.BlockID{}); req.Size() > RequestBytesMax {
		return resp.Err(errRequestTooLarge)
	}
	if err := n.checkLevel(ctx, resp.Request{Cmds: []resp.Cmd{cmd}}); err != nil {
		return resp.Fail(err)
	}
	for {
		call := w.begin(ctx)
		if call == nil {
			return w.undone()
		}
		if reply, again := w.await(ctx, call); !again {
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
	served    func(resp.Reply) bool
	start     time.Duration // monotonic
	unblocked bool          // CLIENT UNBLOCK, or the server stops
	why       resp.Unblock
}

func (w *blockWait) request(id resp.BlockID) resp.Request {
	spent := (w.b.clock.Monotonic() - w.start).Milliseconds()
	req := resp.BlockAsking(id, spent, w.cmd)
	req.Sender = w.by
	return req
}

// begin registers the command under a new number, which needs an open session. It returns nil if no
// session opens within LeaderWait, or if the client is unblocked; the command has not been asked
// for then. Each client has the whole of LeaderWait, whatever others spent on it.
func (w *blockWait) begin(ctx context.Context) *pendingCall {
	b := w.b
	patience, leave := context.WithTimeout(ctx, b.cfg.LeaderWait)
	defer leave()
	for {
		tried := b.tried.next() // before the check, so that no change is missed
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
func (w *blockWait) await(ctx context.Context, call *pendingCall) (reply resp.Reply, again bool) {
	defer call.quiet()
	o, left := w.b.router.insist(call.asking, func() resp.Request { return w.request(call.id) })
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
		return resp.Err(resp.ErrUnknown), false
	}
	return w.sleep(ctx, call, left.Int)
}

// sleep waits for the end of a command that the machine knows. leftMs is how long the command may
// still wait, in milliseconds: -1 is for ever, and 0 means that it has ended but this node has not
// applied that entry yet.
func (w *blockWait) sleep(ctx context.Context, call *pendingCall, leftMs int64) (reply resp.Reply, again bool) {
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
				return resp.Err(resp.ErrUnknown), false // the cancellation goes on in the background
			}
		case <-ctx.Done():
			w.b.cancel(call.id)
			return resp.Err(resp.ErrUnknown), false
		case <-w.b.stop:
			return resp.Err(resp.ErrUnknown), false
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
	o, session := b.router.insist(ctx, resp.BlockOpening)
	b.mu.Lock()
	b.opening = false
	if o == outcomeDone && !b.closed {
		b.session, b.last, b.used = uint64(session.Int), 0, b.clock.Monotonic()
	}
	b.mu.Unlock()
	b.tried.notify()
}

// hasSession reports whether commands can be asked for in the present session. mu is held.
func (b *blocker) hasSession() bool {
	return b.session != 0 && (len(b.calls) > 0 || b.clock.Monotonic()-b.used <= blockIdleMax)
}

// number registers a command in the present session, or returns nil if there is none.
func (b *blocker) number(ctx context.Context, w *blockWait) *pendingCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hasSession() {
		return nil
	}
	b.last++
	b.used = b.clock.Monotonic()
	call := &pendingCall{
		id:     resp.BlockID{Session: b.session, Number: b.last},
		cmd:    w.cmd,
		ended:  make(chan resp.BlockEnd, 1),
		served: w.served,
	}
	call.asking, call.quiet = context.WithCancel(ctx)
	b.calls[call.id] = call
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
	delete(b.calls, id)
}

// cancel queues a command to be cancelled. The blocker retries until that is done.
func (b *blocker) cancel(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancels = append(b.cancels, id)
	signal(b.due)
}

// takeBack queues the release of a lock that was granted to a client that is gone, unless somebody
// has touched it since: its program, by another connection.
func (b *blocker) takeBack(call *pendingCall, granted resp.Watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returns = append(b.returns, resp.Request{
		Watch: &resp.Watching{Check: []resp.Watch{granted}},
		Cmds:  []resp.Cmd{{DB: call.cmd.DB, Args: resp.Args{"UNLOCK", granted.Key, call.cmd.Args[2]}}},
		Multi: true,
	})
	signal(b.owed)
}

// giveBack sends the queued releases one after the other, each until it is known to be done. To
// release once more is harmless: the lock has changed by then.
func (b *blocker) giveBack(ctx context.Context) {
	for {
		select {
		case <-b.owed:
		case <-ctx.Done():
			return
		}
		for req := b.nextReturn(); req != nil && ctx.Err() == nil; req = b.nextReturn() {
			b.router.commands.identify(req.Cmds)
			if b.settled(b.router.run(ctx, *req)) {
				b.dropReturn()
			}
		}
	}
}

// settled reports whether a release is known to have been executed, or to do nothing.
func (b *blocker) settled(res resp.Result) bool {
	if len(res.Replies) == 0 {
		return true
	}
	said := res.Replies[0].Str
	return said != resp.ErrUnknown && said != b.router.commands.notDone
}

// nextReturn is the first queued release; nil if there is none.
func (b *blocker) nextReturn() *resp.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.returns) == 0 {
		return nil
	}
	return &b.returns[0]
}

func (b *blocker) dropReturn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returns = b.returns[1:]
}

// end tells a client of this node how its command has ended; false if this node has no such client.
// It is called from the goroutine that applies.
func (b *blocker) end(e resp.BlockEnd) bool {
	b.mu.Lock()
	call := b.calls[e.ID]
	delete(b.calls, e.ID)
	b.mu.Unlock()
	if call == nil {
		return false
	}
	if e.How == resp.BlockServed && !call.served(e.Reply) && e.Granted != nil {
		b.takeBack(call, *e.Granted)
	}
	call.ended <- e
	call.quiet()
	return true
}

// reconcile is called when a snapshot has replaced entries. Commands that the restored state no
// longer knows have ended, and how they ended is lost.
func (b *blocker) reconcile() {
	b.mu.Lock()
	ids := slices.Collect(maps.Keys(b.calls))
	b.mu.Unlock()
	for _, id := range ids {
		if b.state.blocked(id) == resp.BlockOver {
			b.end(resp.BlockEnd{ID: id, How: blockMissed})
		}
	}
}

// keep renews the session while commands wait in it, and sends cancellations, until the node stops.
func (b *blocker) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		<-b.stop
		cancel()
	})
	others.Go(func() { b.giveBack(ctx) })
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

// tend sends the queued cancellations in one request, with the renewal of the sessions if prolong
// is set.
func (b *blocker) tend(ctx context.Context, prolong bool) {
	b.mu.Lock()
	ids := slices.Clone(b.cancels[:min(len(b.cancels), cancelsMax)])
	sessions, began := b.inUse(), b.clock.Monotonic()
	b.mu.Unlock()
	if !prolong {
		sessions = nil
	}
	if len(sessions)+len(ids) == 0 {
		return
	}
	o, _ := b.router.insist(ctx, func() resp.Request { return resp.BlockTending(sessions, ids) })
	b.mu.Lock()
	defer b.mu.Unlock()
	if o == outcomeDone {
		b.cancels = b.cancels[len(ids):]
		if prolong {
			b.used = began
		}
	}
	if len(b.cancels) > 0 {
		signal(b.due)
	}
}

// inUse lists the sessions of commands that have not ended. mu is held.
func (b *blocker) inUse() []uint64 {
	var sessions []uint64
	for id := range b.calls {
		if !slices.Contains(sessions, id.Session) {
			sessions = append(sessions, id.Session)
		}
	}
	return sessions
}

// leave closes this node's sessions before it stops, so that nothing is given to clients that are
// gone.
func (b *blocker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, blockLeaveMax)
	defer cancel()
	b.mu.Lock()
	b.session, b.closed = 0, true
	sessions := b.inUse()
	b.mu.Unlock()
	b.tried.notify() // wakes clients that wait for a session
	if len(sessions) > 0 {
		b.router.insist(ctx, func() resp.Request { return resp.BlockClosing(sessions) })
	}
	poll(ctx, func() bool { return !b.waits() }) // until this node has applied it as well
}

// waits reports whether a command has not ended, or a lock is to be released.
func (b *blocker) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)+len(b.returns) > 0
}
