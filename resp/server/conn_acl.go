package server

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"

	"lockd/resp"
	"lockd/resp/acl"
)

func aclRows() []row {
	r := acl.Row(always, func(name string) action { return aclActions[name] })
	for i := range r.Subs {
		r.Subs[i].Flags &^= resp.MayReplicate // that flag is the backend's, which changes the users
	}
	return []row{r}
}

var aclActions = map[string]action{
	"cat":     {run: aclCat},
	"deluser": {run: aclChange, asksBackend: true},
	"dryrun":  {run: aclDryRun},
	"genpass": {run: aclGenPass},
	"getuser": {run: aclAsk, asksBackend: true},
	"list":    {run: aclAsk, asksBackend: true},
	"load":    {run: aclLoad, asksBackend: true},
	"log":     {run: aclLogOf},
	"save":    {run: aclSave, asksBackend: true},
	"setuser": {run: aclChange, asksBackend: true, secret: func(_ resp.Args, i int) bool { return i >= 2 }},
	"users":   {run: aclAsk, asksBackend: true},
	"whoami":  {run: func(s *session, _ resp.Args) resp.Reply { return resp.Bulk(s.rights.Name()) }},
}

// aclAsk returns the cluster's answer.
func aclAsk(s *session, args resp.Args) resp.Reply { return replyAt(s.ask(args), 0) }

// aclChange changes users, and waits until the change binds this node's clients. No password in clear leaves the
// session.
func aclChange(s *session, args resp.Args) resp.Reply {
	sent := append(resp.Args(nil), args...)
	for i := 3; i < len(sent); i++ {
		sent[i] = acl.Hashed(args[i])
	}
	r := changeUsers(s, sent)
	for i := range sent {
		if r.IsErr() && sent[i] != args[i] {
			r.Str = strings.Replace(r.Str, "'"+sent[i]+"'", "'"+args[i]+"'", 1)
		}
	}
	return r
}

func changeUsers(s *session, args resp.Args) resp.Reply {
	s.changing.Store(true)
	res := s.ask(args)
	s.srv.backend.Await(s.ctx, res.Index)
	s.srv.hub.broker.Lock() // connections are closed for the change under this lock: wait for that
	s.changing.Store(false)
	s.srv.hub.broker.Unlock()
	s.closing = s.closing || s.leaving.Load()
	return replyAt(res, 0)
}

// The errors of ACL LOAD and ACL SAVE without a file, or with an unusable one, in Redis's words.
const (
	errNoACLFile = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the " +
		"ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in " +
		"order to store users in the Redis configuration."
	errACLSave = "ERR There was an error trying to save the ACLs. Please check the server logs for more information"
)

// loadUsers returns the command that replaces all users by these.
func loadUsers(users *acl.Users) resp.Args {
	return resp.Args{acl.Container.Name, "load", users.Text()}
}

// aclLoad replaces all users by those of the file.
func aclLoad(s *session, _ resp.Args) resp.Reply {
	file := s.srv.aclFile
	if file.Path == "" {
		return resp.Err(errNoACLFile)
	}
	text, err := file.Read()
	if err != nil {
		return resp.Fail(err)
	}
	users, err := file.Parse(s.srv.index.known, text)
	if err != nil {
		return resp.Fail(err)
	}
	r := changeUsers(s, loadUsers(users))
	if !r.IsErr() {
		file.Note(text)
	}
	return r
}

// aclSave writes the users of the cluster into the file.
func aclSave(s *session, args resp.Args) resp.Reply {
	file := s.srv.aclFile
	if file.Path == "" {
		return resp.Err(errNoACLFile)
	}
	r := replyAt(s.ask(args), 0)
	if r.IsErr() || len(r.Elems) != 2 {
		return r
	}
	text := r.Elems[1].Str
	if err := file.Replace(text); err != nil {
		s.srv.log.Error("the users cannot be saved: ACL SAVE was refused", "file", file.Path, "error", err)
		return resp.Err(errACLSave)
	}
	file.Note(text)
	return resp.OK()
}

func aclCat(s *session, args resp.Args) resp.Reply {
	switch len(args) {
	case 2:
		return resp.Bulks(acl.CategoryNames()...)
	case 3:
		category := acl.CategoryNamed(args[2])
		if category == 0 {
			return resp.Err("ERR Unknown category '" + cut(args[2]) + "'")
		}
		return resp.Bulks(s.srv.index.known.In(category)...)
	}
	return wrongSubcommand("acl", args[1])
}

func aclGenPass(_ *session, args resp.Args) resp.Reply {
	bits := int64(256)
	switch len(args) {
	case 2:
	case 3:
		n, ok := resp.ParseInt(args[2])
		if !ok {
			return resp.Err(resp.ErrNotInteger)
		}
		bits = n
	default:
		return wrongSubcommand("acl", args[1])
	}
	if bits <= 0 || bits > genpassBitsMax {
		return resp.Err("ERR ACL GENPASS argument must be the number of bits for the output password, a positive " +
			"number up to " + strconv.Itoa(genpassBitsMax))
	}
	digits := (bits + 3) / 4
	random := make([]byte, (digits+1)/2)
	_, _ = rand.Read(random) // it never fails
	return resp.Bulk(hex.EncodeToString(random)[:digits])
}

// aclDryRun returns the answer that a user would get. Its errors are strings, as in Redis.
func aclDryRun(s *session, args resp.Args) resp.Reply {
	user := s.rights.All().Get(args[2])
	if user == nil {
		return resp.Err("ERR User '" + args[2] + "' not found")
	}
	call := args[3:]
	cmd := s.srv.index.known.Called(call)
	if cmd == nil {
		return resp.Err("ERR Command '" + call[0] + "' not found")
	}
	if spec, _ := cmd.Spec.Check(call); spec == nil {
		return resp.WrongArity(cmd.Spec.Name)
	}
	reason, object, _ := user.Check(cmd, call)
	switch reason {
	case acl.DeniedCommand:
		return resp.Bulk("This user has no permissions to run the '" + object + "' command")
	case acl.DeniedKey:
		return resp.Bulk("This user has no permissions to access the '" + object + "' key")
	case acl.DeniedChannel:
		return resp.Bulk("This user has no permissions to access the '" + object + "' channel")
	}
	return resp.OK()
}

func aclLogOf(s *session, args resp.Args) resp.Reply {
	count := int64(10)
	switch {
	case len(args) > 3:
		return wrongSubcommand("acl", args[1])
	case len(args) == 3 && resp.Is(args[2], "RESET"):
		s.srv.aclLog.Reset()
		return resp.OK()
	case len(args) == 3:
		n, ok := resp.ParseInt(args[2])
		if !ok {
			return resp.Err(resp.ErrNotInteger)
		}
		count = n
	}
	return s.srv.aclLog.Newest(max(count, 0), s.srv.clock())
}
