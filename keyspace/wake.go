package keyspace

import (
	"strings"

	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// Programs that sleep until a library publishes that a lock is free are woken here, where the lock has ended otherwise
// (see goneLock).

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
		if c := newCtx(st, s.at, g.DB); c.lookup(g.Key) == nil {
			wake(&c, g)
		}
		st.Serving = false
	}
	st.Gone = nil
}

// wake wakes the programs that may wait for a lock.
func wake(c *ctx, g state.GoneLock) {
	switch g.Wake {
	case state.RedissonLocks:
		wakeRedisson(c, g.Key)
	case state.RedissonWriters:
		publishRedisson(c, redissonName(redissonRWLock, g.Key), redissonOne)
	case state.RedissonReaders:
		publishRedisson(c, redissonName(redissonRWLock, g.Key), redissonAll)
	case state.PythonLocks:
		wakePython(c, g.Key)
	}
}

// redissonName returns the name by which Redisson knows something that belongs to a lock.
func redissonName(what, key string) string {
	if strings.Contains(key, "{") {
		return what + ":" + key
	}
	return what + ":{" + key + "}"
}

// publishRedisson publishes as PUBLISH and as SPUBLISH: clients of a Redis Cluster listen to the latter.
func publishRedisson(c *ctx, channel, message string) {
	c.s.Meter.Spend(2 * meter.PublishWork)
	c.publish(resp.MessageChannel, channel, message)
	c.publish(resp.MessageShard, channel, message)
}

// wakeRedisson wakes one program that waits for a lock, and the next one in the queue of a fair lock.
func wakeRedisson(c *ctx, key string) {
	channel := redissonName(redissonChannel, key)
	publishRedisson(c, channel, redissonOne)
	if next := nextInQueue(c, key); next != "" {
		publishRedisson(c, channel+":"+next, redissonOne)
	}
}

// nextInQueue returns the first in the queue of a fair lock that has not given up by now.
func nextInQueue(c *ctx, key string) string {
	queue, err := lookupList(c, redissonName(redissonQueue, key))
	if err != nil || queue == nil {
		return ""
	}
	ends, err := lookupZset(c, redissonName(redissonTimeouts, key))
	if err != nil {
		return ""
	}
	for i := range min(queue.Len(), fairLooksMax) {
		next := queue.Get(i)
		if ends == nil {
			return next
		}
		c.s.Meter.Spend(value.FarWork + ends.FindWork(next))
		if end, there := ends.Get(next); !there || end > float64(c.wallMs()) {
			return next
		}
	}
	return ""
}

// wakePython wakes one program that waits for a lock of python-redis-lock, in BLPOP of a list, if there is one.
func wakePython(c *ctx, key string) {
	signal := pythonSignal + strings.TrimPrefix(key, state.PythonLock)
	c.s.Meter.Spend(value.TreeWork(c.s.Waits.Queues.Len()))
	if c.s.Waits.Queues.Next(wait.Queue{DB: c.db, Key: signal, Kind: state.KindOf(value.ListKind)}, 0) == nil || c.lookup(signal) != nil {
		return
	}
	until, ok := c.after(pythonSignalMs)
	if !ok {
		return
	}
	pushAll(c, signal, []string{redissonAll}, value.LeftEnd, false)
	setDeadline(c, signal, until)
	c.notify(emit.Generic, "expire", signal)
}
