package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/snapshot"
	"lockd/cluster/store"
	"lockd/resp"
)

// onDisk gives each node of a test cluster a real data folder.
func onDisk(t *testing.T, tune func(*Config)) func(*Config) {
	dir := t.TempDir()
	return func(cfg *Config) {
		cfg.Disk, cfg.Dir = nil, filepath.Join(dir, cfg.ID)
		if tune != nil {
			tune(cfg)
		}
	}
}

func snapshotsOf(n *testNode, dir func(string) string) []string {
	names, _ := filepath.Glob(filepath.Join(dir(n.id), "snapshots", "*-*-*"))
	slices.Sort(names)
	return names
}

// A node that restarts has every acknowledged write: from its log, from its
// snapshot and the log after it, and from an older snapshot when the newest is
// damaged or gone.
func TestRestart(t *testing.T) {
	for _, kind := range []string{store.WAL, store.BoltDB} {
		for _, harm := range []string{"nothing", "newest snapshot gone", "newest snapshot damaged"} {
			t.Run(kind+"/"+harm, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { restart(t, kind, harm) })
			})
		}
	}
}

func restart(t *testing.T, kind, harm string) {
	config := onDisk(t, func(cfg *Config) { cfg.LogStore = kind })
	var folder string
	c := startCluster(t, 1, config, func(cfg *Config) { folder = cfg.Dir })
	defer c.close()
	n := c.settle()
	for round := range 3 {
		for i := range 20 {
			c.expect(n, fmt.Sprintf("SET r%dk%d v", round, i), "+OK")
		}
		c.expect(n, "LOCKD SNAPSHOT", "+OK")
	}
	c.expect(n, "SET last v", "+OK")
	before := n.do("LOCKD HASH")
	c.kill("n1")
	snaps := snapshotsOf(n, func(string) string { return folder })
	if len(snaps) != store.SnapshotsKept {
		t.Fatalf("snapshots: %q", snaps)
	}
	newest := snaps[len(snaps)-1]
	switch harm {
	case "newest snapshot gone":
		if err := os.RemoveAll(newest); err != nil {
			t.Fatal(err)
		}
	case "newest snapshot damaged":
		if err := os.WriteFile(filepath.Join(newest, "state.bin"), []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.start("n1")
	c.expect(n, "GET last", "$1 v")
	if after := n.do("LOCKD HASH"); after != before {
		t.Errorf("the state was %q and is %q", before, after)
	}
	c.expect(n, "SET more v", "+OK")
}

// slowMachine takes its time over every entry, as one does that runs long scripts.
type slowMachine struct{ Machine }

func (m slowMachine) Apply(at resp.Stamp, reqs []resp.Request) ([]resp.Result, []resp.Message) {
	time.Sleep(100 * time.Millisecond)
	return m.Machine.Apply(at, reqs)
}

// The log is trimmed: by count and by bytes of entries, and by the work that a
// restart would have to do again, without anybody asking.
func TestLogIsTrimmed(t *testing.T) {
	for name, tune := range map[string]func(*Config){
		"entries": func(cfg *Config) { cfg.SnapshotEntries = 50 },
		"bytes":   func(cfg *Config) { cfg.SnapshotBytes = 10000 },
		"work":    func(cfg *Config) { cfg.Machine = slowMachine{cfg.Machine} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startCluster(t, 1, onDisk(t, tune))
				defer c.close()
				n := c.leader()
				for range 500 {
					c.expect(n, "SET a "+strings.Repeat("x", 100), "+OK")
					synctest.Wait()
				}
				first, err := n.stores.Log.FirstIndex()
				if err != nil || first < 200 {
					t.Errorf("after 500 entries the log begins at %d (%v)", first, err)
				}
			})
		})
	}
}

// largeMachine has an image of many pieces, each of which is work.
type largeMachine struct{ Machine }

const (
	largePieces = 100
	largeWork   = 10 * time.Millisecond // for each
)

func (m largeMachine) Snapshot() func(io.Writer) error {
	write := m.Machine.Snapshot()
	return func(w io.Writer) error {
		for range largePieces {
			time.Sleep(largeWork)
			if _, err := w.Write(make([]byte, snapshot.Piece)); err != nil {
				return err
			}
		}
		return write(w)
	}
}

