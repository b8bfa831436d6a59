package state

import (
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/store"
	"lockd/resp"
)

// Package lifecycle records what becomes of locks: Put tells it every change of a key, with its cause.

// Locks returns the recorder of the lifecycle of locks, as of now.
func (s *State) Locks() lifecycle.Recorder {
	return lifecycle.Recorder{
		Applying: s.Applying, Attempt: s.Journal != nil, Tick: s.Tick, WallMs: s.WallUs / 1000, Index: s.Index,
		Settings: s.Settings, Meter: &s.Meter, Events: &s.Events, Digest: &s.Digest, Out: &s.Out,
	}
}

// recordLock records the losses and grants of locks by a change.
func recordLock(s *State, why *lifecycle.Cause, c store.Change) {
	if s.Applying {
		s.Locks().RecordChange(why, c)
	}
}

// Embargoed reports whether no lock is granted yet; see lifecycle.Embargo.
func (s *State) Embargoed() bool { return s.Tick <= s.Settings.EmbargoUntil }

// EmbargoError answers a command that would grant a lock meanwhile.
func (s *State) EmbargoError() resp.Reply {
	return lifecycle.EmbargoError(s.Settings.EmbargoUntil - s.Tick + 1)
}
