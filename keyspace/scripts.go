package keyspace

import "lockd/resp"

// Scripts runs scripts. luavm.VM implements it. It is used under the machine's
// lock, by one goroutine at a time.
type Scripts interface {
	// Compile checks a script without running it: ok is false and the reply is the
	// error Redis gives where it does not compile.
	Compile(s resp.Script) (fail resp.Reply, ok bool)
	// Run runs s with KEYS and ARGV. call runs one command for redis.call and
	// redis.pcall and returns its reply, which may be an error. The reply is what
	// EVAL answers. limited is true when the script met one of its limits: the
	// caller takes back what the script wrote, and the reply says which limit.
	Run(s resp.Script, keys, argv []string, lim resp.ScriptLimits, call func(resp.Args) resp.Reply) (reply resp.Reply, limited bool)
}
