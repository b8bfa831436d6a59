package founding

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/peer"
)

// seeker is an empty node that looks for others, or its disk while no process runs.
type seeker struct {
	home string // its first address
	addr string
	disk peer.Identity // what a new process finds there
	said peer.Identity // what others hear
	up   bool
	kill context.CancelFunc
	done chan struct{} // closed when its process has ended
}

// landscape is a world of seekers, in the virtual time of a synctest bubble.
type landscape struct {
	t      *testing.T
	expect int
	list   []string // of the founders; nil: they may be any

	mu      sync.Mutex
	random  *rand.Rand
	move    bool          // while it is rough, a third of the processes have another address than the one before
	rough   bool          // processes die, names are incomplete, nodes do not answer
	slow    time.Duration // what an answer takes at most, while it is rough
	nodes   []*seeker
	founded map[string]bool // clusters
	waits   map[string]string
}

var (
	errDied   = errors.New("the process has died")
	errAbsent = errors.New("nobody answers")
)

// newLandscape returns n nodes, n1 to nn, none of which runs.
func newLandscape(t *testing.T, seed uint64, n, expect int) *landscape {
	l := &landscape{
		t: t, expect: expect, random: rand.New(rand.NewPCG(seed, 1)), founded: map[string]bool{}, waits: map[string]string{},
	}
	for i := range n {
		l.add(fmt.Sprintf("n%d", i+1), fmt.Sprintf("n%d:1", i+1))
	}
	return l
}

func (l *landscape) add(id, addr string) *seeker {
	n := &seeker{home: addr, addr: addr, disk: peer.Identity{ID: id, Incarnation: "of " + addr, PeerAddr: addr}}
	l.nodes = append(l.nodes, n)
	return n
}

// oneIn reports, with probability 1/n, that a fault happens, while the world is rough.
func (l *landscape) oneIn(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rough && l.random.IntN(n) == 0
}

// pause lets some time pass.
func (l *landscape) pause(most time.Duration) {
	l.mu.Lock()
	d := time.Duration(l.random.Int64N(int64(most)))
	l.mu.Unlock()
	time.Sleep(d)
}

// start starts a process on a node's disk.
func (l *landscape) start(n *seeker) {
	ctx, cancel := context.WithCancel(context.Background())
	n.kill, n.done = cancel, make(chan struct{})
	if l.oneIn(3) && l.move {
		l.change(func() {
			n.addr = fmt.Sprintf("%s:%d", n.home, l.random.IntN(1000))
			n.disk.PeerAddr = n.addr
		})
	}
	l.change(func() { n.up, n.said = true, n.disk })
	go func() {
		defer close(n.done)
		var err error
		if n.disk.Cluster == "" || n.disk.Cluster == ClusterOf(n.disk.Promise) {
			err = l.finderOf(n, ctx).run(ctx)
		}
		if err == nil {
			<-ctx.Done() // it serves
		}
		l.change(func() { n.up = false })
	}()
}

func (l *landscape) stop(n *seeker) {
	if n.kill != nil {
		n.kill()
		<-n.done
	}
}

func (l *landscape) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// finderOf returns the process of a node, which may die at each step.
func (l *landscape) finderOf(n *seeker, ctx context.Context) *Finder {
	return &Finder{
		Expect: l.expect, List: l.list, Addrs: l.addrs, Meet: func([]peer.Identity) {},
		Self: func() (said peer.Identity) {
			l.change(func() { said = n.said })
			return said
		},
		Identify: l.who,
		Say:      func(string, map[string]string) {},
		waits: func(why string) {
			l.change(func() { l.waits[n.home] = why })
		},
		keep: func(p peer.Promise) error {
			if p.Round <= n.disk.Promise.Round {
				l.t.Errorf("%s: round %d after round %d", n.addr, p.Round, n.disk.Promise.Round)
			}
			return l.steps(
				func() { n.disk.Promise = p },
				func() { n.said.Promise = p },
			)
		},
		Found: func(p peer.Promise) error {
			return l.steps(
				func() { n.disk.Cluster, l.founded[ClusterOf(p)] = ClusterOf(p), true },
				func() { n.said.Cluster = n.disk.Cluster },
			)
		},
		Join: func(members []peer.Identity) error {
			l.pause(time.Second)
			if ctx.Err() != nil {
				return errDied
			}
			return l.steps(
				func() { n.disk.Cluster = members[0].Cluster },
				func() { n.said.Cluster = n.disk.Cluster },
			)
		},
	}
}

// steps runs steps in order, unless the process dies in between.
func (l *landscape) steps(all ...func()) error {
	for _, step := range all {
		if l.oneIn(8) {
			return errDied
		}
		l.change(step)
		l.pause(50 * time.Millisecond)
	}
	if l.oneIn(8) {
		return errDied
	}
	return nil
}

// addrs returns all addresses, or some of them while the world is rough.
func (l *landscape) addrs(context.Context) (list []string, err error) {
	l.pause(50 * time.Millisecond)
	for _, n := range l.nodes {
		if !l.oneIn(2) {
			list = append(list, n.addr)
		}
	}
	return list, nil
}

