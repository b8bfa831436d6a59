package command

import (
	"strconv"
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/meter"
	"lockd/keyspace/settings"
	"lockd/keyspace/state"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

var serverRows = []row{
	withHelp("5.0.0", row{Spec: resp.Spec{
		Name: "config", Arity: -2,
		Group: "server", Since: "2.0.0", Summary: "A container for server configuration commands",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "config|get", Arity: -3, Flags: resp.Admin | resp.NoScript | resp.Loading | resp.Stale,
			Group: "server", Since: "2.0.0", Summary: "Get the values of configuration parameters",
			Syntax: "parameter [parameter ...]",
		}, Parse: ofSub(ofMany(configGet))},
		{Spec: resp.Spec{
			Name: "config|set", Arity: -4,
			Flags: resp.Admin | resp.NoScript | resp.Loading | resp.Stale | resp.MayReplicate,
			Group: "server", Since: "2.0.0", Summary: "Set configuration parameters to the given values",
			Syntax: "parameter value [parameter value ...]", ArgLevel: settings.Later,
		}, Parse: parseConfigSet},
		{Spec: resp.Spec{
			Name: "config|resetstat", Arity: 2,
			Flags: resp.Admin | resp.NoScript | resp.Loading | resp.Stale | resp.MayReplicate,
			Group: "server", Since: "2.0.0", Summary: "Reset the stats returned by INFO",
		}, Parse: ofNothing(configResetStat)},
		{Spec: resp.Spec{
			Name: "config|rewrite", Arity: 2, Flags: resp.Admin | resp.NoScript | resp.Loading | resp.Stale,
			Group: "server", Since: "2.8.0", Summary: "Rewrite the configuration file with the in memory configuration",
		}, Parse: always(resp.OK())},
	}}),
	{Spec: resp.Spec{
		Name: "time", Arity: 1, Flags: resp.Loading | resp.Stale | resp.Fast,
		Group: "server", Since: "2.6.0", Summary: "Return the current server time",
	}, Parse: ofNothing(timeNow)},
	{Spec: resp.Spec{
		Name: "select", Arity: 2, Flags: resp.Loading | resp.Stale | resp.Fast,
		Group: "connection", Since: "1.0.0", Summary: "Change the selected database for the current connection",
		Syntax: "index",
	}, Parse: parseSelect},
	{Spec: resp.Spec{
		Name: "ping", Arity: -1, Flags: resp.Fast,
		Group: "connection", Since: "1.0.0", Summary: "Ping the server",
		Syntax: "[message]",
	}, Parse: parsePing},
	{Spec: resp.Spec{
		Name: "echo", Arity: 2, Flags: resp.Loading | resp.Stale | resp.Fast,
		Group: "connection", Since: "1.0.0", Summary: "Echo the given string",
		Syntax: "message",
	}, Parse: parseEcho},
}

var pubsubRows = []row{
	{Spec: resp.Spec{
		Name: "publish", Arity: 3,
		Flags: resp.PubSub | resp.Loading | resp.Stale | resp.Fast | resp.MayReplicate | resp.CountsReceivers,
		Group: "pubsub", Since: "2.0.0", Summary: "Post a message to a channel",
		Syntax: "channel message",
	}, Parse: parsePublish(resp.MessageChannel)},
	{Spec: resp.Spec{
		Name: "spublish", Arity: 3,
		Flags: resp.PubSub | resp.Loading | resp.Stale | resp.Fast | resp.MayReplicate | resp.CountsReceivers,
		Keys:  resp.FirstKey,
		Group: "pubsub", Since: "7.0.0", Summary: "Post a message to a shard channel",
		Syntax: "shardchannel message",
	}, Parse: parsePublish(resp.MessageShard)},
}

