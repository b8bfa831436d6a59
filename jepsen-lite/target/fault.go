package target

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"lockd/internal/process"
)

// What the environment of a test build of lockd says (package lockd/resp/fault).
const (
	faultListenVar = "LOCKD_FAULT_LISTEN"
	fullVar        = "LOCKD_FAULT_FULL"
	segmentVar     = "LOCKD_SEGMENT_BYTES" // of the files of the log
)

// segmentBytes lets nodes fill a file of their log every few seconds.
const segmentBytes = 256 << 10

// Points at which a test build of lockd can be struck, with what leads there.
const (
	LogWrite        = "log.write"
	LogWritten      = "log.written"
	LogSync         = "log.sync"
	LogSynced       = "log.synced"
	LogTrim         = "log.trim"
	LogTrimmed      = "log.trimmed"
	VoteWrite       = "vote.write"
	VoteTorn        = "vote.torn"
	VoteWritten     = "vote.written"
	SnapshotWrite   = "snapshot.write"
	SnapshotRename  = "snapshot.rename"
	SnapshotRenamed = "snapshot.renamed"
	Install         = "install"
	Installed       = "installed"
	Gather          = "gather"
	Propose         = "propose"
	Replicated      = "replicated"
	Applied         = "applied"
)

// Points lists all of them.
var Points = []string{
	LogWrite, LogWritten, LogSync, LogSynced, LogTrim, LogTrimmed, VoteWrite, VoteTorn, VoteWritten,
	SnapshotWrite, SnapshotRename, SnapshotRenamed, Install, Installed, Gather, Propose, Replicated, Applied,
}

// Act is what an armed point does when it strikes.
type Act string

// Acts.
const (
	ActKill  Act = "kill"  // the process dies, its files as they are
	ActDrop  Act = "drop"  // it dies, and what was not synced is lost
	ActTear  Act = "tear"  // it dies, and of what was not synced a part is there
	ActError Act = "error" // the operation fails with EIO
	ActFull  Act = "full"  // the operation fails with ENOSPC
	ActStall Act = "stall" // the operation takes Stall longer
	ActSlow  Act = "slow"  // it takes up to Stall longer, each time until it is disarmed
)

// Strike is what happens once at a point, after it was passed Skip times; or, if it is
// slow, each time from then on.
type Strike struct {
	Point string
	Act   Act
	Stall time.Duration
	Skip  int
}

// Times of faults.
const (
	faultAnswerMax = 2 * time.Second
	storeStallMax  = 5 * time.Second  // lockd's own: a disk that hangs longer ends the node
	obeyMax        = 10 * time.Second // for a node that must end, or answer on its fault port
)

// end is how the strike ends the process, nil if it need not.
func (s Strike) end() *End {
	switch {
	case s.Act == ActKill || s.Act == ActDrop || s.Act == ActTear:
		return &End{"signal: killed", s.told()}
	case s.Act == ActFull:
		return &diskFilled
	case s.Act == ActError || s.Stall > storeStallMax:
		return &diskFailed
	}
	return nil
}

// survivable reports whether the node may go on all the same: a snapshot that could
// not be written, or not yet, is missed by nobody, as long as the log is not trimmed.
func (s Strike) survivable() bool {
	return s.Act == ActSlow || s.Act == ActStall && s.Stall <= storeStallMax ||
		s.Point == SnapshotWrite && (s.Act == ActError || s.Act == ActFull || s.Act == ActStall)
}

// told is what the process says when the point strikes.
func (s Strike) told() string { return fmt.Sprintf("fault: %s at %s", s.Act, s.Point) }

// String is the strike as the nemesis reports it.
func (s Strike) String() string {
	text := fmt.Sprintf("%s at %s", s.Act, s.Point)
	switch s.Act {
	case ActStall:
		text = fmt.Sprintf("%s stalls %s", s.Point, s.Stall)
	case ActSlow:
		text = fmt.Sprintf("%s takes up to %s longer", s.Point, s.Stall)
	}
	if s.Skip > 0 {
		text += fmt.Sprintf(" after %d", s.Skip)
	}
	return text
}

