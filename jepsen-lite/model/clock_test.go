package model

import (
	"strings"
	"testing"

	"lockd/jepsen-lite/history"
)

// beating is a history of ten seconds in which writes are acknowledged closely.
func beating() *history.History {
	const ms = int64(1e6)
	h := &history.History{End: 10_000 * ms}
	for at := int64(0); at < 10_000; at += 50 {
		h.Ops = append(h.Ops, history.Op{Name: "beat", Start: at * ms, End: (at + 60) * ms, Outcome: history.OK})
	}
	return h
}

func isBeat(o *history.Op) bool { return o.Name == "beat" }

// A leader whose process ends may be replaced within milliseconds, but not much later than that.
func TestClockLosesTimeWhereAProcessEnds(t *testing.T) {
	const ms = int64(1e6)
	h := beating()
	h.Faults = []history.Window{{Start: 4000 * ms, End: 9000 * ms, Kind: "kill", What: "kill leader [n1]"}}
	h.Marks = []history.Event{nodeMark(4000*ms, history.Leaves, "n1"), nodeMark(8900*ms, history.Serves, "n1")}
	clock := newLogClock(h, isBeat)
	for _, c := range []struct {
		from, to int64
		lost     bool
	}{{0, 3800, false}, {3900, 4100, true}, {5300, 5400, true}, {5700, 10_000, false}} {
		if got := clock.lostMax(c.from*ms, c.to*ms); (got > 0) != c.lost {
			t.Errorf("from %d to %d ms the clock may have lost %d ms", c.from, c.to, got/ms)
		}
	}
}

// A fault that waits for a vote to be written hands leadership round: the log clock may lose time then, although writes
// were acknowledged closely.
func TestClockLosesTimeWhereLeadershipIsHandedOver(t *testing.T) {
	const ms = int64(1e6)
	for what, lost := range map[string]bool{
		"store full at vote.write [n2]":      true,
		"point drop at vote.write after 1":   true,
		"store full at log.write [n2]":       false,
		"stall log.sync stalls 3s after 10 ": false,
		"late hand-over":                     true,
		"late answers hand-over":             true,
		"late leader":                        false,
	} {
		h := beating()
		kind := "store"
		if strings.HasPrefix(what, "late") {
			kind = "late"
		}
		h.Faults = []history.Window{{Start: 4000 * ms, End: 5000 * ms, Kind: kind, What: what}}
		clock := newLogClock(h, isBeat)
		if got := clock.lostMax(3000*ms, 6000*ms); (got > 0) != lost {
			t.Errorf("%s: the clock may have lost %d ms", what, got/ms)
		}
	}
}
