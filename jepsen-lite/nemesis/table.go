package nemesis

import (
	"slices"
	"strings"
)

// Kind is one row of the table: one kind of fault.
type Kind struct {
	Name, Summary string
	Variants      []string
	Port          bool // it needs the fault ports of a test build
	alone         bool // it has a step to itself
	ownKeys       bool // see KeepsKeys
	reads         some // see Reads
	grounded      some // see Grounded
	StopTurn      turn // when it is stopped, among the faults of a step
	// Start starts a fault. It returns what the fault does, for the history, and a function that stops it, which may be
	// nil.
	Start func(f *field, fault Fault) (what string, stop func())
}

// some are variants of a kind.
type some []string

// every is all variants of a kind.
var every = some{"every"}

// turn orders the faults of a step that are stopped together, so that a node that starts finds the links whole, and a
// node that joins finds all others.
type turn int

const (
	links    turn = iota // links heal, and extra clients leave
	resumes              // paused nodes continue
	disarms              // points are disarmed
	restarts             // nodes start
	joins                // lost disks are replaced
)

// Table is all kinds of faults.
var Table = []Kind{
	{
		Name:     "kill",
		Summary:  "SIGKILL, and a restart at once, at the end of the fault, or after 10 s",
		Variants: []string{"leader", "follower", "majority", "all", "storm"},
		StopTurn: restarts, Start: kill,
	},
	{
		Name:     "pause",
		Summary:  "SIGSTOP, and SIGCONT at the end of the fault",
		Variants: []string{"leader", "follower", "majority", "all", "flutter"},
		StopTurn: resumes, Start: pause,
	},
	{
		Name: Absent,
		Summary: "one node alone is killed for 2 to 6 s, or paused for 1 to 6 s, after clients have come to wait at it; " +
			"in a step of its own",
		Variants: []string{"kill leader", "kill follower", "pause leader", "pause follower"},
		alone:    true,
		StopTurn: restarts, Start: absent,
	},
	{
		Name:    "partition",
		Summary: "links between nodes hold their bytes back",
		Variants: []string{
			"leader alone", "follower alone", "minority", "leader deaf", "leader mute", "bridge", "ring",
			"halves", "flapping",
		},
		StopTurn: links, Start: partition,
	},
	{
		Name: "late",
		Summary: "the leader is paused until another one is elected, or hands over; then the last answers to it " +
			"arrive, or those to its questions before all others",
		Variants: []string{"leader", "hand-over", "overtaken hand-over"},
		reads:    some{"overtaken hand-over"},
		StopTurn: links, Start: late,
	},
	{
		Name: "slow",
		Summary: "links between nodes delay with jitter, drip, break in mid-stream, accept and never answer, refuse " +
			"connections, or drip while large values are written",
		Variants: []string{"delay", "jitter", "drip", "reset", "torn", "half-open", "no dials", "clogged"},
		StopTurn: links, Start: slow,
	},
	{
		Name: "port",
		Summary: "the port at which the others reach a node refuses again and again, or all the time, although the " +
			"node lives; or another process takes the port while the node is dead",
		Variants: []string{"flap leader", "flap follower", "cut leader", "cut follower", "apart", "silent", "rubbish"},
		StopTurn: restarts, Start: port,
	},
	{
		Name:     "clients",
		Summary:  "links between clients and nodes delay, drip, break, accept and never answer, or hold back answers",
		Variants: []string{"delay", "drip", "reset", "torn", "half-open", "cut answers"},
		StopTurn: links, Start: clients,
	},
	{
		Name:     "transfer",
		Summary:  "leadership is handed over, again and again",
		Variants: []string{"once", "often"},
		StopTurn: links, Start: transfer,
	},
	{
		Name:     "restart",
		Summary:  "SIGTERM, and a restart at once or at the end of the fault; it must end within 2 s",
		Variants: []string{"leader", "follower", "rolling", "leader at once"},
		StopTurn: restarts, Start: restart,
	},
	{
		Name:     "snapshot",
		Summary:  "nodes take a snapshot and trim their log; then one is killed",
		Variants: []string{"all", "kill"},
		StopTurn: restarts, Start: snapshot,
	},
	{
		Name: "install",
		Summary: "a follower needs a snapshot from its leader, over links that drip, break or are cut; or the leader " +
			"is killed meanwhile, and started at once",
		Variants: []string{"drip", "break", "cut", "kill"},
		StopTurn: links, Start: install,
	},
	{
		Name:     "disk",
		Summary:  "a node is killed, and its newest snapshot is removed before it starts",
		Variants: []string{"leader", "follower"},
		StopTurn: restarts, Start: disk,
	},
	{
		Name:     "flip",
		Summary:  "a follower is killed, and one bit of its data folder is flipped before it starts",
		Variants: []string{"log", "snapshot", "votes"},
		StopTurn: restarts, Start: flip,
	},
	{
		Name:     "member",
		Summary:  "a node loses its disk; it is removed, and a new one joins under a new id",
		Variants: []string{"leader", "follower"},
		StopTurn: joins, Start: member,
	},
	{
		Name:     "load",
		Summary:  "many more clients: 64 that pipeline, 512 KiB values, 5,000 connections, scripts up to the limit",
		Variants: []string{"burst", "large", "connections", "scripts"},
		grounded: some{"scripts"}, // they take processors, and no virtual time
		StopTurn: links, Start: load,
	},
	{
		Name: "descriptors",
		Summary: "a node has few file descriptors left, and more clients connect than that; or strangers to its peer " +
			"port, too",
		Variants: []string{"leader", "follower", "leader strangers", "follower strangers"},
		grounded: every,
		StopTurn: links, Start: descriptors,
	},
	{
		Name: "hostile",
		Summary: "hostile clients at every node send a byte a second, begin handshakes, read no answers, guess " +
			"passwords, or send endless lines and commands",
		Variants: []string{"drip", "handshakes", "crowd", "deaf", "guesses", "lines", "huge"},
		grounded: every,
		StopTurn: links, Start: hostile,
	},
	{
		Name:    "clock",
		Summary: "the wall clock steps, strobes, or runs 5 % fast or slow",
		Variants: []string{
			"step one", "step leader", "step all", "strobe one", "strobe leader", "strobe all", "fast one",
			"fast leader", "slow one", "slow leader",
		},
		Port:     true,
		StopTurn: disarms, Start: clock,
	},
	{
		Name:     "point",
		Summary:  "nodes die at one of all fault points, by a kill or without power",
		Variants: []string{"leader", "follower", "all"},
		Port:     true,
		StopTurn: disarms, Start: point,
	},
	{
		Name:     "store",
		Summary:  "a write to the disk fails with EIO or ENOSPC; the node must stop",
		Variants: []string{"leader error", "leader full", "follower error", "follower full"},
		Port:     true,
		StopTurn: disarms, Start: store,
	},
	{
		Name:     "full",
		Summary:  "the disk has no space until the fault ends; the node must stop, again and again",
		Variants: []string{"leader", "follower", "majority"},
		Port:     true,
		StopTurn: disarms, Start: full,
	},
	{
		Name:     "stall",
		Summary:  "a write or a sync of the disk hangs for 0.5, 3 or 30 s",
		Variants: []string{"leader", "follower"},
		Port:     true,
		StopTurn: disarms, Start: stall,
	},
	{
		Name:     "drag",
		Summary:  "every sync takes 20 to 300 ms longer, on all nodes up to 100 ms",
		Variants: []string{"leader", "follower", "all"},
		Port:     true,
		StopTurn: disarms, Start: drag,
	},
	{
		Name: "unsynced",
		Summary: "nodes lose power: data that was not synced is lost, or torn; right after an election, or after a " +
			"snapshot from the leader, too",
		Variants: []string{
			"drop leader", "drop follower", "drop majority", "drop all", "tear leader", "tear follower",
			"tear majority", "tear all", "drop voters", "drop installed",
		},
		Port:     true,
		StopTurn: restarts, Start: unsynced,
	},
	{
		Name:     "vote",
		Summary:  "a follower dies between the two halves of a vote",
		Variants: []string{"pause", "kill"},
		Port:     true,
		StopTurn: disarms, Start: vote,
	},
	{
		Name: "frame",
		Summary: "single messages of one kind between a node and the others, or their answers, are lost, held, or " +
			"delivered twice",
		Variants: frameKinds,
		reads:    every,
		StopTurn: links, Start: frame,
	},
	{
		Name: "build",
		Summary: "one node, one after the other, or all together start from a build with one command more, and then " +
			"from their own: a majority of one build serves, the others are refused; in a step of its own",
		Variants: []string{"leader", "follower", "rolling", "together"},
		alone:    true,
		grounded: every,
		StopTurn: restarts, Start: build,
	},
	{
		Name: Upgrade,
		Summary: "nodes go to the next release and back, one at a time, and then all of them, which raises the " +
			"level: after each step every node serves; in a step of its own",
		Variants: []string{"back", "up"},
		alone:    true,
		grounded: every,
		StopTurn: restarts, Start: upgrade,
	},
	{
		Name: "quiet",
		Summary: "the clients are silent for 1 to 10 s; then one sends one command to each node, which must answer " +
			"within 1 s; then all come at once; in a step of its own",
		Variants: []string{"write", "read", "script", "straggler"},
		alone:    true,
		StopTurn: links, Start: quiet,
	},
	{
		Name: "scenario",
		Summary: "sequences of steps that led to a bug before: save twice and lose an answer, hand over to a hanging " +
			"disk, and so on; in a step of its own",
		Variants: []string{
			"save twice", "hand over", "stop leader", "join", "install", "large", "folder", "elected", "stopping",
			"mute", "stale",
		},
		Port:     true,
		alone:    true,
		reads:    some{"save twice", "mute", "stale"},
		StopTurn: restarts, Start: scenario,
	},
	{
		Name: "deposed",
		Summary: "a leader is cut off and paused with a write under way, and what the others answer to that arrives when " +
			"another one leads; in a step of its own",
		Variants: []string{"leader"},
		alone:    true,
		reads:    every,
		StopTurn: restarts, Start: deposed,
	},
	{
		Name: "backup",
		Summary: "a node makes a backup while clients write, beside other faults, and then a new cluster is made of it, " +
			"and judged; or the node is cut off from all others, or its connections break: then there is no backup",
		Variants: []string{"any", "behind", "apart", "broken"},
		ownKeys:  true,
		StopTurn: joins, Start: backup,
	},
	{
		Name:     "unread",
		Summary:  "a node begins a backup that its client does not go on to read, while others write; in a step of its own",
		Variants: []string{"leader", "follower"},
		alone:    true,
		ownKeys:  true,
		StopTurn: links, Start: unread,
	},
	{
		Name: "recover",
		Summary: "a follower is killed, and a new cluster is made of a copy of its folder, and judged; in a step of " +
			"its own",
		Variants: []string{"follower"},
		alone:    true,
		ownKeys:  true,
		StopTurn: restarts, Start: recoverFolder,
	},
	{
		Name: "drain",
		Summary: "a node is made ready to be taken away, and its clients must not notice; then it is; or others are dead, " +
			"so that it is needed; in a step of its own",
		Variants: []string{"leader", "follower", "needed"},
		alone:    true,
		ownKeys:  true,
		StopTurn: restarts, Start: drained,
	},
	{
		Name: "run",
		Summary: "two programs run under one lock; the node of the first one is killed or paused, or one of all nodes " +
			"that both ask, or its `lockd run` is killed, or the lock is taken away; in a step of its own",
		Variants: []string{"node killed", "node silent", "one killed", "one silent", "orphan", "taken"},
		alone:    true,
		ownKeys:  true,
		grounded: every,
		StopTurn: restarts, Start: runUnderLock,
	},
	{
		Name: "together",
		Summary: "all nodes end at once and start again, after a while without a write: leases are longer by no more " +
			"than is said, and nothing is lost; in a step of its own",
		Variants: []string{"kill", "stop"},
		alone:    true,
		ownKeys:  true,
		StopTurn: restarts, Start: restartTogether,
	},
	{
		Name:     "gone",
		Summary:  "one node is killed for 10 s and more: its clients leave the lines by then; in a step of its own",
		Variants: []string{"leader", "follower"},
		alone:    true,
		ownKeys:  true,
		StopTurn: restarts, Start: gone,
	},
}