// A snapshot takes its time, which does not count as its work; a node that stops does not
// wait for it.
func TestSnapshotIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1, onDisk(t, func(cfg *Config) { cfg.Machine = largeMachine{cfg.Machine} }))
		defer c.close()
		n := c.leader()
		c.expect(n, "SET a 1", "+OK")
		const work = largePieces * largeWork
		began := time.Now()
		c.expect(n, "LOCKD SNAPSHOT", "+OK")
		if took := time.Since(began); took < (snapshot.Part-1)*work || took > (snapshot.Part+1)*work {
			t.Errorf("a snapshot of %v of work took %v", work, took)
		}
		if cost := time.Duration(n.snapshots.Cost.Load()); cost < work/2 || cost > 2*work {
			t.Errorf("a snapshot of %v of work counts for %v", work, cost)
		}
		c.expect(n, "SET a 2", "+OK")
		reply := make(chan string, 1)
		go func() { reply <- n.do("LOCKD SNAPSHOT") }()
		time.Sleep(work)
		began = time.Now()
		c.kill("n1")
		if took := time.Since(began); took > work/10 {
			t.Errorf("the node has stopped %v later", took)
		}
		if got := <-reply; !strings.HasPrefix(got, "-") {
			t.Errorf("the snapshot was answered %q", got)
		}
	})
}

// Who waits for a snapshot, or for the one before it, is let go when its client is gone;
// what has begun is brought to its end.
func TestSnapshotOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1, onDisk(t, func(cfg *Config) { cfg.Machine = largeMachine{cfg.Machine} }))
		defer c.close()
		n := c.leader()
		c.expect(n, "SET a 1", "+OK")
		const work = largePieces * largeWork
		gone, hangUp := context.WithTimeout(context.Background(), work)
		defer hangUp()
		began := time.Now()
		var clients sync.WaitGroup
		for _, line := range []string{"SAVE", "LOCKD SNAPSHOT"} {
			clients.Go(func() {
				if got := n.doCtx(gone, line); !strings.HasPrefix(got, "-") {
					t.Errorf("%s was answered %q", line, got)
				}
				if took := time.Since(began); took != work {
					t.Errorf("%s: its client has gone after %v, and it waited %v", line, work, took)
				}
			})
		}
		clients.Wait()
		if !n.snapshots.Saving.Load() {
			t.Error("the snapshot does not go on")
		}
		time.Sleep(snapshot.Part * work)
		if n.snapshots.Saving.Load() || !n.snapshots.SaveOK.Load() || n.raft.Stats()["last_snapshot_index"] == "0" {
			t.Error("the snapshot has not come to its end")
		}
	})
}

// balkyMachine has an image that takes its time, and cannot be written so many times.
type balkyMachine struct {
	Machine
	fails, tries *atomic.Int32
}

const balkyWork = 100 * time.Millisecond

func (m balkyMachine) Snapshot() func(io.Writer) error {
	write := m.Machine.Snapshot()
	return func(w io.Writer) error {
		m.tries.Add(1)
		time.Sleep(balkyWork)
		if m.fails.Add(-1) >= 0 {
			return errors.New("no space at the moment")
		}
		return write(w)
	}
}

// A snapshot that could not be taken is due until there is one, and is tried again after a
// pause, whether or not there is something to apply meanwhile.
func TestSnapshotIsTriedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		why  []string // command lines after which one is due
		busy bool
	}{
		"idle":  {why: slices.Repeat([]string{"SET a x"}, 50)},
		"busy":  {why: slices.Repeat([]string{"SET a x"}, 50), busy: true},
		"asked": {why: []string{"SET a x", "BGSAVE"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const failures = 3
				var fails, tries atomic.Int32
				fails.Store(failures)
				c := startCluster(t, 1, onDisk(t, func(cfg *Config) {
					cfg.SnapshotEntries, cfg.Machine = 50, balkyMachine{cfg.Machine, &fails, &tries}
				}))
				defer c.close()
				n := c.leader() // and no hash: that is an image, too
				for _, line := range tt.why {
					n.do(line)
				}
				began := time.Now()
				for snaps, _ := n.stores.Snaps.List(); len(snaps) == 0; snaps, _ = n.stores.Snaps.List() {
					if time.Since(began) > time.Minute {
						t.Fatalf("no snapshot a minute and %d tries later", tries.Load())
					}
					if time.Sleep(10 * time.Millisecond); tt.busy {
						c.expect(n, "SET a y", "+OK")
					}
				}
				if took := time.Since(began); tries.Load() != failures+1 || took < failures*snapshot.RetryPause || took > (failures+1)*snapshot.RetryPause {
					t.Errorf("it was taken after %d tries and %v", tries.Load(), took)
				}
			})
		})
	}
}

