package server

import (
	"slices"
	"time"

	"lockd/resp"
	"lockd/resp/acl"
	"lockd/resp/server/access"
	"lockd/resp/server/track"
)

const transactional = resp.NoScript | resp.Loading | resp.Stale | resp.Fast | resp.AllowBusy

func multiRows() []row {
	return []row{
		{Spec: resp.Spec{Name: "multi", Arity: 1, Flags: transactional, Group: "transactions", Since: "1.2.0",
			Summary: "Mark the start of a transaction block"}, Run: action{run: multi, unqueued: true}},
		{Spec: resp.Spec{Name: "exec", Arity: 1, Flags: resp.NoScript | resp.Loading | resp.Stale | resp.SkipSlowlog,
			Group: "transactions", Since: "1.2.0",
			Summary: "Execute all commands issued after MULTI"},
			Run: action{run: exec, unqueued: true, executes: true}},
		{Spec: resp.Spec{Name: "discard", Arity: 1, Flags: transactional, Group: "transactions", Since: "2.0.0",
			Summary: "Discard all commands issued after MULTI"}, Run: action{run: discard, unqueued: true}},
		{Spec: resp.Spec{Name: "watch", Arity: -2, Flags: transactional, Keys: resp.AllKeys,
			Group: "transactions", Since: "2.2.0",
			Summary: "Watch the given keys to determine execution of the MULTI/EXEC block", Syntax: "key [key ...]"},
			Run: action{run: watch, unqueued: true}},
		{Spec: resp.Spec{Name: "unwatch", Arity: 1, Flags: transactional, Group: "transactions", Since: "2.2.0",
			Summary: "Forget about all watched keys"}, Run: action{run: unwatch}},
	}
}

func multi(s *session, _ resp.Args) resp.Reply {
	if s.tx.open {
		return resp.Err("ERR MULTI calls can not be nested")
	}
	s.tx.begin()
	return resp.OK()
}

func discard(s *session, _ resp.Args) resp.Reply {
	if !s.tx.open {
		return resp.Err("ERR DISCARD without MULTI")
	}
	s.tx.discard()
	return resp.OK()
}

func unwatch(s *session, _ resp.Args) resp.Reply {
	s.tx.unwatch()
	return resp.OK()
}

// watch gets the current versions of keys from the backend.
func watch(s *session, args resp.Args) resp.Reply {
	if s.tx.open {
		return resp.Err("ERR WATCH inside MULTI is not allowed")
	}
	db, keys := int(s.db.Load()), args[1:]
	if !s.tx.roomToWatch(keys) {
		return resp.Err("ERR too many watched keys")
	}
	learn := make([]resp.Key, len(keys))
	for i, key := range keys {
		learn[i] = resp.Key{DB: db, Name: key}
	}
	res := s.srv.backend.Do(s.ctx, resp.Request{Watch: &resp.Watching{Learn: learn}})
	if res.Watched == nil || len(res.Watched.Versions) != len(keys) {
		return replyAt(res, 0)
	}
	if err := s.tx.addWatched(db, keys, res.Watched.Versions); err != nil {
		return resp.Fail(err)
	}
	return resp.OK()
}

// exec runs the transaction. Its data commands are one request, which is one entry of the log; commands of the
// connection are answered here, at their place.
func exec(s *session, _ resp.Args) resp.Reply {
	if !s.tx.open {
		return resp.Err("ERR EXEC without MULTI")
	}
	denyQueued(s)
	tx := s.tx
	s.tx.discard()
	if tx.spoiled {
		return resp.Err(resp.ErrExecAbort)
	}
	s.exec = &execution{s: s, cmds: tx.cmds, db: int(s.db.Load()), start: s.srv.clock()}
	return s.exec.run(tx.watch)
}

// denyQueued checks the queued commands again: the rules may have changed since.
func denyQueued(s *session) {
	if !s.rights.Limited() || s.tx.spoiled {
		return
	}
	for i := range s.tx.cmds {
		q := &s.tx.cmds[i]
		reason, object := s.rights.Check(q.of.acl, q.args)
		if reason != acl.Allowed {
			q.denied = access.LateRefusal(reason)
			s.srv.recordDenial(s.client, reason.String(), s.tx.context(), s.rights.Name(), object)
		}
	}
}

// execution runs an EXEC: it sends the data commands to the backend, and composes the array of replies.
type execution struct {
	s     *session
	cmds  batch
	db    int // at its beginning
	start time.Time

	followed *track.Request // by CLIENT TRACKING; nil: it is not
	work     int            // of the connection's commands so far: see transactionWorkMax
	underHub bool           // the array is composed under the hub's lock
	composed bool
}

