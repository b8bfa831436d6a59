package console

import (
	"cmp"
	"time"

	"lockd/internal/locks"
)

// lock is one of which not all holders are shown.
type lock struct {
	locks.Lock
	HolderCount int
}

// lockOf shows so many holders at most.
func lockOf(l locks.Lock, most int) lock {
	n := len(l.Holders)
	l.Holders = l.Holders[:min(n, most)]
	return lock{l, n}
}

// More is how many holders are not shown.
func (l lock) More() int { return l.HolderCount - len(l.Holders) }

// leastLeft is what is left of the lease that ends first, for ever where none ends.
func leastLeft(l *locks.Lock) time.Duration {
	least := time.Duration(1<<63 - 1)
	for i := range l.Holders {
		if h := &l.Holders[i]; h.HasLease {
			least = min(least, h.LeaseLeft)
		}
	}
	return least
}

// whose is the shortest name that says who a holder is.
func whose(h locks.Holder) string { return cmp.Or(who(h.Owner, h.Token, h.Client), h.Token) }

// percent is what is left of a lease.
func percent(h locks.Holder) int64 {
	switch {
	case !h.HasLease:
		return 100
	case h.Lease <= 0:
		return 0
	}
	return min(100, int64(h.LeaseLeft/(h.Lease/100)))
}

// isBad reports whether by an event somebody has lost a lock that he did not give back.
func isBad(e locks.Event) bool { return e.Lost() && e.Event != "released" && e.Event != "moved" }
