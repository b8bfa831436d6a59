package resp

import (
	"fmt"
	"strings"
)

// The error texts of Redis, to the byte: clients compare them. A text that only
// one command uses stays with that command.
const (
	ErrSyntax       = "ERR syntax error"
	ErrWrongType    = "WRONGTYPE Operation against a key holding the wrong kind of value"
	ErrNotInteger   = "ERR value is not an integer or out of range"
	ErrNotFloat     = "ERR value is not a valid float"
	ErrOutOfRange   = "ERR value is out of range"
	ErrNoSuchKey    = "ERR no such key"
	ErrOverflow     = "ERR increment or decrement would overflow"
	ErrNaNOrInf     = "ERR increment would produce NaN or Infinity"
	ErrIndexRange   = "ERR index out of range"
	ErrStringTooBig = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	ErrDBIndex      = "ERR DB index is out of range"
	ErrSameObject   = "ERR source and destination objects are the same"
	ErrInvalidSlot  = "ERR Invalid slot"
	ErrCursor       = "ERR invalid cursor"
	ErrNoScript     = "NOSCRIPT No matching script. Please use EVAL."
	ErrOOM          = "OOM command not allowed when used memory > 'maxmemory'."
	ErrNoAuth       = "NOAUTH Authentication required."
	ErrWrongPass    = "WRONGPASS invalid username-password pair or user is disabled."
	ErrWrongPassMax = "WRONGPASS too many wrong passwords from this address: try again in " // and a number of seconds
	ErrNoProto      = "NOPROTO unsupported protocol version"
	ErrExecAbort    = "EXECABORT Transaction discarded because of previous errors."
	ExecAborted     = "EXECABORT Transaction discarded because of: " // and the error of EXEC itself
	ErrMaxClients   = "ERR max number of clients reached"
	ErrNotCluster   = "ERR This instance has cluster support disabled"
	ErrNotInCluster = "ERR SELECT is not allowed in cluster mode"
	ErrUnblocked    = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
)

// The outcomes of a request that are errors (law 6 of DESIGN.md). ErrNotDone: certainly nothing was executed, and
// existing clients resend; ErrClusterDown says this in the words of Redis Cluster. ErrUnknown: it may or may not have
// been executed; no client resends by itself, and the program must check before it acts.
const (
	ErrNotDone     = "LOADING lockd has no leader at the moment: nothing was executed, try again"
	ErrClusterDown = "CLUSTERDOWN lockd has no leader at the moment: nothing was executed, try again"
	ErrUnknown     = "UNKNOWN the outcome of this command is not known: it may or may not have been executed"
)

// ErrTokenElsewhere answers a LOCK whose place in the line another one of its token has taken.
const ErrTokenElsewhere = "ERR another connection waits for this lock with the same token now, in the same place of the line"

// ErrWork answers the commands of a request that come after its budget of work is spent.
const ErrWork = "ERR this request has done as much as one may: this command was not executed"

// Error is the text of an error reply, as a Go error.
type Error string

// Error returns the text.
func (e Error) Error() string { return string(e) }

// The codes of errors by which programs of lockd decide.
const (
	CodeGeneric = "ERR"
	CodeUnknown = "UNKNOWN" // see ErrUnknown
)

// Code returns the word with which the text of an error begins: clients tell errors apart by it.
func Code(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// Errorf formats an Error as fmt does.
func Errorf(format string, args ...any) Error { return Error(fmt.Sprintf(format, args...)) }

// Fail returns the error reply of err, which must not be nil.
func Fail(err error) Reply { return Err(err.Error()) }

// argsShown bounds, in bytes, the arguments that an unknown-command error repeats.
const argsShown = 128

// UnknownCommand returns Redis's error for a name that is in no table.
func UnknownCommand(args Args) Reply {
	var b strings.Builder
	b.WriteString("ERR unknown command '")
	b.WriteString(cString(args[0], argsShown))
	b.WriteString("', with args beginning with: ")
	start := b.Len()
	for _, a := range args[1:] {
		shown := b.Len() - start
		if shown >= argsShown {
			break
		}
		b.WriteString("'" + cString(a, argsShown-shown) + "' ")
	}
	return Err(b.String())
}

// UnknownSubcommand returns Redis's error for an unknown word after a container command: UnknownSubcommand("client",
// "FOO").
func UnknownSubcommand(container, word string) Reply {
	return Err("ERR unknown subcommand '" + cString(word, argsShown) +
		"'. Try " + strings.ToUpper(container) + " HELP.")
}

// UnknownOption returns the error of a command of lockd's own for an option that it does not have: UnknownOption("LOCK",
// "EX").
func UnknownOption(command, word string) Error {
	return Error("ERR " + command + " has no option '" + cString(word, argsShown) + "'")
}

// WrongArity returns Redis's error for a wrong number of arguments. name is in lower case; a subcommand includes its
// container, "client|setname".
func WrongArity(name string) Reply {
	return Err("ERR wrong number of arguments for '" + name + "' command")
}

// cString cuts s at its first NUL and at limit bytes, as C's "%.*s" does.
func cString(s string, limit int) string {
	s, _, _ = strings.Cut(s, "\x00")
	return s[:min(len(s), limit)]
}
