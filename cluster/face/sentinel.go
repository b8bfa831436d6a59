package face

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/resp"
)

// Sentinel answers clients that take this node for a Redis Sentinel: they ask for the leader's address and listen for
// its changes. It has commands of its own, and no data. All methods may be called concurrently.
type Sentinel struct {
	self     string // this node's id
	cfg      SentinelConfig
	topology *Topology
}

// SentinelConfig configures the Redis Sentinel that a node is besides.
type SentinelConfig struct {
	Addr      string                // client address of the sentinel, host:port
	TLS       bool                  // its clients use TLS, and get addresses for TLS
	Master    string                // the name under which clients ask for the leader
	Publisher publisher             // delivers messages to the clients of the sentinel
	Info      func() []resp.Section // further sections of its INFO; may be nil
}

// publisher delivers messages to the sentinel's clients. It never blocks.
type publisher interface {
	Publish(msgs []resp.Message)
}

// sentinelCommand runs a row of the sentinel's table.
type sentinelCommand func(context.Context, *Sentinel, resp.Args) resp.Reply

// sentinelTable holds the commands of a sentinel that are not about the connection.
var sentinelTable = resp.NewTable(sentinelRows)

// Specs lists the rows of all commands that the sentinel knows.
func (s *Sentinel) Specs() []*resp.Spec { return sentinelTable.Specs() }

// Do runs a request of one of the sentinel's clients.
func (s *Sentinel) Do(ctx context.Context, req resp.Request) resp.Result {
	replies := make([]resp.Reply, len(req.Cmds))
	for i, c := range req.Cmds {
		if row, fail := sentinelTable.Find(c.Args); row != nil {
			replies[i] = row.Run(ctx, s, c.Args)
		} else {
			replies[i] = fail
		}
	}
	return resp.Result{Replies: replies}
}

// Block implements server.Backend: no command of a sentinel waits.
func (s *Sentinel) Block(
	ctx context.Context, cmd resp.Cmd, _ resp.Sender, _ <-chan resp.Unblock, _ resp.Waiter,
) (reply resp.Reply, unblocked bool) {
	return s.Do(ctx, resp.Request{Cmds: []resp.Cmd{cmd}}).Replies[0], false
}

// Await implements server.Backend: no answer of a sentinel comes from the log.
func (s *Sentinel) Await(context.Context, uint64) {}

// ClientID implements server.Backend: a sentinel counts its clients.
func (s *Sentinel) ClientID(nth uint64) int64 { return int64(nth) }

// Members implements server.Backend: each sentinel has its own subscribers.
func (s *Sentinel) Members() int { return 0 }

// Ask implements server.Backend: there is nobody to ask.
func (s *Sentinel) Ask(context.Context, resp.Inquiry) ([]resp.Reply, error) { return nil, nil }

// Leases implements server.Backend: no client of a sentinel takes a lock.
func (s *Sentinel) Leases(locks []resp.HeldLock) []resp.Lease { return make([]resp.Lease, len(locks)) }

const onSentinel = resp.Admin | resp.NoScript | resp.Loading | resp.Stale

