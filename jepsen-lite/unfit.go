package main

import (
	"fmt"
	"slices"
	"strings"

	"lockd/jepsen-lite/nemesis"
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
