package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/report"
)

// plantedRun is a run that catches a bug planted in the server.
type plantedRun struct {
	bug, breaks string
	flags       string
	as          []string // problems, one of which must be found
}

// plantedRuns has a run for every file of planted/ that is a bug. The README's table is the same.
var plantedRuns = []plantedRun{
	{"ack-before-commit", "SET and HSET are answered before they are committed",
		"--workload set --nemesis kill --time 20s --seed 1", []string{"lost"}},
	{"skip-sync", "the log is written, never synced",
		"--workload set --nemesis unsynced --time 60s --seed 1", []string{"lost", "a node died", "states differ"}},
	{"vote-unsynced", "votes are written, never synced",
		"--workload register --nemesis unsynced:drop-voters --time 60s --seed 1",
		[]string{"a node died", "states differ", "lost", "stale read"}},
	{"snapshot-unsynced", "snapshots are written, never synced",
		"--workload set --nemesis unsynced:drop-installed --time 60s --seed 1",
		[]string{"a node died", "states differ", "lost"}},
	{"leader-local-read", "the leader reads without checking whether it still leads",
		"--workload fresh --nemesis late --time 20s --seed 1", []string{"stale read", "went back"}},
	{"follower-read", "every node reads its own state",
		"--workload fresh --nemesis none --time 5s --seed 1", []string{"stale read", "went back"}},
	{"verify-leader-read", "raft's VerifyLeader confirms a read",
		"--workload fresh --nemesis late:hand-over --time 30s --seed 1", []string{"stale read", "went back"}},
	{"local-expiry", "a lease ends by the wall clock of each node",
		"--workload expiry --nemesis clock --time 20s --seed 1",
		[]string{"gone early", "gone late", "came back", "a node died"}},
	{"lease-reset", "an election gives every lease a minute more",
		"--workload expiry --nemesis kill --time 15s --seed 1",
		[]string{"remaining time grew", "remaining time too long", "gone late"}},
	{"prefix-compare", "IFEQ and DELIFEQ are content with a value that begins like their operand",
		"--workload lock --nemesis none --time 15s --seed 1", []string{"wrong comparison", "lock held by the wrong one"}},
	{"wait-capped", "a client waits in line for two seconds at most",
		"--workload line --nemesis none --time 30s --seed 1", []string{"waited too short"}},
	{"place-lost-again", "a token that asks again while it waits goes to the end of the line",
		"--workload line --nemesis none --time 40s --seed 1", []string{"place lost by asking again"}},
	{"unlock-waits-on", "UNLOCK by a token that only waits does nothing",
		"--workload line --nemesis none --time 30s --seed 1", []string{"wait not ended"}},
	{"waits-in-multi", "a transaction whose LOCK finds the lock taken waits for it",
		"--workload line --nemesis none --time 30s --seed 1", []string{"waited in a whole"}},
	{"again-not-anew", "LOCK by the token that holds the lock does not begin its lease anew",
		"--workload line --nemesis none --time 30s --seed 1", []string{"lock lost early", "two holders", "wrong remaining time"}},
	{"force-any-fence", "LOCKS FORCE with FENCE ends the lock whoever has it by now",
		"--workload forensics --nemesis none --time 20s --seed 1", []string{"another one forced"}},
	{"force-any-token", "LOCKS FORCE takes a token for all that begin like it",
		"--workload forensics --nemesis none --time 30s --seed 1", []string{"another one forced"}},
	{"lost-untold", "a client is not told that LOCKS FORCE has ended its lock",
		"--workload told --nemesis none --time 30s --seed 1", []string{"loss not told"}},
	{"lost-twice", "a client is told twice that its lock was deleted",
		"--workload told --nemesis none --time 30s --seed 1", []string{"loss told twice"}},
	{"expired-untold", "the end of a lease is not told to subscribers",
		"--workload told --nemesis none --time 30s --seed 1", []string{"missed", "not told"}},
	{"swap-untold", "SWAPDB tells nobody that locks have ended",
		"--workload told --nemesis none --time 30s --seed 1", []string{"missed", "not told"}},
	{"unlock-as-loss", "a client is told of a loss when its token has released the lock by another connection",
		"--workload told --nemesis none --time 30s --seed 1", []string{"told of no loss"}},
	{"loss-told-to-one", "only one of the connections that have taken a lock is told of its loss",
		"--workload told --nemesis none --time 40s --seed 1", []string{"loss not told to each"}},
	{"hello-forgets-nothing", "a connection that changes to RESP2 and back is still told of its locks",
		"--workload told --nemesis none --time 40s --seed 1", []string{"forgotten lock told"}},
	{"expiring-untold", "a client is told that its lease is about to end when it has ended",
		"--workload told --nemesis none --time 30s --seed 1", []string{"end not announced"}},
	{"deadlock-missed", "no circle of owners is looked for when a client begins to wait",
		"--workload owners --nemesis none --time 30s --seed 1", []string{"deadlock missed"}},
	{"self-unseen", "an owner that asks by another token for what it holds waits",
		"--workload owners --nemesis none --time 30s --seed 1", []string{"waits for itself"}},
	{"circle-of-any", "a lock of several holders closes a circle if any of them waits in it",
		"--workload owners --nemesis none --time 40s --seed 1", []string{"deadlock of some holders"}},
	{"newest-first", "LOCKS LIST has the locks that were got last first",
		"--workload owners --nemesis none --time 20s --seed 1", []string{"list out of order"}},
	{"owner-late", "a lock that was waited for has no OWNER until its holder asks again",
		"--workload owners --nemesis none --time 20s --seed 1", []string{"wrong info", "wrong list", "wrong graph"}},
	{"gap-counted", "time without a leader is taken from leases",
		"--workload expiry --nemesis kill --time 40s --seed 1", []string{"gone early", "remaining time too short"}},
	{"resend-unknown", "a write with an unknown outcome is sent again",
		"--workload counter --nemesis kill,slow,partition --mixed --time 20s --seed 1", []string{"done twice"}},
	{"unknown-as-nil", "an unknown outcome is answered with nil",
		"--workload lock --nemesis kill,slow,partition --mixed --time 30s --seed 1",
		[]string{"refused although free", "unexpected error"}},
	{"fence-forgotten", "a snapshot does not keep fences",
		"--workload lock --nemesis snapshot,kill --mixed --time 20s --seed 1",
		[]string{"fence not greater", "fence changed", "states differ", "a node died"}},
	{"multi-not-atomic", "EXEC runs its commands one after the other",
		"--workload append --nemesis none --time 10s --seed 1",
		[]string{"write cycle (G0)", "circular reads (G1c)", "read skew (G-single)", "write skew (G2)"}},
	{"pipeline-in-pieces", "a plain pipeline runs its commands one after the other",
		"--workload append --nemesis none --time 10s --seed 1",
		[]string{"write cycle (G0)", "circular reads (G1c)", "read skew (G-single)", "write skew (G2)"}},
	{"persist-ignored-on-shared", "PERSIST leaves the leases of a lock that several may hold",
		"--workload keys --nemesis none --time 30s --seed 1", []string{"wrong lease"}},
	{"rename-keeps-line", "a lock that is renamed or moved away goes to nobody in line",
		"--workload keys --nemesis none --time 30s --seed 1", []string{"left in line", "refused although free"}},
	{"swapdb-forgets-line", "SWAPDB asks nobody in line",
		"--workload keys --nemesis none --time 30s --seed 1", []string{"left in line", "refused although free"}},
	{"flush-forgets-waiters", "FLUSHDB and FLUSHALL ask nobody in line",
		"--workload keys --nemesis none --time 30s --seed 1", []string{"left in line", "refused although free"}},
	{"db-mixed", "FLUSHDB empties the next database, too",
		"--workload keys --nemesis none --time 30s --seed 1", []string{"no order of keys", "lock lost early"}},
	{"wrongtype-hangs", "those in line for a key that becomes a list are not told",
		"--workload keys --nemesis none --time 30s --seed 1", []string{"left in line"}},
	{"served-in-between", "those in line are served between the commands of a transaction",
		"--workload keys --nemesis none --time 30s --seed 1", []string{"no order of keys", "two holders"}},
	{"signal-lost", "a lock of python-redis-lock that is deleted or expires wakes nobody",
		"--workload waiters --nemesis none --time 30s --seed 1", []string{"left asleep"}},
	{"release-unheard", "a lock of Redisson that is deleted or expires is not told to its waiters",
		"--workload waiters --nemesis none --time 30s --seed 1", []string{"left asleep"}},
	{"publish-on-leader", "followers' subscribers hear nothing",
		"--workload wakeup --nemesis none --time 6s --seed 1", []string{"not woken", "missed"}},
	{"random-script", "math.random differs from node to node",
		"--workload scripts --nemesis none --time 20s --seed 1", []string{"states differ", "a node died"}},
	{"map-order", "HKEYS answers in the order of a Go map",
		"--workload scripts --nemesis none --time 20s --seed 1", []string{"states differ", "a node died"}},
	{"multi-in-pieces", "others' commands come between those of a MULTI",
		"--workload bank --nemesis none --time 20s --seed 1", []string{"sum changed", "overdrawn"}},
	{"unknown-as-loading", "an unknown outcome is answered as certainly not done",
		"--workload counter --nemesis kill,slow,partition --mixed --time 30s --seed 1", []string{"failed but done"}},
	{"renew-anyone", "RENEW renews the lock of whoever holds it",
		"--workload idempotent --nemesis none --time 20s --seed 1",
		[]string{"lock held by the wrong one", "two holders"}},
	{"unlock-anyone", "UNLOCK ends the lock of whoever holds it",
		"--workload idempotent --nemesis none --time 20s --seed 1", []string{"lock lost early", "two holders"}},
	{"set-nx-apart", "LOCK takes a lock that SET NX has taken",
		"--workload forensics --nemesis none --time 30s --seed 1", []string{"told as something else"}},
	{"lease-from-asking", "the lease of a client that has waited counts from when it began to wait",
		"--workload line --nemesis none --time 20s --seed 1",
		[]string{"ended early", "wrong remaining time", "lock lost early"}},
	{"limit-unsaid", "a client that asks with another number of permits is told its own number",
		"--workload limit --nemesis none --time 20s --seed 1", []string{"refused although free"}},
	{"swapped-messages", "subscribers of one node get messages in another order",
		"--workload wakeup --nemesis none --time 20s --seed 1", []string{"order differs", "wrong number"}},
	{"time-creeps", "the time of the cluster does not jump forward with the median of the clocks",
		"--workload moments --nemesis clock:step-all --time 40s --seed 1", []string{"time behind"}},
	{"hasty-slew", "the time of the cluster goes at its full rate while it is ahead",
		"--workload moments --nemesis clock --time 40s --seed 1", []string{"time ahead"}},
	{"scripts-unseen", "a string that a script has made counts as no lock",
		"--workload forensics --nemesis none --time 20s --seed 1",
		[]string{"history forgot", "hole in the history"}},
	{"deleted-as-released", "a lock that another client deletes is told of as released",
		"--workload forensics --nemesis none --time 20s --seed 1", []string{"told as something else"}},
	{"overwritten-as-deleted", "a lock over which data is written is told of as deleted",
		"--workload forensics --nemesis none --time 20s --seed 1", []string{"told as something else"}},
	{"hand-keeps-fence", "a lock that is handed to another token keeps its fence",
		"--workload forensics --nemesis none --time 20s --seed 1", []string{"fence not greater"}},
	{"hand-is-data", "a token that a lock is handed to counts as data",
		"--workload forensics --nemesis none --time 20s --seed 1", []string{"handed to nobody"}},
	{"nameless-grant", "a grant to a client that has waited does not say who that was",
		"--workload forensics --nemesis none --time 20s --seed 1", []string{"nobody did that"}},
	{"held-by-the-wall", "for how long a lock was held is told by the wall clock",
		"--workload forensics --nemesis none --time 20s --seed 1", []string{"told as something else"}},
	{"level-stuck", "the level does not rise by itself",
		"--workload counter --nemesis upgrade:up --time 60s --seed 1", []string{"wrong level"}},
	{"neighbours-refused", "nodes with rules of different levels refuse each other",
		"--workload counter --nemesis upgrade:back --time 40s --seed 1", []string{"stuck in an upgrade"}},
	{"level-unasked", "LOCKD LEVEL has a level in force without asking who can do it",
		"--workload counter --nemesis upgrade:up --time 60s --seed 1", []string{"level not as asked for"}},
	{"level-falls", "LOCKD LEVEL has a lower level in force than before",
		"--workload counter --nemesis upgrade:up --time 60s --seed 1", []string{"wrong level"}},
	{"older-goes-on", "a node of a release that cannot do the level in force goes on",
		"--workload counter --nemesis upgrade:up --time 60s --seed 1", []string{"older release goes on", "older release says nothing"}},
	{"flipped-digit", "a node stores another digit now and then",
		"--workload register --nemesis none --time 4s --seed 1", []string{"a node died"}},
	{"hasty-loading", "a node that knows no leader answers -LOADING at once",
		"--workload register --nemesis kill:leader --time 60s --seed 1", []string{"failover noticed"}},
	{"deposed-hangs-up", "a node that has lost leadership closes its clients' connections",
		"--workload register --nemesis transfer --time 30s --seed 1", []string{"connection closed"}},
	{"slow-start", "a new leader waits 8 s before it serves",
		"--workload register --nemesis kill --time 30s --seed 1", []string{"silence"}},
	{"unanswered", "one request of 300 is never answered",
		"--workload register --nemesis none --time 10s --seed 1", []string{"unknown without a fault"}},
	{"hash-fence-stays", "the fence of a lock of Redisson's stays, whoever joins",
		"--workload reentrant --nemesis none --time 20s --seed 1", []string{"wrong fence of a hash"}},
	{"long-lease", "PEXPIRE gives a thousand times as much",
		"--workload reentrant --nemesis none --time 20s --seed 1",
		[]string{"wrong remaining time", "lock never ends"}},
	{"dropped-messages", "no subscriber gets the messages of every third entry",
		"--workload wakeup --nemesis kill,pause,partition --time 30s --seed 1", []string{"missed"}},
	{"late-lease", "a lease ends late, by a hundredth of its time",
		"--workload expiry --nemesis none --time 10s --seed 1", []string{"ended late", "wrong remaining time"}},
	{"unbound-forward", "a leader takes requests that are bound to another term",
		"--workload counter --nemesis scenario:stale --time 40s --seed 45", []string{"done twice"}},
	{"resent-snapshot", "a member installs any snapshot that it gets, also an older one than its own state",
		"--workload set --nemesis scenario:save-twice --time 20s --seed 11",
		[]string{"a node died", "states differ", "lost", "silence"}},
	{"bye-after-ping", "accepted calls count as not done, and are sent again",
		"--workload counter --nemesis scenario:mute --time 25s --seed 131", []string{"done twice"}},
	{"hung-transfer", "leadership is handed to a member that does not have the whole log",
		"--workload register --nemesis scenario:hand-over --time 12s --seed 52", []string{"left alone"}},
	{"sleeping-proposer", "the proposer looks at the clock twice, and sleeps while a client waits",
		"--workload register --nemesis quiet:straggler --time 30s --seed 111", []string{"left alone"}},
	{"slow-stop", "a node that stops closes the peers' connections last",
		"--workload register --nemesis scenario:stop-leader --time 60s --seed 57", []string{"stopped late"}},
	{"mixed-rules", "nodes with different rules connect, and no node compares digests",
		"--workload counter --nemesis none --time 5s --seed 92",
		[]string{"states differ", "unexpected error", "update lost", "stale read"}},
	{"forgotten-recall", "a leader accepts requests that were recalled",
		"--workload counter --nemesis scenario:stale --time 20s --seed 42", []string{"done twice"}},
	{"line-last", "a free lock goes to the last in line",
		"--workload line --nemesis none --time 30s --seed 1", []string{"overtaken"}},
	{"line-lost", "waiters are not told when a lease ends",
		"--workload line --nemesis none --time 40s --seed 1", []string{"free in spite of a line", "overtaken"}},
	{"line-dead", "a lock that was granted to a disconnected client ends by its lease",
		"--workload line --nemesis none --time 40s --seed 1", []string{"held by the dead", "left to one who hung up"}},
	{"shared-writer", "a writer is given a lock that readers hold",
		"--workload shared --nemesis none --time 20s --seed 1", []string{"two holders", "lock lost early"}},
	{"shared-overtakes", "a reader joins other readers although a writer waits",
		"--workload shared --nemesis none --time 40s --seed 1", []string{"overtaken"}},
	{"newest-fence", "FENCE of a lock of several is that of the last holder",
		"--workload shared --nemesis none --time 40s --seed 1", []string{"wrong key"}},
	{"limit-one-more", "a semaphore is granted once more than it has permits",
		"--workload limit --nemesis none --time 20s --seed 1", []string{"too many holders"}},
	{"limit-lost", "a permit is lost when the lease of one holder ends",
		"--workload limit --nemesis none --time 30s --seed 1",
		[]string{"refused although free", "free in spite of a line"}},
	{"token-twice", "LOCK by one of the holders gets another fence",
		"--workload idempotent --nemesis none --time 20s --seed 1", []string{"fence changed"}},
	{"event-lost", "a snapshot lacks the last event of a lock",
		"--workload forensics --nemesis snapshot,kill --mixed --time 40s --seed 1",
		[]string{"history forgot", "history differs", "hole in the history", "wrong why"}},
	{"expired-as-released", "the end of a renewed lease is recorded as a release",
		"--workload forensics --nemesis none --time 20s --seed 1", []string{"nobody did that"}},
	{"level-early", "the level rises as soon as the leader supports the next one",
		"--workload counter --nemesis upgrade:back --time 60s --seed 1", []string{"a node died", "wrong level"}},
	{"own-level", "a node applies entries by its own highest level, not by the level in force",
		"--workload lock --nemesis upgrade:back --time 60s --seed 1", []string{"a node died", "states differ"}},
	{"early-not-done", "a request counts as not done before the log shows it",
		"--workload counter --nemesis scenario:mute --time 20s --seed 121", []string{"done twice"}},
	{"stubborn-leader", "a leader whose heartbeats arrive leads on although its entries do not",
		"--workload register --nemesis slow:clogged --time 30s --seed 1", []string{"silence"}},
	{"gone-popped", "an element that its client was not told of is lost; locks are not",
		"--workload queue --nemesis none --time 20s --seed 1", []string{"lost"}},
	{"back-at-the-end", "an element that its client was not told of goes back to the other end of its list",
		"--workload queue --nemesis none --time 30s --seed 1", []string{"put back elsewhere"}},
	{"moved-for-good", "what was moved for a client that was not told of it stays where it was moved to",
		"--workload queue --nemesis none --time 30s --seed 1", []string{"moved for nobody"}},
	{"ghost-served", "clients of a silent node are served as if it were there",
		"--workload limit --nemesis absent:kill-follower --time 60s --seed 1", []string{"left to a ghost"}},
	{"former-served", "clients of the node that led before are served as if it were there",
		"--workload limit --nemesis absent:kill-leader --time 60s --seed 1", []string{"left to a ghost"}},
	{"gifts-of-the-dead", "what clients of a silent node were given and never told of stays with them",
		"--workload limit --nemesis absent:kill-follower --time 60s --seed 1", []string{"left to a ghost"}},
	{"told-unasked", "a client is told of an element without the leader's word, who may have taken it back",
		"--workload queue --nemesis absent:pause-follower --time 60s --seed 1", []string{"given out twice"}},
	{"place-forgotten", "a client whose node was silent for a while waits behind those that came meanwhile",
		"--workload line --nemesis absent:pause-follower --time 60s --seed 1", []string{"place lost"}},
	{"late-grant", "a client is told of a grant however old it is",
		"--workload shared --nemesis absent:pause-follower --time 60s --seed 1", []string{"granted too late"}},
	{"cries-wolf", "a node claims that a process has ended without trying its port",
		"--workload register --nemesis port:cut-leader --time 20s --seed 1", []string{"a living process called dead"}},
	{"drain-wolf", "a node claims that a process has ended which was told to end and still answers",
		"--workload line --nemesis restart:leader --time 30s --seed 1", []string{"a living process called dead"}},
	{"minority-suffices", "the claim of one node that a process has ended is believed",
		"--workload register --nemesis port:apart --time 20s --seed 1", []string{"a living process called dead"}},
	{"own-clock", "the leader's own clock is the time of the cluster",
		"--workload moments --nemesis clock:step-leader --time 20s --seed 1",
		[]string{"time ahead", "gone early", "two holders"}},
	{"time-back", "the time of the cluster follows the median of the clocks back",
		"--workload moments --nemesis clock:strobe-all --time 20s --seed 1", []string{"time went back"}},
	{"any-term", "a leader takes the answers of nodes in a later term for those of its own",
		"--workload fresh --nemesis late:overtaken-hand-over --time 30s --seed 1", []string{"stale read", "went back"}},
	{"late-moment", "a lease until a moment ends two seconds after it",
		"--workload moments --nemesis none --time 10s --seed 1", []string{"gone late"}},
	{"unread-replies", "replies to a client that does not read are kept without a limit",
		"--workload register --nemesis hostile:deaf --time 60s --seed 1", []string{"too much memory"}},
	{"backup-misses-last", "a backup has what its node has applied, which may lack what was acknowledged",
		"--workload set --nemesis backup:behind --time 40s --seed 1", []string{"backup lacks"}},
	{"restore-keeps-fences", "a new cluster goes on with the fences of the data that it is made of",
		"--workload set --nemesis backup:any --time 30s --seed 1", []string{"fence of before"}},
	{"restore-without-hold", "a new cluster grants locks at once, whatever --hold says",
		"--workload set --nemesis backup:any --time 30s --seed 1", []string{"granted in the hold"}},
	{"backup-of-a-minority", "a node that cannot ask the others makes its backup of what it has",
		"--workload set --nemesis backup:apart --time 40s --seed 1", []string{"backup of a minority"}},
	{"backup-cut-short", "a backup whose connection breaks is content with what has come",
		"--workload set --nemesis backup:broken --time 40s --seed 1", []string{"backup in pieces"}},
	{"backup-holds-writers", "nothing is applied while a backup waits for its reader",
		"--workload set --nemesis unread --time 30s --seed 1", []string{"waited for a backup"}},
	{"restore-under-old-name", "a new cluster has the id of the old one",
		"--workload set --nemesis backup:any --time 30s --seed 1", []string{"old cluster goes on"}},
	{"restore-raises-fences", "a new cluster raises the fences of locks that are held",
		"--workload set --nemesis backup:any --time 30s --seed 1", []string{"held lock lost"}},
	{"hold-by-the-wall", "a hold is counted by the wall clock, also while its cluster does not run",
		"--workload set --nemesis backup:any --time 40s --seed 1", []string{"granted in the hold"}},
	{"hold-stops-holders", "no lock is renewed in the hold of a new cluster",
		"--workload set --nemesis backup:any --time 30s --seed 1", []string{"held lock lost"}},
	{"hold-for-good", "CONFIG SET lock-hold-until -1 does not end a hold",
		"--workload set --nemesis backup:any --time 40s --seed 1", []string{"hold not ended"}},
	{"recover-from-snapshot", "a folder is recovered without the log behind its newest snapshot",
		"--workload set --nemesis recover --time 40s --seed 1", []string{"recovery lacks", "no new cluster", "new cluster silent", "held lock lost"}},
	{"drain-forgets-waiters", "a new leader passes over clients that wait at the node which led before",
		"--workload set --nemesis drain:leader --time 40s --seed 1", []string{"waiter forgotten"}},
	{"drain-stands-still", "a leader that hands over takes no writes for two seconds before it does",
		"--workload set --nemesis drain:leader --time 40s --seed 1", []string{"noticed a drain"}},
	{"drain-lets-go", "lockd drain lets a node go without which there is no majority",
		"--workload set --nemesis drain:needed --time 40s --seed 1", []string{"needed node let go"}},
	{"taken-cut-off", "a node that is told to end closes its connections at once",
		"--workload set --nemesis drain:follower --time 40s --seed 1", []string{"taken and not answered"}},
	{"run-outlives-lock", "a program under a lock that is lost may take as long as it likes to end",
		"--workload set --nemesis run --time 60s --seed 1", []string{"runs without its lock"}},
	{"run-never-renews", "a program under a lock runs on when its lease ends, which nobody renews",
		"--workload set --nemesis run:orphan,run:node-killed,run:taken --time 40s --seed 1", []string{"runs without its lock"}},
	{"run-asks-one-node", "lockd run asks the node that has answered first for ever",
		"--workload set --nemesis run:one-killed --time 40s --seed 1", []string{"ended with a node"}},
	{"restart-lags", "the log clock lags a minute behind while nothing is written",
		"--workload set --nemesis together --time 60s --seed 1", []string{"lease too long"}},
	{"dead-stay-in-line", "clients of a dead node stay in line for ten minutes",
		"--workload set --nemesis gone --time 60s --seed 1", []string{"waiter of the dead"}},
	{"refuses-after-election", "a node that hears of another leader takes no requests for six seconds",
		"--workload register --nemesis kill:leader --time 40s --seed 1", []string{"node silent"}},
	{"deposed-counts", "a member takes entries of a leader of an earlier term for those that it has",
		"--workload set --nemesis deposed --time 60s --seed 1", []string{"acknowledged when deposed", "a node died", "states differ"}},
	{"any-token-displaces", "a LOCK takes the place of the first in line, whatever its token",
		"--workload idempotent --nemesis none --time 30s --seed 1", []string{"displaced by nobody"}},
}

