package cluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lockd/resp"
)

// blocker keeps the blocking commands of this node's clients. They wait in the
// machine; here is who is to be told. How a command has ended comes with the log, and
// never by the answer to a proposal: so it does not matter who leads, and to ask again
// does no harm.
type blocker struct {
	n     *Node
	due   chan struct{} // capacity 1: there is something to cancel
	tried broadcast     // a try to open a session has ended

	mu      sync.Mutex
	session uint64        // in which commands are asked for; 0: there is none
	last    uint64        // number that was given in it
	used    time.Duration // monotonic: when
	opening bool          // somebody opens one
	calls   map[resp.BlockID]*blockCall
	cancels []resp.BlockID
	closed  bool
}

// blockCall is a command that has not ended as far as this node knows.
type blockCall struct {
	id     resp.BlockID
	ended  chan resp.BlockEnd // capacity 1
	served func(resp.Reply)   // hears the answer first
	asking context.Context    // of its client; ends when there is nothing to ask any more
	quiet  context.CancelFunc
}

// blockMissed is an ending of this node's own: a snapshot came in place of the
// message.
const blockMissed resp.Ending = 0xff

const (
	// blockKeepEvery is how often a node that has something waiting prolongs its
	// session: about a third of the machine's lease.
	blockKeepEvery = 3300 * time.Millisecond
	// blockIdleMax is the time after which a session in which nothing waits is taken
	// for over.
	blockIdleMax = 5 * time.Second
	// cancelsMax is how many commands are cancelled at a time.
	cancelsMax = 1024
	// waitMsMax bounds what a timer is set to: more is for ever.
	waitMsMax = 1 << 40
	// blockLeaveMax bounds the farewell of a node that stops.
	blockLeaveMax = time.Second
)

func newBlocker(n *Node) *blocker {
	return &blocker{n: n, due: make(chan struct{}, 1), calls: map[resp.BlockID]*blockCall{}}
}

// Block runs a blocking command of one of this node's clients and returns when it has
// ended. A word on unblock ends the wait; the command may have been served just
// before. When ctx ends, the client is gone: Block returns at once, with whatever
// reply, and the command is cancelled behind it. If the command is served, served hears
// the answer from the goroutine that applies, before what the command did is published.
func (n *Node) Block(ctx context.Context, cmd resp.Cmd, unblock <-chan resp.Unblock, served func(resp.Reply)) resp.Reply {
	w := &blockWait{n: n, cmd: cmd, unblock: unblock, served: served, start: n.clock.Monotonic()}
	if req := w.request(resp.BlockID{}); req.Size() > RequestBytesMax {
		return resp.Err(errRequestTooLarge)
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

// blockWait is a client that waits.
type blockWait struct {
	n       *Node
	cmd     resp.Cmd
	unblock <-chan resp.Unblock
	served  func(resp.Reply)
	start   time.Duration // monotonic
	told    bool          // to wait no longer
	why     resp.Unblock
}

func (w *blockWait) request(id resp.BlockID) resp.Request {
	spent := (w.n.clock.Monotonic() - w.start).Milliseconds()
	return resp.BlockAsking(id, spent, w.cmd)
}

// begin gives the command a name, for which there must be a session. It fails where none
// can be had while requests wait for a leader, or if the client is to wait no longer: then
// nothing was asked for. Each client has that time for itself, whoever else waits.
func (w *blockWait) begin(ctx context.Context) *blockCall {
	b := w.n.blocker
	patience, leave := context.WithTimeout(ctx, w.n.cfg.LeaderWait)
	defer leave()
	for {
		tried := b.tried.next() // before the look at what there is: no news is missed
		call := b.number(ctx, w.served)
		if call != nil || !b.open(patience) {
			return call
		}
		select {
		case <-tried:
		case w.why = <-w.unblock:
			w.told = true
			return nil
		case <-patience.Done():
			return nil
		case <-w.n.stop:
			return nil
		}
	}
}

// await asks for the command and waits for its end. again: nothing was done, and it
// has to be asked for under another name.
func (w *blockWait) await(ctx context.Context, call *blockCall) (reply resp.Reply, again bool) {
	defer call.quiet()
	o, left := w.n.insist(call.asking, func() resp.Request { return w.request(call.id) })
	select {
	case end := <-call.ended:
		return w.answer(end)
	default:
	}
	switch o {
	case outcomeNotDone:
		w.n.blocker.forget(call.id)
		return resp.Err(w.n.protocol.notDone), false
	case outcomeUnknown:
		w.n.blocker.cancel(call.id)
		return resp.Err(resp.ErrUnknown), false
	}
	return w.sleep(ctx, call, left.Int)
}

// sleep waits for the end of a command that the machine knows. It may have to wait
// for leftMs milliseconds, -1 for ever; 0: it has ended, but this node has not heard.
func (w *blockWait) sleep(ctx context.Context, call *blockCall, leftMs int64) (reply resp.Reply, again bool) {
	patience := time.NewTimer(time.Duration(min(max(leftMs, 0), waitMsMax))*time.Millisecond + w.n.cfg.Heartbeat)
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
			w.told, unblock = true, nil
		case <-patience.C:
			if cancelled {
				return resp.Err(resp.ErrUnknown), false // it goes on being cancelled
			}
		case <-ctx.Done():
			w.n.blocker.cancel(call.id)
			return resp.Err(resp.ErrUnknown), false
		case <-w.n.stop:
			return resp.Err(resp.ErrUnknown), false
		}
		cancelled = true // also where its time is over, and the log does not say so
		w.n.blocker.cancel(call.id)
		patience.Reset(w.n.cfg.LeaderWait)
	}
}

