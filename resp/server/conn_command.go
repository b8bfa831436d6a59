package server

import (
	"slices"
	"strings"

	"lockd/resp"
)

const informative = resp.Loading | resp.Stale

func commandRows() []row {
	sub := func(name string, arity int, since, summary, syntax string, run func(*session, resp.Args) resp.Reply) row {
		return row{Spec: resp.Spec{Name: "command|" + name, Arity: arity, Flags: informative,
			Group: "server", Since: since,
			Summary: summary, Syntax: syntax}, Run: action{run: run}}
	}
	return []row{resp.WithHelp("5.0.0", always, row{
		Spec: resp.Spec{Name: "command", Arity: -1, Flags: informative, Group: "server", Since: "2.8.13",
			Summary: "Get array of Redis command details"},
		Run: action{run: commandAll, onSentinel: true},
		Subs: []row{
			sub("count", 2, "2.8.13", "Get total number of Redis commands", "", commandCount),
			sub("info", -2, "2.8.13", "Get array of specific Redis command details, or all when no argument is given.",
				"[command-name [command-name ...]]", commandInfo),
			sub("docs", -2, "7.0.0", "Get array of specific Redis command documentation",
				"[command-name [command-name ...]]", commandDocs),
			sub("getkeys", -4, "2.8.13", "Extract keys given a full Redis command", "command [arg [arg ...]]",
				commandGetKeys),
			sub("getkeysandflags", -4, "7.0.0", "Extract keys and access flags given a full Redis command",
				"command [arg [arg ...]]", commandGetKeysAndFlags),
			sub("list", -2, "7.0.0", "Get an array of Redis command names",
				"[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", commandList),
		},
	})}
}

func commandAll(s *session, _ resp.Args) resp.Reply {
	elems := make([]resp.Reply, 0, len(s.srv.index.specs))
	for _, spec := range s.srv.index.specs {
		elems = append(elems, describeCommand(spec))
	}
	return resp.Array(elems...)
}

func commandCount(s *session, _ resp.Args) resp.Reply {
	return resp.Int(int64(len(s.srv.index.specs)))
}

func commandInfo(s *session, args resp.Args) resp.Reply {
	if len(args) == 2 {
		return commandAll(s, args)
	}
	elems := make([]resp.Reply, 0, len(args)-2)
	for _, name := range args[2:] {
		if spec := s.srv.index.lookup(name); spec != nil {
			elems = append(elems, describeCommand(spec))
		} else {
			elems = append(elems, resp.Nil())
		}
	}
	return resp.Array(elems...)
}

// describeCommand is one element of COMMAND INFO, in the shape of Redis 7.
func describeCommand(spec *resp.Spec) resp.Reply {
	first, last, step := int64(0), int64(0), int64(0)
	flags := spec.Flags.Names()
	k := spec.Keys
	if k.NumAt > 0 && spec.Flags&resp.MovableKeys == 0 {
		flags = append(flags, "movablekeys")
	}
	if k.First > 0 {
		first, last, step = int64(k.First), int64(k.Last), int64(k.Step)
	}
	subs := resp.Set() // Redis's own slip: only an empty list is a set
	for _, sub := range spec.Subs {
		subs.Kind = resp.KindArray
		subs.Elems = append(subs.Elems, describeCommand(sub))
	}
	return resp.Array(resp.Bulk(spec.Name), resp.Int(int64(spec.Arity)), statuses(resp.KindSet, flags),
		resp.Int(first), resp.Int(last), resp.Int(step), statuses(resp.KindSet, categories(spec)),
		resp.Set(), keySpecs(spec), subs)
}

// typeCategories are the categories of the groups that are a type of value.
var typeCategories = map[string]string{
	"string": "@string", "hash": "@hash", "list": "@list", "set": "@set", "sorted-set": "@sortedset",
	"bitmap": "@bitmap",
	"stream": "@stream",
}

// categories derives the ACL categories from the row, as Redis does from flags
// and group.
func categories(spec *resp.Spec) []string {
	var list []string
	add := func(cond bool, name string) {
		if cond {
			list = append(list, name)
		}
	}
	f := spec.Flags
	leaf := len(spec.Subs) == 0
	add(leaf && spec.Group == "generic", "@keyspace")
	add(f&resp.Write != 0, "@write")
	add(f&resp.ReadOnly != 0 && spec.Group != "scripting", "@read")
	add(leaf && typeCategories[spec.Group] != "", typeCategories[spec.Group])
	add(f&resp.PubSub != 0, "@pubsub")
	add(f&resp.Admin != 0, "@admin")
	add(f&resp.Fast != 0, "@fast")
	add(f&resp.Fast == 0, "@slow")
	add(f&resp.Blocking != 0, "@blocking")
	add(f&resp.Admin != 0, "@dangerous")
	add(spec.Group == "connection" && leaf || strings.HasPrefix(spec.Name, "command") ||
		spec.Group == "cluster" && !strings.HasPrefix(spec.Name, "cluster"), "@connection")
	add(spec.Group == "transactions", "@transaction")
	add(leaf && spec.Group == "scripting", "@scripting")
	return list
}

