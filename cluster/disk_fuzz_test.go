package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"lockd/cluster/peer/peertest"
	"lockd/cluster/store"
)

const fuzzSeeds = 2

// seeds is how many seeds a test tries: LOCKD_FUZZ_SEEDS asks for another number.
func seeds(usually int) int {
	if n, err := strconv.Atoi(os.Getenv("LOCKD_FUZZ_SEEDS")); err == nil {
		return n
	}
	return usually
}

// Power failures, slow disks, partitions, lost answers, snapshots and hand-overs at random,
// on disks that forget what was not synced: no acknowledged write is lost or done twice, no
// read is stale, and the states are equal in the end. The seed decides the faults; Raft's
// own timers are not seeded.
func TestFuzzDisks(t *testing.T) {
	for seed := range uint64(seeds(fuzzSeeds)) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if wrong := newDiskFuzz(t, seed+1, false).run(fuzzSteps); len(wrong) > 0 {
					t.Error(strings.Join(wrong, "\n"))
				}
			})
		})
	}
}

const (
	fuzzSteps   = 15 // faults
	fuzzClients = 3
)

// Disks that say too early that they have taken something lose acknowledged writes, and the same
// faults and checks show it.
func TestFuzzDisksFindsLostWrites(t *testing.T) {
	const tries = 20
	for seed := range uint64(tries) {
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			wrong = newDiskFuzz(t, seed+1, true).run(fuzzSteps)
		})
		if i := slices.IndexFunc(wrong, func(s string) bool { return strings.Contains(s, saysAcknowledged) }); i >= 0 {
			t.Logf("seed %d: %s", seed+1, wrong[i])
			return
		}
	}
	t.Errorf("%d runs on disks that forget what they have taken, and no lost write was seen", tries)
}

// diskFuzz is a cluster under random faults, and what its clients have seen.
type diskFuzz struct {
	*testCluster
	r     *rand.Rand
	ids   []string
	lying bool // a planted bug: while a disk is slow it says that it has what it forgets when the power fails

	mu      sync.Mutex
	up      map[string]*Node
	acked   map[int64]bool
	highest int64 // acknowledged
	wrong   []string
}

// newDiskFuzz starts three or five nodes.
func newDiskFuzz(t *testing.T, seed uint64, lying bool) *diskFuzz {
	c := &testCluster{t: t, net: peertest.NewNetwork(), nodes: map[string]*testNode{}, first: map[string]string{}}
	f := &diskFuzz{testCluster: c, r: rand.New(rand.NewPCG(seed, 7)), up: map[string]*Node{}, acked: map[int64]bool{}, lying: lying}
	for i := range 3 + 2*f.r.IntN(2) {
		id := fmt.Sprintf("n%d", i+1)
		c.first[id] = id + ":1"
	}
	f.ids = slices.Sorted(maps.Keys(c.first))
	for _, id := range f.ids {
		n := c.add(id)
		snaps, err := raft.NewFileSnapshotStoreWithLogger(t.TempDir(), store.SnapshotsKept, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		n.config = func(cfg *Config) {
			cfg.SnapshotEntries = 400
			withStores(cfg, func(func() (*store.Stores, error)) (*store.Stores, error) {
				return n.disk.openFuzzed(snaps, f.lying)
			})
		}
		f.start(id)
	}
	return f
}

// monotonicLog is a log as the real ones are.
type monotonicLog struct{ *hookedLog }

func (monotonicLog) IsMonotonic() bool { return true }

func (d *testDisk) openFuzzed(snaps raft.SnapshotStore, lying bool) (*store.Stores, error) {
	fatal := func(err error) {
		if !errors.Is(err, errPower) {
			panic(err)
		}
	}
	log := &hookedLog{InmemStore: d.log, before: d.gate.pass}
	if lying {
		log.before = nil
	}
	s, err := store.Join(store.Options{Fatal: fatal}, monotonicLog{log}, d.votes, snaps)
	if err != nil {
		return nil, err
	}
	if s.Stable, err = onAnotherDisk(d.votes); err != nil {
		return nil, err
	}
	last, err := d.log.LastIndex()
	if err != nil {
		return nil, err
	}
	list, err := snaps.List()
	if err == nil && last > 0 && len(list) > 0 && last < list[0].Index {
		// As store.Open does: the node ended after a snapshot was installed, and before the older log was removed. The
		// next entry would leave a gap.
		var first uint64
		if first, err = d.log.FirstIndex(); err == nil {
			err = d.log.DeleteRange(first, last)
		}
	}
	s.Empty = last == 0 && len(list) == 0
	return s, err
}

func (f *diskFuzz) start(id string) {
	f.testCluster.start(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[id] = f.nodes[id].Node
}

// crash ends a node whose disk is shut: what it was to write is lost.
func (f *diskFuzz) crash(n *testNode) {
	f.mu.Lock()
	f.up[n.id] = nil
	f.mu.Unlock()
	if snaps, err := n.stores.Snaps.List(); err == nil && len(snaps) > 0 {
		n.disk.synced = max(n.disk.synced, snaps[0].Index) // what is in a snapshot is not lost
	}
	n.disk.gate.open(errPower)
	f.kill(n.id)
	n.disk.gate = gate{}
	if f.lying {
		f.lose(n)
	}
}

// shut makes a disk slow.
func (f *diskFuzz) shut(n *testNode) {
	n.disk.synced, _ = n.disk.log.LastIndex()
	n.disk.gate.close()
}

// lose has a disk forget what it has taken since it was shut.
func (f *diskFuzz) lose(n *testNode) {
	last, _ := n.disk.log.LastIndex()
	if last > n.disk.synced {
		_ = n.disk.log.DeleteRange(n.disk.synced+1, last) // in memory: it does not fail
	}
}

// saysAcknowledged is in what is wrong with a write of which a client was told.
const saysAcknowledged = " had been acknowledged"

func (f *diskFuzz) fail(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

// run makes so many faults, heals them, and says what was wrong.
func (f *diskFuzz) run(steps int) []string {
	defer f.close()
	f.leader()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for w := range fuzzClients {
		r := rand.New(rand.NewPCG(f.r.Uint64(), uint64(w)))
		clients.Go(func() { f.client(r, stop) })
	}
	for i := 0; i < steps && !f.failed(); i++ {
		f.step()
		f.pause(1500)
	}
	f.net.Heal()
	time.Sleep(5 * time.Second)
	close(stop)
	clients.Wait()
	if !f.failed() {
		f.check()
	}
	return f.wrong
}

// failed reports whether a client has seen something wrong.
func (f *diskFuzz) failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.wrong) > 0
}

// client counts up and reads, at any node.
func (f *diskFuzz) client(r *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1+r.IntN(20)) * time.Millisecond):
		}
		f.mu.Lock()
		n, floor := f.up[f.ids[r.IntN(len(f.ids))]], f.highest
		f.mu.Unlock()
		if n == nil {
			continue
		}
		line, read := "INCR k", r.IntN(4) == 0
		if read {
			line = "GET k"
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		reply := (&testNode{Node: n}).doCtx(ctx, line)
		cancel()
		f.saw(reply, read, floor)
	}
}

