package keyspace

import (
	"slices"
	"strings"

	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// Who waits for a lock by a library sleeps until the library's own script says that it is free. What ends
// the lock otherwise, as the end of its lease or DEL, is said here, in the words of that script.

// goneLock is a key that has gone, and how those who may wait for it are woken.
type goneLock struct {
	db   int
	key  string
	wake func(c *ctx, key string)
}

// What libraries call their things.
const (
	redissonChannel  = "redisson_lock__channel"
	redissonRWLock   = "redisson_rwlock"
	redissonQueue    = "redisson_lock_queue"
	redissonTimeouts = "redisson_lock_timeout"
	redissonOne      = "0" // wakes one who waits
	redissonAll      = "1" // wakes all

	pythonLock     = "lock:"
	pythonSignal   = "lock-signal:"
	pythonSignalMs = 1000
)

// fairLooksMax bounds how many of a fair lock's queue are looked at.
const fairLooksMax = 64

// queueWakeups notes that a key has gone for which programs may wait.
func queueWakeups(m *Machine, _ *cause, change store.Change) {
	was := change.Was
	if change.Next != nil || was == nil || !m.applying || !m.settings.wakeLibraries {
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
	case was.Aggregate() == nil && m.waits.Queued() > 0 && strings.HasPrefix(was.Key(), pythonLock):
		wake = wakePython
	default:
		return
	}
	m.gone = append(m.gone, goneLock{change.DB, was.Key(), wake})
}

// writes reports whether one who writes holds a read-write lock.
func writes(l *store.HashLock) bool {
	return len(l.Holders) > 0 && strings.HasSuffix(l.Holders[0].Token, hashWrite)
}

// forgetAnnounced forgets, of the locks that a script has ended, those whose end it has published itself.
func forgetAnnounced(m *Machine, j *journal) {
	if len(m.gone) == j.gone {
		return
	}
	announced := map[string]bool{}
	for _, msg := range m.out.Since(j.out) {
		if strings.HasPrefix(msg.Channel, redissonPrefix) {
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

// wakeLibraries wakes those who wait for keys that have gone and not come back.
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

// redissonName is the name of something that belongs to a lock.
func redissonName(what, key string) string {
	if strings.Contains(key, "{") {
		return what + ":" + key
	}
	return what + ":{" + key + "}"
}

// publishRedisson publishes as PUBLISH and as SPUBLISH: clients of a Redis Cluster listen to the latter.
func (c *ctx) publishRedisson(channel, message string) {
	c.m.meter.Spend(2 * meter.PublishWork)
	c.publish(resp.MessageChannel, channel, message)
	c.publish(resp.MessageShard, channel, message)
}

func wakeWriter(c *ctx, key string) {
	c.publishRedisson(redissonName(redissonRWLock, key), redissonOne)
}
func wakeReaders(c *ctx, key string) {
	c.publishRedisson(redissonName(redissonRWLock, key), redissonAll)
}

// wakeRedisson wakes one who waits for a lock, and who is next if it is a fair one.
func wakeRedisson(c *ctx, key string) {
	channel := redissonName(redissonChannel, key)
	c.publishRedisson(channel, redissonOne)
	if next := c.nextInQueue(key); next != "" {
		c.publishRedisson(channel+":"+next, redissonOne)
	}
}

// nextInQueue is the first in the queue of a fair lock who has not given up by now.
func (c *ctx) nextInQueue(key string) string {
	queue, err := c.lookupList(redissonName(redissonQueue, key))
	if err != nil || queue == nil {
		return ""
	}
	ends, err := c.lookupZset(redissonName(redissonTimeouts, key))
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

// wakePython wakes one who waits for a lock of python-redis-lock, in BLPOP of a list, if there is one.
func wakePython(c *ctx, key string) {
	signal := pythonSignal + strings.TrimPrefix(key, pythonLock)
	c.m.meter.Spend(value.TreeWork(c.m.waits.Queued()))
	if c.m.waits.Next(wait.Queue{DB: c.db, Key: signal, Kind: kindOf(value.ListKind)}, 0) == nil || c.lookup(signal) != nil {
		return
	}
	until, ok := c.after(pythonSignalMs)
	if !ok {
		return
	}
	c.pushAll(signal, []string{redissonAll}, value.LeftEnd, false)
	c.setDeadline(signal, until)
	c.notify(emit.Generic, "expire", signal)
}
