package wait

import (
	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/resp"
)

// Command is a parsed command that can wait.
type Command interface {
	Kind() Kind       // of the values that it takes from
	Keys() []string   // it takes from the first that holds such a value
	TimeoutMs() int64 // 0: it waits for ever
	Lock() *lock.Want // of LOCK, whose Kind is LockLine; else nil
}

// Waiter is a command that waits. It does not change.
type Waiter struct {
	ID     resp.BlockID
	Seq    uint64 // its place among all waiters
	DB     int
	End    int64       // tick after which it stops waiting; store.Never.Tick: it waits for ever
	Args   resp.Args   // of the command
	Client resp.Sender // "": not known
	Command

	inLine *lock.Waiter // its place in the line for a lock, while it has one
}

// Name is the lock that a LOCK waits for.
func (w *Waiter) Name() lock.Name { return lock.Name{Space: w.DB, Key: w.Keys()[0]} }

// LeftMs returns for how long a waiter may still wait; -1: for ever.
func (w *Waiter) LeftMs(now int64) int64 {
	if w.End == store.Never.Tick {
		return -1
	}
	return max(w.End-now, 1)
}

// WaitedMs returns for how long a waiter with an end has waited.
func (w *Waiter) WaitedMs(now int64) int64 {
	if w.End == store.Never.Tick {
		return 0
	}
	return max(0, now-(w.End-w.TimeoutMs()))
}

// The memory that a waiter is assumed to need beside its arguments, for each of its keys, and for its client beside the
// texts of that.
const (
	waiterOverheadBytes = 320
	waiterKeyBytes      = 96
	clientOverheadBytes = 80
)

func (w *Waiter) bytes() int64 {
	n := int64(waiterOverheadBytes+waiterKeyBytes*len(w.Keys())+bytesOf(w.Args)) + clientBytes(w.Client)
	if w.Lock() != nil {
		n += waiterKeyBytes
	}
	return n
}

func clientBytes(s resp.Sender) int64 {
	if s == "" {
		return 0
	}
	c := s.Client()
	return clientOverheadBytes + int64(len(c.Name)+len(c.Addr)+len(c.Node))
}

func (w *Waiter) place(key string) place {
	return place{Queue{w.DB, key, w.Kind()}, w.Seq, w}
}

func (w *Waiter) lineWaiter() *lock.Waiter {
	return &lock.Waiter{Want: *w.Lock(), ID: lock.ID(w.ID), Lock: w.Name(), Seq: w.Seq, End: w.End}
}
