package value

import (
	"runtime"
	"strings"
	"testing"
)

// A value gives back what it was made of, also when nobody else holds on to it.
func TestValueIsWhatItWasMadeOf(t *testing.T) {
	for _, s := range []string{"", "a", "\x00", strings.Repeat("long", 1000)} {
		for _, v := range []Value{OfString(s), OfString(strings.Clone(s))} {
			runtime.GC()
			if v.Str() != s || v.Aggregate() != nil || v.Size() != int64(len(s)) || v.Type() != "string" {
				t.Errorf("%q: %q, %v, %d bytes, a %s", s, v.Str(), v.Aggregate(), v.Size(), v.Type())
			}
		}
	}
	var none Value
	if none.Str() != "" || none.Aggregate() != nil || none.Size() != 0 {
		t.Errorf("the zero value: %q, %v, %d bytes", none.Str(), none.Aggregate(), none.Size())
	}
	h := NewHash(1)
	h.Set("field", "value")
	v := OfAggregate(h)
	runtime.GC()
	if got, _ := v.Aggregate().(*Hash).Get("field"); got != "value" || v.Str() != "" || v.Type() != "hash" {
		t.Errorf("%q, %q, a %s", got, v.Str(), v.Type())
	}
}

// What an aggregate counts for is what it was when it was stored, though its inside is
// changed in place before the next entry is: otherwise the memory of a database drifts.
func TestValueKeepsItsSize(t *testing.T) {
	h := NewHash(1)
	h.Set("field", "value")
	was := OfAggregate(h)
	size := was.Size()
	h.Set("other", "value")
	if next := OfAggregate(h); was.Size() != size || next.Size() <= size {
		t.Errorf("%d bytes became %d, the next value has %d", size, was.Size(), next.Size())
	}
	copied := was.Clone()
	h.Set("third", "value")
	if copied.Aggregate().Len() != 2 || copied.Size() != copied.Aggregate().Size() {
		t.Errorf("a clone of 2 fields has %d, in %d bytes of %d",
			copied.Aggregate().Len(), copied.Size(), copied.Aggregate().Size())
	}
}
