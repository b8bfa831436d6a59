package keyspace

import (
	"lockd/keyspace/fate"
	"lockd/keyspace/store"
	"lockd/resp"
)

// What becomes of locks is noted by package fate: put tells it every change of a key, with its cause.

// locks returns what notes the fate of locks, as of now.
func (s *state) locks() fate.Recorder {
	return fate.Recorder{
		Applying: s.applying, Attempt: s.journal != nil, Tick: s.tick, WallMs: s.wallUs / 1000, Index: s.index,
		Settings: s.settings, Meter: &s.meter, Events: &s.events, Digest: &s.digest, Out: &s.out,
	}
}

// noteLock notes who has lost a lock, and to whom it was granted.
func noteLock(s *state, why *fate.Cause, c store.Change) {
	if s.applying {
		s.locks().Note(why, c)
	}
}

// embargoed reports whether no lock is granted yet; see fate.Embargo.
func (s *state) embargoed() bool { return s.tick <= s.settings.HoldUntil }

func (s *state) embargoError() resp.Reply {
	return fate.EmbargoError(s.settings.HoldUntil - s.tick + 1)
}
