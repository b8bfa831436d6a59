package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockd/jepsen-lite/nemesis"
	"lockd/jepsen-lite/target"
)

// unfitness says which faults a target cannot have, and why.
type unfitness struct {
	flag     string // that chooses such a target
	of       func(*nemesis.Kind) (variants []string)
	one, all string // what such a fault does, and such faults do
}

var (
	hiddenByTLS = unfitness{
		"--tls", (*nemesis.Kind).Reads, "looks into the messages between nodes, which TLS hides",
		"look into the messages between nodes, which TLS hides",
	}
	notSimulated = unfitness{
		"--target sim", (*nemesis.Kind).Grounded, "needs real processes, files or sockets",
		"need real processes, files or sockets",
	}
)

// refuseIdle refuses flags that would change nothing of such a run.
func (c *runCmd) refuseIdle(k target.Kind) error {
	for _, idle := range []struct {
		flag  string
		given bool
		why   string
	}{
		{"--binary", c.Binary != "" && k.Simulated, "the nodes of target %s are in this program"},
		{"--race", c.Race && k.Package == "", "the target %s is not built for the run"},
		{"--args", len(c.Args) > 0 && k.Package == "", "the nodes of target %s are started without more arguments"},
		{"--keep", c.Keep && !k.Simulated, "histories of target %s are always kept"},
	} {
		if idle.given {
			return fmt.Errorf("%s: "+idle.why, idle.flag, c.Target)
		}
	}
	switch {
	case c.Again < 0:
		return errors.New("--again must not be less than 0")
	case c.Swarm && c.Mixed:
		return errors.New("--mixed: with --swarm the seed decides whether faults are mixed")
	case c.Mixed && c.Schedule != "":
		return errors.New("--mixed: the faults are those of --schedule")
	case c.Swarm && c.Schedule != "":
		return errors.New("--swarm: the faults are those of --schedule")
	}
	return nil
}

// leaveOut leaves out the faults that the target cannot have. It fails if the command line names one of them, or a kind
// that has no other variants.
func (s *session) leaveOut(u *unfitness) error {
	s.unfit = u
	for _, step := range s.steps {
		for _, f := range step.Faults {
			if slices.Contains(u.of(nemesis.Find(f.Kind)), f.Variant) {
				return u.refuse(f.Kind, f.Variant)
			}
		}
	}
	var kept []string
	for _, name := range s.kinds {
		k := nemesis.Find(name)
		unfit := u.of(k)
		switch {
		case len(unfit) < len(k.Variants):
			kept = append(kept, name)
			for _, variant := range unfit {
				s.hidden = append(s.hidden, chosen(k.Name, variant))
			}
		case slices.Contains(s.cmd.Nemesis, name):
			return u.refuse(k.Name, unfit...)
		default: // "all" chose it
			s.hidden = append(s.hidden, name)
		}
	}
	s.kinds = kept
	return nil
}

// chosen returns the name of a variant in --nemesis.
func chosen(kind, variant string) string { return kind + ":" + strings.ReplaceAll(variant, " ", "-") }

func (u *unfitness) refuse(kind string, variants ...string) error {
	name := kind
	if len(variants) == 1 {
		name = chosen(kind, variants[0])
	}
	return fmt.Errorf("%s: the nemesis %s %s", u.flag, name, u.one)
}
