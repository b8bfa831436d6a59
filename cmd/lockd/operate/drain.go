package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"lockd/cmd/lockd/show"
	"lockd/internal/client"
	"lockd/internal/locks"
	"lockd/resp"
)

// drainPollEvery is the interval at which drain checks whether the others can do without the node.
const drainPollEvery = 200 * time.Millisecond

// Drain makes one node ready to be taken away for a while.
type Drain struct {
	Node *client.Cluster // the node alone

	id   string // id of the node, by its own account
	led  bool   // it has been asked to hand over its leadership
	mark int64  // index that the others must have applied: the last one when the node was first seen as a follower
}

// Run waits until the others can do without the node. It prints a sentence: what the others are then, or why the node has
// to stay; done tells which.
func (d *Drain) Run(ctx context.Context, wait time.Duration, stdout io.Writer) (done bool, err error) {
	end := time.Now().Add(wait)
	for {
		v := d.Poll(ctx)
		if v.Done || v.Hopeless || !v.again && !time.Now().Add(drainPollEvery).Before(end) {
			_, err := fmt.Fprintln(stdout, show.Escape(v.Said))
			return v.Done, err
		}
		select {
		case <-time.After(drainPollEvery):
		case <-ctx.Done():
			return false, errors.New("it was not waited for: " + v.Said)
		}
	}
}

// Verdict is the result of a poll of the members.
type Verdict struct {
	Said     string
	Done     bool // the node can be taken away
	Hopeless bool // and never will be, however long one waits
	again    bool // it has just handed over: there is more to see, even if nothing is waited for
}

// Poll asks the node for the members once, and makes it hand over leadership if the others can do without it.
func (d *Drain) Poll(ctx context.Context) Verdict {
	fields, said := InfoOf(ctx, d.Node, "raft")
	switch id := fields.Value("node_id"); {
	case said != "": // at the first poll it is the wrong address or password
		return Verdict{Said: said, Hopeless: d.id == ""}
	case d.id != "" && d.id != id:
		return Verdict{Said: d.Node.Addr() + " is several nodes: " + d.id + " and " + id, Hopeless: true}
	default:
		d.id = id
	}
	r, v := d.ask(ctx, "LOCKD", "MEMBERS")
	if v.Said != "" {
		return v
	}
	members, err := ReadMembers(r)
	if err != nil {
		return Verdict{Said: err.Error(), Hopeless: true}
	}
	rest := restOf(d.id, members)
	if v := d.assess(rest); v.Said != "" || !rest.ledByIt {
		return v
	}
	// By its name: if the leadership has moved meanwhile, that it stays away from this node.
	if r, v := d.ask(ctx, "LOCKD", "TRANSFER", rest.successor); v.Said != "" {
		v.Hopeless = v.Hopeless && resp.Code(r.Str) != resp.CodeGeneric // the leadership stays for now; NOPERM stays for good
		return v
	}
	first := !d.led
	d.led = true
	return Verdict{Said: d.id + " has to stay: it hands over its leadership to " + rest.successor, again: first}
}

// ask asks the node; the Verdict says something if there is no good answer.
func (d *Drain) ask(ctx context.Context, args ...string) (resp.Reply, Verdict) {
	r, err := d.Node.DoIdempotent(ctx, args...)
	switch {
	case err != nil:
		return r, Verdict{Said: d.Node.Addr() + " does not answer: " + err.Error()}
	case r.IsErr():
		return r, Verdict{Said: d.Node.Addr() + " refuses: " + r.Str, Hopeless: true}
	}
	return r, Verdict{}
}

// rest is a cluster without one of its nodes.
type rest struct {
	voters    int // of the whole cluster
	votes     bool
	ledByIt   bool
	leader    string         // "" if no node leads
	successor string         // the other voter that has applied the most
	up        []locks.Member // the other voters that answer
	down      []string       // and those that do not
	newest    int64          // what any has applied
}

func restOf(id string, members []locks.Member) rest {
	var r rest
	most := int64(-1)
	for _, m := range members {
		r.newest = max(r.newest, m.Applied)
		if m.Role == RoleLeader {
			r.leader, r.ledByIt = m.ID, m.ID == id
		}
		if m.Suffrage != SuffrageVoter {
			continue
		}
		r.voters++
		switch {
		case m.ID == id:
			r.votes = true
		case m.State != StateUp:
			r.down = append(r.down, m.ID)
		default:
			r.up = append(r.up, m)
			if m.Applied > most {
				r.successor, most = m.ID, m.Applied
			}
		}
	}
	return r
}

// assess says whether the others can do without the node. It says nothing of a leader that has to hand over.
func (d *Drain) assess(r rest) Verdict {
	majority := r.voters/2 + 1
	if !r.ledByIt && d.mark == 0 {
		d.mark = r.newest
	}
	var have, behind []string
	for _, m := range r.up {
		if m.Applied >= d.mark {
			have = append(have, m.ID)
		} else {
			behind = append(behind, m.ID)
		}
	}
	stays := d.id + " has to stay: "
	switch {
	case r.votes && r.voters == 1:
		return Verdict{Said: stays + "it is the only voter: add others first", Hopeless: true}
	case r.votes && len(r.up)+len(r.down) < majority:
		return Verdict{Said: stays + fmt.Sprintf("of %d voters %d must be up: add others first", r.voters, majority),
			Hopeless: true}
	case r.votes && len(r.up) < majority:
		return Verdict{Said: stays + "the majority would be lost without it: not up: " + strings.Join(r.down, ", ")}
	case r.ledByIt:
		return Verdict{}
	case r.leader == "":
		return Verdict{Said: stays + "nobody leads"}
	case r.votes && len(have) < majority:
		return Verdict{Said: stays + "the others have not caught up: " + strings.Join(behind, ", ")}
	}
	return Verdict{Said: d.farewell(r, have, append(r.down, behind...)), Done: true}
}

// farewell is the sentence for a node that can be taken away.
func (d *Drain) farewell(r rest, have, lacking []string) string {
	said := d.id + " can be taken away: "
	if d.led {
		said += "it has handed over its leadership, "
	}
	said += fmt.Sprintf("%s leads, and of %d voters %s have caught up", r.leader, r.voters, strings.Join(have, ", "))
	if len(lacking) > 0 {
		said += "; no other may fail meanwhile, as " + strings.Join(lacking, ", ") + " already has"
	}
	return said
}
