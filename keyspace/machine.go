package keyspace

import (
	"lockd/keyspace/digest"
	"lockd/keyspace/emit"
	"lockd/keyspace/fate"
	"lockd/keyspace/history"
	"lockd/keyspace/library"
	"lockd/keyspace/meter"
	"lockd/keyspace/settings"
	"lockd/keyspace/store"
	"lockd/keyspace/wait"
	"lockd/resp"
	"lockd/resp/acl"
)

// sweepMax bounds what one entry ends before it runs its requests: as many leases, each of which counts for what it
// tells of, as a lock may have a thousand holders; and as many keys of waits. One more than that is still ended. The
// rest stay due: NextDeadline reports them, and the leader proposes another tick at once.
const sweepMax = 1000

// Machine is the replicated state and the commands on it. It implements
// cluster.Machine, whose contract holds: not safe for concurrent use, except for
// Find, Check, Specs and the function that Snapshot returns.
type Machine struct {
	scripts   Scripts
	observers [6]observer

	// The state. An image holds all of it; see image.go.
	tick      int64 // the log clock, in milliseconds
	wallUs    int64 // the latest wall time of the entries
	keys      store.Store
	settings  *settings.Values
	users     *acl.Users
	usersRev  uint64 // counts their changes
	library   library.Scripts
	functions library.Functions
	stats     stats
	waits     wait.Table
	events    history.Log
	digest    digest.Digest

	// What the cluster's level in force says; it is in no image of this package.
	level int
	*commandSet

	// What belongs to the call that is running, or is derived.
	index     uint64 // of the entry being applied
	rights    rights // of the running request
	lockUsage string // of the running request
	draws     uint64 // calls of ctx.rand since the call began
	command   ctx    // of the running request
	replies   replyRoom
	meter     meter.Meter
	applying  bool // an entry: what becomes of locks is noted
	out       emit.Output
	reads     *emit.Reads // of the running request, if its session tracks
	journal   *journal
	dryRun    dryRun
	embargo   fate.Embargo
	seen      seen

	serving     bool  // a waiter's command is being executed
	servedBytes int64 // replies to waiters in this entry
	searched    int64 // work of searches for deadlocks in this entry

	gone []goneLock // those who wait for them by a library are woken when the command has ended
}

// stats are the figures of INFO that follow from the log.
type stats struct{ expiredKeys int64 }

// New returns an empty machine that runs its scripts with scripts.
func New(scripts Scripts) *Machine {
	m := &Machine{
		scripts: scripts, observers: observers(), keys: store.New(), settings: settings.Default(), waits: wait.New(),
		level: LevelLowest, commandSet: commandSets[LevelLowest], digest: digest.Begin,
	}
	m.users = acl.NewUsers(m.known)
	return m
}

// Tick returns the log clock, in milliseconds, as of the last Apply.
func (m *Machine) Tick() int64 { return m.tick }

// Wall returns the latest wall time of the entries, in microseconds since 1970; 0: there was none.
func (m *Machine) Wall() int64 { return m.wallUs }

// Digest returns the digest as of the last entry.
func (m *Machine) Digest() uint64 { return uint64(m.digest) }

// Apply runs one entry of the log; see cluster.Machine.
func (m *Machine) Apply(at resp.Stamp, reqs []resp.Request) ([]resp.Result, []resp.Message) {
	m.tick = max(m.tick, at.Tick)
	at.Tick = m.tick
	m.wallUs = max(m.wallUs, at.Wall)
	at.Wall = m.wallUs
	m.index, m.draws, m.applying = at.Index, 0, true
	if m.settings.HistoryMax > 0 {
		m.events.Begin(m.wallUs / 1000)
	}
	m.searched = 0
	m.out.Begin(at.Index, len(reqs))
	m.sweep(at)
	m.meter.BeginEntry(m.usedBytes())
	m.servedBytes = 0
	results := make([]resp.Result, len(reqs))
	for i := range reqs {
		m.replies.expected = len(reqs) - i
		results[i] = m.do(at, reqs[i])
	}
	m.seen.peakBytes = max(m.seen.peakBytes, m.usedBytes())
	m.out.EmitChanges()
	m.events.Trim(m.settings.HistoryMax)
	m.foldEntry()
	messages := m.out.Messages()
	m.seen.countEvents(messages)
	m.applying = false
	m.out.End()
	m.replies, m.command = replyRoom{}, ctx{}
	return results, messages
}

