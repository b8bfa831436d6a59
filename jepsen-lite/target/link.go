package target

import (
	"math/rand/v2"
	"sync"
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
}

func newNet() *Net { return &Net{links: map[[2]string]*Link{}, conns: map[*pair]bool{}} }

// Link is the way of bytes from one end to another. Its zero Shape is a healthy
// one.
type Link struct {
	mu      sync.Mutex
	shape   Shape
	changed chan struct{} // closed at the next change
}

// Shape is what a link does with the bytes that pass it.
type Shape struct {
	Cut            bool          // holds them back until it heals
	Delay, Jitter  time.Duration // each piece takes Delay and up to Jitter more
	BytesPerSecond int           // 0: as fast as they come
	BreakOneIn     int           // of so many pieces one is cut short, and its connection reset; 0: none
}

// Link returns the link in one direction.
func (n *Net) Link(from, to string) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[[2]string{from, to}]
	if l == nil {
		l = &Link{changed: make(chan struct{})}
		n.links[[2]string{from, to}] = l
	}
	return l
}

// Set gives the link in one direction a shape.
func (n *Net) Set(from, to string, s Shape) { n.Link(from, to).set(s) }

// Heal makes every link healthy.
func (n *Net) Heal() {
	n.mu.Lock()
	links := make([]*Link, 0, len(n.links))
	for _, l := range n.links {
		links = append(links, l)
	}
	n.mu.Unlock()
	for _, l := range links {
		l.set(Shape{})
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

func (n *Net) track(p *pair, open bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if open {
		n.conns[p] = true
	} else {
		delete(n.conns, p)
	}
}

func (l *Link) set(s Shape) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shape = s
	close(l.changed)
	l.changed = make(chan struct{})
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
