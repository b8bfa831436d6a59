package server

import (
	"context"
	"slices"
	"strconv"
	"time"

	"lockd/resp"
	"lockd/resp/acl"
	"lockd/resp/server/access"
)

// gate returns the error of a command that may neither run nor be queued; "": it may.
type gate func(s *session, c *command, args resp.Args) (why string)

// gates are the checks of a command after its name and arity, in Redis's order (processCommand of server.c).
var gates = [...]gate{
	knowsUsers, loggedIn, allowedInMulti, permitted, servedHere, allowedToSubscriber, allowedToMonitor,
}

// learnWaitMax bounds how long AUTH waits for the users of the cluster.
const learnWaitMax = time.Second

// knowsUsers adopts changed users. It refuses if this node does not know the users yet and cannot ask the cluster; a
// command that only asks for what the node knows itself does not wait for that.
func knowsUsers(s *session, c *command, _ resp.Args) (why string) {
	u := s.srv.hub.users
	if !u.Learned() && s.srv.index.hasUsers {
		why = learnUsers(s, c)
	}
	s.rights.Refresh()
	return why
}

func learnUsers(s *session, c *command) (why string) {
	isAuth := c.spec.Flags&resp.NoAuth != 0
	switch {
	case isAuth && c.act != nil && c.act.secret != nil:
		ctx, cancel := context.WithTimeout(s.ctx, learnWaitMax)
		defer cancel()
		s.srv.hub.users.Learn(ctx, s.srv.backend)
		return ""
	case c.act != nil && !c.act.asksBackend, c.spec.Flags&resp.Stale != 0 && c.act == nil:
		return ""
	}
	return s.srv.hub.users.Learn(s.ctx, s.srv.backend)
}

func loggedIn(s *session, c *command, _ resp.Args) string {
	if s.rights.MustAuth() && c.spec.Flags&resp.NoAuth == 0 {
		return resp.ErrNoAuth
	}
	return ""
}

func allowedInMulti(s *session, c *command, _ resp.Args) string {
	if s.tx.open && c.spec.Flags&resp.NoMulti != 0 {
		return "ERR Command not allowed inside a transaction"
	}
	return ""
}

// permitted checks the rights of the user.
func permitted(s *session, c *command, args resp.Args) string {
	if !s.rights.Limited() {
		return ""
	}
	reason, object := s.rights.Check(c.acl, args)
	if reason == acl.Allowed {
		return ""
	}
	s.srv.recordDenial(s.client, reason.String(), s.tx.context(), s.rights.Name(), object)
	return access.Refusal(reason, c.spec.Name)
}

// servedHere sends a command with keys to another node, if this node is configured not to serve such commands. Reads
// after READONLY stay: they are linearizable through every node.
func servedHere(s *session, c *command, args resp.Args) (moved string) {
	if s.srv.redirect == nil || s.readOnly.Load() && c.spec.Flags&resp.ReadOnly != 0 {
		return ""
	}
	keys, ok := c.spec.Keys.Of(args)
	if !ok || len(keys) == 0 {
		return ""
	}
	addr := s.srv.redirect(s.tls)
	if addr == "" {
		return ""
	}
	return "MOVED " + strconv.Itoa(resp.Slot(keys[0])) + " " + addr
}

func allowedToSubscriber(s *session, c *command, _ resp.Args) string {
	if s.sub.Subscribes() && s.proto.Load() < 3 && (c.act == nil || !c.act.whileSubscribed) {
		return "ERR Can't execute '" + c.spec.Name +
			"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
	}
	return ""
}

func allowedToMonitor(s *session, c *command, _ resp.Args) string {
	if s.monitors.Load() && c.spec.Flags&(resp.ReadOnly|resp.Write|resp.MayReplicate) != 0 {
		return "ERR Replica can't interact with the keyspace"
	}
	return ""
}

// waitOutPause delays a command while clients are paused; the commands before it are answered. It returns false if
// the client disconnects meanwhile.
func waitOutPause(s *session, c *command) bool {
	p := &s.srv.pause
	if !p.active.Load() || s.monitors.Load() {
		return true
	}
	writes := mayWrite(s, c)
	for {
		left, changed := p.left(writes, s.srv.clock())
		if left <= 0 {
			return true
		}
		s.endRun()
		if s.flush() != nil || !sleep(s, left, changed) {
			s.closing = true
			return false
		}
	}
}

func sleep(s *session, d time.Duration, changed <-chan struct{}) bool {
	s.blocked.Store(true)
	defer s.blocked.Store(false)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-s.ctx.Done():
		return false
	}
	return true
}

// mayWrite reports whether a command counts as a write for CLIENT PAUSE.
func mayWrite(s *session, c *command) bool {
	const writes = resp.Write | resp.MayReplicate
	if c.act == nil || !c.act.executes || !s.tx.open {
		return c.spec.Flags&writes != 0
	}
	return slices.ContainsFunc(s.tx.cmds, func(q queued) bool { return q.of.spec.Flags&writes != 0 })
}
