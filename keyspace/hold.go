package keyspace

import (
	"slices"

	"lockd/keyspace/value"
	"lockd/resp"
)

// A cluster that was restored from a backup knows nothing of the locks that were granted after it was made. So for a
// while, which the setting lock-hold-until says in the log clock, it grants no lock that it does not know: whoever
// holds one goes on, renews it and releases it. What would grant one is taken back as a whole.

// A command that refuses for it answers this, with the milliseconds that are left. LOADING is what clients try again.
const errHoldFmt = "LOADING this cluster was restored from a backup: for %d ms it grants no lock that the backup does " +
	"not know"

// hold is the part of a running command that is about this.
type hold struct {
	guards  bool // what the command does can be taken back
	watched bool // its request is a transaction that has watched keys
	met     bool // it would have granted a lock
}

// holds reports whether no lock is granted yet.
func (m *Machine) holds() bool { return m.tick <= m.settings.holdUntil }

func (m *Machine) holdError() resp.Reply {
	return resp.Errf(errHoldFmt, m.settings.holdUntil-m.tick+1)
}

// noteHeld notes that the running command grants somebody a lock: store has made next of was.
func (m *Machine) noteHeld(why *cause, key string, was, next *entry) {
	if m.hold.guards && next != nil && (m.grantsNew(why, key, was, next) || grantsMore(was, next)) {
		m.hold.met = true
	}
}

// createsIf are commands that make a key only if it is absent, and are no locks as LOCKS has them.
var createsIf = map[string]bool{"lock": true, "hsetnx": true, "renamenx": true, "copy": true, "move": true}

// grantsNew reports whether a key that comes into being may be a lock: it does so under a condition, or in a script,
// which may have looked. Of what a script makes only a string or a hash is one.
func (m *Machine) grantsNew(why *cause, key string, was, next *entry) bool {
	switch {
	case was != nil:
		return false
	case next.lock() != nil:
		return true
	case why.script:
		plain := next.agg() == nil || next.agg().Kind() == value.HashKind
		return plain && !helpsRedisson(key)
	}
	return why.condition || m.hold.watched || createsIf[why.by]
}

// grantsMore reports whether somebody holds a lock of many who did not before.
func grantsMore(was, next *entry) (more bool) {
	if before, after := lockOf(was), next.lock(); after != nil {
		eachMissing(after, before, func(*value.Holder) { more = true })
		return more
	}
	before, after := was.hashLock(), next.hashLock()
	if before == nil || after == nil {
		return false
	}
	for i := range after.holders {
		more = more || !slices.ContainsFunc(before.holders, after.holders[i].is)
	}
	return more
}