// answer says what an ending means for the client. Nothing but the log tells it that there
// was nothing: what has ended otherwise is asked for again, also when its time is over.
func (w *blockWait) answer(end resp.BlockEnd) (reply resp.Reply, again bool) {
	switch end.How {
	case resp.BlockServed:
		return end.Reply, false
	case resp.BlockTimedOut:
		return resp.NilArray(), false
	case blockMissed:
		return resp.Err(resp.ErrUnknown), false
	case resp.BlockCancelled:
		if !w.told {
			return resp.NilArray(), false // it waited until its time was over, and longer
		}
	case resp.BlockLapsed:
		w.n.blocker.lapse(end.ID.Session)
	}
	if end.Args != nil {
		w.cmd.Args = end.Args // what it has waited for counts from when it began to
	}
	if !w.told {
		return resp.Reply{}, true
	}
	return w.undone(), false
}

// undone is the answer to a client for whom nothing was done, and nothing will be.
func (w *blockWait) undone() resp.Reply {
	switch {
	case w.told && w.why == resp.UnblockTimeout:
		return resp.NilArray()
	case w.told && w.why == resp.UnblockError:
		return resp.Err(resp.ErrUnblocked)
	}
	return resp.Err(w.n.protocol.notDone)
}

// insist tries a request that may be applied any number of times until it is done, or
// for as long as requests wait for a leader. The request is made anew for each try.
func (n *Node) insist(ctx context.Context, request func() resp.Request) (outcome, resp.Reply) {
	n.serving.Add(1)
	defer n.serving.Add(-1)
	start, pause, doubt := n.clock.Monotonic(), retryPauseMin, outcomeNotDone
	for {
		changed := n.changed.next()
		req := request()
		n.identify(req.Cmds)
		out := n.attempt(ctx, req, true)
		switch {
		case out.outcome == outcomeUnknown:
			doubt = outcomeUnknown
		case out.outcome == outcomeDone && out.result.Left(req) == 0 && !out.result.Replies[0].IsErr():
			return outcomeDone, out.result.Replies[0]
		}
		left := n.cfg.LeaderWait - (n.clock.Monotonic() - start)
		if left <= 0 || ctx.Err() != nil {
			return doubt, resp.Reply{}
		}
		sleep(ctx, changed, min(pause, left))
		pause = min(2*pause, retryPauseMax)
	}
}

// open has a session opened until ctx ends, unless there is one or somebody is at it. It
// fails if there will be none any more.
func (b *blocker) open(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && !b.opening && !b.hasSession() {
		b.opening = true
		go b.enter(ctx)
	}
	return !b.closed
}

