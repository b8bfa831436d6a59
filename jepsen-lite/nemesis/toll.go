package nemesis

import (
	"maps"
	"slices"
	"sync"
)

// toll bounds how many nodes the faults of one step may harm at a time: whatever they are
// together, a majority is left that nothing is done to. A nil toll bounds nothing. Its
// methods may be called concurrently.
type toll struct {
	most int

	mu   sync.Mutex
	took map[string]int // node -> how many faults harm it
}

// newToll spares a majority of so many nodes; nil if that would spare all of them.
func newToll(nodes int) *toll {
	if nodes < 3 {
		return nil
	}
	return &toll{most: (nodes - 1) / 2, took: map[string]int{}}
}

// take is those of the wanted nodes that may be harmed until the end of the step; if none
// of them may, one that is harmed already.
func (t *toll) take(wanted []string) (mine []string) {
	if t == nil {
		return wanted
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range wanted {
		if t.admits(n) {
			t.took[n]++
			mine = append(mine, n)
		}
	}
	if len(mine) == 0 {
		mine = slices.Sorted(maps.Keys(t.took))[:1]
		t.took[mine[0]]++
	}
	return mine
}

// admits reports whether a node may be harmed. t.mu is held.
func (t *toll) admits(node string) bool { return t.took[node] > 0 || len(t.took) < t.most }

// briefly does something that harms a node, and leaves it whole, unless too many are
// harmed already.
func (t *toll) briefly(node string, do func()) {
	if t != nil {
		t.mu.Lock()
		admitted := t.admits(node)
		if admitted {
			t.took[node]++
		}
		t.mu.Unlock()
		if !admitted {
			return
		}
		defer t.giveBack(node)
	}
	do()
}

func (t *toll) giveBack(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.took[node]--; t.took[node] == 0 {
		delete(t.took, node)
	}
}
