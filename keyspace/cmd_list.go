package keyspace

import "lockd/resp"

var listRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "lpush", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "list", Since: "1.0.0", Summary: "Prepend one or multiple elements to a list",
		Syntax: "key element [element ...]",
	}, Run: cmdLPush},
	{Spec: resp.Spec{
		Name: "rpush", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "list", Since: "1.0.0", Summary: "Append one or multiple elements to a list",
		Syntax: "key element [element ...]",
	}, Run: cmdRPush},
	{Spec: resp.Spec{
		Name: "lpushx", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "list", Since: "2.2.0", Summary: "Prepend an element to a list, only if the list exists",
		Syntax: "key element [element ...]",
	}, Run: cmdLPushX},
	{Spec: resp.Spec{
		Name: "rpushx", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "list", Since: "2.2.0", Summary: "Append an element to a list, only if the list exists",
		Syntax: "key element [element ...]",
	}, Run: cmdRPushX},
	{Spec: resp.Spec{
		Name: "lpop", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey,
		Group: "list", Since: "1.0.0", Summary: "Remove and get the first elements in a list",
		Syntax: "key [count]",
	}, Run: cmdLPop},
	{Spec: resp.Spec{
		Name: "rpop", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey,
		Group: "list", Since: "1.0.0", Summary: "Remove and get the last elements in a list",
		Syntax: "key [count]",
	}, Run: cmdRPop},
	{Spec: resp.Spec{
		Name: "llen", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "list", Since: "1.0.0", Summary: "Get the length of a list",
		Syntax: "key",
	}, Run: cmdLLen},
	{Spec: resp.Spec{
		Name: "lrange", Arity: 4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "list", Since: "1.0.0", Summary: "Get a range of elements from a list",
		Syntax: "key start stop",
	}, Run: cmdLRange},
}

const errNotPositive = "ERR value is out of range, must be positive"

// The events of pushing to and popping from each end.
var (
	pushEvents = [...]string{left: "lpush", right: "rpush"}
	popEvents  = [...]string{left: "lpop", right: "rpop"}
)

func cmdLPush(c *ctx, args resp.Args) resp.Reply  { return c.pushAll(args, left, false) }
func cmdRPush(c *ctx, args resp.Args) resp.Reply  { return c.pushAll(args, right, false) }
func cmdLPushX(c *ctx, args resp.Args) resp.Reply { return c.pushAll(args, left, true) }
func cmdRPushX(c *ctx, args resp.Args) resp.Reply { return c.pushAll(args, right, true) }

// pushAll pushes one element after the other; with onlyThere, only to a list that
// is there. It answers how many there are then.
func (c *ctx) pushAll(args resp.Args, end listEnd, onlyThere bool) resp.Reply {
	key := args[1]
	l, fail, ok := c.lookupList(key)
	switch {
	case !ok:
		return fail
	case l == nil && onlyThere:
		return resp.Int(0)
	}
	n := 0
	c.editList(key, func(l *list) {
		for _, s := range args[2:] {
			l.push(end, s)
		}
		n = l.len()
	})
	c.notify(notifyList, pushEvents[end], key)
	return resp.Int(int64(n))
}

func cmdLPop(c *ctx, args resp.Args) resp.Reply { return c.popKey(args, left) }
func cmdRPop(c *ctx, args resp.Args) resp.Reply { return c.popKey(args, right) }

// popKey is LPOP: one element by itself, or as many as a count says, as an array.
func (c *ctx) popKey(args resp.Args, end listEnd) resp.Reply {
	if len(args) > 3 {
		return resp.WrongArity(popEvents[end])
	}
	count, absent := int64(1), resp.Nil()
	if len(args) == 3 {
		n, fail, ok := parsePositive(args[2])
		if !ok {
			return fail
		}
		count, absent = n, resp.NilArray()
	}
	l, fail, ok := c.lookupList(args[1])
	switch {
	case !ok:
		return fail
	case l == nil:
		return absent
	case count == 0:
		return resp.Array()
	}
	popped := c.pop(args[1], l, end, count)
	if len(args) == 2 && !popped.IsErr() {
		return popped.Elems[0]
	}
	return popped
}

// parsePositive reads a number that may not be negative.
func parsePositive(number string) (n int64, fail resp.Reply, ok bool) {
	n, ok = resp.ParseInt(number)
	if !ok || n < 0 {
		return 0, resp.Err(errNotPositive), false
	}
	return n, resp.Reply{}, true
}

// pop removes up to count elements, count > 0, at an end of the list at key and
// answers them, from the end inwards. If they are too many for a reply it changes
// nothing and answers so.
func (c *ctx) pop(key string, l *list, end listEnd, count int64) resp.Reply {
	from, to := l.end(end, count)
	popped := l.replies(from, to, end)
	if popped.IsErr() {
		return popped
	}
	emptied := c.editList(key, func(l *list) { l.items.cut(from, to) })
	c.notify(notifyList, popEvents[end], key)
	if emptied {
		c.notify(notifyGeneric, "del", key)
	}
	return popped
}

// replies is an array of the elements of a range, the first at the given end.
func (l *list) replies(from, to int, first listEnd) resp.Reply {
	elems := []resp.Reply{}
	size := int64(0)
	take := func(s string) bool {
		elems = append(elems, resp.Bulk(s))
		size += elems[len(elems)-1].Size()
		return size <= replyBytesMax && len(elems) < to-from
	}
	switch {
	case from == to:
	case first == left:
		l.items.ascend(from, take)
	default:
		l.items.descend(to-1, take)
	}
	if size > replyBytesMax {
		return resp.Err(errReplyTooLarge)
	}
	return resp.Array(elems...)
}

func cmdLLen(c *ctx, args resp.Args) resp.Reply {
	l, fail, ok := c.lookupList(args[1])
	switch {
	case !ok:
		return fail
	case l == nil:
		return resp.Int(0)
	}
	return resp.Int(int64(l.len()))
}

func cmdLRange(c *ctx, args resp.Args) resp.Reply {
	first, last, fail, ok := parseSpan(args)
	if !ok {
		return fail
	}
	l, fail, ok := c.lookupList(args[1])
	switch {
	case !ok:
		return fail
	case l == nil:
		return resp.Array()
	}
	from, to := l.span(first, last)
	return l.replies(from, to, left)
}

// parseSpan reads the two indexes that follow the key.
func parseSpan(args resp.Args) (first, last int64, fail resp.Reply, ok bool) {
	first, ok1 := resp.ParseInt(args[2])
	last, ok2 := resp.ParseInt(args[3])
	if !ok1 || !ok2 {
		return 0, 0, resp.Err(resp.ErrNotInteger), false
	}
	return first, last, resp.Reply{}, true
}
