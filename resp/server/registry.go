package server

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/lockuse"
	"lockd/resp/server/pubsub"
	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
)

// registry has the clients of a server. It is safe for concurrent use.
type registry struct {
	node    string // the id of this node
	seats   *Seats
	dropped *stats.Drops

	memoryBytes atomic.Int64  // of all clients, as type memory counts them
	ticks       atomic.Int64  // rounds of the janitor, by which idle time is measured
	draining    atomic.Bool   // Shutdown has begun: nobody is admitted
	idle        chan struct{} // closed when the last client leaves while draining

	mu      sync.Mutex
	clients map[int64]*client
	came    uint64 // number of clients so far
}

func newRegistry(node string, seats *Seats, dropped *stats.Drops) *registry {
	return &registry{
		node: node, seats: seats, dropped: dropped, clients: map[int64]*client{}, idle: make(chan struct{}),
	}
}

// admit adds the client that create returns, the nth one; nil if there are most already, or the server is stopping.
func (r *registry) admit(most int64, create func(nth uint64) *client) *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining.Load() || int64(len(r.clients)) >= most || !r.seats.take() {
		return nil
	}
	r.came++
	c := create(r.came)
	r.clients[c.id] = c
	return c
}

// get finds a client by its id; nil if there is none.
func (r *registry) get(id int64) *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[id]
}

// list lists the clients by id.
func (r *registry) list() []*client {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*client, 0, len(r.clients))
	for _, c := range r.clients {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *client) int { return cmp.Compare(a.id, b.id) })
	return list
}

// forget removes a client that has left, and frees its seat.
func (r *registry) forget(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.clients, c.id)
	r.seats.free()
	r.checkIdle()
}

// drain admits nobody any more.
func (r *registry) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining.Store(true)
	r.checkIdle()
}

// checkIdle closes idle, once, when no client is left. mu is held.
func (r *registry) checkIdle() {
	if len(r.clients) > 0 || !r.draining.Load() {
		return
	}
	select {
	case <-r.idle:
	default:
		close(r.idle)
	}
}

// census counts clients by their state, and their buffers.
type census struct {
	clients                                  int64
	executing, blocked, subscribed, tracking int64
	buffers, inputMax, outputMax             int64 // bytes
}

func (r *registry) census() census {
	list := r.list()
	n := census{clients: int64(len(list)), buffers: r.memoryBytes.Load()}
	for _, c := range list {
		if c.waits() {
			n.blocked++
		} else if c.kind() == phaseRunning {
			n.executing++
		}
		if c.sub.Subscribes() {
			n.subscribed++
		}
		if c.trackFlags.Load()&flagTracks != 0 {
			n.tracking++
		}
		in, out := c.inputBytes.Load(), int64(c.out.Waiting())
		n.inputMax, n.outputMax, n.buffers = max(n.inputMax, in), max(n.outputMax, out), n.buffers+in+out
	}
	return n
}

// observations returns what the clients have seen of locks.
func (r *registry) observations() (list []lockuse.Observation) {
	for _, c := range r.list() {
		list = append(list, c.observations()...)
	}
	return list
}

// unblock ends the wait of a client, if it waits, and returns once it is certain whether it did.
func (r *registry) unblock(ctx context.Context, id int64, why string) resp.Reply {
	c, reason := r.get(id), resp.UnblockTimeout
	if why == "ERROR" {
		reason = resp.UnblockError
	}
	if c == nil {
		return resp.Int(0)
	}
	if p := c.unblock(reason); p == nil || !p.unblocked(ctx) {
		return resp.Int(0)
	}
	return resp.Int(1)
}

// killFilter holds the conditions of CLIENT KILL in its new form.
type killFilter struct {
	id          int64 // 0: any
	addr, laddr string
	class       string
	user        string
	skipMe      bool
}

func (f *killFilter) matches(c *client) bool {
	return (f.id == 0 || f.id == c.id) && (f.addr == "" || f.addr == c.addr) && (f.laddr == "" || f.laddr == c.laddr) &&
		(f.class == "" || f.class == c.class()) &&
		(f.user == "" || f.user == c.rights.Name())
}

// kill closes the clients that match, but for the one that asks. It returns how many match, and whether the one that
// asks is among them.
func (r *registry) kill(f *killFilter, asks *client) (n int, me bool) {
	for _, c := range r.list() {
		mine := c == asks
		if !f.matches(c) || f.skipMe && mine || c.out.Ends() {
			continue
		}
		n++
		if mine {
			me = true
		} else {
			c.kill()
		}
	}
	return n, me
}

// The questions of servers to each other about clients. Those about subscribers are in package pubsub.
const (
	askKill    = "kill"    // a killFilter: how many clients were closed
	askUnblock = "unblock" // a client's id and a reason: 1 if it was unblocked
)

// words encodes the filter for askKill.
func (f *killFilter) words() resp.Args {
	return resp.Args{strconv.FormatInt(f.id, 10), f.addr, f.laddr, f.class, f.user}
}

// answer answers a question of another node's server.
func (r *registry) answer(ctx context.Context, kind string, question resp.Args) resp.Reply {
	switch {
	case kind == askKill && len(question) == len((&killFilter{}).words()):
		id, _ := resp.ParseInt(question[0])
		n, _ := r.kill(&killFilter{
			id: id, addr: question[1], laddr: question[2], class: question[3], user: question[4],
		}, nil)
		return resp.Int(int64(n))
	case kind == askUnblock && len(question) == 2:
		id, _ := resp.ParseInt(question[0])
		return r.unblock(ctx, id, question[1])
	}
	return resp.Err(pubsub.ErrQuestion)
}

// waits reports whether the client waits, in a blocking command or for the end of a pause. A client that hung up does
// not wait for data, even before the janitor sees it.
func (c *client) waits() bool {
	return c.blocked.Load() || c.waiter.Load() != nil && !wire.HungUp(c.conn)
}

// unblock ends the wait of a session, from any goroutine. It returns nil if the session does not wait or another
// reason came first.
func (c *client) unblock(why resp.Unblock) *waiter {
	p := c.waiter.Load()
	if p == nil {
		return nil
	}
	select {
	case p.unblock <- why:
		return p
	default:
		return nil
	}
}

// unblocked waits until the command has ended and reports whether unblock ended it: it may have been served just
// before.
func (p *waiter) unblocked(ctx context.Context) bool {
	select {
	case <-p.done:
		return p.cut
	case <-ctx.Done():
		return false
	}
}
