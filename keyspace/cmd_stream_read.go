package keyspace

import (
	"slices"

	"lockd/keyspace/value"
	"lockd/resp"
)

var streamReadRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "xread", Arity: -4, Flags: resp.ReadOnly | resp.Blocking | resp.MovableKeys,
		Keys: resp.Keys{Half: "STREAMS"}, Waits: "BLOCK",
		Group: "stream", Since: "5.0.0",
		Summary: "Return never seen elements in multiple streams, with IDs greater than the ones reported by the " +
			"caller for each stream. Can block.",
		Syntax: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
	}, Run: cmdXRead},
}

// The error texts that only this command uses.
const (
	errReadUnbalanced = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
	errReadGroup      = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
	errReadNoAck      = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
	errReadNew        = "ERR The > ID can be specified only when calling XREADGROUP " +
		"using the GROUP <group> <consumer> option."
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
	q, err := c.parseRead(args)
	if err != nil {
		return resp.Fail(err)
	}
	p := pending{
		kind: value.StreamKind, keys: q.keys, timeoutMs: q.timeoutMs, absent: resp.NilArray,
		ready: func(c *ctx, key string) bool {
			s, _ := c.lookupStream(key)
			return s.HasAfter(q.of(key))
		},
		take: func(c *ctx, key string) (resp.Reply, *reversal) {
			reply, _ := c.readStreams([]string{key}, []value.StreamID{q.of(key)}, q.count)
			return reply, nil
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
		s, _ := c.lookupStream(key)
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
func (c *ctx) parseRead(args resp.Args) (q *streamRead, err error) {
	q = &streamRead{args: args}
	for i := 1; i+1 < len(args); i += 2 {
		switch word := args[i]; {
		case resp.Is(word, "BLOCK"):
			if err = c.parseReadTimeout(q, args[0], args[i+1]); err != nil {
				return q, err
			}
		case resp.Is(word, "COUNT"):
			n, ok := resp.ParseInt(args[i+1])
			if !ok {
				return q, resp.Error(resp.ErrNotInteger)
			}
			q.count = max(0, n)
		case resp.Is(word, "STREAMS"):
			return q, c.parseStreams(q, i+1)
		case resp.Is(word, "GROUP") && i+2 < len(args):
			return q, resp.Error(errReadGroup)
		case resp.Is(word, "NOACK"):
			return q, resp.Error(errReadNoAck)
		default:
			return q, resp.Error(resp.ErrSyntax)
		}
	}
	return q, resp.Error(resp.ErrSyntax)
}

func (c *ctx) parseReadTimeout(q *streamRead, name, word string) error {
	if c.run != nil {
		return resp.Errorf(errReadScript, name)
	}
	n, ok := resp.ParseInt(word)
	switch q.timeoutMs, q.blocks = n, true; {
	case !ok:
		return resp.Error(errTimeoutInteger)
	case n < 0:
		return resp.Error(errTimeoutNegative)
	}
	if _, ok = c.after(n); !ok {
		return resp.Error(errTimeoutRange)
	}
	return nil
}

// parseStreams reads the keys and, behind them, their ids, which begin at the argument
// from.
func (c *ctx) parseStreams(q *streamRead, from int) error {
	n := len(q.args) - from
	if n%2 != 0 {
		return resp.Error(errReadUnbalanced)
	}
	q.keys = q.args[from : from+n/2]
	for i, key := range q.keys {
		id, err := c.parseReadID(q, key, from+n/2+i)
		if err != nil {
			return err
		}
		q.after = append(q.after, id)
	}
	return nil
}

// parseReadID reads the id at an argument. $ is the last that the stream has now: it is
// written down as such, so that a command which waits, or is asked for once more, means
// the same id ever after.
func (c *ctx) parseReadID(q *streamRead, key string, at int) (id value.StreamID, err error) {
	kept := c.block != nil && c.block.parseOnly
	var s *value.Stream
	if !kept {
		if s, err = c.lookupStream(key); err != nil {
			return id, err
		}
	}
	switch word := q.args[at]; {
	case word == "$" && kept:
		return id, resp.Error(errReadKept)
	case word == "$":
		if s != nil {
			id = s.LastID
		}
		q.args = slices.Clone(q.args)
		q.args[at] = id.String()
		return id, nil
	case word == ">":
		return id, resp.Error(errReadNew)
	}
	id, ok := parseExactID(q.args[at], 0)
	if !ok {
		return id, resp.Error(errStreamID)
	}
	return id, nil
}
