package keyspace

import (
	"slices"
	"strconv"

	"lockd/keyspace/arg"
	"lockd/keyspace/history"
	"lockd/keyspace/value"
	"lockd/resp"
)

// What people ask about locks: who holds them, and what has become of them.
var locksRows = []resp.Row[command]{
	resp.WithHelp("1.0.0", always, resp.Row[command]{Spec: resp.Spec{
		Name: "locks", Arity: -2,
		Group: "lockd", Since: "1.0.0", Summary: "A container for commands about the locks that there are and were",
	}, Subs: []resp.Row[command]{
		{Spec: resp.Spec{
			Name: "locks|list", Arity: -2, Flags: resp.ReadOnly,
			Group: "lockd", Since: "1.0.0", Summary: "List the locks that are held now, the longest first",
			Syntax: "[CURSOR cursor] [MATCH pattern] [COUNT count] [HELD milliseconds] [WAITED]",
		}, Run: cmdLocksList},
		{Spec: resp.Spec{
			Name: "locks|info", Arity: 3, Flags: resp.ReadOnly, Keys: resp.SubKey,
			Group: "lockd", Since: "1.0.0", Summary: "Tell who holds a lock, and who waits for it",
			Syntax: "key",
		}, Run: cmdLocksInfo},
		{Spec: resp.Spec{
			Name: "locks|history", Arity: -3, Flags: resp.ReadOnly, Keys: resp.SubKey,
			Group: "lockd", Since: "1.0.0", Summary: "Tell what has become of a lock, the newest last",
			Syntax: "key [CURSOR cursor] [FROM time] [TO time] [COUNT count]",
		}, Run: cmdLocksHistory},
		{Spec: resp.Spec{
			Name: "locks|why", Arity: 4, Flags: resp.ReadOnly, Keys: resp.SubKey,
			Group: "lockd", Since: "1.0.0", Summary: "Say in a sentence what has become of a token's lock",
			Syntax: "key token",
		}, Run: cmdLocksWhy},
		{Spec: resp.Spec{
			Name: "locks|force", Arity: -5, Flags: resp.Write | resp.Admin, Keys: resp.SubKey, Access: "RW delete",
			Group: "lockd", Since: "1.0.0",
			Summary: "End a lock for all who hold it, or for one, and write down why",
			Syntax:  "key [TOKEN token] [FENCE fence] REASON text",
		}, Run: cmdLocksForce},
		{Spec: resp.Spec{
			Name: "locks|graph", Arity: -2, Flags: resp.ReadOnly,
			Group: "lockd", Since: "1.0.0", Summary: "Tell who waits for whom, the longest wait first",
			Syntax: "[COUNT count]",
		}, Run: cmdLocksGraph},
		{Spec: resp.Spec{
			Name: "locks|doctor", Arity: -2, Flags: resp.ReadOnly | resp.TakesSightings,
			Group: "lockd", Since: "1.0.0",
			Summary: "Say what is wrong with the locks of programs, as far as it is certain",
		}, Run: cmdLocksDoctor},
		{Spec: resp.Spec{
			Name: "locks|advice", Arity: -2, Flags: resp.ReadOnly | resp.TakesSightings,
			Group: "lockd", Since: "1.0.0", Summary: "Tell how long locks are held and waited for, and what lease would do",
			Syntax: "[pattern]",
		}, Run: cmdLocksAdvice},
	}}),
}

// Limits of these commands.
const (
	locksCount    = 100                  // without COUNT
	locksCountMax = 1 << 20              // a larger COUNT means everything anyway
	holderWork    = 64 * value.VisitWork // telling of a holder, a waiter or an event
	grantWork     = 4 * value.FarWork    // finding the grant of a holder
)

// locksOptions are those of LIST, HISTORY and GRAPH.
type locksOptions struct {
	paged        bool      // a list is answered in pieces, each with the cursor to go on with
	cursor       uint64    // 0: the first piece
	match        *arg.Glob // or nil
	count        int
	heldMs       int64
	waited       bool
	fromMs, toMs int64
}

// parseLocks reads the options, of which a command knows some.
func (c *ctx) parseLocks(args resp.Args, known ...string) (o locksOptions, err error) {
	o = locksOptions{count: locksCount, fromMs: minInt, toMs: maxInt}
	for i := 0; i < len(args) && err == nil; i++ {
		option := slices.IndexFunc(known, func(name string) bool { return resp.Is(args[i], name) })
		if option < 0 {
			return o, resp.Error(resp.ErrSyntax)
		}
		if known[option] == "WAITED" {
			o.waited = true
			continue
		}
		if i++; i == len(args) {
			return o, resp.Error(resp.ErrSyntax)
		}
		switch known[option] {
		case "CURSOR":
			if o.cursor, o.paged = arg.ParseCursor(args[i]); !o.paged {
				err = resp.Error(resp.ErrCursor)
			}
		case "MATCH":
			o.match = arg.NewGlob(args[i])
		case "COUNT":
			var n int64
			n, err = arg.AtLeast(1, args[i], arg.ErrNotPositive)
			o.count = int(min(n, locksCountMax))
		case "HELD":
			o.heldMs, err = arg.Positive(args[i])
		case "FROM":
			o.fromMs, err = arg.ParseTime(args[i], c.wallMs())
		case "TO":
			o.toMs, err = arg.ParseTime(args[i], c.wallMs())
		}
	}
	return o, err
}

// cursorReply is the cursor to go on with; 0: that was all.
func cursorReply(next uint64) resp.Reply { return resp.Bulk(strconv.FormatUint(next, 10)) }

// shownToken is what is shown of a token.
func (m *Machine) shownToken(token string) string {
	return history.ShownToken(token, m.settings.showTokens)
}

// shownOwner is an owner, or in its place the token.
func (m *Machine) shownOwner(owner, token string) string {
	if owner == "" {
		return m.shownToken(token)
	}
	return owner
}
