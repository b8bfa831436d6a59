package request

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/group"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/wake"
	"lockd/resp"
)

// oneNode is a node that is the only member, with the parts that requests use: Raft with a log in memory, and a machine
// that does what a test says.
type oneNode struct {
	*Router
	t       *testing.T
	machine *stubMachine
	ended   error              // why the process was ended
	seen    func(record.Entry) // is called for each entry; nil: nothing is
	slow    atomic.Int64       // the time.Duration that an entry takes; the machine is not locked meanwhile
}

// stubMachine answers every command with OK, unless a test says something else.
type stubMachine struct {
	replica.Machine

	mu      sync.Mutex
	tick    int64
	entries [][]resp.Request // that were applied

	deadline atomic.Int64
	seen     []resp.Stamp // of reads
	tried    []resp.Stamp // of dry runs

	apply func(req resp.Request) resp.Result
	view  func(req resp.Request) resp.Result
	dry   func(req resp.Request) (resp.Result, bool)
	full  string // nodes
}

func answered(req resp.Request) resp.Result {
	return resp.Result{Replies: make([]resp.Reply, len(req.Cmds))}
}

func (m *stubMachine) Apply(at resp.Stamp, reqs []resp.Request) (results []resp.Result, _ []resp.Message) {
	m.mu.Lock()
	m.tick = at.Tick
	m.entries = append(m.entries, reqs)
	m.mu.Unlock()
	for _, req := range reqs {
		results = append(results, m.apply(req))
	}
	return results, nil
}

// state returns the entries that were applied, and the tick of the last one, once everybody waits.
func (m *stubMachine) state() (entries [][]resp.Request, tick int64) {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.entries), m.tick
}

func (m *stubMachine) Tick() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tick
}

func (m *stubMachine) View(at resp.Stamp, req resp.Request) resp.Result {
	m.seen = append(m.seen, at)
	return m.view(req)
}

func (m *stubMachine) DryRun(at resp.Stamp, req resp.Request) (resp.Result, bool) {
	m.tried = append(m.tried, at)
	return m.dry(req)
}

func (m *stubMachine) Wall() int64                        { return 0 }
func (m *stubMachine) NextDeadline() (int64, bool)        { d := m.deadline.Load(); return d, d != 0 }
func (m *stubMachine) FullDisks() (nodes, refusal string) { return m.full, "OOM " + m.full }
func (m *stubMachine) Blocks() resp.BlockView             { return noBlocks{} }
func (m *stubMachine) SetLevel(int)                       {}
func (m *stubMachine) Digest() uint64                     { return 1 }

// Find knows commands by their first letters: W writes, U does and must not be logged, L asks for a lock that may be
// taken, O is the node's own, R reads, and X is unknown.
func (m *stubMachine) Find(args resp.Args) (*resp.Spec, resp.Reply) {
	spec := &resp.Spec{Name: strings.ToLower(args[0]), Arity: -2, Group: "string"}
	switch args[0][0] {
	case 'W', 'U':
		spec.Flags = resp.Write | resp.DenyOOM
	case 'L':
		spec.Flags, spec.Refuses, spec.Keys = resp.Write, "*", resp.FirstKey
	case 'X':
		return nil, resp.Err("ERR unknown command")
	}
	return spec, resp.Reply{}
}

type noBlocks struct{ resp.BlockView }

func (noBlocks) Revision() uint64 { return 0 }

// Identify, IsOwn and Fits are the commands that clients may send.
func (n *oneNode) Identify(cmds []resp.Cmd) {
	for i := range cmds {
		cmds[i].Spec, _ = n.machine.Find(cmds[i].Args)
	}
}

func (n *oneNode) IsOwn(cmds []resp.Cmd) bool { return len(cmds) == 1 && cmds[0].Args[0][0] == 'O' }

func (n *oneNode) Fits(req resp.Request) error {
	for _, c := range req.Cmds {
		if c.Args[0][0] == 'U' {
			return errors.New("ERR unknown here")
		}
	}
	return nil
}

// Apply, Snapshot and Restore are what Raft calls.
func (n *oneNode) Apply(l *raft.Log) any {
	e, err := record.Decode(l.Data)
	if err != nil {
		n.t.Error(err)
	}
	for _, req := range e.Reqs {
		n.Identify(req.Cmds)
	}
	if n.seen != nil {
		n.seen(e)
	}
	time.Sleep(time.Duration(n.slow.Load()))
	did, _ := n.State.Apply(l, &e)
	n.State.Delivered.Store(l.Index)
	n.Attempts.Applied(l.Term, &e, did)
	return did
}

func (n *oneNode) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("none") }
func (n *oneNode) Restore(io.ReadCloser) error         { return nil }

const leaderWait = 5 * time.Second

