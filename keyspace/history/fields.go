package history

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/resp"
)

// Fields are the fields of a map that a command about locks answers, or of an event for subscribers: names
// and replies.
type Fields []resp.Reply

// NewFields returns no fields, with room for those of a holder or an event.
func NewFields() Fields { return make(Fields, 0, 2*18) }

// Add adds a field.
func (f Fields) Add(name string, r resp.Reply) Fields { return append(f, resp.Bulk(name), r) }

// Text adds a text, or a nil where there is none.
func (f Fields) Text(name, s string) Fields { return f.Add(name, bulkUnless(s == "", s)) }

// Time adds a wall time in milliseconds, or a nil for 0.
func (f Fields) Time(name string, ms int64) Fields {
	return f.Add(name, bulkUnless(ms == 0, arg.FormatTime(ms)))
}

// Ms adds milliseconds, or a nil where they are not known.
func (f Fields) Ms(name string, n int64) Fields {
	if n < 0 {
		return f.Add(name, resp.Nil())
	}
	return f.Add(name, resp.Int(n))
}

// Command adds the command and its sender; either may be missing.
func (f Fields) Command(by string, s resp.Sender) Fields {
	if by != "" {
		f = f.Text("by", by)
	}
	if s == "" {
		return f
	}
	c := s.Client()
	return f.Add("client-id", resp.Int(int64(c.ID))).Text("client-name", c.Name).
		Text("client-addr", c.Addr).Text("node", c.Node)
}

// Reply returns the fields as a map.
func (f Fields) Reply() resp.Reply { return resp.Map(f...) }

func bulkUnless(missing bool, s string) resp.Reply {
	if missing {
		return resp.Nil()
	}
	return resp.Bulk(s)
}

// tokenShown is the number of bytes of a token that are shown.
const tokenShown = 8

// ShownToken returns a token as replies and events show it.
func ShownToken(token string, whole bool) string {
	if whole || len(token) <= tokenShown {
		return token
	}
	return token[:tokenShown] + "..."
}

// ShownKey returns a key as sentences show it: the empty one in quotes.
func ShownKey(key string) string {
	if key == "" {
		return `""`
	}
	return key
}

// FitsToken reports whether a token is the one that was asked for, by the whole token or by the part that is shown.
func FitsToken(token, asked string) bool {
	return token == asked || len(asked) >= tokenShown && strings.HasPrefix(token, strings.TrimSuffix(asked, "..."))
}

// ModeOf names how a lock is held.
func ModeOf(permits int64) string {
	switch {
	case permits == SharedPermits:
		return "shared"
	case permits > 0:
		return "limit"
	}
	return "exclusive"
}

// Describe returns the fields of an event; whole shows its whole token.
func (e *Event) Describe(whole bool) Fields {
	f := NewFields().Time("time", e.WallMs).Add("tick", resp.Int(e.Tick)).Add("event", resp.Bulk(e.Kind.String()))
	if e.Kind.EndsAll() {
		f = f.Command(e.Command(), e.Client)
		if e.Kind == Swapped {
			f = f.Add("db", resp.Int(int64(e.OtherDB)))
		}
		return f
	}
	f = f.Text("token", ShownToken(e.Token, whole)).Text("owner", e.Owner).Add("mode", resp.Bulk(ModeOf(e.Permits)))
	if e.Fence != 0 {
		f = f.Add("fence", resp.Int(int64(e.Fence)))
	}
	f = f.Command(e.Command(), e.Client)
	switch {
	case e.Kind == Granted:
		f = f.Add("waited-ms", resp.Int(e.WaitedMs)).Add("lease-ms", resp.Int(e.LeaseMs)).Text("note", e.Note)
	case e.Kind.Ends():
		f = f.Add("held-ms", resp.Int(e.HeldMs)).Add("lease-ms", resp.Int(e.LeaseMs)).
			Add("renewals", resp.Int(int64(e.Renewals))).Time("last-renewal", e.RenewedMs)
	default:
		f = f.Add("waited-ms", resp.Int(e.WaitedMs))
	}
	if e.Reason != "" {
		f = f.Text("reason", e.Reason)
	}
	return f
}

// Command returns the words that say by which command the event came about.
func (e *Event) Command() string {
	name := strings.ToUpper(strings.ReplaceAll(e.By, "|", " "))
	if e.Script {
		name += " in a script"
	}
	return name
}
