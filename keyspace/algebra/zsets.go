package algebra

import (
	"math"
	"slices"

	"lockd/keyspace/value"
)

// Scores is a source of an operation on sorted sets: a sorted set, or a set (OfSet).
type Scores interface {
	Len() int
	Get(member string) (score float64, had bool)
	// Each visits all members until visit returns false.
	Each(visit func(m value.Scored) bool)
	// FindWork returns the work of Get.
	FindWork(member string) int64
}

// OfSet returns a set as Scores, in which all members have the score 1.
func OfSet(s *value.Set) Scores { return setScores{s} }

type setScores struct{ *value.Set }

func (s setScores) Get(member string) (score float64, had bool) { return 1, s.Has(member) }

func (s setScores) Each(visit func(m value.Scored) bool) {
	s.Set.Each(func(member string) bool { return visit(value.Scored{Score: 1, Member: member}) })
}

// Weighted is a source of an operation with its weight.
type Weighted struct {
	Scores
	Weight float64
}

// of returns a score times the weight. The conversion keeps the compiler from fusing the product with a sum.
func (w Weighted) of(score float64) float64 { return float64(w.Weight * score) }

// Zsets computes the members of a sorted set from its sources.
type Zsets struct {
	operation
	Sources []Weighted
	Combine func(a, b float64) float64 // makes one score of two
	Room    ScoredRoom
	Result  []value.Scored // in the order of a sorted set

	bytes int64 // of the result
}

// ScoredRoom bounds the bytes of a result; Err is the error of a larger one.
type ScoredRoom struct {
	OverheadBytes int64 // of a member, beside its own bytes
	Max           int64
	Err           error
}

// NewZsets returns an operation on n sources that adds their scores.
func NewZsets(n int64, pay Payer) *Zsets {
	return &Zsets{operation: operation{pay: pay}, Sources: make([]Weighted, n), Combine: Sum}
}

// add puts a member into the result, and reports whether the operation may go on. The
// member is shared with its source: strings do not change.
func (op *Zsets) add(m value.Scored) bool {
	op.Result = append(op.Result, m)
	if op.bytes += op.Room.OverheadBytes + int64(len(m.Member)); op.bytes > op.Room.Max {
		op.Err = op.Room.Err
	}
	return op.spend(value.VisitWork)
}

// sort brings the result into the order of a sorted set.
func (op *Zsets) sort() {
	if op.Err == nil && op.spend(value.SortWork(len(op.Result), op.bytes)) {
		slices.SortFunc(op.Result, value.CompareScored)
	}
}

// smallestFirst orders the sources by their sizes, as Redis does: the rounding of sums depends on the order.
func (op *Zsets) smallestFirst() {
	slices.SortStableFunc(op.Sources, func(a, b Weighted) int { return a.Len() - b.Len() })
}

// Union computes the union of all sources.
func (op *Zsets) Union() {
	op.smallestFirst()
	at := map[string]int{} // in result; it is only asked, its order never matters
	for _, source := range op.Sources {
		source.Each(func(m value.Scored) bool {
			if !op.spend(value.TreeWork(len(op.Result)) + value.CopyWork*int64(len(m.Member))) {
				return false
			}
			score := numberOr0(source.of(m.Score))
			if i, had := at[m.Member]; had {
				op.Result[i].Score = op.Combine(op.Result[i].Score, score)
				return true
			}
			at[m.Member] = len(op.Result)
			return op.add(value.Scored{Score: score, Member: m.Member})
		})
		if op.Err != nil {
			return
		}
	}
	op.sort()
}

// Inter computes the intersection of all sources.
func (op *Zsets) Inter() {
	op.Common(op.add)
	op.sort()
}

// Common calls visit with each member that all sources have, until it returns false.
func (op *Zsets) Common(visit func(m value.Scored) bool) {
	op.smallestFirst()
	first, others := op.Sources[0], op.Sources[1:]
	first.Each(func(m value.Scored) bool {
		if !op.spend(value.VisitWork) {
			return false
		}
		score := numberOr0(first.of(m.Score))
		for _, source := range others {
			if !op.spend(source.FindWork(m.Member)) {
				return false
			}
			other, had := source.Get(m.Member)
			if !had {
				return true
			}
			score = op.Combine(score, source.of(other))
		}
		return visit(value.Scored{Score: score, Member: m.Member})
	})
}

// Diff takes the members of the first source that no other source has. It ignores weights.
func (op *Zsets) Diff() {
	op.Sources[0].Each(func(m value.Scored) bool {
		if !op.spend(value.VisitWork) {
			return false
		}
		for _, source := range op.Sources[1:] {
			if !op.spend(source.FindWork(m.Member)) {
				return false
			}
			if _, had := source.Get(m.Member); had {
				return true
			}
		}
		return op.add(m)
	})
	op.sort()
}

// Sum combines scores by adding them; the sum of inf and -inf is 0.
func Sum(a, b float64) float64 { return numberOr0(a + b) }

// Min combines scores by taking the lower. If b is NaN, which is an infinite score with the weight 0, it returns a.
func Min(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

// Max combines scores by taking the higher. If b is NaN it returns a.
func Max(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

// numberOr0 returns f, or 0 for NaN, the result of inf - inf and of 0 * inf.
func numberOr0(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}
