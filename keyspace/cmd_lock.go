package keyspace

import (
	"fmt"

	"lockd/resp"
)

// A lock is a string key whose value is the token of its holder, however it was taken: by LOCK, by
// SET NX or by a script. So programs move over one at a time. What LOCK adds is a line: who finds a
// lock taken waits in the order of the log, and the entry in which the key goes gives it to the first.
var lockRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "lock", Arity: -5, Flags: resp.Write | resp.DenyOOM | resp.Blocking | resp.Fast,
		Keys: resp.FirstKey, Access: "RW access insert", Waits: "WAIT", Refuses: "*", NilBulk: true,
		Group: "lockd", Since: "1.0.0",
		Summary: "Take a lock for a token, or wait in line for it; the answer is its fence",
		Syntax:  "key token PX milliseconds [WAIT milliseconds]",
	}, Run: cmdLock},
	{Spec: resp.Spec{
		Name: "renew", Arity: 5, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "lockd", Since: "1.0.0",
		Summary: "Begin the lease of a lock anew, if the token holds it; the answer is its fence",
		Syntax:  "key token PX milliseconds",
	}, Run: cmdRenew},
	{Spec: resp.Spec{
		Name: "unlock", Arity: 3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RM delete",
		Group: "lockd", Since: "1.0.0",
		Summary: "Release a lock, if the token holds it, and leave its line",
		Syntax:  "key token",
	}, Run: cmdUnlock},
}

// Limits of a lock.
const (
	lockTokenBytesMax = 512     // the bytes of a token
	lockWaitersMax    = 1 << 14 // who waits in one line
)

// The error texts that only these commands use.
const (
	errTokenEmpty      = "ERR the token of a lock may not be empty"
	errTooManyInLine   = "ERR too many clients wait for this lock"
	errTokenElsewhere  = "ERR another connection waits for this lock with the same token now, in the same place of the line"
	errTokenTooLongFmt = "ERR the token of a lock may have %d bytes at most"
)

// lockRequest is a call of LOCK or RENEW, parsed.
type lockRequest struct {
	key, token string
	leaseMs    int64
	waitMs     int64
}

// parseLock reads key, token and options, in any order; command names the command in an error.
func (c *ctx) parseLock(args resp.Args, command string, mayWait bool) (l lockRequest, err error) {
	l = lockRequest{key: args[1], token: args[2]}
	if err = checkToken(l.token); err != nil {
		return l, err
	}
	leased, waits := false, false
	for i := 3; i < len(args); i += 2 {
		switch {
		case i+1 == len(args):
			return l, resp.Error(resp.ErrSyntax)
		case resp.Is(args[i], "PX") && !leased:
			l.leaseMs, err = c.parseLease(args[i+1], command)
			leased = true
		case resp.Is(args[i], "WAIT") && mayWait && !waits:
			l.waitMs, err = c.parseWait(args[i+1])
			waits = true
		default:
			err = resp.Error(resp.ErrSyntax)
		}
		if err != nil {
			return l, err
		}
	}
	if !leased {
		return l, resp.Error(resp.ErrSyntax)
	}
	return l, nil
}

func checkToken(token string) error {
	switch {
	case token == "":
		return resp.Error(errTokenEmpty)
	case len(token) > lockTokenBytesMax:
		return resp.Error(fmt.Sprintf(errTokenTooLongFmt, lockTokenBytesMax))
	}
	return nil
}

// parseLease reads the length of a lease in milliseconds.
func (c *ctx) parseLease(word, command string) (ms int64, err error) {
	if _, err = c.deadlineOf(expiryPX, word, command); err != nil {
		return 0, err
	}
	ms, _ = resp.ParseInt(word)
	return ms, nil
}

// parseWait reads for how many milliseconds a client will wait.
func (c *ctx) parseWait(word string) (ms int64, err error) {
	ms, ok := resp.ParseInt(word)
	if !ok {
		return 0, resp.Error(errTimeoutInteger)
	}
	if ms < 0 {
		return 0, resp.Error(errTimeoutNegative)
	}
	if _, ok = c.after(ms); !ok {
		return 0, resp.Error(errTimeoutRange)
	}
	return ms, nil
}

func cmdLock(c *ctx, args resp.Args) resp.Reply {
	l, err := c.parseLock(args, "lock", true)
	if err != nil {
		return resp.Fail(err)
	}
	p := pending{kind: lockLine, keys: args[1:2], token: l.token, timeoutMs: l.waitMs, absent: resp.Nil(), take: l.take}
	if c.onlyParses(p) {
		return resp.Reply{}
	}
	e, err := c.lookupString(l.key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case e == nil || e.str() == l.token:
		return l.take(c, l.key)
	case l.waitMs == 0:
		return p.absent
	}
	return c.wait(p)
}

// take gives the lock to the token, or begins its lease anew. The key holds the token, or nothing.
func (l lockRequest) take(c *ctx, key string) resp.Reply {
	until, ok := c.after(l.leaseMs)
	if !ok {
		return invalidExpire("lock")
	}
	if c.lookup(key) != nil {
		return c.renew(key, until)
	}
	c.setString(key, stringValue(l.token), until, true)
	return c.fence(key)
}

// renew begins the lease of a key that is there anew, and answers its fence.
func (c *ctx) renew(key string, until deadline) resp.Reply {
	c.setDeadline(key, until)
	c.notify(notifyGeneric, "expire", key)
	return c.fence(key)
}

// fence answers the fence of a key. In a trial one that was to be stored is not there.
func (c *ctx) fence(key string) resp.Reply {
	e := c.lookup(key)
	if e == nil {
		return resp.Nil()
	}
	return resp.Int(int64(max(e.fence, c.m.dbs[c.db].floor)))
}

func cmdRenew(c *ctx, args resp.Args) resp.Reply {
	l, err := c.parseLock(args, "renew", false)
	if err != nil {
		return resp.Fail(err)
	}
	e, err := c.lookupString(l.key)
	if err != nil || e == nil || e.str() != l.token {
		return orNil(err)
	}
	until, ok := c.after(l.leaseMs)
	if !ok {
		return invalidExpire("renew")
	}
	return c.renew(l.key, until)
}

// cmdUnlock also ends the wait of a token that does not hold the lock yet: its program has given up.
// In a script it does not, as that might be undone.
func cmdUnlock(c *ctx, args resp.Args) resp.Reply {
	key, token := args[1], args[2]
	e, err := c.lookupString(key)
	if err != nil {
		return resp.Fail(err)
	}
	if e != nil && e.str() == token {
		return c.deleteIf(key, true)
	}
	if w := c.m.blocked.tokens[lineToken{lineKey{c.db, key}, token}]; w != nil && c.run == nil {
		c.m.endWait(w, resp.BlockServed, w.absent)
	}
	return resp.Int(0)
}
