package model

import (
	"slices"
	"strings"
	"time"
)

// Rule is one sentence by which histories are judged. It is at stake each time a server that breaks it would have shown
// that. A rule that was hardly ever at stake is not judged by a history, whatever the history shows.
type Rule struct {
	ID        string   // a stable name, by which other pages refer to the rule
	Says      string   // the sentence
	Kinds     []string // of the problems that break it
	Late      bool     // it is about how long something takes, and so not judged for safety
	Workloads []string // that put it at stake; none: every one
	Told      bool     // it is judged only where Stakes has it: the recording must have marks, or be of a whole run
	Need      Need
	Counted   bool // faults count how often they put it at stake

	Promises []string // that it judges, by their ids in the pages of docs; none: Why says why
	Why      string
}

// Need is the least number of times that a rule must be at stake.
type Need struct {
	Times int           // so often, at least
	In    time.Duration // in each such time of the clients' work; 0: in all of it
	Once  bool          // in all of it, which must have such a time
	Quiet bool          // of the work, the time without a fault counts
	// Faults are the kinds of faults that put the rule at stake, or kinds with the first words of a variant ("backup any").
	// They are counted instead of the time: Times in each Of of them.
	Faults []string
	Of     int
	Alone  bool // faults do not count that others are near which are not among judgedKinds
}

// anyFault stands for all kinds of faults.
const anyFault = "any"

// of reports whether a workload can put the rule at stake.
func (r *Rule) of(workload string) bool {
	return len(r.Workloads) == 0 || slices.Contains(r.Workloads, workload)
}

// Rules is every rule by which jepsen-lite judges, in the order of their declarations below.
var Rules []*Rule

// rule declares a rule of workloads, with the kinds of its problems, separated by commas.
func rule(id, says, kinds, workloads string, need Need) *Rule {
	r := &Rule{ID: id, Says: says, Workloads: strings.Fields(workloads), Need: need}
	if kinds != "" {
		r.Kinds = strings.Split(kinds, ", ")
	}
	Rules = append(Rules, r)
	return r
}

// lateRule declares a rule about how long something takes.
func lateRule(id, says, kinds, workloads string, need Need) *Rule {
	r := rule(id, says, kinds, workloads, need)
	r.Late = true
	return r
}

// told makes a rule one that is judged only where it was counted.
func (r *Rule) told() *Rule {
	r.Told = true
	return r
}

// judging names the promises that a history which breaks the rule shows as broken, by their ids in the pages of docs.
func (r *Rule) judging(promises string) *Rule {
	r.Promises = strings.Fields(promises)
	return r
}

// judgingNone says why a rule judges no promise of these pages.
func (r *Rule) judgingNone(why string) *Rule {
	r.Why = why
	return r
}

// counted makes a rule one that is at stake as often as the faults count.
func (r *Rule) counted() *Rule {
	r.Counted = true
	return r
}

func times(n int) Need                       { return Need{Times: n} }
func each(n int, in time.Duration) Need      { return Need{Times: n, In: in} }
func once(n int, in time.Duration) Need      { return Need{Times: n, In: in, Once: true} }
func quietly(n int, in time.Duration) Need   { return Need{Times: n, In: in, Quiet: true} }
func faulty(n, of int, kinds ...string) Need { return Need{Times: n, Of: of, Faults: kinds} }
func lonely(n, of int, kinds ...string) Need {
	return Need{Times: n, Of: of, Faults: kinds, Alone: true}
}

// Workloads of several rules.
const (
	everywhere = ""
	lines      = "line shared limit idempotent"
	severals   = "shared limit idempotent"
	locks      = "lock waiters " + lines
	clocked    = "expiry reentrant " + locks
	onces      = "register fresh counter stock list bank append"
)

