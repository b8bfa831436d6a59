package keyspace

import (
	"fmt"
	"strconv"
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/history"
	"lockd/keyspace/meter"
	"lockd/keyspace/settings"
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
func configGet(c *ctx, patterns []string) resp.Reply {
	globs := make([]*arg.Glob, len(patterns))
	for i, p := range patterns {
		c.m.meter.Spend(value.NumeralWork * int64(len(p)))
		globs[i] = arg.NewGlob(strings.ToLower(p))
	}
	found := []resp.Reply{}
	for i := range settings.Parameters {
		p := &settings.Parameters[i]
		if p.Level > c.m.level {
			continue
		}
		for _, name := range []string{p.Name, p.Alias} {
			if !c.m.meter.Affords(value.VisitWork * int64(len(globs))) {
				return resp.Err(meter.ErrWork)
			}
			if as, ok := askedAs(patterns, globs, name); ok {
				found = append(found, resp.Bulk(as), resp.Bulk(c.m.settings.Shown(i)))
			}
		}
	}
	for _, g := range globs {
		c.m.meter.Spend(g.Work())
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

func (r *configSetCall) Run(c *ctx) resp.Reply {
	c.m.meter.Spend(meter.ConfigWork + value.NumeralWork*int64(bytesOf(r.args)))
	next, err := c.m.settings.With(c.m.level, r.args[2:])
	if err != nil {
		return resp.Fail(err)
	}
	configure(c.m, next)
	return resp.OK()
}

// FullDisks returns the nodes whose disks keep the state from growing, and the error by which commands that are over
// maxmemory are refused meanwhile.
func (m *Machine) FullDisks() (nodes, refusal string) { return m.settings.FullDisks, m.settings.NoRoom }

// NameFullDisks returns the request by which a leader writes into a setting whose disks keep the state from growing.
func (m *Machine) NameFullDisks(nodes string) resp.Request {
	return resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"CONFIG", "SET", settings.NameFullDisks, nodes}}}}
}

// Settings lists every replicated setting as a MessageConfig, and the users.
func (m *Machine) Settings() []resp.Message {
	users := resp.Message{Kind: resp.MessageUsers, Payload: m.users.Text(), Index: m.usersRev}
	return append(m.settings.Messages(), users)
}

// configure replaces the settings and emits what has changed.
func configure(m *Machine, next *settings.Values) {
	was := m.settings
	m.settings = next
	for _, change := range next.Changed(was) {
		m.out.Emit(change)
	}
}

func configResetStat(c *ctx) resp.Reply {
	c.m.stats = stats{}
	c.m.seen.hits, c.m.seen.misses = 0, 0
	return resp.OK()
}

