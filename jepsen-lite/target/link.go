package target

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Clients is the name of everybody outside the cluster, as an end of a link.
const Clients = "clients"

// Net is the links between the nodes, and between them and the clients. All
// methods may be called concurrently.
type Net struct {
	mu    sync.Mutex
	links map[[2]string]*Link
	conns map[*pair]bool // what is open now
	base  *Layer
	told  func(from, to string, s Shape) // may be nil

	catching sync.Mutex
	catches  []*Caught    // that wait
	waiting  atomic.Int64 // how many

	apartMu sync.Mutex
	apart   map[string][]time.Time // by node: when it refused, and no majority was connected with it

	unread atomic.Int64 // directions of connections on which a message could not be read
}

// Unread counts the directions of connections between nodes on which a message could not be read. From there on
// nothing can be caught.
func (n *Net) Unread() int { return int(n.unread.Load()) }

// NewNet makes a net whose links are whole.
func NewNet() *Net {
	n := &Net{links: map[[2]string]*Link{}, conns: map[*pair]bool{}}
	n.base = n.Layer()
	return n
}

// Layer is the shapes that one cause gives to links. What several layers give to a link
// adds up, so that the end of one leaves the others as they are. Its methods may be called
// concurrently.
type Layer struct{ net *Net }

// Layer makes a layer that gives no link a shape yet.
func (n *Net) Layer() *Layer { return &Layer{n} }

// Set gives the link in one direction a shape, instead of the one that this layer gave it
// before.
func (y *Layer) Set(from, to string, s Shape) { y.net.Link(from, to).set(y, s) }

// Clear takes back all shapes of the layer.
func (y *Layer) Clear() {
	for _, l := range y.net.all() {
		l.set(y, Shape{})
	}
}

// Link is the way of bytes from one end to another. It is healthy while no layer gives it
// a shape.
type Link struct {
	net      *Net
	from, to string

	mu      sync.Mutex
	layers  map[*Layer]Shape
	shape   Shape         // all of them together
	changed chan struct{} // closed at the next change
}

// Shape is what a link does with the bytes that pass it.
type Shape struct {
	Cut            bool          // holds them back until it heals
	Delay, Jitter  time.Duration // each piece takes Delay and up to Jitter more
	BytesPerSecond int           // 0: as fast as they come
	BreakOneIn     int           // of so many pieces one is cut short, and its connection reset; 0: none
	Refuse         bool          // no connection is opened this way; those that are open stay
	Harmed         bool          // nothing by itself: messages are caught (Net.Catch) or connections reset (Net.Reset)
}

// plus is what two shapes do together.
func (s Shape) plus(o Shape) Shape {
	return Shape{
		Cut: s.Cut || o.Cut, Delay: s.Delay + o.Delay, Jitter: s.Jitter + o.Jitter,
		BytesPerSecond: lower(s.BytesPerSecond, o.BytesPerSecond), BreakOneIn: lower(s.BreakOneIn, o.BreakOneIn),
		Refuse: s.Refuse || o.Refuse, Harmed: s.Harmed || o.Harmed,
	}
}

// lower is the lower of two limits, of which 0 is none.
func lower(a, b int) int {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// State says in a word what a link of this shape is.
func (s Shape) State() LinkState {
	switch {
	case s.Cut:
		return Cut
	case s != Shape{}:
		return Slow
	}
	return Whole
}

// LinkState is what a link is.
type LinkState int

// States of links, the best first.
const (
	Whole LinkState = iota
	Slow            // what passes may be late, or in pieces
	Cut
)

// Link returns the link in one direction.
func (n *Net) Link(from, to string) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[[2]string{from, to}]
	if l == nil {
		l = &Link{net: n, from: from, to: to, layers: map[*Layer]Shape{}, changed: make(chan struct{})}
		n.links[[2]string{from, to}] = l
	}
	return l
}

// observe has told called, under the lock of the link, with each shape that one gets.
func (n *Net) observe(told func(from, to string, s Shape)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = told
}