var sentinelRows = []resp.Row[sentinelCommand]{
	resp.WithHelp("2.8.4", sentinelAlways, resp.Row[sentinelCommand]{
		Spec: resp.Spec{
			Name: "sentinel", Arity: -2, Flags: onSentinel, Group: "sentinel", Since: "2.8.4",
			Summary: "A container for Sentinel commands",
		},
		Subs: []resp.Row[sentinelCommand]{
			sentinelRow("ckquorum", 3, "Check for a Sentinel quorum", "master-name", aboutMaster(sentinelCkquorum)),
			sentinelRow("config", -4, "Get the values of configuration parameters", "GET parameter", sentinelConfigGet),
			sentinelRow("debug", -2, "Refused: nothing can be set by hand.", "[parameter value ...]", sentinelRefuses),
			sentinelRow("failover", 3, "Refused: see LOCKD TRANSFER on a node's own port.", "master-name",
				sentinelRefuses),
			sentinelRow("flushconfig", 2, "Does nothing: there is no configuration file.", "",
				sentinelAlways(resp.OK())),
			sentinelRow("get-master-addr-by-name", 3, "Get port and address of a master", "master-name",
				sentinelMasterAddr),
			sentinelRow("is-master-down-by-addr", 6, "Check if a master is down", "ip port current-epoch runid",
				sentinelIsDown),
			sentinelRow("master", 3, "Shows the state of a master", "master-name", aboutMaster(sentinelMaster)),
			sentinelRow("masters", 2, "List the monitored masters", "", sentinelMasters),
			sentinelRow("monitor", 6, "Refused: the cluster is what is monitored.", "name ip port quorum",
				sentinelRefuses),
			sentinelRow("myid", 2, "Get the Sentinel instance ID", "", sentinelMyID),
			sentinelRow("pending-scripts", 2, "Get information about pending scripts", "",
				sentinelAlways(resp.Array())),
			sentinelRow("remove", 3, "Refused: the cluster is what is monitored.", "master-name", sentinelRefuses),
			sentinelRow("replicas", 3, "List the monitored replicas", "master-name", aboutMaster(sentinelReplicas)),
			sentinelRow("reset", 3, "Counts masters by name pattern: there is nothing to reset.", "pattern",
				sentinelReset),
			sentinelRow("sentinels", 3, "List the Sentinel instances", "master-name", aboutMaster(sentinelSentinels)),
			sentinelRow("set", -5, "Refused: nothing can be set by hand.",
				"master-name option value [option value ...]", sentinelRefuses),
			sentinelRow("simulate-failure", -3, "Refused.", "[CRASH-AFTER-ELECTION] [CRASH-AFTER-PROMOTION] [HELP]",
				sentinelRefuses),
			sentinelRow("slaves", 3, "List the monitored slaves", "master-name", aboutMaster(sentinelReplicas)),
		},
	}),
	{
		Spec: resp.Spec{
			Name: "info", Arity: -1, Flags: ReadFlags, Group: "server", Since: "1.0.0",
			Summary: "Get information and statistics about the server", Syntax: "[section [section ...]]",
		},
		Run: sentinelInfo,
	},
	{
		Spec: resp.Spec{
			Name: "role", Arity: 1, Flags: resp.NoScript | ReadFlags | resp.Fast, Group: "server",
			Since: "2.8.12", Summary: "Return the role of the instance in the context of replication",
		},
		Run: sentinelRole,
	},
	{
		Spec: resp.Spec{
			Name: "publish", Arity: 3, Flags: resp.PubSub | ReadFlags | resp.Fast, Group: "pubsub",
			Since: "2.0.0", Summary: "Refused: what is published here are the sentinel's own events.",
			Syntax: "channel message",
		},
		Run: sentinelAlways(resp.Err("ERR Only HELLO messages are accepted by Sentinel instances.")),
	},
}

func sentinelRow(name string, arity int, summary, syntax string, run sentinelCommand) resp.Row[sentinelCommand] {
	return resp.Row[sentinelCommand]{
		Spec: resp.Spec{
			Name: "sentinel|" + name, Arity: arity, Flags: onSentinel, Group: "sentinel", Since: "2.8.4",
			Summary: summary, Syntax: syntax,
		},
		Run: run,
	}
}

func sentinelAlways(r resp.Reply) sentinelCommand {
	return func(context.Context, *Sentinel, resp.Args) resp.Reply { return r }
}

var (
	sentinelRefuses = sentinelAlways(resp.Err(NotByHand))
	errNoSuchMaster = resp.Err("ERR No such master with that name")
)

// watched returns the sentinel's view of the cluster; nil before the first leader, so that clients ask another
// sentinel, or again.
func (s *Sentinel) watched() *View {
	if st := s.topology.Current.Load(); st.Master != nil {
		return s.cfg.forClients(st)
	}
	return nil
}

// forClients returns a view with the addresses for the sentinel's clients.
func (c *SentinelConfig) forClients(st *View) *View {
	if c.TLS {
		return st.overTLS()
	}
	return st
}

// replicas lists the nodes other than the leader.
func (s *View) replicas() []Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(p Node) bool { return s.LedBy(p.Id) })
}

// sentinels lists the nodes other than self that have a sentinel.
func (s *View) sentinels(self string) []Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(p Node) bool { return p.Id == self || p.sentinel == "" })
}

// quorum returns the number of nodes that elect a leader.
func (s *View) quorum() int { return len(s.Nodes)/2 + 1 }

// aboutMaster runs a command whose third argument is the name of the master.
func aboutMaster(run func(*Sentinel, *View) resp.Reply) sentinelCommand {
	return func(_ context.Context, s *Sentinel, args resp.Args) resp.Reply {
		w := s.watched()
		if w == nil || args[2] != s.cfg.Master {
			return errNoSuchMaster
		}
		return run(s, w)
	}
}