// saw checks an answer: floor had been acknowledged before the question.
func (f *diskFuzz) saw(reply string, read bool, floor int64) {
	v, ok := countOf(reply)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case read && v < floor:
		f.fail("GET gave %d, although %d had been acknowledged", v, floor)
	case !read && v <= floor:
		f.fail("INCR gave %d, although %d had been acknowledged", v, floor)
	case !read && f.acked[v]:
		f.fail("%d was acknowledged twice", v)
	}
	f.acked[v] = f.acked[v] || !read
	f.highest = max(f.highest, v)
}

// countOf is the number that INCR or GET has answered.
func countOf(reply string) (int64, bool) {
	_, text, bulk := strings.Cut(reply, " ")
	if !bulk {
		text = strings.TrimPrefix(reply, ":")
	}
	v, err := strconv.ParseInt(text, 10, 64)
	return v, err == nil
}

func (f *diskFuzz) pause(most int) { time.Sleep(time.Duration(f.r.IntN(most)) * time.Millisecond) }

// victim is the leader, mostly.
func (f *diskFuzz) victim() *testNode {
	n := f.nodes[f.ids[f.r.IntN(len(f.ids))]]
	for _, id := range f.ids {
		if l := f.nodes[id]; l.Node != nil && l.lead.Held() && f.r.IntN(3) > 0 {
			return l
		}
	}
	return n
}

// cutSome cuts a node from some of the others, or what it tells them.
func (f *diskFuzz) cutSome(n *testNode) {
	for _, o := range f.others(n) {
		switch f.r.IntN(4) {
		case 0:
			f.net.SetCut(true, []string{n.addr}, []string{o.addr})
		case 1:
			f.net.Partition([]string{n.addr}, []string{o.addr})
		}
	}
}

// step makes a fault, and ends it.
func (f *diskFuzz) step() {
	n := f.victim()
	switch f.r.IntN(9) {
	case 0: // a slow disk
		f.shut(n)
		f.pause(3000)
		n.disk.gate.open(nil)
	case 1, 2: // the power fails while the disk writes
		if f.r.IntN(2) == 0 {
			f.cutSome(n)
		}
		f.shut(n)
		f.pause(700)
		f.crash(n)
		if f.r.IntN(2) == 0 {
			f.pause(3000)
		}
		f.net.Heal()
		f.start(n.id)
	case 3: // a slow disk, and nobody hears of it
		f.cutSome(n)
		f.shut(n)
		f.pause(2500)
		n.disk.gate.open(nil)
		f.pause(1500)
		f.net.Heal()
	case 4:
		n.do("LOCKD TRANSFER")
	case 5:
		f.cut(n)
		f.pause(4000)
		f.net.Heal()
	case 6: // an answer is lost
		f.loseAnswer(n, f.others(n)[0])
	case 7: // the log is as short as it can be, and the next answer is lost
		n.do("SAVE")
		n.do("SAVE")
		f.loseAnswer(n, f.others(n)[0])
	case 8: // the power fails everywhere
		all := f.others(nil)
		for _, n := range all {
			f.shut(n)
		}
		f.pause(700)
		for _, n := range all {
			f.crash(n)
		}
		for _, n := range all {
			f.start(n.id)
		}
	}
}

// check compares the nodes once all is quiet.
func (f *diskFuzz) check() {
	var got, states []string
	for range 1000 {
		got, states = nil, nil
		for _, n := range f.others(nil) {
			got, states = append(got, n.do("GET k")), append(states, n.do("LOCKD HASH"))
		}
		if states = slices.Compact(states); len(states) == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(states) > 1 {
		f.fail("the states differ: %q", states)
	}
	if v, ok := countOf(got[0]); !ok {
		f.fail("the last value is %q", got[0])
	} else if v < f.highest {
		f.fail("the last value is %d, although %d had been acknowledged", v, f.highest)
	}
	if f.highest < fuzzSteps {
		f.fail("only %d writes were done", f.highest)
	}
	for _, n := range f.others(nil) {
		if said := n.stopped(); said != "" {
			f.fail("%s: %s", n.id, said)
		}
	}
}
