package nemesis

import "testing"

// Every variant of the load has its clients, and no clients are without a variant.
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
