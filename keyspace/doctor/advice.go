package doctor

import (
	"cmp"
	"slices"
	"strings"
)

// Advice has the figures of the locks of a template. Milliseconds are -1 if they are not known.
type Advice struct {
	Template                     string
	Acquisitions, Expired, InUse int
	Hold, Wait                   Spread
	LeaseMs                      int64 // half of the leases are longer
	EnoughMs                     int64 // a lease that would have been enough for all of them
}

// Spread has percentiles of times, in milliseconds.
type Spread struct{ P50, P99, Max int64 }

// Advice returns the advice for all templates, the most used first. Findings must be called before.
func (c *Case) Advice() []Advice {
	for h := range c.lateHolds() {
		h.of.holds = append(h.of.holds, h.toMs-h.fromMs+h.lateMs)
	}
	var list []Advice
	for _, w := range c.classes {
		if w.grants > 0 || len(w.holds) > 0 {
			list = append(list, w.advice())
		}
	}
	slices.SortFunc(list, func(a, b Advice) int {
		return cmp.Or(cmp.Compare(b.Acquisitions, a.Acquisitions), strings.Compare(a.Template, b.Template))
	})
	return list
}

// lateHolds returns the holds that were needed for longer than their leases.
func (c *Case) lateHolds() map[*hold]bool {
	late := map[*hold]bool{}
	add := func(holds []*hold) {
		for _, h := range holds {
			if h.late {
				late[h] = true
			}
		}
	}
	for _, holds := range c.lapsed {
		add(holds)
	}
	for _, holds := range c.observed {
		add(holds)
	}
	return late
}

func (w *class) advice() Advice {
	a := Advice{
		Template: w.template, Acquisitions: w.grants, Expired: w.expired, InUse: w.inUse,
		Hold: spreadOf(w.holds), Wait: spreadOf(w.waits), LeaseMs: spreadOf(w.leases).P50, EnoughMs: -1,
	}
	if a.Hold.Max >= 0 {
		a.EnoughMs = enough(a.Hold.Max)
	}
	return a
}

// enough returns a lease for a lock that is needed for ms: half as much again, as a round number.
func enough(ms int64) int64 {
	step := int64(100)
	if ms >= 10_000 {
		step = 1000
	}
	return (ms+ms/2)/step*step + step
}

func spreadOf(list []int64) Spread {
	if len(list) == 0 {
		return Spread{-1, -1, -1}
	}
	slices.Sort(list)
	n := len(list)
	return Spread{P50: list[(n-1)/2], P99: list[(n*99+99)/100-1], Max: list[n-1]}
}