// View runs a read; see cluster.Machine.
func (m *Machine) View(at resp.Stamp, req resp.Request) resp.Result {
	at.Tick, at.Wall = max(m.tick, at.Tick), max(m.wallUs, at.Wall)
	m.draws = 0
	m.meter.BeginEntry(m.usedBytes())
	return m.do(at, req)
}

// Try answers a request that would change nothing as things are, such as SET NX of a key
// that is there; ok is false if it would. It runs the command's own function, up to its
// first change: that is in put, which a command that may be tried (Spec.Refuses) reaches
// before anything else of it shows. See cluster.Machine.
func (m *Machine) Try(at resp.Stamp, req resp.Request) (res resp.Result, ok bool) {
	if len(req.Cmds) != 1 || req.Watch != nil || req.Multi || req.Trace || req.Block != nil {
		return resp.Result{}, false
	}
	cmd := req.Cmds[0]
	if cmd.Spec == nil {
		cmd.Spec, _ = m.Find(cmd.Args)
	}
	if cmd.Spec == nil || !cmd.Spec.MayRefuse(cmd.Args) {
		return resp.Result{}, false
	}
	at.Tick, at.Wall = max(m.tick, at.Tick), max(m.wallUs, at.Wall)
	m.meter.BeginEntry(m.usedBytes())
	m.draws, m.reads = 0, nil
	m.meter.BeginRequest(m.usedBytes())
	m.dryRun = dryRun{running: true}
	c := ctx{m: m, at: at, db: cmd.DB}
	reply := c.execute(cmd)
	changes := m.dryRun.changes
	m.dryRun = dryRun{}
	m.out.End()
	if changes {
		return resp.Result{}, false
	}
	return resp.Result{Replies: []resp.Reply{reply}}, true
}

func (m *Machine) do(at resp.Stamp, req resp.Request) resp.Result {
	if req.Watch != nil && haveChanged(m, req.Watch.Check) {
		return resp.Result{Watched: &resp.Watched{Aborted: true}}
	}
	res := resp.Result{Replies: m.replies.take(len(req.Cmds))}
	if m.meter.EntryExhausted(m.usedBytes()) && len(req.Cmds) > 0 {
		return res
	}
	m.meter.BeginRequest(m.usedBytes())
	m.embargo.Watched = req.Watch != nil && len(req.Watch.Check) > 0
	m.rights, m.lockUsage = rights{user: req.User}, req.Observations
	m.reads = nil
	if req.Trace {
		m.reads = emit.NewReads(m.out.Position(), len(req.Cmds))
	}
	defer m.meter.EndRequest()
	if req.Block != nil {
		m.answer(&res, steps{serviceAt(m, at)}.run(req))
		req.Cmds = nil // the step has seen to its command
	}
	if req.Watch != nil && len(req.Watch.Learn) > 0 {
		res.Watched = &resp.Watched{Versions: m.versions(req.Watch.Learn)}
	}
	before := int64(0) // work of the pipeline's earlier commands: each may do as much as a request
	for _, cmd := range req.Cmds {
		if !req.Multi {
			before += m.meter.TakeWork()
		}
		if before > meter.WorkMax || !req.Multi && m.meter.RepliesExceeded() {
			break // the rest goes into another entry, so that others get their turn in between
		}
		m.command = ctx{m: m, at: at, db: cmd.DB, why: fate.Cause{Client: req.Sender}}
		m.answer(&res, m.command.execute(cmd))
		m.reads.EndCommand(m.out.Position())
		if !req.Multi {
			serviceAt(m, at).ready()
		}
	}
	serviceAt(m, at).ready()
	m.meter.Spend(before + m.meter.TakeWork())
	res.Work, res.Denied = m.meter.Work(), m.rights.denied
	res.Trace = m.reads.Done(m.index)
	m.meter.AddReply(res.Trace.Size())
	return res
}

