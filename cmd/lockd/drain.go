package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"lockd/cmd/lockd/show"
	"lockd/internal/client"
	"lockd/internal/locks"
	"lockd/resp"
)

// drainCmd makes one node ready to be taken away for a while.
type drainCmd struct {
	nodeFlags `embed:""`

	Wait time.Duration `default:"30s" help:"How long to wait until the others can do without the node (default: ${default})."`
}

func (c *drainCmd) check() error {
	err := c.nodeFlags.check()
	switch {
	case err != nil:
		return err
	case len(c.Addr) > 1:
		return usagef("--addr names %d nodes: one is drained at a time", len(c.Addr))
	case c.Wait < 0:
		return usagef("--wait %s is negative", c.Wait)
	}
	return nil
}

// drainPollEvery is the interval at which drain checks whether the others can do without the node.
const drainPollEvery = 200 * time.Millisecond

// run prints a sentence: what the others are without the node, or why it has to stay.
func (c *drainCmd) run(ctx context.Context, stdout, _ io.Writer) error {
	d := drain{node: c.client("lockd-drain", c.Addr[0])}
	defer d.node.Close()
	end := time.Now().Add(c.Wait)
	for {
		v := d.poll(ctx)
		if v.done || v.hopeless || !v.again && !time.Now().Add(drainPollEvery).Before(end) {
			if _, err := fmt.Fprintln(stdout, show.Escape(v.said)); err != nil || v.done {
				return err
			}
			return exitError{status: exitFault}
		}
		select {
		case <-time.After(drainPollEvery):
		case <-ctx.Done():
			return exitError{status: exitFault, why: "it was not waited for: " + v.said}
		}
	}
}

// drain is the known state of a node that is being drained.
type drain struct {
	node *client.Cluster
	id   string // id of the node, by its own account
	led  bool   // it has been asked to hand over its leadership
	mark int64  // index that the others must have applied: the last one when the node was first seen as a follower
}

// verdict is the result of a poll of the members.
type verdict struct {
	said     string
	done     bool // the node can be taken away
	hopeless bool // and never will be, however long one waits
	again    bool // it has just handed over: there is more to see, even if nothing is waited for
}

// poll asks the node for the members once, and makes it hand over leadership if the others can do without it.
func (d *drain) poll(ctx context.Context) verdict {
	fields, said := infoOf(ctx, d.node, "raft")
	switch id := fields.value("node_id"); {
	case said != "": // at the first poll it is the wrong address or password
		return verdict{said: said, hopeless: d.id == ""}
	case d.id != "" && d.id != id:
		return verdict{said: d.node.Addr() + " is several nodes: " + d.id + " and " + id, hopeless: true}
	default:
		d.id = id
	}
	r, v := d.ask(ctx, "LOCKD", "MEMBERS")
	if v.said != "" {
		return v
	}
	members, err := readMembers(r)
	if err != nil {
		return verdict{said: err.Error(), hopeless: true}
	}
	rest := restOf(d.id, members)
	if v := d.assess(rest); v.said != "" || !rest.ledByIt {
		return v
	}
	// By its name: if the leadership has moved meanwhile, that it stays away from this node.
	if r, v := d.ask(ctx, "LOCKD", "TRANSFER", rest.successor); v.said != "" {
		v.hopeless = v.hopeless && resp.Code(r.Str) != resp.CodeGeneric // the leadership stays for now; NOPERM stays for good
		return v
	}
	first := !d.led
	d.led = true
	return verdict{said: d.id + " has to stay: it hands over its leadership to " + rest.successor, again: first}
}

// ask asks the node; the verdict says something if there is no good answer.
func (d *drain) ask(ctx context.Context, args ...string) (resp.Reply, verdict) {
	r, err := d.node.DoIdempotent(ctx, args...)
	switch {
	case err != nil:
		return r, verdict{said: d.node.Addr() + " does not answer: " + err.Error()}
	case r.IsErr():
		return r, verdict{said: d.node.Addr() + " refuses: " + r.Str, hopeless: true}
	}
	return r, verdict{}
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
		if m.Role == roleLeader {
			r.leader, r.ledByIt = m.ID, m.ID == id
		}
		if m.Suffrage != suffrageVoter {
			continue
		}
		r.voters++
		switch {
		case m.ID == id:
			r.votes = true
		case m.State != stateUp:
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
func (d *drain) assess(r rest) verdict {
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
		return verdict{said: stays + "it is the only voter: add others first", hopeless: true}
	case r.votes && len(r.up)+len(r.down) < majority:
		return verdict{said: stays + fmt.Sprintf("of %d voters %d must be up: add others first", r.voters, majority),
			hopeless: true}
	case r.votes && len(r.up) < majority:
		return verdict{said: stays + "the majority would be lost without it: not up: " + strings.Join(r.down, ", ")}
	case r.ledByIt:
		return verdict{}
	case r.leader == "":
		return verdict{said: stays + "nobody leads"}
	case r.votes && len(have) < majority:
		return verdict{said: stays + "the others have not caught up: " + strings.Join(behind, ", ")}
	}
	return verdict{said: d.farewell(r, have, append(r.down, behind...)), done: true}
}

// farewell is the sentence for a node that can be taken away.
func (d *drain) farewell(r rest, have, lacking []string) string {
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
