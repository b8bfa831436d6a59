package command

import (
	"slices"
	"strings"

	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/keyspace/value"
	"lockd/resp"
	"lockd/resp/acl"
)

// ACL: the users, who are part of the state. Connections ask for what changes or lists them, and answer
// the rest of ACL themselves: what is about a connection or a node has a row here all the same, so that
// rules can name it, and scripts are told that they may not call it.
var aclRows = []row{aclRow()}

// aclRow is the row of connections; only its LOAD brings what the file of users says.
func aclRow() row {
	row := rowOf(acl.Row(always, aclCommand))
	for i := range row.Subs {
		if row.Subs[i].Name == "acl|load" {
			row.Subs[i].Arity = 3
		}
	}
	return row
}

func aclCommand(name string) parser {
	if parse := map[string]parser{
		"setuser": parseSetUser, "deluser": parseDelUser, "getuser": ofSub(ofKey(getUser)),
		"list": ofNothing(listUsers), "users": ofNothing(namesOfUsers), "save": ofNothing(saveUsers),
		"load": ofSub(ofKey(loadUsers)),
	}[name]; parse != nil {
		return parse
	}
	return always(resp.Err(errOfConnection))
}

// Limits of users.
const (
	usersMax      = 10_000
	usersBytesMax = 8 << 20 // of all names and rules
)

const (
	errOfConnection = "ERR this is answered by connections"
	errUserName     = "ERR Usernames can't contain spaces or null characters"
	errUsersMax     = "ERR there are too many users, or their rules take more than 8 MB"
)

// userWork returns the work of changing one of n users; bytes is the size of the rules.
func userWork(n, bytes int) int64 {
	return meter.ConfigWork + value.VisitWork*int64(n) + 16*value.NumeralWork*int64(bytes)
}

// setUserCall is ACL SETUSER. Run judges the rules: which commands they may name follows from the level in force.
type setUserCall struct{ args resp.Args }

func parseSetUser(args resp.Args) (call, error) {
	if !acl.ValidName(args[2]) {
		return nil, resp.Error(errUserName)
	}
	return &setUserCall{args}, nil
}

func (r *setUserCall) Run(c *Ctx) resp.Reply {
	args, s, known := r.args, c.s, c.commands().known
	name := strings.Clone(args[2])
	user := s.Users.Get(name)
	was := 0
	if user == nil {
		user = acl.New(known, name)
	} else {
		was = len(user.Text())
	}
	if !s.Meter.Affords(userWork(len(s.Users.All()), bytesOf(args)+was)) {
		return resp.Err(meter.ErrWork)
	}
	rules := make([]string, len(args)-3)
	for i, rule := range args[3:] {
		rules[i] = strings.Clone(rule)
	}
	next, err := user.With(known, rules)
	if err != nil {
		return resp.Fail(err)
	}
	users := s.Users.With(next)
	if len(users.All()) > usersMax || users.Bytes() > usersBytesMax {
		return resp.Err(errUsersMax)
	}
	setUsers(s, users, resp.Message{Kind: resp.MessageUser, Channel: name, Payload: next.Text()})
	return resp.OK()
}

func parseDelUser(args resp.Args) (call, error) {
	if slices.Contains(args[2:], acl.DefaultName) {
		return nil, resp.Error("ERR The 'default' user cannot be removed")
	}
	return &textsCall{args[2:], delUsers}, nil
}

func delUsers(c *Ctx, names []string) resp.Reply {
	deleted := int64(0)
	for _, name := range names {
		user := c.s.Users.Get(name)
		if user == nil {
			c.s.Meter.Spend(value.FindWork)
			continue
		}
		if !c.s.Meter.Affords(userWork(len(c.s.Users.All()), len(name))) {
			return resp.Err(meter.ErrWork)
		}
		setUsers(c.s, c.s.Users.Without(name), resp.Message{Kind: resp.MessageUser, Channel: user.Name})
		deleted++
	}
	return resp.Int(deleted)
}

func getUser(c *Ctx, name string) resp.Reply {
	user := c.s.Users.Get(name)
	if user == nil {
		return resp.Nil()
	}
	return user.Describe()
}

func listUsers(c *Ctx) resp.Reply {
	if !c.s.Meter.Affords(value.VisitWork * int64(len(c.s.Users.All()))) {
		return resp.Err(meter.ErrWork)
	}
	return c.s.Users.List()
}

func namesOfUsers(c *Ctx) resp.Reply {
	if !c.s.Meter.Affords(value.VisitWork * int64(len(c.s.Users.All()))) {
		return resp.Err(meter.ErrWork)
	}
	return c.s.Users.Names()
}

// saveUsers answers the revision of the users and all of them: for the file that a connection writes, and
// for a node that does not know yet what it has missed.
func saveUsers(c *Ctx) resp.Reply {
	if !c.s.Meter.Affords(value.VisitWork * int64(len(c.s.Users.All()))) {
		return resp.Err(meter.ErrWork)
	}
	return resp.Array(resp.Int(int64(c.s.UsersRev)), resp.Bulk(c.s.Users.Text()))
}

// loadUsers has the users that a connection has read from a file take the place of all that there are.
func loadUsers(c *Ctx, text string) resp.Reply {
	text = strings.Clone(text)
	if !c.s.Meter.Affords(userWork(strings.Count(text, "\n"), len(text))) {
		return resp.Err(meter.ErrWork)
	}
	users, err := acl.ReadUsers(c.commands().known, text)
	switch {
	case err != nil:
		return resp.Err("ERR " + err.Error())
	case len(users.All()) > usersMax || users.Bytes() > usersBytesMax:
		return resp.Err(errUsersMax)
	}
	setUsers(c.s, users, resp.Message{Kind: resp.MessageUsers, Payload: users.Text()})
	return resp.OK()
}

// setUsers changes the users, and sends the change to every node.
func setUsers(s *state.State, users *acl.Users, change resp.Message) {
	s.Users = users
	s.UsersRev++
	change.Index = s.UsersRev
	s.Out.Emit(change)
}