// replyRoom is where requests of one command, most of those that an entry has, keep their replies: several share an
// allocation.
type replyRoom struct {
	free     []resp.Reply
	expected int // requests of the entry that have no room yet; 0: a read
}

// repliesShared bounds the replies that share an allocation, since the last that is needed keeps all of them.
const repliesShared = 16

// take returns room for the replies to a request of n commands.
func (r *replyRoom) take(n int) []resp.Reply {
	if n != 1 || r.expected <= 1 {
		return make([]resp.Reply, 0, n)
	}
	if len(r.free) == 0 {
		r.free = make([]resp.Reply, min(r.expected, repliesShared))
	}
	one := r.free[:0:1]
	r.free = r.free[1:]
	return one
}

// answer adds a reply to those of the running request.
func (m *Machine) answer(res *resp.Result, reply resp.Reply) {
	res.Replies = append(res.Replies, reply)
	m.meter.AddReply(reply.Size())
	m.meter.Spend(meter.CommandWork + meter.ReplyWork(reply))
}

// versions returns the versions that haveChanged compares.
func (m *Machine) versions(keys []resp.Key) []uint64 {
	versions := make([]uint64, len(keys))
	for i, k := range keys {
		if k.DB >= 0 && k.DB < store.Databases {
			m.meter.Spend(2 * m.keys.DBs[k.DB].FindWork(k.Name))
			versions[i] = m.version(k.DB, k.Name)
		}
	}
	return versions
}

// sweep ends what the clock has ended: leases and waits, the earliest first, up to sweepMax of each,
// and then sessions. The order is total (deadline, database, key), so a machine restored from an image
// ends them in the same order as one that lived through it.
func (m *Machine) sweep(at resp.Stamp) {
	s := serviceAt(m, at)
	if !m.sweepEnds(s) {
		s.sweepLines()
	}
	s.sweepSessions()
	s.ready()
}

// sweepEnds ends leases and waits. It reports whether it has come to an end.
func (m *Machine) sweepEnds(s service) bool {
	for leases, waits := 0, 0; leases < sweepMax && waits < sweepMax; {
		db, l, leased := m.keys.NextLease()
		w := m.waits.FirstEnd()
		leased, waited := leased && l.Tick < m.tick, w != nil && w.End < m.tick
		switch {
		case leased && (!waited || l.Tick <= w.End):
			before := m.out.Mark()
			s.expire(db, l.Of)
			leases += max(1, eventsIn(m.out.Since(before)))
		case waited:
			waits += len(w.Keys())
			s.timeOut(w)
		default:
			return true
		}
	}
	return false
}

// foldEntry folds into the digest what the entry has emitted, and where the counters stand.
func (m *Machine) foldEntry() {
	d := &m.digest
	messages := m.out.Messages()
	for i := range messages {
		d.Message(&messages[i])
	}
	for _, n := range [...]uint64{
		m.index, uint64(m.tick), m.draws, m.keys.Sequence, m.keys.LastFence, uint64(m.stats.expiredKeys),
		uint64(m.usedBytes()), m.waits.LastSeq, m.waits.Sessions.Last, uint64(m.waits.Len()),
	} {
		d.Add(n)
	}
}

// eventsIn counts messages about locks.
func eventsIn(messages []resp.Message) (n int) {
	for i := range messages {
		n += resp.One(messages[i].Kind == resp.MessageLock)
	}
	return n
}

// KeysInSlot does a step of a walk through the keys of the first database; see cluster.Machine.
func (m *Machine) KeysInSlot(slot int, cursor uint64, most int) (keys []string, next uint64) {
	next = m.keys.DBs[0].Keys.Scan(cursor, most, func(e *store.Entry) {
		if resp.Slot(e.Key()) == slot && !m.expired(e) {
			keys = append(keys, e.Key())
		}
	})
	return keys, next
}

// NextDeadline returns the tick after which the next lease or wait ends; false if there is none.
func (m *Machine) NextDeadline() (tick int64, ok bool) {
	_, l, leased := m.keys.NextLease()
	end, waits := m.waits.NextEnd()
	switch {
	case !waits:
		return l.Tick, leased
	case !leased:
		return end, true
	}
	return min(l.Tick, end), true
}