// INFO counts since the last snapshot that was taken. That another was asked for is no
// part of it.
func TestInfoSinceSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails, tries atomic.Int32
		c := startCluster(t, 1, onDisk(t, func(cfg *Config) { cfg.Machine = balkyMachine{cfg.Machine, &fails, &tries} }))
		defer c.close()
		n := c.settle()
		c.expect(n, "LOCKD SNAPSHOT", "+OK")
		info := func(when string, entries, bytesMin, bytesMax uint64) {
			t.Helper()
			var gotEntries, gotBytes uint64
			for _, field := range strings.Fields(n.do("INFO persistence")) {
				fmt.Sscanf(field, "rdb_changes_since_last_save:%d", &gotEntries)
				fmt.Sscanf(field, "aof_current_size:%d", &gotBytes)
			}
			if gotEntries != entries || gotBytes < bytesMin || gotBytes > bytesMax {
				t.Errorf("%s: %d entries with %d bytes", when, gotEntries, gotBytes)
			}
		}
		info("after a snapshot", 0, 0, 0)
		for range 3 {
			c.expect(n, "SET a x", "+OK")
		}
		info("after three entries", 3, 3, 1000)
		fails.Store(1)
		for range 2 {
			c.expect(n, "BGSAVE", "+Background saving started")
			time.Sleep(balkyWork / 4)
		}
		info("while one is taken and another asked for", 0, 0, 0)
		c.expect(n, "SET a x", "+OK")
		time.Sleep(snapshot.RetryPause / 2)
		info("after one that failed and another", 4, 4, 1000)
		time.Sleep(2 * snapshot.RetryPause)
		info("after the one that was asked for", 0, 0, 0)
	})
}

// A follower that was away while the log was trimmed gets a snapshot from the
// leader, tells its subscribers, and goes on.
func TestFollowerIsBroughtUpBySnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// raft-wal still hands out trimmed entries while their file is there.
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.SnapshotEntries, cfg.LogStore = 20, store.BoltDB }))
		defer c.close()
		leader := c.settle()
		away := c.others(leader)[0]
		c.cut(away)
		for i := range 200 {
			c.expect(leader, fmt.Sprintf("SET k%d v", i%7), "+OK")
			synctest.Wait()
		}
		c.expect(leader, "CONFIG on", "+OK")
		c.net.Heal()
		c.expect(away, "SET after v", "+OK")
		c.agree()
		c.expect(away, "PUBLISH ch live", ":0")
		time.Sleep(time.Second)
		if got := away.pub.said(); got != "conf= DROP conf= conf=on ch=live" {
			t.Errorf("heard %q", got)
		}
		if away.machine.index == 0 || away.raft.Stats()["last_snapshot_index"] == "0" {
			t.Error("it was not brought up by a snapshot")
		}
	})
}

// A node that was brought up by a leader's snapshot has a second one soon, because
// its log does not reach back behind the first: it starts without either, and where
// it has started with one it gets another.
func TestInstalledSnapshotHasSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dirs := map[string]string{}
		c := startCluster(t, 3, onDisk(t, func(cfg *Config) { cfg.SnapshotEntries, cfg.LogStore = 20, store.BoltDB }), func(cfg *Config) { dirs[cfg.ID] = cfg.Dir })
		defer c.close()
		leader := c.settle()
		away := c.others(leader)[0]
		c.cut(away)
		for i := range 200 {
			c.expect(leader, fmt.Sprintf("SET k%d v", i%7), "+OK")
			synctest.Wait()
		}
		c.net.Heal()
		for range 2 {
			c.agree()
			for tries := 0; away.snapshots.LacksSpare(); tries++ {
				if tries == 10 {
					t.Fatalf("snapshots: %q", snapshotsOf(away, func(id string) string { return dirs[id] }))
				}
				time.Sleep(snapshot.RetryPause)
				c.expect(leader, "SET more v", "+OK")
			}
			c.kill(away.id)
			snaps := snapshotsOf(away, func(id string) string { return dirs[id] })
			if err := os.RemoveAll(snaps[len(snaps)-1]); err != nil {
				t.Fatal(err)
			}
			c.start(away.id)
		}
		c.agree()
	})
}

// A data folder knows its cluster: a node that is started with another one's
// folder is refused, and so is a second process on the same folder.
func TestFolderInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := startCluster(t, 1, func(cfg *Config) { cfg.Disk, cfg.Dir = nil, dir })
		defer c.close()
		c.settle()
		_, err := Open(Config{ID: "n1", PeerListen: "n9:1", Dir: dir, Machine: newTestMachine(), Publisher: &testPublisher{}, Network: c.net.From("n9:1")})
		if err == nil || !strings.Contains(err.Error(), "is in use by another lockd process") {
			t.Errorf("a second process: %v", err)
		}
	})
}

// A node that stops while a snapshot waits for Raft, and Raft for the disk, tells Raft so: its goroutines end once the disk
// goes on, or the process ends.
func TestStopWhileSnapshotWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 1)
		defer c.close()
		n := c.settle()
		n.disk.gate.close()
		go n.do("SET a 1")
		synctest.Wait()
		go func() { _ = n.snapshots.Save(t.Context()) }()
		synctest.Wait()
		if !n.snapshots.Saving.Load() {
			t.Fatal("no snapshot is under way")
		}
		stopped := make(chan struct{})
		go n.stopOnce.Do(func() {
			defer close(stopped)
			_ = n.shutdown()
		})
		synctest.Wait()
		if n.snapshots.Saving.Load() {
			t.Error("the snapshot waits on")
		}
		n.disk.gate.open(nil)
		<-stopped
	})
}
