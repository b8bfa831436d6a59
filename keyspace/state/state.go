package state

import (
	"lockd/keyspace/digest"
	"lockd/keyspace/emit"
	"lockd/keyspace/history"
	"lockd/keyspace/library"
	"lockd/keyspace/lifecycle"
	"lockd/keyspace/meter"
	"lockd/keyspace/settings"
	"lockd/keyspace/store"
	"lockd/keyspace/wait"
	"lockd/resp"
	"lockd/resp/acl"
)

// State is the replicated state, and what the entry that is being applied uses beside it. An image holds all of the
// former.
type State struct {
	Tick      int64 // the log clock, in milliseconds
	WallUs    int64 // the latest wall time of the entries
	Keys      *store.Store
	Settings  *settings.Values
	Users     *acl.Users
	UsersRev  uint64 // counts their changes
	Library   library.Scripts
	Functions library.Functions
	Stats     Stats
	Waits     wait.Table
	Events    history.Log
	Digest    digest.Digest

	// What is the same for all entries, or until the level rises; no image holds it.
	Level   int // the cluster's level in force
	Scripts Scripts

	// Of the entry, or the read, that is running.
	Index       uint64 // of the entry being applied
	Applying    bool   // an entry: what becomes of locks is noted
	Draws       uint64 // random numbers drawn since the call began
	ServedBytes int64  // replies to waiters in this entry
	Searched    int64  // work of searches for deadlocks in this entry
	Meter       meter.Meter
	Out         emit.Output
	Seen        seen

	// Of the request that is running.
	Rights    Rights
	LockUsage string
	Reads     *emit.Reads // if its session tracks
	Journal   *journal
	DryRun    DryRun
	Embargo   lifecycle.Embargo
	Serving   bool       // a waiter's command is being executed
	Gone      []GoneLock // programs that wait for them by a library are woken when the command has ended
}

// New returns an empty state at a level that knows commands. Its scripts run with scripts.
func New(scripts Scripts, level int, known *acl.Commands) State {
	return State{
		Scripts: scripts, Level: level, Users: acl.NewUsers(known), Keys: store.New(), Settings: settings.Default(),
		Waits: wait.New(), Digest: digest.Begin,
	}
}

// Stats are the figures of INFO that follow from the log.
type Stats struct{ ExpiredKeys int64 }

// seen has the figures of INFO that each node counts for itself. No command's reply may depend on
// them, and no image holds them.
type seen struct {
	Hits, Misses int64 // keys that reads have found, and not found
	PeakBytes    int64 // the most memory that data have taken
	Events       [history.Kinds]int64
}

// CountEvents counts what has become of locks in an entry.
func (s *seen) CountEvents(messages []resp.Message) {
	for i := range messages {
		if m := &messages[i]; m.Kind == resp.MessageLock {
			s.Events[m.Event[0]]++ // as history.Append writes its kind
		}
	}
}

// Count counts a key that a read looks for.
func (s *seen) Count(found bool) {
	if found {
		s.Hits++
	} else {
		s.Misses++
	}
}

// Expired reports whether the lease of e has ended by the machine's clock. The
// machine's, never the reader's: see law 4 of DESIGN.md.
func (s *State) Expired(e *store.Entry) bool {
	return s.Tick > e.Tick
}

// AsOf returns the tick by which leases are judged at a moment; 0: now.
func (s *State) AsOf(moment int64) int64 {
	if moment != 0 {
		return moment
	}
	return s.Tick
}

// LeastFence bounds the fences that the running entry gives from below.
func (s *State) LeastFence() uint64 { return s.Index }

// Version returns the version of a key as of now, for WATCH.
func (s *State) Version(db int, key string) uint64 { return s.Keys.Version(s.Tick, db, key) }

// Notify sends the notifications of an event, if the settings ask for its class. A running script's are taken back with
// its writes.
func (s *State) Notify(db int, class emit.Classes, event, key string) {
	if asked := s.Settings.Notify; asked&class != 0 {
		s.Meter.Spend(emit.NotifyWork(key))
		s.Out.Notify(asked, db, event, key)
	}
}

// UsedBytes returns the estimate of the memory that data take, in all databases, and what else clients have left here.
func (s *State) UsedBytes() int64 {
	return s.Library.Bytes() + s.Functions.Bytes() + s.Waits.Bytes() + s.Events.Bytes() + s.Keys.Bytes()
}

// OverMemory reports whether the data take more than the setting maxmemory.
func (s *State) OverMemory() bool {
	limit := s.Settings.MaxMemoryBytes
	return limit > 0 && s.UsedBytes() > limit
}

// Exhausted says why the running request may not run another command, or "".
func (s *State) Exhausted(row *resp.Spec) string {
	if why := s.Meter.Exhausted(); why != "" || row.Flags&resp.DenyOOM == 0 {
		return why
	}
	return s.Meter.Grown(s.UsedBytes())
}
