package keyspace

import (
	"runtime"
	"strings"
	"testing"
)

// A value gives back what it was made of, also when nobody else holds on to it.
func TestValueIsWhatItWasMadeOf(t *testing.T) {
	for _, s := range []string{"", "a", "\x00", strings.Repeat("long", 1000)} {
		for _, v := range []value{stringValue(s), freshValue(strings.Clone(s))} {
			runtime.GC()
			if v.str() != s || v.agg() != nil || v.size() != int64(len(s)) || v.kind() != "string" {
				t.Errorf("%q: %q, %v, %d bytes, a %s", s, v.str(), v.agg(), v.size(), v.kind())
			}
		}
	}
	var none value
	if none.str() != "" || none.agg() != nil || none.size() != 0 {
		t.Errorf("the zero value: %q, %v, %d bytes", none.str(), none.agg(), none.size())
	}
	h := newHash(1)
	h.set("field", "value")
	v := aggregateValue(h)
	runtime.GC()
	if got, _ := v.agg().(*hash).get("field"); got != "value" || v.str() != "" || v.kind() != "hash" {
		t.Errorf("%q, %q, a %s", got, v.str(), v.kind())
	}
}

// What an aggregate counts for is what it was when it was stored, though its inside is
// changed in place before the next entry is: otherwise the memory of a database drifts.
func TestValueKeepsItsSize(t *testing.T) {
	h := newHash(1)
	h.set("field", "value")
	was := aggregateValue(h)
	size := was.size()
	h.set("other", "value")
	if next := aggregateValue(h); was.size() != size || next.size() <= size {
		t.Errorf("%d bytes became %d, the next value has %d", size, was.size(), next.size())
	}
	copied := was.clone()
	h.set("third", "value")
	if copied.agg().len() != 2 || copied.size() != copied.agg().size() {
		t.Errorf("a clone of 2 fields has %d, in %d bytes of %d", copied.agg().len(), copied.size(), copied.agg().size())
	}
}