// bugs returns the names of the bugs that can be planted.
func bugs() []string { return bugsOf(plantedRuns) }

func bugsOf(runs []plantedRun) (names []string) {
	for _, p := range runs {
		names = append(names, p.bug)
	}
	return names
}

// grounded says of bugs why they cannot be simulated. It need not name those whose faults cannot.
var grounded = map[string]string{
	"skip-sync":         "is in the disk of a test build, and simulated disks are others",
	"snapshot-unsynced": "is in the disk of a test build, and simulated disks are others",
	"vote-unsynced":     "is in the options of bbolt, and simulated disks are others",
}

// aimed has the flags by which a bug is caught on simulated nodes, if they are others than those for processes.
var aimed = map[string]string{}

// parse makes a run of the flags.
func (p plantedRun) parse(simulated bool) (*runCmd, error) {
	flags := p.flags
	if simulated {
		flags = cmp.Or(aimed[p.bug], flags)
	}
	var c cli
	parser, err := kong.New(&c)
	if err == nil {
		_, err = parser.Parse(strings.Fields(flags))
	}
	return &c.Run, err
}

// judge returns how the bug was caught, with the time of the run at which the first answer showed it, if an answer
// did.
func (p plantedRun) judge(results []report.Result) (word string, caught bool) {
	var kinds []string
	first := history.Forever
	for _, r := range results {
		for _, problem := range r.Verdict.Problems {
			if !slices.Contains(p.as, problem.Kind) {
				continue
			}
			if !slices.Contains(kinds, problem.Kind) {
				kinds = append(kinds, problem.Kind)
			}
			if problem.Line > 0 {
				first = min(first, r.History.At(problem.Line).Told)
			}
		}
	}
	if len(kinds) == 0 {
		return "NOT CAUGHT", false
	}
	word = "caught: " + strings.Join(kinds, ", ")
	if first < history.Forever {
		word += fmt.Sprintf(" after %.1f s", time.Duration(first).Seconds())
	}
	return word, true
}
