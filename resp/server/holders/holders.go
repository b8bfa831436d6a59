package holders

import (
	"container/heap"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockd/resp"
)

// Limits of what is stored, and of the work of checking leases.
const (
	locksMax       = 1 << 10          // locks of one client about which it gets pushes
	locksOfAllMax  = 1 << 17          // of all clients together
	checksAtOnce   = 1 << 10          // leases in one query
	checksPerLease = 32               // queries for one lease, at most
	checkEveryMax  = 10 * time.Second // longest interval between checks of a lease
)

// Conn is the connection of a Client.
type Conn interface {
	// Send sends a push. It is called with the table's lock held, and does not block.
	Send(form []byte)
	// Is reports whether the log calls this client by that name. Any goroutine may call it.
	Is(resp.Sender) bool
}

// Leases returns a node's view of locks that its clients were granted, one Lease for each.
type Leases interface {
	Leases(locks []resp.HeldLock) []resp.Lease
}

// Table has the locks of a node's clients for which the clients get pushes. Its methods take the lock, except where
// they say that it is held.
type Table struct {
	lock    sync.Locker
	inUse   atomic.Int64       // number of clients: Publish reads it first
	clients map[int64]*Client  // clients that have asked for a lock in RESP3
	locks   map[lockID][]*held // by the lock and its token
	kept    int                // number of locks
	byDB    map[int][]*held    // by the database, in any order
	checks  checkQueue
}

// NewTable returns an empty table. lock guards it, with its clients.
func NewTable(lock sync.Locker) *Table {
	return &Table{lock: lock, clients: map[int64]*Client{}, locks: map[lockID][]*held{}, byDB: map[int][]*held{}}
}

// InUse reports whether any client has asked for a lock. It needs no lock.
func (t *Table) InUse() bool { return t.inUse.Load() > 0 }

// Sizes returns the numbers of locks and of clients that are stored.
func (t *Table) Sizes() (locks, clients int) {
	t.lock.Lock()
	defer t.lock.Unlock()
	return max(t.kept, len(t.locks), len(t.checks)), len(t.clients)
}

// lockID names a lock and a token that may hold it.
type lockID struct {
	db         int
	key, token string
}

// held is a lock that a client holds.
type held struct {
	lockID
	of     *Client
	fence  uint64
	told   uint64    // the fence that the client was answered, or will be before it is sent pushes
	check  time.Time // when to check how much of the lease is left
	index  int       // in checks
	place  int       // in the list of its database
	warned int64     // the end of the lease for which the client was warned
}

// Client has the locks of a client. The table's lock guards it, except seen.
type Client struct {
	id        int64
	conn      Conn
	clock     func() time.Time
	list      map[lockID]*held
	asking    bool   // the answer of a request that may take a lock is on its way to the client
	waiting   []byte // pushes to send after that answer
	forgotten uint64 // grants up to this entry of the log are ignored
	seen      uint64 // log index of the last such answer; only the client's own goroutine uses it

	line      lockID // the lock for which it waits, or has waited last
	stands    stand  // in that line
	lost      []byte // the push about the loss of a grant there that it was not told of yet
	lostFence uint64 // of that grant
}

// stand says what a client's grants in a line are to it.
type stand uint8

const (
	standsNot    stand = iota // it was told of its grant, or did not wait
	standsInLine              // it waits to be told of a grant, which may not be the first one
	stoodInVain               // it waits no longer, and was told of none
)

// Init makes a new client of a connection; clock is the one by which CheckLeases is called. It is called before anything
// else.
func (c *Client) Init(id int64, conn Conn, clock func() time.Time) {
	c.id, c.conn, c.clock = id, conn, clock
}

// Takes reports whether commands may take a lock for which a client of RESP3 with this library gets pushes.
func Takes(cmds []resp.Cmd, lib, version string) bool {
	isLock := func(c resp.Cmd) bool { return c.Spec != nil && c.Spec.Name == resp.LockCommand }
	return slices.ContainsFunc(cmds, isLock) && !confusesPushes(lib, version)
}

// confusesPushes reports whether a library takes an unknown push for the reply to its command, and each later reply
// for that to the next command. Jedis 5 to 7 do.
func confusesPushes(lib, version string) bool {
	major, _, _ := strings.Cut(version, ".")
	return strings.HasPrefix(lib, "jedis") && (len(major) == 0 || len(major) == 1 && major < "8")
}

// Ask records that a client asks for a lock. Its pushes wait for the answer: SendWaiting sends them.
func (t *Table) Ask(c *Client) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.enter(c)
	c.asking, c.stands = true, standsNot
}

