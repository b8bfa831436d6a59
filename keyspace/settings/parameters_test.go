package settings

import (
	"strings"
	"testing"
)

// Each default is a value that its own check takes and keeps as it is: an image
// holds such values, and must open.
func TestDefaultsAreCanonical(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Parameters {
		if kept, err := p.take(p.Value, p.Value); kept != p.Value || err != nil {
			t.Errorf("%s %q: kept as %q, %s", p.Name, p.Value, kept, err)
		}
		for _, name := range []string{p.Name, p.Alias} {
			if name != strings.ToLower(name) || (name != "" && seen[name]) {
				t.Errorf("name %q", name)
			}
			seen[name] = true
		}
	}
}
