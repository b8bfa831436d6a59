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
	// BlockSuspended ends nothing: the session of ID was suspended. Its node, if it lives, resumes it.
	BlockSuspended
)

// BlockEnd says how a blocking command has ended. No command ends twice.
type BlockEnd struct {
	ID    BlockID
	How   Ending
	Reply Reply // BlockServed
	// Given: BlockServed; the client was given something that can be taken back: a lock, or elements. The machine
	// remembers it until the client's node says that it was delivered (BlockStep.Settled) or was not (Returns).
	Given bool
	// Waited: BlockServed; the command had waited. Its node answers nobody before the leader has agreed: see
	// BlockClaim. A command that was served at once is answered at once.
	Waited bool
	Args   Args // BlockDropped, BlockLapsed: the command as it has waited, if it has: XREAD's $ is an id in it
}

// BlockSession describes a session as the machine has it.
type BlockSession struct {
	ID      uint64
	Node    string // the id of the node
	Process uint64 // how often that node had been started when it opened the session; 0: unknown
	// Suspensions counts how often the session was suspended. While Suspended, its waiters keep their places and
	// are passed over.
	Suspensions uint64
	Suspended   bool
}

// BlockGift is what a session's client was given after it had waited, and whose delivery the machine has not heard of.
type BlockGift struct {
	ID    BlockID
	Entry uint64 // the index of the log entry that gave it
}

// Waiter is the client of a blocking command, as its session shows it to the backend that it waits in. The backend
// calls it from any goroutine, never two methods at once, and maybe after the wait has ended.
type Waiter interface {
	// Hold has what is pushed to the client from now on wait for its reply. It is called from the goroutine that
	// applies, before the command's changes are published, where the reply is about to be known.
	Hold()
	// Served takes the reply of a command that was executed, and reports whether the client gets it: if not it never
	// will, and what it was given can go to another. It is called once at most.
	Served(Reply) bool
	// Release ends a Hold without a reply: the command goes on waiting.
	Release()
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
	Kind    BlockKind
	ID      BlockID // BlockAsk
	SpentMs int64   // BlockAsk: for how long its client has waited before
	// Instead: BlockAsk; the LOCK was granted under this name, too late for anybody to be told. The zero value: none.
	Instead  BlockID
	Node     string    // BlockOpen: the id of the node
	Process  uint64    // BlockOpen: how often the node has been started; 0: unknown
	Sessions []uint64  // BlockTend: they are prolonged by a lease from now on; BlockClose, BlockSuspend
	Cancels  []BlockID // BlockTend: their waits end, and will not begin any more
	Returns  []BlockID // BlockTend, BlockClose, BlockSuspend: what they were given goes back; BlockClaim: see there
	Resumes  []BlockID // BlockTend: the Number is BlockSession.Suspensions, so that a late step resumes nothing
	// Settled: BlockTend; whatever Sessions were given by entries up to this index was delivered, or is returned.
	Settled uint64
	Locks   []HeldLock // BlockClaim: the locks that clients are to be told of, whether or not Returns names them
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
	// BlockSuspend has the waiters of sessions passed over, until their node resumes them by BlockTend. Only a leader
	// logs it. The reply is OK.
	BlockSuspend
	// BlockClaim asks the leader whether clients may be told what they were given. It is a read: it is never logged.
	// The reply is an array of one number for each of Returns, then for each of Locks: see ClaimGranted.
	BlockClaim
)

// The elements of the reply to BlockClaim. Of a lock that the token holds it is instead for how many milliseconds the
// present lease has run by the log clock, 0 or more.
const (
	ClaimGranted = 0  // the client may be told; nobody takes it back any more
	ClaimRefused = -1 // it was taken back, or the token does not hold the lock any more
)

// BlockOpening is the request for a session of a node.
func BlockOpening(node string, process uint64) Request {
	return Request{Block: &BlockStep{Kind: BlockOpen, Node: node, Process: process}}
}

// BlockAsking is the request for a blocking command whose client has already waited for spentMs.
func BlockAsking(id BlockID, spentMs int64, cmd Cmd) Request {
	return Request{Cmds: []Cmd{cmd}, Block: &BlockStep{Kind: BlockAsk, ID: id, SpentMs: spentMs}}
}

// BlockTending is the request that renews sessions and cancels commands.
func BlockTending(sessions []uint64, cancels []BlockID) Request {
	return Request{Block: &BlockStep{Kind: BlockTend, Sessions: sessions, Cancels: cancels}}
}

// BlockSuspending is the request that has the waiters of sessions passed over, and takes back what was not delivered.
func BlockSuspending(sessions []uint64, returns []BlockID) Request {
	return Request{Block: &BlockStep{Kind: BlockSuspend, Sessions: sessions, Returns: returns}}
}

// BlockClaiming asks whether clients may be told what they were given.
func BlockClaiming(given []BlockID, locks []HeldLock) Request {
	return Request{Block: &BlockStep{Kind: BlockClaim, Returns: given, Locks: locks}}
}

// BlockClosing is the request that ends sessions.
func BlockClosing(sessions []uint64) Request {
	return Request{Block: &BlockStep{Kind: BlockClose, Sessions: sessions}}
}
