package model

// Rules of what operators do while clients work. The faults that do it judge them, and count how often they were at
// stake.
var (
	_ = rule("backup-complete", "A backup has all that any node had acknowledged before it began.",
		"backup lacks", everywhere, faulty(1, 3, "backup")).counted()
	_ = rule("recovery-complete", "A folder that is recovered has all that its node knew.",
		"recovery lacks", everywhere, faulty(1, 3, "recover")).counted()
	_ = rule("copy-of-one-moment", "A backup, or what is recovered, is the state at one moment.",
		"torn copy", everywhere, faulty(1, 3, "backup", "recover")).counted()
	_ = rule("held-over-restores", "A lock that a new cluster knows is held with its fence, by its holder alone.",
		"held lock lost", everywhere, faulty(1, 3, "backup", "recover")).counted()
	_ = rule("hold-kept", "A new cluster grants no lock that it does not know before its hold is over.",
		"granted in the hold", everywhere, faulty(1, 3, "backup", "recover")).counted()
	_ = lateRule("hold-ends", "It grants one soon after that.",
		"hold never ends", everywhere, faulty(1, 3, "backup", "recover")).counted()
	_ = rule("fences-rise-over-restores", "Its fences are above all that the old cluster gives.",
		"fence of before", everywhere, faulty(1, 3, "backup", "recover")).counted()
	_ = lateRule("new-cluster-serves", "A new cluster is made of any backup and any sound folder, and serves.",
		"no new cluster, new cluster silent", everywhere, faulty(1, 3, "backup", "recover")).counted()
)
