package nemesis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// spot is a fault point and the activity that leads there. Points that every write passes are skipped up to skipMax
// times, rare ones less often.
type spot struct {
	name    string
	skipMax uint64
	lead    func(f *field, a target.Armed) (stop func()) // nil: the clients lead there
}

// spots are all fault points.
var spots = []spot{
	{target.LogWrite, 20, nil},
	{target.LogWritten, 20, nil},
	{target.LogSync, 20, nil},
	{target.LogSynced, 20, nil},
	{target.LogTrim, 1, saves},
	{target.LogTrimmed, 1, saves},
	{target.VoteWrite, 3, elections},
	{target.VoteTorn, 1, elections},
	{target.VoteWritten, 3, elections},
	{target.SnapshotWrite, 2, saves},
	{target.SnapshotRename, 2, saves},
	{target.SnapshotRenamed, 2, saves},
	{target.Install, 0, installs},
	{target.Installed, 0, installs},
	{target.Gather, 20, crowds},
	{target.Propose, 20, nil},
	{target.Replicated, 3, installs},
	{target.Applied, 20, nil},
}

// spotOf returns the row of a point.
func spotOf(name string) spot {
	for _, s := range spots {
		if s.name == name {
			return s
		}
	}
	panic("no such point: " + name)
}

// strike arms a point on nodes, and leads the first of them there until the fault stops. When undo returns, the strike
// has happened or never will, and every node that had to die has died.
func strike(f *field, nodes []string, s target.Strike) (what string, undo func()) {
	var armed []target.Armed
	for _, n := range nodes {
		a, err := f.Target.Arm(n, s)
		if err != nil {
			what += fmt.Sprintf(" (%v)", err)
			continue
		}
		armed = append(armed, a)
	}
	stop := func() {}
	if lead := spotOf(s.Point).lead; lead != nil && len(armed) > 0 {
		stop = lead(f, armed[0])
	}
	return fmt.Sprintf("%s %v%s", s, nodes, what), func() {
		stop()
		for _, a := range armed {
			f.Target.Disarm(a)
		}
	}
}

// deaths are the ways to die at a point: by a kill, or by a power failure.
var deaths = []target.Act{target.ActKill, target.ActKill, target.ActDrop, target.ActTear}

// point makes nodes die at any of the fault points.
func point(f *field, fault Fault) (string, func()) {
	d := dice(fault.Dice)
	s := spots[d.IntN(len(spots))]
	blow := target.Strike{Point: s.name, Act: deaths[d.IntN(len(deaths))], Skip: int(d.Uint64N(s.skipMax + 1))}
	nodes := f.victims(fault.Variant, fault.Dice)
	what, disarm := strike(f, nodes, blow)
	back := comeBack(f, fault.Dice, nodes)
	return "point " + what, func() {
		disarm()
		back()
	}
}

// store makes one write to a node's disk fail. The node must stop.
func store(f *field, fault Fault) (string, func()) {
	who, how, _ := strings.Cut(fault.Variant, " ")
	d := dice(fault.Dice)
	s := spotOf([]string{target.LogWrite, target.LogSync, target.VoteWrite, target.SnapshotWrite}[d.IntN(4)])
	nodes := f.victims(who, fault.Dice)
	what, disarm := strike(f,
		nodes,
		target.Strike{Point: s.name, Act: target.Act(how), Skip: int(d.Uint64N(s.skipMax + 1))},
	)
	return "store " + what, func() {
		disarm()
		restartAll(f, nodes)
	}
}

// full fills the disks of nodes until the fault stops. The nodes stop, and stop again at each start before that.
func full(f *field, fault Fault) (string, func()) {
	nodes := f.victims(fault.Variant, fault.Dice)
	for _, n := range nodes {
		f.Target.Fill(n, true)
	}
	back := comeBack(f, fault.Dice, nodes)
	return fmt.Sprintf("full %s %v", fault.Variant, nodes), func() {
		for _, n := range nodes {
			f.Target.Fill(n, false)
		}
		back()
	}
}

// stallable are the points at which a disk hangs: in half of the cases a sync of the log, else a write.
var stallable = []string{
	target.LogSync,
	target.LogSync,
	target.LogSync,
	target.LogWrite,
	target.VoteWrite,
	target.SnapshotWrite,
}

// hangs are the durations of a hang.
var hangs = []time.Duration{500 * time.Millisecond, 3 * time.Second, 30 * time.Second}

// snapshotHang bounds the hang of a snapshot, which need not end the node: the fault lasts as long.
const snapshotHang = 8 * time.Second

// stallOf draws a hang of a disk.
func stallOf(d *rand.Rand) target.Strike {
	s := spotOf(stallable[d.IntN(len(stallable))])
	length := hangs[d.IntN(len(hangs))]
	if s.name == target.SnapshotWrite {
		length = min(length, snapshotHang)
	}
	return target.Strike{Point: s.name, Act: target.ActStall, Stall: length, Skip: int(d.Uint64N(s.skipMax + 1))}
}

// stall makes a write or a sync of a node's disk hang.
func stall(f *field, fault Fault) (string, func()) {
	nodes := f.victims(fault.Variant, fault.Dice)
	what, disarm := strike(f, nodes, stallOf(dice(fault.Dice)))
	return "stall " + what, func() {
		disarm()
		restartAll(f, nodes)
	}
}