// tell tells the shape of a link, if somebody wants to know.
func (l *Link) tell(s Shape) {
	l.net.mu.Lock()
	told := l.net.told
	l.net.mu.Unlock()
	if told != nil {
		told(l.from, l.to, s)
	}
}

func (n *Net) all() []*Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.links))
}

// Set gives the link in one direction a shape besides those of all layers.
func (n *Net) Set(from, to string, s Shape) { n.base.Set(from, to, s) }

// State is what the link in one direction is now.
func (n *Net) State(from, to string) LinkState {
	s, _ := n.Link(from, to).state()
	return s.State()
}

// Heal makes every link healthy: all layers, and what waits for messages, are taken back.
func (n *Net) Heal() {
	n.catching.Lock()
	n.catches = nil
	n.waiting.Store(0)
	n.catching.Unlock()
	for _, l := range n.all() {
		l.heal()
	}
}

// Reset breaks every connection that from or to opened to the other, in mid-stream.
func (n *Net) Reset(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.conns {
		if p.from == from && p.to == to || p.from == to && p.to == from {
			p.reset()
		}
	}
}

// Connected reports whether a connection between two ends is open, whichever opened it, and nothing holds back what
// passes.
func (n *Net) Connected(a, b string) bool {
	if n.State(a, b) == Cut || n.State(b, a) == Cut {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.conns {
		if p.from == a && p.to == b || p.from == b && p.to == a {
			return true
		}
	}
	return false
}

// MarkApart records that a node looks dead now, though it lives: its port refuses, and no majority is connected with it.
func (n *Net) MarkApart(node string) {
	n.apartMu.Lock()
	defer n.apartMu.Unlock()
	if n.apart == nil {
		n.apart = map[string][]time.Time{}
	}
	n.apart[node] = append(n.apart[node], time.Now())
}

// lookedDead reports whether a node looked dead at a time, or up to claimAfter before.
func (n *Net) lookedDead(node string, at time.Time) bool {
	n.apartMu.Lock()
	defer n.apartMu.Unlock()
	return slices.ContainsFunc(n.apart[node], func(t time.Time) bool {
		return t.After(at.Add(-claimAfter)) && t.Before(at.Add(claimEarly))
	})
}

func (n *Net) track(p *pair, open bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if open {
		n.conns[p] = true
	} else {
		delete(n.conns, p)
	}
}

// set gives the link the shape that a layer wants.
func (l *Link) set(y *Layer, s Shape) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.layers, y)
	if s != (Shape{}) {
		l.layers[y] = s
	}
	l.sum()
}

func (l *Link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.layers)
	l.sum()
}

// sum has the shape be that of all layers. l.mu is held.
func (l *Link) sum() {
	sum := Shape{}
	for _, s := range l.layers {
		sum = sum.plus(s)
	}
	if sum == l.shape {
		return
	}
	worse := sum.State() >= l.shape.State()
	if worse {
		l.tell(sum)
	}
	l.shape = sum
	close(l.changed)
	l.changed = make(chan struct{})
	if !worse {
		l.tell(sum)
	}
}

func (l *Link) state() (Shape, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shape, l.changed
}

// delay is how long a piece that enters now is on its way.
func (l *Link) delay() time.Duration {
	s, _ := l.state()
	if s.Jitter > 0 {
		return s.Delay + rand.N(s.Jitter)
	}
	return s.Delay
}

// refuses reports whether no connection may be opened.
func (l *Link) refuses() bool {
	s, _ := l.state()
	return s.Refuse
}

// breaks reports whether the connection breaks in the middle of this piece.
func (l *Link) breaks() bool {
	s, _ := l.state()
	return s.BreakOneIn > 0 && rand.IntN(s.BreakOneIn) == 0
}

// pass waits until size bytes may leave the link. It reports false if done closes
// before.
func (l *Link) pass(size int, done <-chan struct{}) bool {
	for {
		s, changed := l.state()
		if !s.Cut {
			if s.BytesPerSecond > 0 {
				return wait(time.Duration(size)*time.Second/time.Duration(s.BytesPerSecond), done)
			}
			return true
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

// wait waits for d, or reports false if done closes before.
func wait(d time.Duration, done <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}
