package main

import (
	"math/rand/v2"
	"slices"
	"time"

	"lockd/jepsen-lite/nemesis"
)

// swarm has the choices of a run's seed besides its faults: runs that differ in them find more than runs that all do a
// little of everything.
type swarm struct {
	mixed bool
	after float64 // factor of the times without faults
	lasts float64 // factor of the length of faults
}

// paces are the factors of a swarm.
var paces = []float64{0.3, 0.6, 1, 1, 2, 4}

// drawSwarm draws one of the workloads, some of the kinds of faults, and how often they come and how long they last.
func drawSwarm(s *session) {
	rng := rand.New(rand.NewPCG(s.cmd.Seed, 0x737761726d))
	s.workloads = []string{s.workloads[rng.IntN(len(s.workloads))]}
	if len(s.kinds) > 0 {
		kinds := slices.Clone(s.kinds)
		rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		s.kinds = kinds[:1+rng.IntN(len(kinds))]
		slices.Sort(s.kinds)
	}
	s.swarm = &swarm{mixed: rng.IntN(2) == 0, after: paces[rng.IntN(len(paces))], lasts: paces[rng.IntN(len(paces))]}
}

// plan draws the faults of a workload.
func (w *swarm) plan(
	seed uint64, length time.Duration, kinds []string, hidden func(*nemesis.Kind) []string,
) []nemesis.Step {
	steps := nemesis.Plan(seed, time.Duration(float64(length)/min(w.after, w.lasts)), kinds, w.mixed, hidden)
	var sum time.Duration
	for i := range steps {
		steps[i].After = time.Duration(float64(steps[i].After) * w.after)
		steps[i].For = time.Duration(float64(steps[i].For) * w.lasts)
		if sum += steps[i].After + steps[i].For; sum >= length {
			return steps[:i+1]
		}
	}
	return steps
}
