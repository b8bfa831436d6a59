package resp

// A blocking command (BLPOP, LOCK with WAIT) waits in the machine, in the order of the log. These types pass between
// the machine and the node of the waiting client: the node logs the command as a BlockStep with its BlockID, and
// every node's machine reports the end as a message.

// BlockID names one blocking command.
type BlockID struct {
	Session uint64 // of the node that asks; the machine numbers sessions and never reuses a number
	Number  uint64 // within the session, from 1
}

// Ending tells how a blocking command ended.
type Ending uint8

// The endings.
const (
	BlockServed    Ending = iota // it was executed: Reply is its answer, which may be an error
	BlockTimedOut                // its time was over
	BlockCancelled               // its node has cancelled it
	// Nothing was done, and nothing will be: the node logs Args again under another number.
	BlockDropped
	BlockLapsed // nothing was done, because its session is over: the node logs Args again in a new session
	// BlockSuspended ends no command: the session of ID was suspended. Its node, if alive, resumes it.
	BlockSuspended
)

// BlockEnd reports the end of one blocking command. No command ends twice.
type BlockEnd struct {
	ID    BlockID
	How   Ending
	Reply Reply // BlockServed
	// Given: BlockServed; the client was given something that can be taken back: a lock, or elements. The machine
	// remembers it until the client's node reports that it was delivered (BlockStep.Settled) or was not (Undelivered).
	Given bool
	// Waited: BlockServed; the command had waited. Its node does not answer the client before the leader has agreed:
	// see BlockClaim. A command that was served at once is answered at once.
	Waited bool
	Args   Args // BlockDropped, BlockLapsed: the command as it waited, if it did: with an id in place of XREAD's $
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

// BlockGift names something that a client was given after a wait. Its delivery was not yet reported to the machine.
type BlockGift struct {
	ID    BlockID
	Entry uint64 // the index of the log entry that gave it
}

// Waiter is the client of a blocking command, as the backend sees it. The backend calls it from any goroutine, never
// two methods at once, and perhaps after the wait has ended.
type Waiter interface {
	// DelayPushes delays pushes to the client until its reply is known. It is called from the goroutine that applies
	// entries, before the changes of the command are published.
	DelayPushes()
	// Served takes the reply of an executed command and reports whether the client will get it; if not, what it was
	// given can go to another client. It is called at most once.
	Served(Reply) bool
	// ResumePushes ends DelayPushes without a reply: the command keeps waiting.
	ResumePushes()
}

// BlockState is the state of a blocking command in the machine.
type BlockState uint8

// The states of a blocking command.
const (
	BlockUnseen  BlockState = iota // its entry was not applied yet
	BlockWaiting                   // it waits
	BlockOver                      // it has ended, or its session has
)

// BlockView tells what the machine knows of blocking commands, their sessions, and what their clients were given.
type BlockView interface {
	// State returns the state of a command. One MessageBlock tells its end; see BlockAsk.
	State(id BlockID) BlockState
	// Sessions lists the sessions by their numbers, Revision another number whenever that list is another one through
	// an entry.
	Sessions() []BlockSession
	Revision() uint64
	// Gifts lists what clients of a session were given after they had waited, and whose delivery no BlockTend has
	// settled, by their numbers.
	Gifts(session uint64) []BlockGift
	// Given reports whether what was given under a name can still be taken back.
	Given(id BlockID) bool
}

// Unblock says why a client should stop waiting.
type Unblock uint8

// The reasons.
const (
	UnblockTimeout Unblock = iota // CLIENT UNBLOCK TIMEOUT: answer as if its time were over
	UnblockError                  // CLIENT UNBLOCK ERROR: answer ErrUnblocked
	UnblockStop                   // the server stops: answer that nothing was done
)

// Blocks reports whether a call of the command may wait: always if the command waits by its name (BLPOP), only with
// its option if it has one (XREAD, LOCK). WAIT is Blocking in Redis as well, but waits for replicas.
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

// BlockStep is a step that a node logs about blocking commands of its clients. Applying it twice has the effect of
// applying it once.
type BlockStep struct {
	Kind    BlockKind
	ID      BlockID // BlockAsk
	SpentMs int64   // BlockAsk: how long its client has waited before
	// Instead: BlockAsk; LOCK was granted under this id, too late to tell the client. The zero value: none.
	Instead     BlockID
	Node        string    // BlockOpen: the id of the node
	Process     uint64    // BlockOpen: how often the node has been started; 0: unknown
	Sessions    []uint64  // BlockTend: to renew for one lease; BlockClose, BlockSuspend: to end or suspend
	Cancelled   []BlockID // BlockTend: commands to cancel, before or after they begin to wait
	Undelivered []BlockID // BlockTend, BlockClose, BlockSuspend: their gifts go back; BlockClaim: see there
	Resumed     []BlockID // BlockTend: sessions; Number is BlockSession.Suspensions, so a late step resumes nothing
	// Settled: BlockTend; all that Sessions were given by entries up to this index was delivered or is in Undelivered.
	Settled uint64
	Locks   []HeldLock // BlockClaim: the locks to confirm to clients, whether or not Undelivered names them
}

// BlockKind is the kind of a BlockStep.
type BlockKind uint8

// The kinds of step.
const (
	// BlockOpen opens a session. The reply is its number.
	BlockOpen BlockKind = 1 + iota
	// BlockAsk executes a blocking command, the only one of its request, or lets it wait. The reply is how many
	// milliseconds it may still wait: -1 for ever, 0 if it has ended. A message always reports how it ended.
	BlockAsk
	// BlockTend renews sessions and cancels commands. The reply is how many of the sessions exist.
	BlockTend
	// BlockClose ends sessions with all their waiters. The reply is OK.
	BlockClose
	// BlockSuspend makes the machine pass over the waiters of sessions until their node resumes them by BlockTend.
	// Only a leader logs it. The reply is OK.
	BlockSuspend
	// BlockClaim asks the leader whether clients may be told what they were given. It is a read, never logged. The
	// reply is an array of one number for each of Undelivered, then for each of Locks: see ClaimGranted.
	BlockClaim
)

// The elements of the reply to BlockClaim. For a lock that its token holds, the element is instead the age of the
// present lease on the log clock, in milliseconds, 0 or more.
const (
	ClaimGranted = 0  // the client may be told; nothing takes it back any more
	ClaimRefused = -1 // it was taken back, or the token no longer holds the lock
)

// BlockOpening returns the request that opens a session of a node.
func BlockOpening(node string, process uint64) Request {
	return Request{Block: &BlockStep{Kind: BlockOpen, Node: node, Process: process}}
}

// BlockAsking returns the request for a blocking command whose client has already waited for spentMs.
func BlockAsking(id BlockID, spentMs int64, cmd Cmd) Request {
	return Request{Cmds: []Cmd{cmd}, Block: &BlockStep{Kind: BlockAsk, ID: id, SpentMs: spentMs}}
}

// BlockTending returns the request that renews sessions and cancels commands.
func BlockTending(sessions []uint64, cancels []BlockID) Request {
	return Request{Block: &BlockStep{Kind: BlockTend, Sessions: sessions, Cancelled: cancels}}
}

// BlockSuspending returns the request that suspends sessions and takes back what was not delivered.
func BlockSuspending(sessions []uint64, returns []BlockID) Request {
	return Request{Block: &BlockStep{Kind: BlockSuspend, Sessions: sessions, Undelivered: returns}}
}

// BlockClaiming returns the request that asks whether clients may be told what they were given.
func BlockClaiming(given []BlockID, locks []HeldLock) Request {
	return Request{Block: &BlockStep{Kind: BlockClaim, Undelivered: given, Locks: locks}}
}

// BlockClosing returns the request that ends sessions.
func BlockClosing(sessions []uint64) Request {
	return Request{Block: &BlockStep{Kind: BlockClose, Sessions: sessions}}
}
