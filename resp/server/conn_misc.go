package server

import "lockd/resp"

func miscRows() []row {
	return []row{
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

// ping of a RESP2 subscriber answers in the form of a message, so that a client
// that only reads messages can read it.
func ping(s *session, args resp.Args) resp.Reply {
	if len(args) > 2 {
		return resp.WrongArity("ping")
	}
	if s.proto.Load() < 3 && s.subs.count() > 0 {
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

// debug refuses as a Redis does that has not been told otherwise; here nothing can
// tell it.
func debug(*session, resp.Args) resp.Reply {
	return resp.Err(`ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can ` +
		"run it from a local connection, otherwise you need to set this option in the configuration file, " +
		"and then restart the server.")
}

func quit(s *session, _ resp.Args) resp.Reply {
	s.closing = true
	return resp.OK()
}

// reset makes the connection new again, the authentication included.
func reset(s *session, _ resp.Args) resp.Reply {
	s.discard()
	s.subs.clear(s)
	s.untrack()
	s.srv.hub.unmonitor(s)
	s.proto.Store(2)
	s.db.Store(0)
	s.names.setName("")
	s.replyOff, s.skipping, s.skipNext = false, false, false
	s.noEvict.Store(false)
	s.noTouch.Store(false)
	s.readOnly.Store(false)
	s.authed = s.srv.password == ""
	return resp.Status("RESET")
}

func selectDB(s *session, args resp.Args) resp.Reply {
	db, fail := s.srv.profile.parseDB(args[1])
	if fail.IsErr() {
		return fail
	}
	s.db.Store(int32(db))
	return resp.OK()
}
