package server

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"lockd/resp"
	"lockd/resp/acl"
	"lockd/resp/server/access"
	"lockd/resp/server/pubsub"
)

// users are the users of the cluster as this node knows them. Changes arrive as messages, in the order of the log.
type users struct {
	of      *Server
	now     atomic.Pointer[acl.Users]
	learned atomic.Bool  // they are as new as the start of this process, or newer
	unread  []unreadUser // to be logged; guarded by the hub's lock
}

// unreadUser is a user whose rules do not parse, which does not happen.
type unreadUser struct {
	name string
	err  error
}

// userNews holds the users as published to the hub, perhaps before it has a server.
type userNews struct {
	rev   uint64
	rules map[string]string // by name
	to    *users            // nil: no server yet
}

// serve hands the users, and from now on all changes of them, to a server.
func (h *Hub) serve(u *users) {
	h.withUsers(func(n *userNews) {
		n.to = u
		u.take(n.rules)
	})
}

// publishUsers applies a change of users, unless this node knew it already.
func (h *Hub) publishUsers(m *resp.Message) {
	h.withUsers(func(n *userNews) { n.publish(m) })
}

// withUsers changes the users under the hub's lock, and afterwards logs those whose rules do not parse.
func (h *Hub) withUsers(change func(n *userNews)) {
	h.broker.Lock()
	change(&h.users)
	to, unread := h.users.to, []unreadUser(nil)
	if to != nil {
		unread, to.unread = to.unread, nil
	}
	h.broker.Unlock()
	for _, of := range unread {
		to.of.log.Error("the rules of a user cannot be read: he may do nothing", "user", of.name, "err", of.err)
	}
}

// publish applies a change of users. The hub's lock is held.
func (n *userNews) publish(m *resp.Message) {
	if m.Index < n.rev || m.Index == n.rev && m.Kind == resp.MessageUser {
		return
	}
	n.rev = m.Index
	if m.Kind == resp.MessageUsers {
		n.rules = readRules(m.Payload)
	} else {
		n.change(m.Channel, m.Payload)
	}
	if n.to == nil {
		return
	}
	if m.Kind == resp.MessageUsers {
		n.to.take(n.rules)
	} else {
		n.to.change(m.Channel, m.Payload)
	}
	n.to.endDenied()
}

func (n *userNews) change(name, rules string) {
	if rules == "" {
		delete(n.rules, name)
	} else {
		n.rules[strings.Clone(name)] = rules
	}
}

// readRules parses the result of acl.Users.Text.
func readRules(text string) map[string]string {
	rules := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "user ")
		name, rest, _ := strings.Cut(line, " ")
		rules[name] = rest
	}
	return rules
}

// take makes users of all rules. The hub's lock is held.
func (u *users) take(rules map[string]string) {
	known := u.of.index.known
	next := acl.NewUsers(known).With(u.read(acl.DefaultName, acl.NewDefault(known).Text()))
	for name, text := range rules {
		next = next.With(u.read(name, text))
	}
	u.now.Store(next)
}

// change applies the rules of one user, "" if the user was deleted. The hub's lock is held.
func (u *users) change(name, rules string) {
	now := u.now.Load()
	if rules == "" {
		u.now.Store(now.Without(name))
	} else {
		u.now.Store(now.With(u.read(name, rules)))
	}
}

// read makes a user of its rules. A default user without a password gets requirepass. A user whose rules do not
// parse, which does not happen, may do nothing.
func (u *users) read(name, rules string) *acl.User {
	user, err := acl.Read(u.of.index.known, name, rules)
	if err != nil {
		u.unread = append(u.unread, unreadUser{name, err})
		return acl.New(u.of.index.known, name)
	}
	if name == acl.DefaultName {
		user = user.WithPassword(u.of.password)
	}
	return user
}

// endDenied closes the connections of deleted users, and those that are doing what their users may no longer do:
// listen, wait, monitor. The hub's lock is held.
func (u *users) endDenied() {
	now := u.now.Load()
	for _, c := range u.of.clients() {
		user := now.Get(*c.status.user.Load())
		if user != nil && c.keepsTo(user) {
			continue
		}
		if c.changing.Load() {
			c.leaving.Store(true)
		} else {
			c.kill()
		}
	}
}

// keepsTo reports whether a user may go on with what the session is doing. The hub's lock is held.
func (s *session) keepsTo(user *acl.User) bool {
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
		why, _, _ := user.Check(s.srv.index.names["monitor"].acl, resp.Args{"monitor"})
		return why == acl.Allowed
	}
	return true
}

