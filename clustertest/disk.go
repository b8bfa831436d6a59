package clustertest

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/store"
)

// Disk is the disk of a machine, in memory; it outlives the processes that use it. It has three stores: the log, with
// its mark, the votes and the snapshots. A write changes a store at once, as it reaches the page cache of a real
// machine, and returns after the latency, when it is synced. Until then a power failure may undo it. What lockd does
// with damage is the real thing: checksums, guard and the checks at a start work as in a data folder.
//
// All methods may be called concurrently.
type Disk struct {
	drawn func(n int) int

	mu      sync.Mutex
	name    string // by which the others tell it from other disks of its node
	node    string // whose disk it is
	starts  store.History
	seen    []store.LastSeen // starts of other nodes
	stores  stores
	latency time.Duration
	short   bool
	full    bool
	hung    chan struct{} // closed when the disk goes on; nil: it does not hang
}

// stores are the stores of a disk.
type stores struct {
	log       part[logContent]
	votes     part[map[string][]byte]
	snapshots part[[]snapshot] // the newest first
}

// Store names a store of a disk.
type Store string

// The stores of a disk.
const (
	Log       Store = "log"
	Votes     Store = "votes"
	Snapshots Store = "snapshots"
)

// part is a store: what it holds, and what it held before each write that is not synced. Contents are never changed in
// place, so a copy keeps its state.
type part[T any] struct {
	content  T
	unsynced []unsynced[T] // the oldest first
	writes   uint64        // so far
	lying    bool          // it reports syncs that it has not done
}

// unsynced is a write that is not on the disk yet.
type unsynced[T any] struct {
	write  uint64
	at     time.Time
	before T
}

// writebackMax bounds the time for which a write stays unsynced on a disk that lies about it; then the kernel writes it
// back by itself.
const writebackMax = 5 * time.Second

// begin changes the content, and returns the number of the write.
func (s *part[T]) begin(change func(T) T) uint64 {
	s.forget()
	s.writes++
	s.unsynced = append(s.unsynced, unsynced[T]{s.writes, time.Now(), s.content})
	s.content = change(s.content)
	return s.writes
}

// sync notes that the writes up to a number are on the disk.
func (s *part[T]) sync(write uint64) {
	if !s.lying {
		s.unsynced = slices.DeleteFunc(s.unsynced, func(u unsynced[T]) bool { return u.write <= write })
	}
}

// forget takes what the kernel has written by itself off the list.
func (s *part[T]) forget() {
	s.unsynced = slices.DeleteFunc(s.unsynced, func(u unsynced[T]) bool { return time.Since(u.at) > writebackMax })
}

// lose undoes unsynced writes; a drawn number of them, the oldest, is left. It returns whether any was undone.
func (s *part[T]) lose(drawn func(n int) int) bool {
	s.forget()
	left := drawn(len(s.unsynced) + 1)
	lost := left < len(s.unsynced)
	if lost {
		s.content = s.unsynced[left].before
	}
	s.unsynced = nil
	return lost
}

func newDisk(node, name string, drawn func(n int) int) *Disk {
	return &Disk{node: node, name: name, drawn: drawn}
}

// roomFree and roomKept are the bytes that a disk reports as free and as kept, unless it is short of space.
const (
	roomFree = 1 << 30
	roomKept = 1 << 20
)

func (d *Disk) room() store.Room {
	d.mu.Lock()
	defer d.mu.Unlock()
	return store.Room{Free: roomFree, Ballast: roomKept, Short: d.short || d.full}
}