// Wait records that a client asks for a lock, and waits for it, until Told or LeaveLine. The answer may come after the
// grant was lost, and the client be granted the lock again before it is told of any grant. So it gets no pushes about a
// grant before Told, and none at all about another one.
func (t *Table) Wait(c *Client, db int, key, token string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.enter(c)
	c.asking, c.stands, c.line = false, standsInLine, lockID{db, strings.Clone(key), strings.Clone(token)}
}

func (t *Table) enter(c *Client) {
	if t.clients[c.id] == nil {
		t.clients[c.id] = c
		t.inUse.Add(1)
	}
}

// Told records that a client that waits was answered a grant, and sends it what has become of that.
func (t *Table) Told(c *Client, fence uint64) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if c.stands != standsInLine {
		return
	}
	if l := c.list[c.line]; l != nil {
		l.told = l.fence
		t.checkIn(l, 0, 0)
	}
	if c.lost != nil && c.lostFence == fence {
		c.conn.Send(c.lost)
	}
	c.stands, c.lost = standsNot, nil
}

// LeaveLine records that a client waits no longer. Unless it was told of a grant, it never is.
func (t *Table) LeaveLine(c *Client) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if c.stands != standsInLine {
		return
	}
	if l := c.list[c.line]; l != nil && l.told != l.fence {
		t.remove(l)
	}
	c.stands, c.lost = stoodInVain, nil
}

// Asking reports whether pushes wait for an answer. Only the client's own goroutine calls it, and needs no lock.
func (c *Client) Asking() bool { return c.asking }

// Saw records the log index of an answer. Only the client's own goroutine calls it, and needs no lock.
func (c *Client) Saw(index uint64) {
	if c.asking {
		c.seen = max(c.seen, index)
	}
}

// SendWaiting sends the pushes that waited for the answer.
func (t *Table) SendWaiting(c *Client) {
	t.lock.Lock()
	defer t.lock.Unlock()
	form := c.waiting
	c.asking, c.waiting = false, nil
	if len(form) > 0 {
		c.conn.Send(form)
	}
}

// Forget removes the locks of a client, also those whose grant this node has not applied yet. The lock is held.
func (t *Table) Forget(c *Client) {
	if t.clients[c.id] != c {
		return
	}
	delete(t.clients, c.id)
	t.inUse.Add(-1)
	for _, l := range c.list {
		t.remove(l)
	}
	c.list, c.asking, c.waiting, c.lost, c.forgotten = nil, false, nil, nil, c.seen
}

// Publish processes the grants and losses of an entry of the log.
func (t *Table) Publish(msgs []resp.Message) {
	t.lock.Lock()
	defer t.lock.Unlock()
	for i := range msgs {
		m := &msgs[i]
		if m.Form == nil {
			continue
		}
		switch n := m.Form.News(m.Event); {
		case n.How == "":
		case n.How == resp.LockGranted:
			t.grant(m.Index, &n)
		case n.Token != "":
			for _, l := range slices.Clone(t.locks[lockID{n.DB, n.Key, n.Token}]) {
				t.lose(l, n.How, n.Script, n.Client)
			}
		default:
			t.loseAll(&n)
		}
	}
}

// loseAll pushes the loss of all locks of a database. It looks at no others: a client may flush an empty database
// many thousand times in an entry. The lock is held.
func (t *Table) loseAll(n *resp.LockNews) {
	for _, l := range slices.Clone(t.byDB[n.DB]) {
		t.lose(l, n.How, n.Script, n.Client)
	}
}

// grant stores a granted lock if its client is one of this node that gets pushes. The lock is held.
func (t *Table) grant(index uint64, n *resp.LockNews) {
	c := t.clients[int64(n.Client.Client().ID)]
	if c == nil || !c.conn.Is(n.Client) || index <= c.forgotten {
		return
	}
	id := lockID{n.DB, n.Key, n.Token}
	waits := c.stands != standsNot && c.line == id
	if waits && c.stands == stoodInVain {
		return
	}
	l := c.list[id]
	if l == nil {
		if len(c.list) >= locksMax || t.kept >= locksOfAllMax {
			return
		}
		id.key, id.token = strings.Clone(id.key), strings.Clone(id.token)
		l = &held{lockID: id, of: c}
		t.add(l)
	}
	l.fence = n.Fence
	if !waits {
		l.told = n.Fence
	}
	t.checkIn(l, n.LeaseMs-n.LeaseMs/3, n.LeaseMs)
}

// lose removes a lost lock, and pushes the loss to its client, unless the client gave the lock up. The lock is held.
func (t *Table) lose(l *held, how string, script bool, by resp.Sender) {
	t.remove(l)
	if !l.of.gaveUp(how, script, by) {
		t.push(l, "lock-lost", resp.Bulk(how))
	}
}