// Bounds of the additional time of a sync. One slow disk need not slow down the cluster; a majority of slow disks makes
// every write slow, and answers must still come in time.
const (
	dragMin    = 20 * time.Millisecond
	dragMax    = 300 * time.Millisecond
	dragAllMax = 100 * time.Millisecond
)

// drag makes every sync of a node's disk, or of all disks, take longer.
func drag(f *field, fault Fault) (string, func()) {
	most := dragMax
	if fault.Variant == "all" {
		most = dragAllMax
	}
	length := dragMin + time.Duration(dice(fault.Dice).Int64N(int64(most-dragMin)))
	what, disarm := strike(f,
		f.pick(fault.Variant, fault.Dice),
		target.Strike{Point: target.LogSync, Act: target.ActSlow, Stall: length.Round(time.Millisecond)},
	)
	return "drag " + what, disarm
}

// vote makes a follower die between the two halves of a vote, in an election that the loss of the leader causes.
func vote(f *field, fault Fault) (string, func()) {
	leader := f.victims("leader", fault.Dice)[0]
	others := f.others(leader)
	follower := others[dice(fault.Dice).IntN(len(others))]
	a, err := f.Target.Arm(follower, target.Strike{Point: target.VoteTorn, Act: target.ActKill})
	if fault.Variant == "kill" {
		f.Target.Kill(leader)
	} else {
		f.Target.Pause(leader)
	}
	what := fmt.Sprintf("vote of %s torn, %s %s", follower, fault.Variant, leader)
	if err != nil {
		what += fmt.Sprintf(" (%v)", err)
	}
	back := func(nodes []string) func() { return comeBackAtOnce(f, nodes) }
	if f.limit == nil { // the leader may stay away as long, too
		back = func(nodes []string) func() { return comeBack(f, fault.Dice, nodes) }
	}
	end := back([]string{follower})
	return what, func() {
		if err == nil {
			f.Target.Disarm(a)
		}
		f.Target.Resume(leader)
		restartAll(f, []string{leader})
		end()
	}
}

// unsynced makes nodes die as in a power failure: data that was not synced is lost ("drop"), or a part of it is there
// ("tear").
func unsynced(f *field, fault Fault) (string, func()) {
	how, who, _ := strings.Cut(fault.Variant, " ")
	var nodes []string
	switch who {
	case "voters":
		nodes = electAnew(f, fault.Dice)
	case "installed":
		nodes = f.victims("follower", fault.Dice)
		outrun(f, nodes[0])
		f.links.Clear()
		awaitContact(f, nodes[0])
	default:
		nodes = f.victims(who, fault.Dice)
	}
	var dying sync.WaitGroup
	for _, n := range nodes {
		dying.Go(func() { f.Target.Die(n, target.Act(how)) })
	}
	dying.Wait()
	return fmt.Sprintf("unsynced %s %v", fault.Variant, nodes), comeBack(f, fault.Dice, nodes)
}

// electAnew has leadership change hands, and returns those who have just voted: the followers.
func electAnew(f *field, roll uint64) []string {
	leader := f.pick("leader", roll)[0]
	_, _ = f.Target.Do(leader, 2*time.Second, "LOCKD", "TRANSFER") // it may be deposed meanwhile
	return f.limit.take(f.others(f.pick("leader", roll)[0]))
}

// awaitContact waits until a node that was cut off serves, and the entries that came since are in its log.
func awaitContact(f *field, node string) {
	for until := time.Now().Add(installMax); time.Now().Before(until) && f.wait(50*time.Millisecond); {
		r, err := f.Target.Do(node, time.Second, "SET", provokeKey, time.Now().String())
		if err == nil && !r.IsErr() {
			return
		}
	}
}

// saves makes the node take snapshots, each with something new, until it has died. From the second one on the node also
// trims its log.
func saves(f *field, a target.Armed) (stop func()) {
	return repeat(200*time.Millisecond, func() {
		if !a.Over() {
			saveSnapshots(f, a.Node)
		}
	})
}

// crowds makes some clients write at the node again and again, each as soon as it is answered: a leader delays entries
// for clients that it expects to come back.
func crowds(f *field, a target.Armed) (stop func()) {
	var stops []func()
	for range lateCrowd {
		stops = append(stops, repeat(time.Millisecond, func() {
			if !a.Over() {
				_, _ = f.Target.Do(a.Node, 2*time.Second, lone["write"]...)
			}
		}))
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

// elections hands leadership from node to node until the armed one has died.
func elections(f *field, a target.Armed) (stop func()) {
	return repeat(500*time.Millisecond, func() {
		if a.Over() {
			return
		}
		for _, n := range f.Target.Nodes() {
			if n != a.Node {
				_, _ = f.Target.Do(n, 2*time.Second, "LOCKD", "TRANSFER") // the leader obeys
				return
			}
		}
	})
}

// installs cuts the node off until the others have trimmed the entries that it lacks, so that it needs a snapshot from
// its leader.
func installs(f *field, a target.Armed) (stop func()) {
	var done sync.WaitGroup
	done.Go(func() {
		outrun(f, a.Node)
		f.links.Clear()
		for until := time.Now().Add(installMax); !a.Over() && time.Now().Before(until); {
			if !f.wait(50 * time.Millisecond) {
				return
			}
		}
	})
	return done.Wait
}

// installMax bounds the time for a reconnected node to get a snapshot.
const installMax = 3 * time.Second
