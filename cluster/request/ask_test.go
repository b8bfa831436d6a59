package request

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
)

// member is how another member answers the question for its term: after a while, with a term or an error; 0: not at all.
type member struct {
	after time.Duration
	term  uint64
	err   error
}

// The term is confirmed when enough of the others have answered with it. At first just enough are asked, those that
// answered last time; the rest follows when one of them says no, or nothing for HedgeAfter.
func TestAsk(t *testing.T) {
	const ms = time.Millisecond
	failed := errors.New("down")
	for name, c := range map[string]struct {
		members []member
		enough  int
		want    bool
		took    time.Duration
		asked   int
	}{
		"at once":                {[]member{{1, 5, nil}, {1, 5, nil}}, 1, true, 1, 1},
		"both are needed":        {[]member{{1, 5, nil}, {2, 5, nil}}, 2, true, 2, 2},
		"two of four":            {[]member{{1, 5, nil}, {2, 5, nil}, {1, 5, nil}, {1, 5, nil}}, 2, true, 2, 2},
		"one says no":            {[]member{{1, 6, nil}, {1, 5, nil}}, 1, true, 2, 2},
		"a lower term is a no":   {[]member{{1, 4, nil}, {1, 5, nil}}, 1, true, 2, 2},
		"one fails":              {[]member{{1, 5, failed}, {1, 5, nil}}, 1, true, 2, 2},
		"one says nothing":       {[]member{{}, {1, 5, nil}}, 1, true, HedgeAfter + 1, 2},
		"one is slow, and wins":  {[]member{{HedgeAfter + 1, 5, nil}, {}}, 1, true, HedgeAfter + 1, 2},
		"all say no":             {[]member{{1, 6, nil}, {1, 6, nil}}, 1, false, 2, 2},
		"too many say no":        {[]member{{1, 6, nil}, {1, 5, nil}, {1, 6, nil}, {3, 6, nil}}, 2, false, 4, 4},
		"one of two that must":   {[]member{{1, 5, nil}, {1, 6, nil}}, 2, false, 1, 2},
		"nobody says anything":   {[]member{{}, {}}, 1, false, time.Second, 2},
		"the last one is enough": {[]member{{1, 6, nil}, {1, 6, nil}, {1, 6, nil}, {2, 5, nil}}, 1, true, 3, 4},
		"with a second of two":   {[]member{{1, 6, nil}, {5, 5, nil}, {2, 5, nil}, {9 * ms, 5, nil}}, 2, true, 5, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newReader(&Config{Heartbeat: time.Second, Gone: func(string) bool { return false }}, nil)
			var servers []raft.Server
			for i := range c.members {
				servers = append(servers, raft.Server{ID: raft.ServerID(rune('a' + i))})
			}
			asked := make(chan raft.ServerID, 10)
			r.status = func(ctx context.Context, of raft.Server) (peer.Status, error) {
				asked <- of.ID
				m := c.members[of.ID[0]-'a']
				if m.after == 0 {
					<-ctx.Done()
					return peer.Status{}, ctx.Err()
				}
				select {
				case <-time.After(m.after):
					return peer.Status{Term: m.term}, m.err
				case <-ctx.Done():
					return peer.Status{}, ctx.Err()
				}
			}
			began := time.Now()
			is := r.ask(5, servers, c.enough)
			if took := time.Since(began); is != c.want || took != c.took || len(asked) != c.asked {
				t.Errorf("%s: %v after %v, %d are asked", name, is, took, len(asked))
			}
			began = time.Now()
			if synctest.Wait(); time.Since(began) != 0 {
				t.Errorf("%s: a question outlives the answer", name)
			}
		})
	}
}

// Who has answered is asked first the next time.
func TestAskAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(&Config{Heartbeat: time.Second, Gone: func(string) bool { return false }}, nil)
		var asked []raft.ServerID
		r.status = func(_ context.Context, of raft.Server) (peer.Status, error) {
			asked = append(asked, of.ID)
			return peer.Status{Term: map[raft.ServerID]uint64{"a": 4, "b": 5}[of.ID]}, nil
		}
		for _, want := range [][]raft.ServerID{{"a", "b"}, {"b"}} {
			asked = nil
			if !r.ask(5, []raft.Server{{ID: "a"}, {ID: "b"}}, 1) || !slices.Equal(asked, want) {
				t.Errorf("%v are asked, not %v", asked, want)
			}
		}
	})
}

// Leading is confirmed by a majority of the voters, of which this node is one.
func TestConfirm(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		lead := n.leads(1)
		var asked atomic.Int64 // by goroutines of one question
		answers := map[raft.ServerID]uint64{}
		n.Reader.status = func(_ context.Context, of raft.Server) (peer.Status, error) {
			asked.Add(1)
			return peer.Status{Term: answers[of.ID]}, nil
		}
		term := lead.Term
		for i, c := range []struct {
			voters string // besides n1
			yes    string
			want   bool
			asked  int64
		}{
			{"", "", true, 0}, {"b", "b", true, 1}, {"b", "", false, 1}, {"bc", "b", true, 1}, {"bc", "c", true, 2}, {"bc", "", false, 2},
			{"bcd", "bc", true, 2}, {"bcd", "b", false, 3}, {"bcde", "bc", true, 2}, {"bcde", "b", false, 4},
		} {
			answers = map[raft.ServerID]uint64{}
			asked.Store(0)
			servers := []raft.Server{{ID: "n1"}}
			for _, id := range c.voters {
				servers = append(servers, raft.Server{ID: raft.ServerID(id)})
			}
			for _, id := range c.yes {
				answers[raft.ServerID(id)] = term
			}
			n.Reader.responders = responders{gone: n.Gone}
			if is := n.Reader.confirmedBy(servers, term); is != c.want || c.want && asked.Load() != c.asked {
				t.Errorf("case %d: %v, %d are asked", i, is, asked.Load())
			}
			synctest.Wait()
		}
	})
}

// A node that leads, and whose voters do not say so, has not been confirmed.
func TestConfirmNeedsOthers(t *testing.T) {
	withNode(t, func(t *testing.T, n *oneNode) {
		lead := n.leads(1)
		n.Reader.status = func(context.Context, raft.Server) (peer.Status, error) { return peer.Status{}, errors.New("down") }
		n.Raft.AddVoter("n2", "nowhere", 0, 0)
		if synctest.Wait(); len(n.Raft.Voters()) != 2 || n.Raft.State() != raft.Leader {
			t.Fatal("this node does not lead two voters")
		}
		if n.Reader.Confirm(lead) {
			t.Error("confirmed by one of two voters")
		}
	})
}
