package acl

import (
	"maps"
	"slices"
	"strings"

	"lockd/resp"
)

// Users are all users at one moment, by name. It does not change.
type Users struct {
	list  []*User
	bytes int // of all rules
}

// NewUsers are the users of a new server: the default user alone.
func NewUsers(known *Commands) *Users { return usersOf(known, nil) }

// usersOf are those of a map, and the default user.
func usersOf(known *Commands, byName map[string]*User) *Users {
	u := &Users{list: slices.Collect(maps.Values(byName))}
	if byName[DefaultName] == nil {
		u.list = append(u.list, NewDefault(known))
	}
	slices.SortFunc(u.list, func(a, b *User) int { return strings.Compare(a.Name, b.Name) })
	for _, user := range u.list {
		u.bytes += user.bytes()
	}
	return u
}

func (u *Users) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(u.list, name, func(a *User, name string) int { return strings.Compare(a.Name, name) })
}

// Get finds a user; nil if there is none.
func (u *Users) Get(name string) *User {
	if at, found := u.find(name); found {
		return u.list[at]
	}
	return nil
}

// Default is the default user, which is always there.
func (u *Users) Default() *User { return u.Get(DefaultName) }

// All lists the users by name. The list is not to be changed.
func (u *Users) All() []*User { return u.list }

// With are the users with one more, or one changed.
func (u *Users) With(user *User) *Users {
	at, found := u.find(user.Name)
	list, bytes := slices.Clone(u.list), u.bytes+user.bytes()
	if found {
		bytes -= list[at].bytes()
		list[at] = user
	} else {
		list = slices.Insert(list, at, user)
	}
	return &Users{list, bytes}
}

// Without are the users without one.
func (u *Users) Without(name string) *Users {
	at, found := u.find(name)
	if !found {
		return u
	}
	return &Users{slices.Delete(slices.Clone(u.list), at, at+1), u.bytes - u.list[at].bytes()}
}

func (u *User) bytes() int { return len(u.Name) + len(u.text) }

// Bytes are those of all names and rules.
func (u *Users) Bytes() int { return u.bytes }

// Text is the list of all users, a line for each.
func (u *Users) Text() string {
	var b strings.Builder
	for _, user := range u.list {
		b.WriteString(user.line())
		b.WriteByte('\n')
	}
	return b.String()
}

// ReadUsers reads what Text has written; see Read.
func ReadUsers(known *Commands, text string) (*Users, error) {
	users := map[string]*User{}
	for line := range strings.Lines(text) {
		name, rules, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "user "), " ")
		user, err := Read(known, name, rules)
		if !ok {
			err = errRuleSyntax
		}
		if err != nil {
			return nil, resp.Errorf("user %q: %v", name, err)
		}
		users[name] = user
	}
	return usersOf(known, users), nil
}

// line is a user as ACL LIST and the file of users show it.
func (u *User) line() string { return "user " + u.Name + " " + u.Text() }

// List is the answer of ACL LIST.
func (u *Users) List() resp.Reply {
	lines := make([]string, len(u.list))
	for i, user := range u.list {
		lines[i] = user.line()
	}
	return resp.Bulks(lines...)
}

// Names is the answer of ACL USERS.
func (u *Users) Names() resp.Reply {
	names := make([]string, len(u.list))
	for i, user := range u.list {
		names[i] = user.Name
	}
	return resp.Bulks(names...)
}
