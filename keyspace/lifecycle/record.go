package lifecycle

import (
	"lockd/keyspace/digest"
	"lockd/keyspace/emit"
	"lockd/keyspace/history"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/settings"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Recorder records what becomes of locks. State.Put calls it at each change of a key, with the cause.
type Recorder struct {
	Applying bool // an entry: nothing is noted elsewhere
	Attempt  bool // what is noted may be taken back, so that nothing older is dropped yet

	Tick, WallMs int64
	Index        uint64 // of the entry

	Settings *settings.Values
	Meter    *meter.Meter
	Events   *history.Log
	Digest   *digest.Digest
	Out      *emit.Output
}

// subject is the lock of an event, with its cause.
type subject struct {
	why     *Cause
	db      int
	key     string
	permits int64 // see history.Event
}

// RecordChange records the losses and grants of locks by a change of a key.
func (r Recorder) RecordChange(why *Cause, c store.Change) {
	if !r.Applying {
		return
	}
	of, was, next := subject{why: why, db: c.DB, key: c.Key()}, c.Was, c.Next
	if was.HashLock() != nil || next.HashLock() != nil {
		r.recordHash(of, was, next)
	}
	had, has := was.IsLockedString(), next.IsLockedString()
	kept := had && has && was.Str() == next.Str()
	if had && !kept {
		h := HeldBy(was)
		r.recordLoss(of, &h, next != nil)
	}
	if has && !kept {
		h := HeldBy(next)
		r.recordGrant(of, &h)
	}
	if before, after := was.Lock(), next.Lock(); before != nil || after != nil {
		r.recordHolders(of, before, after, next != nil)
	}
}

// recordHolders records losses and grants of a lock of many, by comparing its holders before and after.
func (r Recorder) recordHolders(of subject, before, after *lock.Many, there bool) {
	r.Meter.Spend(value.VisitWork * int64(before.Len()+after.Len()))
	of.permits = permitsOf(before)
	before.Missing(after, func(h *lock.Holder) {
		if h.LeaseMs != 0 {
			r.recordLoss(of, h, there && after == nil)
		}
	})
	of.permits = permitsOf(after)
	after.Missing(before, func(h *lock.Holder) {
		if h.LeaseMs != 0 {
			r.recordGrant(of, h)
		}
	})
}

func permitsOf(l *lock.Many) int64 {
	if l == nil {
		return 0
	}
	return int64(l.Mode())
}

func (r Recorder) recordGrant(of subject, h *lock.Holder) {
	if len(of.key) > KeyBytesMax {
		return
	}
	r.Record(of.why, &history.Event{
		Kind: history.Granted, DB: of.db, Tick: r.Tick, Key: of.key, Token: h.Token, Owner: h.Owner, Note: h.Note,
		Fence: h.Fence, Permits: of.permits, WaitedMs: of.why.WaitedMs, LeaseMs: h.LeaseMs,
	})
}

// recordLoss notes that a holder has lost a lock, perhaps to something else at its key. A lock that is
// deleted by the client to which it was granted is released.
func (r Recorder) recordLoss(of subject, h *lock.Holder, overwritten bool) {
	if len(of.key) > KeyBytesMax {
		return
	}
	kind, tick := of.why.How, r.Tick
	switch {
	case kind == history.Expired:
		tick = min(tick, h.Tick)
	case kind != history.None:
	case overwritten:
		kind = history.Overwritten
	case of.why.Condition, h.Client != 0 && h.Client == clientHash(of.why.Client):
		kind = history.Released
	default:
		kind = history.Deleted
	}
	r.Record(of.why, &history.Event{
		Kind: kind, DB: of.db, Tick: tick, Key: of.key, Token: h.Token, Owner: h.Owner, Fence: h.Fence,
		Permits: of.permits, Reason: of.why.Reason,
		HeldMs: max(0, tick-h.SinceTick), LeaseMs: h.LeaseMs, Renewals: uint64(h.Renewals), RenewedMs: RenewedMs(h),
	})
}

// RenewedMs returns the wall time at which a lease was last renewed; 0: never, or the holder has none.
func RenewedMs(h *lock.Holder) int64 {
	if h.Renewals == 0 || h.LeaseMs < 0 {
		return 0
	}
	return h.WallMs - h.LeaseMs
}

// RecordAll records an event of all locks of a database.
func (r Recorder) RecordAll(why *Cause, kind history.Kind, db, other int) {
	if r.Applying {
		r.Record(why, &history.Event{Kind: kind, DB: db, OtherDB: other, Tick: r.Tick})
	}
}

// Record adds an event to the history, and emits it.
func (r Recorder) Record(why *Cause, e *history.Event) {
	r.Attribute(why, e)
	record := r.Events.Add(e)
	if !r.Attempt {
		r.Events.Trim(r.Settings.HistoryMax)
	}
	r.Meter.Spend(meter.EventWork + value.CopyWork*int64(len(record)))
	r.Digest.Event(record)
	r.Emit(resp.MessageLock, record)
}

// Attribute fills in the command and the client of an event, and its wall time.
func (r Recorder) Attribute(why *Cause, e *history.Event) {
	e.By, e.Script, e.Client = why.By, why.Script, why.Client
	e.WallMs = r.WallMs - (r.Tick - e.Tick)
}

// Emit emits an event in its place in the entry: of kind MessageLock for subscribers and for clients that hold
// locks, of kind MessageHeld for the latter only.
func (r Recorder) Emit(kind resp.MessageKind, record []byte) {
	r.Out.Emit(resp.Message{Kind: kind, Index: r.Index, Event: record, Form: history.FormOf(r.Settings.ShowTokens)})
}