func sentinelMasterAddr(_ context.Context, s *Sentinel, args resp.Args) resp.Reply {
	w := s.watched()
	if w == nil || args[2] != s.cfg.Master {
		return resp.NilArray()
	}
	return resp.Bulks(w.Master.Host, w.Master.Port)
}

func sentinelMasters(_ context.Context, s *Sentinel, _ resp.Args) resp.Reply {
	w := s.watched()
	if w == nil {
		return resp.Array()
	}
	return resp.Array(sentinelMaster(s, w))
}

// bulkMap returns a map of bulk strings.
func bulkMap(pairs ...string) resp.Reply {
	r := resp.Bulks(pairs...)
	r.Kind = resp.KindMap
	return r
}

// condition describes the health of a node in a sentinel's words.
type condition struct {
	flags   string
	silence time.Duration
	cut     bool     // a question to it is pending, and there is no connection for it
	down    []string // the field with the time since which it is down; nil: it is up
}

// instance returns the fields with which a sentinel begins the description of any node.
func instance(name, host, port, runID string, c condition) []string {
	silent, pending, sent := I64(c.silence.Milliseconds()), "0", "0"
	if c.cut {
		pending, sent = "1", silent
	}
	return append(append([]string{
		"name", name, "ip", host, "port", port, "runid", runID, "flags", c.flags,
		"link-pending-commands", pending, "link-refcount", "1",
		"last-ping-sent", sent, "last-ok-ping-reply", silent, "last-ping-reply", silent,
	}, c.down...), "down-after-milliseconds", I64(DownAfter.Milliseconds()))
}

// reported returns the fields about the role of a node.
func (s *Sentinel) reported(w *View, role string, silence time.Duration) []string {
	return []string{
		"info-refresh", I64(silence.Milliseconds()),
		"role-reported", role, "role-reported-time", I64(s.topology.age(w).Milliseconds()),
	}
}

func sentinelMaster(s *Sentinel, w *View) resp.Reply {
	c := s.condition(w.Master, "master", false)
	if w.Vacant {
		since := I64(s.topology.age(w).Milliseconds())
		c.flags, c.down = "s_down,o_down,"+c.flags, []string{"s-down-time", since, "o-down-time", since}
	}
	fields := instance(s.cfg.Master, w.Master.Host, w.Master.Port, w.Master.RunID, c)
	fields = append(fields, s.reported(w, "master", c.silence)...)
	return bulkMap(append(fields,
		"config-epoch", U64(w.Term),
		"num-slaves", strconv.Itoa(len(w.replicas())),
		"num-other-sentinels", strconv.Itoa(len(w.sentinels(s.self))),
		"quorum", strconv.Itoa(w.quorum()),
		"failover-timeout", I64(s.topology.LeaderWait.Milliseconds()),
		"parallel-syncs", "1",
	)...)
}

// condition returns the condition of a node. Its own silence makes a node down only if mayBeDown is set: the master is
// down when no leader serves.
func (s *Sentinel) condition(p *Node, kind string, mayBeDown bool) condition {
	c := condition{flags: kind, silence: s.topology.silence(p), cut: s.topology.cut(p)}
	if c.cut {
		c.flags += ",disconnected"
	}
	if p.Down && mayBeDown {
		c.flags, c.down = "s_down,"+c.flags, []string{"s-down-time", I64((c.silence - DownAfter).Milliseconds())}
	}
	return c
}

func sentinelReplicas(s *Sentinel, w *View) resp.Reply {
	var list []resp.Reply
	for _, p := range w.replicas() {
		c := s.condition(&p, "slave", true)
		fields := instance(p.Host+":"+p.Port, p.Host, p.Port, p.RunID, c)
		fields = append(fields, s.reported(w, "slave", c.silence)...)
		link := "ok"
		if w.Vacant || p.Down {
			link = "err"
		}
		list = append(list, bulkMap(append(fields,
			"master-link-down-time", "0", "master-link-status", link,
			"master-host", w.Master.Host, "master-port", w.Master.Port,
			"slave-priority", "100", "slave-repl-offset", U64(s.topology.LastSeen(p.Id).Applied),
			"replica-announced", "1",
		)...))
	}
	return resp.Array(list...)
}