// Rules of every workload.
var (
	ruleAnswered = rule("answered", "Requests are answered, and none with an error that has no reason.",
		"unexpected error", everywhere, times(10)).
		judging("any-node-will-do answer-means-done unknown-may-be-done")
	ruleEach = rule("each-request", "Every kind of request and of answer that the workload needs was seen.",
		"", everywhere, once(1, 10*time.Second)).
		judgingNone("it is about the run: what a workload never called was not judged")
	ruleSilence = lateRule("no-silence", "A connected majority that is asked for writes does one every three seconds.",
		"silence", everywhere, times(1)).told().
		judging("failover-of-a-process failover-of-silence")
	ruleLongSilence = lateRule("no-long-silence",
		"Disks that are slow, full or hang, and clocks that step, keep a connected majority from writing for less than 15 s.",
		"long silence", everywhere, times(1)).told().
		judgingNone("no page says how long a write takes on such disks; a cluster that has stopped for good must show")
	ruleNodeSilence = lateRule("no-node-silent",
		"A node that reaches a majority, and is asked for writes, does one every four seconds.",
		"node silent", everywhere, times(1)).told().
		judging("any-node-will-do failover-of-a-process")
	ruleUndisturbed = lateRule("answered-in-time",
		"Without a fault for five seconds, every request is done, and answered within 1.5 s.",
		"answered late, refused without a fault, unknown without a fault", everywhere, quietly(10, 5*time.Second)).told().
		judgingNone("no page says how long an answer takes; a server that hangs keeps every promise, and is of no use")

	// RuleProcesses is judged at the nodes, as are the rules below.
	RuleProcesses = rule("processes-live", "No process ends without an order or an expected fault.",
		"a node died, trusts a copy", everywhere, times(1)).told().
		judging("linearizable end-is-in-the-log history-on-every-node fences-rise older-rules-until-then " +
			"faults-end-no-lease")
	// RuleStates is at stake once, after the last fault.
	RuleStates = rule("states-equal", "After the last fault all nodes have one state.",
		"states differ", everywhere, times(1)).told().
		judging("linearizable end-is-in-the-log history-on-every-node fences-rise older-rules-until-then " +
			"unlike-builds-refuse majority-loses-nothing")
	// RuleHealthy is at stake once, after the last fault.
	RuleHealthy = rule("nodes-healthy", "After the last fault every node takes writes again.",
		"not healthy", everywhere, times(1)).told().
		judging("majority-loses-nothing")
	// RuleClaims is at stake with each process that has ended.
	RuleClaims = rule("deaths-are-true", "No node says that a living process has ended.",
		"a living process called dead", everywhere, faulty(1, 3, "kill")).told().counted().
		judging("heard-leader-stays")
	// RuleLevels is at stake with each node, after the last fault.
	RuleLevels = lateRule("levels-back", "An idle node has as many goroutines, and as much heap, as before.",
		"goroutines not back, memory not back", everywhere, times(1)).told().
		judgingNone("no page says what an idle node needs; one that needs more each hour ends some day")
	// RuleState is at stake with each key of --state.
	RuleState = rule("state-kept", "Every key that was loaded before the faults has its value.",
		"state lost", everywhere, times(1)).told().
		judging("on-a-majority-of-disks answer-means-done")
	// RuleRaces is at stake in a run with the race detector.
	RuleRaces = rule("no-data-race", "The race detector reports nothing.",
		"data race", everywhere, times(1)).told().
		judgingNone("it is about the code: a race breaks any promise, some day")
)

// Rules that faults judge while they last: at stake with each of these faults.
var (
	_ = lateRule("served-alone", "A client that is alone is answered within a second.",
		"left alone", everywhere, faulty(1, 1, "quiet")).
		judgingNone("no page says how long an answer takes")
	_ = lateRule("stops-in-time", "A node that is told to end does so within two seconds.",
		"stopped late", everywhere, faulty(1, 1, "restart")).
		judging("failover-in-order")
	_ = rule("builds-apart", "Nodes with different rules refuse each other, and the minority does nothing.",
		"not refused", everywhere, faulty(1, 1, "build")).
		judging("unlike-builds-refuse")
	_ = lateRule("builds-serve", "While nodes change their build, a majority of one build serves.",
		"stuck between builds", everywhere, faulty(1, 1, "build", "upgrade")).
		judging("neighbours-run-together upgrade-is-a-moments-wait")
	_ = rule("level-in-force", "The level rises when no node is of the old release, and not before.",
		"wrong level", everywhere, faulty(1, 1, "upgrade")).
		judging("level-rises-by-itself absent-member-holds-the-level level-never-falls " +
			"next-command-is-refused older-rules-until-then")
	_ = rule("upgrade-serves", "After each step of an upgrade every node serves.",
		"stuck in an upgrade", everywhere, faulty(1, 1, "upgrade")).
		judging("neighbours-run-together upgrade-refuses-nothing upgrade-is-a-moments-wait way-back-until-then")
	_ = rule("memory-bounded", "Hostile clients cost a node no more than 512 MiB.",
		"too much memory", everywhere, faulty(1, 1, "hostile")).
		judgingNone("the pages about limits say it, not those about promises")
)

