package nemesis

import "testing"

// Every variant of load has its clients, and every load has a variant.
func TestLoadVariants(t *testing.T) {
	variants := Find("load").Variants
	for _, v := range variants {
		if loads[v] == nil {
			t.Errorf("nobody makes the load %q", v)
		}
	}
	if len(variants) != len(loads) {
		t.Errorf("%d variants, %d loads", len(variants), len(loads))
	}
}
