package keyspace

import (
	"math"
	"slices"

	"lockd/keyspace/value"
	"lockd/resp"
)

// scores is what ZUNION and its like read: a sorted set, or a set, whose members all
// have the score 1.
type scores interface {
	Len() int
	Get(member string) (score float64, had bool)
	Each(visit func(m value.Scored) bool)
	FindWork(member string) int64
}

// setScores is a set as scores.
type setScores struct{ *value.Set }

func (s setScores) Get(member string) (score float64, had bool) { return 1, s.Has(member) }

func (s setScores) Each(visit func(m value.Scored) bool) {
	s.Set.Each(func(member string) bool { return visit(value.Scored{Score: 1, Member: member}) })
}

// lookupScores finds a key that must hold a sorted set or a set; one that is absent
// is an empty sorted set.
func (c *ctx) lookupScores(key string) (s scores, err error) {
	e := c.lookup(key)
	if e == nil {
		return value.NewZset(c.m.generation), nil
	}
	switch agg := e.agg().(type) {
	case *value.Zset:
		return agg, nil
	case *value.Set:
		return setScores{agg}, nil
	}
	return nil, resp.Error(resp.ErrWrongType)
}

// weighted is one source of an operation.
type weighted struct {
	scores
	weight float64
}

// of is a score of the source with its weight; see score.go for the conversion.
func (w weighted) of(score float64) float64 { return float64(w.weight * score) }

// zsetOp computes the members of a sorted set from sources: their union, intersection
// or difference. As setOp it changes nothing that is stored, and gives up where the
// result, or the work, is more than one request may ask for; err says so then.
type zsetOp struct {
	c       *ctx
	sources []weighted
	combine func(a, b float64) float64
	result  []value.Scored // without an order until sort
	room    resultRoom
	bytes   int64 // of the result
	err     error
}

// resultRoom is how large a result may be, and what is said of one that is larger.
type resultRoom struct {
	overheadBytes int64 // of a member, beside its own bytes
	bytesMax      int64
	err           error
}

var (
	roomToStore        = resultRoom{value.ScoredOverheadBytes, growthBytesMax, resp.Error(errGrowthMeter)}
	roomToAnswer       = resultRoom{memberReplyBytes, replyBytesMax, resp.Error(errReplyTooLarge)}
	roomToAnswerScores = resultRoom{scoredReplyBytes, replyBytesMax, resp.Error(errReplyTooLarge)}
)

// spend counts work, and reports whether the operation may go on.
func (op *zsetOp) spend(work int64) bool {
	op.c.m.spend(work)
	if op.c.m.tired() {
		op.err = resp.Error(errWorkMeter)
	}
	return op.err == nil
}

// add puts a member into the result, and reports whether the operation may go on. The
// member is shared with its source: strings do not change.
func (op *zsetOp) add(m value.Scored) bool {
	op.result = append(op.result, m)
	if op.bytes += op.room.overheadBytes + int64(len(m.Member)); op.bytes > op.room.bytesMax {
		op.err = op.room.err
	}
	return op.spend(value.VisitWork)
}

// sort brings the result into the order of a sorted set.
func (op *zsetOp) sort() {
	if op.err == nil && op.spend(value.SortWork(len(op.result), op.bytes)) {
		slices.SortFunc(op.result, value.CompareScored)
	}
}

// smallestFirst orders the sources by their size, as Redis does: where the sum of
// scores is rounded, it depends on that.
func (op *zsetOp) smallestFirst() {
	slices.SortStableFunc(op.sources, func(a, b weighted) int { return a.Len() - b.Len() })
}

// union takes the members of all sources.
func (op *zsetOp) union() {
	op.smallestFirst()
	at := map[string]int{} // in result; it is only asked, its order never matters
	for _, source := range op.sources {
		source.Each(func(m value.Scored) bool {
			if !op.spend(value.TreeWork(len(op.result)) + value.CopyWork*int64(len(m.Member))) {
				return false
			}
			score := numberOr0(source.of(m.Score))
			if i, had := at[m.Member]; had {
				op.result[i].Score = op.combine(op.result[i].Score, score)
				return true
			}
			at[m.Member] = len(op.result)
			return op.add(value.Scored{Score: score, Member: m.Member})
		})
		if op.err != nil {
			return
		}
	}
	op.sort()
}

// inter takes the members that all sources have.
func (op *zsetOp) inter() {
	op.common(op.add)
	op.sort()
}

// common calls visit with each member that all sources have, until it returns false.
func (op *zsetOp) common(visit func(m value.Scored) bool) {
	op.smallestFirst()
	first, others := op.sources[0], op.sources[1:]
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
			score = op.combine(score, source.of(other))
		}
		return visit(value.Scored{Score: score, Member: m.Member})
	})
}

// diff takes the members of the first source that no other one has. It knows no
// weights.
func (op *zsetOp) diff() {
	op.sources[0].Each(func(m value.Scored) bool {
		if !op.spend(value.VisitWork) {
			return false
		}
		for _, source := range op.sources[1:] {
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

// The ways of AGGREGATE. Those that choose leave a as it is where b is NaN, an
// infinite score with the weight 0.
func sumOf(a, b float64) float64 { return numberOr0(a + b) }

func minOf(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

func maxOf(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

// numberOr0 is f, or 0 for NaN: what comes of inf - inf, or of 0 * inf.
func numberOr0(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}
