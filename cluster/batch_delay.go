package cluster

import "time"

// batchDelay holds the next entry, or round of questions, back for a moment after one has ended.
// Its clients all come back at about the same time. Without the delay, the first would travel alone
// and the others in the next one, for ever: twice as many entries.
type batchDelay struct {
	share float64       // of the clients seen last; the delay waits for these
	part  time.Duration // divisor: the wait is at most this part of the last duration
	most  time.Duration // upper bound of the wait

	want  int           // expected ops
	until time.Duration // monotonic time at which the wait ends
	skip  int           // how often not to wait, because the clients did not come
}

// An entry costs three disk writes, so it pays to wait for nearly all clients. A round of questions
// is short: half of the clients do, and two rounds take turns.
var (
	entryDelay = batchDelay{share: 15. / 16, part: 2, most: 400 * time.Microsecond}
	roundDelay = batchDelay{share: 1. / 2, part: 1, most: 200 * time.Microsecond}
)

// delaySkips is how many entries or rounds go without a wait after a wait in vain.
const delaySkips = 8

// batchDone starts a wait: ops requests have been answered after took, while others waited.
func (d *batchDelay) batchDone(ops, waiting int, took, now time.Duration) {
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
