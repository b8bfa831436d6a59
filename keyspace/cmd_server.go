package keyspace

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/resp"
)

var serverRows = []resp.Row[command]{
	resp.WithHelp("5.0.0", always, resp.Row[command]{Spec: resp.Spec{
		Name: "config", Arity: -2,
		Group: "server", Since: "2.0.0", Summary: "A container for server configuration commands",
	}, Subs: []resp.Row[command]{
		{Spec: resp.Spec{
			Name: "config|get", Arity: -3, Flags: resp.Admin | resp.NoScript | resp.Loading | resp.Stale,
			Group: "server", Since: "2.0.0", Summary: "Get the values of configuration parameters",
			Syntax: "parameter [parameter ...]",
		}, Run: cmdConfigGet},
		{Spec: resp.Spec{
			Name: "config|set", Arity: -4,
			Flags: resp.Admin | resp.NoScript | resp.Loading | resp.Stale | resp.MayReplicate,
			Group: "server", Since: "2.0.0", Summary: "Set configuration parameters to the given values",
			Syntax: "parameter value [parameter value ...]", ArgLevel: laterParameter,
		}, Run: cmdConfigSet},
		{Spec: resp.Spec{
			Name: "config|resetstat", Arity: 2,
			Flags: resp.Admin | resp.NoScript | resp.Loading | resp.Stale | resp.MayReplicate,
			Group: "server", Since: "2.0.0", Summary: "Reset the stats returned by INFO",
		}, Run: cmdConfigResetStat},
		{Spec: resp.Spec{
			Name: "config|rewrite", Arity: 2, Flags: resp.Admin | resp.NoScript | resp.Loading | resp.Stale,
			Group: "server", Since: "2.8.0", Summary: "Rewrite the configuration file with the in memory configuration",
		}, Run: cmdConfigRewrite},
	}}),
	{Spec: resp.Spec{
		Name: "time", Arity: 1, Flags: resp.Loading | resp.Stale | resp.Fast,
		Group: "server", Since: "2.6.0", Summary: "Return the current server time",
	}, Run: cmdTime},
	{Spec: resp.Spec{
		Name: "select", Arity: 2, Flags: resp.Loading | resp.Stale | resp.Fast,
		Group: "connection", Since: "1.0.0", Summary: "Change the selected database for the current connection",
		Syntax: "index",
	}, Run: cmdSelect},
	{Spec: resp.Spec{
		Name: "ping", Arity: -1, Flags: resp.Fast,
		Group: "connection", Since: "1.0.0", Summary: "Ping the server",
		Syntax: "[message]",
	}, Run: cmdPing},
	{Spec: resp.Spec{
		Name: "echo", Arity: 2, Flags: resp.Loading | resp.Stale | resp.Fast,
		Group: "connection", Since: "1.0.0", Summary: "Echo the given string",
		Syntax: "message",
	}, Run: cmdEcho},
}

var pubsubRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "publish", Arity: 3,
		Flags: resp.PubSub | resp.Loading | resp.Stale | resp.Fast | resp.MayReplicate | resp.CountsReceivers,
		Group: "pubsub", Since: "2.0.0", Summary: "Post a message to a channel",
		Syntax: "channel message",
	}, Run: cmdPublish},
	{Spec: resp.Spec{
		Name: "spublish", Arity: 3,
		Flags: resp.PubSub | resp.Loading | resp.Stale | resp.Fast | resp.MayReplicate | resp.CountsReceivers,
		Keys:  resp.FirstKey,
		Group: "pubsub", Since: "7.0.0", Summary: "Post a message to a shard channel",
		Syntax: "shardchannel message",
	}, Run: cmdSpublish},
}

