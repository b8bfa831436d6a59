package keyspace

import "lockd/resp"

// What one request, and one entry of the log, may ask of every replica at once. A
// few bytes can ask for much: SETRANGE far beyond the end, APPEND to a large string
// in a script's loop, MGET of one large key many times. What exhausts the memory or
// the patience of one node exhausts that of all, again at each replay (law 7). A
// limit that a request meets is its own error; a request that comes after others
// of its entry have met one is not executed, and is asked for again (resp.Result).
const (
	replyBytesMax  = 64 << 20  // replies of one request
	growthBytesMax = 256 << 20 // growth of the data by one request
	workMax        = 4 << 30   // work of one request: bytes copied or answered, keys visited

	entryReplyBytesMax  = 256 << 20 // the same for all requests of an entry
	entryGrowthBytesMax = 512 << 20
	entryWorkMax        = 8 << 30
)

// The work of things that are not bytes, in bytes that take about as long.
const (
	commandWork = 64
	visitWork   = 64
	findWork    = 512 // an element of a tree found, added or removed
	compareWork = 8   // an element of a small aggregate compared in search of one
	stepWork    = 256 // a step of a script, 200 ns at most: a script of ten million takes more than half of workMax
)

// The answers beyond those limits.
const (
	errReplyTooLarge = "ERR the reply is larger than 64 MiB: ask for less at a time"
	errRepliesMeter  = "ERR the replies of this request are larger than 64 MiB: this command was not executed"
	errGrowthMeter   = "OOM command not allowed: one request may not make the data grow by more than 256 MiB"
	errWorkMeter     = "ERR this request has done as much as one may: this command was not executed"
)

// meter counts what a request, or an entry, has asked for so far.
type meter struct {
	replyBytes int64
	work       int64
	baseBytes  int64 // of the data when it began
}

func (m *Machine) newMeter() meter { return meter{baseBytes: m.usedBytes()} }

// spend counts work for the running request.
func (m *Machine) spend(work int64) { m.request.work += work }

// spendScript counts what a script that began with lim has used of it.
func (m *Machine) spendScript(lim, left resp.ScriptLimits) {
	m.spend(stepWork*(lim.Steps-left.Steps) + lim.MemBytes - left.MemBytes)
}

// tired reports whether the running request has done as much as one may. A command
// of much work that has changed nothing yet asks it again and again, and gives up.
func (m *Machine) tired() bool { return m.request.work > workMax }

// exhausted is why the running request may not run a command any more, or "".
func (m *Machine) exhausted(row *resp.Row[command]) string {
	switch {
	case m.request.replyBytes > replyBytesMax:
		return errRepliesMeter
	case m.tired():
		return errWorkMeter
	case row.Flags&resp.DenyOOM != 0 && m.usedBytes()-m.request.baseBytes > growthBytesMax:
		return errGrowthMeter
	}
	return ""
}

// entryExhausted reports whether the requests of the running entry have met its
// limits together.
func (m *Machine) entryExhausted() bool {
	return m.entry.replyBytes > entryReplyBytesMax || m.entry.work > entryWorkMax ||
		m.usedBytes()-m.entry.baseBytes > entryGrowthBytesMax
}

// settle adds the request that has ended to its entry.
func (m *Machine) settle() {
	m.entry.replyBytes += m.request.replyBytes
	m.entry.work += m.request.work
}
