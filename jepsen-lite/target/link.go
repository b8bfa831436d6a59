package target

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Clients is the name of all clients together, as an end of a link.
const Clients = "clients"

// Net is the links between the nodes, and between nodes and clients. Net.Layer gives each cause a layer of its own, in
// which it gives links shapes; a link does what the shapes of all layers do together. All methods may be called
// concurrently.
type Net struct {
	host   Host
	chance func(n int64) int64 // a random number below n

	mu    sync.Mutex
	links map[[2]string]*Link
	conns map[*pair]bool // the open connections
	// for Net.Set
	base *Layer
	told func(from, to string, s Shape) // see Processes.Observe; may be nil

	catching sync.Mutex
	catches  []*Caught    // not struck yet, or to strike each time
	waiting  atomic.Int64 // number of catches

	apartMu sync.Mutex
	apart   map[string][]time.Time // node -> times at which it refused, and no majority was connected with it

	unread atomic.Int64 // directions of connections with a message that could not be read
}

// Unread counts the directions of connections between nodes on which a message could not be read. Nothing after such a
// message can be caught.
func (n *Net) Unread() int { return int(n.unread.Load()) }

// NewNet makes a net of real sockets whose links change nothing.
func NewNet() *Net { return newNetOn(thisMachine{}, rand.Int64N) }

// newNetOn is NewNet on a host. chance returns a random number below n, for the chances of its links.
func newNetOn(h Host, chance func(n int64) int64) *Net {
	n := &Net{host: h, chance: chance, links: map[[2]string]*Link{}, conns: map[*pair]bool{}}
	n.base = n.Layer()
	return n
}

// on returns the host of the net's connections.
func (n *Net) on() Host {
	if n == nil {
		return thisMachine{}
	}
	return n.host
}

// Layer is the shapes that one cause gives to links. The shapes of several layers add up, so ending one leaves the
// others as they are. Its methods may be called concurrently.
type Layer struct{ net *Net }

// Layer makes a layer that changes nothing yet.
func (n *Net) Layer() *Layer { return &Layer{n} }

// Set gives the link in one direction a shape, in place of the layer's former one.
func (y *Layer) Set(from, to string, s Shape) { y.net.Link(from, to).set(y, s) }

// Clear removes all shapes of the layer.
func (y *Layer) Clear() {
	for _, l := range y.net.all() {
		l.set(y, Shape{})
	}
}

// Link carries the bytes from one end to another. It passes them unchanged while no layer gives it a shape.
type Link struct {
	net      *Net
	from, to string

	mu      sync.Mutex
	layers  map[*Layer]Shape
	shape   Shape         // the sum of all layers
	changed chan struct{} // closed at the next change of shape
	shuts   []gap         // in which nobody could introduce himself this way; the last may have no end yet
}

// gap is a time; a zero end has not come yet.
type gap struct{ from, to time.Time }

// note notes when the link is shut from now on, and when no longer. l.mu is held.
func (l *Link) note(shut bool) {
	switch last := len(l.shuts) - 1; {
	case shut && (last < 0 || !l.shuts[last].to.IsZero()):
		l.shuts = append(l.shuts, gap{from: time.Now()})
	case !shut && last >= 0 && l.shuts[last].to.IsZero():
		l.shuts[last].to = time.Now()
	}
}

// gaps returns the times so far in which the link was shut.
func (l *Link) gaps() []gap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.shuts)
}

// together returns for how long in a time two ends could get to know each other.
func (n *Net) together(a, b string, from, to time.Time) (sum time.Duration) {
	shut := append(n.Link(a, b).gaps(), n.Link(b, a).gaps()...)
	slices.SortFunc(shut, func(x, y gap) int { return x.from.Compare(y.from) })
	for _, g := range append(shut, gap{from: to}) {
		if open := min(g.from.Sub(from), to.Sub(from)); open > 0 {
			sum += open
		}
		if g.to.IsZero() {
			break
		}
		if g.to.After(from) {
			from = g.to
		}
	}
	return sum
}

