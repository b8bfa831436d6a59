package target

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A claim that a process has ended is right if the process ended just before it or long ago, or if its successor has
// only just begun. An end is noticed if it is claimed within a second.
func TestEnds(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	lives := []life{
		{id: "n1", from: at(0)},
		{id: "n2", from: at(0), to: at(100)}, {id: "n2", from: at(100.5)},
		{id: "n3", from: at(0), to: at(50)},
		{id: "n4", from: at(0), to: at(10), told: true}, {id: "n4-1", from: at(20)},
		{id: "n6", from: at(0), ordered: true, listened: at(96)},
		{id: "n7", from: at(0), to: at(50), ordered: true, listened: at(49.9)},
		{id: "n8", from: at(0), to: at(10), told: true}, {id: "n8", from: at(10)},
	}
	net := NewNet()
	net.apart = map[string][]time.Time{"n4": {at(70)}}
	net.Link("n5", "n8").shuts = []gap{{at(9), at(30)}}
	net.Link("n8", "n5").shuts = []gap{{at(20), at(40)}, {from: at(100)}}
	for _, c := range []struct {
		of      string
		at      float64
		noticed int
		wrong   bool
	}{
		{"n1", 60, 0, true},
		{"n1", 0.5, 0, true},
		{"n2", 60, 0, true}, // it was to end
		{"n2", 100.03, 1, false},
		{"n2", 99.99, 1, false}, // this program heard of it later
		{"n2", 105, 0, false},   // the node was paused
		{"n2", 130, 0, true},
		{"n3", 50.9, 1, false},
		{"n3", 900, 0, false}, // another leader looked for it
		{"n4", 900, 0, false},
		{"n4", 10.1, 0, false}, // it was counted before
		{"n4-1", 60, 0, true},
		{"n4-1", 70.5, 0, false}, // it looked dead
		{"n4-1", 69.5, 0, true},  // not yet
		{"n4-1", 73, 0, true},    // no longer
		{"n1", 70.5, 0, true},    // another node did
		{"n6", 94.9, 0, true},
		{"n6", 95.9, 0, true},  // it stops, and serves its peers until it has closed its port
		{"n6", 96.1, 0, false}, // its disk hangs
		{"n7", 49.8, 0, true},
		{"n7", 49.95, 1, false},
		{"n7", 50.1, 1, false},
		{"n8", 54, 0, false}, // they were apart from before its start to 40 s
		{"n8", 56, 0, true},
		{"n8", 110, 0, true}, // they have met
	} {
		e := judgeEnds(lives, []claim{{"n5", c.of, at(c.at), "so"}}, net)
		if e.Ended != 3 || e.Noticed != c.noticed || len(e.Wrong) > 0 != c.wrong {
			t.Errorf("%s at %.2f s: %+v", c.of, c.at, e)
		}
	}
}

// Each line of a log is read once for claims, and each end of a process is counted once.
func TestEndsOfProcesses(t *testing.T) {
	p := shell(t, "exec sleep 60")
	n := &lockdNode{}
	n.name, n.path, n.logPath = "n1", p.path, p.logPath
	n.setArgs("n1", p.args)
	t.Cleanup(n.kill)
	l := newLockdOver(&fleet{names: []string{"n1"}, net: NewNet(), nodes: map[string]*lockdNode{"n1": n}}, nil)
	say := func(of string) {
		t.Helper()
		log, err := os.OpenFile(p.logPath, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		lines := `time=WHEN level=INFO msg="the process of the leader has ended: this node stands for election" leader=OF term=4
time=WHEN level=INFO msg="there is no leader" term=4 why="the process of OF has ended"
time=WHEN level=WARN msg="the process of a member has ended: start it, or look at its log" member=OF
`
		when := time.Now().Format(time.RFC3339Nano)
		if _, err := log.WriteString(strings.NewReplacer("WHEN", when, "OF", of).Replace(lines)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		if e := l.Ends(); e.Ended != 0 || e.Noticed != 0 || len(e.Wrong) > 0 {
			t.Errorf("before it has ended: %+v", e)
		}
		n.kill()
		say("n1")
		if e := l.Ends(); e.Ended != 1 || e.Noticed != 1 || len(e.Wrong) > 0 {
			t.Errorf("when it has ended: %+v", e)
		}
	}
	n.proc.mu.Lock()
	n.lives = append(n.lives, life{id: "n2", from: time.Now().Add(-time.Hour)})
	n.proc.mu.Unlock()
	say("n2")
	if e := l.Ends(); e.Ended != 0 || len(e.Wrong) != 2 || !strings.HasPrefix(e.Wrong[0], "n1 says so of a process that ran since 3600") {
		t.Errorf("of one that lives: %+v", e)
	}
	if e := l.Ends(); len(e.Wrong) > 0 {
		t.Errorf("told again: %+v", e)
	}
}
