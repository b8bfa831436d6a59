package keyspace

import (
	"math"
	"slices"

	"lockd/resp"
)

// scores is what ZUNION and its like read: a sorted set, or a set, whose members all
// have the score 1.
type scores interface {
	len() int
	get(member string) (score float64, had bool)
	each(visit func(m scored) bool)
	findWork(member string) int64
}

// setScores is a set as scores.
type setScores struct{ *set }

func (s setScores) get(member string) (score float64, had bool) { return 1, s.has(member) }

func (s setScores) each(visit func(m scored) bool) {
	s.set.each(func(member string) bool { return visit(scored{1, member}) })
}

// lookupScores finds a key that must hold a sorted set or a set; one that is absent
// is an empty sorted set. Where ok is false the reply is the error.
func (c *ctx) lookupScores(key string) (s scores, fail resp.Reply, ok bool) {
	e := c.lookup(key)
	if e == nil {
		return newZset(c.m.generation), resp.Reply{}, true
	}
	switch agg := e.agg().(type) {
	case *zset:
		return agg, resp.Reply{}, true
	case *set:
		return setScores{agg}, resp.Reply{}, true
	}
	return nil, resp.Err(resp.ErrWrongType), false
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
// result, or the work, is more than one request may ask for; why is the error then.
type zsetOp struct {
	c       *ctx
	sources []weighted
	combine func(a, b float64) float64
	result  []scored // without an order until sort
	room    resultRoom
	bytes   int64 // of the result
	why     string
}

// resultRoom is how large a result may be, and what is said of one that is larger.
type resultRoom struct {
	overheadBytes int64 // of a member, beside its own bytes
	bytesMax      int64
	why           string
}

var (
	roomToStore        = resultRoom{scoredOverheadBytes, growthBytesMax, errGrowthMeter}
	roomToAnswer       = resultRoom{memberReplyBytes, replyBytesMax, errReplyTooLarge}
	roomToAnswerScores = resultRoom{scoredReplyBytes, replyBytesMax, errReplyTooLarge}
)

// spend counts work, and reports whether the operation may go on.
func (op *zsetOp) spend(work int64) bool {
	op.c.m.spend(work)
	if op.c.m.tired() {
		op.why = errWorkMeter
	}
	return op.why == ""
}

// add puts a member into the result, and reports whether the operation may go on. The
// member is shared with its source: strings do not change.
func (op *zsetOp) add(m scored) bool {
	op.result = append(op.result, m)
	if op.bytes += op.room.overheadBytes + int64(len(m.member)); op.bytes > op.room.bytesMax {
		op.why = op.room.why
	}
	return op.spend(visitWork)
}

// sort brings the result into the order of a sorted set.
func (op *zsetOp) sort() {
	if op.why == "" && op.spend(sortWork(len(op.result), op.bytes)) {
		slices.SortFunc(op.result, compareScored)
	}
}

// smallestFirst orders the sources by their size, as Redis does: where the sum of
// scores is rounded, it depends on that.
func (op *zsetOp) smallestFirst() {
	slices.SortStableFunc(op.sources, func(a, b weighted) int { return a.len() - b.len() })
}

// union takes the members of all sources.
func (op *zsetOp) union() {
	op.smallestFirst()
	at := map[string]int{} // in result; it is only asked, its order never matters
	for _, source := range op.sources {
		source.each(func(m scored) bool {
			if !op.spend(treeWork(len(op.result)) + copyWork*int64(len(m.member))) {
				return false
			}
			score := numberOr0(source.of(m.score))
			if i, had := at[m.member]; had {
				op.result[i].score = op.combine(op.result[i].score, score)
				return true
			}
			at[m.member] = len(op.result)
			return op.add(scored{score, m.member})
		})
		if op.why != "" {
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
func (op *zsetOp) common(visit func(m scored) bool) {
	op.smallestFirst()
	first, others := op.sources[0], op.sources[1:]
	first.each(func(m scored) bool {
		if !op.spend(visitWork) {
			return false
		}
		score := numberOr0(first.of(m.score))
		for _, source := range others {
			if !op.spend(source.findWork(m.member)) {
				return false
			}
			other, had := source.get(m.member)
			if !had {
				return true
			}
			score = op.combine(score, source.of(other))
		}
		return visit(scored{score, m.member})
	})
}

// diff takes the members of the first source that no other one has. It knows no
// weights.
func (op *zsetOp) diff() {
	op.sources[0].each(func(m scored) bool {
		if !op.spend(visitWork) {
			return false
		}
		for _, source := range op.sources[1:] {
			if !op.spend(source.findWork(m.member)) {
				return false
			}
			if _, had := source.get(m.member); had {
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
