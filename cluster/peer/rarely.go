package peer

import (
	"sync"
	"time"
)

// Rarely lets the same be said once in a while only: a stranger who tries again and again
// must not fill the log. The zero value is ready; it may be used concurrently.
type Rarely struct {
	mu   sync.Mutex
	said map[string]time.Time
}

// The same is said again after sayAgain; of what is different not more than sayingsMax in
// that time.
const (
	sayAgain   = time.Minute
	sayingsMax = 256
)

// Due reports whether it is time to say something.
func (r *Rarely) Due(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.said[what]; ok && since(at) < sayAgain {
		return false
	}
	if len(r.said) >= sayingsMax {
		for w, at := range r.said {
			if since(at) >= sayAgain {
				delete(r.said, w)
			}
		}
		if len(r.said) >= sayingsMax {
			return false
		}
	}
	if r.said == nil {
		r.said = map[string]time.Time{}
	}
	r.said[what] = after(0)
	return true
}