// access says how a command uses its keys, where its row does not.
func access(spec *resp.Spec) []string {
	switch {
	case spec.Flags&resp.PubSub != 0 || spec.Name == "spublish":
		return []string{"not_key"}
	case spec.Flags&resp.Write != 0:
		return []string{"RW", "access", "update"}
	case spec.Flags&resp.MayReplicate != 0 || spec.Keys.NumAt > 0 && spec.Flags&resp.ReadOnly == 0:
		return []string{"RW", "access", "update"}
	}
	if spec.Group == "transactions" {
		return []string{"RO"} // the value does not matter
	}
	return []string{"RO", "access"}
}

// usesOf lists how the keys are used. Where sources follow the key of a result and a
// number, only that one is written.
func usesOf(spec *resp.Spec) []resp.KeyUse {
	if uses := spec.KeyUses(); len(uses) > 0 {
		return uses
	}
	k := spec.Keys
	if k.First > 0 && k.NumAt > 0 {
		return []resp.KeyUse{
			{Flags: []string{"OW", "update"}, At: k.First},
			{Flags: []string{"RO", "access"}, At: k.NumAt},
		}
	}
	return []resp.KeyUse{{Flags: access(spec), At: max(k.First, k.NumAt), Last: k.Last < 0}}
}

// useOf is how key i of a call is used.
func useOf(spec *resp.Spec, call resp.Args, i int) []string {
	uses, k := usesOf(spec), spec.Keys
	at := k.First + i*k.Step
	use := uses[len(uses)-1]
	for _, u := range uses {
		if u.At == at || u.At < at && u.Last {
			use = u
		}
	}
	if n := len(use.Flags) - 1; use.Flags[n] == "variable_flags" {
		return variableUse(use.Flags[:n], call)
	}
	return use.Flags
}

// variableUse: SET does not read what it replaces unless it is told to.
func variableUse(flags []string, call resp.Args) []string {
	if slices.ContainsFunc(call, func(word string) bool { return resp.Is(word, "GET") }) {
		return flags
	}
	return []string{"OW", "update"}
}

// keySpecs is the newer description of where the keys stand.
func keySpecs(spec *resp.Spec) resp.Reply {
	k, specs := spec.Keys, resp.Set()
	if k == resp.NoKeys {
		return specs
	}
	for _, use := range usesOf(spec) {
		var one resp.Reply
		switch {
		case k.Half != "":
			one = wordKeySpec(use.Flags, k.Half)
		case use.At == k.NumAt:
			one = keySpec(use.Flags, k.NumAt, "keynum",
				resp.Bulk("keynumidx"), resp.Int(0), resp.Bulk("firstkey"), resp.Int(1),
				resp.Bulk("keystep"), resp.Int(int64(max(k.Step, 1))))
		default:
			one = keySpec(use.Flags, use.At, "range",
				resp.Bulk("lastkey"), resp.Int(lastKey(spec, use)),
				resp.Bulk("keystep"), resp.Int(int64(max(k.Step, 1))), resp.Bulk("limit"), resp.Int(0))
		}
		specs.Elems = append(specs.Elems, one)
	}
	return specs
}

// wordKeySpec describes the first half of what follows a word.
func wordKeySpec(flags []string, word string) resp.Reply {
	return resp.Map(
		resp.Bulk("flags"), statuses(resp.KindSet, flags),
		resp.Bulk("begin_search"), resp.Map(resp.Bulk("type"), resp.Bulk("keyword"), resp.Bulk("spec"),
			resp.Map(resp.Bulk("keyword"), resp.Bulk(word), resp.Bulk("startfrom"), resp.Int(1))),
		resp.Bulk("find_keys"), resp.Map(resp.Bulk("type"), resp.Bulk("range"), resp.Bulk("spec"),
			resp.Map(resp.Bulk("lastkey"), resp.Int(-1), resp.Bulk("keystep"), resp.Int(1), resp.Bulk("limit"),
				resp.Int(2))),
	)
}

// lastKey counts from the first key, or from the end where it is negative.
func lastKey(spec *resp.Spec, use resp.KeyUse) int64 {
	switch {
	case use.Last:
		return int64(min(spec.Keys.Last, -1))
	case spec.Access != "" || spec.Keys.Last < spec.Keys.First:
		return 0
	}
	return int64(spec.Keys.Last - spec.Keys.First)
}

