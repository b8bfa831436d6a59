// Package resp is the vocabulary of lockd: the values that travel between a client's socket, the replicated log and
// the state machine. It imports no other package of lockd, so that all of them may import it.
//
//	Args     one command as its client sent it: name and arguments
//	Spec     a command's table row (arity, flags, keys, ...)
//	Request  one command, a pipeline, or the body of a MULTI, on its way in
//	Stamp    the time at which an entry of the log takes effect
//	Reply    one reply as a value; only a session turns it into bytes
//	Message  something published: it leaves the machine beside the replies
//
// Like keyspace and luavm it reads no clock, draws no random number and starts
// no goroutine: cmd/lockd's architecture test holds it to that.
package resp
