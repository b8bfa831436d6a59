package holders

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockd/resp"
)

// holder is a client whose pushes are kept.
type holder struct {
	Client
	name  resp.Sender
	words []string // kind, key and last element of each push
}

func (h *holder) Send(form []byte) {
	for push := range strings.SplitSeq(string(form), ">5\r\n") {
		if parts := strings.Split(push, "\r\n"); len(parts) > 8 {
			last := strings.TrimPrefix(parts[len(parts)-2], ":")
			h.words = append(h.words, parts[1]+" "+parts[3]+" "+last)
		}
	}
}

func (h *holder) Is(by resp.Sender) bool { return by == h.name }

func (h *holder) want(t *testing.T, words ...string) {
	t.Helper()
	if !slices.Equal(h.words, words) {
		t.Errorf("pushed were %q, want %q", h.words, words)
	}
	h.words = nil
}

// world is a table whose clock stands where the test puts it, with the leases of a node.
type world struct {
	*Table
	now   time.Time
	lease resp.Lease
	asked int
}

func newWorld() *world { return &world{Table: NewTable(&sync.Mutex{}), now: time.Unix(1000, 0)} }

func (w *world) Leases(locks []resp.HeldLock) []resp.Lease {
	w.asked += len(locks)
	return slices.Repeat([]resp.Lease{w.lease}, len(locks))
}

func (w *world) check() { w.CheckLeases(w, w.now) }

func (w *world) client(id uint64) *holder {
	h := &holder{name: resp.Client{ID: id, Addr: "10.0.0.1:7"}.Sender()}
	h.Init(int64(id), h, func() time.Time { return w.now })
	w.register(&h.Client)
	return h
}

// register has a client ask for a lock, and be answered.
func (w *world) register(c *Client) {
	w.Ask(c)
	w.SendWaiting(c)
}

type form resp.LockNews

func (*form) Channel([]byte) string       { return "" }
func (*form) Payload([]byte) string       { return "" }
func (f *form) News([]byte) resp.LockNews { return resp.LockNews(*f) }

// tell publishes an event of lock key with token t, as the entry index of the log.
func (w *world) tell(index uint64, key, how string, by resp.Sender) {
	f := form{HeldLock: resp.HeldLock{Key: key, Token: "t", Fence: 3}, How: how, LeaseMs: 3000, Client: by}
	w.Publish([]resp.Message{{Kind: resp.MessageLock, Index: index, Form: &f}})
}

func (w *world) wantSizes(t *testing.T, locks, clients int) {
	t.Helper()
	if l, c := w.Sizes(); l != locks || c != clients {
		t.Errorf("%d locks of %d clients are kept, want %d of %d", l, c, locks, clients)
	}
}

// A client is told once of a loss that it did not ask for, and of none that its token asked for.
func TestLoss(t *testing.T) {
	w := newWorld()
	a, b := w.client(1), w.client(2)
	for _, c := range []struct {
		how  string
		by   resp.Sender
		told []string
	}{
		{"expired", "", []string{"lock-lost k expired"}},
		{resp.LockReleased, b.name, nil},
		{resp.LockDeleted, a.name, nil},
		{resp.LockDeleted, b.name, []string{"lock-lost k deleted"}},
	} {
		w.tell(1, "k", resp.LockGranted, a.name)
		w.tell(2, "k", c.how, c.by)
		w.tell(3, "k", c.how, c.by) // it is gone already
		a.want(t, c.told...)
		b.want(t)
	}
	w.wantSizes(t, 0, 2)
}

// Pushes wait while the answer of a request that may take a lock is on its way.
func TestPushesWaitForTheAnswer(t *testing.T) {
	w := newWorld()
	a := w.client(1)
	w.Ask(&a.Client)
	w.tell(1, "k", resp.LockGranted, a.name)
	w.tell(2, "k", "expired", "")
	a.want(t)
	w.SendWaiting(&a.Client)
	a.want(t, "lock-lost k expired")
}

// A client that waits is told nothing of a grant before it has been told of that, and then all that is still true.
func TestPushesAboutGrantsOfWaiters(t *testing.T) {
	w := newWorld()
	a := w.client(1)
	w.lease = resp.Lease{Held: true, Until: 3000, LeaseMs: 3000, LeftMs: 900}
	waits := func(told ...string) {
		t.Helper()
		w.Wait(&a.Client, 0, "k", "t")
		w.tell(1, "k", resp.LockGranted, a.name)
		w.now = w.now.Add(3 * time.Second)
		w.check()
		a.want(t, told...)
	}
	waits()
	w.tell(2, "other", resp.LockGranted, a.name)
	w.tell(2, "other", "expired", "")
	a.want(t, "lock-lost other expired")
	w.Told(&a.Client, 3)
	w.check()
	a.want(t, "lock-expiring k 900")
	w.LeaveLine(&a.Client)
	w.tell(3, "k", "expired", "")
	a.want(t, "lock-lost k expired")
	waits()
	w.tell(4, "k", "expired", "")
	w.tell(5, "k", resp.LockGranted, a.name)
	a.want(t)
	w.Told(&a.Client, 3)
	a.want(t, "lock-lost k expired")
	w.tell(6, "k", "expired", "")
	a.want(t, "lock-lost k expired")
	waits()
	w.LeaveLine(&a.Client)
	w.wantSizes(t, 0, 1)
	w.tell(7, "k", resp.LockGranted, a.name) // late
	w.wantSizes(t, 0, 1)
	w.Ask(&a.Client)
	w.tell(8, "k", resp.LockGranted, a.name)
	w.wantSizes(t, 1, 1)
	w.SendWaiting(&a.Client)
	waits("lock-expiring k 900") // with a token that has it
	w.LeaveLine(&a.Client)
	w.wantSizes(t, 1, 1)
}

