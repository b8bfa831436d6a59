package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is one planned fault.
type Fault struct {
	Kind, Variant string
	Dice          uint64 // seed of its random choices: victims, times, sizes
}

// Step is one or more faults at once.
type Step struct {
	After  time.Duration // pause before the step, without faults
	For    time.Duration // duration
	Wide   bool          // the faults may harm a majority
	Faults []Fault
}

// Steps of one fault alone, in a mixed plan that has other faults, too.
const (
	loneOneIn = 4               // the number of steps for each of them
	loneCalm  = 3 * time.Second // before and after a fault Absent, without others
)

// wideOneIn is the number of steps of a mixed plan for each wide one.
const wideOneIn = 8

// Plan makes a schedule that lasts at least as long as total. Each step has one fault, or, if mixed, up to four of
// different kinds. Most mixed steps spare a majority of the nodes, since otherwise the cluster could rarely answer. Now
// and then a mixed step has one fault of the kinds that are alone, half of them Absent, far from other faults. Plan
// chooses no variant of a kind that hidden returns, as (*Kind).Reads; nil: all can be chosen. Each kind must have
// others. The plan begins with a step of one fault for each kind of first.
func Plan(
	seed uint64, total time.Duration, kinds []string, mixed bool, hidden func(*Kind) []string, first ...string,
) []Step {
	rng := rand.New(rand.NewPCG(seed, 0x6e656d65736973))
	var steps []Step
	lone, others := Apart(kinds)
	calm := time.Duration(0) // after the last step
	for sum := time.Duration(0); len(kinds) > 0 && sum < total; {
		s := Step{
			After: time.Duration(300+rng.IntN(1700)) * time.Millisecond,
			For:   time.Duration(100+rng.IntN(2400)) * time.Millisecond,
		}
		if rng.IntN(3) == 0 {
			s.For *= 3
		}
		count := 1
		s.Wide = true
		if mixed {
			s.Wide = rng.IntN(wideOneIn) == 0
			count = 1 + rng.IntN(min(4, len(kinds)))
		}
		from := kinds
		if mixed && len(lone) > 0 && len(others) > 0 {
			if from = others; rng.IntN(loneOneIn) == 0 {
				from, count = oneOf(lone, rng), 1
			}
			count = min(count, len(from))
		}
		if len(first) > 0 {
			from, first, count = first[:1], first[1:], 1
		}
		for _, i := range rng.Perm(len(from))[:count] {
			k := Find(from[i])
			if hidden != nil {
				k = k.without(hidden(k))
			}
			s.Faults = append(s.Faults, Fault{k.Name, k.Variants[rng.IntN(len(k.Variants))], rng.Uint64()})
		}
		if i := slices.IndexFunc(s.Faults, isAlone); i >= 0 {
			s.Faults = s.Faults[i : i+1] // another fault would spoil its order of steps
		}
		s.After, calm = s.After+calm, 0
		if mixed && isAbsent(s.Faults[0]) {
			s.After, calm = s.After+loneCalm, loneCalm
		}
		steps = append(steps, s)
		sum += s.After + s.For
	}
	return steps
}

// Apart returns those of some kinds that have a step to themselves, and the others.
func Apart(kinds []string) (lone, others []string) {
	for _, k := range kinds {
		if Find(k).alone {
			lone = append(lone, k)
		} else {
			others = append(others, k)
		}
	}
	return lone, others
}

// oneOf draws one of some kinds: every other time Absent, if that is among them.
func oneOf(kinds []string, rng *rand.Rand) []string {
	absent := slices.IndexFunc(kinds, func(k string) bool { return Find(k).Name == Absent })
	i := rng.IntN(2 * len(kinds))
	if absent >= 0 && i >= len(kinds) {
		return kinds[absent : absent+1]
	}
	i %= len(kinds)
	return kinds[i : i+1]
}

func isAlone(f Fault) bool { return Find(f.Kind).alone }

func isAbsent(f Fault) bool { return f.Kind == Absent }

// Check returns an error if a plan that Plan has not made is not valid.
func Check(plan []Step) error {
	for i, s := range plan {
		if s.After < 0 || s.For < 0 || len(s.Faults) == 0 {
			return fmt.Errorf("step %d: after %s, for %s, %d faults: no time may be less than 0, and there must be a "+
				"fault",
				i+1, s.After, s.For, len(s.Faults))
		}
		for _, f := range s.Faults {
			k := Find(f.Kind)
			if k == nil {
				return fmt.Errorf("step %d: there is no nemesis %q", i+1, f.Kind)
			}
			if !slices.Contains(k.Variants, f.Variant) {
				return fmt.Errorf("step %d: the nemesis %s has no variant %q", i+1, f.Kind, f.Variant)
			}
		}
	}
	return nil
}

// Kinds returns the kinds of faults in a plan, each once, in order.
func Kinds(plan []Step) (kinds []string) {
	for _, s := range plan {
		for _, f := range s.Faults {
			if !slices.Contains(kinds, f.Kind) {
				kinds = append(kinds, f.Kind)
			}
		}
	}
	return kinds
}
