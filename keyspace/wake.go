package keyspace

import (
	"slices"
	"strings"

	"lockd/keyspace/emit"
	"lockd/keyspace/fate"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// A program that waits for a lock by a library sleeps until the library's own script publishes that the lock is free.
// Where the lock ends otherwise, as by the end of its lease or by DEL, the machine publishes the same message.

// goneLock is a key that has gone; wake wakes the programs that may wait for it.
type goneLock struct {
	db   int
	key  string
	wake func(c *ctx, key string)
}

// Names and messages of libraries.
const (
	redissonChannel  = "redisson_lock__channel"
	redissonRWLock   = "redisson_rwlock"
	redissonQueue    = "redisson_lock_queue"
	redissonTimeouts = "redisson_lock_timeout"
	redissonOne      = "0" // wakes one program
	redissonAll      = "1" // wakes all

	pythonLock     = "lock:"
	pythonSignal   = "lock-signal:"
	pythonSignalMs = 1000
)

// fairLooksMax bounds how many places of a fair lock's queue are looked at.
const fairLooksMax = 64

// queueWakeups notes a key that has gone and for which programs may wait.
func queueWakeups(m *Machine, _ *fate.Cause, change store.Change) {
	was := change.Was
	if change.Next != nil || was == nil || !m.applying || !m.settings.WakeLibraries {
		return
	}
	var wake func(c *ctx, key string)
	switch l := was.HashLock(); {
	case l != nil && l.Shared():
		wake = wakeWriter
	case l != nil && writes(l):
		wake = wakeReaders
	case l != nil:
		wake = wakeRedisson
	case was.Aggregate() == nil && m.waits.Queues.Len() > 0 && strings.HasPrefix(was.Key(), pythonLock):
		wake = wakePython
	default:
		return
	}
	m.gone = append(m.gone, goneLock{change.DB, was.Key(), wake})
}

// writes reports whether a writer holds a read-write lock.
func writes(l *store.HashLock) bool {
	return len(l.Holders) > 0 && strings.HasSuffix(l.Holders[0].Token, fate.HashWrite)
}

// forgetAnnounced forgets the locks that a script has ended and whose end it has published itself.
func forgetAnnounced(m *Machine, j *journal) {
	if len(m.gone) == j.gone {
		return
	}
	announced := map[string]bool{}
	for _, msg := range m.out.Since(j.out) {
		if strings.HasPrefix(msg.Channel, fate.RedissonPrefix) {
			addNamed(announced, msg.Channel)
		}
	}
	rest := slices.DeleteFunc(m.gone[j.gone:], func(g goneLock) bool { return announced[g.key] })
	m.gone = m.gone[:j.gone+len(rest)]
}

// addNamed adds the names of the locks that a channel of Redisson's may be about: what:{name} or, if that has
// braces itself, what:name, with the program and the thread behind it that is next in a fair lock's queue.
func addNamed(names map[string]bool, channel string) {
	_, name, _ := strings.Cut(channel, ":")
	if end := strings.LastIndexByte(name, '}'); end > 0 && name[0] == '{' {
		names[name[1:end]] = true
	}
	for range 3 {
		names[name] = true
		name = name[:max(0, strings.LastIndexByte(name, ':'))]
	}
}

// wakeLibraries wakes programs that wait for keys which have gone and not come back.
func (s service) wakeLibraries() {
	m := s.m
	for len(m.gone) > 0 {
		g := m.gone[0]
		m.gone = m.gone[1:]
		m.serving = true // what it changes is nobody's command
		if c := (&ctx{m: m, at: s.at, db: g.db}); c.lookup(g.key) == nil {
			g.wake(c, g.key)
		}
		m.serving = false
	}
	m.gone = nil
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
	c.m.meter.Spend(2 * meter.PublishWork)
	c.publish(resp.MessageChannel, channel, message)
	c.publish(resp.MessageShard, channel, message)
}

func wakeWriter(c *ctx, key string) {
	publishRedisson(c, redissonName(redissonRWLock, key), redissonOne)
}
func wakeReaders(c *ctx, key string) {
	publishRedisson(c, redissonName(redissonRWLock, key), redissonAll)
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
		c.m.meter.Spend(value.FarWork + ends.FindWork(next))
		if end, there := ends.Get(next); !there || end > float64(c.wallMs()) {
			return next
		}
	}
	return ""
}

// wakePython wakes one program that waits for a lock of python-redis-lock, in BLPOP of a list, if there is one.
func wakePython(c *ctx, key string) {
	signal := pythonSignal + strings.TrimPrefix(key, pythonLock)
	c.m.meter.Spend(value.TreeWork(c.m.waits.Queues.Len()))
	if c.m.waits.Queues.Next(wait.Queue{DB: c.db, Key: signal, Kind: kindOf(value.ListKind)}, 0) == nil || c.lookup(signal) != nil {
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