// Forget also forgets locks whose grant arrives later than the answer that the client has seen.
func TestForgottenGrant(t *testing.T) {
	w := newWorld()
	a := w.client(1)
	w.tell(1, "early", resp.LockGranted, a.name)
	w.Ask(&a.Client)
	a.Saw(5)
	w.Forget(&a.Client)
	w.wantSizes(t, 0, 0)
	w.register(&a.Client)
	w.tell(5, "late", resp.LockGranted, a.name)
	w.wantSizes(t, 0, 1)
	w.tell(6, "new", resp.LockGranted, a.name)
	w.wantSizes(t, 1, 1)
}

// A client is warned once of a lease of which a third is left, and again after it was renewed.
func TestExpiring(t *testing.T) {
	w := newWorld()
	a := w.client(1)
	w.tell(1, "k", resp.LockGranted, a.name)
	w.lease = resp.Lease{Held: true, Until: 3000, LeaseMs: 3000, LeftMs: 1000}
	w.now = w.now.Add(1999 * time.Millisecond)
	w.check()
	if a.want(t); w.asked != 0 {
		t.Errorf("%d leases were asked for too early", w.asked)
	}
	w.now = w.now.Add(time.Millisecond)
	w.check()
	a.want(t, "lock-expiring k 1000")
	w.now = w.now.Add(time.Second)
	w.check()
	a.want(t)
	w.lease.Until, w.lease.LeftMs = 6000, 999
	w.now = w.now.Add(time.Second)
	w.check()
	a.want(t, "lock-expiring k 999")
	w.lease = resp.Lease{How: "expired"}
	w.now = w.now.Add(checkEveryMax)
	w.check()
	a.want(t, "lock-lost k expired")
	w.wantSizes(t, 0, 1)
}

// CheckAll finds at once what was lost in entries that this node never published.
func TestCheckAll(t *testing.T) {
	w := newWorld()
	a := w.client(1)
	w.tell(1, "k", resp.LockGranted, a.name)
	w.tell(1, "l", resp.LockGranted, a.name)
	w.lease = resp.Lease{How: resp.LockUnknown}
	w.CheckAll()
	w.check()
	slices.Sort(a.words)
	a.want(t, "lock-lost k unknown", "lock-lost l unknown")
}

// tellOf publishes an event of lock key of a database with a token; with none, the loss of all its locks.
func (w *world) tellOf(db int, key, token, how string, by resp.Sender) {
	f := form{HeldLock: resp.HeldLock{DB: db, Key: key, Token: token, Fence: 3}, How: how, LeaseMs: 3000, Client: by}
	w.Publish([]resp.Message{{Kind: resp.MessageLock, Index: 1, Form: &f}})
}

// A flush loses each lock of its database once, and none of another.
func TestFlushLosesTheLocksOfItsDatabase(t *testing.T) {
	w := newWorld()
	a, b := w.client(1), w.client(2)
	for _, key := range []string{"k", "l", "m"} {
		w.tellOf(1, key, "t", resp.LockGranted, a.name)
		w.tellOf(2, key, "t", resp.LockGranted, b.name)
	}
	w.tellOf(1, "k", "t", "expired", "")
	a.want(t, "lock-lost k expired")
	for range 2 {
		w.tellOf(1, "", "", "flushed", "")
	}
	slices.Sort(a.words)
	a.want(t, "lock-lost l flushed", "lock-lost m flushed")
	b.want(t)
	w.wantSizes(t, 3, 2)
	w.tellOf(2, "", "", "swapped", "")
	slices.Sort(b.words)
	b.want(t, "lock-lost k swapped", "lock-lost l swapped", "lock-lost m swapped")
	w.wantSizes(t, 0, 2)
}

// A flush copies none of the locks of other databases.
func TestFlushCopiesNoLocksOfOtherDatabases(t *testing.T) {
	const others, flushes = 8, 64
	w := newWorld()
	for id := range uint64(others) {
		h := w.client(id + 1)
		for i := range locksMax {
			w.tellOf(0, strings.Repeat("k", i+1), "t", resp.LockGranted, h.name)
		}
	}
	a := w.client(others + 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range flushes {
		w.tellOf(1, "k", "t", resp.LockGranted, a.name)
		w.tellOf(1, "", "", "flushed", "")
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / flushes; per > others*locksMax {
		t.Errorf("a flush of one lock allocates %d bytes beside %d locks of another", per, others*locksMax)
	}
	if len(a.words) != flushes {
		t.Errorf("%d losses were pushed, want %d", len(a.words), flushes)
	}
	w.wantSizes(t, others*locksMax, others+1)
}

// Beyond its number of locks a client is told of none.
func TestLocksMax(t *testing.T) {
	w := newWorld()
	a := w.client(1)
	for i := range locksMax + 1 {
		w.tell(1, strings.Repeat("k", i+1), resp.LockGranted, a.name)
	}
	w.wantSizes(t, locksMax, 1)
}

// Libraries that take a push for a reply get none.
func TestTakes(t *testing.T) {
	lock := []resp.Cmd{{Spec: &resp.Spec{Name: "get"}}, {Spec: &resp.Spec{Name: resp.LockCommand}}}
	for _, c := range []struct {
		cmds         []resp.Cmd
		lib, version string
		want         bool
	}{
		{lock, "", "", true}, {lock[:1], "", "", false},
		{lock, "jedis", "7.1.0", false}, {lock, "jedis", "", false}, {lock, "jedis", "8.0", true},
		{lock, "jedis", "10.0", true}, {lock, "redis-py", "5.0", true},
	} {
		if got := Takes(c.cmds, c.lib, c.version); got != c.want {
			t.Errorf("%d commands of %s %s: %v", len(c.cmds), c.lib, c.version, got)
		}
	}
}
