package value

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A sequence does what a slice does, for any row of changes, and its nodes count
// right. What was copied of it stays as it was, whichever of the two is changed.
func TestSequenceIsASlice(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		q, model := newSequence(), []string(nil)
		type kept struct {
			q     sequence
			model []string
		}
		for i := range int(seed%3) * 5000 { // some of three levels, some of less
			q.insert(i, fmt.Sprint("first", i))
			model = append(model, fmt.Sprint("first", i))
		}
		var copies []kept
		growth := 1 + rng.IntN(3) // of four steps, how many insert
		for i := range 3000 {
			switch step := rng.IntN(40); {
			case step == 0 && len(copies) < 20:
				copies = append(copies, kept{q.copy(), slices.Clone(model)})
			case step == 1 && len(copies) > 0:
				k := rng.IntN(len(copies)) // go on with an old one
				copies[k], q, model = kept{q, model}, copies[k].q, copies[k].model
				q = q.copy()
			case step == 2:
				from, to := rng.IntN(len(model)+1), rng.IntN(len(model)+1)
				if from > to {
					from, to = to, from
				}
				to = min(to, from+1+rng.IntN(300))
				q.cut(from, max(from, to))
				model = slices.Delete(model, from, max(from, to))
			case step < 6 && len(model) > 0:
				at := rng.IntN(len(model))
				s := fmt.Sprint("set", i)
				q.set(at, s)
				model[at] = s
			case step%4 < growth:
				at := place(rng, len(model))
				q.insert(at, fmt.Sprint(i))
				model = slices.Insert(model, at, fmt.Sprint(i))
			case len(model) > 0:
				at := min(place(rng, len(model)), len(model)-1)
				if got := q.get(at); got != model[at] {
					t.Fatalf("seed %d, step %d: %q at %d, want %q", seed, i, got, at, model[at])
				}
				q.cut(at, at+1)
				model = slices.Delete(model, at, at+1)
			}
			if i%311 == 0 {
				checkSequence(t, &q, model)
			}
		}
		checkSequence(t, &q, model)
		for _, c := range copies {
			checkSequence(t, &c.q, c.model)
		}
	}
}

// place is a position up to n, each end as often as all that is between them.
func place(rng *rand.Rand, n int) int {
	switch rng.IntN(3) {
	case 0:
		return 0
	case 1:
		return n
	}
	return rng.IntN(n + 1)
}

// checkSequence compares a sequence with a slice, from several places and both ways.
func checkSequence(t *testing.T, q *sequence, want []string) {
	t.Helper()
	var bytes int64
	for _, s := range want {
		bytes += elementBytes(s)
	}
	if q.len() != len(want) || q.bytes() != bytes {
		t.Fatalf("%d strings in %d bytes, want %d in %d", q.len(), q.bytes(), len(want), bytes)
	}
	checkSeqNode(t, q.root, true)
	for _, from := range []int{0, len(want) / 3, len(want) - 1, len(want)} {
		if from < 0 {
			continue
		}
		var up, down []string
		q.ascend(from, func(s string) bool { up = append(up, s); return true })
		if !slices.Equal(up, want[from:]) {
			t.Fatalf("from %d upwards: %q", from, up)
		}
		if from == len(want) {
			continue
		}
		q.descend(from, func(s string) bool { down = append(down, s); return true })
		slices.Reverse(down)
		if !slices.Equal(down, want[:from+1]) {
			t.Fatalf("from %d downwards: %q", from, down)
		}
	}
}

// checkSeqNode checks what each node says of itself, and returns its height.
func checkSeqNode(t *testing.T, n *seqNode, root bool) (height int) {
	t.Helper()
	count, bytes := len(n.vals), int64(0)
	for _, s := range n.vals {
		bytes += elementBytes(s)
	}
	for i, kid := range n.kids {
		h := checkSeqNode(t, kid, false)
		if i > 0 && h != height {
			t.Fatal("leaves at different heights")
		}
		height = h
		count += kid.count
		bytes += kid.bytes
	}
	if n.count != count || n.bytes != bytes || (count == 0 && !root) {
		t.Fatalf("a node says %d and %d bytes and has %d and %d", n.count, n.bytes, count, bytes)
	}
	if n.kids != nil && (len(n.vals) > 0 || len(n.kids) > seqKidsMax || root && len(n.kids) < 2) ||
		len(n.vals) > seqValsMax {
		t.Fatalf("a node of %d strings and %d kids", len(n.vals), len(n.kids))
	}
	return height + 1
}

// What is pushed at an end, at either, fills the leaves, and what is left after much
// was removed is not spread over many: a list takes about the memory of its elements.
func TestSequenceIsDense(t *testing.T) {
	leaves := func(q *sequence) int {
		var count func(n *seqNode) int
		count = func(n *seqNode) (sum int) {
			if n.kids == nil {
				return 1
			}
			for _, kid := range n.kids {
				sum += count(kid)
			}
			return sum
		}
		return count(q.root)
	}
	const n = 100_000
	for name, at := range map[string]func(length int) int{
		"head": func(int) int { return 0 },
		"tail": func(length int) int { return length },
	} {
		q := newSequence()
		for range n {
			q.insert(at(q.len()), "x")
		}
		if got := leaves(&q); got > n/seqValsMax+1 {
			t.Errorf("%s: %d leaves for %d strings", name, got, n)
		}
	}
	const full = n / seqValsMax // leaves; of each, one string is left
	keep := func(q *sequence, leaf, at int) {
		q.cut(leaf+at+1, leaf+seqValsMax)
		for range at {
			q.cut(leaf, leaf+1)
		}
	}
	for name, thin := range map[string]func(q *sequence){
		"the first of each leaf, upwards": func(q *sequence) {
			for leaf := range full {
				keep(q, leaf, 0)
			}
		},
		"the last of each leaf, upwards": func(q *sequence) {
			for leaf := range full {
				keep(q, leaf, seqValsMax-1)
			}
		},
		"the first of each leaf, downwards": func(q *sequence) {
			for leaf := full - 1; leaf >= 0; leaf-- {
				keep(q, leaf*seqValsMax, 0)
			}
		},
		"the last of each leaf, downwards": func(q *sequence) {
			for leaf := full - 1; leaf >= 0; leaf-- {
				keep(q, leaf*seqValsMax, seqValsMax-1)
			}
		},
		"some anywhere": func(q *sequence) {
			rng := rand.New(rand.NewPCG(1, 1))
			for q.len() > full {
				at := rng.IntN(q.len())
				q.cut(at, at+1)
			}
		},
	} {
		q := newSequence()
		for i := range full * seqValsMax {
			q.insert(i, "x")
		}
		thin(&q)
		if got, most := leaves(&q), full/(seqValsMax/4)+1; got > most || q.len() != full {
			t.Errorf("%s is left: %d leaves for %d strings, want at most %d for %d", name, got, q.len(), most, full)
		}
	}
}