// gaveUp reports whether the holder gave a lock up: its token was compared, or this client did it in any way that
// LOCKS HISTORY calls released.
func (c *Client) gaveUp(how string, script bool, by resp.Sender) bool {
	switch how {
	case resp.LockReleased:
		return !script || c.conn.Is(by)
	case resp.LockDeleted:
		return c.conn.Is(by)
	}
	return false
}

// push pushes to the client that holds a lock. The lock is held.
func (t *Table) push(l *held, kind string, what resp.Reply) {
	form := resp.Push(
		resp.Bulk(kind), resp.Bulk(l.key), resp.Bulk(l.token), resp.Int(int64(l.fence)), what,
	).AppendTo(nil, 3)
	switch c := l.of; {
	case l.told != l.fence:
		c.lost, c.lostFence = form, l.fence
	case c.asking:
		c.waiting = append(c.waiting, form...)
	default:
		c.conn.Send(form)
	}
}

// CheckLeases gets from b the leases of which a third may be left, and warns their clients. It is called several times
// a second.
func (t *Table) CheckLeases(b Leases, now time.Time) {
	for {
		due, asked := t.dueChecks(now)
		if len(due) == 0 {
			return
		}
		leases := b.Leases(asked)
		t.lock.Lock()
		for i, l := range due {
			if l.of.list[l.lockID] == l && l.fence == asked[i].Fence {
				t.schedule(l, &leases[i])
			}
		}
		t.lock.Unlock()
	}
}

// dueChecks takes up to checksAtOnce locks whose check is due.
func (t *Table) dueChecks(now time.Time) (due []*held, asked []resp.HeldLock) {
	t.lock.Lock()
	defer t.lock.Unlock()
	for checks := &t.checks; len(due) < checksAtOnce && len(*checks) > 0; {
		l := (*checks)[0]
		if l.check.After(now) {
			break
		}
		due = append(due, l)
		asked = append(asked, resp.HeldLock{DB: l.db, Key: l.key, Token: l.token, Fence: l.fence})
		t.checkIn(l, math.MaxInt64, 0)
	}
	return due, asked
}

// schedule handles the current state of a lease: it pushes to the client, or schedules the next check. The lock is held.
func (t *Table) schedule(l *held, lease *resp.Lease) {
	third := lease.LeaseMs / 3
	switch {
	case !lease.Held: // the entries that ended it were in a snapshot, or its end is about to be published
		t.lose(l, lease.How, lease.Script, lease.Client)
	case lease.LeaseMs < 0:
	case lease.LeftMs > third:
		t.checkIn(l, lease.LeftMs-third, lease.LeaseMs)
	default:
		if l.warned != lease.Until && l.told == l.fence {
			l.warned = lease.Until
			t.push(l, "lock-expiring", resp.Int(lease.LeftMs))
		}
		t.checkIn(l, lease.LeftMs, lease.LeaseMs)
	}
}

func (t *Table) add(l *held) {
	t.kept++
	l.place = len(t.byDB[l.db])
	t.byDB[l.db] = append(t.byDB[l.db], l)
	t.locks[l.lockID] = append(t.locks[l.lockID], l)
	if l.of.list == nil {
		l.of.list = map[lockID]*held{}
	}
	l.of.list[l.lockID] = l
	heap.Push(&t.checks, l)
}

func (t *Table) remove(l *held) {
	t.kept--
	t.leaveDB(l)
	rest := slices.DeleteFunc(t.locks[l.lockID], func(o *held) bool { return o == l })
	if t.locks[l.lockID] = rest; len(rest) == 0 {
		delete(t.locks, l.lockID)
	}
	delete(l.of.list, l.lockID)
	heap.Remove(&t.checks, l.index)
}

// leaveDB takes a lock out of the list of its database, whose last lock takes its place.
func (t *Table) leaveDB(l *held) {
	list := t.byDB[l.db]
	last := len(list) - 1
	list[l.place], list[last].place = list[last], l.place
	list[last] = nil
	if t.byDB[l.db] = list[:last]; last == 0 {
		delete(t.byDB, l.db)
	}
}

// checkIn schedules the check of a lease in ms milliseconds: not so soon that a clock which stands still causes much
// work, and not so late that a shortened lease is long over.
func (t *Table) checkIn(l *held, ms, leaseMs int64) {
	ms = min(max(ms, leaseMs/checksPerLease), checkEveryMax.Milliseconds())
	l.check = l.of.clock().Add(time.Duration(ms) * time.Millisecond)
	heap.Fix(&t.checks, l.index)
}

// CheckAll schedules the check of all leases for the next CheckLeases. The lock is held.
func (t *Table) CheckAll() {
	for _, l := range t.checks {
		l.check = time.Time{} // equal times keep the heap valid
	}
}
