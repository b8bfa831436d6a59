package server

import (
	"time"

	"lockd/resp"
	"lockd/resp/acl"
)

// connectionRows are the connection's commands without a file of their own, and DEBUG.
func connectionRows() []row {
	return []row{
		{Spec: resp.Spec{Name: "hello", Arity: -1, Flags: handshake, Group: "connection", Since: "6.0.0",
			Summary: "Handshake with Redis",
			Syntax:  "[protover [AUTH username password] [SETNAME clientname]]"},
			Run: action{run: hello, hubLocked: true, secret: secretOfHello, onSentinel: true}},
		{Spec: resp.Spec{Name: "auth", Arity: -2, Flags: handshake, Group: "connection", Since: "1.0.0",
			Summary: "Authenticate to the server",
			Syntax:  "[username] password"}, Run: action{run: auth, secret: secretOfAuth, onSentinel: true}},
		{Spec: resp.Spec{Name: "ping", Arity: -1, Flags: resp.Fast, Group: "connection", Since: "1.0.0",
			Summary: "Ping the server", Syntax: "[message]"},
			Run: action{run: ping, whileSubscribed: true, onSentinel: true}},
		{Spec: resp.Spec{Name: "echo", Arity: 2, Flags: basic, Group: "connection", Since: "1.0.0",
			Summary: "Echo the given string", Syntax: "message"}, Run: action{run: echo}},
		{Spec: resp.Spec{Name: "quit", Arity: -1, Flags: handshake, Group: "connection", Since: "1.0.0",
			Summary: "Close the connection"},
			Run: action{run: quit, unqueued: true, whileSubscribed: true, onSentinel: true}},
		{Spec: resp.Spec{Name: "reset", Arity: 1, Flags: handshake, Group: "connection", Since: "6.2.0",
			Summary: "Reset the connection"},
			Run: action{run: reset, unqueued: true, whileSubscribed: true, hubLocked: true, onSentinel: true}},
		{Spec: resp.Spec{Name: "select", Arity: 2, Flags: basic, Group: "connection", Since: "1.0.0",
			Summary: "Change the selected database for the current connection", Syntax: "index"},
			Run: action{run: selectDB, selects: true}},
		{Spec: resp.Spec{Name: "debug", Arity: -2, Flags: administrative, Group: "server", Since: "1.0.0",
			Summary: "Refused: nothing here is open to debugging by clients.", Syntax: "subcommand [arg [arg ...]]"},
			Run: action{run: debug}},
	}
}

func secretOfAuth(_ resp.Args, i int) bool { return i > 0 }

// secretOfHello marks the two arguments after AUTH: a name and a password.
func secretOfHello(args resp.Args, i int) bool {
	return i > 1 && resp.Is(args[i-1], "AUTH") || i > 2 && resp.Is(args[i-2], "AUTH")
}

// hello changes nothing unless all its arguments are right. It runs under the hub's lock.
func hello(s *session, args resp.Args) resp.Reply {
	proto, rest := int64(s.proto.Load()), resp.Args(nil)
	if len(args) > 1 {
		n, ok := resp.ParseInt(args[1])
		if !ok {
			return resp.Err("ERR Protocol version is not an integer or out of range")
		}
		if n != 2 && n != 3 {
			return resp.Err(resp.ErrNoProto)
		}
		proto, rest = n, args[2:]
	}
	name, named := "", false
	for len(rest) > 0 {
		switch {
		case resp.Is(rest[0], "AUTH") && len(rest) >= 3:
			if err := login(s, args[0], rest[1], rest[2]); err != nil {
				return resp.Fail(err)
			}
			rest = rest[3:]
		case resp.Is(rest[0], "SETNAME") && len(rest) >= 2:
			name, named = rest[1], true
			if !printable(name) {
				return resp.Err(errClientName)
			}
			rest = rest[2:]
		default:
			return resp.Err("ERR Syntax error in HELLO option '" + rest[0] + "'")
		}
	}
	if s.rights.MustAuth() {
		return resp.Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO " +
			"AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version " +
			"at the same time")
	}
	if named {
		s.names.set(&s.names.name, name)
	}
	if proto < 3 {
		s.srv.hub.holders.Forget(&s.locks)
	}
	s.proto.Store(int32(proto))
	greeting := []resp.Reply{
		resp.Bulk("server"), resp.Bulk("redis"),
		resp.Bulk("version"), resp.Bulk(redisVersion),
		resp.Bulk("proto"), resp.Int(proto),
		resp.Bulk("id"), resp.Int(s.id),
		resp.Bulk("mode"), resp.Bulk(s.srv.profile.mode),
	}
	if role := s.srv.profile.role; role != "" {
		greeting = append(greeting, resp.Bulk("role"), resp.Bulk(role))
	}
	return resp.Map(append(greeting, resp.Bulk("modules"), resp.Array())...)
}

