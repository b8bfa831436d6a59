package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// Times of what an operator does.
const (
	toolMax    = 15 * time.Second       // for a command to end
	busyMin    = 200 * time.Millisecond // for which witnesses write before the command
	busyMore   = 600                    // ms, at most, that they write longer
	heirHold   = 2 * time.Second        // --hold of a new cluster
	heirServes = 10 * time.Second       // for the node of a new cluster to serve
	heirFree   = 3 * time.Second        // for it to grant locks, beyond its hold
	heirLook   = 50 * time.Millisecond
)

// estate is what a new cluster is made of: a backup, or the folder of one node.
type estate struct {
	what  string         // it is
	rule  string         // that it has what it must have
	lacks string         // the problem if it does not
	sure  map[string]int // of each witness, the last entry that it must have; nil: that is not known
	fence int64          // of the lock that was held before it was made; 0: there is none
	later int64          // of the lock that was granted after it was made; 0: there is none
	make  []string       // the command that makes a cluster of it
	id    string         // of the node of that
	dir   string         // its folder
}

// lateByBackup is how late a node that is behind hears what the others write.
const lateByBackup = 400 * time.Millisecond

// backup has a node make a backup while clients write, and perhaps while other faults last. The variant "behind" has
// the node be late. When all faults have ended it makes a new cluster of the backup, and judges that.
func backup(f *field, fault Fault) (string, func()) {
	d := dice(fault.Dice)
	node := f.pick("any", fault.Dice)[0]
	what := "backup from " + node
	dir, err := os.MkdirTemp(filepath.Dir(f.Target.Dir(node)), "backup-")
	if err != nil {
		return what + ": " + err.Error(), nil
	}
	l := openLedger(f, fault.Dice)
	busy := busyMin + time.Duration(d.IntN(busyMore))*time.Millisecond
	made := make(chan *estate, 1)
	if fault.Variant == "behind" {
		node = f.pick("follower", fault.Dice)[0]
		f.links.into(node, f.others(node), target.Shape{Delay: lateByBackup})
	}
	go func() { made <- l.backUp(node, dir, busy) }()
	return what, func() {
		defer func() { _ = os.RemoveAll(dir) }()
		defer l.close()
		e := <-made
		f.links.Clear()
		if e != nil {
			l.settle(e)
		}
	}
}

// backUp makes a backup. It returns nil if that fails, as it may beside other faults.
func (l *ledger) backUp(node, dir string, busy time.Duration) *estate {
	l.wait(busy)
	e := &estate{what: "the backup from " + node, rule: "backup-complete", lacks: "backup lacks", id: "heir"}
	e.fence = l.lock("held")
	e.sure = l.acked()
	file := filepath.Join(dir, "file")
	ctx, cancel := l.untilOver(toolMax)
	defer cancel()
	args := append([]string{"backup", "--out", file}, l.Target.Reach(true, node)...)
	if status, _, err := l.Target.Tool(ctx, args...); status != 0 || err != nil {
		return nil
	}
	e.later = l.lock("later")
	e.dir = filepath.Join(dir, "heir")
	e.make = []string{"restore", "--in", file, "--dir", e.dir, "--id", e.id}
	return e
}

