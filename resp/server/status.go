package server

import (
	"strings"
	"sync"
	"sync/atomic"

	"lockd/resp"
)

// phase is what a session is doing, for the janitor. Its two lowest bits are the
// kind, the rest a counter: a value seen twice is a session that has stood still.
type phase = uint64

const (
	phaseReading phase = iota // waits for its client
	phaseRunning              // runs commands; may wait in the backend
	phaseWriting              // writes to its socket
	phaseKinds   = 4
)

// status is what others may see of a session while it works: the janitor, INFO, CLIENT LIST, the
// hub. The session's goroutine changes it, and the hub's trackFlags and redirect.
type status struct {
	proto      atomic.Int32
	db         atomic.Int32
	phase      atomic.Uint64
	activeAt   atomic.Int64 // in ticks of the janitor
	last       atomic.Pointer[resp.Spec]
	queued     atomic.Int32 // commands in the open transaction; -1: none
	subCount   atomic.Int32 // channels
	psubCount  atomic.Int32
	ssubCount  atomic.Int32
	inputBytes atomic.Int64 // in the input buffer
	noEvict    atomic.Bool
	noTouch    atomic.Bool
	readOnly   atomic.Bool            // READONLY: a follower may serve its reads
	monitors   atomic.Bool            // MONITOR
	blocked    atomic.Bool            // waits until clients are not paused
	trackFlags atomic.Uint32          // flagTracks ...
	redirect   atomic.Int64           // of tracking; -1: does not track
	parked     atomic.Pointer[parked] // nil: no blocking command waits
	names      clientNames
}

// begin is the status of a client that has just come.
func (st *status) begin(ticks int64) {
	st.proto.Store(2)
	st.queued.Store(-1)
	st.redirect.Store(-1)
	st.activeAt.Store(ticks)
}

func (st *status) enter(kind phase) {
	st.phase.Store((st.phase.Load()/phaseKinds+1)*phaseKinds + kind)
}

func (st *status) kind() phase { return st.phase.Load() % phaseKinds }

func (st *status) subscribed() bool {
	return st.subCount.Load()+st.psubCount.Load()+st.ssubCount.Load() > 0
}

// mayTimeOut: who only listens is silent by nature.
func (st *status) mayTimeOut() bool { return !st.subscribed() && !st.monitors.Load() }

// class is Redis's class of a client. There are no replicas among them: replication has its own
// port.
func (st *status) class() string {
	if st.subscribed() {
		return "pubsub"
	}
	return "normal"
}

// The bits of status.trackFlags.
const (
	flagTracks uint32 = 1 << iota
	flagBroken
	flagBroadcast
)

// flags are the letters of CLIENT LIST.
func (st *status) flags(unix bool) string {
	track := st.trackFlags.Load()
	letters := ""
	for _, f := range []struct {
		set    bool
		letter string
	}{
		{st.monitors.Load(), "O"}, {st.subscribed(), "P"}, {st.queued.Load() >= 0, "x"},
		{st.blocked.Load() || st.parked.Load() != nil, "b"},
		{track&flagTracks != 0, "t"}, {track&flagBroken != 0, "R"}, {track&flagBroadcast != 0, "B"},
		{unix, "U"}, {st.readOnly.Load(), "r"}, {st.noEvict.Load(), "e"}, {st.noTouch.Load(), "T"},
	} {
		if f.set {
			letters += f.letter
		}
	}
	if letters == "" {
		return "N"
	}
	return letters
}

// clientNames is what a client says about itself.
type clientNames struct {
	mu                    sync.Mutex
	name, libName, libVer string
}

const errClientName = "ERR Client names cannot contain spaces, newlines or special characters."

// printable is what Redis asks of a client's name and library.
func printable(name string) bool {
	strange := func(r rune) bool { return r < '!' || r > '~' }
	return len(name) <= clientNameBytesMax && !strings.ContainsFunc(name, strange)
}

func (n *clientNames) get() (name, libName, libVer string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.name, n.libName, n.libVer
}

func (n *clientNames) setName(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.name = strings.Clone(name)
}

func (n *clientNames) setLibName(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.libName = strings.Clone(name)
}

func (n *clientNames) setLibVer(version string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.libVer = strings.Clone(version)
}
