package store

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"lockd/keyspace/lock"
	"lockd/keyspace/value"
	"lockd/resp"
)

// A key's memory is mostly these: whoever makes one larger makes a million locks
// larger. A lock, of short key and token, is one object.
func TestSizesOfAKey(t *testing.T) {
	if entryBytes > 32 || shortFactsBytes > 20 {
		t.Errorf("an entry has %d bytes, what is known of a lock %d", entryBytes, shortFactsBytes)
	}
	// What Go allocates for them, less a word for the larger one; the next sizes are 512 and 3,200.
	if leaf, inner := unsafe.Sizeof(keyLeaf{}), unsafe.Sizeof(keyInner{}); leaf != 480 || inner != 3064 {
		t.Errorf("a leaf has %d bytes, an inner node %d", leaf, inner)
	}
	token, until := StringValue(strings.Repeat("t", 36)), Deadline{Tick: 31_000, WallMs: 1_800_000_000_000}
	facts := lock.Facts{SinceTick: 1000, SinceMs: 1_799_999_970_000, LeaseMs: 30_000, Client: 1}
	var kept *Entry
	if n := testing.AllocsPerRun(100, func() {
		kept = NewEntry("orders:lock:1234567", nil, token, until, nil, MayBeLock).WithFacts(facts)
	}); n != 1 {
		t.Errorf("a lock takes %v objects", n)
	}
	runtime.KeepAlive(kept)
}

// An entry gives back what it was made of, wherever its bytes are, after what it was made
// of has changed, and after a collection.
func TestEntryIsWhatItWasMadeOf(t *testing.T) {
	sizes := []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 36, 100, InlineMax - 1, InlineMax, InlineMax + 1, 1000}
	type made struct {
		e        *Entry
		key, str string
	}
	var all []made
	for _, k := range sizes {
		for _, v := range sizes {
			key, str := bytes.Repeat([]byte("k"), k), bytes.Repeat([]byte("v"), v)
			e := NewEntry(unsafe.String(unsafe.SliceData(key), k), nil, StringValue(unsafe.String(unsafe.SliceData(str), v)), Deadline{Tick: int64(k), WallMs: int64(v)}, nil, NoLock)
			e.Fence, e.Version = 1<<63+uint64(k), 1<<63+uint64(v)
			clear(key) // as a read buffer that is used again
			clear(str)
			all = append(all, made{e, strings.Repeat("k", k), strings.Repeat("v", v)})
		}
	}
	for range 3 {
		runtime.GC()
		_ = make([]byte, 1<<20)
	}
	for _, m := range all {
		name := fmt.Sprintf("key of %d bytes, string of %d", len(m.key), len(m.str))
		e := m.e
		if e.Key() != m.key || e.Str() != m.str || e.Aggregate() != nil || e.Type() != "string" {
			t.Errorf("%s: %q, %q, %v, a %s", name, e.Key(), e.Str(), e.Aggregate(), e.Type())
		}
		if want := (Deadline{Tick: int64(len(m.key)), WallMs: int64(len(m.str))}); e.Deadline() != want {
			t.Errorf("%s: deadline %v", name, e.Deadline())
		}
		if e.Fence != 1<<63+uint64(len(m.key)) || e.Version != 1<<63+uint64(len(m.str)) {
			t.Errorf("%s: fence %d, version %d", name, e.Fence, e.Version)
		}
		if want := int64(entryOverheadBytes + LeaseOverheadBytes + len(m.key) + len(m.str)); e.Size() != want {
			t.Errorf("%s: counts for %d bytes, want %d", name, e.Size(), want)
		}
		if inline := len(m.key)+len(m.str) <= InlineMax; inline == (e.outside() != nil) {
			t.Errorf("%s: inline %v", name, !inline)
		}
	}
}

// A key keeps its name, and what it holds, from one form of entry to another.
func TestEntryChangesItsForm(t *testing.T) {
	long := strings.Repeat("long", 1000)
	h := value.NewHash(1)
	h.Set("field", "value")
	values := []value.Value{StringValue("short"), StringValue(long), value.OfAggregate(h), {}}
	var was *Entry
	for round := range 3 {
		for i := range values {
			for j := range values {
				v := values[(i*j+round)%len(values)]
				next := NewEntry(strings.Clone("name"), was, v, Never, nil, NoLock)
				runtime.GC()
				if next.Key() != "name" || next.Str() != v.Str() || next.Aggregate() != v.Aggregate() || next.Type() != v.Type() {
					t.Fatalf("%q holds %q, %v, a %s", next.Key(), next.Str(), next.Aggregate(), next.Type())
				}
				if was != nil {
					renewed := NewEntry(was.Key(), was, was.Value(), Deadline{Tick: 1}, nil, NoLock)
					if renewed.Str() != was.Str() || renewed.Aggregate() != was.Aggregate() || renewed.Key() != was.Key() {
						t.Fatalf("%q became %q", was.Str(), renewed.Str())
					}
				}
				was = next
			}
		}
	}
}

// A deadline, and what is known of a lock, are kept to the millisecond: also where they do not fit what is
// written short.
func TestEntryKeepsItsTimes(t *testing.T) {
	var times []int64
	for bit := range 63 {
		times = append(times, 1<<bit-1, 1<<bit, 1<<bit+1, -1<<bit-1, -1<<bit)
	}
	times = append(times, math.MaxInt64-1, math.MinInt64)
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func() int64 { return times[rng.IntN(len(times))] }
	outside := 0
	for range 100_000 {
		until := Deadline{pick(), pick()}
		facts := lock.Facts{SinceTick: pick(), SinceMs: pick(), LeaseMs: pick(), Renewals: rng.Uint32(), Client: rng.Uint32()}
		if rng.IntN(2) == 0 { // as they are
			facts.LeaseMs &= 1<<rng.IntN(40) - 1
			facts.SinceTick = until.Tick - facts.LeaseMs - rng.Int64N(1<<rng.IntN(40))
			facts.SinceMs = until.WallMs - (until.Tick - facts.SinceTick) + rng.Int64N(2000) - 1000
		}
		if rng.IntN(20) == 0 {
			until, facts.LeaseMs = Never, -1
		}
		e := NewEntry("key", nil, StringValue("token"), until, nil, IsLock)
		e.Fence, e.Version = 7, 8
		e = e.WithFacts(facts)
		if e.Deadline() != until || e.Facts() != facts || e.Mark() != IsLock || e.Fence != 7 || e.Version != 8 || e.Key() != "key" || e.Str() != "token" {
			t.Fatalf("%+v until %v became %+v until %v: %+v", facts, until, e.Facts(), e.Deadline(), e)
		}
		outside += resp.One(e.outside() != nil)
	}
	if outside < 10_000 || outside > 90_000 {
		t.Errorf("%d of 100,000 are written long", outside)
	}
}