func sentinelSentinels(s *Sentinel, w *View) resp.Reply {
	var list []resp.Reply
	for _, p := range w.sentinels(s.self) {
		c := s.condition(&p, "sentinel", true)
		host, port, err := net.SplitHostPort(p.sentinel)
		if err != nil {
			continue
		}
		list = append(list, bulkMap(append(instance(p.sentinelID, host, port, p.sentinelID, c),
			"last-hello-message", I64(c.silence.Milliseconds()), "voted-leader", "?", "voted-leader-epoch", "0",
		)...))
	}
	return resp.Array(list...)
}

// sentinelCkquorum counts nodes, since nodes elect the leader.
func sentinelCkquorum(_ *Sentinel, w *View) resp.Reply {
	up := 0
	for _, p := range w.Nodes {
		if !p.Down {
			up++
		}
	}
	if up < w.quorum() {
		return resp.Errf(
			"NOQUORUM %d usable Sentinels. Not enough available Sentinels to reach the specified quorum for this "+
				"master. "+
				"Not enough available Sentinels to reach the majority and authorize a failover",
			up,
		)
	}
	return resp.Status(fmt.Sprintf("OK %d usable Sentinels. Quorum and failover authorization can be reached", up))
}

// sentinelIsDown answers a question that sentinels ask each other. It never votes.
func sentinelIsDown(_ context.Context, s *Sentinel, args resp.Args) resp.Reply {
	for _, word := range args[3:5] {
		if _, err := Number(word); err != nil {
			return resp.Fail(err)
		}
	}
	down := int64(0)
	if w := s.watched(); w != nil && w.Vacant && args[2] == w.Master.Host && args[3] == w.Master.Port {
		down = 1
	}
	return resp.Array(resp.Int(down), resp.Bulk("*"), resp.Int(0))
}

func sentinelMyID(_ context.Context, s *Sentinel, _ resp.Args) resp.Reply {
	return resp.Bulk(RunID("sentinel", s.topology.Members.MemberOf(s.self)))
}

// sentinelGlobSteps bounds the work of matching a pattern.
const sentinelGlobSteps = 1 << 16

func sentinelReset(_ context.Context, s *Sentinel, args resp.Args) resp.Reply {
	steps := sentinelGlobSteps
	if resp.Glob(args[2], s.cfg.Master, &steps) {
		return resp.Int(1)
	}
	return resp.Int(0)
}

func sentinelConfigGet(_ context.Context, s *Sentinel, args resp.Args) resp.Reply {
	if len(args) != 4 || !resp.Is(args[2], "GET") {
		return resp.Err("ERR Only SENTINEL CONFIG GET <option> is supported.")
	}
	host, port, _ := net.SplitHostPort(s.cfg.Addr)
	var found []string
	for _, option := range [][2]string{
		{"resolve-hostnames", "yes"}, {"announce-hostnames", "yes"}, {"announce-ip", host}, {"announce-port", port},
		{"sentinel-user", ""}, {"sentinel-pass", ""},
	} {
		steps := sentinelGlobSteps
		if resp.Glob(strings.ToLower(args[3]), option[0], &steps) {
			found = append(found, option[0], option[1])
		}
	}
	return bulkMap(found...)
}

func sentinelRole(_ context.Context, s *Sentinel, _ resp.Args) resp.Reply {
	return resp.Array(resp.Bulk("sentinel"), resp.Bulks(s.cfg.Master))
}

// sentinelInfo shows the sections of the process that a sentinel of Redis has.
func sentinelInfo(_ context.Context, s *Sentinel, args resp.Args) resp.Reply {
	var sections []resp.Section
	if s.cfg.Info != nil {
		for _, known := range s.cfg.Info() {
			if slices.Contains([]string{"Server", "Clients", "CPU", "Stats"}, known.Name) {
				sections = append(sections, known)
			}
		}
	}
	return resp.Bulk(InfoReply(args, append(sections, s.infoSentinel())).Str) // not verbatim, as in Redis
}

func (s *Sentinel) infoSentinel() resp.Section {
	own := Section("Sentinel",
		"sentinel_masters", "0", "sentinel_tilt", "0", "sentinel_tilt_since_seconds", "-1",
		"sentinel_running_scripts", "0",
		"sentinel_scripts_queue_length", "0", "sentinel_simulate_failure_flags", "0",
	)
	if w := s.watched(); w != nil {
		status := "ok"
		if w.Vacant {
			status = "odown"
		}
		own.Fields[0].Value = "1"
		own.Fields = append(
			own.Fields,
			resp.Field{Name: "master0", Value: fmt.Sprintf("name=%s,status=%s,address=%s:%s,slaves=%d,sentinels=%d",
				s.cfg.Master, status, w.Master.Host, w.Master.Port, len(w.replicas()), len(w.sentinels(s.self))+1)},
		)
	}
	return own
}

