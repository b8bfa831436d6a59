package keyspace

import (
	"strconv"

	"lockd/keyspace/arg"
	"lockd/resp"
)

// The maps that commands about locks answer, and the events that subscribers are told: names and replies.

// replyFields are the fields of a map: names and replies.
type replyFields []resp.Reply

// newFields has room for what is told of a holder or an event.
func newFields() replyFields { return make(replyFields, 0, 2*18) }

func (f replyFields) add(name string, r resp.Reply) replyFields { return append(f, resp.Bulk(name), r) }

// text adds a text, or a nil where there is none.
func (f replyFields) text(name, s string) replyFields { return f.add(name, bulkUnless(s == "", s)) }

// time adds a wall time in milliseconds, or a nil for 0.
func (f replyFields) time(name string, ms int64) replyFields {
	return f.add(name, bulkUnless(ms == 0, arg.FormatTime(ms)))
}

// ms adds milliseconds, or a nil where they are not known.
func (f replyFields) ms(name string, n int64) replyFields {
	if n < 0 {
		return f.add(name, resp.Nil())
	}
	return f.add(name, resp.Int(n))
}

// command adds a command and who sent it, as far as there is one and that is known.
func (f replyFields) command(by string, s resp.Sender) replyFields {
	if by != "" {
		f = f.text("by", by)
	}
	if s == "" {
		return f
	}
	c := s.Client()
	return f.add("client-id", resp.Int(int64(c.ID))).text("client-name", c.Name).
		text("client-addr", c.Addr).text("node", c.Node)
}

func (f replyFields) reply() resp.Reply { return resp.Map(f...) }

// cursorReply is the cursor to go on with; 0: that was all.
func cursorReply(next uint64) resp.Reply { return resp.Bulk(strconv.FormatUint(next, 10)) }

func bulkUnless(missing bool, s string) resp.Reply {
	if missing {
		return resp.Nil()
	}
	return resp.Bulk(s)
}

// tokenShown is how many bytes are shown of a token.
const tokenShown = 8

// shownToken is what is shown of a token.
func (m *Machine) shownToken(token string) string { return shownToken(token, m.settings.showTokens) }

func shownToken(token string, whole bool) string {
	if whole || len(token) <= tokenShown {
		return token
	}
	return token[:tokenShown] + "..."
}

// shownOwner is an owner, or in its place the token.
func (m *Machine) shownOwner(owner, token string) string {
	if owner == "" {
		return m.shownToken(token)
	}
	return owner
}

// modeOf names how a lock is held.
func modeOf(permits int64) string {
	switch {
	case permits == sharedPermits:
		return "shared"
	case permits > 0:
		return "limit"
	}
	return "exclusive"
}
