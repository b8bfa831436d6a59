package cluster

import "time"

// gathering holds the next entry, or round of questions, back for a moment after one
// has settled. Its clients all come back at about the same time; without it the first
// would travel alone, the others in the one after it, and so on for ever: twice as many.
type gathering struct {
	share float64       // of the clients seen last that are waited for
	part  time.Duration // the wait is at most this part of the time the last one took
	most  time.Duration // and at most this

	want  int           // ops that are expected
	until time.Duration // monotonic time at which the wait ends
	skip  int           // how often not to wait: the clients did not come
}

// An entry costs three disk writes, so that nearly all are worth waiting for; a round of
// questions is short, and half of the clients make two rounds that take turns.
var (
	gatherEntry = gathering{share: 15. / 16, part: 2, most: 400 * time.Microsecond}
	gatherRound = gathering{share: 1. / 2, part: 1, most: 200 * time.Microsecond}
)

// gatherSkipAfter is for how many entries or rounds there is no wait after one in vain.
const gatherSkipAfter = 8

// settled starts a wait: so many ops, which took so long, have been answered, while
// others waited.
func (g *gathering) settled(ops, waiting int, took, now time.Duration) {
	g.want = int(float64(ops+waiting) * g.share)
	g.until = now + min(took/g.part, g.most)
	if g.skip > 0 {
		g.skip--
		g.want = 0
	}
}

// left is how much longer to wait.
func (g *gathering) left(waiting int, now time.Duration) time.Duration {
	if waiting == 0 || waiting >= g.want {
		return 0
	}
	if now >= g.until {
		g.want, g.skip = 0, gatherSkipAfter
	}
	return g.until - now
}
