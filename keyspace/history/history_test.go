package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/value"
	"lockd/resp"
)

// anyEvent is an event with something in each of its fields, or nothing.
func anyEvent(rng *rand.Rand) Event {
	text := func() string { return strings.Repeat("x", rng.IntN(4)*rng.IntN(40)) }
	e := Event{
		Kind: Kind(1 + rng.IntN(int(Kinds)-1)), DB: rng.IntN(databases), Tick: rng.Int64() - rng.Int64(), WallMs: rng.Int64() - rng.Int64(),
		Key: fmt.Sprint("key", rng.IntN(5)), Token: text(), Owner: text(), Note: text(), Fence: rng.Uint64(), Permits: rng.Int64N(5) - 1,
		By: text(), Script: rng.IntN(2) == 0, Reason: text(), WaitedMs: rng.Int64(), HeldMs: rng.Int64(), LeaseMs: rng.Int64() - 1,
		Renewals: rng.Uint64(), RenewedMs: rng.Int64(), OtherDB: rng.IntN(databases),
	}
	if e.Kind.EndsAll() {
		e.Key = ""
	}
	if rng.IntN(2) == 0 {
		e.Client = resp.Client{ID: rng.Uint64(), Name: text(), Addr: text(), Node: text()}.Sender()
	}
	return e
}

func eventsOf(l *Log, hash uint32) (all []Event) {
	l.Each(hash, func(e *Event) bool {
		if at := l.At(e.Number); e.Number%16 == 0 && !reflect.DeepEqual(at, *e) {
			panic("another event has the number")
		}
		all = append(all, *e)
		return true
	})
	return all
}

// The log holds the events that were added, less those that were trimmed or taken back, also
// behind an image, and a copy of it does not change.
func TestLogIsASlice(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 3))
		l, want := &Log{begun: true, whole: true}, []Event(nil)
		mark, atMark := l.Mark(), 0
		var frozen Log
		var atFrozen []Event
		for step := range 4000 {
			switch rng.IntN(40) {
			case 0:
				l.Trim(int64(1 + rng.IntN(600)))
				want = want[len(want)-l.Count():]
				mark, atMark = l.Mark(), len(want)
			case 1:
				mark, atMark = l.Mark(), len(want)
			case 2:
				l.Truncate(mark)
				want = want[:atMark]
			case 3:
				if got := eventsOf(&frozen, 0); len(got) != len(atFrozen) || len(got) > 0 && !reflect.DeepEqual(got, atFrozen) {
					t.Fatalf("seed %d step %d: a copy has changed", seed, step)
				}
				frozen, atFrozen = l.Copy(), slices.Clone(want)
				mark, atMark = l.Mark(), len(want) // no snapshot is taken while a script runs
			case 4:
				back := reread(t, l)
				l, mark = &back, Mark{mark.next, mark.bytes}
			default:
				e := anyEvent(rng)
				e.Number = l.next
				l.Add(&e)
				want = append(want, e)
			}
			if got := eventsOf(l, 0); step%50 == 0 && (len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want)) {
				t.Fatalf("seed %d step %d: %d events, want %d", seed, step, l.Count(), len(want))
			}
		}
		var of []Event
		for _, e := range want {
			if e.Key == "key3" || e.Key == "" {
				of = append(of, e)
			}
		}
		if got := eventsOf(l, Hash("key3")); !reflect.DeepEqual(got, of) {
			t.Fatalf("seed %d: %d events of a key, want %d", seed, len(got), len(of))
		}
		bytes := int64(0)
		for _, c := range l.chunks {
			for i := range c.heads {
				if c.first+uint64(i) >= l.first {
					bytes += int64(len(c.record(i))) + overheadBytes
				}
			}
		}
		if bytes != l.bytes {
			t.Fatalf("seed %d: %d bytes are counted, %d are there", seed, l.bytes, bytes)
		}
	}
}

// reread writes a log and reads it.
func reread(t *testing.T, l *Log) Log {
	var b bytes.Buffer
	w := value.NewWriter(&b)
	l.Write(w)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r := value.NewReader(&b)
	back := ReadLog(r)
	if r.End(); r.Err() != nil {
		t.Fatal(r.Err())
	}
	return back
}
