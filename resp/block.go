package resp

// A blocking command (BLPOP and its like) waits in the machine, in the order of the log. These are
// the types that pass between the machine and the node whose client waits. The node logs the
// command with a step that names it. The machine reports its end as a message, on every node.

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
	BlockCancelled               // its node has cancelled it
	// nothing was done and nothing will be: the node asks for Args again under another number
	BlockDropped
	BlockLapsed // the same, because its session is over: the node asks again in a new one
)

// BlockEnd says how a blocking command has ended. No command ends twice.
type BlockEnd struct {
	ID    BlockID
	How   Ending
	Reply Reply // BlockServed
	// BlockServed: of a LOCK that was granted, the version that its key has by that, or its holder, if
	// it is one of many. If the client is gone, its node takes the lock back, unless somebody has
	// touched it since.
	Granted *Watch
	Args    Args // BlockDropped, BlockLapsed: the command as it has waited, if it has: XREAD's $ is an id in it
}

// BlockState is what the machine knows of a blocking command.
type BlockState uint8

// The states of a blocking command.
const (
	BlockUnseen  BlockState = iota // the log has not brought it yet
	BlockWaiting                   // it waits
	BlockOver                      // it has ended, or its session has
)

// Unblock says why a client should stop waiting.
type Unblock uint8

// The reasons.
const (
	UnblockTimeout Unblock = iota // CLIENT UNBLOCK TIMEOUT: as if its time were over
	UnblockError                  // CLIENT UNBLOCK ERROR: the answer is ErrUnblocked
	UnblockStop                   // the server stops: the answer is that nothing was done
)

// Blocks reports whether a call of the command may wait: one that writes by its name, one
// that has an option for it (XREAD, LOCK) if it is told to. WAIT, which has the flag Blocking in
// Redis as well, waits for replicas.
func (s *Spec) Blocks(args Args) bool {
	if s.Flags&Blocking == 0 || s.Flags&Write != 0 && s.Waits == "" {
		return s.Flags&Blocking != 0
	}
	for i := 1; s.Waits != "" && i < len(args) && !Is(args[i], s.Keys.Half); i++ {
		if Is(args[i], s.Waits) {
			return true
		}
	}
	return false
}

// BlockStep is a node's logged step about the blocking commands of its clients. Applying it twice
// is the same as once.
type BlockStep struct {
	Kind     BlockKind
	ID       BlockID   // BlockAsk
	SpentMs  int64     // BlockAsk: for how long its client has waited before
	Sessions []uint64  // BlockTend: they are prolonged by a lease from now on; BlockClose
	Cancels  []BlockID // BlockTend: their waits end, and will not begin any more
}

// BlockKind says what a BlockStep is about.
type BlockKind uint8

// The kinds of step.
const (
	// BlockOpen opens a session. The reply is its number.
	BlockOpen BlockKind = 1 + iota
	// BlockAsk executes a blocking command, the only one of its request, or lets it wait. The reply
	// is how many milliseconds it may still wait: -1 is for ever, 0 that it has ended. How it ended
	// is always told by a message.
	BlockAsk
	// BlockTend renews sessions and cancels commands. The reply is how many of the sessions exist.
	BlockTend
	// BlockClose ends sessions with all their waiters. The reply is OK.
	BlockClose
)

// BlockOpening is the request for a session.
func BlockOpening() Request { return Request{Block: &BlockStep{Kind: BlockOpen}} }

// BlockAsking is the request for a blocking command whose client has already waited for spentMs.
func BlockAsking(id BlockID, spentMs int64, cmd Cmd) Request {
	return Request{Cmds: []Cmd{cmd}, Block: &BlockStep{Kind: BlockAsk, ID: id, SpentMs: spentMs}}
}

// BlockTending is the request that renews sessions and cancels commands.
func BlockTending(sessions []uint64, cancels []BlockID) Request {
	return Request{Block: &BlockStep{Kind: BlockTend, Sessions: sessions, Cancels: cancels}}
}

// BlockClosing is the request that ends sessions.
func BlockClosing(sessions []uint64) Request {
	return Request{Block: &BlockStep{Kind: BlockClose, Sessions: sessions}}
}
