package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"lockd/cluster/wake"
	"lockd/internal/loglimit"
)

var errHalted = errors.New("this node has stopped")

// core is what all parts of a node have in common.
type core struct {
	cfg   Config
	log   *slog.Logger
	clock Clock
	raft  *group
	lead  currentTerm

	changed      wake.Broadcast // who leads, or who the members are, has changed
	wakeProposer chan struct{}  // capacity 1
	stop         chan struct{}

	fatalOnce sync.Once
	broken    atomic.Bool // after fatal: this node must not lead any more
}

func newCore(cfg Config) *core {
	c := &core{cfg: cfg, log: cfg.Log, clock: cfg.Clock}
	c.wakeProposer, c.stop = make(chan struct{}, 1), make(chan struct{})
	c.raft = &group{self: raft.ServerID(cfg.ID), stop: c.stop}
	return c
}

// fatal ends the process: what happened would put the agreement of the replicas at
// risk.
func (c *core) fatal(err error) {
	c.fatalOnce.Do(func() {
		c.broken.Store(true)
		c.lead.Store(nil)
		wake.Signal(c.wakeProposer)
		c.cfg.Fatal(err)
	})
}

// group is Raft, and what the parts of a node ask of it: who the members are, and whether this
// node follows or leads them.
type group struct {
	*raft.Raft // nil until it has been made
	self       raft.ServerID
	started    atomic.Bool // Raft may be asked
	stop       <-chan struct{}
}

// servers lists all members.
func (g *group) servers() []raft.Server {
	f := g.GetConfiguration() // answers from memory, at once
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// startedServers is servers, or none before there is a Raft to ask.
func (g *group) startedServers() []raft.Server {
	if !g.started.Load() {
		return nil
	}
	return g.servers()
}

// voters lists the members that have a vote, as of the latest configuration.
func (g *group) voters() []raft.Server {
	servers := g.servers()
	voters := make([]raft.Server, 0, len(servers))
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			voters = append(voters, s)
		}
	}
	return voters
}

// others is the number of other voters: what WAIT and connected_slaves say. It
// does not follow who is up at the moment: a commit needs a majority anyway, and a
// client that compares the two figures must not see them differ.
func (g *group) others() int64 {
	return int64(max(len(g.voters())-1, 0))
}

// alone reports whether this node is the only voter: then there is nobody to ask.
func (g *group) alone() bool {
	voters := g.voters()
	return len(voters) == 1 && voters[0].ID == g.self
}

// idAt names the member at a peer address, "" where none is known. What another
// node answers there must not count as that member's answer.
func (g *group) idAt(addr string) string {
	for _, s := range g.startedServers() {
		if string(s.Address) == addr {
			return string(s.ID)
		}
	}
	return ""
}

// follows reports whether this node follows the leader of term.
func (g *group) follows(term uint64) bool {
	return g.started.Load() && g.State() == raft.Follower && g.CurrentTerm() == term
}

// owes reports whether this node leads in term and the member is still at that
// address: only then replication to it goes on.
func (g *group) owes(term uint64, id raft.ServerID, addr raft.ServerAddress) bool {
	if !g.started.Load() || g.State() != raft.Leader || g.CurrentTerm() != term {
		return false
	}
	return slices.ContainsFunc(g.servers(), func(s raft.Server) bool { return s.ID == id && s.Address == addr })
}

// wait waits for a future of Raft, which may never answer once Raft has shut down.
func (g *group) wait(ctx context.Context, f raft.Future) error {
	answer := make(chan error, 1)
	go func() { answer <- f.Error() }()
	return g.await(ctx, answer)
}

// await waits for an answer as long as its client and this node are there.
func (g *group) await(ctx context.Context, answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-g.stop:
		return errHalted
	}
}

// stopping reports whether the node stops.
func (g *group) stopping() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}

// raftLog passes what Raft says on to slog, quietly: Raft's own words are for
// debugging, the operator reads ours (lead.go). Its errors are shown, but each text
// once in a while only: it repeats them several times a second while a peer is away.
type raftLog struct {
	hclog.Logger // everything that is not overridden does nothing
	prefix       string
	log          *slog.Logger
	args         []any
	errors       *loglimit.Limiter // by text
}

func newRaftLog(prefix string, log *slog.Logger) *raftLog {
	return &raftLog{Logger: hclog.NewNullLogger(), prefix: prefix, log: log, errors: &loglimit.Limiter{}}
}

func (l *raftLog) logLine(level slog.Level, msg string, args []any) {
	l.log.Log(context.Background(), level, l.prefix+msg, append(l.args[:len(l.args):len(l.args)], args...)...)
}

// Log implements hclog.Logger.
func (l *raftLog) Log(level hclog.Level, msg string, args ...any) {
	if level >= hclog.Error {
		l.Error(msg, args...)
		return
	}
	l.logLine(slog.LevelDebug, msg, args)
}

// Trace implements hclog.Logger.
func (l *raftLog) Trace(string, ...any) {}

// Debug implements hclog.Logger.
func (l *raftLog) Debug(msg string, args ...any) { l.logLine(slog.LevelDebug, msg, args) }

// Info implements hclog.Logger.
func (l *raftLog) Info(msg string, args ...any) { l.logLine(slog.LevelDebug, msg, args) }

// Warn implements hclog.Logger.
func (l *raftLog) Warn(msg string, args ...any) { l.logLine(slog.LevelDebug, msg, args) }

// Error implements hclog.Logger.
func (l *raftLog) Error(msg string, args ...any) {
	level := slog.LevelDebug
	if _, ok := l.errors.Allow(msg); ok {
		level = slog.LevelInfo
	}
	l.logLine(level, msg, args)
}

// With implements hclog.Logger.
func (l *raftLog) With(args ...any) hclog.Logger {
	next := *l
	next.args = append(l.args[:len(l.args):len(l.args)], args...)
	return &next
}

// Named implements hclog.Logger.
func (l *raftLog) Named(string) hclog.Logger { return l }

// ResetNamed implements hclog.Logger.
func (l *raftLog) ResetNamed(string) hclog.Logger { return l }

// GetLevel implements hclog.Logger.
func (l *raftLog) GetLevel() hclog.Level { return hclog.Debug }

// IsDebug implements hclog.Logger.
func (l *raftLog) IsDebug() bool { return l.log.Enabled(context.Background(), slog.LevelDebug) }

// StandardWriter implements hclog.Logger.
func (l *raftLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