// Rules of what is done once or never.
var (
	ruleKept = rule("change-kept", "An acknowledged change is never lost.",
		"update lost", onces, each(5, 5*time.Second)).
		judging("on-a-majority-of-disks answer-means-done majority-loses-nothing")
	ruleOnce = rule("change-once", "A change is done once; one that was refused or never sent is not done.",
		"done twice, failed but done, never sent", onces, each(5, 5*time.Second)).
		judging("loading-is-not-done followers-serve")
	ruleUnknown = rule("unknown-once", "A change of unknown outcome is done once or never.",
		"done twice", "register counter stock list bank append", faulty(1, 10, "kill", "pause", "partition")).
		judging("unknown-may-be-done unknown-is-not-resent others-find-the-outcome")
	ruleRegister = rule("register-order", "All answers about a register fit one order of the requests.",
		"not linearizable, stale read, acknowledged write lost", "register", each(10, 5*time.Second)).
		judging("linearizable read-after-unknown any-node-will-do")
	ruleRead = rule("read-fresh", "No read misses a change that was acknowledged before it began, and none goes back.",
		"stale read, went back", "fresh counter stock", each(5, 5*time.Second)).
		judging("linearizable any-node-will-do followers-serve read-after-unknown without-a-majority")
	ruleSums = rule("sums-in-order", "All sums of a counter fit one order of the additions.",
		"order differs, went back", "counter", each(5, 5*time.Second)).
		judging("linearizable")
	ruleMembers = rule("members-kept", "A member of a set that was acknowledged or seen is never lost.",
		"lost", "set", each(5, 5*time.Second)).
		judging("on-a-majority-of-disks answer-means-done majority-loses-nothing without-a-majority")
	ruleMembersOnce = rule("members-once", "A set has no member that was refused or never sent, and none twice.",
		"added twice, listed twice, never added, failed but done", "set", each(5, 5*time.Second)).
		judging("loading-is-not-done")
	ruleList = rule("list-order", "All answers about a short list fit one order of the requests.",
		"not linearizable", "list", each(5, 5*time.Second)).
		judging("linearizable")
	rulePrefix = rule("list-reads-agree", "All reads of a growing list begin alike, in the order of the appends.",
		"order differs, wrong place, went back", "list append", each(1, 5*time.Second)).
		judging("linearizable")
	ruleSum = rule("sum-constant", "Transfers never change the sum of all accounts, and overdraw none.",
		"sum changed, overdrawn", "bank", each(2, 5*time.Second)).
		judging("whole")
	ruleUndone = rule("script-undone", "A script that meets a limit leaves nothing behind.",
		"not undone", "scripts", each(1, 10*time.Second)).
		judging("whole")
	ruleScript = rule("script-kept", "A script that is done leaves its writes, and one that was refused none.",
		"acknowledged write lost, failed but done", "scripts", once(1, 20*time.Second)).
		judging("whole answer-means-done")
)

