package model

import (
	"testing"

	"lockd/jepsen-lite/history"
)

// Leadership is handed round where a fault waits for a vote to be written: there the log
// clock may lose time though writes were acknowledged closely.
func TestClockLosesTimeWhereLeadershipIsHandedOver(t *testing.T) {
	const ms = int64(1e6)
	for what, lost := range map[string]bool{
		"store full at vote.write [n2]":      true,
		"point drop at vote.write after 1":   true,
		"store full at log.write [n2]":       false,
		"stall log.sync stalls 3s after 10 ": false,
	} {
		h := &history.History{End: 10_000 * ms}
		for at := int64(0); at < 10_000; at += 50 {
			h.Ops = append(h.Ops, history.Op{Name: "beat", Start: at * ms, End: (at + 60) * ms, Outcome: history.OK})
		}
		h.Faults = []history.Window{{Start: 4000 * ms, End: 5000 * ms, Kind: "store", What: what}}
		clock := newLogClock(h, func(o *history.Op) bool { return o.Name == "beat" })
		if got := clock.lostMax(3000*ms, 6000*ms); (got > 0) != lost {
			t.Errorf("%s: the clock may have lost %d ms", what, got/ms)
		}
	}
}