func timeNow(c *ctx) resp.Reply {
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

func (db selectCall) Run(c *ctx) resp.Reply {
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
	return ofKeyAnd(func(c *ctx, channel, message string) resp.Reply {
		c.m.meter.Spend(meter.PublishWork)
		c.publish(kind, channel, message)
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
func memoryUsage(c *ctx, key string) resp.Reply {
	e := c.lookup(key)
	if e == nil {
		return resp.Nil()
	}
	return resp.Int(e.Size())
}

const aboutMemory = "lockd keeps an estimate of the memory that data take, the same on every node. " +
	"It does not look into its allocator.\n"

// memoryStats answers what the state knows about itself, the same on every node;
// INFO memory shows what the process of a node takes.
func memoryStats(c *ctx) resp.Reply {
	m := c.m
	var keys, data int64
	elems := []resp.Reply{}
	add := func(name string, value resp.Reply) { elems = append(elems, resp.Bulk(name), value) }
	add("total.allocated", resp.Int(m.usedBytes()))
	add("startup.allocated", resp.Int(0))
	add("lua.caches", resp.Int(m.library.Bytes()))
	add("functions.caches", resp.Int(0))
	for i, d := range m.keys.DBs {
		if n := d.Keys.Len(); n > 0 {
			keys += int64(n)
			data += d.Bytes
			add("db."+strconv.Itoa(i), resp.Map(
				resp.Bulk("overhead.hashtable.main"), resp.Int(0),
				resp.Bulk("overhead.hashtable.expires"), resp.Int(0),
				resp.Bulk("overhead.hashtable.slot-to-keys"), resp.Int(0)))
		}
	}
	add("overhead.total", resp.Int(m.usedBytes()-data))
	add("keys.count", resp.Int(keys))
	add("keys.bytes-per-key", resp.Int(data/max(keys, 1)))
	add("dataset.bytes", resp.Int(data))
	add("dataset.percentage", resp.Double(100*float64(data)/float64(max(m.usedBytes(), 1))))
	return resp.Map(elems...)
}

// Info reports the machine's sections of INFO, and its part of Stats.
func (m *Machine) Info() []resp.Section {
	return []resp.Section{infoMemory(m), infoStats(m), infoKeyspace(&m.keys, m.tick)}
}

// infoMemory reports the estimate that maxmemory is compared with. used_memory itself
// comes first: some tools take the first name that begins so.
func infoMemory(m *Machine) resp.Section {
	used, most, peak := m.usedBytes(), m.settings.MaxMemoryBytes, max(m.seen.peakBytes, m.usedBytes())
	scripts, functions := m.library.Bytes(), m.functions.Bytes()
	s := resp.Section{Name: "Memory"}
	add := func(name, value string) { s.Fields = append(s.Fields, resp.Field{Name: name, Value: value}) }
	bytes := func(name string, n int64) {
		add(name, itoa(n))
		add(name+"_human", humanBytes(n))
	}
	bytes("used_memory", used)
	bytes("used_memory_peak", peak)
	add("used_memory_peak_perc", percent(used, peak))
	add("used_memory_overhead", itoa(scripts+functions))
	add("used_memory_startup", "0")
	add("used_memory_dataset", itoa(used-scripts-functions))
	add("used_memory_dataset_perc", percent(used-scripts-functions, used))
	bytes("used_memory_lua", scripts+functions)
	bytes("used_memory_scripts", scripts+functions)
	add("used_memory_scripts_eval", itoa(scripts))
	add("used_memory_functions", itoa(functions))
	add("number_of_cached_scripts", itoa(int64(m.library.Len())))
	add("number_of_functions", itoa(int64(m.functions.Len())))
	add("number_of_libraries", itoa(int64(m.functions.Libraries())))
	bytes("maxmemory", most)
	add("maxmemory_policy", "noeviction")
	return s
}

func percent(part, whole int64) string {
	return fmt.Sprintf("%.2f%%", 100*float64(part)/float64(max(whole, 1)))
}

func infoStats(m *Machine) resp.Section {
	return resp.Section{Name: "Stats", Fields: []resp.Field{
		{Name: "expired_keys", Value: itoa(m.stats.expiredKeys)},
		{Name: "expired_stale_perc", Value: "0.00"},
		{Name: "expired_time_cap_reached_count", Value: "0"},
		{Name: "evicted_keys", Value: "0"},
		{Name: "keyspace_hits", Value: itoa(m.seen.hits)},
		{Name: "keyspace_misses", Value: itoa(m.seen.misses)},
		{Name: "lockd_gifts_forgotten", Value: itoa(m.waits.Gifts.Forgotten)},
	}}
}

func infoKeyspace(keys *store.Store, tick int64) resp.Section {
	s := resp.Section{Name: "Keyspace"}
	for i, d := range keys.DBs {
		if d.Keys.Len() > 0 {
			s.Fields = append(s.Fields, resp.Field{
				Name:  fmt.Sprintf("db%d", i),
				Value: fmt.Sprintf("keys=%d,expires=%d,avg_ttl=%d", d.Keys.Len(), d.Leases.Len(), d.AverageTTL(tick)),
			})
		}
	}
	return s
}

// Metrics returns figures of the state, and of what this node has applied since it was started.
func (m *Machine) Metrics() []resp.Metric {
	keys, leases, locks := 0, 0, 0
	for _, d := range m.keys.DBs {
		keys, leases, locks = keys+d.Keys.Len(), leases+d.Leases.Len(), locks+d.Locks
	}
	events := resp.Metric{
		Name: "lockd_lock_events_total", Kind: resp.Counter, Labels: []string{"event"},
		Help: "What has become of locks, in the words of LOCKS HISTORY, since this node was started.",
	}
	for kind := history.Granted; kind < history.Kinds; kind++ {
		events.Add(float64(m.seen.events[kind]), kind.String())
	}
	return []resp.Metric{
		resp.GaugeOf("lockd_keys", "Keys in all databases.", keys),
		resp.GaugeOf("lockd_leases", "Keys that have a lease.", leases),
		resp.GaugeOf("lockd_locks_held", "Locks that are held.", locks),
		resp.GaugeOf("lockd_lock_waiters", "Clients of all nodes that wait in line for a lock.", m.waits.Line().Len()),
		resp.GaugeOf("lockd_blocked_commands", "Commands of clients of all nodes that wait, those for locks included.",
			m.waits.Len()),
		resp.CounterOf("lockd_gifts_forgotten_total", "What waiting clients were given, and was forgotten before it was "+
			"known to be delivered, as it was too much or too old, since this node was started.", m.waits.Gifts.Forgotten),
		events,
		resp.GaugeOf("lockd_last_fence", "The highest fence that was given. It never falls.", m.keys.LastFence),
		resp.CounterOf("lockd_expired_keys_total", "Keys whose lease has ended, in the life of the cluster.",
			m.stats.expiredKeys),
		resp.CounterOf("lockd_key_hits_total", "Keys that reads on this node have found.", m.seen.hits),
		resp.CounterOf("lockd_key_misses_total", "Keys that reads on this node have not found.", m.seen.misses),
		resp.GaugeOf("lockd_memory_used_bytes", "What the data take, as maxmemory counts it.", m.usedBytes()),
		resp.GaugeOf("lockd_memory_max_bytes", "The setting maxmemory; 0: no limit.", m.settings.MaxMemoryBytes),
	}
}

// humanBytes writes a size as INFO's _human fields do.
func humanBytes(n int64) string {
	units := "BKMGTP"
	if n < 1024 {
		return itoa(n) + "B"
	}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	return fmt.Sprintf("%.2f%c", f, units[u])
}
