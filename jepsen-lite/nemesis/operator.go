package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/jepsen-lite/target"
)

// Times of what an operator does.
const (
	toolMax    = 15 * time.Second       // for a command to end
	busyMin    = 200 * time.Millisecond // for which witnesses write before the command
	busyMore   = 600                    // ms, at most, that they write longer
	heirHold   = 3 * time.Second        // --hold of a new cluster
	heirServes = 10 * time.Second       // for the node of a new cluster to serve
	heirFree   = 3 * time.Second        // for it to grant locks, beyond its hold
	heirDark   = time.Second            // without the node of a new cluster, in its hold
	heirLook   = 50 * time.Millisecond
	heirVote   = time.Second // for a node of the old cluster to get a vote, which it must not
)

// estate is the source of a new cluster: a backup, or the folder of one node.
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
	ends  bool           // its hold is ended by hand; else its node is away for a while meanwhile
}

// Times of backups.
const (
	lateByBackup = 400 * time.Millisecond // for a node that is behind to hear what the others write
	apartFor     = 500 * time.Millisecond // for what is on its way to a node that is cut off
	brokenEvery  = 300 * time.Millisecond // between two breaks of the connections to a node
	brokenRate   = 10_000                 // bytes per second that its clients get: too few for a backup between two breaks
	brokenTries  = 3
)

