package server

import (
	"slices"
	"strings"
	"time"

	"lockd/resp"
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

// multiState is the state of MULTI and WATCH.
type multiState struct {
	tx        *transaction // nil: no transaction is open
	watch     []resp.Watch
	watchLen  int            // bytes of the watched keys
	followed  *track.Request // of EXEC, until its reply is appended
	executing bool           // EXEC composes its array
	work      int            // of the connection's commands in EXEC so far: see transactionWorkMax
	underHub  bool           // EXEC composes its array under the hub's lock
	executed  func()         // shows the commands of EXEC to monitors
}

// transaction holds the commands queued since MULTI.
type transaction struct {
	cmds    []queued
	size    int  // bytes of the arguments
	kept    int  // size plus the bytes of the structures that hold them
	spoiled bool // a command could not be queued: EXEC refuses
}

type queued struct {
	of   *command
	args resp.Args

	denied string // the error if the user may no longer make the call; "": none
}

// queue adds a command, whose name and arity are right, to the transaction, or returns why it cannot. A spoiled
// transaction stores nothing more: EXEC will refuse it.
func (s *session) queue(c *command, args resp.Args) (why string) {
	if !s.tx.spoiled {
		size, kept := argBytes(args)
		switch {
		case len(s.tx.cmds) >= transactionCmdsMax || s.tx.size+size > transactionBytesMax:
			return "ERR the transaction is too large"
		}
		if err := s.Reserve(kept); err != nil {
			return err.Error()
		}
		s.tx.cmds = append(s.tx.cmds, queued{of: c, args: cloneArgs(args)})
		s.tx.size += size
		s.tx.kept += kept
		s.queued.Store(int32(len(s.tx.cmds)))
	}
	s.reply(resp.Status("QUEUED"))
	return ""
}

// argBytes returns the size of arguments, without and with the structures that hold them.
func argBytes(args resp.Args) (bytes, kept int) {
	for _, a := range args {
		bytes += len(a)
	}
	return bytes, bytes + heldPerCommand + len(args)*heldPerArg
}

// cloneArgs copies arguments to keep them: they alias the whole input buffer.
func cloneArgs(args resp.Args) resp.Args {
	all := strings.Join(args, "")
	kept := make(resp.Args, len(args))
	for i, a := range args {
		kept[i], all = all[:len(a)], all[len(a):]
	}
	return kept
}

func multi(s *session, _ resp.Args) resp.Reply {
	if s.tx != nil {
		return resp.Err("ERR MULTI calls can not be nested")
	}
	s.tx = &transaction{}
	s.queued.Store(0)
	return resp.OK()
}

func discard(s *session, _ resp.Args) resp.Reply {
	if s.tx == nil {
		return resp.Err("ERR DISCARD without MULTI")
	}
	s.discard()
	return resp.OK()
}

// discard drops the transaction and the watched keys.
func (s *session) discard() {
	if s.tx != nil {
		s.Release(s.tx.kept)
	}
	s.tx = nil
	s.queued.Store(-1)
	s.forgetWatch()
}

func (s *session) forgetWatch() {
	s.Release(s.watchLen + len(s.watch)*heldPerWatch)
	s.watch, s.watchLen = nil, 0
}

func unwatch(s *session, _ resp.Args) resp.Reply {
	s.forgetWatch()
	return resp.OK()
}

// watch gets the current versions of keys from the backend. A key that is already watched keeps its older version.
func watch(s *session, args resp.Args) resp.Reply {
	if s.tx != nil {
		return resp.Err("ERR WATCH inside MULTI is not allowed")
	}
	db := int(s.db.Load())
	keys := args[1:]
	size := 0
	for _, key := range keys {
		size += len(key)
	}
	if len(s.watch)+len(keys) > watchedKeysMax || s.watchLen+size > watchedBytesMax {
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
	have := map[string]bool{}
	for _, w := range s.watch {
		have[w.Key] = have[w.Key] || w.DB == db
	}
	for i, key := range keys {
		if !have[key] {
			have[key] = true
			if err := s.Reserve(len(key) + heldPerWatch); err != nil {
				return resp.Fail(err) // keys watched so far stay watched
			}
			s.watchLen += len(key)
			s.watch = append(s.watch, resp.Watch{DB: db, Key: strings.Clone(key), Version: res.Watched.Versions[i]})
		}
	}
	return resp.OK()
}

// exec runs the transaction. Its data commands are one request, which is one entry of the log; commands of the
// connection are answered here, at their place.
func exec(s *session, _ resp.Args) resp.Reply {
	tx := s.tx
	if tx == nil {
		return resp.Err("ERR EXEC without MULTI")
	}
	db := int(s.db.Load())
	s.denyQueued(tx)
	req := s.request(tx.data(s.srv.profile, db))
	req.Multi = true
	if len(s.watch) > 0 {
		req.Watch = &resp.Watching{Check: s.watch}
	}
	s.discard()
	if tx.spoiled {
		return resp.Err(resp.ErrExecAbort)
	}
	start := s.srv.clock()
	n := len(req.Cmds)
	s.followed = s.followTransaction(tx, &req)
	counted := s.srv.counter.Begin(req.Cmds)
	res := s.runData(req)
	if s.followed != nil {
		s.followed.Answered(res)
	}
	if res.Aborted() {
		return resp.NilArray()
	}
	if fail, all := commonFailure(res, n); all {
		return fail
	}
	counted.End(res.Replies)
	s.executing, s.work, s.executed = true, 0, func() { s.showTransaction(tx, db) }
	defer func() { s.executing = false }()
	return s.compose(tx, req, res, start)
}

// data lists the commands for the backend, each with its database: db at first, then as SELECT in the transaction
// says.
func (t *transaction) data(p *Profile, db int) []resp.Cmd {
	var cmds []resp.Cmd
	for _, q := range t.cmds {
		if q.denied != "" {
			continue
		}
		if q.of.act == nil {
			cmds = append(cmds, resp.Cmd{DB: db, Args: q.args, Spec: q.of.spec})
		} else if n, ok := q.selected(p); ok {
			db = n
		}
	}
	return cmds
}

// selected returns the database that a SELECT in the transaction selects.
func (q *queued) selected(p *Profile) (db int, ok bool) {
	if q.of.act == nil || !q.of.act.selects || q.denied != "" {
		return 0, false
	}
	db, err := p.parseDB(q.args[1])
	return db, err == nil
}

// runData has the backend run the data commands. A transaction without any still fails if a watched key has changed:
// then the request asks for a version instead.
func (s *session) runData(req resp.Request) resp.Result {
	if len(req.Cmds) == 0 {
		if req.Watch == nil {
			return resp.Result{}
		}
		watched := req.Watch.Check[0]
		req.Watch.Learn = []resp.Key{{DB: watched.DB, Name: watched.Key}}
	}
	s.asksForLock(req.Cmds)
	res := s.srv.backend.Do(s.ctx, req)
	s.sub.Settle()
	s.locks.Saw(res.Index)
	s.noteScripts(req.User, res)
	return res
}

// commonFailure returns the error that every command of a request got, because the request as a whole was not done or
// its outcome is unknown. EXEC answers that error rather than an array of it, so that a client can resend the whole.
func commonFailure(res resp.Result, n int) (resp.Reply, bool) {
	if n == 0 { // the request only checked the watched keys
		if len(res.Replies) > 0 && res.Replies[0].IsErr() {
			return res.Replies[0], true
		}
		return resp.Reply{}, false
	}
	first := replyAt(res, 0)
	word, _, _ := strings.Cut(first.Str, " ")
	if !first.IsErr() || word != "LOADING" && word != "UNKNOWN" && word != "CLUSTERDOWN" {
		return resp.Reply{}, false
	}
	for i := 1; i < n; i++ {
		if r := replyAt(res, i); !r.IsErr() || r.Str != first.Str {
			return resp.Reply{}, false
		}
	}
	return first, true
}

// compose makes EXEC's array, or writes it if it contains subscriptions. Commands that ask the backend have to run
// before the hub is locked.
func (s *session) compose(tx *transaction, req resp.Request, res resp.Result, start time.Time) resp.Reply {
	replies := make([]resp.Reply, len(tx.cmds))
	data, locked := 0, slices.ContainsFunc(tx.cmds, func(q queued) bool { return q.of.act != nil && q.of.act.hubLocked })
	var ran []*command
	for i, q := range tx.cmds {
		switch {
		case q.denied != "":
			replies[i] = resp.Err(q.denied)
			s.countIfError(replies[i])
		case q.of.act == nil:
			replies[i] = replyAt(res, data)
			s.countIfError(replies[i])
			ran = append(ran, q.of)
			data++
		case q.of.act.asksBackend && !(locked && q.of.act.countsSubscribers):
			replies[i] = s.timed(q)
		}
	}
	if len(ran) > 0 {
		s.accountRun(start, ran, req.Cmds[0].Args, res)
	}
	if locked {
		s.composeLocked(tx, replies)
		return resp.Reply{}
	}
	for i, q := range tx.cmds {
		replies[i] = s.inPlace(q, replies[i])
	}
	return resp.Array(replies...)
}

// inPlace runs a command that has to run at its place in the array. It may change tracking, so whether to remember
// the reads of each data command is decided here, too.
func (s *session) inPlace(q queued, r resp.Reply) resp.Reply {
	switch {
	case q.denied != "":
	case q.here(s.underHub):
		return s.timed(q)
	case q.of.act == nil && s.followed != nil:
		s.followed.Tracked = append(s.followed.Tracked, s.track.Wants(s.track.Caching))
	}
	return r
}

// here reports whether the command has to run at its place in the array.
func (q *queued) here(underHub bool) bool {
	return q.of.act != nil && (!q.of.act.asksBackend || underHub && q.of.act.countsSubscribers)
}

// timed runs a command of the connection inside EXEC, unless those before it have used up their common budget. SELECT
// always runs: the data commands after it have run already.
func (s *session) timed(q queued) resp.Reply {
	if s.work > transactionWorkMax && !q.of.act.selects {
		q.of.stats.Reject()
		r := resp.Err(resp.ErrWork)
		s.countIfError(r)
		return r
	}
	start, had := s.srv.clock(), len(s.pending)
	r := q.of.act.run(s, q.args)
	s.work += max(0, len(s.pending)-had) + int(r.Size())
	s.account(start, q.of, q.args, r)
	return r
}

// composeLocked writes an array that contains subscriptions. As in Redis it contains one confirmation for each
// channel, so that the array may have more elements than its head announces.
func (s *session) composeLocked(tx *transaction, replies []resp.Reply) {
	hub := s.srv.hub
	hub.broker.Lock()
	s.underHub = true
	s.replyHead(len(tx.cmds))
	for i, q := range tx.cmds {
		s.reply(s.inPlace(q, replies[i]))
	}
	s.handOver()
	s.underHub = false
	hub.broker.Unlock()
	s.tell()
	s.waitForRoom()
}

// showTransaction shows the commands of EXEC to monitors, each with its database.
func (s *session) showTransaction(tx *transaction, db int) {
	if !s.srv.hub.monitored.Load() {
		return
	}
	list := make([]shown, len(tx.cmds))
	for i, q := range tx.cmds {
		if n, ok := q.selected(s.srv.profile); ok {
			db = n
		}
		list[i] = shown{q.of, db, q.args}
	}
	s.show(list...)
}