// Armed is a strike that waits at a point of one process.
type Armed struct {
	Strike
	Node string
	x    expectation
}

// Over reports whether the process that was armed has ended.
func (a Armed) Over() bool { return a.x.hasEnded() }

// Fault implements Target.
func (t *lockd) Fault(node, line string) (answer string, err error) {
	n := t.nodes[node]
	if !n.running() {
		return "", errNotRunning
	}
	conn, err := net.DialTimeout("tcp", n.faultAddr, faultAnswerMax)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(faultAnswerMax))
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	answer, err = bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", err
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(answer), " ")
	if word != "ok" {
		return "", errors.New(rest)
	}
	return rest, nil
}

// Arm implements Target. It waits for no node that has just been started: what
// fails while the folder is opened is another matter.
func (t *lockd) Arm(node string, s Strike) (Armed, error) {
	n := t.nodes[node]
	n.mu.Lock() // nobody starts another process meanwhile
	defer n.mu.Unlock()
	if _, err := t.Do(node, faultAnswerMax, "PING"); err != nil {
		return Armed{}, fmt.Errorf("%s: %w", node, err)
	}
	// The expectation comes first: the point may strike before its answer is here.
	x, ok := n.expect(s.end())
	if !ok {
		return Armed{}, fmt.Errorf("%s: %w", node, errNotRunning)
	}
	a := Armed{s, node, x}
	_, err := t.Fault(node, fmt.Sprintf("arm %s %s %d %d", s.Point, s.Act, s.Stall.Milliseconds(), s.Skip))
	if err != nil && !n.saidSince(x, s.told()) {
		n.forget(x)
		return Armed{}, fmt.Errorf("%s: %w", node, err)
	}
	return a, nil
}

// Disarm implements Target.
func (t *lockd) Disarm(a Armed) { t.disarm(a, obeyMax) }

func (t *lockd) disarm(a Armed, patience time.Duration) {
	n := t.nodes[a.Node]
	defer n.forget(a.x)
	t.reset(a.Node, a.x)
	switch {
	case a.x.hasEnded() || !n.saidSince(a.x, a.told()):
	case a.survivable():
		a.x.ended(a.Stall)
	case !a.x.ended(patience):
		n.accuse("goes on after %q", a.told())
	}
}

// Fill implements Target. A process that has met the full disk may end by it later, too.
func (t *lockd) Fill(node string, full bool) {
	n := t.nodes[node]
	n.mu.Lock() // nobody starts it meanwhile
	defer n.mu.Unlock()
	n.full = full
	if !full {
		_ = os.Remove(n.fullFile)
		return
	}
	n.expect(&diskFilled)
	if err := os.WriteFile(n.fullFile, nil, 0o600); err != nil {
		n.accuse("cannot be filled: %v", err)
	}
}

// ResetFaults implements Target.
func (t *lockd) ResetFaults(node string) {
	if x, ok := t.nodes[node].expect(nil); ok {
		t.reset(node, x)
	}
}

// reset has a process disarm its points and set its clock right. One that has ended
// needs no reset.
func (t *lockd) reset(node string, x expectation) {
	var err error
	for until := time.Now().Add(obeyMax); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		t.Resume(node) // a paused node cannot obey
		if x.hasEnded() {
			return
		}
		if _, err = t.Fault(node, "reset"); err == nil {
			return
		}
	}
	t.nodes[node].accuse("does not answer on its fault port for %s: %v", obeyMax, err)
}

// Die implements Target.
func (t *lockd) Die(node string, how Act) { t.die(node, how, obeyMax) }

func (t *lockd) die(node string, how Act, patience time.Duration) {
	t.Resume(node)
	n := t.nodes[node]
	obeyed := n.finish(patience, func(now *process.Process) {
		if _, err := t.Fault(node, "die "+string(how)); errors.Is(err, syscall.ECONNREFUSED) {
			now.Signal(syscall.SIGKILL) // it has only just been started: there is nothing to lose
		}
	})
	if !obeyed {
		n.accuse("did not die within %s", patience)
	}
}
