package digest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lockd/keyspace/lock"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// step is something that an entry did.
type step func(d *Digest)

func sum(steps ...step) Digest {
	d := Begin
	for _, s := range steps {
		s(&d)
	}
	return d
}

func stored(db int, key string, e *store.Entry) step { return func(d *Digest) { d.Stored(db, key, e) } }
func reply(r resp.Reply) step                        { return func(d *Digest) { d.Reply(r) } }
func message(m resp.Message) step                    { return func(d *Digest) { d.Message(&m) } }
func event(record string) step                       { return func(d *Digest) { d.Event([]byte(record)) } }

var lease = store.Deadline{Tick: 100, WallMs: 5000}

func text(s string, d store.Deadline) *store.Entry {
	return store.NewEntry("k", nil, value.OfString(s), d, nil, store.NoLock)
}

func tagged(owner, note string) *store.Entry {
	return store.NewEntry("k", nil, value.OfString("v"), lease, &store.Tag{Owner: owner, Note: note}, store.NoLock)
}

func locked(since int64, renewals uint32) *store.Entry {
	e := store.NewEntry("k", nil, value.OfString("v"), lease, nil, store.IsLock)
	return e.WithFacts(lock.Facts{SinceTick: 1, SinceMs: since, LeaseMs: 99, Renewals: renewals})
}

func several(mode lock.Mode, holders ...*lock.Holder) *store.Entry {
	return store.NewEntry("k", nil, value.OfAggregate((*value.Lock)(lock.NewMany(mode, holders...))), lease, nil, store.NoLock)
}

func holder(token string, fence uint64, tick int64) *lock.Holder {
	return &lock.Holder{Token: token, Fence: fence, Tick: tick}
}

func hash(pairs ...string) *store.Entry {
	h := value.NewHash(0)
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return store.NewEntry("k", nil, value.OfAggregate(h), lease, nil, store.NoLock)
}

func list(elems ...string) *store.Entry {
	l := value.NewList(0)
	for _, e := range elems {
		l.Push(value.RightEnd, e)
	}
	return store.NewEntry("k", nil, value.OfAggregate(l), lease, nil, store.NoLock)
}

// different are steps of which each has another digest than all others.
var different = map[string]step{
	"nothing":            func(*Digest) {},
	"a number":           func(d *Digest) { d.Add(0) },
	"another number":     func(d *Digest) { d.Add(1) },
	"deleted":            stored(0, "k", nil),
	"deleted elsewhere":  stored(1, "k", nil),
	"another key":        stored(0, "j", nil),
	"a string":           stored(0, "k", text("v", store.Never)),
	"another string":     stored(0, "k", text("w", store.Never)),
	"in another base":    stored(1, "k", text("v", store.Never)),
	"with a lease":       stored(0, "k", text("v", lease)),
	"a longer one":       stored(0, "k", text("v", store.Deadline{Tick: 101, WallMs: 5000})),
	"an owner":           stored(0, "k", tagged("o", "")),
	"a note":             stored(0, "k", tagged("", "o")),
	"both":               stored(0, "k", tagged("o", "o")),
	"a lock":             stored(0, "k", locked(1, 0)),
	"held since later":   stored(0, "k", locked(2, 0)),
	"renewed":            stored(0, "k", locked(1, 1)),
	"a hash":             stored(0, "k", hash("f", "v")),
	"a longer value":     stored(0, "k", hash("f", "vv")),
	"two fields":         stored(0, "k", hash("f", "v", "g", "v")),
	"a list":             stored(0, "k", list("v")),
	"of several":         stored(0, "k", several(2, holder("a", 1, 50))),
	"of three":           stored(0, "k", several(3, holder("a", 1, 50))),
	"another token":      stored(0, "k", several(2, holder("b", 1, 50))),
	"another fence":      stored(0, "k", several(2, holder("a", 2, 50))),
	"another end":        stored(0, "k", several(2, holder("a", 1, 51))),
	"another newest":     stored(0, "k", several(2, holder("a", 1, 50), holder("b", 2, 60))),
	"another first":      stored(0, "k", several(2, holder("a", 1, 51), holder("b", 2, 60))),
	"OK":                 reply(resp.OK()),
	"a bulk":             reply(resp.Bulk("OK")),
	"another bulk":       reply(resp.Bulk("KO")),
	"an integer":         reply(resp.Int(7)),
	"another integer":    reply(resp.Int(8)),
	"nil":                reply(resp.Nil()),
	"an error":           reply(resp.Err("ERR no")),
	"no elements":        reply(resp.Array()),
	"an element":         reply(resp.Array(resp.Int(1))),
	"two elements":       reply(resp.Array(resp.Int(1), resp.Int(2))),
	"the other way":      reply(resp.Array(resp.Int(2), resp.Int(1))),
	"in an array":        reply(resp.Array(resp.Array(resp.Int(1)))),
	"an event":           event("x"),
	"another event":      event("y"),
	"a message":          message(resp.Message{Kind: resp.MessageChannel, Channel: "c", Payload: "p"}),
	"another channel":    message(resp.Message{Kind: resp.MessageChannel, Channel: "cp", Payload: ""}),
	"the end of a wait":  message(blockEnd(1, 2, resp.BlockServed, resp.Int(1))),
	"of another session": message(blockEnd(2, 2, resp.BlockServed, resp.Int(1))),
	"of another wait":    message(blockEnd(1, 3, resp.BlockServed, resp.Int(1))),
	"in another way":     message(blockEnd(1, 2, resp.BlockTimedOut, resp.Int(1))),
	"with another reply": message(blockEnd(1, 2, resp.BlockServed, resp.Int(2))),
}

