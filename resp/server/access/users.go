package access

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/acl"
)

// Users are the users of the cluster as a node knows them. Changes arrive as messages, in the order of the log,
// perhaps before Serve. Its methods are safe for concurrent use, and take the lock.
type Users struct {
	lock    sync.Locker
	now     atomic.Pointer[acl.Users]
	learned atomic.Bool       // they are as new as the start of this process, or newer
	rev     uint64            // the entry of the log that the rules are of
	rules   map[string]string // by name
	of      *Serving          // nil: nobody serves yet
	unread  []unreadUser      // to be logged without the lock
}

// Serving holds the parts of a server that the users of its node need.
type Serving struct {
	Known    *acl.Commands // that rules can name
	Password string        // requirepass: of a default user without a password
	Log      *slog.Logger
	Changed  func() // is called after each change, with the lock held
}

// unreadUser is a user whose rules do not parse, which does not happen.
type unreadUser struct {
	name string
	err  error
}

// NewUsers returns users of which nothing is known. lock guards them.
func NewUsers(lock sync.Locker) *Users { return &Users{lock: lock, rules: map[string]string{}} }

// Now returns the users. It needs no lock.
func (u *Users) Now() *acl.Users { return u.now.Load() }

// Serve makes users of the rules that are known, and from now on of all changes.
func (u *Users) Serve(of *Serving) {
	u.change(func() {
		u.of = of
		u.take()
	})
}

// Publish applies a change of users, unless this node knew it already.
func (u *Users) Publish(m *resp.Message) {
	u.change(func() { u.publish(m) })
}

// change changes the users under the lock, and afterwards logs those whose rules do not parse.
func (u *Users) change(do func()) {
	u.lock.Lock()
	do()
	of, unread := u.of, u.unread
	u.unread = nil
	u.lock.Unlock()
	for _, user := range unread {
		of.Log.Error("the rules of a user cannot be read: the user may do nothing", "user", user.name, "err", user.err)
	}
}

// publish applies a change of users. The lock is held.
func (u *Users) publish(m *resp.Message) {
	if m.Index < u.rev || m.Index == u.rev && m.Kind == resp.MessageUser {
		return
	}
	u.rev = m.Index
	if m.Kind == resp.MessageUsers {
		u.rules = readRules(m.Payload)
	} else {
		u.changeRules(m.Channel, m.Payload)
	}
	switch {
	case u.of == nil:
		return
	case m.Kind == resp.MessageUsers:
		u.take()
	default:
		u.takeOne(m.Channel, m.Payload)
	}
	u.of.Changed()
}

func (u *Users) changeRules(name, rules string) {
	if rules == "" {
		delete(u.rules, name)
	} else {
		u.rules[strings.Clone(name)] = rules
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

// take makes users of all rules. The lock is held.
func (u *Users) take() {
	known := u.of.Known
	next := acl.NewUsers(known).With(u.read(acl.DefaultName, acl.NewDefault(known).Text()))
	for name, text := range u.rules {
		next = next.With(u.read(name, text))
	}
	u.now.Store(next)
}

// takeOne applies the rules of one user, "" if the user was deleted. The lock is held.
func (u *Users) takeOne(name, rules string) {
	now := u.now.Load()
	if rules == "" {
		u.now.Store(now.Without(name))
	} else {
		u.now.Store(now.With(u.read(name, rules)))
	}
}

// read makes a user of its rules. A default user without a password gets requirepass. A user whose rules do not
// parse, which does not happen, may do nothing.
func (u *Users) read(name, rules string) *acl.User {
	user, err := acl.Read(u.of.Known, name, rules)
	if err != nil {
		u.unread = append(u.unread, unreadUser{name, err})
		return acl.New(u.of.Known, name)
	}
	if name == acl.DefaultName {
		user = user.WithPassword(u.of.Password)
	}
	return user
}

// Learned reports whether the users are as new as the start of this process. It needs no lock.
func (u *Users) Learned() bool { return u.learned.Load() }

// Backend runs requests: see Backend of package server.
type Backend interface {
	Do(ctx context.Context, req resp.Request) resp.Result
}

// Learn asks the cluster once for its users: a node that has just started may not have applied the latest changes,
// and its clients must not profit by that. why is the cluster's error reply, if any.
func (u *Users) Learn(ctx context.Context, b Backend) (why string) {
	res := b.Do(ctx, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{acl.Container.Name, "save"}}}})
	r := resp.Err(resp.ErrUnknown)
	if len(res.Replies) > 0 {
		r = res.Replies[0]
	}
	if r.IsErr() || len(r.Elems) != 2 {
		return r.Str
	}
	m := resp.Message{Kind: resp.MessageUsers, Index: uint64(r.Elems[0].Int), Payload: r.Elems[1].Str}
	u.Publish(&m)
	u.learned.Store(true)
	return ""
}
