package keyspace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockd/resp"
)

// sortCase is a call of SORT, and what is known of its elements.
type sortCase struct {
	elems           []string
	weights         map[string]string
	by, alpha, desc bool
	limited         bool
	offset, count   int
}

func anySort(rng *rand.Rand) sortCase {
	c := sortCase{
		weights: map[string]string{},
		by:      rng.IntN(2) == 0, alpha: rng.IntN(2) == 0, desc: rng.IntN(2) == 0, limited: rng.IntN(2) == 0,
		offset: rng.IntN(40) - 5, count: rng.IntN(40) - 2,
	}
	for range rng.IntN(60) {
		c.elems = append(c.elems, itoa(rng.Int64N(20)-5)+[]string{"", ".0", "\x00", "e0"}[rng.IntN(4)])
	}
	for _, elem := range c.elems {
		if rng.IntN(3) > 0 {
			c.weights[elem] = itoa(rng.Int64N(4))
		}
	}
	return c
}

func (c sortCase) args(key string) []string {
	args := []string{"SORT", key}
	if c.by {
		args = append(args, "BY", "w_*")
	}
	if c.alpha {
		args = append(args, "ALPHA")
	}
	if c.limited {
		args = append(args, "LIMIT", fmt.Sprint(c.offset), fmt.Sprint(c.count))
	}
	if c.desc {
		args = append(args, "DESC")
	}
	return args
}

// want sorts as simply as it can be, with a sort that keeps what is equal.
func (c sortCase) want() []string {
	less := func(a, b string) int {
		wa, foundA := c.weights[a]
		wb, foundB := c.weights[b]
		switch {
		case c.by && c.alpha && foundA != foundB:
			return len(wa) - len(wb) // a missing one comes first
		case c.by && c.alpha:
			return strings.Compare(wa, wb)
		case c.by && textNumber(wa) != textNumber(wb):
			return int(textNumber(wa) - textNumber(wb))
		case !c.by && !c.alpha && textNumber(a) != textNumber(b):
			return int(textNumber(a) - textNumber(b))
		}
		return strings.Compare(a, b)
	}
	sorted := slices.Clone(c.elems)
	slices.SortStableFunc(sorted, func(a, b string) int {
		if c.desc {
			return less(b, a)
		}
		return less(a, b)
	})
	if c.limited {
		from := min(max(c.offset, 0), len(sorted))
		if sorted = sorted[from:]; c.count >= 0 {
			sorted = sorted[:min(c.count, len(sorted))]
		}
	}
	return sorted
}

func textNumber(s string) float64 {
	s, _, _ = strings.Cut(s, "\x00")
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// SORT of random lists gives what a stable sort gives, also as a list.
func TestSortIsLikeAStableSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	for i := range 3000 {
		m, c := New(nil), anySort(rng)
		if len(c.elems) > 0 {
			ask(m, append([]string{"RPUSH", "l"}, c.elems...))
		}
		for elem, weight := range c.weights {
			ask(m, []string{"SET", "w_" + elem, weight})
		}
		args, want := c.args("l"), c.want()
		replies := ask(m, args, append(slices.Clone(args), "STORE", "dst"), []string{"LRANGE", "dst", "0", "-1"})
		for _, r := range []resp.Reply{replies[0], replies[2]} {
			var got []string
			for _, e := range r.Elems {
				got = append(got, e.Str)
			}
			if r.IsErr() || !slices.Equal(got, want) {
				t.Fatalf("case %d, %q of %q by %q:\n%q %s\nwant\n%q", i, args, c.elems, c.weights, got, r.Str, want)
			}
		}
		checkDerived(t, m)
	}
}

// randomSort draws a SORT that may change something.
func randomSort(rng *rand.Rand, key string) string {
	from := []string{"numbers", "words", "members", "list", "new"}[rng.IntN(5)]
	return fmt.Sprintf("SORT %s ALPHA LIMIT 0 5 STORE %s", from, []string{key, "new"}[rng.IntN(2)])
}

// SORT gives up where it would do, answer or store more than one request may, and
// has changed nothing.
func TestSortIsBounded(t *testing.T) {
	m := New(nil)
	const mib = 1 << 20
	ask(m, []string{"SET", "value", strings.Repeat("x", mib)})
	do(m, 1, "RPUSH l 1 2 3")
	for range 300 {
		do(m, 1, "RPUSH many lue")
	}
	do(m, 1, "DEL dst")
	before := m.sequence
	for _, tt := range []struct {
		line string
		work int64 // done before
		want string
	}{
		{"SORT l", workMax, errWorkMeter},
		{"SORT l BY nosort", workMax, errWorkMeter},
		{"SORT l STORE dst", workMax, errWorkMeter},
		{"SORT_RO l", workMax, errWorkMeter},
		{"SORT l BY w_*", workMax - 3*2*visitWork - findWork, errWorkMeter},
		{"SORT l GET w_*", workMax - 3*2*visitWork - findWork, errWorkMeter},
		{"SORT many ALPHA LIMIT 0 63 GET va*", 0, strings.TrimSuffix(strings.Repeat(strings.Repeat("x", mib)+" ", 63), " ")},
		{"SORT many ALPHA LIMIT 0 64 GET va*", 0, errReplyTooLarge},
		{"SORT_RO many ALPHA GET va*", 0, errReplyTooLarge},
		{"SORT many ALPHA GET va* STORE dst", 0, errGrowthMeter},
	} {
		m.request, m.applying = m.newMeter(), true
		m.request.work = tt.work
		if got := plain((&ctx{m: m}).execute(split(tt.line))); got != tt.want {
			t.Errorf("%s: %.100s, want %.100s", tt.line, got, tt.want)
		}
	}
	if m.sequence != before {
		t.Error("a refused command has changed something")
	}
}

// The work of SORT is counted: to sort, to look for weights and for values.
func TestSortWorkIsCounted(t *testing.T) {
	m := New(nil)
	for i := range 1000 {
		do(m, 1, fmt.Sprintf("RPUSH l %d", i))
		do(m, 1, "RPUSH same all")
		do(m, 1, fmt.Sprintf("HSET small f%d v", i%100))
	}
	for _, tt := range []struct {
		line  string
		least int64
	}{
		{"SORT l LIMIT 0 1", 1000 * 10 * visitWork / 2},
		{"SORT l BY nosort LIMIT 0 100", 100 * visitWork},
		{"SORT l BY w_* LIMIT 0 1", 1000 * findWork},
		{"SORT l BY nosort GET w_*", 1000 * findWork},
		{"SORT same BY nosort GET sm*->f1", 1000 * (findWork + 100*compareWork)},
	} {
		m.request, m.applying = m.newMeter(), true
		if r := (&ctx{m: m}).execute(split(tt.line)); r.IsErr() {
			t.Fatalf("%s: %s", tt.line, r.Str)
		}
		if got := m.request.work; got < tt.least || got > 10*tt.least+10*findWork {
			t.Errorf("%s: work %d, want at least %d", tt.line, got, tt.least)
		}
	}
}