// cmdConfigGet answers the parameters that match any of the patterns, each once,
// also under their older names. One asked for by its name is called as it was asked.
func cmdConfigGet(c *ctx, args resp.Args) resp.Reply {
	globs := make([]*arg.Glob, len(args)-2)
	for i, p := range args[2:] {
		c.m.spend(value.NumeralWork * int64(len(p)))
		globs[i] = arg.NewGlob(strings.ToLower(p))
	}
	found := []resp.Reply{}
	for i := range parameters {
		if parameters[i].level > c.m.level {
			continue
		}
		for _, name := range []string{parameters[i].name, parameters[i].alias} {
			if !c.m.affords(value.VisitWork * int64(len(globs))) {
				return resp.Err(errWorkMeter)
			}
			if as, ok := askedAs(args[2:], globs, name); ok {
				found = append(found, resp.Bulk(as), resp.Bulk(c.m.settings.shown(i)))
			}
		}
	}
	for _, g := range globs {
		c.m.spend(g.Work())
	}
	return resp.Map(found...)
}

// askedAs finds a parameter among what CONFIG GET was asked for, and the name that
// the answer gives it: a name without signs is repeated as it was written.
func askedAs(patterns []string, globs []*arg.Glob, name string) (as string, ok bool) {
	if name == "" {
		return "", false
	}
	for i, p := range patterns {
		if resp.Is(p, name) {
			return p, true
		}
		if globs[i].Matches(name) {
			return name, true
		}
	}
	return "", false
}

func cmdConfigSet(c *ctx, args resp.Args) resp.Reply {
	if len(args)%2 != 0 {
		return resp.Err(resp.ErrSyntax)
	}
	bytes := 0
	for _, a := range args {
		bytes += len(a)
	}
	c.m.spend(configWork + value.NumeralWork*int64(bytes))
	next, err := c.m.settings.with(c.m.level, args[2:])
	if err != nil {
		return resp.Fail(err)
	}
	c.m.configure(next)
	return resp.OK()
}

// configure replaces the settings and tells every node what has changed.
func (m *Machine) configure(next *settings) {
	was := m.settings
	m.settings = next
	for i := range parameters {
		if next.values[i] != was.values[i] {
			m.emit(next.message(i))
		}
	}
}

func cmdConfigResetStat(c *ctx, _ resp.Args) resp.Reply {
	c.m.stats = stats{}
	return resp.OK()
}

// cmdConfigRewrite has nothing to write: settings are in the log.
func cmdConfigRewrite(_ *ctx, _ resp.Args) resp.Reply { return resp.OK() }

func cmdTime(c *ctx, _ resp.Args) resp.Reply {
	return resp.Bulks(itoa(c.at.Wall/1_000_000), itoa(c.at.Wall%1_000_000))
}

// cmdSelect, cmdPing and cmdEcho are for scripts: outside of them the session
// answers. A script's choice ends with it.
func cmdSelect(c *ctx, args resp.Args) resp.Reply {
	db, err := arg.DatabaseIndex(args[1], databases)
	if err != nil {
		return resp.Fail(err)
	}
	if c.run != nil {
		c.run.db = db
	}
	return resp.OK()
}

func cmdPing(_ *ctx, args resp.Args) resp.Reply {
	switch len(args) {
	case 1:
		return resp.Status("PONG")
	case 2:
		return resp.Bulk(args[1])
	}
	return resp.WrongArity("ping")
}

func cmdEcho(_ *ctx, args resp.Args) resp.Reply { return resp.Bulk(args[1]) }

// cmdPublish sends a message to the subscribers of every node. Its receivers are
// counted by the session, on the node that serves the client; inside a script the
// answer is always 0, because it must be the same on every node.
func cmdPublish(c *ctx, args resp.Args) resp.Reply {
	c.m.spend(publishWork)
	c.publish(resp.MessageChannel, args[1], args[2])
	return resp.Int(0)
}

func cmdSpublish(c *ctx, args resp.Args) resp.Reply {
	c.m.spend(publishWork)
	c.publish(resp.MessageShard, args[1], args[2])
	return resp.Int(0)
}