// set changes how the disk behaves from now on.
func (d *Disk) set(change func(*Disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// SetLatency makes each later write take a time until it is synced. A node ends itself if its disk takes 5 s for an
// entry, or for a vote, which is two writes.
func (d *Disk) SetLatency(latency time.Duration) { d.set(func(d *Disk) { d.latency = latency }) }

// SetShort says whether the disk is nearly full from now on. Nodes look once a second.
func (d *Disk) SetShort(short bool) { d.set(func(d *Disk) { d.short = short }) }

// SetFull says whether writes find no space from now on: a node ends itself then, with its sentence.
func (d *Disk) SetFull(full bool) { d.set(func(d *Disk) { d.full = full }) }

// SetHung makes later writes wait, unsynced, until the disk no longer hangs.
func (d *Disk) SetHung(hung bool) {
	d.set(func(d *Disk) {
		switch {
		case hung && d.hung == nil:
			d.hung = make(chan struct{})
		case !hung && d.hung != nil:
			close(d.hung)
			d.hung = nil
		}
	})
}

// SetLying makes a store report syncs that it does not do: each write may be lost in a power failure of the next five
// seconds. A test shows by that that its checks notice lost writes.
func (d *Disk) SetLying(which Store, lying bool) {
	d.set(func(d *Disk) {
		switch which {
		case Log:
			d.stores.log.lying = lying
		case Votes:
			d.stores.votes.lying = lying
		case Snapshots:
			d.stores.snapshots.lying = lying
		}
	})
}

// Rot flips a drawn bit of a store: of an entry, of a vote, or of the newest snapshot. It returns what it has damaged; ""
// if there is nothing. A node notices when it reads that, at its next start at the latest.
func (d *Disk) Rot(which Store) (what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch which {
	case Log:
		return d.stores.log.content.rot(d.drawn)
	case Votes:
		d.stores.votes.content, what = rotVotes(d.stores.votes.content, d.drawn)
	case Snapshots:
		d.stores.snapshots.content, what = rotNewest(d.stores.snapshots.content, d.drawn)
	}
	return what
}

// Snapshots returns the ids of the snapshots, the oldest first.
func (d *Disk) Snapshots() (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, snap := range slices.Backward(d.stores.snapshots.content) {
		ids = append(ids, snap.meta.ID)
	}
	return ids
}

// RemoveSnapshot removes a snapshot. No process uses the disk.
func (d *Disk) RemoveSnapshot(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stores.snapshots.content = slices.DeleteFunc(slices.Clone(d.stores.snapshots.content), func(s snapshot) bool {
		return s.meta.ID == id
	})
}

// Copy returns a disk that holds the same, and passes for the same disk. It has no machine.
func (d *Disk) Copy() *Disk {
	made := newDisk("", "", d.drawn)
	made.CopyFrom(d)
	return made
}

// CopyFrom replaces what is on the disk by what is on another one, for which it passes then. No process uses the disk.
func (d *Disk) CopyFrom(other *Disk) {
	held := other.held()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.name, d.node, d.starts, d.seen, d.stores = held.name, held.node, held.starts, held.seen, held.stores
}

// held returns what is on the disk. All of it is synced.
func (d *Disk) held() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stores.log.content.clip() // both go on from here
	held := &Disk{name: d.name, node: d.node, starts: d.starts, seen: d.seen, stores: d.stores}
	held.stores.log.unsynced, held.stores.votes.unsynced, held.stores.snapshots.unsynced = nil, nil, nil
	return held
}

// leave ends a process on this disk, by a death. Exit returns how and why.
func (d *Disk) leave(p *Process, by death, how End, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if why != nil {
		p.died.Store(&why)
	}
	p.own = d.stores
	p.own.log.unsynced, p.own.votes.unsynced, p.own.snapshots.unsynced = nil, nil, nil
	p.how.Store(int32(how))
	p.ended.Store(true)
	d.lose(by)
	p.own.log.content.clip() // both go on from here
	d.stores.log.content.clip()
}

// losePower takes away what is not synced, where no process runs.
func (d *Disk) losePower(how death) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lose(how)
}

// lose undoes what a death undoes. d.mu is held.
func (d *Disk) lose(how death) {
	drawn := d.drawn
	switch how {
	case kill:
		return
	case drop:
		drawn = func(int) int { return 0 }
	}
	d.stores.log.lose(drawn)
	d.stores.votes.lose(drawn)
	whole := d.stores.snapshots.content
	if d.stores.snapshots.lose(drawn) && d.stores.snapshots.lying && drawn(2) > 0 {
		d.stores.snapshots.content = append([]snapshot{whole[0].torn(drawn)}, whole[1:]...)
	}
}

