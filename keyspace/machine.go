package keyspace

import (
	"lockd/keyspace/command"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/state"
	"lockd/resp"
)

// Machine is the replicated state and the commands on it. It implements cluster.Machine, whose contract holds: not safe
// for concurrent use, except for Find, Check, Specs and the function that Snapshot returns.
type Machine struct {
	state   state.State
	running running
}

// Scripts runs scripts and functions, such as luavm.VM does.
type Scripts = state.Scripts

// New returns an empty machine that runs its scripts with scripts.
func New(scripts Scripts) *Machine {
	return &Machine{state: command.NewState(scripts, command.LevelLowest)}
}

// Apply runs one entry of the log; see cluster.Machine.
func (m *Machine) Apply(at resp.Stamp, reqs []resp.Request) ([]resp.Result, []resp.Message) {
	s := &m.state
	s.Tick = max(s.Tick, at.Tick)
	at.Tick = s.Tick
	s.WallUs = max(s.WallUs, at.Wall)
	at.Wall = s.WallUs
	s.Index, s.Draws, s.Applying = at.Index, 0, true
	if s.Settings.HistoryMax > 0 {
		s.Events.Begin(s.WallUs / 1000)
	}
	s.Searched = 0
	s.Out.Begin(at.Index, len(reqs))
	serviceAt(s, at).sweep()
	s.Meter.BeginEntry(s.UsedBytes())
	s.ServedBytes = 0
	results := make([]resp.Result, len(reqs))
	for i := range reqs {
		m.running.replies.expected = len(reqs) - i
		results[i] = m.running.do(s, at, reqs[i])
	}
	s.Seen.PeakBytes = max(s.Seen.PeakBytes, s.UsedBytes())
	s.Out.EmitChanges()
	s.Events.Trim(s.Settings.HistoryMax)
	foldEntry(s)
	messages := s.Out.Messages()
	s.Seen.CountEvents(messages)
	s.Applying = false
	s.Out.End()
	m.running = running{}
	return results, messages
}

// View runs a read; see cluster.Machine.
func (m *Machine) View(at resp.Stamp, req resp.Request) resp.Result {
	s := &m.state
	at.Tick, at.Wall = max(s.Tick, at.Tick), max(s.WallUs, at.Wall)
	s.Draws = 0
	s.Meter.BeginEntry(s.UsedBytes())
	return m.running.do(s, at, req)
}

// DryRun answers a request that would change nothing as things are, such as SET NX of a key
// that is there; ok is false if it would. It runs the command's own function, up to its
// first change: that is in Put, which a command that may be tried (Spec.Refuses) reaches
// before anything else of it shows. See cluster.Machine.
func (m *Machine) DryRun(at resp.Stamp, req resp.Request) (res resp.Result, ok bool) {
	if len(req.Cmds) != 1 || req.Watch != nil || req.Multi || req.Trace || req.Block != nil {
		return resp.Result{}, false
	}
	cmd := req.Cmds[0]
	if cmd.Spec == nil {
		cmd.Spec, _ = command.Find(cmd.Args)
	}
	if cmd.Spec == nil || !cmd.Spec.MayRefuse(cmd.Args) {
		return resp.Result{}, false
	}
	s := &m.state
	at.Tick, at.Wall = max(s.Tick, at.Tick), max(s.WallUs, at.Wall)
	s.Meter.BeginEntry(s.UsedBytes())
	s.Draws, s.Reads = 0, nil
	s.Meter.BeginRequest(s.UsedBytes())
	s.DryRun = state.DryRun{Running: true}
	c := command.NewCtx(s, at, cmd.DB)
	reply := c.Execute(cmd)
	changes := s.DryRun.Changes
	s.DryRun = state.DryRun{}
	s.Out.End()
	if changes {
		return resp.Result{}, false
	}
	return resp.Result{Replies: []resp.Reply{reply}}, true
}

// running runs requests; what it has of one is used again for the next.
type running struct {
	command command.Ctx
	replies replyRoom
}

// do runs a request.
func (r *running) do(s *state.State, at resp.Stamp, req resp.Request) resp.Result {
	if s.Meter.EntryExhausted(s.UsedBytes()) && len(req.Cmds) > 0 {
		return resp.Result{Replies: r.replies.take(len(req.Cmds))}
	}
	s.Meter.BeginRequest(s.UsedBytes())
	if req.Watch != nil && s.HaveChanged(req.Watch.Check) {
		s.Meter.EndRequest()
		return resp.Result{Watched: &resp.Watched{Aborted: true}}
	}
	res := resp.Result{Replies: r.replies.take(len(req.Cmds))}
	s.Embargo.Watched = req.Watch != nil && len(req.Watch.Check) > 0
	s.Rights, s.LockUsage = state.Rights{User: req.User}, req.Observations
	s.Reads = nil
	if req.Trace {
		s.Reads = emit.NewReads(s.Out.Position(), len(req.Cmds))
	}
	defer s.Meter.EndRequest()
	if req.Block != nil {
		addReply(&s.Meter, &res, steps{serviceAt(s, at)}.run(req))
		req.Cmds = nil // the step has seen to its command
	}
	if req.Watch != nil && len(req.Watch.Learn) > 0 {
		res.Watched = &resp.Watched{Versions: s.Versions(req.Watch.Learn)}
	}
	before := int64(0) // work of the pipeline's earlier commands: each may do as much as a request
	for _, cmd := range req.Cmds {
		if !req.Multi {
			before += s.Meter.TakeWork()
		}
		if before > meter.WorkMax || !req.Multi && s.Meter.RepliesExceeded() {
			break // the rest goes into another entry, so that others get their turn in between
		}
		r.command = command.NewCtx(s, at, cmd.DB)
		r.command.Why.Client = req.Sender
		addReply(&s.Meter, &res, r.command.Execute(cmd))
		s.Reads.EndCommand(s.Out.Position())
		if !req.Multi {
			serviceAt(s, at).ready()
		}
	}
	serviceAt(s, at).ready()
	s.Meter.Spend(before + s.Meter.TakeWork())
	res.Work, res.Denied = s.Meter.Work(), s.Rights.Denied
	res.Trace = s.Reads.Done(s.Index)
	s.Meter.AddReply(res.Trace.Size())
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

// addReply adds a reply to those of the running request.
func addReply(meters *meter.Meter, res *resp.Result, reply resp.Reply) {
	res.Replies = append(res.Replies, reply)
	meters.AddReply(reply.Size())
	meters.Spend(meter.CommandWork + meter.ReplyWork(reply))
}

// foldEntry folds into the digest what the entry has emitted, and where the counters stand.
func foldEntry(s *state.State) {
	d := &s.Digest
	messages := s.Out.Messages()
	for i := range messages {
		d.Message(&messages[i])
	}
	for _, n := range [...]uint64{
		s.Index, uint64(s.Tick), s.Draws, s.Keys.Sequence, s.Keys.LastFence, uint64(s.Stats.ExpiredKeys),
		uint64(s.UsedBytes()), s.Waits.LastSeq, s.Waits.Sessions.Last, uint64(s.Waits.Len()),
	} {
		d.Add(n)
	}
}
