package access

import (
	"strings"
	"sync/atomic"

	"lockd/resp"
	"lockd/resp/acl"
)

// Rights has the rights of the user of a connection. Only the connection's own goroutine uses them, except Name.
type Rights struct {
	users   *Users
	all     *acl.Users // the users from which the rest is derived
	user    *acl.User
	authed  bool
	limited bool // calls must be checked

	name atomic.Pointer[string] // of the user
}

// Init gives the rights with which a connection begins. It is called before anything else.
func (r *Rights) Init(users *Users) {
	r.users = users
	r.Reset()
}

// Reset gives the rights with which a connection begins, those of the default user.
func (r *Rights) Reset() {
	r.all = r.users.Now()
	r.become(r.all.Default(), r.all.Default().Open())
}

// become gives the rights of a user.
func (r *Rights) become(user *acl.User, authed bool) {
	if now := r.name.Load(); now == nil || *now != user.Name {
		r.name.Store(&user.Name)
	}
	r.user, r.authed, r.limited = user, authed, !user.Unlimited()
}

// Name returns the name of the user. Any goroutine may call it.
func (r *Rights) Name() string { return *r.name.Load() }

// All returns the users as the connection knows them.
func (r *Rights) All() *acl.Users { return r.all }

// Authenticated reports whether the client has authenticated, or need not.
func (r *Rights) Authenticated() bool { return r.authed }

// MustAuth reports whether the client has to authenticate first.
func (r *Rights) MustAuth() bool { return !r.authed && !r.all.Default().Open() }

// Limited reports whether calls have to be checked: the user may not make all of them.
func (r *Rights) Limited() bool { return r.limited }

// Refresh adopts changes of users.
func (r *Rights) Refresh() {
	now := r.users.Now()
	if now == r.all {
		return
	}
	r.all = now
	if user := now.Get(r.user.Name); user != nil {
		r.become(user, r.authed)
	} else { // its connections are being closed
		r.become(acl.New(r.users.of.Known, r.user.Name), false)
	}
}

// Login gives the rights of a user if the password is right, and reports whether it is.
func (r *Rights) Login(name, password string) bool {
	user := r.all.Get(name)
	if user == nil || !user.Lets(password) {
		return false
	}
	r.become(user, true)
	return true
}

// Check returns why the user may not make a call, and the object that is denied; acl.Allowed: it may.
func (r *Rights) Check(c *acl.Command, args resp.Args) (why acl.Reason, object string) {
	why, object, _ = r.user.Check(c, args)
	return why, object
}

// ScriptUser returns the user whose rights bind the scripts of a request; "": no limits, or no scripts.
func (r *Rights) ScriptUser(cmds []resp.Cmd) string {
	if r.limited {
		for i := range cmds {
			if cmds[i].Spec != nil && cmds[i].Spec.Group == "scripting" {
				return r.user.Name
			}
		}
	}
	return ""
}

// The errors for calls that a user may not make, in Redis's words.
const (
	errNoPermCommand = "NOPERM this user has no permissions to run the '%' command"
	errNoPermKey     = "NOPERM this user has no permissions to access one of the keys used as arguments"
	errNoPermChannel = "NOPERM this user has no permissions to access one of the channels used as arguments"
	errRulesChanged  = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC " +
		"call. This command is no longer allowed for the following reason: "
)

// Refusal returns the error of a call that is denied; command is its name.
func Refusal(why acl.Reason, command string) string {
	switch why {
	case acl.DeniedKey:
		return errNoPermKey
	case acl.DeniedChannel:
		return errNoPermChannel
	}
	return strings.Replace(errNoPermCommand, "%", command, 1)
}

// LateRefusal returns the error of a queued call that has been denied since.
func LateRefusal(why acl.Reason) string {
	switch why {
	case acl.DeniedKey:
		return errRulesChanged + "no permission to touch the specified keys"
	case acl.DeniedChannel:
		return errRulesChanged + "no permission to access one of the channels used as arguments"
	}
	return errRulesChanged + "no permission to execute the command or subcommand"
}