// mount is a disk as one process uses it: the cluster.Disk of its node. Once the process has ended, its writes reach
// only a copy of the disk, which it reads, so that nothing surprises what is left of it.
type mount struct {
	*Disk
	p *Process
}

// tokenLen is the length of the token of one start, in bytes, as in package store. A start on a copy of a disk draws
// another one of the tokens than the start of that number on the disk.
const (
	tokenLen = 10
	tokens   = math.MaxInt32
)

// Begin implements cluster.Disk.
func (m mount) Begin() (incarnation string, starts store.History) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starts.Starts++
	m.starts.Tokens += fmt.Sprintf("%0*d", tokenLen, m.drawn(tokens))
	m.starts.Tokens = m.starts.Tokens[max(0, len(m.starts.Tokens)-store.TokensMax):]
	return m.name, m.starts
}

// Open implements cluster.Disk. A goroutine that makes the process end itself ends there: a real process does not go
// on either, and Raft would panic over the error of a vote.
func (m mount) Open(opts store.Options) (*store.Stores, error) {
	fatal := opts.Fatal
	opts.Fatal = func(err error) {
		fatal(err)
		runtime.Goexit()
	}
	s, err := store.OpenBare(opts, m.bare())
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("disk %s: %w: the folder is in order", m.p.machine.ID, err)
		} else {
			err = fmt.Errorf("disk %s is damaged: %w", m.p.machine.ID, err)
		}
		m.p.end(kill, Refused, err)
		return nil, err
	}
	s.Stable = mortalVotes{s.Stable, m.p}
	s.MeasureSpace = m.room
	return s, nil
}

// LastSeen implements cluster.Disk.
func (m mount) LastSeen() ([]store.LastSeen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen, nil
}

// SaveLastSeen implements cluster.Disk. It takes no time: its caller has a lock for which others wait.
func (m mount) SaveLastSeen(seen []store.LastSeen) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return syscall.ENOSPC
	}
	if !m.p.ended.Load() {
		m.seen = seen
	}
	return nil
}

// bare returns the stores on the disk.
func (m mount) bare() store.Bare {
	return store.Bare{Log: memoryLog{m}, Votes: memoryVotes{m}, Snaps: memorySnapshots{m}, Mark: memoryMark{m}}
}

// mortalVotes ends the goroutine that gets an error: the process has ended because of it.
type mortalVotes struct {
	raft.StableStore
	p *Process
}

// Set implements raft.StableStore.
func (v mortalVotes) Set(key, value []byte) error { return v.p.survive(v.StableStore.Set(key, value)) }

// SetUint64 implements raft.StableStore.
func (v mortalVotes) SetUint64(key []byte, value uint64) error {
	return v.p.survive(v.StableStore.SetUint64(key, value))
}

func (p *Process) survive(err error) error {
	if err != nil && p.ended.Load() {
		runtime.Goexit()
	}
	return err
}

// now returns the stores as the process sees them. m.mu is held.
func (m mount) now() *stores {
	if m.p.ended.Load() {
		return &m.p.own
	}
	return &m.stores
}

// read returns the content of a store.
func read[T any](m mount, which func(*stores) *part[T]) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return which(m.now()).content
}

// mayWrite returns the error of a write where the disk is full.
func (m mount) mayWrite() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return syscall.ENOSPC
	}
	return nil
}

// begin changes a store, as the page cache of a machine is changed, and returns the number of the write.
func begin[T any](m mount, which func(*stores) *part[T], change func(T) T) (write uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return 0, syscall.ENOSPC
	}
	return which(m.now()).begin(change), nil
}

// flush returns once a store is synced up to a write. It takes the latency of the disk.
func flush[T any](m mount, which func(*stores) *part[T], write uint64) {
	m.wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	which(m.now()).sync(write)
}

// write changes a store, and returns once it is synced.
func write[T any](m mount, which func(*stores) *part[T], change func(T) T) error {
	n, err := begin(m, which, change)
	if err == nil {
		flush(m, which, n)
	}
	return err
}

// wait takes as long as a write, or until the process has ended.
func (m mount) wait() {
	m.mu.Lock()
	latency, hung := m.latency, m.hung
	m.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-m.p.dead:
		}
	}
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-m.p.dead:
		}
	}
}
