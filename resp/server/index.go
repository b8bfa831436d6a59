package server

import (
	"strings"

	"lockd/resp"
	"lockd/resp/acl"
	"lockd/resp/server/observer"
	"lockd/resp/server/stats"
)

// action implements a row that the session runs itself.
type action struct {
	run func(*session, resp.Args) resp.Reply
	// unqueued commands run at once inside MULTI (EXEC, DISCARD, RESET ...).
	unqueued bool
	// whileSubscribed commands are allowed to a RESP2 client with subscriptions.
	whileSubscribed bool
	// selects marks SELECT: data commands after it in a transaction use another
	// database.
	selects bool
	// secret reports whether argument i is a name or a password, which must not be shown; nil: no argument is.
	secret func(args resp.Args, i int) bool
	// executes marks EXEC, which runs the queued commands.
	executes bool
	// asksBackend marks commands that call the backend. They must not run under
	// the hub's lock, which the goroutine that applies takes to publish.
	asksBackend bool
	// hubLocked commands run under the hub's lock, and their replies are handed
	// to the outbox before it is released: so a message of a channel never comes
	// before the confirmation of its SUBSCRIBE or after that of its UNSUBSCRIBE.
	hubLocked bool
	// countsSubscribers commands ask other nodes. In a transaction with subscriptions they run at their place
	// instead, under the hub's lock, where other nodes cannot be asked.
	countsSubscribers bool
	// onSentinel rows exist on a sentinel, too, as in Redis.
	onSentinel bool
	// tracks marks CLIENT TRACKING: a transaction that contains it is followed.
	tracks bool
}

type row = resp.Row[action]

// always returns the action of a row with a fixed reply.
func always(r resp.Reply) action {
	return action{run: func(*session, resp.Args) resp.Reply { return r }}
}

// The flags that rows of several files have.
const (
	basic          = resp.Loading | resp.Stale | resp.Fast
	handshake      = resp.NoScript | resp.Loading | resp.Stale | resp.Fast | resp.NoAuth | resp.AllowBusy
	administrative = resp.Admin | resp.NoScript | resp.Loading | resp.Stale
	ofClient       = resp.NoScript | resp.Loading | resp.Stale
)

// command is everything that a session needs for a command, found with one look-up.
type command struct {
	spec    *resp.Spec
	act     *action // nil: the backend runs it
	acl     *acl.Command
	stats   *stats.Command
	watched observer.Op
	subs    map[*resp.Spec]*command
}

// hides reports whether argument i must not be shown.
func (c *command) hides(args resp.Args, i int) bool {
	return c.act != nil && c.act.secret != nil && c.act.secret(args, i)
}

// index finds commands of both kinds. It is immutable.
type index struct {
	names   map[string]*command // in lower case and in capitals
	specs   []*resp.Spec        // all rows that clients see, the connection's own first
	figures stats.Commands      // of leaves and containers, in the order of specs

	replicates bool // the backend has settings of its own (CONFIG)
	hasUsers   bool // and users (ACL)
	known      *acl.Commands
}

func newIndex(table *resp.Table[action], backend Backend) *index {
	x := &index{names: map[string]*command{}}
	for _, spec := range table.Specs() {
		x.add(spec, func(leaf *resp.Spec) *action { return &table.Row(leaf).Run })
	}
	for _, spec := range backend.Specs() {
		x.replicates = x.replicates || spec.Name == "config"
		x.hasUsers = x.hasUsers || spec.Name == acl.Container.Name
		if x.names[spec.Name] == nil {
			x.add(spec, func(*resp.Spec) *action { return nil })
		}
	}
	x.known = acl.NewCommands(x.specs)
	for _, c := range x.names {
		c.acl = x.known.Of(c.spec)
		for spec, sub := range c.subs {
			sub.acl = x.known.Of(spec)
		}
	}
	return x
}

func (x *index) add(spec *resp.Spec, actionOf func(*resp.Spec) *action) {
	c := x.leaf(spec, actionOf)
	x.names[spec.Name] = c
	x.names[strings.ToUpper(spec.Name)] = c
	x.specs = append(x.specs, spec)
	for _, sub := range spec.Subs {
		if c.subs == nil {
			c.subs = map[*resp.Spec]*command{}
		}
		c.subs[sub] = x.leaf(sub, actionOf)
	}
}

func (x *index) leaf(spec *resp.Spec, actionOf func(*resp.Spec) *action) *command {
	figures := x.figures.Add(spec.Name, spec.Group)
	return &command{spec: spec, act: actionOf(spec), stats: figures, watched: observer.OpOf(spec.Name)}
}

// find returns the command that args call, a subcommand where there is one, after the check of its arity; otherwise
// nil and the error.
func (x *index) find(args resp.Args) (*command, resp.Reply) {
	c := x.names[args[0]]
	if c == nil {
		c = x.names[lower(args[0])]
	}
	if c == nil {
		return nil, resp.UnknownCommand(args)
	}
	spec, fail := c.spec.Check(args)
	if spec == nil {
		c.stats.Reject()
		return nil, fail
	}
	if sub := c.subs[spec]; sub != nil {
		c = sub
	}
	return c, resp.Reply{}
}

// aclOf returns a command as rules know it; nil if there is no such command.
func (x *index) aclOf(name string) *acl.Command {
	if c := x.names[name]; c != nil {
		return c.acl
	}
	return nil
}

// lookup finds the row of a command or, as "client|list", of a subcommand.
func (x *index) lookup(name string) *resp.Spec {
	container, sub, isSub := strings.Cut(lower(name), "|")
	c := x.names[container]
	if c == nil {
		return nil
	}
	if !isSub {
		return c.spec
	}
	for _, s := range c.spec.Subs {
		if s.Name == container+"|"+sub {
			return s
		}
	}
	return nil
}

// lower folds ASCII only, as Redis does. It returns "" for a name longer than any row has.
func lower(name string) string {
	if len(name) > 64 {
		return ""
	}
	b := []byte(name)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// globOne matches a short name.
func globOne(pattern, name string) bool {
	left := globStepsMax
	return resp.Glob(pattern, name, &left)
}

// wrongSubcommand returns Redis's error for a known word with a wrong number of arguments.
func wrongSubcommand(container, word string) resp.Reply {
	return resp.Err("ERR unknown subcommand or wrong number of arguments for '" + cut(word) + "'. Try " +
		strings.ToUpper(container) + " HELP.")
}

// argShown bounds the part of an argument, in bytes, that an error repeats.
const argShown = 128

func cut(arg string) string { return arg[:min(len(arg), argShown)] }
