package state

import (
	"strings"

	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
	"lockd/resp/acl"
)

// What is known of the request that is running.

// Rights bounds what the scripts of the running request may call.
type Rights struct {
	User   string        // whose rights they have; "": all
	Denied []resp.Denial // what they were denied
}

// Check says whether the user may make a call, whose number of arguments is right, and if not, what is denied. A user
// who is gone by now may call nothing.
func (r *Rights) Check(users *acl.Users, cmd *acl.Command, args resp.Args) (why acl.Reason, object string, work int64) {
	if r.User == "" {
		return acl.Allowed, "", 0
	}
	user := users.Get(r.User)
	if user == nil {
		return acl.DeniedCommand, cmd.Spec.Name, 0
	}
	why, object, steps := user.Check(cmd, args)
	return why, object, value.FindWork + int64(steps)
}

// Record has the result say what a script was denied.
func (r *Rights) Record(why acl.Reason, object string) {
	d := resp.Denial{Reason: why.String(), Object: strings.Clone(object[:min(len(object), resp.DenialBytesMax)])}
	if len(r.Denied) < resp.DenialsMax {
		r.Denied = append(r.Denied, d)
	}
}

// DryRun is a command that runs to see whether it would change anything.
type DryRun struct {
	Running bool
	Changes bool // it would: its reply means nothing
}

// Stops reports whether a change is only tried, and notes that there would be one.
func (t *DryRun) Stops() bool {
	t.Changes = t.Changes || t.Running
	return t.Running
}

// Found notes an entry that a dry run reads. Whether its lease has ended when the request takes
// effect, only the log can say.
func (t *DryRun) Found(now int64, e *store.Entry) {
	if t.Running && now > e.Ends() {
		t.Changes = true
	}
}
