package operate

import (
	"fmt"
	"strings"
	"testing"

	"lockd/internal/locks"
)

// The result of a poll of the members.
func TestDrainVerdicts(t *testing.T) {
	member := func(words string) locks.Member { // id role applied, or id role down
		var m locks.Member
		if _, err := fmt.Sscan(words, &m.ID, &m.Role, &m.State); err != nil {
			t.Fatal(err)
		}
		m.Suffrage = SuffrageVoter
		if strings.HasPrefix(m.ID, "x") {
			m.Suffrage = "nonvoter"
		}
		if m.State != "down" {
			_, _ = fmt.Sscan(m.State, &m.Applied)
			m.State = StateUp
		}
		return m
	}
	for _, c := range []struct{ members, want string }{
		{"n1 leader 9; n2 follower 9; n3 follower 9", "n2 can be taken away: n1 leads, and of 3 voters n1, n3 have caught up"},
		{"n1 follower 9; n2 leader 9; n3 follower 9", "leads"},
		{"n1 follower down; n2 leader 9; n3 follower 9", "n2 has to stay: the majority would be lost without it: not up: n1"},
		{"n1 follower 9; n2 follower 9; n3 follower 9", "n2 has to stay: nobody leads"},
		{"n1 leader 9; n2 follower 9; n3 follower 8", "n2 has to stay: the others have not caught up: n3"},
		{"n1 leader 9; n2 follower 9", "n2 has to stay: of 2 voters 2 must be up: add others first (for ever)"},
		{"n1 leader 9; n2 follower 9; n3 follower 9; n4 follower 7; n5 follower down",
			"n2 has to stay: the others have not caught up: n4"},
		{"n1 leader 9; n2 follower 7; n3 follower 9; n4 follower 9; n5 follower down", "n2 can be taken away: n1 leads, and " +
			"of 5 voters n1, n3, n4 have caught up; no other may fail meanwhile, as n5 already has"},
		{"n2 leader 9; x1 follower 9", "n2 has to stay: it is the only voter: add others first (for ever)"},
		{"n1 leader 9; x2 follower 1", "x2 can be taken away: n1 leads, and of 1 voters n1 have caught up"},
		{"n1 leader 9; n3 follower 9; n4 follower 9", "n2 can be taken away: n1 leads, and of 3 voters n1, n3, n4 have caught up"},
	} {
		id := "n2"
		var members []locks.Member
		for words := range strings.SplitSeq(c.members, "; ") {
			members = append(members, member(words))
			if members[len(members)-1].ID == "x2" {
				id = "x2"
			}
		}
		d := Drain{id: id}
		rest := restOf(id, members)
		v := d.assess(rest)
		got := v.Said
		if got == "" && rest.ledByIt {
			got = "leads"
		}
		if v.Hopeless {
			got += " (for ever)"
		}
		if got != c.want || v.Done != strings.Contains(got, "can be taken away") {
			t.Errorf("%s:\n%q, not\n%q", c.members, got, c.want)
		}
	}
}