// recoverFolder takes a copy of the folder of a follower, which is all that is left of a cluster whose other nodes are
// lost. It makes a new cluster of the copy, and judges that.
func recoverFolder(f *field, fault Fault) (string, func()) {
	node := f.victims("follower", fault.Dice)[0]
	what := "recover a copy of " + node
	dir, err := os.MkdirTemp(filepath.Dir(f.Target.Dir(node)), "recover-")
	if err != nil {
		return what + ": " + err.Error(), nil
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l := openLedger(f, fault.Dice)
	defer l.close()
	_, _ = f.Target.Do(node, toolMax, "LOCKD", "SNAPSHOT") // what follows is in the log alone
	l.wait(busyMin + time.Duration(dice(fault.Dice).IntN(busyMore))*time.Millisecond)
	e := &estate{what: "the folder of " + node, rule: "recovery-complete", lacks: "recovery lacks", id: f.Target.ID(node)}
	e.dir = filepath.Join(dir, "heir")
	e.make = []string{"recover", "--dir", e.dir, "--yes"}
	e.fence = l.lock("held")
	sure := l.acked()
	if l.knows(node) {
		e.sure = sure
	} else {
		e.fence = 0
	}
	f.Target.Kill(node)
	err = os.CopyFS(e.dir, os.DirFS(f.Target.Dir(node)))
	restartAll(f, []string{node})
	if err != nil {
		return what + ": " + err.Error(), nil
	}
	e.later = l.lock("later")
	l.settle(e)
	return what, nil
}

// knows waits until a node has applied all that any node had applied when it was called. It reports false if that takes
// long, or if a node does not tell.
func (l *ledger) knows(node string) bool {
	newest := int64(0)
	for _, n := range l.Target.Nodes() {
		at, err := appliedAt(l.Target, n)
		if err != nil {
			return false
		}
		newest = max(newest, at)
	}
	for until := time.Now().Add(backMax); time.Now().Before(until) && !l.isOver(); l.wait(heirLook) {
		if at, err := appliedAt(l.Target, node); err == nil && at >= newest {
			return true
		}
	}
	return false
}

// settle makes a new cluster of an estate, and judges it.
func (l *ledger) settle(e *estate) {
	if l.isOver() {
		return
	}
	heir, err := l.Target.NewSingle(e.id, e.dir)
	if err == nil {
		err = l.refound(e, heir)
	}
	began := time.Now()
	if err == nil {
		defer heir.Stop()
		err = heir.Start()
	}
	if err != nil && l.isOver() {
		return
	}
	if err != nil {
		l.found.add("no new cluster", fmt.Sprintf("of %s: %v", e.what, err))
		return
	}
	if entries, ok := l.read(e, heir); ok {
		l.audit(e, entries)
		l.judgeHeld(e, heir)
		l.judgeHold(e, heir, began)
	}
}

// fenceAbove finds the number that a command demands where the machine's clock is not known to be right.
var fenceAbove = regexp.MustCompile(`--fence-above (\d+); else`)

// refound makes the folder of a new cluster.
func (l *ledger) refound(e *estate, heir *target.Single) error {
	ctx, cancel := l.untilOver(toolMax)
	defer cancel()
	args := append(slices.Clone(e.make), "--hold", heirHold.String(), "--peer-advertise", heir.PeerAddr)
	status, said, err := l.Target.Tool(ctx, args...)
	if n := fenceAbove.FindStringSubmatch(said); err == nil && status != 0 && n != nil {
		status, said, err = l.Target.Tool(ctx, append(args, "--fence-above", n[1])...)
	}
	if err == nil && status != 0 {
		err = fmt.Errorf("status %d: %s", status, strings.TrimSpace(said))
	}
	return err
}

// read reads what the witnesses wrote, from a new cluster: their list, and the other keys after it.
func (l *ledger) read(e *estate, heir *target.Single) (entries []string, ok bool) {
	var err error
	for until := time.Now().Add(heirServes); time.Now().Before(until); {
		var r target.Reply
		if r, err = heir.Do(ledgerWait, l.reading()...); err == nil && !r.IsErr() && len(r.Elems) > 0 {
			l.found.stake("new-cluster-serves")
			return r.Texts(), true
		}
		if err == nil {
			err = errors.New(r.Text())
		}
		if !l.wait(heirLook) {
			return nil, false
		}
	}
	l.found.add("new cluster silent", fmt.Sprintf("that of %s for %s: %v", e.what, heirServes, err))
	return nil, false
}

// audit judges what the witnesses wrote, as a new cluster has it.
func (l *ledger) audit(e *estate, entries []string) {
	lacks, torn := l.check(entries, e.sure)
	if e.sure != nil {
		l.found.stake(e.rule)
	}
	l.found.stake("copy-of-one-moment")
	if lacks != "" {
		l.found.add(e.lacks, e.what+" "+lacks)
	}
	if torn != "" {
		l.found.add("torn copy", e.what+" "+torn)
	}
}

// judgeHeld judges that a lock which was held before is held with its fence: its holder can renew it, and nobody else
// gets it.
func (l *ledger) judgeHeld(e *estate, heir *target.Single) {
	if e.fence == 0 {
		return
	}
	key := l.name("held")
	other, err := heir.Do(ledgerWait, "LOCK", key, "other", "PX", lockPx)
	if err != nil || strings.HasPrefix(other.Str, "LOADING lockd has no leader") {
		return
	}
	own, err := heir.Do(ledgerWait, "RENEW", key, "held", "PX", lockPx)
	if err != nil {
		return
	}
	l.found.stake("held-over-restores")
	if !other.Nil || own.Int != e.fence {
		l.found.add("held lock lost", fmt.Sprintf("in the cluster made of %s: LOCK by another answers %q, and RENEW by "+
			"the holder %q, whose fence was %d", e.what, other.Text(), own.Text(), e.fence))
	}
}

// judgeHold judges that a lock which the new cluster does not know is granted when the hold is over, and not before,
// and then with a fence above all that the old cluster gave.
func (l *ledger) judgeHold(e *estate, heir *target.Single, began time.Time) {
	key, held := l.name("later"), false
	for {
		r, err := heir.Do(ledgerWait, "LOCK", key, "heir", "PX", lockPx)
		age := time.Since(began)
		switch {
		case err != nil:
			return
		case r.Kind == ':':
			l.judgeGrant(e, r.Int, age, held)
			return
		case strings.HasPrefix(r.Str, "LOADING this cluster was restored"):
			held = true
		case !strings.HasPrefix(r.Str, "LOADING "):
			l.found.add("held lock lost", fmt.Sprintf("in the cluster made of %s: LOCK of a free lock answers %q",
				e.what, r.Text()))
			return
		}
		if age > heirHold+heirServes+heirFree {
			l.found.add("hold never ends", fmt.Sprintf("in the cluster made of %s, %.1f s after its start with --hold %s: %s",
				e.what, age.Seconds(), heirHold, r.Str))
			return
		}
		if !l.wait(heirLook) {
			return
		}
	}
}

// judgeGrant judges the first grant of a new cluster. held: a request before it was held back.
func (l *ledger) judgeGrant(e *estate, fence int64, age time.Duration, held bool) {
	if held {
		l.found.stake("hold-ends")
	}
	l.found.stake("hold-kept")
	if age < heirHold {
		l.found.add("granted in the hold", fmt.Sprintf("in the cluster made of %s, %.1f s after its start with --hold %s",
			e.what, age.Seconds(), heirHold))
	}
	before := max(e.fence, e.later, l.lock("last"))
	if before == 0 {
		return
	}
	l.found.stake("fences-rise-over-restores")
	if fence <= before {
		l.found.add("fence of before", fmt.Sprintf("the cluster made of %s gives fence %d, and the old one gave %d",
			e.what, fence, before))
	}
}

// appliedAt returns the index of the last entry that a node has applied.
func appliedAt(t target.Connections, node string) (index int64, err error) {
	r, err := t.Do(node, time.Second, "LOCKD", "HASH")
	if err != nil || len(r.Elems) != 2 {
		return 0, errors.Join(err, errors.New(r.Text()))
	}
	return r.Elems[0].Int, nil
}
