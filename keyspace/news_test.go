package keyspace

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"lockd/resp"
)

// What is told of locks is what LOCKS HISTORY answers afterwards, each event once and in its order, also
// by a machine that was restored from an image on the way.
func TestNewsIsTheHistory(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 12))
		l := newLockTeller()
		for range 200 {
			l.step(t, rng)
			if rng.IntN(30) == 0 {
				l.Machine = restored(t, image(t, l.Machine))
			}
		}
		if !reflect.DeepEqual(l.news, l.told) {
			t.Fatalf("seed %d: told\n%v, want\n%v", seed, l.news, l.told)
		}
	}
}

// hear keeps what is told of locks.
func (l *lockTeller) hear(t *testing.T, msgs []resp.Message) {
	for _, line := range newsIn(msgs) {
		key, payload, _ := strings.Cut(strings.TrimPrefix(line, "__lock@0__:"), " ")
		var e struct{ Key, Event, Token string }
		if err := json.Unmarshal([]byte(payload), &e); err != nil || e.Key != key {
			t.Fatalf("%s: %v", line, err)
		}
		l.news[key] = append(l.news[key], toldEvent{e.Event, e.Token})
	}
}
