package nemesis

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every plan of a seed can be played again from its JSON, and tells its kinds.
func TestCheckOfPlans(t *testing.T) {
	var kinds []string
	for _, k := range Table {
		kinds = append(kinds, k.Name)
	}
	plan := Plan(1, time.Hour, kinds, true, nil)
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var back []Step
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(text) {
		t.Errorf("the plan changed on its way, %v", err)
	}
	if err := Check(back); err != nil {
		t.Error(err)
	}
	got := Kinds(back)
	slices.Sort(got)
	slices.Sort(kinds)
	if !slices.Equal(got, kinds) {
		t.Errorf("kinds %q, want %q", got, kinds)
	}
}

// What cannot be played is named.
func TestCheck(t *testing.T) {
	good := Fault{Kind: "kill", Variant: "leader"}
	for _, c := range []struct {
		step Step
		want string
	}{
		{Step{After: -1, Faults: []Fault{good}}, "step 2: after -1ns, "},
		{Step{For: -1, Faults: []Fault{good}}, "step 2: after 0s, for -1ns, "},
		{Step{}, "0 faults"},
		{Step{Faults: []Fault{good, {Kind: "flood"}}}, `step 2: there is no nemesis "flood"`},
		{Step{Faults: []Fault{{Kind: "kill", Variant: "moon"}}}, `step 2: the nemesis kill has no variant "moon"`},
	} {
		if err := Check([]Step{{Faults: []Fault{good}}, c.step}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.step, err)
		}
	}
}

// A mixed plan has steps of one fault alone now and then, half of them Absent, which has no other fault near.
func TestLoneSteps(t *testing.T) {
	var kinds []string
	for _, k := range Table {
		kinds = append(kinds, k.Name)
	}
	plan := Plan(1, 4*time.Hour, kinds, true, nil)
	lone, absent := 0, 0
	for i, s := range plan {
		for _, f := range s.Faults {
			if isAlone(f) && len(s.Faults) > 1 {
				t.Errorf("step %d: %+v", i+1, s.Faults)
			}
		}
		if isAlone(s.Faults[0]) {
			lone++
		}
		if !isAbsent(s.Faults[0]) {
			continue
		}
		absent++
		if s.After < loneCalm || i+1 < len(plan) && plan[i+1].After < loneCalm {
			t.Errorf("step %d is %s after the one before, and %s before the next one", i+1, s.After, plan[i+1].After)
		}
	}
	if share := len(plan) / max(lone, 1); share < loneOneIn-1 || share > loneOneIn+1 || absent < lone/3 {
		t.Errorf("of %d steps %d have one fault alone, and %d of these are %s", len(plan), lone, absent, Absent)
	}
}
