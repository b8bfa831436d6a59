package server

import (
	"slices"
	"strconv"

	"lockd/resp"
	"lockd/resp/acl"
	"lockd/resp/server/settings"
)

func configRows() []row {
	return []row{resp.WithHelp("5.0.0", always, row{
		Spec: resp.Spec{Name: "config", Arity: -2, Group: "server", Since: "2.0.0",
			Summary: "A container for server configuration commands"},
		Subs: []row{
			{Spec: resp.Spec{Name: "config|get", Arity: -3, Flags: administrative, Group: "server", Since: "2.0.0",
				Summary: "Get the values of configuration parameters", Syntax: "parameter [parameter ...]"},
				Run: action{run: configGet, asksBackend: true}},
			{Spec: resp.Spec{Name: "config|set", Arity: -4, Flags: administrative, Group: "server", Since: "2.0.0",
				Summary: "Set configuration parameters to the given values",
				Syntax:  "parameter value [parameter value ...]"},
				Run: action{run: configSet, asksBackend: true, secret: secretOfConfigSet}},
			{Spec: resp.Spec{Name: "config|resetstat", Arity: 2, Flags: administrative, Group: "server", Since: "2.0.0",
				Summary: "Reset the stats returned by INFO"}, Run: action{run: configResetStat, asksBackend: true}},
			{Spec: resp.Spec{Name: "config|rewrite", Arity: 2, Flags: administrative, Group: "server", Since: "2.8.0",
				Summary: "Rewrite the configuration file with the in memory configuration"},
				Run: action{run: configRewrite}},
		},
	})}
}

// configGet joins the values of this node with the replicated ones.
func configGet(s *session, args resp.Args) resp.Reply {
	elems := localConfig(s.srv, args[2:])
	if s.srv.index.replicates {
		shared := replyAt(s.ask(args), 0)
		if shared.IsErr() {
			return shared
		}
		for i := 0; i+1 < len(shared.Elems); i += 2 {
			if _, local := s.srv.settings.Value(shared.Elems[i].Str); !local {
				elems = append(elems, shared.Elems[i], shared.Elems[i+1])
			}
		}
	}
	return resp.Map(elems...)
}

// localConfig lists this node's values that match any of the patterns, by name.
func localConfig(srv *shared, patterns []string) []resp.Reply {
	var elems []resp.Reply
	for _, name := range srv.settings.Names() {
		if slices.ContainsFunc(patterns, func(p string) bool { return globOne(lower(p), name) }) {
			value, _ := srv.settings.Value(name)
			if name == settings.RequirePass && replicatesPassword(srv) {
				value = srv.hub.users.Now().Default().PasswordRule()
			}
			elems = append(elems, resp.Bulk(name), resp.Bulk(value))
		}
	}
	return elems
}

// configSet changes settings of this node that can be changed; the others are replicated, and go first, as they may
// be refused.
func configSet(s *session, args resp.Args) resp.Reply {
	shared, own, passwords := args[:2:2], []func(){}, []string(nil)
	for i := 2; i < len(args); i += 2 {
		name := lower(args[i])
		if _, local := s.srv.settings.Value(name); !local || len(args)%2 != 0 {
			shared = append(shared, args[i:min(i+2, len(args))]...)
			continue
		}
		var change func()
		var err error
		if name == settings.RequirePass && replicatesPassword(s.srv) {
			if passwords = append(passwords, args[i+1]); len(passwords) > 1 {
				err = resp.Error("duplicate parameter")
			}
		} else if change, err = s.srv.settings.Set(name, args[i+1]); err == nil {
			own = append(own, change)
		}
		if err != nil {
			return resp.Err("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + err.Error())
		}
	}
	r := setShared(s, shared)
	if !r.IsErr() && len(passwords) > 0 {
		r = changeUsers(s, passwordOfDefault(passwords[0]))
	}
	if !r.IsErr() {
		for _, change := range own {
			change()
		}
	}
	return r
}

// replicatesPassword reports whether requirepass is the default user's password on all nodes: this node has no
// password of its own.
func replicatesPassword(srv *shared) bool {
	password, _ := srv.settings.Value(settings.RequirePass)
	return srv.index.replicates && password == ""
}

// passwordOfDefault returns the command that does what CONFIG SET requirepass does in Redis.
func passwordOfDefault(password string) resp.Args {
	rule := acl.Hashed(">" + password) // no password in clear leaves the session
	if password == "" {
		rule = "nopass"
	}
	return resp.Args{acl.Container.Name, "setuser", acl.DefaultName, "resetpass", rule}
}

// secretOfConfigSet marks the value after requirepass.
func secretOfConfigSet(args resp.Args, i int) bool {
	return i >= 3 && i%2 == 1 && resp.Is(args[i-1], "REQUIREPASS")
}

// setShared does the replicated part of CONFIG SET. It waits until the values apply on this node too: the leader may
// answer earlier.
func setShared(s *session, shared resp.Args) resp.Reply {
	if len(shared) == 2 {
		return resp.OK()
	}
	if most := s.srv.clients.seats.Max(); asksClients(shared[2:]) > most {
		return resp.Err("ERR CONFIG SET failed (possibly related to argument 'maxclients') - " +
			"The operating system is not able to handle the specified number of clients, try with " +
			strconv.FormatInt(most, 10))
	}
	if !s.srv.index.replicates {
		return resp.Err("ERR Unknown option or number of arguments for CONFIG SET - '" + shared[2] + "'")
	}
	res := s.ask(shared)
	s.srv.backend.Await(s.ctx, res.Index)
	return replyAt(res, 0)
}

// asksClients returns the value that CONFIG SET gives to maxclients, or 0.
func asksClients(pairs []string) (n int64) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if resp.Is(pairs[i], "MAXCLIENTS") {
			n, _ = resp.ParseInt(pairs[i+1])
		}
	}
	return n
}

// configResetStat resets the counters of this node's server, and those of the machines of all nodes.
func configResetStat(s *session, args resp.Args) resp.Reply {
	s.srv.stats.Reset()
	s.srv.index.figures.Reset()
	if !s.srv.index.replicates {
		return resp.OK()
	}
	res := s.ask(args)
	s.srv.backend.Await(s.ctx, res.Index)
	return replyAt(res, 0)
}

func configRewrite(*session, resp.Args) resp.Reply {
	return resp.Err("ERR The server is running without a config file")
}
