package keyspace

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
	for name, members := range map[string][]scored{
		"out of order": {{2, "b"}, {1, "a"}},
		"no order":     {{1, "b"}, {1, "a"}},
		"twice":        {{1, "a"}, {2, "a"}},
		"NaN":          {{math.NaN(), "a"}},
	} {
		for form, encoding := range zsetKind.encodings {
			r := readerOf(members)
			if zsetKind.read(r, uint64(len(members)), form, 1); r.err == nil {
				t.Errorf("%s, %s: no error", name, encoding)
			}
		}
	}
	r := readerOf(nil)
	if zsetKind.read(r, smallMax+1, zsetSmall, 1); !strings.Contains(fmt.Sprint(r.err), "many members") {
		t.Errorf("a small sorted set of many members: %v", r.err)
	}
}

// readerOf reads members as an image has them.
func readerOf(members []scored) *imageReader {
	var b bytes.Buffer
	w := newImageWriter(&b)
	for _, m := range members {
		w.text(m.member)
		w.u64(math.Float64bits(m.score))
	}
	w.out.Flush()
	return newImageReader(&b)
}

// An image with a set of numbers that are none, or not in their order, is refused:
// such a set would not find its own members.
func TestDamagedIntsAreRefused(t *testing.T) {
	for _, members := range [][]string{{"2", "1"}, {"1", "1"}, {"1", "01"}, {"x"}} {
		var b bytes.Buffer
		w := newImageWriter(&b)
		for _, member := range members {
			w.text(member)
		}
		w.out.Flush()
		r := newImageReader(&b)
		if readSet(r, uint64(len(members)), setInts, 1); !errors.Is(r.err, errImage) {
			t.Errorf("%q: %v", members, r.err)
		}
	}
}

// A stream that breaks one of its rules is refused.
func TestDamagedStreamIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(s *stream){
		"":                        func(*stream) {},
		"an id beyond the last":   func(s *stream) { s.last = streamID{2, 0} },
		"a deleted one beyond":    func(s *stream) { s.deleted = streamID{9, 0} },
		"an odd number of fields": func(s *stream) { s.items.Set(item{streamID{2, 0}, []string{"a"}}) },
		"no fields":               func(s *stream) { s.items.Set(item{streamID{2, 0}, nil}) },
		"the id 0-0":              func(s *stream) { s.items.Set(item{streamID{}, []string{"a", "1"}}) },
	} {
		s := newStream(1)
		for i := range uint64(3) {
			s.add(newItem(streamID{i + 1, 0}, []string{"a", "1"}))
		}
		spoil(s)
		var b bytes.Buffer
		w := newImageWriter(&b)
		aggregateValue(s).write(w)
		if err := w.finish(); err != nil {
			t.Fatal(err)
		}
		r := newImageReader(&b)
		readValue(r, nil, 1)
		if r.end(); errors.Is(r.err, errImage) != (name != "") {
			t.Errorf("%s: %v", name, r.err)
		}
	}
}
