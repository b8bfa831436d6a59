package membership

import (
	"fmt"
	"testing"
)

func add(r *Roster, ids ...string) *Roster {
	for _, id := range ids {
		r = r.With(Change{Upsert: []Member{{ID: id, Incarnation: "of " + id}}})
	}
	return r
}

// A member keeps its number while it is a member, whatever changes. A number is reused only after all others have been
// given, and never has two members.
func TestNumbers(t *testing.T) {
	r := add(Empty, "n2", "n1", "n3")
	for id, want := range map[string]int{"n2": 1, "n1": 2, "n3": 3} {
		if got := r.Members[id].Number; got != want || r.Numbered(want) != id {
			t.Errorf("%s has number %d, want %d; that is the number of %q", id, got, want, r.Numbered(want))
		}
	}
	r = r.With(Change{Upsert: []Member{{ID: "n1", Incarnation: "of n1", PeerAddr: "elsewhere:1", Number: 77}}})
	if m := r.Members["n1"]; m.Number != 2 || m.PeerAddr != "elsewhere:1" {
		t.Errorf("a member that has moved is %+v", m)
	}
	r = add(r.With(Change{Remove: []string{"n3"}}), "n4")
	if got := r.Members["n4"].Number; got != 4 {
		t.Errorf("who came after a member was removed has number %d", got)
	}
	for i := 5; i < 3*NumberMax; i++ {
		id := fmt.Sprint("x", i)
		r = add(r, id)
		got := r.Members[id].Number
		if got < 1 || got > NumberMax || r.Numbered(got) != id {
			t.Fatalf("member %d of the cluster has number %d", i, got)
		}
		r = r.With(Change{Remove: []string{id}})
		r.Removed = map[string]bool{} // they would be thousands
	}
	if r.Numbered(0) != "" || r.Numbered(3) != "" {
		t.Error("a number that nobody has is somebody's")
	}
}
