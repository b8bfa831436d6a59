package command

import (
	"slices"

	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

var streamReadRows = []row{
	{Spec: resp.Spec{
		Name: "xread", Arity: -4, Flags: resp.ReadOnly | resp.Blocking | resp.MovableKeys,
		Keys: resp.Keys{Half: "STREAMS"}, Waits: "BLOCK",
		Group: "stream", Since: "5.0.0",
		Summary: "Return never seen elements in multiple streams, with IDs greater than the ones reported by the " +
			"caller for each stream. Can block.",
		Syntax: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
	}, Parse: parseXRead},
}

// The error texts that only this command uses.
const (
	errReadUnbalanced = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
	errReadGroup      = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
	errReadNoAck      = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
	errReadNew        = "ERR The > ID can be specified only when calling XREADGROUP " +
		"using the GROUP <group> <consumer> option."
	errReadScript     = "ERR %s command is not allowed with BLOCK option from scripts"
	errTimeoutInteger = "ERR timeout is not an integer or out of range"
)

// streamRead is XREAD. What is wrong with an id Run says, as Redis looks for a key before it reads its id; so it does of
// what stands behind BLOCK, which scripts are refused first. Run writes ids down in it.
type streamRead struct {
	args      resp.Args // with ids only
	count     int64     // 0: all
	blocks    bool
	timeoutMs int64
	keys      []string
	read      int              // how many of them have an id that was read, the last perhaps a wrong one
	after     []value.StreamID // of each key
	last      []int            // the places of keys that are read from what they have now on: $
	wrong     error            // what Run says of the arguments behind BLOCK or of the ids; nil: nothing is wrong
}

// waits is nil for a call that does not know its ids.
func (q *streamRead) waits() *blocking {
	if q.wrong != nil || len(q.last) > 0 {
		return nil
	}
	return q.blocking()
}

func (q *streamRead) blocking() *blocking {
	return &blocking{
		kind: value.StreamKind, keys: q.keys, timeoutMs: q.timeoutMs, absent: resp.NilArray,
		ready: func(c *Ctx, key string) bool {
			s, _ := lookupStream(c, key)
			return s.HasAfter(q.of(key))
		},
		take: func(c *Ctx, key string) (resp.Reply, *wait.Reversal) {
			reply, _ := readStreams(c, []string{key}, []value.StreamID{q.of(key)}, q.count)
			return reply, nil
		},
	}
}

func (q *streamRead) Run(c *Ctx) resp.Reply {
	err := findStreams(c, q)
	if err == nil {
		err = q.wrong
	}
	if err != nil {
		return resp.Fail(err)
	}
	if err := c.begin(q.timeoutMs, q.blocking); err != nil {
		return resp.Fail(err)
	}
	reply, found := readStreams(c, q.keys, q.after, q.count)
	if found || !q.blocks {
		return reply
	}
	if c.block != nil {
		c.block.Args = q.args
	}
	return c.wait(resp.NilArray())
}

// of is the id behind which a key is read: the first, where it is named twice.
func (q *streamRead) of(key string) value.StreamID { return q.after[slices.Index(q.keys, key)] }

// readStreams answers what streams hold behind ids. found: one of them has something,
// or it is too much.
func readStreams(c *Ctx, keys []string, after []value.StreamID, count int64) (reply resp.Reply, found bool) {
	elems, size := []resp.Reply(nil), int64(0)
	for i, key := range keys {
		s, _ := lookupStream(c, key)
		if s == nil || !s.HasAfter(after[i]) {
			continue
		}
		from, _ := after[i].Next()
		items := itemsReply(c, s, from, value.MaxStreamID, count, false)
		if size += items.Size(); items.IsErr() || size > meter.ReplyBytesMax {
			return resp.Err(meter.ErrReplyTooLarge), true
		}
		elems = append(elems, resp.Bulk(key), items)
	}
	if elems == nil {
		return resp.NilArray(), false
	}
	return resp.PairMap(elems...), true
}

// findStreams makes sure that the keys hold streams, or nothing: of arguments that are wrong those before the first that
// is, as Redis looks for a key before it reads its id. $ is the last id that a stream has now: it is written
// down as such, so that a command which waits, or is asked for once more, means the same id ever after.
func findStreams(c *Ctx, q *streamRead) error {
	if c.run != nil && q.blocks {
		return resp.Errorf(errReadScript, q.args[0])
	}
	last := q.last
	if len(last) > 0 {
		q.args = slices.Clone(q.args)
	}
	for i, key := range q.keys[:q.read] {
		s, err := lookupStream(c, key)
		if err != nil {
			return err
		}
		if len(last) == 0 || last[0] != i {
			continue
		}
		last = last[1:]
		if s != nil {
			q.after[i] = s.LastID
		}
		q.args[len(q.args)-len(q.keys)+i] = q.after[i].String()
	}
	return nil
}

func parseXRead(args resp.Args) (call, error) {
	q, err := parseRead(args)
	if q.wrong = err; err != nil && !q.blocks && q.read == 0 {
		return nil, err
	}
	return q, nil
}

// parseRead reads the arguments, in the order of Redis's checks.
func parseRead(args resp.Args) (q *streamRead, err error) {
	q = &streamRead{args: args}
	for i := 1; i+1 < len(args); i += 2 {
		switch word := args[i]; {
		case resp.Is(word, "BLOCK"):
			if err = q.parseTimeout(args[i+1]); err != nil {
				return q, err
			}
		case resp.Is(word, "COUNT"):
			n, ok := resp.ParseInt(args[i+1])
			if !ok {
				return q, resp.Error(resp.ErrNotInteger)
			}
			q.count = max(0, n)
		case resp.Is(word, "STREAMS"):
			return q, q.parseStreams(i + 1)
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

func (q *streamRead) parseTimeout(word string) error {
	n, ok := resp.ParseInt(word)
	switch q.timeoutMs, q.blocks = n, true; {
	case !ok:
		return resp.Error(errTimeoutInteger)
	case n < 0:
		return resp.Error(errTimeoutNegative)
	}
	return nil
}

// parseStreams reads the keys and, behind them, their ids, which begin at the argument
// from.
func (q *streamRead) parseStreams(from int) error {
	n := len(q.args) - from
	if n%2 != 0 {
		return resp.Error(errReadUnbalanced)
	}
	q.keys = q.args[from : from+n/2]
	q.after = make([]value.StreamID, len(q.keys))
	for i := range q.keys {
		var ok bool
		q.read++
		switch word := q.args[from+n/2+i]; word {
		case "$":
			q.last = append(q.last, i)
		case ">":
			return resp.Error(errReadNew)
		default:
			if q.after[i], ok = parseExactID(word, 0); !ok {
				return resp.Error(errStreamID)
			}
		}
	}
	return nil
}