// Find returns the row of a name, or nil. The name may be followed by a colon and one variant, with "-" for each space:
// the row then has that variant only.
func Find(name string) *Kind {
	name, variant, one := strings.Cut(name, ":")
	i := slices.IndexFunc(Table, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	k := Table[i]
	if one {
		v := slices.IndexFunc(k.Variants, func(v string) bool { return strings.ReplaceAll(v, " ", "-") == variant })
		if v < 0 {
			return nil
		}
		k.Variants = k.Variants[v : v+1]
	}
	return &k
}

// Reads returns the variants of a row of Find that look into messages between nodes. They cannot be used with TLS.
func (k *Kind) Reads() []string { return k.those(k.reads) }

// Grounded returns the variants of a row of Find that need real processes, files or sockets.
func (k *Kind) Grounded() []string { return k.those(k.grounded) }

// KeepsKeys reports whether faults of a kind have keys of their own, by which they judge what the cluster does: so that
// no workload may empty the database under them.
func KeepsKeys(kind string) bool { return Find(kind).ownKeys }

// those returns the variants that are among some.
func (k *Kind) those(some some) (variants []string) {
	for _, v := range k.Variants {
		if len(some) > 0 && (some[0] == every[0] || slices.Contains(some, v)) {
			variants = append(variants, v)
		}
	}
	return variants
}

// without returns the row without some variants.
func (k *Kind) without(variants []string) *Kind {
	rest := *k
	rest.Variants = slices.DeleteFunc(slices.Clone(k.Variants), func(v string) bool {
		return slices.Contains(variants, v)
	})
	return &rest
}
