// Package fault is where a test build of lockd breaks itself on purpose. A build
// with the tag faults can be told, through a control port on loopback, to die at
// a named point, to have its disk fail or hang there, to lose what was not synced,
// or to see another wall clock; and it can be started with a bug planted in it, so
// that jepsen-lite can show that it would notice.
//
// In a normal build every function here is constant or empty, and the compiler
// removes it together with what stands behind it.
package fault

// The bugs that can be planted, by LOCKD_PLANTED=name. Each breaks one promise of
// the README; jepsen-lite's README says which run catches it.
const (
	AckBeforeCommit  = "ack-before-commit"  // SET and HSET are answered before they are committed
	UnsyncedLog      = "skip-sync"          // the log is written, never synced
	LeaderLocalRead  = "leader-local-read"  // the leader reads without asking whether it still leads
	FollowerRead     = "follower-read"      // every node reads its own state
	VerifyLeaderRead = "verify-leader-read" // raft's VerifyLeader confirms a read
	LocalExpiry      = "local-expiry"       // a lease ends by the wall clock of each node
	LeaseReset       = "lease-reset"        // an election gives every lease a minute more
	GapCounted       = "gap-counted"        // time without a leader is taken from leases
	ResendUnknown    = "resend-unknown"     // a write with an unknown outcome is sent again
	UnknownAsNil     = "unknown-as-nil"     // an unknown outcome is answered with nil
	FenceForgotten   = "fence-forgotten"    // a snapshot does not keep fences
	PublishOnLeader  = "publish-on-leader"  // followers' subscribers hear nothing
	RandomScript     = "random-script"      // math.random differs from node to node
	MapOrder         = "map-order"          // HKEYS answers in the order of a Go map
	FlippedDigit     = "flipped-digit"      // a node stores another digit now and then
	SlowStart        = "slow-start"         // a new leader waits 8 s before it serves
	Unanswered       = "unanswered"         // one request of 300 is never answered
	LongLease        = "long-lease"         // PEXPIRE gives a thousand times as much
	DroppedMessages  = "dropped-messages"   // no subscriber hears what every third entry tells
)

// UnboundForward is one more: a leader takes requests that are bound to another term.
// Runs of jepsen-lite seldom show it; a test of package cluster does.
const UnboundForward = "unbound-forward"

// Bugs lists all that jepsen-lite plants.
var Bugs = []string{
	AckBeforeCommit, UnsyncedLog, LeaderLocalRead, FollowerRead, VerifyLeaderRead, LocalExpiry, LeaseReset,
	GapCounted, ResendUnknown, UnknownAsNil, FenceForgotten, PublishOnLeader, RandomScript, MapOrder, FlippedDigit, SlowStart, Unanswered, LongLease, DroppedMessages,
}

// The points at which a fault can be armed.
const (
	LogWrite        = "log.write"        // before bytes of the log are written
	LogWritten      = "log.written"      // after that, before they are synced
	LogSync         = "log.sync"         // in the sync, before it is done
	LogSynced       = "log.synced"       // after the sync, before Raft knows
	LogTrim         = "log.trim"         // before the log's head is removed
	LogTrimmed      = "log.trimmed"      // after that
	VoteWrite       = "vote.write"       // before a term or a vote is written
	VoteTorn        = "vote.torn"        // between the two halves of a vote
	VoteWritten     = "vote.written"     // after it is on the disk
	SnapshotWrite   = "snapshot.write"   // before a snapshot's first byte
	SnapshotRename  = "snapshot.rename"  // it is written, not yet under its name
	SnapshotRenamed = "snapshot.renamed" // it is under its name, the log is not yet trimmed
	Install         = "install"          // before a leader's snapshot replaces the state
	Installed       = "installed"        // after that
	Propose         = "propose"          // before an entry is handed to Raft
	Replicated      = "replicated"       // a leader's entries are stored, it is not answered
	Applied         = "applied"          // an entry is applied, its clients are not answered
)

// Points lists all of them.
var Points = []string{
	LogWrite, LogWritten, LogSync, LogSynced, LogTrim, LogTrimmed, VoteWrite, VoteTorn, VoteWritten,
	SnapshotWrite, SnapshotRename, SnapshotRenamed, Install, Installed, Propose, Replicated, Applied,
}
