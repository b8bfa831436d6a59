package acl

import (
	"maps"
	"slices"
	"strings"

	"lockd/resp"
)

// Users is the set of all users, by name. It is immutable.
type Users struct {
	list  []*User
	bytes int // of all names and rules
}

// NewUsers returns the users of a new server: only the default user.
func NewUsers(known *Commands) *Users { return usersOf(known, nil) }

// usersOf returns the users of a map, with a default user if it has none.
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

// Default returns the default user, which always exists.
func (u *Users) Default() *User { return u.Get(DefaultName) }

// All lists the users by name. The list is not to be changed.
func (u *Users) All() []*User { return u.list }

// With returns the users with one added or replaced.
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

// Without returns the users without one of them.
func (u *Users) Without(name string) *Users {
	at, found := u.find(name)
	if !found {
		return u
	}
	return &Users{slices.Delete(slices.Clone(u.list), at, at+1), u.bytes - u.list[at].bytes()}
}

func (u *User) bytes() int { return len(u.Name) + len(u.text) }

// Bytes returns the size of all names and rules.
func (u *Users) Bytes() int { return u.bytes }

// Text returns all users, a line for each.
func (u *Users) Text() string {
	var b strings.Builder
	for _, user := range u.list {
		b.WriteString(user.line())
		b.WriteByte('\n')
	}
	return b.String()
}

// ReadUsers parses the result of Text; see Read.
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

// line returns a user as ACL LIST and the file of users show it.
func (u *User) line() string { return "user " + u.Name + " " + u.Text() }

// List returns the answer of ACL LIST.
func (u *Users) List() resp.Reply {
	lines := make([]string, len(u.list))
	for i, user := range u.list {
		lines[i] = user.line()
	}
	return resp.Bulks(lines...)
}

// Names returns the answer of ACL USERS.
func (u *Users) Names() resp.Reply {
	names := make([]string, len(u.list))
	for i, user := range u.list {
		names[i] = user.Name
	}
	return resp.Bulks(names...)
}