func keySpec(flags []string, at int, kind string, find ...resp.Reply) resp.Reply {
	return resp.Map(
		resp.Bulk("flags"), statuses(resp.KindSet, flags),
		resp.Bulk("begin_search"), resp.Map(resp.Bulk("type"), resp.Bulk("index"), resp.Bulk("spec"),
			resp.Map(resp.Bulk("index"), resp.Int(int64(at)))),
		resp.Bulk("find_keys"), resp.Map(resp.Bulk("type"), resp.Bulk(kind), resp.Bulk("spec"), resp.Map(find...)),
	)
}

func commandDocs(s *session, args resp.Args) resp.Reply {
	specs := s.srv.index.specs
	if len(args) > 2 {
		specs = nil
		for _, name := range args[2:] {
			if spec := s.srv.index.lookup(name); spec != nil {
				specs = append(specs, spec)
			}
		}
	}
	return docsOf(specs)
}

func docsOf(specs []*resp.Spec) resp.Reply {
	elems := make([]resp.Reply, 0, 2*len(specs))
	for _, spec := range specs {
		elems = append(elems, resp.Bulk(spec.Name), docOf(spec))
	}
	return resp.Map(elems...)
}

func docOf(spec *resp.Spec) resp.Reply {
	elems := []resp.Reply{
		resp.Bulk("summary"), resp.Bulk(spec.Summary),
		resp.Bulk("since"), resp.Bulk(spec.Since),
		resp.Bulk("group"), resp.Bulk(spec.Group),
	}
	if spec.Syntax != "" {
		elems = append(elems, resp.Bulk("arguments"), argumentDocs(parseSyntax(spec.Syntax)))
	}
	if len(spec.Subs) > 0 {
		elems = append(elems, resp.Bulk("subcommands"), docsOf(spec.Subs))
	}
	return resp.Map(elems...)
}

// keysOf finds the keys of the command given as an argument.
func (s *session) keysOf(call resp.Args) (*resp.Spec, []string, resp.Reply) {
	spec := s.srv.index.lookup(call[0])
	if spec == nil {
		return nil, nil, resp.Err("ERR Invalid command specified")
	}
	leaf, fail := spec.Check(call)
	if leaf == nil {
		if strings.HasPrefix(fail.Str, "ERR unknown subcommand") {
			return nil, nil, resp.Err("ERR Invalid command specified")
		}
		return nil, nil, resp.Err("ERR Invalid number of arguments specified for command")
	}
	if leaf.Keys == resp.NoKeys {
		return nil, nil, resp.Err("ERR The command has no key arguments")
	}
	keys, ok := leaf.Keys.Of(call)
	if !ok {
		return nil, nil, resp.Err("ERR Invalid arguments specified for command")
	}
	return leaf, keys, resp.Reply{}
}

func commandGetKeys(s *session, args resp.Args) resp.Reply {
	_, keys, fail := s.keysOf(args[2:])
	if fail.IsErr() {
		return fail
	}
	return resp.Bulks(keys...)
}

func commandGetKeysAndFlags(s *session, args resp.Args) resp.Reply {
	spec, keys, fail := s.keysOf(args[2:])
	if fail.IsErr() {
		return fail
	}
	elems := make([]resp.Reply, len(keys))
	for i, key := range keys {
		elems[i] = resp.Array(resp.Bulk(key), statuses(resp.KindSet, useOf(spec, args[2:], i)))
	}
	return resp.Array(elems...)
}

func commandList(s *session, args resp.Args) resp.Reply {
	keep := func(*resp.Spec) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) != 5 || !resp.Is(args[2], "FILTERBY"):
		return resp.Err(resp.ErrSyntax)
	case resp.Is(args[3], "MODULE"):
		keep = func(*resp.Spec) bool { return false }
	case resp.Is(args[3], "ACLCAT"):
		want := "@" + lower(args[4])
		keep = func(spec *resp.Spec) bool {
			for _, c := range categories(spec) {
				if c == want {
					return true
				}
			}
			return false
		}
	case resp.Is(args[3], "PATTERN"):
		keep = func(spec *resp.Spec) bool { return globOne(args[4], spec.Name) }
	default:
		return resp.Err(resp.ErrSyntax)
	}
	var names []string
	for _, spec := range s.srv.index.specs {
		for _, one := range append([]*resp.Spec{spec}, spec.Subs...) {
			if keep(one) {
				names = append(names, one.Name)
			}
		}
	}
	return resp.Bulks(names...)
}
