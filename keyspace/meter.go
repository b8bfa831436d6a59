package keyspace

import (
	"strconv"

	"lockd/keyspace/arg"
	"lockd/keyspace/value"
	"lockd/resp"
)

// Limits of what one request, and one entry of the log, may ask of every replica at once. A few
// bytes can ask for much: SETRANGE far beyond the end, APPEND to a large string in a script's loop,
// MGET of one large key many times. What exhausts the memory or the patience of one node exhausts
// that of all, again at each replay (law 7). A request that meets a limit of its own gets an error.
// Once the requests of an entry have met a limit together, later ones in it are not executed, and
// are asked for again (resp.Result).
const (
	replyBytesMax  = 64 << 20  // replies of one request
	growthBytesMax = 256 << 20 // growth of the data by one request
	workMax        = 4 << 30   // work of one request: less than a second

	entryReplyBytesMax  = 256 << 20 // replies of all requests of an entry
	entryGrowthBytesMax = 512 << 20
	entryWorkMax        = 8 << 30
)

// The work of operations that are not on a value, in the same unit; see value.VisitWork.
const (
	commandWork = 1024
	keyWork     = 1024    // visiting a key of a database: each is in memory of its own
	flushWork   = 8 << 10 // making an empty database
	configWork  = 128 << 10
	publishWork = 4 << 10
	compileWork = 1 << 20 // compiling a script
	sourceWork  = 8 << 10 // and each byte of its source
	eventWork   = 8 << 10 // noting what becomes of a lock, beside its bytes
	limitWork   = 2 << 20 // a script that meets a limit: the next one needs a new state of Lua
	stepWork    = 512     // a step of a script, 100 ns at most (see settings.stepWork)
	calledSteps = 40      // of the fifty steps of a call in a script, those that stand for the command
)

// replyWork is the work of a reply: its elements and its bytes.
func replyWork(r resp.Reply) int64 { return r.Size() + value.VisitWork*elements(r) }

// bytesOf is how long all arguments are together.
func bytesOf(args resp.Args) (n int) {
	for _, a := range args {
		n += len(a)
	}
	return n
}

func elements(r resp.Reply) int64 {
	n := int64(len(r.Elems))
	for i := range r.Elems {
		if r.Elems[i].Elems != nil {
			n += elements(r.Elems[i])
		}
	}
	return n
}

// The replies to requests that meet those limits.
const (
	errReplyTooLarge = "ERR the reply is larger than 64 MiB: ask for less at a time"
	errRepliesMeter  = "ERR the replies of this request are larger than 64 MiB: this command was not executed"
	errGrowthMeter   = "OOM command not allowed: one request may not make the data grow by more than 256 MiB"
	errWorkMeter     = resp.ErrWork
)

// meter counts what a request, or an entry, has asked for so far.
type meter struct {
	replyBytes int64
	work       int64
	moreWork   int64 // work of scripts' steps beyond what they count for in work
	baseBytes  int64 // size of the data when it began

	// Of an entry: the programs that it has paid for, and the bytes of their sources.
	compiled      map[string]struct{}
	compiledBytes int
}

func (m *Machine) newMeter() meter { return meter{baseBytes: m.usedBytes()} }

// meterEntry begins to count for an entry.
func (m *Machine) meterEntry() {
	compiled := m.entry.compiled
	m.entry = m.newMeter()
	if len(compiled) > 0 {
		clear(compiled)
	}
	m.entry.compiled = compiled
}

// spend counts work for the running request.
func (m *Machine) spend(work int64) { m.request.work += work }

// affords counts work that a command is about to do, and reports whether it is allowed.
func (m *Machine) affords(work int64) bool {
	m.spend(work)
	return !m.overBudget()
}

// pay is affords as an error; see algebra.Payer.
func (m *Machine) pay(work int64) error {
	if !m.affords(work) {
		return resp.Error(errWorkMeter)
	}
	return nil
}

// hasRoom reports whether the request may start work that is counted as it is done. The command
// cannot give up once it has begun.
func (m *Machine) hasRoom(work int64) bool { return m.request.work+work <= workMax }

// What a member takes in a reply, with its score or without, beside its own bytes.
var (
	memberReplyBytes = resp.Bulk("").Size()
	scoredReplyBytes = memberReplyBytes + resp.Double(0).Size()
)

// listable counts the work of listing n members for a reply, or says why that is too
// much.
func (m *Machine) listable(n int) error {
	if int64(n)*memberReplyBytes > replyBytesMax {
		return resp.Error(errReplyTooLarge)
	}
	return m.pay(value.VisitWork * int64(n))
}

// drawable counts the work of drawing from n elements, and of finding what was drawn, or
// says why that is too much.
func (m *Machine) drawable(n int, count int64) error {
	draws := min(count, int64(n))
	return m.pay(2 * max(draws, -draws) * value.TreeWork(n))
}

