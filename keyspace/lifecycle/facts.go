package lifecycle

import (
	"lockd/keyspace/arg"
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// nameStepsMax is more than any key and any lock-pattern take to compare, as both are short.
const nameStepsMax = 1 << 24

// NamesLock reports whether a key may be a lock, by its name.
func (r Recorder) NamesLock(key string) bool {
	pattern := r.Settings.LockPattern
	switch {
	case !r.Applying || len(key) > KeyBytesMax:
		return false
	case pattern == "*":
		return true
	}
	left := nameStepsMax
	matches := resp.Glob(pattern, key, &left)
	r.Meter.Spend(arg.GlobWork * int64(nameStepsMax-left))
	return matches
}

// MarkOf returns the mark of a key that comes into being under a condition.
func (r Recorder) MarkOf(why *Cause, key string, v value.Value) store.Mark {
	if v.Aggregate() != nil || v.Str() == "" || len(v.Str()) > TokenBytesMax || !r.NamesLock(key) ||
		why.Script && HelpsRedisson(key) {
		return store.NoLock
	}
	return store.MayBeLock
}

// StampLease notes that the lease of a holder begins, or is renewed; its key may be new.
func (r Recorder) StampLease(why *Cause, key string, h *lock.Holder) {
	switch {
	case !r.Applying:
	case h.LeaseMs != 0:
		h.Renew(h.Tick, r.Tick)
	case r.NamesLock(key) && h.Tick != lock.NoLease:
		h.Facts = r.newFacts(why, h.Tick)
	}
}

// Complete returns next with the facts of the lock that its key is. raises reports that a new holder of the lock needs
// its own fence although the key stays.
func (r Recorder) Complete(why *Cause, was, next *store.Entry) (complete *store.Entry, raises bool) {
	if next.IsLockedString() {
		return next.WithFacts(r.factsOf(why, was, next)), false
	}
	return next, r.Applying && r.completeHash(why, was, next)
}

// factsOf returns the facts of a lock that is a string: it goes on, is renewed, or is granted now.
func (r Recorder) factsOf(why *Cause, was, next *store.Entry) (facts lock.Facts) {
	if was != nil && was.Mark() == store.IsLock {
		facts = was.Facts()
	}
	switch {
	case !r.Applying:
	case !was.IsLockedString(), was.Str() != next.Str():
		facts = r.newFacts(why, next.Tick)
	case was.Deadline() != next.Deadline():
		facts.Renew(next.Tick, r.Tick)
	}
	return facts
}

// newFacts returns the facts of a lock that is granted now, until a tick.
func (r Recorder) newFacts(why *Cause, until int64) lock.Facts {
	f := lock.Facts{SinceTick: r.Tick, SinceMs: r.WallMs, LeaseMs: -1, Client: clientHash(why.Client)}
	if until != lock.NoLease {
		f.LeaseMs = until - r.Tick
	}
	return f
}

// HeldBy returns the holder of an exclusive lock, in the form of a holder among many.
func HeldBy(e *store.Entry) lock.Holder {
	h := lock.Holder{
		Token: e.Str(), Fence: e.Fence, Tick: e.Tick, WallMs: e.Deadline().WallMs, Facts: e.Facts(),
	}
	if t := e.Tag(); t != nil {
		h.Owner, h.Note = t.Owner, t.Note
	}
	return h
}
