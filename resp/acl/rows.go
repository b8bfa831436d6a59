package acl

import "lockd/resp"

// The flags of ACL's rows.
const (
	ofAnybody = resp.NoScript | resp.Loading | resp.Stale
	ofAdmin   = ofAnybody | resp.Admin
	ofState   = ofAdmin | resp.MayReplicate // it changes users
)

// Container is the row of ACL.
var Container = resp.Spec{Name: "acl", Arity: -2, Group: "server", Since: "6.0.0",
	Summary: "A container for Access List Control commands "}

// subcommands are the rows of ACL's subcommands.
var subcommands = []resp.Spec{
	sub("cat", -2, ofAnybody, "List the ACL categories or the commands inside a category", "[categoryname]"),
	sub("deluser", -3, ofState, "Remove the specified ACL users and the associated rules",
		"username [username ...]"),
	newerSub("dryrun", -4, ofAdmin, "Returns whether the user can execute the given command without executing the command.",
		"username command [arg [arg ...]]"),
	sub("genpass", -2, ofAnybody, "Generate a pseudorandom secure password to use for ACL users", "[bits]"),
	sub("getuser", 3, ofAdmin, "Get the rules for a specific ACL user", "username"),
	sub("list", 2, ofAdmin, "List the current ACL rules in ACL config file format", ""),
	sub("load", 2, ofState, "Reload the ACLs from the configured ACL file", ""),
	sub("log", -2, ofAdmin, "List latest events denied because of ACLs in place", "[count | RESET]"),
	sub("save", 2, ofAdmin, "Save the current ACL rules in the configured ACL file", ""),
	sub("setuser", -3, ofState, "Modify or create the rules for a specific ACL user",
		"username [rule [rule ...]]"),
	sub("users", 2, ofAdmin, "List the username of all the configured ACL rules", ""),
	sub("whoami", 2, ofAnybody, "Return the name of the user associated to the current connection", ""),
}

func sub(name string, arity int, flags resp.Flags, summary, syntax string) resp.Spec {
	return resp.Spec{Name: "acl|" + name, Arity: arity, Flags: flags, Group: "server", Since: "6.0.0", Summary: summary,
		Syntax: syntax}
}

func newerSub(name string, arity int, flags resp.Flags, summary, syntax string) resp.Spec {
	s := sub(name, arity, flags, summary, syntax)
	s.Since = "7.0.0"
	return s
}

// Row returns the row of ACL for a table of functions F: run returns the function of a subcommand, always that of a
// fixed reply. The machine and connections have one each; a connection asks the machine for what concerns all nodes.
func Row[F any](always func(resp.Reply) F, run func(name string) F) resp.Row[F] {
	row := resp.Row[F]{Spec: Container}
	for _, spec := range subcommands {
		row.Subs = append(row.Subs, resp.Row[F]{Spec: spec, Run: run(spec.Name[len("acl|"):])})
	}
	return resp.WithHelp("6.0.0", always, row)
}