// configGet answers the parameters that match any of the patterns, each once,
// also under their older names. One asked for by its name is called as it was asked.
func configGet(c *Ctx, patterns []string) resp.Reply {
	globs := make([]*arg.Glob, len(patterns))
	for i, p := range patterns {
		c.s.Meter.Spend(value.NumeralWork * int64(len(p)))
		globs[i] = arg.NewGlob(strings.ToLower(p))
	}
	found := []resp.Reply{}
	for i := range settings.Parameters {
		p := &settings.Parameters[i]
		if p.Level > c.s.Level {
			continue
		}
		for _, name := range []string{p.Name, p.Alias} {
			if !c.s.Meter.Affords(value.VisitWork * int64(len(globs))) {
				return resp.Err(meter.ErrWork)
			}
			if as, ok := askedAs(patterns, globs, name); ok {
				found = append(found, resp.Bulk(as), resp.Bulk(c.s.Settings.Shown(i)))
			}
		}
	}
	for _, g := range globs {
		c.s.Meter.Spend(g.Work())
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

// configSetCall is CONFIG SET. Run judges the parameters: which ones there are follows from the level in force.
type configSetCall struct{ args resp.Args }

func parseConfigSet(args resp.Args) (call, error) {
	if len(args)%2 != 0 {
		return nil, resp.Error(resp.ErrSyntax)
	}
	return &configSetCall{args}, nil
}

func (r *configSetCall) Run(c *Ctx) resp.Reply {
	c.s.Meter.Spend(meter.ConfigWork + value.NumeralWork*int64(bytesOf(r.args)))
	next, err := c.s.Settings.With(c.s.Level, r.args[2:])
	if err != nil {
		return resp.Fail(err)
	}
	configure(c.s, next)
	return resp.OK()
}

// configure replaces the settings and emits what has changed.
func configure(s *state.State, next *settings.Values) {
	was := s.Settings
	s.Settings = next
	for _, change := range next.Changed(was) {
		s.Out.Emit(change)
	}
}

func configResetStat(c *Ctx) resp.Reply {
	c.s.Stats = state.Stats{}
	c.s.Seen.Hits, c.s.Seen.Misses = 0, 0
	return resp.OK()
}

func timeNow(c *Ctx) resp.Reply {
	return resp.Bulks(itoa(c.at.Wall/1_000_000), itoa(c.at.Wall%1_000_000))
}

// selectCall is SELECT. It, PING and ECHO are for scripts: outside of them the session answers. A script's choice ends
// with it.
type selectCall int

func parseSelect(args resp.Args) (call, error) {
	db, err := arg.DatabaseIndex(args[1], store.Databases)
	if err != nil {
		return nil, err
	}
	return selectCall(db), nil
}

func (db selectCall) Run(c *Ctx) resp.Reply {
	if c.run != nil {
		c.run.db = int(db)
	}
	return resp.OK()
}

func parsePing(args resp.Args) (call, error) {
	switch len(args) {
	case 1:
		return fixed(resp.Status("PONG")), nil
	case 2:
		return fixed(resp.Bulk(args[1])), nil
	}
	return nil, wrongArity("ping")
}

func parseEcho(args resp.Args) (call, error) { return fixed(resp.Bulk(args[1])), nil }

// parsePublish makes the parser of PUBLISH or SPUBLISH, which sends a message to the subscribers of every node. The
// session counts the receivers on the node that serves the client; inside a script the answer is always 0, because it
// must be the same on every node.
func parsePublish(kind resp.MessageKind) parser {
	return ofKeyAnd(func(c *Ctx, channel, message string) resp.Reply {
		c.s.Meter.Spend(meter.PublishWork)
		c.Publish(kind, channel, message)
		return resp.Int(0)
	})
}

var memoryRows = []row{
	withHelp("4.0.0", row{Spec: resp.Spec{
		Name: "memory", Arity: -2,
		Group: "server", Since: "4.0.0", Summary: "A container for memory diagnostics commands",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "memory|usage", Arity: -3, Flags: resp.ReadOnly,
			Keys: resp.SubKey, Access: "RO",
			Group: "server", Since: "4.0.0", Summary: "Estimate the memory usage of a key",
			Syntax: "key [SAMPLES count]",
		}, Parse: parseMemoryUsage},
		{Spec: resp.Spec{
			Name: "memory|stats", Arity: 2,
			Group: "server", Since: "4.0.0", Summary: "Show memory usage details",
		}, Parse: ofNothing(memoryStats)},
		{Spec: resp.Spec{
			Name: "memory|purge", Arity: 2,
			Group: "server", Since: "4.0.0", Summary: "Ask the allocator to release memory",
		}, Parse: always(resp.OK())},
		{Spec: resp.Spec{
			Name: "memory|malloc-stats", Arity: 2,
			Group: "server", Since: "4.0.0", Summary: "Show allocator internal stats",
		}, Parse: always(resp.Verbatim(aboutMemory))},
	}}),
}

// parseMemoryUsage checks SAMPLES, which has no effect: memoryUsage does not look at elements.
func parseMemoryUsage(args resp.Args) (call, error) {
	if rest := args[3:]; len(rest) > 0 {
		if len(rest) != 2 || !resp.Is(rest[0], "SAMPLES") {
			return nil, resp.Error(resp.ErrSyntax)
		}
		n, ok := resp.ParseInt(rest[1])
		if !ok {
			return nil, resp.Error(resp.ErrNotInteger)
		}
		if n < 0 {
			return nil, resp.Error(resp.ErrSyntax)
		}
	}
	return &keyCall{args[2], memoryUsage}, nil
}

// memoryUsage answers the estimate that maxmemory is compared with.
func memoryUsage(c *Ctx, key string) resp.Reply {
	e := c.Lookup(key)
	if e == nil {
		return resp.Nil()
	}
	return resp.Int(e.Size())
}

const aboutMemory = "lockd keeps an estimate of the memory that data take, the same on every node. " +
	"It does not look into its allocator.\n"

// memoryStats answers what the state knows about itself, the same on every node;
// INFO memory shows what the process of a node takes.
func memoryStats(c *Ctx) resp.Reply {
	s := c.s
	var keys, data int64
	elems := []resp.Reply{}
	add := func(name string, value resp.Reply) { elems = append(elems, resp.Bulk(name), value) }
	add("total.allocated", resp.Int(s.UsedBytes()))
	add("startup.allocated", resp.Int(0))
	add("lua.caches", resp.Int(s.Library.Bytes()))
	add("functions.caches", resp.Int(0))
	for i, d := range s.Keys.DBs {
		if n := d.Keys.Len(); n > 0 {
			keys += int64(n)
			data += d.Bytes
			add("db."+strconv.Itoa(i), resp.Map(
				resp.Bulk("overhead.hashtable.main"), resp.Int(0),
				resp.Bulk("overhead.hashtable.expires"), resp.Int(0),
				resp.Bulk("overhead.hashtable.slot-to-keys"), resp.Int(0)))
		}
	}
	add("overhead.total", resp.Int(s.UsedBytes()-data))
	add("keys.count", resp.Int(keys))
	add("keys.bytes-per-key", resp.Int(data/max(keys, 1)))
	add("dataset.bytes", resp.Int(data))
	add("dataset.percentage", resp.Double(100*float64(data)/float64(max(s.UsedBytes(), 1))))
	return resp.Map(elems...)
}
