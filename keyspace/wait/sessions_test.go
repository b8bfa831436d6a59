package wait

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"lockd/keyspace/value"
	"lockd/resp"
)

// Spans are a set of numbers, compared with a map. The lowest gap closes when there
// are too many.
func TestSpans(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var s spans
		want := map[uint64]bool{}
		for range 300 {
			n := 1 + rng.Uint64N(200)
			s, want[n] = s.with(n), true
			for n := range uint64(203) {
				if s.has(n) != want[n] {
					t.Fatalf("seed %d: %v has %d: %t", seed, s, n, s.has(n))
				}
			}
			for i := range s {
				if s[i].from > s[i].to || i > 0 && s[i-1].to+1 >= s[i].from {
					t.Fatalf("seed %d: %v", seed, s)
				}
			}
		}
	}
	var s spans
	for n := range uint64(spansMax + 1) {
		s = s.with(2 * (n + 1))
	}
	if len(s) != spansMax || !s.has(3) || s.has(1) || s.has(5) {
		t.Errorf("%d spans, which begin with %v", len(s), s[:2])
	}
}

// Numbers that a session cannot have used are refused.
func TestImageOfImpossibleSpans(t *testing.T) {
	for _, used := range []spans{{{0, 1}}, {{3, 2}}, {{1, 2}, {3, 4}}, {{1, numberMax + 1}}} {
		table := New()
		table.Sessions.Open("", 0, 0)
		table.Sessions.byID.Set(&session{BlockSession: resp.BlockSession{ID: 1}, until: 1, used: used})
		if _, err := restored(image(t, &table)); err == nil {
			t.Errorf("%v: no error", used)
		}
	}
}

func image(t testing.TB, table *Table) []byte {
	t.Helper()
	var img bytes.Buffer
	w := value.NewWriter(&img)
	table.Write(w)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return img.Bytes()
}

func restored(img []byte) (Table, error) {
	r := value.NewReader(bytes.NewReader(img))
	table := Read(r, commands{})
	r.End()
	return table, r.Err()
}
