package target

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Environment variables of a test build of lockd (package lockd/resp/fault).
const (
	faultListenVar = "LOCKD_FAULT_LISTEN"
	fullVar        = "LOCKD_FAULT_FULL"
	segmentVar     = "LOCKD_SEGMENT_BYTES" // size of the files of the log
)

// segmentBytes is so small that nodes fill a file of their log every few seconds.
const segmentBytes = 256 << 10

// Fault points of a test build of lockd.
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

// Points lists all fault points.
var Points = []string{
	LogWrite, LogWritten, LogSync, LogSynced, LogTrim, LogTrimmed, VoteWrite, VoteTorn, VoteWritten,
	SnapshotWrite, SnapshotRename, SnapshotRenamed, Install, Installed, Gather, Propose, Replicated, Applied,
}

// Act is the effect of an armed point when it strikes.
type Act string

// Acts.
const (
	ActKill  Act = "kill"  // the process dies, and its files stay as they are
	ActDrop  Act = "drop"  // the process dies, and loses what was not synced
	ActTear  Act = "tear"  // the process dies, and loses a part of what was not synced
	ActError Act = "error" // the operation fails with EIO
	ActFull  Act = "full"  // the operation fails with ENOSPC
	ActStall Act = "stall" // the operation takes Stall longer
	ActSlow  Act = "slow"  // the operation takes up to Stall longer, each time until the point is disarmed
)

// Strike is an effect at a point. It happens once, after the process has passed the point Skip times; ActSlow happens
// each time from then on.
type Strike struct {
	Point string
	Act   Act
	Stall time.Duration
	Skip  int
}

// Times of faults.
const (
	faultAnswerMax = 2 * time.Second
	storeStallMax  = 5 * time.Second  // a lockd node ends itself when its disk hangs longer
	obeyMax        = 10 * time.Second // for a node to end, or to answer on its fault port
)

// end returns the way in which the strike may end the process, or nil.
func (s Strike) end() *End {
	switch {
	case s.Act == ActKill || s.Act == ActDrop || s.Act == ActTear:
		return &End{"signal: killed", s.logLine()}
	case s.Act == ActFull:
		return &diskFilled
	case s.Act == ActError || s.Stall > storeStallMax:
		return &diskFailed
	}
	return nil
}

// survivable reports whether the node may go on after the strike: it does not need a snapshot that could not be written,
// since it trims its log only afterwards.
func (s Strike) survivable() bool {
	return s.Act == ActSlow || s.Act == ActStall && s.Stall <= storeStallMax ||
		s.Point == SnapshotWrite && (s.Act == ActError || s.Act == ActFull || s.Act == ActStall)
}

// logLine returns the line that the process logs when the point strikes.
func (s Strike) logLine() string { return fmt.Sprintf("fault: %s at %s", s.Act, s.Point) }

// String returns the strike as the history tells it.
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

// Armed is a strike that is armed at a point of one process.
type Armed struct {
	Strike
	Node string
	x    expectation
}

// Over reports whether the process that was armed has ended.
func (a Armed) Over() bool { return a.x.hasEnded() }

// lockdFaults implements FaultPorts.
type lockdFaults struct{ *fleet }

// Fault implements FaultPorts.
func (t lockdFaults) Fault(node, line string) (answer string, err error) {
	n := t.nodes[node]
	if !n.running() {
		return "", errNotRunning
	}
	conn, err := t.net.on().Dial(n.faultAddr, faultAnswerMax)
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

// Arm implements FaultPorts. It fails for a node that was just started and does not answer yet, so that no strike happens
// while the folder is opened.
func (t lockdFaults) Arm(node string, s Strike) (Armed, error) {
	n := t.nodes[node]
	n.mu.Lock() // no other process starts meanwhile
	defer n.mu.Unlock()
	if _, err := t.Do(node, faultAnswerMax, "PING"); err != nil {
		return Armed{}, fmt.Errorf("%s: %w", node, err)
	}
	// The expectation comes first: the point may strike before the node answers.
	x, ok := n.expect(s.end())
	if !ok {
		return Armed{}, fmt.Errorf("%s: %w", node, errNotRunning)
	}
	a := Armed{s, node, x}
	_, err := t.Fault(node, fmt.Sprintf("arm %s %s %d %d", s.Point, s.Act, s.Stall.Milliseconds(), s.Skip))
	if err != nil && !n.loggedSince(x, s.logLine()) {
		n.forget(x)
		return Armed{}, fmt.Errorf("%s: %w", node, err)
	}
	return a, nil
}

// Disarm implements FaultPorts.
func (t lockdFaults) Disarm(a Armed) { t.disarm(a, obeyMax) }

func (t lockdFaults) disarm(a Armed, patience time.Duration) {
	n := t.nodes[a.Node]
	defer n.forget(a.x)
	t.reset(a.Node, a.x)
	switch {
	case a.x.hasEnded() || !n.loggedSince(a.x, a.logLine()):
	case a.survivable():
		a.x.ended(a.Stall)
	case !a.x.ended(patience):
		n.report("goes on after %q", a.logLine())
	}
}

// ResetFaults implements FaultPorts.
func (t lockdFaults) ResetFaults(node string) {
	if x, ok := t.nodes[node].expect(nil); ok {
		t.reset(node, x)
	}
}

// reset makes a process disarm its points and correct its clock. A process that has ended needs no reset.
func (t lockdFaults) reset(node string, x expectation) {
	var err error
	for until := time.Now().Add(obeyMax); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		t.nodes[node].pause(false) // a paused node cannot obey
		if x.hasEnded() {
			return
		}
		if _, err = t.Fault(node, "reset"); err == nil {
			return
		}
	}
	t.nodes[node].report("does not answer on its fault port for %s: %v", obeyMax, err)
}

// Die implements FaultPorts.
func (t lockdFaults) Die(node string, how Act) { t.die(node, how, obeyMax) }

func (t lockdFaults) die(node string, how Act, patience time.Duration) {
	n := t.nodes[node]
	n.pause(false)
	obeyed := n.finish(patience, func(now Process) {
		if _, err := t.Fault(node, "die "+string(how)); errors.Is(err, syscall.ECONNREFUSED) {
			now.Signal(syscall.SIGKILL) // it was only just started, and has nothing to lose
		}
	})
	if !obeyed {
		n.report("did not die within %s", patience)
	}
}