// Rules of the log clock and of leases.
var (
	ruleForward = rule("log-clock-forward", "The log clock never goes back.",
		"log clock went back", clocked, each(5, 5*time.Second)).
		judging("no-time-without-a-leader faults-end-no-lease")
	ruleFast = rule("log-clock-not-fast", "The log clock runs no longer than there was time with a leader.",
		"log clock fast", clocked, each(5, 5*time.Second)).
		judging("no-time-without-a-leader lease-never-early")
	ruleSlow = rule("log-clock-not-slow", "While one node leads the log clock loses less than a millisecond.",
		"log clock slow", "expiry", each(1, 5*time.Second)).
		judging("no-time-without-a-leader")
	ruleLoses = lateRule("log-clock-keeps-time", "The log clock loses no time in which writes are acknowledged.",
		"log clock lost time", clocked, each(5, 5*time.Second)).
		judging("no-time-without-a-leader")
	ruleLives = rule("key-until-deadline", "By the log clock a key exists, with its value, until its deadline.",
		"ended early, half a key, wrong value", "expiry", each(5, 5*time.Second)).
		judging("lease-never-early")
	ruleEnds = rule("key-not-after", "By the log clock no key exists after its deadline.",
		"ended late", "expiry", each(1, 5*time.Second)).
		judging("lease-counts-from-arrival")
	ruleLeft = rule("remaining-time", "PTTL is the remaining time by the log clock, to the millisecond.",
		"wrong remaining time", "expiry", each(5, 5*time.Second)).
		judging("lease-counts-from-arrival")
	ruleNotGone = rule("key-not-early", "By real time a key exists for its time, and for the time without a leader.",
		"gone early, remaining time too short", "expiry", each(5, 5*time.Second)).
		judging("lease-never-early no-time-without-a-leader px-keeps-its-length")
	ruleGone = lateRule("key-gone-in-time", "By real time a key is gone half a second after its time, while a node leads.",
		"gone late, remaining time too long", "expiry", each(1, 5*time.Second)).
		judging("lease-counts-from-arrival no-time-without-a-leader")
	ruleStaysGone = rule("key-stays-gone", "A key that ended does not come back, and its remaining time does not grow.",
		"came back, remaining time grew", "expiry", each(1, 5*time.Second)).
		judging("end-is-in-the-log no-time-without-a-leader")
	ruleOverFaults = rule("lease-over-faults", "A lease that began before a fault ends neither early nor late after it.",
		"gone early, ended early, ended late", "expiry", faulty(5, 10, anyFault)).
		judging("faults-end-no-lease px-keeps-its-length")
	ruleByClock = rule("lease-by-log-clock", "By the log clock a lock's lease ends at its millisecond.",
		"ended early, ended late, wrong remaining time", "reentrant "+locks, each(2, 5*time.Second)).
		judging("lease-never-early lease-counts-from-arrival lease-begins-with-the-grant")
	ruleLeaseEnds = lateRule("lease-ends", "Half a second after its last lease a lock is free, while a node leads.",
		"lock never ends", "reentrant lock waiters line limit", once(1, 20*time.Second)).
		judging("hidden-token-ends-with-its-lease")
)

// Rules of the time of day.
var (
	ruleTime = rule("time-of-median", "The time that clients are told is never ahead of the median of the clocks.",
		"time ahead", "moments", each(5, 5*time.Second)).
		judging("median-of-clocks wall-clock-slows")
	ruleTimeBehind = lateRule("time-not-behind", "Nor is it half a second behind that median.",
		"time behind", "moments", each(5, 5*time.Second)).
		judging("wall-clock-jumps")
	ruleWrongClock = rule("wrong-clock-outvoted", "A wrong minority of the clocks does not change the time.",
		"time ahead", "moments", faulty(1, 3, "clock")).
		judging("median-of-clocks")
	ruleTimeForward = rule("time-forward", "The time never goes back after a clock was wrong.",
		"time went back", "moments", faulty(1, 3, "clock")).
		judging("wall-clock-never-back")
	ruleMoment = rule("lease-until-moment", "A lock that was taken until a moment is held until then.",
		"gone early, two holders", "moments", each(1, 10*time.Second)).
		judging("never-held-twice median-of-clocks")
	ruleMomentWrong = rule("moment-over-wrong-clocks", "So it is while a minority of the clocks is wrong.",
		"gone early, two holders", "moments", faulty(1, 3, "clock")).
		judging("median-of-clocks")
	ruleMomentEnds = lateRule("moment-ends", "It is not held much longer.", "gone late", "moments", times(0)).
			judging("median-of-clocks")
)

