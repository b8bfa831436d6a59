package keyspace

import (
	"strings"

	"lockd/keyspace/command"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// Programs that sleep until a library publishes that a lock is free are woken here, where the lock has ended otherwise
// (state.GoneLock).

// Names and messages of libraries.
const (
	redissonChannel  = "redisson_lock__channel"
	redissonRWLock   = "redisson_rwlock"
	redissonQueue    = "redisson_lock_queue"
	redissonTimeouts = "redisson_lock_timeout"
	redissonOne      = "0" // wakes one program
	redissonAll      = "1" // wakes all

	pythonSignal   = "lock-signal:"
	pythonSignalMs = 1000
)

// fairLooksMax bounds how many places of a fair lock's queue are looked at.
const fairLooksMax = 64

// wakeLibraries wakes programs that wait for keys which have gone and not come back.
func (s service) wakeLibraries() {
	st := s.state
	for len(st.Gone) > 0 {
		g := st.Gone[0]
		st.Gone = st.Gone[1:]
		st.Serving = true // what it changes is nobody's command
		if c := command.NewCtx(st, s.at, g.DB); c.Lookup(g.Key) == nil {
			(&wakeup{st, &c, g}).run()
		}
		st.Serving = false
	}
	st.Gone = nil
}

// wakeup wakes the programs that may wait for a lock.
type wakeup struct {
	state *state.State
	c     *command.Ctx
	state.GoneLock
}

func (w *wakeup) run() {
	switch w.Wake {
	case state.RedissonLocks:
		w.redisson()
	case state.RedissonWriters:
		w.publish(redissonName(redissonRWLock, w.Key), redissonOne)
	case state.RedissonReaders:
		w.publish(redissonName(redissonRWLock, w.Key), redissonAll)
	case state.PythonLocks:
		w.python()
	}
}

// redissonName returns the name by which Redisson knows something that belongs to a lock.
func redissonName(what, key string) string {
	if strings.Contains(key, "{") {
		return what + ":" + key
	}
	return what + ":{" + key + "}"
}

// publish publishes as PUBLISH and as SPUBLISH: clients of a Redis Cluster listen to the latter.
func (w *wakeup) publish(channel, message string) {
	w.state.Meter.Spend(2 * meter.PublishWork)
	w.c.Publish(resp.MessageChannel, channel, message)
	w.c.Publish(resp.MessageShard, channel, message)
}

// redisson wakes one program that waits for a lock, and the next one in the queue of a fair lock.
func (w *wakeup) redisson() {
	channel := redissonName(redissonChannel, w.Key)
	w.publish(channel, redissonOne)
	if next := w.nextInQueue(); next != "" {
		w.publish(channel+":"+next, redissonOne)
	}
}

// nextInQueue returns the first in the queue of a fair lock that has not given up by now.
func (w *wakeup) nextInQueue() string {
	queue, err := command.LookupList(w.c, redissonName(redissonQueue, w.Key))
	if err != nil || queue == nil {
		return ""
	}
	ends, err := command.LookupZset(w.c, redissonName(redissonTimeouts, w.Key))
	if err != nil {
		return ""
	}
	for i := range min(queue.Len(), fairLooksMax) {
		next := queue.Get(i)
		if ends == nil {
			return next
		}
		w.state.Meter.Spend(value.FarWork + ends.FindWork(next))
		if end, there := ends.Get(next); !there || end > float64(w.c.WallMs()) {
			return next
		}
	}
	return ""
}

// python wakes one program that waits for a lock of python-redis-lock, in BLPOP of a list, if there is one.
func (w *wakeup) python() {
	signal := pythonSignal + strings.TrimPrefix(w.Key, state.PythonLock)
	w.state.Meter.Spend(value.TreeWork(w.state.Waits.Queues.Len()))
	if w.state.Waits.Queues.Next(wait.Queue{DB: w.DB, Key: signal, Kind: state.KindOf(value.ListKind)}, 0) == nil || w.c.Lookup(signal) != nil {
		return
	}
	until, ok := w.c.After(pythonSignalMs)
	if !ok {
		return
	}
	command.PushAll(w.c, signal, []string{redissonAll}, value.LeftEnd, false)
	command.SetDeadline(w.c, signal, until)
	w.c.Notify(emit.Generic, "expire", signal)
}
