// Package fault injects faults into a test build of lockd. A build with the tag faults takes commands on a control
// port on loopback: to die at a named point, to have its disk fail or hang there, to lose what was not synced, or to
// see another wall clock. Its environment may redirect the addresses at which it dials its peers.
//
// In a normal build every function here is constant or empty, and the compiler removes it together with the code that
// depends on it. Only a simulated node has faults there: those of a Set of its own, which other nodes of the process do
// not share. A node without a Set pays for a comparison with nil at each point.
package fault

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
	SnapshotRename  = "snapshot.rename"  // it is written, not yet renamed
	SnapshotRenamed = "snapshot.renamed" // it is renamed, the log is not yet trimmed
	Install         = "install"          // before a leader's snapshot replaces the state
	Installed       = "installed"        // after that
	Gather          = "gather"           // the batching timer decides that the next entry waits for more requests
	Propose         = "propose"          // before an entry is handed to Raft
	Replicated      = "replicated"       // a follower has stored a leader's entries and not answered yet
	Applied         = "applied"          // an entry is applied, its clients are not answered
)

// Points lists all points.
var Points = []string{
	LogWrite, LogWritten, LogSync, LogSynced, LogTrim, LogTrimmed, VoteWrite, VoteTorn, VoteWritten,
	SnapshotWrite, SnapshotRename, SnapshotRenamed, Install, Installed, Gather, Propose, Replicated, Applied,
}
