package model

import (
	"strings"

	"lockd/jepsen-lite/history"
)

// stopped begins the answer to a script that met a limit.
const stopped = "error ERR Script stopped"

// Scripts judges scripts that write and then exceed a limit: poison key = answer; left key = the written value | nil. A
// script that was stopped is undone, and another one is not. Whether nodes die or differ is checked at the nodes.
func Scripts(h *history.History) *Verdict {
	v := &Verdict{}
	sent := map[string]*history.Op{}
	stops := 0
	for i := range h.Ops {
		o := &h.Ops[i]
		p := sent[o.Key]
		switch {
		case o.Name == "poison":
			sent[o.Key] = o
			if o.OK() && strings.HasPrefix(o.Out[0], stopped) {
				stops++
			}
		case o.Name == "left" && o.OK() && p != nil:
			undone(v, p, o)
		}
	}
	v.Note("%d scripts that ask for too much, %d stopped at a limit", len(sent), stops)
	return v
}

// undone judges what a script p left.
func undone(v *Verdict, p, left *history.Op) {
	there := left.Out[0] != "nil"
	switch {
	case p.Outcome == history.Info:
	case p.Outcome == history.Fail:
		v.Stake(ruleScript, 1)
		if there {
			v.Add("failed but done", left, "%s", p)
		}
	case strings.HasPrefix(p.Out[0], stopped):
		v.Stake(ruleUndone, 1)
		if there {
			v.Add("not undone", left, "%s left this behind", p)
		}
	case !strings.HasPrefix(p.Out[0], "error "):
		v.Stake(ruleScript, 1)
		if !there {
			v.Add("acknowledged write lost", left, "%s wrote it", p)
		}
	}
}
