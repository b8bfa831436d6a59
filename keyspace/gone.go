package keyspace

import (
	"slices"
	"strings"

	"lockd/keyspace/fate"
	"lockd/keyspace/store"
)

// A program that waits for a lock by a library sleeps until the library's own script publishes that the lock is free.
// Where the lock ends otherwise, as by the end of its lease or by DEL, the machine publishes the same message. This file
// notes which locks have gone.

// sleepers are the programs that may wait for a lock, by the library that keeps it.
type sleepers uint8

const (
	redissonLocks   sleepers = iota // of a lock of Redisson's
	redissonWriters                 // one writer, of a read-write lock that readers have held
	redissonReaders                 // all readers, of one that a writer has held
	pythonLocks                     // of python-redis-lock
)

// pythonLock begins the keys of python-redis-lock.
const pythonLock = "lock:"

// goneLock is a key that has gone, and the programs that may wait for it.
type goneLock struct {
	db   int
	key  string
	wake sleepers
}

// queueWakeups notes a key that has gone and for which programs may wait.
func queueWakeups(s *state, _ *fate.Cause, change store.Change) {
	was := change.Was
	if change.Next != nil || was == nil || !s.applying || !s.settings.WakeLibraries {
		return
	}
	var wake sleepers
	switch l := was.HashLock(); {
	case l != nil && l.Shared():
		wake = redissonWriters
	case l != nil && writes(l):
		wake = redissonReaders
	case l != nil:
		wake = redissonLocks
	case was.Aggregate() == nil && s.waits.Queues.Len() > 0 && strings.HasPrefix(was.Key(), pythonLock):
		wake = pythonLocks
	default:
		return
	}
	s.gone = append(s.gone, goneLock{change.DB, was.Key(), wake})
}

// writes reports whether a writer holds a read-write lock.
func writes(l *store.HashLock) bool {
	return len(l.Holders) > 0 && strings.HasSuffix(l.Holders[0].Token, fate.HashWrite)
}

// forgetAnnounced forgets the locks that a script has ended and whose end it has published itself.
func forgetAnnounced(s *state, j *journal) {
	if len(s.gone) == j.gone {
		return
	}
	announced := map[string]bool{}
	for _, msg := range s.out.Since(j.out) {
		if strings.HasPrefix(msg.Channel, fate.RedissonPrefix) {
			addNamed(announced, msg.Channel)
		}
	}
	rest := slices.DeleteFunc(s.gone[j.gone:], func(g goneLock) bool { return announced[g.key] })
	s.gone = s.gone[:j.gone+len(rest)]
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
