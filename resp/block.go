package resp

import "strconv"

// A blocking command (BLPOP and its like) waits in the machine, in the order of the
// log. What follows is the vocabulary between the machine and the node whose client
// waits. The node puts the command into the log, inside of an internal one that gives
// it a name; how it ends leaves the machine as a message on every node.

// BlockID names one blocking command.
type BlockID struct {
	Session uint64 // of the node that asks; the machine gives it out, and never again
	Number  uint64 // within the session, from 1
}

// Ending says how a blocking command has ended.
type Ending uint8

// The endings.
const (
	BlockServed    Ending = iota // it was executed: Reply is its answer, which may be an error
	BlockTimedOut                // nothing came in its time
	BlockCancelled               // its node did not want it any more
	BlockDropped                 // nothing was done and nothing will be: the node asks for Args again under another number
	BlockLapsed                  // the same, because its session is over: the node asks again in a new one
)

// BlockEnd says how a blocking command has ended. No command ends twice.
type BlockEnd struct {
	ID    BlockID
	How   Ending
	Reply Reply // BlockServed
	Args  Args  // BlockDropped, BlockLapsed: the command as it has waited, if it has: XREAD's $ is an id in it
}

// BlockState is what the machine knows of a blocking command.
type BlockState uint8

// The states of a blocking command.
const (
	BlockUnseen  BlockState = iota // the log has not brought it yet
	BlockWaiting                   // it waits
	BlockOver                      // it has ended, or its session has
)

// Unblock says why a client is to wait no longer.
type Unblock uint8

// The reasons.
const (
	UnblockTimeout Unblock = iota // CLIENT UNBLOCK TIMEOUT: as if its time were over
	UnblockError                  // CLIENT UNBLOCK ERROR: the answer is ErrUnblocked
	UnblockStop                   // the server stops: the answer is that nothing was done
)

// Blocks reports whether a call of the command may wait for data: one that writes by
// its name, one that only reads (XREAD) if it is told to. WAIT, which has the flag
// Blocking in Redis as well, waits for replicas.
func (s *Spec) Blocks(args Args) bool {
	if s.Flags&Blocking == 0 || s.Flags&Write != 0 {
		return s.Flags&Blocking != 0
	}
	for i := 1; s.Waits != "" && i < len(args) && !Is(args[i], s.Keys.Half); i++ {
		if Is(args[i], s.Waits) {
			return true
		}
	}
	return false
}

// The internal commands by which a node speaks of blocking commands. To apply one
// of them twice is the same as once.

// BlockOpen opens a session. Its answer is the session's number.
func BlockOpen() Args { return Args{"block", "open"} }

// BlockAsk executes a blocking command, or has it wait; its client has waited for
// spentMs before. The answer is how many milliseconds it may wait yet, -1 for ever, 0
// if it has ended: the rest, in any case, is told by a message.
func BlockAsk(id BlockID, spentMs int64, command Args) Args {
	return append(Args{"block", "ask", number(id.Session), number(id.Number), strconv.FormatInt(spentMs, 10)}, command...)
}

// BlockCancel ends the wait of a command, and makes sure that it will not begin.
func BlockCancel(id BlockID) Args {
	return Args{"block", "cancel", number(id.Session), number(id.Number)}
}

// BlockKeep prolongs sessions by a lease from now on.
func BlockKeep(sessions []uint64) Args { return sessionArgs("keep", sessions) }

// BlockClose ends sessions and all that wait in them.
func BlockClose(sessions []uint64) Args { return sessionArgs("close", sessions) }

func sessionArgs(word string, sessions []uint64) Args {
	args := Args{"block", word}
	for _, s := range sessions {
		args = append(args, number(s))
	}
	return args
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }
