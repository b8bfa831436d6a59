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

// What the client deletes that was granted the lock is released, and told as such; also after an image.
func TestOwnDeleteIsTold(t *testing.T) {
	m := New(fakeScripts{})
	web := resp.Client{ID: 7, Name: "web", Addr: "10.0.0.1:5000", Node: "n1"}.Sender()
	for _, tc := range []struct {
		by   resp.Sender
		want string
	}{
		{web, `{"key":"a","time":"1970-01-01T00:00:05.000Z","tick":0,"event":"released","token":"t","mode":"exclusive","fence":1,` +
			`"by":"DEL","client-id":7,"client-name":"web","client-addr":"10.0.0.1:5000","node":"n1","held-ms":0,"lease-ms":9000,"renewals":1,` +
			`"last-renewal":"1970-01-01T00:00:05.000Z"}`},
		{resp.Client{ID: 7, Addr: "10.0.0.1:5000", Node: "n2"}.Sender(), `"event":"deleted"`},
		{resp.Client{ID: 8, Addr: "10.0.0.1:5000", Node: "n1"}.Sender(), `"event":"deleted"`},
		{"", `"event":"deleted"`},
	} {
		take, free := request(0, "SET a t NX PX 5000", "PEXPIRE a 9000"), request(0, "DEL a")
		take.Sender, free.Sender = web, tc.by
		at := resp.Stamp{Wall: 5_000_000}
		m.Apply(at, []resp.Request{take})
		m = restored(t, image(t, m))
		_, msgs := m.Apply(at, []resp.Request{free})
		if got := newsIn(msgs); len(got) != 1 || !strings.Contains(got[0], tc.want) {
			t.Errorf("%+v: %s, want %s", tc.by.Client(), got, tc.want)
		}
	}
}

// Whatever kind of lock it is, the channel, LOCKS HISTORY and LOCKS WHY call a deletion by the same word: released, if
// the client of this very holder deletes it, also when its grant is forgotten, and behind an image.
func TestOwnDeleteIsTheSameEverywhere(t *testing.T) {
	other := "10.0.0.2:1"
	for _, tc := range []struct{ take, free, addr, want string }{
		{"SET a token NX PX 5000", "DEL a", "", "released"},
		{"SET a token NX PX 5000", "DEL a", other, "deleted"},
		{"LOCK a token PX 5000", "UNLINK a", "", "released"},
		{"LOCK a token PX 5000 SHARED", "DEL a", "", "released"},
		{"LOCK a token PX 5000 SHARED", "DEL a", other, "deleted"},
		{"LOCK a token PX 5000 LIMIT 2", "DEL a", "", "released"},
		{"LOCK a token PX 5000 LIMIT 2; RENEW a token PX 9000", "DEL a", "", "released"},
		{"LOCK a token PX 5000 LIMIT 2; PERSIST a", "DEL a", other, "deleted"},
		{"LOCK a token PX 5000 SHARED; CONFIG SET lock-history-max-events 1; LOCK b token PX 5000", "DEL a", "", "released"},
	} {
		m := New(fakeScripts{})
		web := resp.Client{ID: 7, Addr: "10.0.0.1:5000", Node: "n1"}
		take := request(0, strings.Split(tc.take, "; ")...)
		take.Sender = web.Sender()
		at := resp.Stamp{Wall: 5_000_000, Index: 1}
		m.Apply(at, []resp.Request{take})
		m = restored(t, image(t, m))
		if tc.addr != "" {
			web.Addr = tc.addr
		}
		free := request(0, tc.free)
		free.Sender = web.Sender()
		_, msgs := m.Apply(at, []resp.Request{free})
		for name, said := range map[string]string{
			"channel": strings.Join(newsIn(msgs), " "), "history": plain(view(m, at, 0, "LOCKS HISTORY a")), "why": view(m, at, 0, "LOCKS WHY a token").Str,
		} {
			for _, word := range []string{"released", "deleted"} {
				if strings.Contains(said, word) != (word == tc.want) {
					t.Errorf("%s; %s from %q: %s: %s", tc.take, tc.free, tc.addr, name, said)
				}
			}
		}
	}
}
