package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/nemesis"
)

// In each run of the control that REFERENCE.md names, the primary is cut off long enough for the others to elect another
// one, and for clients to write to both.
func TestControlIsCutOff(t *testing.T) {
	const electsIn = 3 * time.Second
	reference, err := os.ReadFile("REFERENCE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, control, _ := strings.Cut(string(reference), "### The control\n")
	control, _, _ = strings.Cut(control, "### Planted bugs\n")
	runs := regexp.MustCompile("- `(--time [^`]+)`").FindAllStringSubmatch(control, -1)
	if len(runs) != 2 {
		t.Fatalf("%d runs in: %s", len(runs), control)
	}
	for _, r := range runs {
		run, err := plantedRun{flags: r[1]}.parse(false)
		if err != nil {
			t.Fatal(err)
		}
		longest, at := time.Duration(0), time.Duration(0)
		for _, step := range nemesis.Plan(run.Seed, run.Time, run.Nemesis, run.Mixed, nil) {
			at += step.After
			f := step.Faults[0]
			if f.Kind == "partition" && (f.Variant == "minority" || f.Variant == "leader alone") {
				longest = max(longest, min(step.For, run.Time-at))
			}
			at += step.For
		}
		if longest < electsIn {
			t.Errorf("%s: the primary is cut off for %s at most", r[1], longest)
		}
	}
}
