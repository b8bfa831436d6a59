package keyspace

import (
	"strings"

	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
	"lockd/resp/acl"
)

// What is known of the request that is running.

// rights bounds what the scripts of the running request may call.
type rights struct {
	user   string        // whose rights they have; "": all
	denied []resp.Denial // what they were denied
}

// check says whether the user may make a call, whose number of arguments is right, and if not, what is denied. A user
// who is gone by now may call nothing.
func (r *rights) check(users *acl.Users, cmd *acl.Command, args resp.Args) (why acl.Reason, object string, work int64) {
	if r.user == "" {
		return acl.Allowed, "", 0
	}
	user := users.Get(r.user)
	if user == nil {
		return acl.DeniedCommand, cmd.Spec.Name, 0
	}
	why, object, steps := user.Check(cmd, args)
	return why, object, value.FindWork + int64(steps)
}

// record has the result say what a script was denied.
func (r *rights) record(why acl.Reason, object string) {
	d := resp.Denial{Reason: why.String(), Object: strings.Clone(object[:min(len(object), resp.DenialBytesMax)])}
	if len(r.denied) < resp.DenialsMax {
		r.denied = append(r.denied, d)
	}
}

// dryRun is a command that runs to see whether it would change anything.
type dryRun struct {
	running bool
	changes bool // it would: its reply means nothing
}

// stops reports whether a change is only tried, and notes that there would be one.
func (t *dryRun) stops() bool {
	t.changes = t.changes || t.running
	return t.running
}

// found notes an entry that a dry run reads. Whether its lease has ended when the request takes
// effect, only the log can say.
func (t *dryRun) found(now int64, e *store.Entry) {
	if t.running && now > e.Ends() {
		t.changes = true
	}
}