func auth(s *session, args resp.Args) resp.Reply {
	user, password := acl.DefaultName, args[1]
	switch {
	case len(args) > 3:
		return resp.Err(resp.ErrSyntax)
	case len(args) == 3:
		user, password = args[1], args[2]
	case s.rights.All().Default().NoPass:
		return resp.Err("ERR AUTH <password> called without any password configured for the default user. Are you " +
			"sure your configuration is correct?")
	}
	if err := login(s, args[0], user, password); err != nil {
		return resp.Fail(err)
	}
	return resp.OK()
}

// login checks a user and a password, and gives the session the user's rights. command is HELLO or AUTH, for ACL LOG.
func login(s *session, command, user, password string) error {
	from, now := s.conn.RemoteAddr(), s.srv.clock()
	if wait := s.srv.guesses.Wait(from, now); wait > 0 {
		return resp.Errorf("%s%d s", resp.ErrWrongPassMax, int64((wait+time.Second-1)/time.Second))
	}
	if s.rights.Login(user, password) {
		return nil
	}
	s.srv.recordDenial(s.client, "auth", s.tx.context(), user, command)
	s.srv.stats.WrongPasswords.Add(1)
	s.srv.guesses.Wrong(from, now)
	if n, ok := s.srv.guessing.Allow(""); ok {
		user := user[:min(len(user), loggedNameBytesMax)]
		s.untold = append(s.untold, func() {
			s.srv.log.Warn("a client gave a wrong password", "addr", from.String(), "user", user, "untold", n)
		})
	}
	return resp.Error(resp.ErrWrongPass)
}

// ping of a RESP2 subscriber answers in the form of a message, so that a client
// that only reads messages can read it.
func ping(s *session, args resp.Args) resp.Reply {
	if len(args) > 2 {
		return resp.WrongArity("ping")
	}
	if s.proto.Load() < 3 && s.sub.Subscribes() {
		text := ""
		if len(args) == 2 {
			text = args[1]
		}
		return resp.Bulks("pong", text)
	}
	if len(args) == 2 {
		return resp.Bulk(args[1])
	}
	return resp.Status("PONG")
}

func echo(_ *session, args resp.Args) resp.Reply { return resp.Bulk(args[1]) }

// debug refuses as a Redis does whose configuration does not enable it; lockd has no such setting.
func debug(*session, resp.Args) resp.Reply {
	return resp.Err(`ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can ` +
		"run it from a local connection, otherwise you need to set this option in the configuration file, " +
		"and then restart the server.")
}

func quit(s *session, _ resp.Args) resp.Reply {
	s.closing = true
	return resp.OK()
}

// reset returns the connection to its initial state, unauthenticated.
func reset(s *session, _ resp.Args) resp.Reply {
	s.tx.discard()
	s.sub.UnsubscribeAll()
	s.srv.hub.untrack(s.client)
	s.srv.hub.holders.Forget(&s.locks)
	s.srv.hub.monitors.remove(s.client)
	s.proto.Store(2)
	s.db.Store(0)
	s.names.set(&s.names.name, "")
	s.replyOff, s.skipping, s.skipNext = false, false, false
	s.noEvict.Store(false)
	s.noTouch.Store(false)
	s.readOnly.Store(false)
	s.rights.Reset()
	return resp.Status("RESET")
}

func selectDB(s *session, args resp.Args) resp.Reply {
	db, err := s.srv.profile.parseDB(args[1])
	if err != nil {
		return resp.Fail(err)
	}
	s.db.Store(int32(db))
	return resp.OK()
}