// enter opens a session. If nobody hears of it, it is over after its lease.
func (b *blocker) enter(ctx context.Context) {
	o, session := b.n.insist(ctx, resp.BlockOpening)
	b.mu.Lock()
	b.opening = false
	if o == outcomeDone && !b.closed {
		b.session, b.last, b.used = uint64(session.Int), 0, b.n.clock.Monotonic()
	}
	b.mu.Unlock()
	b.tried.tell()
}

// hasSession reports whether commands can be asked for. mu is held.
func (b *blocker) hasSession() bool {
	return b.session != 0 && (len(b.calls) > 0 || b.n.clock.Monotonic()-b.used <= blockIdleMax)
}

// number names a command in the present session; nil where there is none.
func (b *blocker) number(ctx context.Context, served func(resp.Reply)) *blockCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hasSession() {
		return nil
	}
	b.last++
	b.used = b.n.clock.Monotonic()
	call := &blockCall{id: resp.BlockID{Session: b.session, Number: b.last}, ended: make(chan resp.BlockEnd, 1), served: served}
	call.asking, call.quiet = context.WithCancel(ctx)
	b.calls[call.id] = call
	return call
}

// lapse notes that a session is over.
func (b *blocker) lapse(session uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == session {
		b.session = 0
	}
}

// forget lets go of a command that was certainly never in the log.
func (b *blocker) forget(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.calls, id)
}

// cancel has a command cancelled, however long that takes.
func (b *blocker) cancel(id resp.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancels = append(b.cancels, id)
	signal(b.due)
}

// end tells a client of this node how its command has ended. Called from the goroutine
// that applies.
func (b *blocker) end(e resp.BlockEnd) {
	b.mu.Lock()
	call := b.calls[e.ID]
	delete(b.calls, e.ID)
	b.mu.Unlock()
	if call == nil {
		return
	}
	if e.How == resp.BlockServed {
		call.served(e.Reply)
	}
	call.ended <- e
	call.quiet()
}

// reconcile is called when a snapshot has taken the place of messages. What the
// restored state does not know any more has ended, and nobody can tell how.
func (b *blocker) reconcile() {
	b.mu.Lock()
	ids := slices.Collect(maps.Keys(b.calls))
	b.mu.Unlock()
	for _, id := range ids {
		if b.n.blockState(id) == resp.BlockOver {
			b.end(resp.BlockEnd{ID: id, How: blockMissed})
		}
	}
}

func (n *Node) blockState(id resp.BlockID) resp.BlockState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.machine.Blocked(id)
}

// keep prolongs the session while something waits in it, and cancels what is to be
// cancelled, until the node stops.
func (b *blocker) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	b.n.goroutines.Go(func() {
		<-b.n.stop
		cancel()
	})
	tick := time.NewTicker(blockKeepEvery)
	defer tick.Stop()
	for {
		prolong := false
		select {
		case <-tick.C:
			prolong = true
		case <-b.due:
		case <-b.n.stop:
			return
		}
		b.settle(ctx, prolong)
	}
}

// settle asks for what is to be done, in one request.
func (b *blocker) settle(ctx context.Context, prolong bool) {
	b.mu.Lock()
	ids := slices.Clone(b.cancels[:min(len(b.cancels), cancelsMax)])
	sessions, began := b.inUse(), b.n.clock.Monotonic()
	b.mu.Unlock()
	if !prolong {
		sessions = nil
	}
	if len(sessions)+len(ids) == 0 {
		return
	}
	o, _ := b.n.insist(ctx, func() resp.Request { return resp.BlockTending(sessions, ids) })
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

// leave ends this node's sessions before it stops: nothing is given to clients that
// are not there any more.
func (b *blocker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, blockLeaveMax)
	defer cancel()
	b.mu.Lock()
	b.session, b.closed = 0, true
	sessions := b.inUse()
	b.mu.Unlock()
	b.tried.tell() // who waits for a session gets none
	if len(sessions) == 0 {
		return
	}
	b.n.insist(ctx, func() resp.Request { return resp.BlockClosing(sessions) })
	tick := time.NewTicker(holdPoll)
	defer tick.Stop()
	for b.waits() && ctx.Err() == nil { // until this node has heard of it, too
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (b *blocker) waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls) > 0
}
