package value

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
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
	for name, spoil := range map[string]func(l *Lock){
		"":                      func(*Lock) {},
		"a token twice":         func(l *Lock) { l.holders[1].Token = "t0" },
		"no token":              func(l *Lock) { l.holders[1].Token = "" },
		"fences out of order":   func(l *Lock) { l.holders[1].Fence = 3 },
		"more than its permits": func(l *Lock) { l.permits = 2 },
		"too many permits":      func(l *Lock) { l.permits = LockHoldersMax + 1 },
		"a lease that is none":  func(l *Lock) { l.holders[1].Tick = NoLeaseTick },
		"no holder":             func(l *Lock) { l.holders = nil },
		"more than may hold a lock": func(l *Lock) {
			l.permits = LockHoldersMax
			for i := uint64(3); i <= LockHoldersMax; i++ {
				l.holders = append(l.holders, &Holder{Token: fmt.Sprint("t", i), Fence: i + 1})
			}
		},
	} {
		l := NewLock(3, &Holder{Token: "t0", Fence: 1})
		l = l.With(&Holder{Token: "t1", Fence: 2}).With(&Holder{Token: "t2", Fence: 3})
		spoil(l)
		var b bytes.Buffer
		w := NewWriter(&b)
		OfAggregate(l).Write(w)
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		r := NewReader(&b)
		r.Version = holderClientVersion
		ReadValue(r, r.Byte(), nil, 1)
		if r.End(); errors.Is(r.err, ErrDamaged) != (name != "") {
			t.Errorf("%s: %v", name, r.err)
		}
	}
}
