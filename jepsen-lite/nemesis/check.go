package nemesis

import (
	"fmt"
	"slices"
)

// Check reports what is wrong with a plan that did not come from Plan.
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

// Kinds are the names of the kinds of faults in a plan, each once, in its order.
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