func (e *execution) run(watch []resp.Watch) resp.Reply {
	s := e.s
	req := s.request(e.cmds.data(s.srv.profile, e.db))
	req.Multi = true
	if len(watch) > 0 {
		req.Watch = &resp.Watching{Check: watch}
	}
	e.followed = e.follow(&req)
	counted := s.srv.counter.Begin(req.Cmds)
	res := e.runData(req)
	if e.followed != nil {
		e.followed.Answered(res)
	}
	if res.Aborted() {
		return resp.NilArray()
	}
	if res.Failed {
		return replyAt(res, 0) // rather than an array of it, so that a client can resend the whole
	}
	counted.End(res.Replies)
	e.composed = true
	return e.compose(req, res)
}

// follow follows the data commands; nil if tracking is off and stays off. Which of their reads to remember is decided
// while the array is composed.
func (e *execution) follow(req *resp.Request) *track.Request {
	tracks := func(q queued) bool { return q.of.act != nil && q.of.act.tracks }
	if !e.s.track.On && !slices.ContainsFunc(e.cmds, tracks) {
		return nil
	}
	return e.s.srv.hub.follow(e.s.client, req)
}

// runData has the backend run the data commands. A transaction without any still fails if a watched key has changed:
// then the request asks for a version instead.
func (e *execution) runData(req resp.Request) resp.Result {
	if len(req.Cmds) == 0 {
		if req.Watch == nil {
			return resp.Result{}
		}
		watched := req.Watch.Check[0]
		req.Watch.Learn = []resp.Key{{DB: watched.DB, Name: watched.Key}}
	}
	return e.s.do(req)
}

// compose makes the array, or writes it if it contains subscriptions. Commands that ask the backend have to run before
// the hub is locked.
func (e *execution) compose(req resp.Request, res resp.Result) resp.Reply {
	s := e.s
	replies := make([]resp.Reply, len(e.cmds))
	locks := func(q queued) bool { return q.of.act != nil && q.of.act.hubLocked }
	data, locked := 0, slices.ContainsFunc(e.cmds, locks)
	var ran []*command
	for i, q := range e.cmds {
		switch {
		case q.denied != "":
			replies[i] = resp.Err(q.denied)
			s.srv.countIfError(replies[i])
		case q.of.act == nil:
			replies[i] = replyAt(res, data)
			s.srv.countIfError(replies[i])
			ran = append(ran, q.of)
			data++
		case q.of.act.asksBackend && !(locked && q.of.act.countsSubscribers):
			replies[i] = e.timed(q)
		}
	}
	if len(ran) > 0 {
		s.srv.accountRun(s.client, e.start, ran, req.Cmds[0].Args, res)
	}
	if locked {
		e.composeLocked(replies)
		return resp.Reply{}
	}
	for i, q := range e.cmds {
		replies[i] = e.inPlace(q, replies[i])
	}
	return resp.Array(replies...)
}

// composeLocked writes an array that contains subscriptions. As in Redis it contains one confirmation for each
// channel, so that the array may have more elements than its head announces.
func (e *execution) composeLocked(replies []resp.Reply) {
	s, hub := e.s, e.s.srv.hub
	hub.broker.Lock()
	e.underHub = true
	s.replyHead(len(e.cmds))
	for i, q := range e.cmds {
		s.reply(e.inPlace(q, replies[i]))
	}
	s.handOver()
	e.underHub = false
	hub.broker.Unlock()
	s.tell()
	s.waitForRoom()
}

// inPlace runs a command that has to run at its place in the array. It may change tracking, so whether to remember
// the reads of each data command is decided here, too.
func (e *execution) inPlace(q queued, r resp.Reply) resp.Reply {
	switch {
	case q.denied != "":
	case q.runsInPlace(e.underHub):
		return e.timed(q)
	case q.of.act == nil && e.followed != nil:
		e.followed.Tracked = append(e.followed.Tracked, e.s.track.Wants(e.s.track.Caching))
	}
	return r
}

// timed runs a command of the connection, unless those before it have used up their common budget. SELECT always runs:
// the data commands after it have run already.
func (e *execution) timed(q queued) resp.Reply {
	s := e.s
	if e.work > transactionWorkMax && !q.of.act.selects {
		q.of.stats.Reject()
		r := resp.Err(resp.ErrWork)
		s.srv.countIfError(r)
		return r
	}
	start, had := s.srv.clock(), len(s.pending)
	r := q.of.act.run(s, q.args)
	e.work += max(0, len(s.pending)-had) + int(r.Size())
	s.srv.account(s.client, start, q.of, q.args, r)
	return r
}

// finish tells the client of changes, and shows monitors the commands, each with its database. The array is appended.
func (e *execution) finish() {
	if e.followed != nil {
		answerFollowed(e.s, e.followed, func(int) {})
	}
	if !e.composed || !e.s.srv.hub.monitors.some.Load() {
		return
	}
	db, list := e.db, make([]shown, len(e.cmds))
	for i, q := range e.cmds {
		if n, ok := q.selected(e.s.srv.profile); ok {
			db = n
		}
		list[i] = shown{q.of, db, q.args}
	}
	show(e.s, list...)
}