// Shape describes the treatment of the bytes that pass a link.
type Shape struct {
	Cut            bool          // hold all bytes back until the link heals
	Delay, Jitter  time.Duration // each piece takes Delay, and up to Jitter, longer
	BytesPerSecond int           // 0: no limit
	BreakOneIn     int           // cut short one piece of so many and reset its connection; 0: never
	Refuse         bool          // open no connection this way; open ones stay
	Harmed         bool          // no effect of its own: messages are caught (Net.Catch) or connections reset (Net.Reset)
}

// plus returns the effect of two shapes together.
func (s Shape) plus(o Shape) Shape {
	return Shape{
		Cut: s.Cut || o.Cut, Delay: s.Delay + o.Delay, Jitter: s.Jitter + o.Jitter,
		BytesPerSecond: lower(s.BytesPerSecond, o.BytesPerSecond), BreakOneIn: lower(s.BreakOneIn, o.BreakOneIn),
		Refuse: s.Refuse || o.Refuse, Harmed: s.Harmed || o.Harmed,
	}
}

// lower returns the lower of two limits; 0 means no limit.
func lower(a, b int) int {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// State summarizes the shape for the history.
func (s Shape) State() LinkState {
	switch {
	case s.Cut:
		return Cut
	case s != Shape{}:
		return Slow
	}
	return Whole
}

// LinkState summarizes what a link does.
type LinkState int

// States of links, the best first.
const (
	Whole LinkState = iota
	Slow            // bytes may arrive late, or be lost with their connection
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

// observe registers told for changes of shapes. It is called under the lock of the link.
func (n *Net) observe(told func(from, to string, s Shape)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = told
}

// tell reports the shape of the link to the observer, if there is one.
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

// Set gives the link in one direction a shape, besides those of all layers.
func (n *Net) Set(from, to string, s Shape) { n.base.Set(from, to, s) }

// State returns the state of the link in one direction.
func (n *Net) State(from, to string) LinkState {
	s, _ := n.Link(from, to).state()
	return s.State()
}

// Heal removes the shapes of all layers, and all catches.
func (n *Net) Heal() {
	n.catching.Lock()
	n.catches = nil
	n.waiting.Store(0)
	n.catching.Unlock()
	for _, l := range n.all() {
		l.heal()
	}
}

// Reset breaks every connection that one of two ends opened to the other, in mid-stream.
func (n *Net) Reset(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.conns {
		if p.from == from && p.to == to || p.from == to && p.to == from {
			p.reset()
		}
	}
}

// Connected reports whether the two ends have an open connection on which each has heard the other, whichever opened it,
// and no cut holds back its bytes.
func (n *Net) Connected(a, b string) bool {
	if n.State(a, b) == Cut || n.State(b, a) == Cut {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.conns {
		if p.answered.Load() && (p.from == a && p.to == b || p.from == b && p.to == a) {
			return true
		}
	}
	return false
}

// MarkApart records that a living node looks dead now: its port refuses, and no majority is connected with it.
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

// track records that a connection was opened or closed.
func (n *Net) track(p *pair, open bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if open {
		n.conns[p] = true
	} else {
		delete(n.conns, p)
	}
}

// set gives the link the shape of a layer.
func (l *Link) set(y *Layer, s Shape) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.layers, y)
	if s != (Shape{}) {
		l.layers[y] = s
	}
	l.sum()
}

// heal removes the shapes of all layers.
func (l *Link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.layers)
	l.sum()
}

// sum makes the shape the sum of all layers, and reports a change. l.mu is held.
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
	l.note(sum.Cut || sum.Refuse)
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

// delay returns how long a piece that enters the link now is on its way.
func (l *Link) delay() time.Duration {
	s, _ := l.state()
	if s.Jitter > 0 {
		return s.Delay + time.Duration(l.net.chance(int64(s.Jitter)))
	}
	return s.Delay
}

// refuses reports whether no connection may be opened.
func (l *Link) refuses() bool {
	s, _ := l.state()
	return s.Refuse
}

// breaks decides by chance whether the connection breaks in the middle of a piece.
func (l *Link) breaks() bool {
	s, _ := l.state()
	return s.BreakOneIn > 0 && l.net.chance(int64(s.BreakOneIn)) == 0
}

// pass waits until size bytes may leave the link. It returns false if done closes before.
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

// wait waits for d. It returns false if done closes before.
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