// backup has a node make a backup while clients write, and perhaps while other faults last. The variant "behind" has
// the node be late. When all faults have ended it makes a new cluster of the backup, and judges that. A node that is cut
// off from all others ("apart") makes none, and of one whose connection breaks ("broken") nothing is left.
func backup(f *field, fault Fault) (string, func()) {
	d := dice(fault.Dice)
	node := f.pick("any", fault.Dice)[0]
	dir, err := os.MkdirTemp(filepath.Dir(f.Target.Dir(node)), "backup-")
	if err != nil {
		return "backup: " + err.Error(), nil
	}
	l := openLedger(f, fault.Dice)
	busy := busyMin + time.Duration(d.IntN(busyMore))*time.Millisecond
	makes := l.backUp
	switch fault.Variant {
	case "behind":
		node = f.pick("follower", fault.Dice)[0]
		f.links.into(node, f.others(node), target.Shape{Delay: lateByBackup})
	case "apart":
		node = f.victims("any", fault.Dice)[0]
		f.links.split([]string{node}, f.others(node))
		makes = l.backUpApart
	case "broken":
		f.links.Set(node, target.Clients, target.Shape{BytesPerSecond: brokenRate})
		makes = l.backUpBroken
	}
	made := make(chan *estate, 1)
	go func() { made <- makes(node, dir, busy) }()
	return fmt.Sprintf("backup %s from %s", fault.Variant, node), func() {
		defer func() { _ = os.RemoveAll(dir) }()
		defer l.close()
		e := <-made
		f.links.Clear()
		if e != nil {
			e.ends = d.IntN(2) == 0
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
	if status, _, err := l.tool(backUpTo(file, l.Target.Reach(true, node))...); status != 0 || err != nil {
		return nil
	}
	e.later = l.lock("later")
	e.dir = filepath.Join(dir, "heir")
	e.make = []string{"restore", "--in", file, "--dir", e.dir, "--id", e.id}
	return e
}

// backUpTo returns the command that makes a backup.
func backUpTo(file string, reach []string) []string {
	return append([]string{"backup", "--out", file}, reach...)
}

// tool runs a command of the program. It fails where the time of the run ends meanwhile.
func (l *ledger) tool(args ...string) (status int, said string, err error) {
	ctx, cancel := l.untilOver(toolMax)
	defer cancel()
	return l.Target.Tool(ctx, args...)
}

// backUpApart judges that a node which reaches no other one makes no backup.
func (l *ledger) backUpApart(node, dir string, _ time.Duration) *estate {
	if len(l.others(node)) == 0 || !l.wait(apartFor) {
		return nil
	}
	status, said, err := l.tool(backUpTo(filepath.Join(dir, "file"), l.Target.Reach(true, node))...)
	switch {
	case err != nil:
	case status == 0:
		l.found.stake("backup-by-majority")
		l.found.add("backup of a minority", fmt.Sprintf("%s made a backup, and was cut off from all others", node))
	case strings.Contains(said, "LOADING ") || strings.Contains(said, "CLUSTERDOWN "):
		l.found.stake("backup-by-majority")
	}
	return nil
}

// backUpBroken judges that of a backup whose connection breaks nothing is left; or else that it is whole.
func (l *ledger) backUpBroken(node, dir string, busy time.Duration) *estate {
	l.wait(busy)
	stop := repeat(brokenEvery, func() { l.Target.Net().Reset(target.Clients, node) })
	defer stop()
	for i := range brokenTries {
		at := filepath.Join(dir, fmt.Sprint("try-", i))
		if err := os.Mkdir(at, 0o700); err != nil {
			return nil
		}
		file := filepath.Join(at, "file")
		status, said, err := l.tool(backUpTo(file, l.Target.Reach(false, node))...)
		if err != nil {
			return nil
		}
		if status != 0 && !strings.Contains(said, "is not whole") {
			continue // it had not begun
		}
		l.found.stake("backup-whole-or-none")
		left, _ := os.ReadDir(at)
		switch {
		case status == 0:
			if status, said, err := l.tool("inspect", file); err == nil && status != 0 {
				l.found.add("backup in pieces", fmt.Sprintf("`lockd backup` from %s was content, and its file is not whole: %s",
					node, strings.TrimSpace(said)))
			}
		case len(left) > 0:
			l.found.add("backup in pieces", fmt.Sprintf("`lockd backup` from %s, whose connection broke, left %v", node, left))
		}
	}
	return nil
}

// Times of the fault unread.
const (
	unreadFor    = 2 * time.Second // for which nobody reads a backup
	unreadGapMax = time.Second     // between two writes that a node does meanwhile
	unreadValues = 8               // what is backed up, beside what is there: more than one answer of a backup has
	unreadBytes  = 256 << 10
)

// unread begins a backup at a node, in a cluster that is well, and does not go on to read it for a while. Clients write
// meanwhile, at all nodes, and must not wait for that.
func unread(f *field, fault Fault) (string, func()) {
	what := "unread backup of a " + fault.Variant
	if !settled(f) {
		return what + " (not settled)", nil
	}
	node := f.pick(fault.Variant, fault.Dice)[0]
	l := openLedger(f, fault.Dice)
	defer l.close()
	if !l.fatten(node) {
		return what + ": nothing to back up", nil
	}
	begun, err := f.Target.Do(node, ledgerWait, "LOCKD", "BACKUP")
	if err != nil || len(begun.Elems) != 2 {
		return fmt.Sprintf("%s: %q, %v", what, begun.Text(), err), nil
	}
	l.measure()
	if l.wait(unreadFor) {
		for at, gap := range l.gaps() {
			f.found.stake("backup-unnoticed")
			if gap > unreadGapMax {
				f.found.add("waited for a backup", fmt.Sprintf("no write at %s for %.1f s while nobody read a backup of %s", at,
					gap.Seconds(), node))
			}
		}
	}
	l.readOut(node, begun.Elems[0].Text())
	return fmt.Sprintf("%s [%s]", what, node), nil
}

// fatten writes some large values.
func (l *ledger) fatten(via string) bool {
	for i := range unreadValues {
		set := []string{"SET", l.name("large" + strconv.Itoa(i)), strings.Repeat("x", unreadBytes), "PX", ledgerLease}
		if r, err := l.Target.Do(via, ledgerWait, set...); err != nil || r.IsErr() {
			return false
		}
	}
	return true
}

// readOut reads a backup to its end: a node has few at a time.
func (l *ledger) readOut(node, id string) {
	for until, read := time.Now().Add(toolMax), 0; time.Now().Before(until); {
		r, err := l.Target.Do(node, ledgerWait, "LOCKD", "BACKUP", id, strconv.Itoa(read))
		if err != nil || r.IsErr() || r.Text() == "" {
			return
		}
		read += len(r.Text())
	}
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
	err = f.Target.Folder(node).CopyTo(e.dir)
	restartAll(f, []string{node})
	if err != nil {
		return what + ": " + err.Error(), nil
	}
	e.later, e.ends = l.lock("later"), fault.Dice&1 == 0
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

// heir is a new cluster that is made of an estate.
type heir struct {
	*ledger
	*estate
	node *target.Single
}

// settle makes a new cluster of an estate, and judges it.
func (l *ledger) settle(e *estate) {
	if l.isOver() {
		return
	}
	node, err := l.Target.NewSingle(e.id, e.dir)
	h := &heir{l, e, node}
	if err == nil {
		err = h.refound()
	}
	began := time.Now()
	if err == nil {
		defer node.Stop()
		err = node.Start()
	}
	if err != nil && l.isOver() {
		return
	}
	if err != nil {
		l.found.add("no new cluster", fmt.Sprintf("of %s: %v", e.what, err))
		return
	}
	if entries, ok := h.read(); ok {
		h.audit(entries)
		h.judgeHeld()
		h.judgeHold(began)
		h.judgeNew()
	}
}

// fenceAbove finds the number that a command demands where the machine's clock is not known to be right.
var fenceAbove = regexp.MustCompile(`--fence-above (\d+); else`)

// refound makes the folder of a new cluster.
func (h *heir) refound() error {
	args := append(slices.Clone(h.make), "--hold", heirHold.String(), "--peer-advertise", h.node.PeerAddr)
	status, said, err := h.tool(args...)
	if n := fenceAbove.FindStringSubmatch(said); err == nil && status != 0 && n != nil {
		status, said, err = h.tool(append(args, "--fence-above", n[1])...)
	}
	if err == nil && status != 0 {
		err = fmt.Errorf("status %d: %s", status, strings.TrimSpace(said))
	}
	return err
}

// read reads what the witnesses wrote, from a new cluster: their list, and the other keys after it.
func (h *heir) read() (entries []string, ok bool) {
	var err error
	for until := time.Now().Add(heirServes); time.Now().Before(until); {
		var r target.Reply
		if r, err = h.node.Do(ledgerWait, h.reading()...); err == nil && !r.IsErr() && len(r.Elems) > 0 {
			h.found.stake("new-cluster-serves")
			return r.Texts(), true
		}
		if err == nil {
			err = errors.New(r.Text())
		}
		if !h.wait(heirLook) {
			return nil, false
		}
	}
	h.found.add("new cluster silent", fmt.Sprintf("that of %s for %s: %v", h.what, heirServes, err))
	return nil, false
}

// audit judges what the witnesses wrote, as a new cluster has it.
func (h *heir) audit(entries []string) {
	lacks, torn := h.check(entries, h.sure)
	if h.sure != nil {
		h.found.stake(h.rule)
	}
	h.found.stake("copy-of-one-moment")
	if lacks != "" {
		h.found.add(h.lacks, h.what+" "+lacks)
	}
	if torn != "" {
		h.found.add("torn copy", h.what+" "+torn)
	}
}

// judgeNew judges that a new cluster has another id than the old one, and so takes none of its nodes.
func (h *heir) judgeNew() {
	own := idIn(h.node.Do(ledgerWait, "INFO", "raft"))
	for _, node := range h.Target.Nodes() {
		old := idIn(h.Target.Do(node, time.Second, "INFO", "raft"))
		if own == "" || old == "" {
			continue
		}
		h.found.stake("new-cluster-is-new")
		if own == old {
			h.found.add("old cluster goes on", fmt.Sprintf("the cluster made of %s has the id %s, as %s has", h.what, own, node))
			return
		}
		// A node that is refused gets no vote, and the answer tells how far it is, after a while.
		r, err := h.node.Do(heirVote, "LOCKD", "ADD", h.Target.ID(node), h.Target.PeerAddr(node))
		if err == nil && !r.IsErr() {
			h.found.add("old cluster goes on", fmt.Sprintf("the cluster made of %s takes %s: %s", h.what, node, r.Text()))
		}
		return
	}
}

// clusterID finds the id of a cluster in INFO.
var clusterID = regexp.MustCompile(`cluster_id:(\w+)`)

func idIn(info target.Reply, err error) string {
	if found := clusterID.FindStringSubmatch(info.Text()); err == nil && found != nil {
		return found[1]
	}
	return ""
}

// judgeHeld judges that a lock which was held before is held with its fence: nobody else gets it, and its holder can
// renew and release it.
func (h *heir) judgeHeld() {
	if h.fence == 0 {
		return
	}
	key := h.name("held")
	other, err := h.node.Do(ledgerWait, "LOCK", key, "other", "PX", lockPx)
	if err != nil || strings.HasPrefix(other.Str, "LOADING lockd has no leader") {
		return
	}
	own, err := h.node.Do(ledgerWait, "RENEW", key, "held", "PX", lockPx)
	if err != nil {
		return
	}
	free, err := h.node.Do(ledgerWait, "UNLOCK", key, "held")
	if err != nil {
		return
	}
	h.found.stake("held-over-restores")
	if !other.Nil || own.Int != h.fence || free.Int != 1 {
		h.found.add("held lock lost", fmt.Sprintf("in the cluster made of %s: LOCK by another answers %q, RENEW by the "+
			"holder %q, whose fence was %d, and UNLOCK %q", h.what, other.Text(), own.Text(), h.fence, free.Text()))
	}
}

// judgeHold judges that a lock which the new cluster does not know is granted when the hold is over, and not before,
// and then with a fence above all that the old cluster gave. The hold ends by hand, or its node is away for a while
// meanwhile, which does not count.
func (h *heir) judgeHold(began time.Time) {
	key, held := h.name("later"), false
	for {
		r, err := h.node.Do(ledgerWait, "LOCK", key, "heir", "PX", lockPx)
		age := time.Since(began)
		switch {
		case err != nil:
			return
		case r.Kind == ':':
			h.judgeGrant(r.Int, age, held)
			return
		case strings.HasPrefix(r.Str, "LOADING this cluster was restored"):
			if !held && h.ends {
				h.endHold(key)
				return
			}
			if !held {
				dark, ok := h.darken()
				if !ok {
					return
				}
				began = began.Add(dark)
			}
			held = true
		case !strings.HasPrefix(r.Str, "LOADING "):
			h.found.add("held lock lost", fmt.Sprintf("in the cluster made of %s: LOCK of a free lock answers %q",
				h.what, r.Text()))
			return
		}
		if age > heirHold+heirServes+heirFree {
			h.found.add("hold never ends", fmt.Sprintf("in the cluster made of %s, %.1f s after its start with --hold %s: %s",
				h.what, age.Seconds(), heirHold, r.Str))
			return
		}
		if !h.wait(heirLook) {
			return
		}
	}
}

// darken takes the node of a new cluster away for a while, and waits until it serves again. It returns for how long it
// did not run.
func (h *heir) darken() (dark time.Duration, ok bool) {
	h.node.Stop()
	stopped := time.Now()
	h.wait(heirDark)
	dark = time.Since(stopped)
	if err := h.node.Start(); err != nil {
		h.found.add("new cluster silent", fmt.Sprintf("that of %s does not start again: %v", h.what, err))
		return 0, false
	}
	_, ok = h.read()
	return dark, ok
}

// endHold ends the hold of a new cluster by hand, and judges that a lock is granted then.
func (h *heir) endHold(key string) {
	set, err := h.node.Do(ledgerWait, "CONFIG", "SET", "lock-hold-until", "-1")
	if err != nil {
		return
	}
	r, err := h.node.Do(ledgerWait, "LOCK", key, "heir", "PX", lockPx)
	if err != nil {
		return
	}
	h.found.stake("hold-ended-by-hand")
	if set.Str != "OK" || r.Kind != ':' {
		h.found.add("hold not ended", fmt.Sprintf("in the cluster made of %s: CONFIG SET lock-hold-until -1 answers %q, and "+
			"LOCK then %q", h.what, set.Text(), r.Text()))
		return
	}
	h.judgeFence(r.Int)
}

// judgeGrant judges the first grant of a new cluster. held: a request before it was held back.
func (h *heir) judgeGrant(fence int64, age time.Duration, held bool) {
	if held {
		h.found.stake("hold-ends")
	}
	if held || age < heirHold {
		h.found.stake("hold-kept")
	}
	if age < heirHold {
		h.found.add("granted in the hold", fmt.Sprintf("in the cluster made of %s, when its node had run for %.1f s with "+
			"--hold %s", h.what, age.Seconds(), heirHold))
	}
	h.judgeFence(fence)
}

// judgeFence judges the fence of the first grant of a new cluster.
func (h *heir) judgeFence(fence int64) {
	before := max(h.fence, h.later, h.lock("last"))
	if before == 0 {
		return
	}
	h.found.stake("fences-rise-over-restores")
	if fence <= before {
		h.found.add("fence of before", fmt.Sprintf("the cluster made of %s gives fence %d, and the old one gave %d",
			h.what, fence, before))
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
