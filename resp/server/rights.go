package server

import (
	"context"
	"strings"
	"time"

	"lockd/resp"
	"lockd/resp/acl"
	"lockd/resp/server/access"
	"lockd/resp/server/pubsub"
)

// keepsTo reports whether a user may go on with what the client is doing; monitor is the command MONITOR. The broker's
// lock is held.
func (s *client) keepsTo(user *acl.User, monitor *acl.Command) bool {
	if user.Unlimited() {
		return true
	}
	for _, k := range []pubsub.Kind{pubsub.Channel, pubsub.Pattern, pubsub.Shard} {
		for name := range s.sub.Names(k) {
			if !user.HasChannel(name, k == pubsub.Pattern) {
				return false
			}
		}
	}
	if p := s.waiter.Load(); p != nil {
		if why, _, _ := user.Check(p.cmd.acl, p.args); why != acl.Allowed {
			return false
		}
	}
	if s.monitors.Load() {
		why, _, _ := user.Check(monitor, resp.Args{"monitor"})
		return why == acl.Allowed
	}
	return true
}

// learnWaitMax bounds how long AUTH waits for the users of the cluster.
const learnWaitMax = time.Second

// refreshUsers adopts changed users. why is the error to answer if this node does not know the users yet and cannot
// ask the cluster; a command that only asks for what the node knows itself does not wait for that.
func (s *session) refreshUsers(c *command) (why string) {
	u := s.srv.hub.users
	if !u.Learned() && s.srv.index.hasUsers {
		why = s.learnUsers(c)
	}
	s.rights.Refresh()
	return why
}

func (s *session) learnUsers(c *command) (why string) {
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

// denies returns the error if the user may not make a call; "": it may.
func (s *session) denies(c *command, args resp.Args) (why string) {
	reason, object := s.rights.Check(c.acl, args)
	if reason == acl.Allowed {
		return ""
	}
	s.noteDenied(reason.String(), s.denialContext(), s.rights.Name(), object)
	return access.Refusal(reason, c.spec.Name)
}

// denyQueued checks the queued commands again: the rules may have changed since.
func (s *session) denyQueued(tx *transaction) {
	if !s.rights.Limited() || tx.spoiled {
		return
	}
	for i := range tx.cmds {
		q := &tx.cmds[i]
		reason, object := s.rights.Check(q.of.acl, q.args)
		if reason != acl.Allowed {
			q.denied = access.LateRefusal(reason)
			s.noteDenied(reason.String(), s.denialContext(), s.rights.Name(), object)
		}
	}
}

// denialContext returns the context of ACL LOG for a command that the client itself calls.
func (s *session) denialContext() string {
	if s.tx != nil {
		return "multi"
	}
	return "toplevel"
}

// noteScripts writes into ACL LOG what the scripts of a request were denied by the rights of a user.
func (s *session) noteScripts(user string, res resp.Result) {
	for _, d := range res.Denied {
		s.noteDenied(d.Reason, "lua", user, d.Object)
	}
}

// noteDenied writes a denied call, or a failed login, into ACL LOG.
func (s *session) noteDenied(reason, context, user, object string) {
	now := s.srv.clock()
	s.srv.aclLog.Add(access.Denied{Reason: reason, Context: context, Object: object, User: user, At: now,
		Client: strings.TrimSuffix(string(s.describe(nil, now)), "\n")}, int(s.srv.hub.settings.ACLLogMax.Load()))
}
