package cluster

import (
	"context"

	"lockd/cluster/peer"
	"lockd/resp"
)

// nodeCommand runs a row of the node table. One of its functions is nil.
type nodeCommand struct {
	here     func(context.Context, *Node, resp.Args) resp.Reply
	onLeader func(context.Context, *Node, resp.Args) (peer.Outcome, resp.Reply) // runs on the leader, perhaps twice
}

// settled returns the outcome of a command whose reply is r.
func settled(r resp.Reply) (peer.Outcome, resp.Reply) { return peer.Done, r }

// row returns a row of a table from its parts, in the order of Spec.
func row(
	name string, arity int, flags resp.Flags, group, since, summary, syntax string, run nodeCommand,
) resp.Row[nodeCommand] {
	return resp.Row[nodeCommand]{
		Spec: resp.Spec{
			Name: name, Arity: arity, Flags: flags, Group: group, Since: since, Summary: summary, Syntax: syntax,
		},
		Run: run,
	}
}

func here(run func(context.Context, *Node, resp.Args) resp.Reply) nodeCommand {
	return nodeCommand{here: run}
}

func onLeader(run func(context.Context, *Node, resp.Args) (peer.Outcome, resp.Reply)) nodeCommand {
	return nodeCommand{onLeader: run}
}

// always answers with the same reply.
func always(r resp.Reply) nodeCommand {
	return here(func(context.Context, *Node, resp.Args) resp.Reply { return r })
}

// protocol tells clients whether they speak to a Redis server or to a Redis Cluster.
type protocol struct {
	rows    *resp.Table[nodeCommand]
	enabled string // cluster_enabled of INFO
	notDone string // the error after which clients send a command again
}

// commands knows all that clients may send to this node: commands about the node or the cluster, and the
// machine's. All methods may be called concurrently.
type commands struct {
	*protocol
	data interface { // the machine's
		Find(args resp.Args) (*resp.Spec, resp.Reply)
		Check(cmd resp.Cmd) (fail resp.Reply, wrong bool)
		Specs() []*resp.Spec
	}
	members *members // for the level in force
}

// Identify looks up the row of each command that has none yet: the request was made here, or it
// comes from another node. An unknown command keeps a nil Spec. A command of the node's own table
// that is called wrongly gets the Spec of its name.
func (k *commands) Identify(cmds []resp.Cmd) {
	for i := range cmds {
		c := &cmds[i]
		if c.Spec != nil {
			continue
		}
		if row, _ := k.rows.Find(c.Args); row != nil {
			c.Spec = &row.Spec
		} else if c.Spec = k.rows.Lookup(c.Args[0]); c.Spec == nil {
			c.Spec, _ = k.data.Find(c.Args)
		}
	}
}

// own returns the row of a command about the node; nil for a command on data.
func (k *commands) own(c *resp.Cmd) *resp.Row[nodeCommand] { return k.rows.Row(c.Spec) }

// wrong returns the answers to those commands of a client's request whose arguments are wrong whatever the state is;
// nil: there are none. Such a command is neither logged nor sent to another node. The commands of a MULTI are left to the
// machine, which answers each in its place.
func (k *commands) wrong(req resp.Request) (fails map[int]resp.Reply) {
	if req.Multi {
		return nil
	}
	for i := range req.Cmds {
		fail, wrong := k.check(&req.Cmds[i])
		if !wrong {
			continue
		}
		if fails == nil {
			fails = map[int]resp.Reply{}
		}
		fails[i] = fail
	}
	return fails
}

// check calls Machine.Check for a command of the machine.
func (k *commands) check(c *resp.Cmd) (fail resp.Reply, wrong bool) {
	if c.Spec == nil || k.own(c) != nil {
		return resp.Reply{}, false
	}
	return k.data.Check(*c)
}

// Fits returns the error of the first command that the machine does not know, that has a wrong number of arguments, or
// that belongs to a later level. The log must not hold such a command: a node that finds one there can only stop. Fits
// sets the Spec of each command.
func (k *commands) Fits(req resp.Request) error {
	for i := range req.Cmds {
		c := &req.Cmds[i]
		if c.Spec == nil || k.own(c) != nil { // otherwise it was found and checked when it came
			spec, fail := k.data.Find(c.Args)
			if spec == nil {
				return resp.Error(fail.Str)
			}
			c.Spec = spec
		}
	}
	return k.early(req)
}

// early returns the error of the first command that comes with a later level than the one in force.
func (k *commands) early(req resp.Request) error {
	level := k.members.level()
	for i := range req.Cmds {
		if s := req.Cmds[i].Spec; s != nil && s.Level > level {
			return k.comesWith(s.Name, s.Level)
		}
	}
	return nil
}

// earlyAsked is early for a client, who is told of a setting that comes later, too. In the log, where nodes of the
// release before may write it, it is a name that nobody knows.
func (k *commands) earlyAsked(req resp.Request) error {
	level := k.members.level()
	for i := range req.Cmds {
		c := &req.Cmds[i]
		if c.Spec == nil || c.Spec.ArgLevel == nil {
			continue
		}
		if name, since := c.Spec.ArgLevel(c.Args); since > level {
			return k.comesWith(name, since)
		}
	}
	return k.early(req)
}

func (k *commands) comesWith(name string, since int) error {
	level := k.members.level()
	return resp.Errorf("ERR '%s' comes with level %d of the cluster, and level %d is in force: %s; nothing was "+
		"executed (see LOCKD LEVEL)", name, since, level, k.members.whyNot(level+1))
}

// IsOwn reports whether a request is a command about the node, which is then its only one.
func (k *commands) IsOwn(cmds []resp.Cmd) bool {
	return len(cmds) > 0 && k.own(&cmds[0]) != nil
}
