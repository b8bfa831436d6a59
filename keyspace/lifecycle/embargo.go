package lifecycle

import (
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// A cluster that was restored from a backup knows nothing of the locks that were granted after it was made. So for a
// while, which the setting lock-hold-until says in the log clock, it grants no lock that it does not know: a holder
// goes on, renews its lock and releases it. A command that would grant a new one is taken back as a whole.

// ErrEmbargoFmt answers a command that is refused for it, with the milliseconds that are left. Clients try again after
// LOADING.
const ErrEmbargoFmt = "LOADING this cluster was restored from a backup: for %d ms it grants no lock that the backup does " +
	"not know"

// Embargo watches a running command for what would grant a lock.
type Embargo struct {
	Guards  bool // what the command does can be taken back
	Watched bool // its request is a transaction that has watched keys
	Met     bool // it would have granted a lock
}

// EmbargoError returns the answer of a command that is refused for some milliseconds more.
func EmbargoError(ms int64) resp.Reply { return resp.Errf(ErrEmbargoFmt, ms) }

// Check notes that the running command grants somebody a lock, if a change makes next of was.
func (e *Embargo) Check(why *Cause, was, next *store.Entry) {
	if e.Guards && next != nil && (e.grantsNew(why, was, next) || handedOver(was, next) || grantsMore(was, next)) {
		e.Met = true
	}
}

// handedOver reports whether the token of a lock has changed, or of what becomes one by its first lease.
func handedOver(was, next *store.Entry) bool {
	return was != nil && next.Mark() != store.NoLock && store.ChangesToken(was, next)
}

// createsIf are commands that make a key only if it is absent, and are no locks as LOCKS has them.
var createsIf = map[string]bool{"lock": true, "hsetnx": true, "renamenx": true, "copy": true, "move": true}

// grantsNew reports whether a key that comes into being may be a lock: it does so under a condition, or in a script,
// which may have looked. Of what a script makes only a string or a hash is one.
func (e *Embargo) grantsNew(why *Cause, was, next *store.Entry) bool {
	switch {
	case was != nil:
		return false
	case next.Lock() != nil:
		return true
	case why.Script:
		plain := next.Aggregate() == nil || next.Aggregate().Kind() == value.HashKind
		return plain && !HelpsRedisson(next.Key())
	}
	return why.Condition || e.Watched || createsIf[why.By]
}

// grantsMore reports whether a lock of many has a new holder.
func grantsMore(was, next *store.Entry) (more bool) {
	if before, after := was.Lock(), next.Lock(); after != nil {
		after.Missing(before, func(*lock.Holder) { more = true })
		return more
	}
	before, after := was.HashLock(), next.HashLock()
	if before == nil || after == nil {
		return false
	}
	return stayed(before.Holders, after.Holders, func(*store.HashHolder) {}) < len(after.Holders)
}