// withNode runs a test on a node that does not lead yet, in virtual time.
func withNode(t *testing.T, test func(t *testing.T, n *oneNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		n := &oneNode{t: t, machine: &stubMachine{
			apply: answered, view: answered,
			dry: func(resp.Request) (resp.Result, bool) { return resp.Result{}, false },
		}}
		c, due, roster := clock.NewSystem(), make(chan struct{}, 1), membership.Empty
		g := group.New("n1", stop)
		lead := &clock.CurrentTerm{}
		peers := peer.New()
		cfg := Config{
			Self: "n1", LeaderWait: leaderWait, Heartbeat: time.Second, Clock: c, Raft: g, Lead: lead,
			Changed: &wake.Broadcast{}, Due: due, Stop: stop, Peers: peers, Commands: n, NotDone: "LOADING not done",
			State: replica.New(replica.Config{
				Machine: n.machine, Clock: c, Due: due, Check: func(int) error { return nil },
				Roster: func() *membership.Roster { return roster },
				Use:    func(next *membership.Roster) { roster = next },
			}),
			Clocks: clock.NewMembers(c, g, lead, nil, peers),
			Own: func(_ context.Context, cmd resp.Cmd) (peer.Outcome, resp.Reply) {
				switch cmd.Args[0] {
				case "OERR":
					return peer.Done, resp.Err("ERR of the node")
				case "OLATER":
					return peer.NotDone, resp.Reply{}
				}
				return peer.Done, resp.Int(7)
			},
			TermOf: func(ctx context.Context, _ string) (context.Context, context.CancelFunc, bool) {
				term, cancel := context.WithCancel(ctx)
				return term, cancel, true
			},
			Gone: func(string) bool { return false }, Listening: func() bool { return false },
			Fatal: func(err error) { n.ended = err },
		}
		n.Router = New(cfg)
		rc := raft.DefaultConfig()
		rc.LocalID, rc.Logger = "n1", hclog.NewNullLogger()
		log := raft.NewInmemStore()
		addr, transport := raft.NewInmemTransport("n1")
		servers := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: addr}}}
		if err := raft.BootstrapCluster(rc, log, log, raft.NewInmemSnapshotStore(), transport, servers); err != nil {
			t.Fatal(err)
		}
		r, err := raft.NewRaft(rc, n, log, log, raft.NewInmemSnapshotStore(), transport)
		if err != nil {
			t.Fatal(err)
		}
		g.Raft = r
		g.Started.Store(true)
		go n.Proposer.Run()
		go n.Reader.Run()
		defer func() {
			n.slow.Store(0)
			time.Sleep(time.Minute) // what is on its way ends
			close(stop)
			if err := r.Shutdown().Error(); err != nil {
				t.Error(err)
			}
			time.Sleep(CommitWaitMax) // timers of the last entries
			synctest.Wait()
		}()
		for r.State() != raft.Leader {
			time.Sleep(time.Millisecond)
		}
		if err := r.Barrier(0).Error(); err != nil {
			t.Fatal(err)
		}
		test(t, n)
	})
}

// leads has the node lead from now on, from a tick on. The first entry of the term is applied then.
func (n *oneNode) leads(tick int64) *clock.Leadership {
	lead := &clock.Leadership{
		Term: n.Raft.CurrentTerm(), Base: tick, Origin: n.Clock.Monotonic(), Clock: n.Clock,
		Wall: clock.StartWall(n.Clock, 1000, func() (int64, bool) { return 0, false }),
	}
	n.Lead.Store(lead)
	n.Wake()
	n.Changed.Notify()
	synctest.Wait() // for the first entry of the term
	return lead
}

// pass has time pass, until everybody waits.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// logged lists the requests that were logged, by entry; entries without requests are left out.
func (n *oneNode) logged() (entries [][]resp.Request) {
	entries, _ = n.machine.state()
	return slices.DeleteFunc(entries, func(e []resp.Request) bool { return len(e) == 0 })
}

// req is a request of commands, each a line.
func (n *oneNode) req(lines ...string) (req resp.Request) {
	for _, line := range lines {
		req.Cmds = append(req.Cmds, resp.Cmd{Args: strings.Fields(line)})
	}
	n.Identify(req.Cmds)
	return req
}

// said is a result in a line.
func said(res resp.Result) string {
	var all []string
	for _, r := range res.Replies {
		all = append(all, r.Str)
	}
	return strings.Join(all, "|")
}

func (n *oneNode) idle() {
	n.t.Helper()
	synctest.Wait()
	if n.Serving.Load() != 0 || n.Proposer.Ops() != 0 || n.Attempts.Open() != 0 || n.Proposer.Busy() {
		n.t.Errorf("%d are served, %d on their way, %d attempts are open", n.Serving.Load(), n.Proposer.Ops(), n.Attempts.Open())
	}
}