// beginScan bounds COUNT by the n elements that there are, and counts the work of a step; an
// aggregate that is no tree is visited whole.
func (m *Machine) beginScan(o *arg.Scan, n int, tree bool) error {
	if o.Count = min(o.Count, max(n, 1)); !tree {
		o.Count = max(n, 1)
	}
	each := int64(value.VisitWork)
	if tree {
		each = value.FarWork
	}
	return m.pay(each*int64(o.Count) + value.TreeWork(n))
}

// matches reports whether a name matches, and counts the work.
func (m *Machine) matches(g *arg.Glob, name string) bool {
	before := g.Work()
	ok := g.Matches(name)
	m.spend(g.Work() - before)
	return ok
}

// endScan counts the work of MATCH, and answers the cursor to go on with, and the items.
func (m *Machine) endScan(o *arg.Scan, next uint64, items []string) resp.Reply {
	m.spend(o.Match.Work())
	if o.Match.Exceeded() {
		return resp.Err(arg.ErrGlob)
	}
	return resp.Array(resp.Bulk(strconv.FormatUint(next, 10)), resp.Bulks(items...))
}

// Programs that an entry has paid for are certain to stay compiled up to these bounds; beyond them
// it pays again. They are far below those of luavm, which counts what a program takes.
const (
	compiledMax      = 128
	compiledBytesMax = 128 << 10
)

// affordsProgram counts the work of compiling a program that an entry needs for the first time, and
// reports whether the request may go on. Some nodes have it compiled already and some have not, so
// that must not matter.
func (m *Machine) affordsProgram(key string, sourceBytes int) bool {
	sourceBytes = min(sourceBytes, 64<<10) // a longer one is refused at once
	e := &m.entry
	if _, paid := e.compiled[key]; paid {
		return true
	}
	switch {
	case e.compiled == nil:
		e.compiled = map[string]struct{}{}
	case len(e.compiled) >= compiledMax || e.compiledBytes+sourceBytes > compiledBytesMax:
		clear(e.compiled)
		e.compiledBytes = 0
	}
	e.compiled[key] = struct{}{} // it may alias the entry, and lives no longer
	e.compiledBytes += sourceBytes
	return m.affords(compileWork + sourceWork*int64(sourceBytes))
}

// scriptLimits are the limits lim for a script that begins now, with no more steps than the
// request's work allows.
func (m *Machine) scriptLimits(lim resp.ScriptLimits) resp.ScriptLimits {
	lim.StepsOf = lim.Steps
	lim.Steps = m.stepsLeft(lim.Steps)
	return lim
}

// stepsLeft limits a number of steps to what the request's work allows.
func (m *Machine) stepsLeft(steps int64) int64 {
	return min(steps, max(0, workMax-m.request.work)/m.settings.stepWork)
}

// spendSteps counts steps of a script. The entry is always charged their full work.
func (m *Machine) spendSteps(steps int64) {
	m.spend(m.settings.stepWork * steps)
	m.request.moreWork += (stepWork - m.settings.stepWork) * steps
}

// workMet reports which limit ended a script that began with lim: true for the work of its request,
// false for the steps that it took itself. It picks the error that helps the user.
func workMet(lim resp.ScriptLimits, steps, left int64) bool {
	return left == 0 && steps < lim.StepsOf/2
}

// usedBytes is the estimate of the memory that data take, in all databases, and what
// else clients have left here.
func (m *Machine) usedBytes() int64 {
	return m.library.Bytes() + m.functions.Bytes() + m.blocked.bytes + m.events.Bytes() + m.keys.Bytes()
}

func (m *Machine) overMemory() bool {
	limit := m.settings.maxMemoryBytes
	return limit > 0 && m.usedBytes() > limit
}

// overBudget reports whether the running request has done as much work as it may. A long command that
// has changed nothing yet checks it repeatedly, and gives up.
func (m *Machine) overBudget() bool { return m.request.work > workMax }

// exhausted says why the running request may not run another command, or "".
func (m *Machine) exhausted(row *resp.Row[parser]) string {
	switch {
	case m.request.replyBytes > replyBytesMax:
		return errRepliesMeter
	case m.overBudget():
		return errWorkMeter
	case row.Flags&resp.DenyOOM != 0 && m.usedBytes()-m.request.baseBytes > growthBytesMax:
		return errGrowthMeter
	}
	return ""
}

// entryExhausted reports whether the requests of the running entry have together met a limit.
func (m *Machine) entryExhausted() bool {
	return m.entry.replyBytes > entryReplyBytesMax || m.entry.work > entryWorkMax ||
		m.usedBytes()-m.entry.baseBytes > entryGrowthBytesMax
}

// takeWork returns the counted work and resets it.
func (r *meter) takeWork() int64 {
	work := r.work + r.moreWork
	r.work, r.moreWork = 0, 0
	return work
}

// chargeEntry adds a finished request to its entry.
func (m *Machine) chargeEntry() {
	m.entry.replyBytes += m.request.replyBytes
	m.entry.work += m.request.work
}
