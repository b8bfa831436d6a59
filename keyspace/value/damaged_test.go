package value

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"lockd/keyspace/lock"
)

// A damaged sorted set is refused, whatever its checksum says.
func TestDamagedZsetIsRefused(t *testing.T) {
	for name, members := range map[string][]Scored{
		"out of order": {{2, "b"}, {1, "a"}},
		"no order":     {{1, "b"}, {1, "a"}},
		"twice":        {{1, "a"}, {2, "a"}},
		"NaN":          {{math.NaN(), "a"}},
	} {
		for form, encoding := range ZsetKind.Encodings {
			r := readerOf(members)
			if ZsetKind.read(r, uint64(len(members)), form, 1); r.err == nil {
				t.Errorf("%s, %s: no error", name, encoding)
			}
		}
	}
	r := readerOf(nil)
	if ZsetKind.read(r, SmallMax+1, zsetSmall, 1); !strings.Contains(fmt.Sprint(r.err), "many members") {
		t.Errorf("a small sorted set of many members: %v", r.err)
	}
}

// readerOf reads members as an image has them.
func readerOf(members []Scored) *Reader {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, m := range members {
		w.Text(m.Member)
		w.U64(math.Float64bits(m.Score))
	}
	w.out.Flush()
	return NewReader(&b)
}

// An image with a set of numbers that are none, or not in their order, is refused:
// such a set would not find its own members.
func TestDamagedIntsAreRefused(t *testing.T) {
	for _, members := range [][]string{{"2", "1"}, {"1", "1"}, {"1", "01"}, {"x"}} {
		var b bytes.Buffer
		w := NewWriter(&b)
		for _, member := range members {
			w.Text(member)
		}
		w.out.Flush()
		r := NewReader(&b)
		if readSet(r, uint64(len(members)), SetInts, 1); !errors.Is(r.err, ErrDamaged) {
			t.Errorf("%q: %v", members, r.err)
		}
	}
}

// A stream that breaks one of its rules is refused.
func TestDamagedStreamIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(s *Stream){
		"":                        func(*Stream) {},
		"an id beyond the last":   func(s *Stream) { s.LastID = StreamID{2, 0} },
		"a deleted one beyond":    func(s *Stream) { s.DeletedID = StreamID{9, 0} },
		"an odd number of fields": func(s *Stream) { s.items.Set(Item{StreamID{2, 0}, []string{"a"}}) },
		"no fields":               func(s *Stream) { s.items.Set(Item{StreamID{2, 0}, nil}) },
		"the id 0-0":              func(s *Stream) { s.items.Set(Item{StreamID{}, []string{"a", "1"}}) },
	} {
		s := NewStream(1)
		for i := range uint64(3) {
			s.Add(NewItem(StreamID{i + 1, 0}, []string{"a", "1"}))
		}
		spoil(s)
		var b bytes.Buffer
		w := NewWriter(&b)
		OfAggregate(s).Write(w)
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		r := NewReader(&b)
		ReadValue(r, r.Byte(), nil, 1)
		if r.End(); errors.Is(r.err, ErrDamaged) != (name != "") {
			t.Errorf("%s: %v", name, r.err)
		}
	}
}

// A lock that breaks one of its rules is refused.
func TestDamagedLockIsRefused(t *testing.T) {
	three := func() []*lock.Holder {
		return []*lock.Holder{{Token: "t0", Fence: 1}, {Token: "t1", Fence: 2}, {Token: "t2", Fence: 3}}
	}
	spoilt := func(spoil func(h *lock.Holder)) *lock.Many {
		holders := three()
		spoil(holders[1])
		return lock.NewMany(3, holders...)
	}
	crowd := make([]*lock.Holder, lock.HoldersMax+1)
	for i := range crowd {
		crowd[i] = &lock.Holder{Token: fmt.Sprint("t", i), Fence: uint64(i) + 1}
	}
	for name, many := range map[string]*lock.Many{
		"":                          lock.NewMany(3, three()...),
		"a token twice":             spoilt(func(h *lock.Holder) { h.Token = "t0" }),
		"no token":                  spoilt(func(h *lock.Holder) { h.Token = "" }),
		"fences out of order":       spoilt(func(h *lock.Holder) { h.Fence = 3 }),
		"a lease that is none":      spoilt(func(h *lock.Holder) { h.Tick = lock.NoLease }),
		"more than its permits":     lock.NewMany(2, three()...),
		"too many permits":          lock.NewMany(lock.HoldersMax+1, three()...),
		"no holder":                 lock.NewMany(3),
		"more than may hold a lock": lock.NewMany(lock.HoldersMax, crowd...),
	} {
		l := (*Lock)(many)
		var b bytes.Buffer
		w := NewWriter(&b)
		OfAggregate(l).Write(w)
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		r := NewReader(&b)
		ReadValue(r, r.Byte(), nil, 1)
		if r.End(); errors.Is(r.err, ErrDamaged) != (name != "") {
			t.Errorf("%s: %v", name, r.err)
		}
	}
}
