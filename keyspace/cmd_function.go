package keyspace

import "lockd/resp"

// functionRows are what of FUNCTION has an answer without functions: libraries and
// test suites ask these. FUNCTION LOAD and FCALL are unknown; scripts do their work.
var functionRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "function", Arity: -2,
		Group: "scripting", Since: "7.0.0", Summary: "A container for function commands",
	}, Subs: []resp.Row[command]{
		{Spec: resp.Spec{
			Name: "function|flush", Arity: -2, Flags: resp.Write | resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Deleting all functions",
			Syntax: "[ASYNC | SYNC]",
		}, Run: cmdFunctionFlush},
		{Spec: resp.Spec{
			Name: "function|list", Arity: -2, Flags: resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "List information about all the functions",
			Syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
		}, Run: cmdFunctionList},
		{Spec: resp.Spec{
			Name: "function|stats", Arity: 2, Flags: resp.NoScript | resp.AllowBusy,
			Group: "scripting", Since: "7.0.0", Summary: "Return information about the function currently running (name, description, duration)",
		}, Run: cmdFunctionStats},
		{Spec: resp.Spec{
			Name: "function|kill", Arity: 2, Flags: resp.NoScript | resp.AllowBusy,
			Group: "scripting", Since: "7.0.0", Summary: "Kill the function currently in execution.",
		}, Run: cmdScriptKill},
		{Spec: resp.Spec{
			Name: "function|delete", Arity: 3, Flags: resp.Write | resp.NoScript,
			Group: "scripting", Since: "7.0.0", Summary: "Delete a function by name",
			Syntax: "library-name",
		}, Run: cmdFunctionDelete},
		{Spec: resp.Spec{
			Name: "function|help", Arity: 2, Flags: resp.Loading | resp.Stale,
			Group: "scripting", Since: "7.0.0", Summary: "Show helpful text about the different subcommands",
		}, Run: cmdFunctionHelp},
	}},
}

// cmdFunctionFlush has no functions to delete: test suites and frameworks send it.
func cmdFunctionFlush(_ *ctx, args resp.Args) resp.Reply {
	if len(args) > 3 {
		return resp.Err("ERR unknown subcommand or wrong number of arguments for '" + args[1] + "'. Try FUNCTION HELP.")
	}
	if !flushMode(args[1:]) {
		return resp.Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	return resp.OK()
}

func cmdFunctionList(_ *ctx, args resp.Args) resp.Reply {
	for i := 2; i < len(args); i++ {
		switch {
		case resp.Is(args[i], "WITHCODE"):
		case resp.Is(args[i], "LIBRARYNAME"):
			if i++; i == len(args) {
				return resp.Err("ERR library name argument was not given")
			}
		default:
			return resp.Err("ERR Unknown argument " + args[i])
		}
	}
	return resp.Array()
}

// cmdFunctionStats reports that nothing runs, and one engine without libraries.
func cmdFunctionStats(_ *ctx, _ resp.Args) resp.Reply {
	return resp.Map(
		resp.Bulk("running_script"), resp.Nil(),
		resp.Bulk("engines"), resp.Map(resp.Bulk("LUA"), resp.Map(
			resp.Bulk("libraries_count"), resp.Int(0), resp.Bulk("functions_count"), resp.Int(0))))
}

func cmdFunctionDelete(_ *ctx, _ resp.Args) resp.Reply { return resp.Err("ERR Library not found") }

func cmdFunctionHelp(_ *ctx, _ resp.Args) resp.Reply {
	return helpReply("FUNCTION",
		"LIST [LIBRARYNAME PATTERN] [WITHCODE]",
		"    Return general information on all the libraries: there are none.",
		"STATS",
		"    Return information about the function that is running: none ever is.",
		"KILL",
		"    Kill the function that is running.",
		"DELETE <LIBRARY NAME>",
		"    Delete the given library.",
		"FLUSH [ASYNC|SYNC]",
		"    Delete all the libraries.")
}