// learn asks the cluster once for its users: a node that has just started may not have applied the latest changes,
// and its clients must not profit by that. why is the cluster's error reply, if any.
func (u *users) learn(ctx context.Context) (why string) {
	res := u.of.backend.Do(ctx, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{acl.Container.Name, "save"}}}})
	r := replyAt(res, 0)
	if r.IsErr() || len(r.Elems) != 2 {
		return r.Str
	}
	m := resp.Message{Kind: resp.MessageUsers, Index: uint64(r.Elems[0].Int), Payload: r.Elems[1].Str}
	u.of.hub.publishUsers(&m)
	u.learned.Store(true)
	return ""
}

// rights are the rights of the session's user. Only the session's goroutine uses them.
type rights struct {
	all     *acl.Users // the users from which the rest is derived
	as      *acl.User
	authed  bool
	limited bool // calls must be checked
}

var defaultUser = acl.DefaultName

// mustAuth reports whether the client has to authenticate first.
func (s *session) mustAuth() bool { return !s.authed && !s.all.Default().Open() }

// be gives the session the rights of a user.
func (s *session) be(user *acl.User, authed bool) {
	if name := user.Name; name != *s.status.user.Load() {
		s.status.user.Store(&name)
	}
	s.as, s.authed, s.limited = user, authed, !user.Unlimited()
}

// beDefault sets the rights with which a session begins.
func (s *session) beDefault() {
	s.all = s.srv.users.now.Load()
	s.be(s.all.Default(), s.all.Default().Open())
}

// learnWaitMax bounds how long AUTH waits for the users of the cluster.
const learnWaitMax = time.Second

// refreshUsers adopts changed users. why is the error to answer if this node does not know the users yet and cannot
// ask the cluster; a command that only asks for what the node knows itself does not wait for that.
func (s *session) refreshUsers(c *command) (why string) {
	u := &s.srv.users
	if !u.learned.Load() && s.srv.index.hasUsers {
		why = s.learnUsers(c)
	}
	if now := u.now.Load(); now != s.all {
		s.all = now
		if user := now.Get(s.as.Name); user != nil {
			s.be(user, s.authed)
		} else { // its connections are being closed
			s.be(acl.New(s.srv.index.known, s.as.Name), false)
		}
	}
	return why
}

func (s *session) learnUsers(c *command) (why string) {
	isAuth := c.spec.Flags&resp.NoAuth != 0
	switch {
	case isAuth && c.act != nil && c.act.secret != nil:
		ctx, cancel := context.WithTimeout(s.ctx, learnWaitMax)
		defer cancel()
		s.srv.users.learn(ctx)
		return ""
	case c.act != nil && !c.act.asksBackend, c.spec.Flags&resp.Stale != 0 && c.act == nil:
		return ""
	}
	return s.srv.users.learn(s.ctx)
}

// The errors for calls that a user may not make, in Redis's words.
const (
	errNoPermCommand = "NOPERM this user has no permissions to run the '%' command"
	errNoPermKey     = "NOPERM this user has no permissions to access one of the keys used as arguments"
	errNoPermChannel = "NOPERM this user has no permissions to access one of the channels used as arguments"
	errRulesChanged  = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC " +
		"call. This command is no longer allowed for the following reason: "
)

// denies returns the error if the user may not make a call; "": it may.
func (s *session) denies(c *command, args resp.Args) (why string) {
	reason, object, _ := s.as.Check(c.acl, args)
	if reason == acl.Allowed {
		return ""
	}
	s.noteDenied(reason.String(), s.denialContext(), s.as.Name, object)
	switch reason {
	case acl.DeniedKey:
		return errNoPermKey
	case acl.DeniedChannel:
		return errNoPermChannel
	}
	return strings.Replace(errNoPermCommand, "%", c.spec.Name, 1)
}

// denyQueued checks the queued commands again: the rules may have changed since.
func (s *session) denyQueued(tx *transaction) {
	if !s.limited || tx.spoiled {
		return
	}
	for i := range tx.cmds {
		q := &tx.cmds[i]
		reason, object, _ := s.as.Check(q.of.acl, q.args)
		switch reason {
		case acl.Allowed:
			continue
		case acl.DeniedCommand:
			q.denied = errRulesChanged + "no permission to execute the command or subcommand"
		case acl.DeniedKey:
			q.denied = errRulesChanged + "no permission to touch the specified keys"
		case acl.DeniedChannel:
			q.denied = errRulesChanged + "no permission to access one of the channels used as arguments"
		}
		s.noteDenied(reason.String(), s.denialContext(), s.as.Name, object)
	}
}

// scriptUser returns the user whose rights bind the scripts of a request; "": no limits, or no scripts.
func (s *session) scriptUser(cmds []resp.Cmd) string {
	if s.limited {
		for i := range cmds {
			if cmds[i].Spec != nil && cmds[i].Spec.Group == "scripting" {
				return s.as.Name
			}
		}
	}
	return ""
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
		Client: strings.TrimSuffix(string(s.describe(nil, now)), "\n")}, int(s.srv.hub.settings.aclLogMax.Load()))
}
