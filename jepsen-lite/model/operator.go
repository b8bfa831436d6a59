package model

// Variants of faults that put rules at stake.
var (
	anyBackup = []string{"backup any", "backup behind"}
	copies    = append([]string{"recover"}, anyBackup...)
	drains    = []string{"drain leader", "drain follower"}
)

// Rules of what operators do while clients work. The faults that do it judge them, and count how often they were at
// stake.
var (
	_ = rule("backup-complete", "A backup has all that any node had acknowledged before it began.",
		"backup lacks", everywhere, faulty(1, 3, anyBackup...)).counted().
		judging("backup-is-complete")
	_ = rule("backup-by-majority", "A node that reaches no majority makes no backup.",
		"backup of a minority", everywhere, faulty(1, 3, "backup apart")).counted().
		judging("backup-needs-a-majority")
	_ = rule("backup-whole-or-none", "A backup whose connection breaks leaves nothing.",
		"backup in pieces", everywhere, faulty(1, 3, "backup broken")).counted().
		judging("backup-is-whole")
	_ = lateRule("backup-unnoticed", "No client waits for a backup, nor for its reader.",
		"waited for a backup", everywhere, faulty(1, 3, "unread")).counted().
		judging("backup-blocks-nobody")
	_ = rule("recovery-complete", "A folder that is recovered has all that its node knew.",
		"recovery lacks", everywhere, faulty(1, 3, "recover")).counted().
		judging("recover-goes-on-with-the-log")
	_ = rule("copy-of-one-moment", "A backup, or what is recovered, is the state at one moment.",
		"torn copy", everywhere, faulty(1, 3, copies...)).counted().
		judging("backup-is-whole")
	_ = rule("held-over-restores",
		"A lock that a new cluster knows is held with its fence, by its holder alone, who may renew and release it.",
		"held lock lost", everywhere, faulty(1, 3, copies...)).counted().
		judging("restored-lock-keeps-its-fence hold-lets-holders-go-on")
	_ = rule("new-cluster-is-new", "A new cluster has an id of its own, and takes no node of the old one.",
		"old cluster goes on", everywhere, faulty(1, 3, copies...)).counted().
		judging("restored-cluster-is-new")
	_ = rule("hold-kept", "A new cluster grants no lock that it does not know before it has run for the time of its hold.",
		"granted in the hold", everywhere, faulty(1, 6, copies...)).counted().
		judging("hold-grants-nothing-new hold-counts-log-time")
	_ = lateRule("hold-ends", "It grants one soon after that.",
		"hold never ends", everywhere, faulty(1, 6, copies...)).counted().
		judgingNone("the pages say how long a hold is, not how soon after it a lock is free")
	_ = rule("hold-ended-by-hand", "A hold that is ended by hand is over.",
		"hold not ended", everywhere, faulty(1, 6, copies...)).counted().
		judging("hold-can-be-ended")
	_ = rule("fences-rise-over-restores", "Its fences are above all that the old cluster gives.",
		"fence of before", everywhere, faulty(1, 3, copies...)).counted().
		judging("fences-rise-over-restores")
	_ = lateRule("new-cluster-serves", "A new cluster is made of any backup and any sound folder, and serves.",
		"no new cluster, new cluster silent", everywhere, faulty(1, 3, copies...)).counted().
		judging("recover-goes-on-with-the-log")

	_ = lateRule("drained-in-time", "In a cluster that is well a node is drained within three seconds.",
		"drained late", everywhere, faulty(1, 3, drains...)).counted().
		judging("failover-in-order")
	_ = lateRule("drain-unnoticed", "No client notices that a leader is drained.",
		"noticed a drain", everywhere, faulty(1, 3, "drain leader")).counted().
		judging("failover-in-order upgrade-is-a-moments-wait")
	_ = lateRule("drain-keeps-waiters", "Nor do those who wait in line for a lock.",
		"waiter forgotten", everywhere, faulty(1, 3, drains...)).counted().
		judging("failover-keeps-the-line")

	_ = lateRule("drain-tells", "A node that may be taken away is not needed by the others, and one that is has to stay.",
		"needed node let go", everywhere, faulty(1, 3, "drain")).counted().
		judging("drain-says-whether-it-may")
	_ = lateRule("taken-before-end", "A node that is told to end does, and answers, what it has taken.",
		"taken and not answered", everywhere, faulty(4, 3, drains...)).counted().
		judging("taken-is-answered")

	_ = lateRule("run-while-held", "A program under a lock has ended when another one runs, or soon after it lost the lock.",
		"runs without its lock", everywhere, faulty(1, 3, "run")).counted().
		judging("run-holds-the-lock run-ends-with-the-lock")
	_ = lateRule("run-in-turn", "The next program runs soon after that.",
		"nothing runs", everywhere, faulty(1, 6, "run")).counted().
		judging("run-outlives-a-node")
	_ = lateRule("run-outlives-nodes", "A program under a lock goes on when one of the nodes is lost that it may ask.",
		"ended with a node", everywhere, faulty(1, 3, "run one")).counted().
		judging("run-outlives-a-node run-holds-the-lock")

	_ = lateRule("lease-over-restarts", "A restart of all nodes makes a lease longer by their absence and 5 s at most.",
		"lease too long", everywhere, faulty(1, 3, "together")).counted().
		judging("restart-of-all-adds-little")
	_ = rule("lease-not-short-over-restarts", "While no node runs, no lease does.",
		"lease too short", everywhere, faulty(1, 3, "together")).counted().
		judging("no-time-without-a-leader")
	_ = rule("nothing-lost-in-restarts", "A restart of all nodes loses nothing.",
		"lost in a restart", everywhere, faulty(1, 3, "together")).counted().
		judging("on-a-majority-of-disks")

	_ = lateRule("dead-leave-lines", "Clients of a node that has died leave the lines within ten seconds.",
		"waiter of the dead", everywhere, faulty(1, 3, "gone")).counted().
		judging("silent-nodes-are-passed-over later-at-the-end")

	_ = rule("level-asked-for", "LOCKD LEVEL has the next level in force at once, or says who is behind.",
		"level not as asked for", everywhere, faulty(1, 2, "upgrade up")).counted().
		judging("level-can-be-asked-for")
	_ = rule("older-stops", "A node of the release before, which is started when the level has risen, stops and says so.",
		"older release goes on, older release says nothing", everywhere, faulty(1, 2, "upgrade up")).counted().
		judging("older-release-stops")

	_ = rule("deposed-acknowledges-nothing", "A leader that was deposed acknowledges no write that is lost.",
		"acknowledged when deposed", everywhere, faulty(1, 2, "deposed")).counted().
		judging("answer-means-done on-a-majority-of-disks")
)
