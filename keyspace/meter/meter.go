// Package meter counts what one request, and one entry of the log, ask of every replica.
//
// A few bytes can ask for much: SETRANGE far beyond the end, APPEND to a large string in a script's loop, MGET of one
// large key many times. What exhausts the memory or the patience of one node exhausts that of all, again at each replay
// (law 7). A request that meets a limit of its own gets an error. Once the requests of an entry have met a limit
// together, later ones in it are not executed, and are asked for again (resp.Result).
//
//	meter.go    the limits, and what is counted
//	program.go  the work of scripts: their steps, and compiling them
//
// The package knows nothing of keys: how many bytes the data take is an argument.
package meter

import (
	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Limits of one request.
const (
	ReplyBytesMax  = 64 << 20  // of its replies
	GrowthBytesMax = 256 << 20 // by which it lets the data grow
	WorkMax        = 3 << 30   // its work: about half a second, since a follower begins when the leader has done it
)

// Limits of all requests of an entry together.
const (
	entryReplyBytesMax  = 256 << 20
	entryGrowthBytesMax = 512 << 20
	entryWorkMax        = WorkMax // of two requests that cost the most, the second is left to the next entry
)

// The work of operations that are not on a value, in the same unit; see value.VisitWork.
const (
	CommandWork = 1024
	KeyWork     = 1024    // visiting a key of a database: each is in memory of its own
	FlushWork   = 8 << 10 // making an empty database
	ConfigWork  = 128 << 10
	PublishWork = 4 << 10
	CompileWork = 1 << 20 // compiling a script
	SourceWork  = 8 << 10 // and each byte of its source
	EventWork   = 8 << 10 // noting what becomes of a lock, beside its bytes
	LimitWork   = 2 << 20 // a script that meets a limit: the next one needs a new state of Lua
	StepWork    = 512     // a step of a script, 100 ns at most; see StepWorkOf
	calledSteps = 40      // of the fifty steps of a call in a script, those that stand for the command
)

// The replies to requests that meet those limits.
const (
	ErrReplyTooLarge = "ERR the reply is larger than 64 MiB: ask for less at a time"
	ErrReplies       = "ERR the replies of this request are larger than 64 MiB: this command was not executed"
	ErrGrowth        = "OOM command not allowed: one request may not make the data grow by more than 256 MiB"
	ErrWork          = resp.ErrWork
)

// Bytes that a member takes in a reply beside its own, without its score and with it.
var (
	MemberReplyBytes = resp.Bulk("").Size()
	ScoredReplyBytes = MemberReplyBytes + resp.Double(0).Size()
)

// Meter counts for the running request and for the running entry.
type Meter struct {
	request, entry count

	stepWork int64 // what a step of the running script counts for in its request

	// The programs that the entry has paid for, and the bytes of their sources.
	compiled      map[string]struct{}
	compiledBytes int
}

// count has what a request, or an entry, has asked for so far.
type count struct {
	replyBytes int64
	work       int64
	moreWork   int64 // work of scripts' steps beyond what they count for in work
	baseBytes  int64 // size of the data when it began
}

// BeginEntry begins to count for an entry, while the data take some bytes.
func (m *Meter) BeginEntry(used int64) {
	m.entry = count{baseBytes: used}
	if len(m.compiled) > 0 {
		clear(m.compiled)
	}
	m.compiledBytes = 0
}

// BeginRequest begins to count for a request, while the data take some bytes.
func (m *Meter) BeginRequest(used int64) { m.request = count{baseBytes: used} }

// EndRequest adds the finished request to its entry.
func (m *Meter) EndRequest() {
	m.entry.replyBytes += m.request.replyBytes
	m.entry.work += m.request.work
}

// Spend counts work for the request.
func (m *Meter) Spend(work int64) { m.request.work += work }

// Work returns the counted work of the request.
func (m *Meter) Work() int64 { return m.request.work }

// EntryWork returns the work of the finished requests of the entry.
func (m *Meter) EntryWork() int64 { return m.entry.work }

// TakeWork returns the counted work of the request, with that of scripts' steps, and resets it.
func (m *Meter) TakeWork() int64 {
	work := m.request.work + m.request.moreWork
	m.request.work, m.request.moreWork = 0, 0
	return work
}

// Restart sets the work of the request to zero, for something that may do as much as a request, and returns what it
// was, to be counted again.
func (m *Meter) Restart() (before int64) {
	before, m.request.work = m.request.work, 0
	return before
}

// AddReply counts the bytes of a reply.
func (m *Meter) AddReply(bytes int64) { m.request.replyBytes += bytes }

// RepliesExceeded reports whether the replies are larger than those of one request may be.
func (m *Meter) RepliesExceeded() bool { return m.request.replyBytes > ReplyBytesMax }

// Exceeded reports whether the request has done as much work as it may. A long command that has changed nothing yet
// checks it repeatedly, and gives up.
func (m *Meter) Exceeded() bool { return m.request.work > WorkMax }

// Affords counts work that a command is about to do, and reports whether it is allowed.
func (m *Meter) Affords(work int64) bool {
	m.Spend(work)
	return !m.Exceeded()
}

// Pay is Affords as an error; see algebra.Payer.
func (m *Meter) Pay(work int64) error {
	if !m.Affords(work) {
		return resp.Error(ErrWork)
	}
	return nil
}

// HasRoom reports whether the request may start work that is counted as it is done. The command cannot give up once it
// has begun.
func (m *Meter) HasRoom(work int64) bool { return m.request.work+work <= WorkMax }

// Exhausted says why the request may not run another command, or "".
func (m *Meter) Exhausted() string {
	switch {
	case m.RepliesExceeded():
		return ErrReplies
	case m.Exceeded():
		return ErrWork
	}
	return ""
}

// Grown says why the request may not run a command that lets the data grow, which take some bytes now, or "".
func (m *Meter) Grown(used int64) string {
	if used-m.request.baseBytes > GrowthBytesMax {
		return ErrGrowth
	}
	return ""
}

// EntryExhausted reports whether the requests of the entry have together met a limit; the data take some bytes now.
func (m *Meter) EntryExhausted(used int64) bool {
	return m.entry.replyBytes > entryReplyBytesMax || m.entry.work > entryWorkMax ||
		used-m.entry.baseBytes > entryGrowthBytesMax
}

// Listable counts the work of listing n members for a reply, or says why that is too much.
func (m *Meter) Listable(n int) error {
	if int64(n)*MemberReplyBytes > ReplyBytesMax {
		return resp.Error(ErrReplyTooLarge)
	}
	return m.Pay(value.VisitWork * int64(n))
}

// Matches reports whether a name matches, and counts the work.
func (m *Meter) Matches(g *arg.Glob, name string) bool {
	before := g.Work()
	ok := g.Matches(name)
	m.Spend(g.Work() - before)
	return ok
}

// ReplyWork returns the work of a reply: its elements and its bytes.
func ReplyWork(r resp.Reply) int64 { return r.Size() + value.VisitWork*elements(r) }

func elements(r resp.Reply) int64 {
	n := int64(len(r.Elems))
	for i := range r.Elems {
		if r.Elems[i].Elems != nil {
			n += elements(r.Elems[i])
		}
	}
	return n
}