// Rules of locks.
var (
	ruleHolder = rule("one-holder", "No two clients hold a lock at once, beyond what its mode allows.",
		"two holders, too many holders", locks, each(1, 5*time.Second)).
		judging("never-held-twice set-nx-takes-part")
	ruleHeld = rule("lease-kept", "A client that took a lock has it until it releases it or its lease ends.",
		"lock lost early, lock held by the wrong one, holder refused", locks, each(1, 5*time.Second)).
		judging("never-held-twice lease-never-early renew-what-is-held unlock-what-is-held unlock-again a-string-key " +
			"read-after-unknown")
	ruleFree = rule("free-is-granted", "A lock that nobody holds is granted.",
		"refused although free", locks, each(1, 5*time.Second)).
		judging("unknown-may-be-done place-goes-to-the-next")
	ruleLongFree = lateRule("free-in-time", "A lock of a client without an answer is granted when it can hold it no more.",
		"refused although long free", severals, each(1, 10*time.Second)).
		judging("place-goes-to-the-next")
	ruleReentrant = rule("reentrant-order", "All answers about a reentrant lock fit one order: one owner, and its depth.",
		"reentrant lock, lock held by the wrong one", "reentrant", each(5, 5*time.Second)).
		judging("linearizable")
	ruleFence = rule("fences-grow", "A later grant has a greater fence, over all locks.",
		"fence not greater", "lock forensics "+lines, each(1, 5*time.Second)).
		judging("fences-rise fence-of-a-value each-holder-for-itself")
	ruleFenceOver = rule("fences-grow-over-faults", "A grant after a fault has a greater fence than any before it.",
		"fence not greater", "lock "+lines, faulty(2, 8, anyFault)).
		judging("fences-rise")
	ruleSameFence = rule("fence-kept", "A token has one fence while it holds a lock.",
		"fence changed", "lock "+lines, each(1, 10*time.Second)).
		judging("lock-again fence-stays-in-renewals each-holder-for-itself")
	ruleResource = rule("late-holder-refused", "A resource that checks fences refuses late holders, and no one else.",
		"holder fenced off, older fence accepted, refused for nothing", "lock", each(1, 20*time.Second)).
		judging("fences-rise fence-of-a-value")
	ruleToldLease = rule("told-lease", "A client that is refused is told the rest of the owner's lease, not less.",
		"told too short, told nonsense", "waiters", each(1, 5*time.Second)).
		judging("lease-counts-from-arrival")
	ruleToldLong = lateRule("told-lease-not-long", "A client that is refused is told no more than the rest of the lease.",
		"told too long", "waiters", each(1, 5*time.Second)).
		judging("lease-counts-from-arrival")
	ruleSleep = lateRule("sleep-ends", "No waiter sleeps longer than it was told.",
		"overslept", "waiters", each(1, 5*time.Second)).
		judging("missed-messages-disconnect")
)

// Rules of lines.
var (
	ruleTurn = lateRule("in-turn", "While a client certainly waits in line, no later client gets the lock.",
		"overtaken", lines, quietly(1, 10*time.Second)).
		judging("first-come-first-served polls-never-overtake writers-are-not-starved")
	ruleMoves = lateRule("line-moves", "A lock is not free while a client waits for it.",
		"free in spite of a line", lines, quietly(1, 10*time.Second)).
		judging("whatever-frees-a-lock place-goes-to-the-next set-nx-takes-part")
	ruleDisplaced = rule("displaced-by-own-token", "A waiter is displaced by its own token's next request alone.",
		"displaced by nobody", "idempotent", each(1, 10*time.Second)).
		judging("place-is-taken-over")
	ruleDead = lateRule("dead-hold-nothing", "A client that disconnected before its answer does not hold the lock.",
		"held by the dead", "line", quietly(1, 10*time.Second)).
		judging("hanging-up-leaves-the-line grant-to-the-gone-is-released")
	rulePlaceOver = lateRule("place-over-faults", "A waiter keeps its place while the leader changes.",
		"place lost", lines, lonely(1, 20, judgedKinds...)).
		judging("failover-keeps-the-line")
	rulePlace = lateRule("place-kept", "A waiter keeps its place if its node is silent for less than four seconds.",
		"place lost", "queue "+lines, lonely(1, 20, absentKind)).
		judging("places-are-kept")
	ruleGhost = lateRule("ghost-passed-over", "A waiter at a dead or silent node is passed over.",
		"left to a ghost", "queue "+lines, lonely(1, 3, absentKilled)).
		judging("silent-nodes-are-passed-over grant-to-a-dead-node")
	ruleHungUp = lateRule("hang-up-passed-over", "A waiter that hung up gets nothing, and the next one gets it in time.",
		"left to one who hung up", "queue "+lines, quietly(1, 10*time.Second)).
		judging("hanging-up-leaves-the-line half-close-is-hanging-up grant-to-the-gone-is-released")
	ruleStale = lateRule("answer-not-stale", "No waiter is told of a grant that is older than 1.5 s.",
		"granted too late", lines, lonely(1, 20, absentKind)).
		judging("answer-is-true")
	ruleLimit = rule("limit-told", "A client that asks with another number of permits is told the number in force.",
		"refused although free", "limit", each(1, 10*time.Second)).
		judging("asked-for-in-another-way")
)

