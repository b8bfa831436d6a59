package clustertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/resp"
	"lockd/resp/fault"
)

// A power failure takes what each store has not synced, but for a drawn beginning; kill -9 takes nothing.
func TestPowerTakesWhatIsNotSynced(t *testing.T) {
	for _, tt := range []struct {
		how                    death
		left                   int // of the three writes of each store
		log, votes, snapshotsN int
	}{
		{kill, 0, 3, 3, 2}, {drop, 2, 0, 0, 0}, {tear, 0, 0, 0, 0}, {tear, 2, 2, 2, 2}, {tear, 3, 3, 3, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDisk("n", "d", func(int) int { return tt.left })
			p := &Process{disk: d, faults: &fault.Set{}, dead: make(chan struct{})}
			m := mount{d, p}
			d.SetLatency(time.Second)
			for i := range 3 {
				go func() { _ = memoryLog{m}.StoreLog(&raft.Log{Index: uint64(i + 1)}) }()
				go func() { _ = memoryVotes{m}.SetUint64(fmt.Append(nil, i), 1) }()
				go func() {
					sink, err := memorySnapshots{m}.Create(1, uint64(i+1), 1, raft.Configuration{}, 0, nil)
					if err == nil {
						err = sink.Close()
					}
					if err != nil {
						t.Error(err)
					}
				}()
				time.Sleep(10 * time.Millisecond)
			}
			d.leave(p, tt.how, WasKilled, nil)
			close(p.dead)
			left := d.stores
			if log, votes, snaps := len(left.log.content.entries), len(left.votes.content), len(left.snapshots.content); log !=
				tt.log || votes != tt.votes || snaps != tt.snapshotsN {
				t.Errorf("%v with %d left: %d entries, %d votes, %d snapshots", tt.how, tt.left, log, votes, snaps)
			}
			if len(p.own.log.content.entries) != 3 {
				t.Errorf("what is left of the process reads %d entries", len(p.own.log.content.entries))
			}
		})
	}
}

// Votes and snapshots that were never synced are gone after a power failure, and the node does not start on the rest.
func TestLyingStoresAreRefused(t *testing.T) {
	for store, tt := range map[Store]struct {
		do   func(w *World)
		says string
	}{
		Votes: {
			func(w *World) { say(w, leaderOf(w), "LOCKD", "TRANSFER") },
			"the record of votes has term",
		},
		Snapshots: {
			func(w *World) {
				for range 4 {
					say(w, "n2", "SET", "k", "v")
					time.Sleep(100 * time.Millisecond) // n2 has it, too, not only a majority
					say(w, "n2", "LOCKD", "SNAPSHOT")
				}
			},
			"the log begins at entry",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := startWorld(t, 1)
			time.Sleep(10 * time.Second) // whatever was written before is on the disk
			for _, id := range worldIDs {
				w.Disk(id).SetLying(store, true)
			}
			tt.do(w)
			time.Sleep(time.Second) // the log is trimmed, and entries of a new term are stored
			refused := 0
			for _, id := range worldIDs {
				if err := w.LoseUnsynced(id); err != nil {
					t.Fatal(err)
				}
				w.Disk(id).SetLying(store, false)
				if err := w.Start(id); err != nil {
					if refused++; !strings.Contains(err.Error(), tt.says) {
						t.Errorf("%s does not start: %v", id, err)
					}
				}
			}
			if refused == 0 {
				t.Errorf("%s: no node noticed the loss", store)
			}
		})
	}
}

// A node does not start on a log or votes with a flipped bit. It goes back to the snapshot before a damaged one.
func TestRot(t *testing.T) {
	for seed, tt := range []struct {
		store Store
		says  string // "": it starts
	}{{Log, "its checksum does not match"}, {Votes, "its checksum does not match"}, {Snapshots, ""}} {
		synctest.Test(t, func(t *testing.T) {
			w := startWorld(t, uint64(seed))
			for range 3 {
				say(w, "n2", "SET", "k", "v")
				say(w, "n2", "LOCKD", "SNAPSHOT")
			}
			if err := w.Kill("n2"); err != nil {
				t.Fatal(err)
			}
			what := w.Disk("n2").Rot(tt.store)
			err := w.Start("n2")
			switch {
			case what == "":
				t.Errorf("nothing of %s is damaged", tt.store)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("%s is damaged: %v", what, err)
			case tt.says == "" && (err != nil || say(w, "n2", "GET", "k") != `"v"`):
				t.Errorf("%s is damaged: %v", what, err)
			}
		})
	}
}

// A node ends itself where its disk is full or hangs, with a sentence.
func TestFullAndHungDisks(t *testing.T) {
	for says, set := range map[string]func(d *Disk, on bool){
		"the disk is full, this node stops":    (*Disk).SetFull,
		"has not returned for 5s":              (*Disk).SetHung, // a write of the log or of a vote
		"the disk cannot be trusted, this nod": func(d *Disk, on bool) { d.SetLatency(map[bool]time.Duration{true: time.Minute}[on]) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := startWorld(t, 1)
			set(w.Disk("n2"), true)
			say(w, "n1", "SET", "k", "v")
			<-w.Ended("n2")
			if why := w.Why("n2"); why == nil || !strings.Contains(why.Error(), says) {
				t.Errorf("it ended itself: %v, want %s", why, says)
			}
			set(w.Disk("n2"), false)
			if err := w.Start("n2"); err != nil {
				t.Error(err)
			}
			if got := say(w, "n2", "GET", "k"); got != `"v"` {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// To a paused node no time passes: it neither gives up leading nor believes that it leads for longer than the others
// allow once it goes on.
func TestPausedNodesClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWorld(t, 1)
		was := leaderOf(w)
		if err := w.Pause(was); err != nil {
			t.Fatal(err)
		}
		role := func() string {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			res := w.Node(was).Do(ctx, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"ROLE"}}}})
			return res.Replies[0].Elems[0].Str
		}
		m, err := w.machine(was)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		clock := processClock{m.clock, m.running(), began}
		before := clock.Wall()
		for range 10 {
			time.Sleep(time.Second)
			if got := role(); got != "master" {
				t.Fatalf("while it is paused its role is %s", got)
			}
		}
		if clock.Wall() != before || clock.Monotonic() != 0 {
			t.Errorf("its clocks went on by %d µs and %s", clock.Wall()-before, clock.Monotonic())
		}
		other := leaderBeside(w, was)
		if got := say(w, other, "SET", "k", "new"); got != "OK" {
			t.Fatal(got)
		}
		stale := make(chan string)
		go func() { stale <- say(w, was, "GET", "k") }()
		time.Sleep(time.Second)
		if err := w.Resume(was); err != nil {
			t.Fatal(err)
		}
		if got := <-stale; got != `"new"` {
			t.Errorf("after its pause it reads %s", got)
		}
		if got, want := clock.Monotonic(), time.Since(began); got != want {
			t.Errorf("its clock has gone on by %s, want %s", got, want)
		}
	})
}

// leaderBeside waits until another node than one that is paused leads.
func leaderBeside(w *World, paused string) string {
	for ; ; time.Sleep(50 * time.Millisecond) {
		for _, id := range worldIDs {
			if id != paused && strings.HasPrefix(say(w, id, "ROLE"), `1) "master"`) {
				return id
			}
		}
	}
}
