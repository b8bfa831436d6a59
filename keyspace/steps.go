package keyspace

import (
	"math"
	"strings"

	"lockd/keyspace/command"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// steps runs what nodes log about blocking commands of their clients. Each step is a request of its own; one that
// arrives again changes nothing.
type steps struct{ service }

// run executes a step.
func (s steps) run(req resp.Request) resp.Reply {
	if !s.state.Applying {
		return resp.Err(command.ErrNotLogged)
	}
	step := req.Block
	var reply resp.Reply
	switch step.Kind {
	case resp.BlockOpen:
		reply = resp.Int(int64(s.state.Waits.Sessions.Open(step.Node, step.Process, s.state.Tick)))
	case resp.BlockAsk:
		if !wait.IsID(step.ID) || len(req.Cmds) != 1 {
			return resp.Err(errStep)
		}
		reply = resp.Int(s.askOnce(step, req.Cmds[0], req.Sender))
	case resp.BlockTend:
		return s.tend(step)
	case resp.BlockSuspend:
		for _, id := range step.Sessions {
			s.suspend(id)
		}
		s.giveBackAll(step.Undelivered, s.state.Waits.Gifts.Return)
		reply = resp.OK()
	case resp.BlockClose:
		s.giveBackAll(step.Undelivered, s.state.Waits.Gifts.TakeBack)
		for _, id := range step.Sessions {
			s.closeSession(id)
			s.state.Meter.Spend(s.state.Waits.Gifts.Settle(id, math.MaxUint64)) // whatever else was given is delivered
		}
		reply = resp.OK()
	default:
		return resp.Err(errStep)
	}
	s.state.Digest.Reply(reply)
	return reply
}

const errStep = "ERR a step of blocking commands that can not be"

// giveBackAll takes gifts back, which take removes from those that are remembered.
func (s steps) giveBackAll(ids []resp.BlockID, take func(resp.BlockID) *wait.Gift) {
	for _, id := range ids {
		s.state.Meter.Spend(meter.CommandWork)
		s.giveBack(take(id))
		s.state.Digest.Reply(resp.OK())
	}
}

// askOnce executes a blocking command, or lets it wait, unless it was asked for or cancelled before: a step may arrive
// again, or late. It returns how long the command may still wait.
func (s steps) askOnce(step *resp.BlockStep, cmd resp.Cmd, client resp.Sender) (leftMs int64) {
	id, sessions, now := step.ID, &s.state.Waits.Sessions, s.state.Tick
	switch w := s.state.Waits.Waiter(id); {
	case !sessions.Has(id.Session):
		s.Tell(id, resp.BlockLapsed)
		return 0
	case w != nil:
		sessions.Keep(id.Session, now)
		return w.LeftMs(now)
	case sessions.Used(id):
		s.Tell(id, resp.BlockDropped) // a node that knows its end ignores this
		return 0
	}
	sessions.Use(id, now)
	if gift := s.state.Waits.Gifts.Get(step.Instead); gift != nil && gift.Left {
		s.state.Waits.Gifts.TakeBack(gift.ID)
		s.state.Out.EmitServed(resp.BlockEnd{ID: id, Reply: resp.Nil()}, s.state.Out.Mark()) // its token has left meanwhile
		return 0
	}
	return s.ask(step, cmd, client)
}

// ask executes a blocking command, or lets it wait.
func (s steps) ask(step *resp.BlockStep, cmd resp.Cmd, client resp.Sender) (leftMs int64) {
	st, began, lastFence := s.state, s.state.Out.Mark(), s.state.Keys.LastFence
	call, reply := command.Ask(st, s.at, cmd, client)
	w := &wait.Waiter{ID: step.ID, DB: cmd.DB, End: store.Never.Tick, Client: resp.Sender(strings.Clone(string(client)))}
	args := cmd.Args
	if call.Args != nil {
		args = call.Args
	}
	if call.Waits {
		reply = s.admit(w, args)
	}
	if call.Waits && call.TimeoutMs() > 0 {
		w.End = st.Tick + call.TimeoutMs() - step.SpentMs
	}
	switch {
	case !call.Waits || reply.IsErr():
		st.Meter.AddReply(reply.Size())
		if call.Lock() != nil && s.replacesGift(step.Instead, call.Lock(), call.Keys()[0]) {
			lastFence = 0
		}
		given := s.remember(w.ID, cmd.DB, call.Reverse(st, cmd.DB, reply, lastFence), false)
		st.Out.EmitServed(resp.BlockEnd{ID: w.ID, Reply: reply, Given: given}, began)
		return 0
	case w.End <= st.Tick:
		s.Tell(w.ID, resp.BlockTimedOut)
		return 0
	}
	s.enter(w)
	if w.Lock() != nil {
		s.replacesGift(step.Instead, w.Lock(), w.Name().Key)
	}
	if !s.mayWait(s.at.Tick, w) {
		return 0
	}
	return w.LeftMs(st.Tick)
}

// replacesGift forgets a lock that was granted under another id, of which no client was told, and reports whether the
// token may still hold it. What the token is granted now takes its place, as if no fence had been given before. A token
// that waits now has lost it.
func (s steps) replacesGift(instead resp.BlockID, want *lock.Want, key string) bool {
	gift := s.state.Waits.Gifts.Get(instead)
	if gift == nil || gift.Lock == nil || gift.Lock.Key != key || gift.Cmds[0][2] != want.Token {
		return false
	}
	return s.state.Waits.Gifts.TakeBack(gift.ID) != nil
}

// enter lets a waiter wait. In the line for a lock it takes the place of the waiter with its token.
func (s steps) enter(w *wait.Waiter) {
	if want := w.Lock(); want != nil {
		if before := s.state.Waits.Line().Waiter(w.Name(), want.Token); before != nil {
			w.Seq = before.Seq
			s.Drop(s.state.Waits.InLine(before), resp.BlockServed, resp.Err(resp.ErrTokenElsewhere))
			defer s.Left(w.Name()) // it may ask for less than the one before
		}
	}
	s.state.Meter.Spend(s.state.Waits.Enter(w))
}

// admit fills in the waiter, or returns an error if the command may not wait.
func (s steps) admit(w *wait.Waiter, args resp.Args) resp.Reply {
	w.Args = value.CloneTexts(args)
	w.Command = command.Waitable(s.state.Level).Waiting(w.Args)
	if err := s.state.Waits.Admit(w); err != nil {
		return resp.Fail(err)
	}
	return resp.Reply{}
}

// tend renews sessions, resumes some, cancels commands, and takes back what was not delivered. It replies how many of
// the sessions exist.
func (s steps) tend(step *resp.BlockStep) resp.Reply {
	kept := int64(0)
	for _, id := range step.Sessions {
		if s.state.Waits.Sessions.Keep(id, s.state.Tick) {
			kept++
		}
	}
	if len(step.Sessions) > 0 {
		s.state.Digest.Reply(resp.Int(kept))
	}
	for _, id := range step.Cancelled {
		s.cancel(id)
		s.state.Meter.Spend(meter.CommandWork)
		s.state.Digest.Reply(resp.OK())
	}
	s.giveBackAll(step.Undelivered, s.state.Waits.Gifts.TakeBack)
	for _, id := range step.Sessions {
		s.state.Meter.Spend(s.state.Waits.Gifts.Settle(id, step.Settled))
	}
	for _, id := range step.Resumed {
		s.resume(id.Session, id.Number)
	}
	return resp.Int(kept)
}

// cancel ends the wait of a command, and prevents it from starting later. Where its session is over it will never
// start.
func (s steps) cancel(id resp.BlockID) {
	if !wait.IsID(id) {
		return
	}
	switch w := s.state.Waits.Waiter(id); {
	case w != nil:
		s.End(w, resp.BlockCancelled, resp.Reply{})
	case s.state.Waits.Sessions.WasClosed(id.Session):
		s.Tell(id, resp.BlockLapsed)
	case s.state.Waits.State(id) == resp.BlockUnseen && s.state.Waits.Sessions.Use(id, s.state.Tick):
		s.Tell(id, resp.BlockCancelled)
	}
}

// suspend has the waiters of a session passed over: its node may be dead. They keep their places.
func (s steps) suspend(id uint64) {
	passed, work, ok := s.state.Waits.Suspend(id)
	if !ok {
		return
	}
	s.state.Meter.Spend(work)
	s.Tell(resp.BlockID{Session: id}, resp.BlockSuspended)
	for _, w := range passed { // those behind may have what they were in the way of
		if w.Lock() != nil {
			s.Left(w.Name())
		}
	}
}

// resume ends a suspension of a session, unless it was suspended again since.
func (s steps) resume(id, suspensions uint64) {
	s.state.Waits.Resume(id, suspensions, func(w *wait.Waiter, work int64) {
		s.state.Meter.Spend(work)
		s.Present(w)
	})
}

// giveBack takes a gift back; nil: it is not remembered any more, as a node may ask for it twice. It is never refused for
// lack of memory. A database that was emptied or exchanged since takes nothing back.
func (s steps) giveBack(gift *wait.Gift) {
	if gift == nil || gift.Version == 0 || s.state.Keys.DBs[gift.DB].Swapped > gift.Version ||
		gift.Lock != nil && s.state.HaveChanged([]resp.Watch{*gift.Lock}) {
		return
	}
	c := command.NewCtx(s.state, s.at, gift.DB)
	absent := gift.Key != "" && c.Lookup(gift.Key) == nil
	for _, cmd := range gift.Cmds {
		if !command.Redo(&c, cmd) {
			return
		}
	}
	if absent && gift.Until.IsSet() {
		command.SetDeadline(&c, gift.Key, gift.Until)
	}
}
