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
	StopTurn      turn // when it is stopped, among the faults of a step
	// Start starts a fault. It returns what the fault does, for the history, and a function that stops it, which may be
	// nil.
	Start func(f *field, fault Fault) (what string, stop func())
}

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
		"kill", "SIGKILL, and a restart at once, at the end of the fault, or after 10 s",
		[]string{"leader", "follower", "majority", "all", "storm"}, false, restarts, kill,
	},
	{
		"pause", "SIGSTOP, and SIGCONT at the end of the fault",
		[]string{"leader", "follower", "majority", "all", "flutter"}, false, resumes, pause,
	},
	{
		Absent,
		"one node alone is killed or paused for 1 to 6 s, after clients have come to wait at it; in a step of its own",
		[]string{"kill leader", "kill follower", "pause leader", "pause follower"}, false, restarts, absent,
	},
	{
		"partition",
		"links between nodes hold their bytes back",
		[]string{
			"leader alone", "follower alone", "minority", "leader deaf", "leader mute", "bridge", "ring",
			"halves", "flapping",
		},
		false,
		links,
		partition,
	},
	{
		"late",
		"the leader is paused until another one is elected, or hands over; then the last answers to it arrive",
		[]string{"leader", "hand-over"}, false, links, late,
	},
	{
		"slow",
		"links between nodes delay with jitter, drip, break in mid-stream, accept and never answer, refuse " +
			"connections, or drip while large values are written",
		[]string{"delay", "jitter", "drip", "reset", "torn", "half-open", "no dials", "clogged"}, false, links, slow,
	},
	{
		"port",
		"the port at which the others reach a node refuses again and again, or all the time, although the node lives; " +
			"or another process takes the port while the node is dead",
		[]string{"flap leader", "flap follower", "cut leader", "cut follower", "apart", "silent", "rubbish"}, false, restarts,
		port,
	},
	{
		"clients", "links between clients and nodes delay, drip, break, accept and never answer, or hold back answers",
		[]string{"delay", "drip", "reset", "torn", "half-open", "cut answers"}, false, links, clients,
	},
	{"transfer", "leadership is handed over, again and again", []string{"once", "often"}, false, links, transfer},
	{
		"restart", "SIGTERM, and a restart at once or at the end of the fault; it must end within 2 s",
		[]string{"leader", "follower", "rolling", "leader at once"}, false, restarts, restart,
	},
	{
		"snapshot", "nodes take a snapshot and trim their log; then one is killed", []string{"all", "kill"},
		false, restarts, snapshot,
	},
	{
		"install",
		"a follower needs a snapshot from its leader, over links that drip, break or are cut; or the leader is " +
			"killed meanwhile, and started at once",
		[]string{"drip", "break", "cut", "kill"}, false, links, install,
	},
	{
		"disk", "a node is killed, and its newest snapshot is removed before it starts",
		[]string{"leader", "follower"}, false, restarts, disk,
	},
	{
		"flip", "a follower is killed, and one bit of its data folder is flipped before it starts",
		[]string{"log", "snapshot", "votes"}, false, restarts, flip,
	},
	{
		"member", "a node loses its disk; it is removed, and a new one joins under a new id",
		[]string{"leader", "follower"}, false, joins, member,
	},
	{
		"load", "many more clients: 64 that pipeline, 512 KiB values, 5,000 connections, scripts up to the limit",
		[]string{"burst", "large", "connections", "scripts"}, false, links, load,
	},
	{
		"descriptors",
		"a node has few file descriptors left, and more clients connect than that; or strangers to its peer port, " +
			"too",
		[]string{"leader", "follower", "leader strangers", "follower strangers"}, false, links, descriptors,
	},
	{
		"hostile",
		"hostile clients at every node send a byte a second, begin handshakes, read no answers, guess passwords, " +
			"or send endless lines and commands",
		[]string{"drip", "handshakes", "crowd", "deaf", "guesses", "lines", "huge"}, false, links, hostile,
	},
	{
		"clock",
		"the wall clock steps, strobes, or runs 5 % fast or slow",
		[]string{
			"step one", "step leader", "step all", "strobe one", "strobe leader", "strobe all", "fast one",
			"fast leader", "slow one", "slow leader",
		},
		true,
		disarms,
		clock,
	},
	{
		"point", "nodes die at one of all fault points, by a kill or without power",
		[]string{"leader", "follower", "all"}, true, disarms, point,
	},
	{
		"store", "a write to the disk fails with EIO or ENOSPC; the node must stop",
		[]string{"leader error", "leader full", "follower error", "follower full"}, true, disarms, store,
	},
	{
		"full", "the disk has no space until the fault ends; the node must stop, again and again",
		[]string{"leader", "follower", "majority"}, true, disarms, full,
	},
	{
		"stall", "a write or a sync of the disk hangs for 0.5, 3 or 30 s", []string{"leader", "follower"}, true,
		disarms, stall,
	},
	{
		"drag", "every sync takes 20 to 300 ms longer, on all nodes up to 100 ms",
		[]string{"leader", "follower", "all"}, true, disarms, drag,
	},
	{
		"unsynced",
		"nodes lose power: data that was not synced is lost, or torn; right after an election, or after a snapshot from " +
			"the leader, too",
		[]string{
			"drop leader", "drop follower", "drop majority", "drop all", "tear leader", "tear follower",
			"tear majority", "tear all", "drop voters", "drop installed",
		},
		true,
		restarts,
		unsynced,
	},
	{"vote", "a follower dies between the two halves of a vote", []string{"pause", "kill"}, true, disarms, vote},
	{
		"frame",
		"single messages of one kind between a node and the others, or their answers, are lost, held, or delivered " +
			"twice",
		frameKinds, false, links, frame,
	},
	{
		"build",
		"one node, one after the other, or all together start from a build with one command more, and then from their " +
			"own: a majority of one build serves, the others are refused; in a step of its own",
		[]string{"leader", "follower", "rolling", "together"}, false, restarts, build,
	},
	{
		Upgrade,
		"nodes go to the next release and back, one at a time, and then all of them, which raises the level: after each " +
			"step every node serves; in a step of its own",
		[]string{"back", "up"}, false, restarts, upgrade,
	},
	{
		"quiet",
		"the clients are silent for 1 to 10 s; then one sends one command to each node, which must answer within " +
			"1 s; then all come at once; in a step of its own",
		[]string{"write", "read", "script", "straggler"}, false, links, quiet,
	},
	{
		"scenario",
		"sequences of steps that led to a bug before: save twice and lose an answer, hand over to a hanging disk, " +
			"and so on; in a step of its own",
		[]string{
			"save twice", "hand over", "stop leader", "join", "install", "large", "folder", "elected", "stopping",
			"mute", "stale", "deposed",
		},
		true,
		restarts,
		scenario,
	},
	{
		"backup",
		"a node makes a backup while clients write, beside other faults; then a new cluster is made of it, and judged",
		[]string{"any", "behind"}, false, joins, backup,
	},
	{
		"recover",
		"a follower is killed, and a new cluster is made of a copy of its folder, and judged; in a step of its own",
		[]string{"follower"}, false, restarts, recoverFolder,
	},
	{
		"drain", "a node is made ready to be taken away, and its clients must not notice; in a step of its own",
		[]string{"leader", "follower"}, false, restarts, drained,
	},
	{
		"run",
		"two programs run under one lock; the node of the first one is killed or paused, or one of all nodes that both ask, " +
			"or its `lockd run` is killed, or the lock is taken away; in a step of its own",
		[]string{"node killed", "node silent", "one killed", "one silent", "orphan", "taken"}, false, restarts, runUnderLock,
	},
	{
		"together",
		"all nodes end at once and start again, after a while without a write: leases are longer by no more than is " +
			"said, and nothing is lost; in a step of its own",
		[]string{"kill", "stop"}, false, restarts, restartTogether,
	},
	{
		"gone",
		"one node is killed for 10 s and more: its clients leave the lines by then; in a step of its own",
		[]string{"leader", "follower"}, false, restarts, gone,
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

// readers are the variants that look into messages between nodes, by kind. TLS hides the messages.
var readers = map[string][]string{"frame": frameKinds, "scenario": {"save twice", "mute", "stale", "deposed"}}

// Reads returns the variants of a row of Find that look into messages between nodes. They cannot be used with TLS.
func (k *Kind) Reads() (variants []string) {
	for _, v := range k.Variants {
		if slices.Contains(readers[k.Name], v) {
			variants = append(variants, v)
		}
	}
	return variants
}

// grounded are the variants, by kind, that need real processes, files or sockets, so that simulated machines do not have
// them; nil: all variants.
var grounded = map[string][]string{
	"load": {"connections", "scripts"}, "disk": nil, "flip": nil, "member": nil, "descriptors": nil, "hostile": nil,
	"point": nil, "store": nil, "full": nil, "stall": nil, "vote": nil, OtherBuild: nil, Upgrade: nil,
	"backup": nil, "recover": nil, "drain": nil, "run": nil, // the commands of the program
	"unsynced": {"tear leader", "tear follower", "tear majority", "tear all"},
	"quiet":    {"straggler"},
	"scenario": {"hand over", "join", "folder"},
}

// Grounded returns the variants of a row of Find that need real processes, files or sockets.
func (k *Kind) Grounded() (variants []string) {
	some, is := grounded[k.Name]
	for _, v := range k.Variants {
		if is && (some == nil || slices.Contains(some, v)) {
			variants = append(variants, v)
		}
	}
	return variants
}

// KeepsKeys reports whether faults of a kind have keys of their own, by which they judge what the cluster does: so that
// no workload may empty the database under them.
func KeepsKeys(kind string) bool {
	return slices.Contains([]string{"backup", "recover", "drain", "run", "together", "gone"}, kind)
}

// without returns the row without some variants.
func (k *Kind) without(variants []string) *Kind {
	rest := *k
	rest.Variants = slices.DeleteFunc(slices.Clone(k.Variants), func(v string) bool {
		return slices.Contains(variants, v)
	})
	return &rest
}