// who answers with an identity that is true at some moment of the call.
func (l *landscape) who(addr string) (said peer.Identity, err error) {
	most := 100 * time.Millisecond
	if l.oneIn(1) {
		most = l.slow
	}
	l.pause(most)
	err = errAbsent
	if !l.oneIn(4) {
		l.change(func() {
			for _, n := range l.nodes {
				if n.addr == addr && n.up {
					said, err = n.said, nil
				}
			}
		})
	}
	l.pause(most)
	return said, err
}

// settle ends all faults, starts stopped nodes, and waits as long as founding may then take.
func (l *landscape) settle() {
	l.change(func() { l.rough = false })
	for _, n := range l.nodes {
		running := false
		l.change(func() { running = n.up })
		if !running {
			l.stop(n)
			l.start(n)
		}
	}
	time.Sleep(time.Minute)
}

// clusters returns the clusters of the nodes; "" for a node without one.
func (l *landscape) clusters() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, n := range l.nodes {
		all = append(all, n.disk.Cluster)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (l *landscape) hasFounded() (has bool) {
	l.change(func() { has = len(l.founded) > 0 })
	return has
}

// expectOne expects that one cluster was founded, and that all nodes are in it.
func (l *landscape) expectOne() {
	l.t.Helper()
	got := l.clusters()
	l.change(func() {
		if len(l.founded) != 1 || len(got) != 1 || !l.founded[got[0]] {
			l.t.Errorf("founded %v, the nodes are in %q, and wait %v", l.founded, got, l.waits)
		}
	})
}

func (l *landscape) close() {
	for _, n := range l.nodes {
		l.stop(n)
	}
}

// In any order of starts and restarts, with any addresses and answers of names, fewer than twice the expected number of
// nodes found at most one cluster; and when the faults end they have founded one, which has all of them.
func TestFoundedOnce(t *testing.T) {
	for seed := range 400 {
		expect := Min + seed%3
		n := expect + seed/3%expect
		t.Run(fmt.Sprintf("seed %d, %d of %d", seed, expect, n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { foundedOnce(t, uint64(seed), expect, n, seed%2 == 0) })
		})
	}
}

func foundedOnce(t *testing.T, seed uint64, expect, n int, move bool) {
	l := newLandscape(t, seed, n, expect)
	l.move = move
	defer l.close()
	l.roughly(seed, 60)
	l.settle()
	l.expectOne()
}

// roughly starts and kills nodes n times, or until a cluster has been founded.
func (l *landscape) roughly(seed uint64, left int) {
	l.rough, l.slow = true, time.Duration(1+seed%5)*time.Second
	before := 0
	l.change(func() { before = len(l.founded) })
	for ; left > 0; left-- {
		node := l.nodes[0]
		l.change(func() { node = l.nodes[l.random.IntN(len(l.nodes))] })
		l.stop(node)
		l.pause(3 * time.Second)
		l.start(node)
		l.pause(4 * time.Second)
		l.change(func() {
			if len(l.founded) > before {
				left = min(left, 6)
			}
		})
	}
}

// The same holds with a list; and a list is not founded again, in any order of starts, when all folders but one are
// lost.
func TestListFoundedOnce(t *testing.T) {
	for seed := range 100 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { listFoundedOnce(t, uint64(seed), Min+seed%3) })
		})
	}
}

func listFoundedOnce(t *testing.T, seed uint64, n int) {
	l := newLandscape(t, seed, n, n)
	defer l.close()
	for _, node := range l.nodes {
		l.list = append(l.list, node.disk.ID)
	}
	l.roughly(seed, 60)
	l.settle()
	l.expectOne()
	for i, node := range l.nodes {
		l.stop(node)
		if i != int(seed)%n {
			node.disk = peer.Identity{ID: node.disk.ID, Incarnation: "second of " + node.addr, PeerAddr: node.addr}
		}
	}
	l.roughly(seed, 20)
	l.settle()
	got := l.clusters()
	l.change(func() { // some nodes still look for others
		if len(l.founded) != 1 || len(got) != 2 || got[0] != "" || !l.founded[got[1]] {
			t.Errorf("founded %v, the nodes are in %q", l.founded, got)
		}
		for i, node := range l.nodes {
			if why := l.waits[node.addr]; i != int(seed)%n && !strings.Contains(why, "this list was founded before") {
				t.Errorf("%s waits %s", node.addr, why)
			}
		}
	})
}

// Nodes that are started in any order, with pauses, found a cluster as soon as there are enough, and later ones join.
func TestFoundedInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLandscape(t, 1, 4, 3)
			defer l.close()
			for i, of := range order {
				l.start(l.nodes[of])
				time.Sleep(15 * time.Second)
				if want := i >= 2; l.hasFounded() != want {
					t.Errorf("order %v, %d started: founded %v", order, i+1, !want)
				}
			}
			l.expectOne()
		})
	}
}

