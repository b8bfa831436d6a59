package server

import (
	"math"
	"sync/atomic"
	"time"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// Limits on what one client may make the server keep or do. CONFIG SET can change a limit that is a setting; the others
// are fixed.
const (
	transactionCmdsMax  = 1 << 16   // commands queued by MULTI
	transactionBytesMax = 12 << 20  // bytes queued by MULTI: they must fit one entry of the log
	transactionWorkMax  = 16 << 20  // bytes that the connection's commands in a transaction answer, plus work
	memoryBytesMax      = 64 << 20  // subscriptions, queued commands, watched keys, prefixes to track
	memoryBytesOfAllMax = 512 << 20 // of all clients together
	watchedKeysMax      = 1 << 16   // keys watched by one client
	watchedBytesMax     = 16 << 20  // bytes of those keys
	countedNamesMax     = 1 << 16   // channels of one PUBSUB NUMSUB
	countedBytesMax     = 16 << 20  // bytes of their names
	monitorsMax         = 64        // clients that monitor (MONITOR)
	monitorArgBytesMax  = 1 << 20   // bytes shown of each argument
	shrinksMax          = 128       // steps, in a round of the janitor, by which the table of tracked keys shrinks
	loggedNameBytesMax  = 128       // of a client's name, in the log
	clientNameBytesMax  = 4 << 10   // CLIENT SETNAME, SETINFO
	genpassBitsMax      = 4096      // ACL GENPASS
	globStepsMax        = 1 << 14   // comparisons of a pattern with the name of a command or setting
)

// Work of the connection's commands beside their answers, for transactionWorkMax.
const (
	workPerClient = 16 // of CLIENT LIST
	workPerRow    = 64 // of COMMAND LIST
	workPerPrefix = 16 // of CLIENT TRACKING
)

// A run is bounded like one read of the input.
const (
	pipelineCmdsMax  = wire.PipelineCmdsMax  // commands of one run, which is one Request
	pipelineBytesMax = wire.PipelineBytesMax // bytes of one run, but for its last command
)

// Sizes that trade memory for system calls.
const (
	outputKeep = 64 << 10 // a larger buffer of replies is freed once they are written
	flushBytes = 64 << 10 // replies are written when this many bytes wait, also inside a pipeline
)

// Times of the code around the sessions.
const (
	janitorEvery  = 50 * time.Millisecond  // see janitor.go
	lingerMax     = 200 * time.Millisecond // how long a closing connection waits for its client to close
	lingerBytes   = 1 << 20                // and how many of the bytes it still sends are read
	cutOffMax     = time.Second            // how long Shutdown waits for sessions after cutting them off
	acceptBackoff = 50 * time.Millisecond  // pause when accept fails (out of descriptors)
)

// memory counts what a client occupies between its commands: subscriptions, the commands queued by MULTI, watched keys,
// prefixes to track, each with its overhead. Only the client's session changes it.
type memory struct {
	bytes atomic.Int64
	ofAll *atomic.Int64 // of all clients of the server
}

// The overhead of each, in bytes beside its text.
const (
	memoryPerCommand = 64
	memoryPerArg     = 16
	memoryPerWatch   = 64
	memoryPerPrefix  = 640 // of CLIENT TRACKING BCAST: its places in three tables
)

const errMemory = "ERR this would take too much memory: subscriptions, queued commands, watched keys and prefixes " +
	"to track may take 64 MiB of a client and 512 MiB of all"

// Reserve adds bytes if there is room for them; otherwise it returns the error of the client.
func (m *memory) Reserve(bytes int) error {
	n := int64(bytes)
	if m.bytes.Load()+n > memoryBytesMax {
		return resp.Error(errMemory)
	}
	if m.ofAll.Add(n) > memoryBytesOfAllMax {
		m.ofAll.Add(-n)
		return resp.Error(errMemory)
	}
	m.bytes.Add(n)
	return nil
}

// Release takes back bytes that Reserve has added.
func (m *memory) Release(bytes int) {
	m.bytes.Add(-int64(bytes))
	m.ofAll.Add(-int64(bytes))
}

// Seats are the connections for which a process has file descriptors. The servers of a process share them, whatever
// maxclients says, so that descriptors remain for the log, snapshots and peers. Its methods are safe for concurrent
// use; a nil Seats has no bound.
type Seats struct {
	most  func() int64
	taken atomic.Int64
}

// NewSeats returns seats for most() connections. most is called for each connection, from several goroutines: the
// limit of a process can change while it runs.
func NewSeats(most func() int64) *Seats { return &Seats{most: most} }

// Max returns the number of seats at present. More may be taken, if the number was higher before.
func (s *Seats) Max() int64 {
	if s == nil {
		return math.MaxInt64
	}
	return s.most()
}

func (s *Seats) take() bool {
	if s == nil {
		return true
	}
	if s.taken.Add(1) > s.most() {
		s.taken.Add(-1)
		return false
	}
	return true
}

func (s *Seats) free() {
	if s != nil {
		s.taken.Add(-1)
	}
}
