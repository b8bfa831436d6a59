package keyspace

import (
	"lockd/keyspace/value"
	"lockd/resp"
	"lockd/resp/acl"
)

// usersMessage tells all users.
func (m *Machine) usersMessage() resp.Message {
	return resp.Message{Kind: resp.MessageUsers, Payload: m.users.Text(), Index: m.usersRev}
}

func writeUsers(u *acl.Users, w *value.Writer) {
	w.U64(uint64(len(u.All())))
	for _, user := range u.All() {
		w.Text(user.Name)
		w.Text(user.Text())
	}
}

func readUsers(r *value.Reader, known *acl.Commands) *acl.Users {
	users, last := acl.NewUsers(known), ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		name, text := r.Text(), r.Text()
		user, err := acl.Read(known, name, text)
		if err != nil || name <= last || user.Text() != text {
			r.Fail("the rules of a user are not what was written")
			break
		}
		users, last = users.With(user), name
	}
	return users
}
