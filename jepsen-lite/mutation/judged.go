package mutation

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed equivalent.txt
var equivalent string

// Judgement is why a mutant does nothing wrong.
type Judgement struct {
	ID     string
	Change string // what the mutant changed when it was judged
	Reason string
}

// Judgements are the judged mutants, by their ids.
type Judgements map[string]*Judgement

// Judge reads equivalent.txt: the id of a mutant at the beginning of a line, and below it, indented, a line with what it
// changes, and the reason. Lines that begin with # are comments.
func Judge() (Judgements, error) { return judge(equivalent) }

func judge(text string) (Judgements, error) {
	all := Judgements{}
	var last *Judgement
	number := 0
	for line := range strings.Lines(text) {
		number++
		indented := strings.HasPrefix(line, "\t")
		switch line = strings.TrimSpace(line); {
		case line == "" || strings.HasPrefix(line, "#"):
		case !indented:
			if all[line] != nil {
				return nil, fmt.Errorf("equivalent.txt:%d: %s is judged twice", number, line)
			}
			last = &Judgement{ID: line}
			all[line] = last
		case last == nil:
			return nil, fmt.Errorf("equivalent.txt:%d: it belongs to no mutant", number)
		case last.Change == "":
			last.Change = line
		default:
			last.Reason = strings.TrimSpace(last.Reason + " " + line)
		}
	}
	for _, j := range all {
		if j.Reason == "" {
			return nil, fmt.Errorf("equivalent.txt: %s has no reason", j.ID)
		}
	}
	return all, nil
}

// Stale returns what is wrong with the judgements of a package: mutants that are no more, or change something else by
// now.
func (j Judgements) Stale(folder string, s *Set) (wrong []string) {
	found := map[string]*Mutant{}
	for _, m := range s.Mutants {
		found[m.ID] = m
	}
	for id, one := range j {
		file, _, _ := strings.Cut(id, ":")
		if file[:max(strings.LastIndex(file, "/"), 0)] != folder {
			continue
		}
		switch m := found[id]; {
		case m == nil:
			wrong = append(wrong, id+" is no more")
		case m.Change() != one.Change:
			wrong = append(wrong, fmt.Sprintf("%s changes %s, not %s", id, m.Change(), one.Change))
		}
	}
	return wrong
}
