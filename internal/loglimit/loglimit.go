// Package loglimit keeps repeated messages from filling the log.
package loglimit

import (
	"maps"
	"sync"
	"time"
)

// Limiter allows one message of each key a minute. The zero value is ready; it is safe for concurrent use.
type Limiter struct {
	Clock func() time.Time // nil: time.Now

	mu   sync.Mutex
	keys map[string]logged
}

type logged struct {
	at         time.Time
	suppressed int // since then
}

// A key is logged again after every; within that time at most keysMax different keys are logged.
const (
	every   = time.Minute
	keysMax = 256
)

// Allow reports whether a message of a key is to be logged now, and how many were suppressed since the last one.
func (l *Limiter) Allow(key string) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now
	if l.Clock != nil {
		now = l.Clock
	}
	at := now()
	fresh := func(k logged) bool { return at.Sub(k.at) < every }
	last, known := l.keys[key]
	if known && fresh(last) {
		last.suppressed++
		l.keys[key] = last
		return 0, false
	}
	if len(l.keys) >= keysMax {
		maps.DeleteFunc(l.keys, func(_ string, k logged) bool { return !fresh(k) })
		if len(l.keys) >= keysMax {
			return 0, false
		}
	}
	if l.keys == nil {
		l.keys = map[string]logged{}
	}
	l.keys[key] = logged{at: at}
	return last.suppressed, true
}
