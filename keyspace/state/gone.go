package state

import (
	"slices"
	"strings"

	"lockd/keyspace/lifecycle"
	"lockd/keyspace/store"
)

// A program that waits for a lock by a library sleeps until the library's own script publishes that the lock is free.
// Where the lock ends otherwise, as by the end of its lease or by DEL, the machine publishes the same message. This file
// notes which locks have gone.

// libraryWaiters are the programs that may wait for a lock by a library.
type libraryWaiters uint8

// The programs that the end of a lock wakes.
const (
	RedissonLocks   libraryWaiters = iota // of a lock of Redisson's
	RedissonWriters                       // one writer, of a read-write lock that readers have held
	RedissonReaders                       // all readers, of one that a writer has held
	PythonLocks                           // of python-redis-lock
)

// PythonLock begins the keys of python-redis-lock.
const PythonLock = "lock:"

// GoneLock is a key that has gone, and the programs that may wait for it.
type GoneLock struct {
	DB   int
	Key  string
	Wake libraryWaiters
}

// queueWakeups queues a key that has gone and for which programs may wait.
func queueWakeups(s *State, _ *lifecycle.Cause, change store.Change) {
	was := change.Was
	if change.Next != nil || was == nil || !s.Applying || !s.Settings.WakeLibraries {
		return
	}
	var wake libraryWaiters
	switch l := was.HashLock(); {
	case l != nil && l.Shared():
		wake = RedissonWriters
	case l != nil && writes(l):
		wake = RedissonReaders
	case l != nil:
		wake = RedissonLocks
	case was.Aggregate() == nil && s.Waits.Queues.Len() > 0 && strings.HasPrefix(was.Key(), PythonLock):
		wake = PythonLocks
	default:
		return
	}
	s.Gone = append(s.Gone, GoneLock{change.DB, was.Key(), wake})
}

// writes reports whether a writer holds a read-write lock.
func writes(l *store.HashLock) bool {
	return len(l.Holders) > 0 && strings.HasSuffix(l.Holders[0].Token, lifecycle.HashWrite)
}

// forgetAnnounced forgets the locks that a script has ended and whose end it has published itself.
func forgetAnnounced(s *State, j *journal) {
	if len(s.Gone) == j.gone {
		return
	}
	announced := map[string]bool{}
	for _, msg := range s.Out.Since(j.out) {
		if strings.HasPrefix(msg.Channel, lifecycle.RedissonPrefix) {
			addNamed(announced, msg.Channel)
		}
	}
	rest := slices.DeleteFunc(s.Gone[j.gone:], func(g GoneLock) bool { return announced[g.Key] })
	s.Gone = s.Gone[:j.gone+len(rest)]
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
