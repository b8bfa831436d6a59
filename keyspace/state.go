package keyspace

import (
	"lockd/keyspace/digest"
	"lockd/keyspace/emit"
	"lockd/keyspace/fate"
	"lockd/keyspace/history"
	"lockd/keyspace/library"
	"lockd/keyspace/meter"
	"lockd/keyspace/settings"
	"lockd/keyspace/store"
	"lockd/keyspace/wait"
	"lockd/resp"
	"lockd/resp/acl"
)

// state is the replicated state, and what the entry that is being applied uses beside it. An image holds all of the
// former.
type state struct {
	tick      int64 // the log clock, in milliseconds
	wallUs    int64 // the latest wall time of the entries
	keys      store.Store
	settings  *settings.Values
	users     *acl.Users
	usersRev  uint64 // counts their changes
	library   library.Scripts
	functions library.Functions
	stats     stats
	waits     wait.Table
	events    history.Log
	digest    digest.Digest

	// What is the same for all entries, or until the level rises; no image holds it.
	level   int // the cluster's level in force
	scripts Scripts

	// Of the entry, or the read, that is running.
	index       uint64 // of the entry being applied
	applying    bool   // an entry: what becomes of locks is noted
	draws       uint64 // calls of ctx.rand since the call began
	servedBytes int64  // replies to waiters in this entry
	searched    int64  // work of searches for deadlocks in this entry
	meter       meter.Meter
	out         emit.Output
	seen        seen

	// Of the request that is running.
	rights    rights
	lockUsage string
	reads     *emit.Reads // if its session tracks
	journal   *journal
	dryRun    dryRun
	embargo   fate.Embargo
	serving   bool       // a waiter's command is being executed
	gone      []goneLock // those who wait for them by a library are woken when the command has ended
}

// newState returns an empty state at a level that knows commands. Its scripts run with scripts.
func newState(scripts Scripts, level int, known *acl.Commands) state {
	return state{
		scripts: scripts, level: level, users: acl.NewUsers(known), keys: store.New(), settings: settings.Default(),
		waits: wait.New(), digest: digest.Begin,
	}
}

// stats are the figures of INFO that follow from the log.
type stats struct{ expiredKeys int64 }

// seen has the figures of INFO that each node counts for itself. No command's reply may depend on
// them, and no image holds them.
type seen struct {
	hits, misses int64 // keys that reads have found, and not found
	peakBytes    int64 // the most memory that data have taken
	events       [history.Kinds]int64
}

// countEvents counts what has become of locks in an entry.
func (s *seen) countEvents(messages []resp.Message) {
	for i := range messages {
		if m := &messages[i]; m.Kind == resp.MessageLock {
			s.events[m.Event[0]]++ // as history.Append writes its kind
		}
	}
}

func (s *seen) count(found bool) {
	if found {
		s.hits++
	} else {
		s.misses++
	}
}

// expired reports whether the lease of e has ended by the machine's clock. The
// machine's, never the reader's: see law 4 of DESIGN.md.
func (s *state) expired(e *store.Entry) bool {
	return s.tick > e.Tick
}

// asOf returns the tick by which leases are judged at a moment; 0: now.
func (s *state) asOf(moment int64) int64 {
	if moment != 0 {
		return moment
	}
	return s.tick
}

// leastFence bounds the fences that the running entry gives from below.
func (s *state) leastFence() uint64 { return s.index }

// version returns the version of a key as of now, for WATCH.
func (s *state) version(db int, key string) uint64 { return s.keys.Version(s.tick, db, key) }

// notify sends the notifications of an event, if the settings ask for its class. A running script's are taken back with
// its writes.
func (s *state) notify(db int, class emit.Classes, event, key string) {
	if asked := s.settings.Notify; asked&class != 0 {
		s.meter.Spend(emit.NotifyWork(key))
		s.out.Notify(asked, db, event, key)
	}
}

// usedBytes returns the estimate of the memory that data take, in all databases, and what else clients have left here.
func (s *state) usedBytes() int64 {
	return s.library.Bytes() + s.functions.Bytes() + s.waits.Bytes() + s.events.Bytes() + s.keys.Bytes()
}

func (s *state) overMemory() bool {
	limit := s.settings.MaxMemoryBytes
	return limit > 0 && s.usedBytes() > limit
}

// exhausted says why the running request may not run another command, or "".
func (s *state) exhausted(row *resp.Spec) string {
	if why := s.meter.Exhausted(); why != "" || row.Flags&resp.DenyOOM == 0 {
		return why
	}
	return s.meter.Grown(s.usedBytes())
}