// news tells the sentinel's subscribers of changes.
type news struct{ cfg SentinelConfig }

// announce publishes the differences between two views, in the words and the order of Redis. Only the topology's
// goroutine calls it.
func (s news) announce(was, now *View) {
	e := &events{name: s.cfg.Master}
	was, now = s.cfg.forClients(was), s.cfg.forClients(now)
	before, after := was.Master, now.Master
	switch {
	case after == nil:
		return
	case before == nil: // the first leader: nothing has changed for anybody
	case !was.Vacant && now.Vacant:
		e.lost(before, now.quorum())
	case before.Addr() != after.Addr():
		e.switched(before, after, now)
	case was.Vacant && !now.Vacant:
		e.add("-odown", e.master(before))
		e.add("-sdown", e.master(before))
	}
	e.members(was, now)
	if len(e.list) > 0 {
		s.cfg.Publisher.Publish(e.list)
	}
}

// events gathers messages of a sentinel.
type events struct {
	name string // of the master
	list []resp.Message
}

func (e *events) add(channel, payload string) {
	e.list = append(e.list, resp.Message{Kind: resp.MessageChannel, Channel: channel, Payload: payload})
}

// master, slave and sentinel name a node in a message.

func (e *events) master(p *Node) string {
	return fmt.Sprintf("master %s %s %s", e.name, p.Host, p.Port)
}

func (e *events) slave(p, master *Node) string {
	return fmt.Sprintf("slave %s:%s %s %s @ %s %s %s", p.Host, p.Port, p.Host, p.Port, e.name, master.Host, master.Port)
}

func (e *events) sentinel(p, master *Node) string {
	host, port, _ := net.SplitHostPort(p.sentinel)
	return fmt.Sprintf("sentinel %s %s %s @ %s %s %s", p.sentinelID, host, port, e.name, master.Host, master.Port)
}

// lost announces that no leader serves.
func (e *events) lost(master *Node, quorum int) {
	e.add("+sdown", e.master(master))
	e.add("+odown", fmt.Sprintf("%s #quorum %d/%d", e.master(master), quorum, quorum))
}

// switched announces that another node leads and serves. Clients reconnect on +switch-master, or on one of the messages
// around it.
func (e *events) switched(old, leader *Node, now *View) {
	e.add("+new-epoch", U64(now.Term))
	e.add("+try-failover", e.master(old))
	e.add("+vote-for-leader", fmt.Sprintf("%s %d", leader.sentinelID, now.Term))
	e.add("+elected-leader", e.master(old))
	e.add("+selected-slave", e.slave(leader, old))
	e.add("+promoted-slave", e.slave(leader, old))
	for i := range now.Nodes {
		if p := &now.Nodes[i]; p.Id != leader.Id && p.Addr() != old.Addr() {
			e.add("+slave-reconf-done", e.slave(p, old))
		}
	}
	e.add("+failover-end", e.master(old))
	e.add("+switch-master", fmt.Sprintf("%s %s %s %s %s", e.name, old.Host, old.Port, leader.Host, leader.Port))
	for i := range now.Nodes {
		if p := &now.Nodes[i]; p.Id != leader.Id {
			e.add("+slave", e.slave(p, leader))
		}
	}
}

// members announces nodes that have joined, have fallen silent, or answer again.
func (e *events) members(was, now *View) {
	master := now.Master
	for i := range now.Nodes {
		p, old := &now.Nodes[i], was.node(now.Nodes[i].Id)
		wasDown := old != nil && old.Down
		if p.Id != master.Id {
			if old == nil || old.Addr() != p.Addr() {
				e.add("+slave", e.slave(p, master))
			}
			e.down(wasDown && !was.LedBy(p.Id), p.Down, e.slave(p, master))
		}
		if p.sentinel == "" {
			continue
		}
		if old == nil || old.sentinel != p.sentinel {
			e.add("+sentinel", e.sentinel(p, master))
		}
		e.down(wasDown, p.Down, e.sentinel(p, master))
	}
}

func (e *events) down(was, is bool, what string) {
	if !was && is {
		e.add("+sdown", what)
	} else if was && !is {
		e.add("-sdown", what)
	}
}
