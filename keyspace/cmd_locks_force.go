package keyspace

import (
	"slices"
	"strconv"

	"lockd/keyspace/history"
	"lockd/keyspace/value"
	"lockd/resp"
)

// The end of a lock, by whoever may: LOCKS FORCE.

// The error texts of LOCKS FORCE.
const (
	errReasonEmpty   = "ERR the reason may not be empty"
	errTokensBeginSo = "ERR the tokens of several holders begin so: name one in full"
)

// forceOptions say for whom of its holders a lock is ended, and why. The fence is that of the lock as somebody
// has seen it: who has it by now keeps it.
type forceOptions struct {
	token  string // in full, or as much as is shown of it; "": anyone
	fence  uint64 // 0: any
	reason string
}

// parseForce reads TOKEN, FENCE and REASON, in any order.
func parseForce(args resp.Args) (o forceOptions, err error) {
	for i := 0; i < len(args); i += 2 {
		switch {
		case i+1 == len(args):
			return o, resp.Error(resp.ErrSyntax)
		case resp.Is(args[i], "TOKEN") && o.token == "":
			o.token = args[i+1]
			err = checkToken(o.token)
		case resp.Is(args[i], "FENCE") && o.fence == 0:
			o.fence, err = parseFence(args[i+1])
		case resp.Is(args[i], "REASON") && o.reason == "":
			if o.reason = args[i+1]; o.reason == "" {
				err = resp.Error(errReasonEmpty)
			} else {
				err = checkLength("reason", o.reason, lockReasonBytesMax)
			}
		default:
			err = resp.Error(resp.ErrSyntax)
		}
		if err != nil {
			return o, err
		}
	}
	if o.reason == "" {
		return o, resp.Error(resp.ErrSyntax)
	}
	return o, nil
}

func parseFence(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 {
		return 0, resp.Error(resp.ErrNotInteger)
	}
	return n, nil
}

// cmdLocksForce answers how many have lost the lock by it.
func cmdLocksForce(c *ctx, args resp.Args) resp.Reply {
	key := args[2]
	o, err := parseForce(args[3:])
	if err != nil {
		return resp.Fail(err)
	}
	e := c.lookup(key)
	switch {
	case e == nil || e.agg() == nil && e.mark() != isLock:
		return resp.Int(0)
	case e.agg() != nil && e.lock() == nil && e.hashLock() == nil:
		return resp.Err(resp.ErrWrongType)
	}
	c.why.how, c.why.reason = history.Forced, o.reason
	all := c.holdersOf(e)
	holders := all
	if o.fence != 0 {
		holders = slices.DeleteFunc(slices.Clone(all), func(h *value.Holder) bool { return c.fenceOf(e, h) != o.fence })
	}
	if o.token != "" {
		h, err := holderFor(holders, o.token)
		if h == nil {
			return orZero(err)
		}
		holders = []*value.Holder{h}
	}
	switch {
	case len(holders) == 0:
		return resp.Int(0)
	case len(holders) < len(all): // one of several: each has a fence of its own, or all have the same
		c.dropOne(key, e, holders[0].Token)
		return resp.Int(1)
	}
	c.deleteNotify(key)
	return resp.Int(int64(len(holders)))
}

// dropOne ends a lock for one of several.
func (c *ctx) dropOne(key string, e *entry, token string) {
	if e.lock() != nil {
		c.dropHolder(key, e, token)
		return
	}
	c.editHash(key, func(h *value.Hash) {
		c.m.spend(h.FindWork(token))
		h.Delete(token)
	})
	c.notify(notifyHash, "hdel", key)
}

// holderFor is the holder whom a token names, in full or by as much as is shown of it; nil: nobody.
func holderFor(holders []*value.Holder, token string) (found *value.Holder, err error) {
	for _, h := range holders {
		switch {
		case h.Token == token:
			return h, nil
		case !history.FitsToken(h.Token, token):
		case found != nil:
			err = resp.Error(errTokensBeginSo)
		default:
			found = h
		}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}
