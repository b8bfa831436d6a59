package cluster

import "time"

// batchDelay holds the next entry, or round of questions, back for a moment after one
// has settled. Its clients all come back at about the same time; without it the first
// would travel alone, the others in the one after it, and so on for ever: twice as many.
type batchDelay struct {
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
	entryDelay = batchDelay{share: 15. / 16, part: 2, most: 400 * time.Microsecond}
	roundDelay = batchDelay{share: 1. / 2, part: 1, most: 200 * time.Microsecond}
)

// delaySkips is for how many entries or rounds there is no wait after one in vain.
const delaySkips = 8

// settled starts a wait: so many ops, which took so long, have been answered, while
// others waited.
func (d *batchDelay) settled(ops, waiting int, took, now time.Duration) {
	d.want = int(float64(ops+waiting) * d.share)
	d.until = now + min(took/d.part, d.most)
	if d.skip > 0 {
		d.skip--
		d.want = 0
	}
}

// left is how much longer to wait.
func (d *batchDelay) left(waiting int, now time.Duration) time.Duration {
	if waiting == 0 || waiting >= d.want {
		return 0
	}
	if now >= d.until {
		d.want, d.skip = 0, delaySkips
	}
	return d.until - now
}