func blockEnd(session, number uint64, how resp.Ending, r resp.Reply) resp.Message {
	return resp.Message{
		Kind:  resp.MessageBlock,
		Block: &resp.BlockEnd{ID: resp.BlockID{Session: session, Number: number}, How: how, Reply: r},
	}
}

// Whatever nodes must agree on changes the digest, and differently.
func TestWhatDiffers(t *testing.T) {
	seen := map[Digest]string{}
	for name, s := range different {
		d := sum(s)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		if seen[d] = name; d != sum(s) {
			t.Errorf("%s has two digests", name)
		}
	}
}

// What nodes need not agree on does not change it: the words of an error, what only some nodes send, how a value is
// kept, and the wall clock of a lease. Of what is long only a part is looked at.
func TestWhatDoesNotDiffer(t *testing.T) {
	long := func(middle string) string {
		return strings.Repeat("a", endBytes) + middle + strings.Repeat("z", endBytes)
	}
	many := func(n int, last int64) resp.Reply {
		r := resp.Array()
		for range n - 1 {
			r.Elems = append(r.Elems, resp.Int(1))
		}
		r.Elems = append(r.Elems, resp.Int(last))
		return r
	}
	for name, c := range map[string]struct {
		one, other step
		same       bool
	}{
		"the words of an error": {reply(resp.Err("ERR no")), reply(resp.Err("ERR never, ever")), true},
		"who tracks":            {message(resp.Message{Kind: resp.MessageChanges}), func(*Digest) {}, true},
		"an event that is told": {message(resp.Message{Kind: resp.MessageLock, Event: []byte("x")}), func(*Digest) {}, true},
		"a renewal that is":     {message(resp.Message{Kind: resp.MessageHeld, Event: []byte("x")}), func(*Digest) {}, true},
		"the wall clock": {
			stored(0, "k", text("v", lease)), stored(0, "k", text("v", store.Deadline{Tick: 100, WallMs: 6000})), true,
		},
		"the middle":       {stored(0, "k", text(long("x"), lease)), stored(0, "k", text(long("y"), lease)), true},
		"its length":       {stored(0, "k", text(long("x"), lease)), stored(0, "k", text(long("xx"), lease)), false},
		"its beginning":    {stored(0, "k", text(long("x"), lease)), stored(0, "k", text("b"+long("x")[1:], lease)), false},
		"its end":          {stored(0, "k", text(long("x"), lease)), stored(0, "k", text(long("x")[1:]+"b", lease)), false},
		"what fits":        {stored(0, "k", text(long(""), lease)), stored(0, "k", text("b"+long("")[1:], lease)), false},
		"the last element": {reply(many(elemsMax, 1)), reply(many(elemsMax, 2)), false},
		"one more":         {reply(many(elemsMax+1, 1)), reply(many(elemsMax+1, 2)), true},
		"how many":         {reply(many(elemsMax+1, 1)), reply(many(elemsMax+2, 1)), false},
	} {
		if same := sum(c.one) == sum(c.other); same != c.same {
			t.Errorf("%s: the same digest %v, want %v", name, same, c.same)
		}
	}
}

// Digests of the same steps are the same. One step that is another, is left out, or comes at another time shows from
// then on.
func TestDigestNeverForgets(t *testing.T) {
	var names []string
	var steps []step
	for name, s := range different {
		names, steps = append(names, name), append(steps, s)
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		draw := func() int {
			for {
				if i := rng.IntN(len(steps)); names[i] != "nothing" {
					return i
				}
			}
		}
		var chosen []int
		for range 2 + rng.IntN(60) {
			chosen = append(chosen, draw())
		}
		play := func(chosen []int) Digest {
			d := Begin
			for _, i := range chosen {
				steps[i](&d)
			}
			return d
		}
		at := rng.IntN(len(chosen) - 1)
		other := draw()
		changed := append(append(append([]int{}, chosen[:at]...), other), chosen[at+1:]...)
		less := append(append([]int{}, chosen[:at]...), chosen[at+1:]...)
		swapped := append([]int{}, chosen...)
		swapped[at], swapped[at+1] = swapped[at+1], swapped[at]
		told := fmt.Sprintf("seed %d, at %d: %s", seed, at, names[chosen[at]])
		want := play(chosen)
		if play(chosen) != want {
			t.Fatal(told, "has two digests")
		}
		if other != chosen[at] && play(changed) == want {
			t.Fatal(told, "or", names[other])
		}
		if play(less) == want {
			t.Fatal(told, "or nothing")
		}
		if chosen[at] != chosen[at+1] && play(swapped) == want {
			t.Fatal(told, "and", names[chosen[at+1]])
		}
	}
}