// Nodes that cannot found report the reason, and found nothing.
func TestWhyNotFounded(t *testing.T) {
	for name, tt := range map[string]struct {
		arrange func(l *landscape)
		want    string
		founded bool // afterwards, when the last node of the landscape has gone
	}{
		"too few": {func(l *landscape) { l.nodes = l.nodes[:2] },
			"for more empty nodes: it has found n1, n2, and a cluster is founded by 3 (--expect)", false},
		"two nodes with one id": {func(l *landscape) { l.add("n2", "other:1") },
			"as two nodes have the id n2: give each its own --id", true},
		"a member that is lost": {func(l *landscape) {
			l.nodes[0].disk.Promise = peer.Promise{Round: 1, Members: []peer.Founder{{ID: "gone", PeerAddr: "gone:1"}, l.founder(0), l.founder(1)}}
			l.nodes[1].disk.Promise = l.nodes[0].disk.Promise
			l.nodes = l.nodes[:2]
		}, "for the promise of gone (gone:1), to found a cluster as this node has promised, and no other", false},
		"another number": {func(l *landscape) {
			l.nodes[2].disk.Promise = peer.Promise{Round: 4, Members: []peer.Founder{l.founder(2), {ID: "x", PeerAddr: "x:1"}}}
		}, "as node n3 expects 2 nodes, and this one 3: correct --expect or --cluster", false},
		"two clusters": {func(l *landscape) { l.add("a", "a:1").disk.Cluster, l.add("b", "b:1").disk.Cluster = "A", "B" },
			"as nodes of two clusters answer: a of A, and b of B. Correct --discover", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLandscape(t, 1, 3, 3)
				defer l.close()
				tt.arrange(l)
				for _, n := range l.nodes {
					l.start(n)
				}
				time.Sleep(time.Minute)
				got := ""
				l.change(func() { got = l.waits["n1:1"] })
				if !strings.HasPrefix(got, tt.want) || l.hasFounded() {
					t.Errorf("it waits %q, want %q; founded: %v", got, tt.want, l.hasFounded())
				}
				last := l.nodes[len(l.nodes)-1]
				l.stop(last)
				time.Sleep(time.Minute)
				if l.hasFounded() != tt.founded {
					t.Errorf("afterwards: founded: %v", !tt.founded)
				}
			})
		})
	}
}

func (l *landscape) founder(i int) peer.Founder {
	d := l.nodes[i].disk
	return peer.Founder{ID: d.ID, Incarnation: d.Incarnation, PeerAddr: d.PeerAddr}
}

// Beside a node of a cluster no other cluster is founded.
func TestJoinsWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLandscape(t, 1, 3, 3)
		defer l.close()
		l.add("old", "old:1").disk.Cluster = "C"
		l.settle()
		if got := l.clusters(); len(got) != 1 || got[0] != "C" || l.hasFounded() {
			t.Errorf("the nodes are in %q, founded: %v", got, l.hasFounded())
		}
	})
}

// A promise is given up when one of its members has shown that it will never make it, and only then.
func TestPromiseIsGivenUp(t *testing.T) {
	id := func(name string, p peer.Promise) peer.Identity {
		return peer.Identity{ID: name, Incarnation: name, PeerAddr: name + ":1", Promise: p}
	}
	list := func(round uint64, names ...string) peer.Promise {
		p := peer.Promise{Round: round}
		for _, name := range names {
			p.Members = append(p.Members, peer.Founder{ID: name, Incarnation: name, PeerAddr: name + ":1"})
		}
		return p
	}
	own := list(2, "b", "c", "d")
	for name, tt := range map[string]struct {
		c, d peer.Promise
		want step
	}{
		"nothing heard": {peer.Promise{}, peer.Promise{}, step{}},
		"an older one":  {list(1, "a", "b", "c"), own, step{}},
		"another":       {list(2, "a", "b", "c"), own, step{promise: list(3, "a", "b", "c")}},
		"a later one":   {list(5, "a", "b", "c"), own, step{promise: list(5, "a", "b", "c")}},
		"a later other": {list(5, "b", "c", "d"), own, step{promise: list(6, "a", "b", "c")}},
		"the same":      {own, own, step{found: true}},
	} {
		got := nextStep(id("b", own), 3, nil, []peer.Identity{id("a", peer.Promise{}), id("c", tt.c), id("d", tt.d)})
		if got.found != tt.want.found || !samePromise(got.promise, tt.want.promise) || len(got.join) > 0 ||
			(got.waits != "") != (!tt.want.found && tt.want.promise.Round == 0) {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
	founder := id("d", own)
	founder.Cluster = ClusterOf(own)
	if got := nextStep(id("b", own), 3, nil, []peer.Identity{founder}); !got.found {
		t.Errorf("one has founded it: got %+v", got)
	}
	if got := nextStep(id("a", own), 3, nil, []peer.Identity{founder}); got.found || len(got.join) != 1 {
		t.Errorf("others have founded it: got %+v", got)
	}
}
