package state

import "lockd/resp"

// Scripts runs scripts and functions. luavm.VM implements it. It is used under the machine's
// lock, by one goroutine at a time.
type Scripts interface {
	// Compile checks a script without running it. The error is that of Redis.
	Compile(s resp.Script) error
	// Run runs s with KEYS and ARGV. call runs its commands. The reply is what
	// EVAL answers. limited is true when the script met one of its limits: the
	// caller takes back what the script wrote, and the reply says which limit. left is
	// what is left of lim, the same on every node.
	Run(
		s resp.Script,
		keys, argv []string,
		lim resp.ScriptLimits,
		call resp.ScriptCall,
	) (reply resp.Reply, left resp.ScriptLimits, limited bool)
	// Load runs the code of a library of functions and returns the functions that it
	// registers, in any order, and what is left of lim. The error is that of Redis where it
	// does not compile, fails, or meets a limit.
	Load(lib resp.Script, lim resp.ScriptLimits) (functions []resp.Function, left resp.ScriptLimits, err error)
	// Call runs a function that Load has returned, with its keys and arguments, as Run
	// runs a script. It knows of no other call: it finds the library as Load left it.
	Call(
		lib resp.Script,
		name string,
		keys, argv []string,
		lim resp.ScriptLimits,
		call resp.ScriptCall,
	) (reply resp.Reply, left resp.ScriptLimits, limited bool)
}
