package cluster

import (
	"slices"
	"strings"
	"testing"

	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/keyspace"
	"lockd/luavm"
	"lockd/resp"
)

// otherBuild is the machine of a build that differs in one rule.
type otherBuild struct {
	Machine
	format string // the version of this is another one
	spec   int    // this row has another arity
}

func (b otherBuild) Formats(level int) map[string]uint64 {
	all := b.Machine.Formats(level)
	if _, ok := all[b.format]; ok {
		all[b.format]++
	}
	return all
}

func (b otherBuild) Specs() []*resp.Spec {
	all := slices.Clone(b.Machine.Specs())
	if b.spec >= 0 {
		other := *all[b.spec]
		other.Arity += 7
		all[b.spec] = &other
	}
	return all
}

// Two builds that differ in any one rule refuse each other, and the refusal names it. Each name is one word, and no two rules
// have the same.
func TestEachRuleTellsBuildsApart(t *testing.T) {
	machine := keyspace.New(luavm.New())
	_, level := machine.Levels()
	own := membership.Rules(machine, formatsSince)
	refuses := func(name string, other Machine, formats []resp.Rule) {
		t.Helper()
		err := membership.CheckRules(peer.Identity{ID: "n2", Rules: membership.Rules(other, formats)}, "n1", own, level)
		if err == nil || !strings.Contains(err.Error(), "other rules for "+name) {
			t.Errorf("builds that differ in %s: %v", name, err)
		}
	}
	for name := range machine.Formats(level) {
		refuses("("+name+")", otherBuild{machine, name, -1}, formatsSince)
	}
	for i, spec := range machine.Specs() {
		if spec.Level <= level {
			refuses(spec.Name, otherBuild{machine, "", i}, formatsSince)
		}
	}
	for i, rule := range formatsSince {
		if rule.Level <= level {
			formats := slices.Clone(formatsSince)
			formats[i].Version += 7
			refuses("("+rule.Name+")", machine, formats)
		}
	}
	known := map[string]bool{}
	for word := range strings.FieldsSeq(own) {
		name, sum, ok := strings.Cut(word, ":")
		if !ok || len(sum) != len("01234567") || known[name] {
			t.Errorf("%q is no word, or not the only one of its name", word)
		}
		known[name] = true
	}
}
