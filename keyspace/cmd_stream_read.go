package keyspace

import (
	"slices"

	"lockd/keyspace/value"
	"lockd/resp"
)

var streamReadRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "xread", Arity: -4, Flags: resp.ReadOnly | resp.Blocking | resp.MovableKeys, Keys: resp.Keys{Half: "STREAMS"}, Waits: "BLOCK",
		Group: "stream", Since: "5.0.0", Summary: "Return never seen elements in multiple streams, with IDs greater than the ones reported by the caller for each stream. Can block.",
		Syntax: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
	}, Run: cmdXRead},
}

// The error texts that only this command uses.
const (
	errReadUnbalanced = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
	errReadGroup      = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
	errReadNoAck      = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
	errReadNew        = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
	errReadScript     = "ERR %s command is not allowed with BLOCK option from scripts"
	errReadKept       = "ERR a command that waits knows its ids"
	errTimeoutInteger = "ERR timeout is not an integer or out of range"
)

// streamRead is XREAD, read from its arguments.
type streamRead struct {
	args      resp.Args // with ids only
	count     int64     // 0: all
	blocks    bool
	timeoutMs int64
	keys      []string
	after     []value.StreamID // of each key
}

func cmdXRead(c *ctx, args resp.Args) resp.Reply {
	q, fail, ok := c.parseRead(args)
	if !ok {
		return fail
	}
	p := pending{
		kind: value.StreamKind, keys: q.keys, timeoutMs: q.timeoutMs, absent: resp.NilArray(),
		ready: func(c *ctx, key string) bool {
			s, _, _ := c.lookupStream(key)
			return s.HasAfter(q.of(key))
		},
		take: func(c *ctx, key string) resp.Reply {
			reply, _ := c.readStreams([]string{key}, []value.StreamID{q.of(key)}, q.count)
			return reply
		},
	}
	if c.onlyParses(p) {
		return resp.Reply{}
	}
	reply, found := c.readStreams(q.keys, q.after, q.count)
	if found || !q.blocks {
		return reply
	}
	if c.block != nil {
		c.block.args = q.args
	}
	return c.wait(p)
}

// of is the id behind which a key is read: the first, where it is named twice.
func (q *streamRead) of(key string) value.StreamID { return q.after[slices.Index(q.keys, key)] }

// readStreams answers what streams hold behind ids. found: one of them has something,
// or it is too much.
func (c *ctx) readStreams(keys []string, after []value.StreamID, count int64) (reply resp.Reply, found bool) {
	elems, size := []resp.Reply(nil), int64(0)
	for i, key := range keys {
		s, _, _ := c.lookupStream(key)
		if s == nil || !s.HasAfter(after[i]) {
			continue
		}
		from, _ := after[i].Next()
		items := c.itemsReply(s, from, value.MaxStreamID, count, false)
		if size += items.Size(); items.IsErr() || size > replyBytesMax {
			return resp.Err(errReplyTooLarge), true
		}
		elems = append(elems, resp.Bulk(key), items)
	}
	if elems == nil {
		return resp.NilArray(), false
	}
	return resp.PairMap(elems...), true
}

// parseRead reads the arguments, in the order of Redis's checks. The keys hold streams,
// or nothing.
func (c *ctx) parseRead(args resp.Args) (q *streamRead, fail resp.Reply, ok bool) {
	q = &streamRead{args: args}
	for i := 1; i+1 < len(args); i += 2 {
		switch word := args[i]; {
		case resp.Is(word, "BLOCK"):
			if fail, ok = c.parseReadTimeout(q, args[0], args[i+1]); !ok {
				return q, fail, false
			}
		case resp.Is(word, "COUNT"):
			if q.count, ok = resp.ParseInt(args[i+1]); !ok {
				return q, resp.Err(resp.ErrNotInteger), false
			}
			q.count = max(0, q.count)
		case resp.Is(word, "STREAMS"):
			fail, ok = c.parseStreams(q, i+1)
			return q, fail, ok
		case resp.Is(word, "GROUP") && i+2 < len(args):
			return q, resp.Err(errReadGroup), false
		case resp.Is(word, "NOACK"):
			return q, resp.Err(errReadNoAck), false
		default:
			return q, resp.Err(resp.ErrSyntax), false
		}
	}
	return q, resp.Err(resp.ErrSyntax), false
}

func (c *ctx) parseReadTimeout(q *streamRead, name, word string) (fail resp.Reply, ok bool) {
	if c.run != nil {
		return resp.Errf(errReadScript, name), false
	}
	if q.timeoutMs, ok = resp.ParseInt(word); !ok {
		return resp.Err(errTimeoutInteger), false
	}
	if q.timeoutMs < 0 {
		return resp.Err(errTimeoutNegative), false
	}
	q.blocks = true
	_, ok = c.after(q.timeoutMs)
	return resp.Err(errTimeoutRange), ok
}

// parseStreams reads the keys and, behind them, their ids, which begin at the argument
// from.
func (c *ctx) parseStreams(q *streamRead, from int) (fail resp.Reply, ok bool) {
	n := len(q.args) - from
	if n%2 != 0 {
		return resp.Err(errReadUnbalanced), false
	}
	q.keys = q.args[from : from+n/2]
	for i, key := range q.keys {
		id, fail, ok := c.parseReadID(q, key, from+n/2+i)
		if !ok {
			return fail, false
		}
		q.after = append(q.after, id)
	}
	return resp.Reply{}, true
}

// parseReadID reads the id at an argument. $ is the last that the stream has now: it is
// written down as such, so that a command which waits, or is asked for once more, means
// the same id ever after.
func (c *ctx) parseReadID(q *streamRead, key string, at int) (id value.StreamID, fail resp.Reply, ok bool) {
	kept := c.block != nil && c.block.parseOnly
	var s *value.Stream
	if !kept {
		if s, fail, ok = c.lookupStream(key); !ok {
			return id, fail, false
		}
	}
	switch word := q.args[at]; {
	case word == "$" && kept:
		return id, resp.Err(errReadKept), false
	case word == "$":
		if s != nil {
			id = s.LastID
		}
		q.args = slices.Clone(q.args)
		q.args[at] = id.String()
		return id, fail, true
	case word == ">":
		return id, resp.Err(errReadNew), false
	}
	id, ok = parseExactID(q.args[at], 0)
	return id, resp.Err(errStreamID), ok
}
