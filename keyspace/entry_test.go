package keyspace

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
	token, until := stringValue(strings.Repeat("t", 36)), deadline{tick: 31_000, wallMs: 1_800_000_000_000}
	facts := lock.Facts{SinceTick: 1000, SinceMs: 1_799_999_970_000, LeaseMs: 30_000, Client: 1}
	var kept *entry
	if n := testing.AllocsPerRun(100, func() {
		kept = newMarked("orders:lock:1234567", nil, token, until, nil, mayBeLock).withFacts(facts)
	}); n != 1 {
		t.Errorf("a lock takes %v objects", n)
	}
	runtime.KeepAlive(kept)
}

// An entry gives back what it was made of, wherever its bytes are, after what it was made
// of has changed, and after a collection.
func TestEntryIsWhatItWasMadeOf(t *testing.T) {
	sizes := []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 36, 100, inlineMax - 1, inlineMax, inlineMax + 1, 1000}
	type made struct {
		e        *entry
		key, str string
	}
	var all []made
	for _, k := range sizes {
		for _, v := range sizes {
			key, str := bytes.Repeat([]byte("k"), k), bytes.Repeat([]byte("v"), v)
			e := newEntry(unsafe.String(unsafe.SliceData(key), k), nil, stringValue(unsafe.String(unsafe.SliceData(str), v)), deadline{tick: int64(k), wallMs: int64(v)})
			e.fence, e.version = 1<<63+uint64(k), 1<<63+uint64(v)
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
		if e.key() != m.key || e.str() != m.str || e.agg() != nil || e.kind() != "string" {
			t.Errorf("%s: %q, %q, %v, a %s", name, e.key(), e.str(), e.agg(), e.kind())
		}
		if want := (deadline{tick: int64(len(m.key)), wallMs: int64(len(m.str))}); e.deadline() != want {
			t.Errorf("%s: deadline %v", name, e.deadline())
		}
		if e.fence != 1<<63+uint64(len(m.key)) || e.version != 1<<63+uint64(len(m.str)) {
			t.Errorf("%s: fence %d, version %d", name, e.fence, e.version)
		}
		if want := int64(entryOverheadBytes + leaseOverheadBytes + len(m.key) + len(m.str)); e.size() != want {
			t.Errorf("%s: counts for %d bytes, want %d", name, e.size(), want)
		}
		if inline := len(m.key)+len(m.str) <= inlineMax; inline == e.isOutside() {
			t.Errorf("%s: inline %v", name, !inline)
		}
	}
}

// A key keeps its name, and what it holds, from one form of entry to another.
func TestEntryChangesItsForm(t *testing.T) {
	long := strings.Repeat("long", 1000)
	h := value.NewHash(1)
	h.Set("field", "value")
	values := []value.Value{stringValue("short"), stringValue(long), value.OfAggregate(h), {}}
	var was *entry
	for round := range 3 {
		for i := range values {
			for j := range values {
				v := values[(i*j+round)%len(values)]
				next := newEntry(strings.Clone("name"), was, v, never)
				runtime.GC()
				if next.key() != "name" || next.str() != v.Str() || next.agg() != v.Aggregate() || next.kind() != v.Type() {
					t.Fatalf("%q holds %q, %v, a %s", next.key(), next.str(), next.agg(), next.kind())
				}
				if was != nil {
					renewed := newEntry(was.key(), was, was.value(), deadline{tick: 1})
					if renewed.str() != was.str() || renewed.agg() != was.agg() || renewed.key() != was.key() {
						t.Fatalf("%q became %q", was.str(), renewed.str())
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
		until := deadline{pick(), pick()}
		facts := lock.Facts{SinceTick: pick(), SinceMs: pick(), LeaseMs: pick(), Renewals: rng.Uint32(), Client: rng.Uint32()}
		if rng.IntN(2) == 0 { // as they are
			facts.LeaseMs &= 1<<rng.IntN(40) - 1
			facts.SinceTick = until.tick - facts.LeaseMs - rng.Int64N(1<<rng.IntN(40))
			facts.SinceMs = until.wallMs - (until.tick - facts.SinceTick) + rng.Int64N(2000) - 1000
		}
		if rng.IntN(20) == 0 {
			until, facts.LeaseMs = never, -1
		}
		e := newMarked("key", nil, stringValue("token"), until, nil, isLock)
		e.fence, e.version = 7, 8
		e = e.withFacts(facts)
		if e.deadline() != until || e.facts() != facts || e.mark() != isLock || e.fence != 7 || e.version != 8 || e.key() != "key" || e.str() != "token" {
			t.Fatalf("%+v until %v became %+v until %v: %+v", facts, until, e.facts(), e.deadline(), e)
		}
		outside += resp.One(e.isOutside())
	}
	if outside < 10_000 || outside > 90_000 {
		t.Errorf("%d of 100,000 are written long", outside)
	}
}