// Rules of queues.
var (
	ruleGiven = rule("element-once", "An element is given out once, and only if it was pushed.",
		"given out twice, never pushed, failed but done", "queue", each(5, 5*time.Second)).
		judging("linearizable")
	ruleElement = rule("element-kept", "A pushed element is given out, is left, or went to a client that has no answer.",
		"lost", "queue", each(5, 5*time.Second)).
		judging("on-a-majority-of-disks answer-means-done")
	ruleFifo = rule("elements-in-order", "Elements come in the order of their pushes.",
		"order differs", "queue", once(5, 10*time.Second)).
		judging("linearizable")
	ruleVain = rule("no-wait-in-vain", "No client is told that there is nothing while an element is there.",
		"in vain", "queue", each(1, 5*time.Second)).
		judging("linearizable")
	ruleBack = rule("element-back-in-place", "An element for a disconnected client is back at its place.",
		"moved for nobody, put back elsewhere, lost", "queue", quietly(1, 10*time.Second)).
		judgingNone("BLPOP is promised as Redis has it, where a disconnected client has lost its element")
	ruleBackSoon = lateRule("element-back-in-time", "An element for a disconnected client is back in time.",
		"put back late", "queue", quietly(1, 10*time.Second)).
		judgingNone("BLPOP is promised as Redis has it, where a disconnected client has lost its element")
)

// Rules of messages.
var (
	ruleWoken = lateRule("message-in-time", "A subscriber gets every acknowledged message within two seconds.",
		"not woken, woken late", "wakeup waiters", each(1, 5*time.Second)).
		judging("missed-messages-disconnect")
	ruleMissed = rule("no-message-missed", "A subscriber that gets a message has got all messages before it.",
		"missed, wrong number", "wakeup", each(5, 5*time.Second)).
		judging("missed-messages-disconnect")
	ruleHeardOnce = rule("message-once", "A subscriber gets a message once, and only if it was sent.",
		"heard twice, never published", "wakeup", each(5, 5*time.Second)).
		judging("messages-in-log-order")
	ruleMessages = rule("messages-in-order", "All subscribers get their messages in one order.",
		"order differs", "wakeup events", each(1, 5*time.Second)).
		judging("messages-in-log-order")
	ruleEndTold = lateRule("end-told", "A subscriber is told of every lease that ends, in time.",
		"not told, told late", "events", each(1, 10*time.Second)).
		judging("end-is-in-the-log")
	ruleEndEarly = rule("end-not-told-early", "No subscriber is told of an end before its time, nor twice.",
		"told early, heard twice", "events", each(5, 5*time.Second)).
		judging("end-is-in-the-log")
	ruleNoEnd = rule("deleted-not-told", "The end of a key that was deleted or never set is not told.",
		"told of no end, never set", "events", each(1, 10*time.Second)).
		judging("end-is-in-the-log")
	ruleNoEndMissed = rule("no-end-missed", "A subscriber that is told of an end was told of all ends before it.",
		"missed", "events", each(1, 5*time.Second)).
		judging("end-is-in-the-log missed-messages-disconnect")
)

// Rules of what lockd tells about the past of locks.
var (
	ruleAgrees = rule("history-agrees", "All nodes tell one history of a lock.",
		toldApart, "forensics", each(1, 5*time.Second)).
		judging("history-on-every-node")
	ruleRemembers = rule("history-remembers", "An answer tells all that was acknowledged or told before the question.",
		toldNoMore, "forensics", each(5, 5*time.Second)).
		judging("history-on-every-node what-a-lock-is")
	ruleCaused = rule("history-caused", "Every event has a request that can have caused it.",
		toldOfNobody, "forensics", each(5, 5*time.Second)).
		judging("events-of-a-lock who-it-was del-by-the-holder overwritten-is-data what-a-lock-is")
	ruleExact = rule("history-exact", "An event has the token, fence, lease, renewals and reason of its request.",
		toldOtherwise, "forensics", each(5, 5*time.Second)).
		judging("events-of-a-lock del-by-the-holder overwritten-is-data durations-stand-still set-nx-takes-part " +
			"a-string-key")
	ruleOrdered = rule("history-in-order", "The order of the events does not contradict real time.",
		toldMisplaced, "forensics", each(5, 5*time.Second)).
		judging("history-on-every-node")
	ruleWhole = rule("history-whole", "Each grant has an end before the next grant.",
		toldInPart, "forensics", each(5, 5*time.Second)).
		judging("events-of-a-lock what-a-lock-is")
	ruleWhy = rule("why-agrees", "LOCKS WHY agrees with the history at a moment during its request.",
		toldWrongWhy, "forensics", each(1, 10*time.Second)).
		judging("history-on-every-node")
)
