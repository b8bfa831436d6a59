package command

import (
	"slices"
	"strconv"
	"strings"

	"lockd/keyspace/emit"
	"lockd/keyspace/history"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/lock"
	"lockd/keyspace/state"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// A lock is a string key whose value is the token of its holder, however it was taken: by LOCK, by SET NX or by a
// script. So programs move over one at a time. LOCK adds a line: a token that finds the lock taken waits in the order
// of the log, and the entry in which the key goes gives it to the first in line. A lock that several may hold, SHARED
// or up to a LIMIT, is a value of its own, in the same line.
var lockRows = []row{
	{Spec: resp.Spec{
		Name: resp.LockCommand, Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Blocking | resp.Fast,
		Keys: resp.FirstKey, Access: "RW access insert", Waits: "WAIT", Refuses: "*", NilBulk: true,
		Group: "lockd", Since: "1.0.0",
		Summary: "Take a lock for a token, or wait in line for it; the answer is its fence",
		Syntax: "key token PX milliseconds | EX seconds [WAIT milliseconds] [SHARED | LIMIT permits] [OWNER name] " +
			"[NOTE text]",
	}, Parse: parseLock},
	{Spec: resp.Spec{
		Name: "renew", Arity: 5, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "lockd", Since: "1.0.0",
		Summary: "Begin the lease of a lock anew, if the token holds it; the answer is its fence",
		Syntax:  "key token PX milliseconds | EX seconds",
	}, Parse: parseRenew},
	{Spec: resp.Spec{
		Name: "unlock", Arity: 3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RM delete",
		Group: "lockd", Since: "1.0.0",
		Summary: "Release a lock, if the token holds it, and leave its line",
		Syntax:  "key token",
	}, Parse: parseUnlock},
}

// Limits of a lock, in bytes. That of a token is lifecycle.TokenBytesMax.
const (
	lockOwnerBytesMax = 512
	lockNoteBytesMax  = 1024
)

// The error texts that only these commands use.
const (
	errTokenEmpty     = "ERR the token of a lock may not be empty"
	errOwnerEmpty     = "ERR the owner of a lock may not be empty"
	errHeldOtherwise  = "ERR this token holds the lock in another way: UNLOCK it first"
	errTextTooLongFmt = "ERR the %s of a lock may have %d bytes at most"
	errPermitsFmt     = "ERR LIMIT is a number from 1 to %d"
	errNoPXFmt        = "ERR PX is missing: %s key token PX milliseconds"
	errOptionTwiceFmt = "ERR %s is given twice"
	errOptionAloneFmt = "ERR %s needs a value"
	errNotIntegerFmt  = "ERR %s is not an integer or out of range"
	errWaitNegative   = "ERR WAIT is negative"
	errSharedAndLimit = "ERR SHARED and LIMIT exclude each other"
	errPXAndEX        = "ERR PX and EX exclude each other"
	errOtherLimitFmt  = "ERR this lock is held with LIMIT %d now"
)

// lockRequest is LOCK key token with its options.
type lockRequest struct {
	lock.Want
	key             string
	leaseMs, waitMs int64
	note            string
}

// The options of LOCK.
const (
	optionPX = iota
	optionEX
	optionWait
	optionLimit
	optionOwner
	optionNote
	optionShared // has no argument
)

var lockOptions = [...]string{"PX", "EX", "WAIT", "LIMIT", "OWNER", "NOTE", "SHARED"}

// parseLock reads key, token and options, in any order.
func parseLock(args resp.Args) (call, error) {
	l := &lockRequest{key: args[1], Want: lock.Want{Token: args[2]}}
	if err := checkToken(l.Token); err != nil {
		return nil, err
	}
	var seen [len(lockOptions)]bool
	for i := 3; i < len(args); i++ {
		option := slices.IndexFunc(lockOptions[:], func(name string) bool { return resp.Is(args[i], name) })
		switch {
		case option < 0:
			return nil, resp.UnknownOption("LOCK", args[i])
		case seen[option]:
			return nil, resp.Errorf(errOptionTwiceFmt, lockOptions[option])
		}
		seen[option] = true
		if option != optionShared {
			i++
		}
		if i == len(args) {
			return nil, resp.Errorf(errOptionAloneFmt, lockOptions[option])
		}
		if err := l.option(option, args[i]); err != nil {
			return nil, err
		}
	}
	switch {
	case seen[optionPX] && seen[optionEX]:
		return nil, resp.Error(errPXAndEX)
	case !seen[optionPX] && !seen[optionEX]:
		return nil, resp.Errorf(errNoPXFmt, "LOCK")
	case seen[optionShared] && seen[optionLimit]:
		return nil, resp.Error(errSharedAndLimit)
	}
	return l, nil
}

func (l *lockRequest) option(option int, text string) error {
	switch option {
	case optionOwner:
		if l.Owner = text; text == "" {
			return resp.Error(errOwnerEmpty)
		}
		return checkLength("owner", text, lockOwnerBytesMax)
	case optionNote:
		l.note = text
		return checkLength("note", text, lockNoteBytesMax)
	case optionShared:
		l.Mode = lock.Shared
		return nil
	}
	n, isInt := resp.ParseInt(text)
	return l.number(option, n, isInt)
}

// number sets an option that is a number: a time, or how many may hold the lock.
func (l *lockRequest) number(option int, n int64, isInt bool) (err error) {
	switch option {
	case optionPX, optionEX:
		if !isInt {
			return resp.Errorf(errNotIntegerFmt, lockOptions[option])
		}
		l.leaseMs, err = leaseUnits[lockOptions[option]].ms(n, resp.LockCommand)
		return err
	case optionWait:
		l.waitMs = n
		switch {
		case !isInt:
			return resp.Errorf(errNotIntegerFmt, "WAIT")
		case n < 0:
			return resp.Error(errWaitNegative)
		}
	case optionLimit:
		l.Mode = lock.Mode(n)
		if !isInt || n < 1 || n > lock.HoldersMax {
			return resp.Errorf(errPermitsFmt, lock.HoldersMax)
		}
	}
	return nil
}

// leaseUnits are the two ways to write a lease.
var leaseUnits = map[string]expiry{"PX": expiryPX, "EX": expiryEX}

func checkToken(token string) error {
	if token == "" {
		return resp.Error(errTokenEmpty)
	}
	return checkLength("token", token, lifecycle.TokenBytesMax)
}

// checkLength refuses a text of a lock that is too long.
func checkLength(name, text string, bytesMax int) error {
	if len(text) > bytesMax {
		return resp.Errorf(errTextTooLongFmt, name, bytesMax)
	}
	return nil
}

// waits returns the LOCK as a command that may wait.
func (l *lockRequest) waits() *blocking {
	return &blocking{
		keys: []string{l.key}, lock: l, timeoutMs: l.waitMs, absent: resp.Nil, take: l.take,
	}
}

// renews reports whether LOCK renews a lock that the token holds, and changes neither its OWNER nor its NOTE.
func (l *lockRequest) renews(c *Ctx) bool {
	e, many, err := lookupLock(c, l.key)
	var known store.Tag
	switch {
	case err != nil || e == nil || (l.Mode != lock.Exclusive) != (many != nil):
		return false
	case many == nil && e.Str() == l.Token:
		if t := e.Tag(); t != nil {
			known = *t
		}
	case many != nil && many.Holder(l.Token) != nil:
		h := many.Holder(l.Token)
		known = store.Tag{Owner: h.Owner, Note: h.Note}
	default:
		return false
	}
	return (l.Owner == "" || l.Owner == known.Owner) && (l.note == "" || l.note == known.Note)
}

func (l *lockRequest) Run(c *Ctx) resp.Reply {
	if err := c.begin(l.waitMs, l.waits); err != nil {
		return resp.Fail(err)
	}
	if _, ok := c.After(l.leaseMs); !ok {
		return invalidExpire(resp.LockCommand)
	}
	switch answer, err := askFor(c, l); {
	case err != nil:
		return resp.Fail(err)
	case answer == lock.Yes:
		return c.served(l.take(c, l.key))
	case l.waitMs == 0:
		return resp.Nil()
	case c.s.Embargoed():
		return c.s.EmbargoError() // it might be served before that is over
	}
	return c.wait(resp.Nil())
}

// askFor asks for a lock for a client. A dry run does not know whether one in line whose time is over by its own clock
// still stands there.
func askFor(c *Ctx, l *lockRequest) (lock.Answer, error) {
	var held lock.Holding
	if e := c.Lookup(l.key); e != nil {
		held = state.HoldingOf(e)
		c.s.Meter.Spend(value.LockWork(held.Many))
	}
	line := c.s.Waits.Line()
	if c.s.DryRun.Running && held.Many != nil {
		if first := line.First(c.lockName(l.key)); first != nil && c.now() > first.End {
			c.s.DryRun.Changes = true
		}
	}
	answer, err := line.Ask(c.lockName(l.key), &l.Want, &held)
	return answer, LockError(err)
}

// LockError returns an error of package lock in the words for clients.
func LockError(err error) error {
	switch limit, ok := err.(lock.LimitError); {
	case ok:
		return resp.Errorf(errOtherLimitFmt, limit.Limit)
	case err == lock.ErrForeign:
		return resp.Error(resp.ErrWrongType)
	case err == lock.ErrHeldOtherwise:
		return resp.Error(errHeldOtherwise)
	}
	return err
}

// take grants the lock to the token, or renews it. The caller has made sure that the token may have it.
func (l *lockRequest) take(c *Ctx, key string) (resp.Reply, *wait.Reversal) {
	until, ok := c.After(l.leaseMs)
	if !ok {
		return invalidExpire("lock"), nil
	}
	was := c.Lookup(key)
	if l.Mode != lock.Exclusive {
		h := l.holder(was)
		return emitHeld(c, l, h.Fence != 0, putHolder(c, key, was, l.Mode, h, until)), nil
	}
	e := store.NewEntry(key, was, store.StringValue(l.Token), until, l.tag(was), l.mark(c, was))
	if e = c.s.Put(&c.Why, c.db, was, e); was == nil {
		c.Notify(emit.String, "set", key)
	}
	c.Notify(emit.Generic, "expire", key)
	return emitHeld(c, l, was != nil, fenceReply(c, e)), nil
}

// mark returns the mark of the lock. A token that has it already keeps the facts.
func (l *lockRequest) mark(c *Ctx, was *store.Entry) store.Mark {
	if was != nil && was.Mark() == store.IsLock {
		return store.IsLock
	}
	return c.s.Locks().MarkOf(&c.Why, l.key, value.OfString(l.Token))
}

// tag returns the updated OWNER and NOTE of a lock; fields that the request omits are kept.
func (l *lockRequest) tag(was *store.Entry) *store.Tag {
	next := store.Tag{}
	if was != nil && was.Tag() != nil {
		next = *was.Tag()
	}
	if l.Owner != "" {
		next.Owner = strings.Clone(l.Owner)
	}
	if l.note != "" {
		next.Note = strings.Clone(l.note)
	}
	if next == (store.Tag{}) {
		return nil
	}
	return &next
}

// holder is tag for a holder of many. A new holder has no fence yet.
func (l *lockRequest) holder(was *store.Entry) lock.Holder {
	var h lock.Holder
	if was != nil && was.Lock().Holder(l.Token) != nil {
		h = *was.Lock().Holder(l.Token)
	} else {
		h.Token = strings.Clone(l.Token)
	}
	if l.Owner != "" {
		h.Owner = strings.Clone(l.Owner)
	}
	if l.note != "" {
		h.Note = strings.Clone(l.note)
	}
	return h
}

// putHolder stores a holder with a lease, and answers its fence. was may be nil.
func putHolder(c *Ctx, key string, was *store.Entry, mode lock.Mode, h lock.Holder, until store.Deadline) resp.Reply {
	s := c.s
	if s.DryRun.Stops() {
		return resp.Reply{}
	}
	event := "expire"
	if h.Fence == 0 {
		h.Fence, event = s.Keys.UpcomingFence(s.LeastFence()), "lock"
	}
	s.Keys.Sequence++
	h.Version, h.Tick, h.WallMs = s.Keys.Sequence, until.Tick, until.WallMs
	s.Locks().StampLease(&c.Why, key, &h)
	var held *lock.Many
	if was == nil {
		held = lock.NewMany(mode, &h)
	} else {
		held = was.Lock().With(&h)
	}
	e := s.Put(&c.Why, c.db, was, state.EntryOfMany(s, key, was, held))
	s.Keys.LastFence = max(s.Keys.LastFence, h.Fence)
	c.Notify(emit.Generic, event, key)
	return resp.Int(int64(max(h.Fence, e.Fence, s.Keys.DBs[c.db].Floor)))
}

// fenceAt answers the fence of a key.
func fenceAt(c *Ctx, key string) resp.Reply { return fenceReply(c, c.Lookup(key)) }

// fenceReply answers the fence of a key that is there. In a dry run one that was to be stored is not.
func fenceReply(c *Ctx, e *store.Entry) resp.Reply {
	if e == nil {
		return resp.Nil()
	}
	return resp.Int(int64(max(e.Fence, c.s.Keys.DBs[c.db].Floor)))
}

// emitHeld answers the fence of a LOCK. If the token had the lock before, it also emits a grant: the client may be
// another one now, and has to learn of the loss, too. In the history such a LOCK is a renewal.
func emitHeld(c *Ctx, l *lockRequest, again bool, fence resp.Reply) resp.Reply {
	taken := resp.HeldLock{DB: c.db, Key: l.key, Token: l.Token, Fence: uint64(fence.Int)}
	if again && c.s.Applying && lifecycle.LeaseOf(c.s.Keys, taken).Held {
		e := history.Event{Kind: history.Granted, DB: c.db, Tick: c.s.Tick, Key: l.key, Token: l.Token, Fence: taken.Fence}
		e.LeaseMs = l.leaseMs
		r := c.s.Locks()
		r.Attribute(&c.Why, &e)
		r.Emit(resp.MessageHeld, history.Append(nil, &e))
	}
	return fence
}

// renewCall is RENEW key token PX milliseconds, or EX seconds.
type renewCall struct {
	key, token string
	leaseMs    int64
}

func parseRenew(args resp.Args) (call, error) {
	if err := checkToken(args[2]); err != nil {
		return nil, err
	}
	unit, ok := leaseUnits[strings.ToUpper(args[3])]
	if !ok {
		return nil, resp.Errorf(errNoPXFmt, "RENEW")
	}
	ms, err := unit.read(args[4], "renew")
	if err != nil {
		return nil, err
	}
	return &renewCall{args[1], args[2], ms}, nil
}

func (r *renewCall) Run(c *Ctx) resp.Reply {
	key, token := r.key, r.token
	until, err := expiryPX.deadlineFrom(c, r.leaseMs, "renew")
	if err != nil {
		return resp.Fail(err)
	}
	e, many, err := lookupLock(c, key)
	switch {
	case err != nil || e == nil:
		return orNil(err)
	case many != nil:
		if h := many.Holder(token); h != nil {
			return putHolder(c, key, e, many.Mode(), *h, until)
		}
	case e.Str() == token:
		e = c.s.Put(&c.Why, c.db, e, c.s.Until(&c.Why, e, until))
		c.Notify(emit.Generic, "expire", key)
		return fenceReply(c, e)
	}
	return resp.Nil()
}

// unlockCall has the key and the token of UNLOCK. It aliases the arguments, and takes no memory of its own.
type unlockCall [2]string

func parseUnlock(args resp.Args) (call, error) { return (*unlockCall)(args[1:]), nil }

// Run also ends the wait of the token: its program has given up. The token may have been granted the lock already, and
// its client not told yet. In a script it ends no wait, as that might be undone.
func (r *unlockCall) Run(c *Ctx) resp.Reply {
	key, token := r[0], r[1]
	e, many, err := lookupLock(c, key)
	c.Why.Condition = true
	leaves := c.run == nil && !c.takesBack
	if leaves {
		c.s.Meter.Spend(c.s.Waits.Gifts.Leave(c.db, key, token))
	}
	switch {
	case err != nil:
		return resp.Fail(err)
	case many != nil && many.Holder(token) != nil:
		dropHolder(c, key, e, token)
		return resp.Int(1)
	case many == nil && e != nil && e.Str() == token:
		return deleteIf(c, key, true)
	}
	if at := c.s.Waits.Line().Waiter(c.lockName(key), token); at != nil && leaves {
		c.s.Waiters().End(c.s.Waits.InLine(at), resp.BlockServed, resp.Nil())
	}
	return resp.Int(0)
}

// dropHolder releases a lock of many for one of its holders.
func dropHolder(c *Ctx, key string, e *store.Entry, token string) {
	left := e.Lock().Without(func(h *lock.Holder) bool { return h.Token == token })
	if left == nil {
		deleteNotify(c, key)
		return
	}
	c.s.Put(&c.Why, c.db, e, state.EntryOfMany(c.s, key, e, left))
	c.Notify(emit.Generic, "unlock", key)
}

// LOCKS FORCE ends a lock for its holders.

// The error texts of LOCKS FORCE.
const (
	errReasonEmpty   = "ERR the reason may not be empty"
	errTokensBeginSo = "ERR the tokens of several holders begin so: name one in full"
)

// forceOptions say for which of its holders a lock is ended, and why. The fence is that of the lock as an operator has
// seen it: a later holder keeps the lock.
type forceOptions struct {
	token  string // in full, or as much as is shown of it; "": anyone
	fence  uint64 // 0: any
	reason string
}

// parseForce reads TOKEN, FENCE and REASON, in any order.
func parseForce(args resp.Args) (o forceOptions, err error) {
	for i := 0; i < len(args); i += 2 {
		switch {
		case i+1 == len(args):
			return o, resp.Error(resp.ErrSyntax)
		case resp.Is(args[i], "TOKEN") && o.token == "":
			o.token = args[i+1]
			err = checkToken(o.token)
		case resp.Is(args[i], "FENCE") && o.fence == 0:
			o.fence, err = parseFence(args[i+1])
		case resp.Is(args[i], "REASON") && o.reason == "":
			if o.reason = args[i+1]; o.reason == "" {
				err = resp.Error(errReasonEmpty)
			} else {
				err = checkLength("reason", o.reason, lifecycle.ReasonBytesMax)
			}
		default:
			err = resp.Error(resp.ErrSyntax)
		}
		if err != nil {
			return o, err
		}
	}
	if o.reason == "" {
		return o, resp.Error(resp.ErrSyntax)
	}
	return o, nil
}

func parseFence(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 {
		return 0, resp.Error(resp.ErrNotInteger)
	}
	return n, nil
}

// forceCall is LOCKS FORCE. It answers how many have lost the lock by it.
type forceCall struct {
	key string
	forceOptions
}

func parseLocksForce(args resp.Args) (call, error) {
	o, err := parseForce(args[3:])
	if err != nil {
		return nil, err
	}
	return &forceCall{args[2], o}, nil
}

func (o *forceCall) Run(c *Ctx) resp.Reply {
	key := o.key
	e := c.Lookup(key)
	switch {
	case e == nil || e.Aggregate() == nil && e.Mark() != store.IsLock:
		return resp.Int(0)
	case e.Aggregate() != nil && e.Lock() == nil && e.HashLock() == nil:
		return resp.Err(resp.ErrWrongType)
	}
	c.Why.How, c.Why.Reason = history.Forced, o.reason
	all := holdersOf(c, e)
	holders := all
	if o.fence != 0 {
		holders = slices.DeleteFunc(slices.Clone(all), func(h *lock.Holder) bool { return fenceOf(c, e, h) != o.fence })
	}
	if o.token != "" {
		h, err := holderFor(holders, o.token)
		if h == nil {
			return orZero(err)
		}
		holders = []*lock.Holder{h}
	}
	switch {
	case len(holders) == 0:
		return resp.Int(0)
	case len(holders) < len(all): // one of several: each has a fence of its own, or all have the same
		dropOne(c, key, e, holders[0].Token)
		return resp.Int(1)
	}
	deleteNotify(c, key)
	return resp.Int(int64(len(holders)))
}

// dropOne ends a lock for one of several.
func dropOne(c *Ctx, key string, e *store.Entry, token string) {
	if e.Lock() != nil {
		dropHolder(c, key, e, token)
		return
	}
	editHash(c, key, func(h *value.Hash) {
		c.s.Meter.Spend(h.FindWork(token))
		h.Delete(token)
	})
	c.Notify(emit.Hash, "hdel", key)
}

// holderFor returns the holder that a token names, in full or by as much as is shown of it; nil: there is none.
func holderFor(holders []*lock.Holder, token string) (found *lock.Holder, err error) {
	for _, h := range holders {
		switch {
		case h.Token == token:
			return h, nil
		case !history.FitsToken(h.Token, token):
		case found != nil:
			err = resp.Error(errTokensBeginSo)
		default:
			found = h
		}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}
