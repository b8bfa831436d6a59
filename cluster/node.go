package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clients"
	"lockd/cluster/clock"
	"lockd/cluster/face"
	"lockd/cluster/figures"
	"lockd/cluster/followers"
	"lockd/cluster/group"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/request"
	"lockd/cluster/snapshot"
	"lockd/cluster/store"
	"lockd/cluster/wait"
	"lockd/cluster/wake"
	"lockd/resp"
)

// Node is one node of a cluster. It executes requests of this node's clients, from
// wherever in the cluster that must be. All methods may be called concurrently.
type Node struct {
	*core
	data

	peers *peer.Port
	trans *transport

	// From the clients to the log, and from it.
	commands  *commands // what they may send
	requests  *request.Router
	blocker   *wait.Blocker
	suspender *wait.Suspender
	asker     *clients.Asker
	fsm       *fsm
	state     *replica.State

	// Beside it.
	members     *members
	gate        *gatekeeper
	contacts    *followers.Contacts
	deaths      *deaths
	acked       *followers.Acked
	replicas    *followers.Conns
	announcer   *followers.Announcer
	ownLog      *ownLog
	snapshots   *snapshot.Snapshots
	backups     *snapshot.Backups
	elections   *elections
	keeper      *keeper
	entrance    *entrance
	leaderWatch *leaderWatch
	topology    *face.Topology
	disk        *diskWatch
	room        *figures.Room
	sentinel    *face.Sentinel // nil if this node is none

	syncs      figures.Durations // of appends to the log on this node's disk
	surveys    surveyCache
	ready      chan struct{} // closed when Raft may be asked
	stopOnce   sync.Once
	goroutines sync.WaitGroup
}

// Open starts a node. It returns once the node takes part in the cluster; whether
// there is a leader yet is another matter. Its errors are sentences for the
// operator.
func Open(cfg Config) (n *Node, err error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	c := newCore(cfg)
	d, err := openData(c)
	if err != nil {
		return nil, err
	}
	parts, started := assemble(c, d), false
	defer func() { // also if Fatal ends this goroutine, as in a simulated node
		if !started {
			err = errors.Join(err, parts.release())
		}
	}()
	if err := parts.open(); err != nil {
		return nil, err
	}
	parts.start()
	started = true
	return parts, nil
}

// data holds what this node keeps on its disk, open.
type data struct {
	dir    *store.Folder      // nil in memory
	mark   *store.AppliedMark // nil in memory
	seen   membership.SeenStore
	stores *store.Stores
	meta   store.Meta // in memory only the incarnation and the starts
}

// openData opens the data folder of a node, or its disk in memory.
func openData(c *core) (d data, err error) {
	opts := store.Options{
		LogStore: c.cfg.LogStore, Fatal: c.fatal,
		CacheSize: 4 * followers.EntriesMax, Log: group.NewLog("store: ", c.log), SegmentBytes: c.cfg.segmentBytes(), Faults: c.cfg.Faults,
	}
	if c.cfg.Disk != nil {
		incarnation, starts := c.cfg.Disk.Begin()
		d.seen, d.meta = c.cfg.Disk, store.Meta{Incarnation: incarnation, History: starts}
		d.stores, err = c.cfg.Disk.Open(opts)
		return d, err
	}
	if d.dir, err = store.OpenFolder(c.cfg.Dir, c.cfg.ID, membership.OwnArch); err != nil {
		return d, err
	}
	d.seen, d.meta = d.dir, d.dir.Meta()
	if d.mark, err = store.OpenApplied(d.dir); err == nil {
		d.stores, err = store.Open(d.dir, opts)
	}
	if err != nil {
		err = errors.Join(err, d.close())
	}
	return d, err
}

func (d data) close() error {
	var errs []error
	if d.stores != nil {
		errs = append(errs, d.stores.Close())
	}
	if d.dir != nil {
		errs = append(errs, d.mark.Close(), d.dir.Close())
	}
	return errors.Join(errs...)
}

// assemble makes the parts, from below: each is made with those that it uses. Where two parts use each other, the lower
// one is given a function of the upper one, which it calls once the node has started.
func assemble(c *core, d data) *Node {
	n := &Node{core: c, data: d, peers: peer.New(), ready: make(chan struct{}), room: &figures.Room{}}
	lost := make(chan struct{}, 1) // a member's process has ended, or this node leads: for the suspender
	n.contacts = followers.NewContacts(c.clock, c.raft.Self, c.cfg.Heartbeat)
	clocks := clock.NewMembers(c.clock, c.raft, &c.lead, c.log, n.peers)
	n.members = newMembers(c, d, n.peers, clocks, n.serveStatus, n.contacts.Gone)
	n.gate = &gatekeeper{core: c, members: n.members}
	n.commands = &commands{protocol: protocolOf(&c.cfg), data: c.cfg.Machine, members: n.members}
	n.state = replica.New(n.members.stateConfig())
	n.acked = followers.NewAcked(c.raft, n.members.identityOf, n.state.Applied.Load)
	n.leaderWatch = newLeaderWatch(c, n.contacts, func() { n.elections.recordLoss() }, d.stores.Slow)
	n.requests = request.New(request.Config{
		Self: c.cfg.ID, LeaderWait: c.cfg.LeaderWait, Heartbeat: c.cfg.Heartbeat, Clock: c.clock, Raft: c.raft,
		Lead: &c.lead, Changed: &c.changed, Due: c.wakeProposer, Stop: c.stop, State: n.state, Peers: n.peers,
		Clocks: clocks, Commands: n.commands, NotDone: n.commands.notDone,
		Own:    func(ctx context.Context, c resp.Cmd) (peer.Outcome, resp.Reply) { return leadOwn(ctx, n, c) },
		TermOf: n.leaderWatch.termOf, Gone: n.contacts.Gone, Listening: c.cfg.Publisher.Listening, Fatal: c.fatal,
		Faults: c.cfg.Faults,
	})
	n.replicas = followers.NewConns(func(target raft.ServerAddress) (net.Conn, error) {
		return n.peers.Streams().DialLog(target, followers.Timeout)
	})
	n.snapshots = snapshot.New(snapshot.Config{
		Raft: c.raft, Stores: d.stores, Clock: c.clock, Log: c.log, Stop: c.stop,
		EntriesMax: c.cfg.SnapshotEntries, BytesMax: c.cfg.SnapshotBytes,
	})
	n.ownLog = &ownLog{core: c, state: n.state, snapshots: n.snapshots, stores: d.stores, mark: d.mark}
	n.announcer = followers.NewAnnouncer(c.raft, c.stop, n.requests.Proposer.Busy, n.replicas)
	n.trans = &transport{
		core: c, stores: d.stores, peers: n.peers, members: n.members, contacts: n.contacts, acked: n.acked,
		announcer: n.announcer, ownLog: n.ownLog, snapshots: n.snapshots, replicas: n.replicas, led: &n.state.Led,
		yielder: &yielder{
			core: c, stores: d.stores, members: n.members, contacts: n.contacts, announcer: n.announcer,
			replicas: n.replicas, timeoutNow: func(
				id raft.ServerID, to raft.ServerAddress, req *raft.TimeoutNowRequest, answer *raft.TimeoutNowResponse,
			) error {
				return n.trans.TimeoutNow(id, to, req, answer)
			},
		},
	}
	n.deaths = newDeaths(c, n.peers, n.trans, n.room, func(string) { wake.Signal(lost) })
	n.blocker = wait.NewBlocker(wait.BlockerConfig{
		State: n.state, Clock: c.clock, Changed: &c.changed, Stop: c.stop, Self: c.cfg.ID, Starts: n.members.starts,
		Heartbeat: c.cfg.Heartbeat, LeaderWait: c.cfg.LeaderWait, NotDone: n.commands.notDone,
		Do: n.requests.RunUntilDone, Read: n.requests.Read,
	})
	n.suspender = wait.NewSuspender(wait.SuspenderConfig{
		State: n.state, Claims: n.requests.Reader.Claims, Contacts: n.contacts, Raft: c.raft, Lead: &c.lead, Clock: c.clock,
		Log: c.log, Stop: c.stop, Self: c.cfg.ID, Starts: n.members.starts, Heartbeat: c.cfg.Heartbeat,
		Roster: n.members.roster.Load, Met: n.members.identityOf, Propose: n.requests.ProposeIn,
	}, lost)
	asking := clients.Config{
		Raft: c.raft, Peers: n.peers, Clock: c.clock, Stop: c.stop, LeaderWait: c.cfg.LeaderWait,
		Heartbeat: c.cfg.Heartbeat, Starts: n.members.starts, Number: n.members.number.Load, Roster: n.members.roster.Load,
	}
	if c.cfg.Clients != nil {
		asking.Answer = c.cfg.Clients.Answer
	}
	n.asker = clients.New(asking)
	n.elections = &elections{
		core: c, state: n.state, members: n.members, requests: n.requests, announcer: n.announcer, contacts: n.contacts,
		clocks: clocks, deaths: n.deaths, watch: n.leaderWatch, suspender: n.suspender,
		elected: make(chan bool, 16),
	}
	n.entrance = newEntrance(c, d, n.peers, n.members, n.gate, n.state)
	n.keeper = &keeper{
		changing: make(chan struct{}, 1),
		core:     c, state: n.state, members: n.members, proposer: n.requests.Proposer, elections: n.elections,
		watch: n.leaderWatch, find: n.entrance.findMoved,
	}
	n.disk = &diskWatch{
		core: c, room: n.room, look: d.stores.MeasureSpace, state: n.state, members: n.members, elections: n.elections,
		requests: n.requests,
	}
	n.fsm = &fsm{
		core: c, stores: d.stores, mark: d.mark, state: n.state, members: n.members,
		attempts: n.requests.Attempts, blocker: n.blocker, announcer: n.announcer, snapshots: n.snapshots, ownLog: n.ownLog,
	}
	known := face.Host{
		Clock: c.clock, Raft: c.raft, Lead: &c.lead, Changed: &c.changed, Stop: c.stop, Peers: n.peers, Clocks: clocks,
		Members: n.members, Applied: n.state.Applied.Load, Heartbeat: c.cfg.Heartbeat, LeaderWait: c.cfg.LeaderWait,
	}
	n.topology, n.sentinel = face.New(known, c.cfg.Sentinel)
	n.backups = snapshot.NewBackups(c.clock, c.stop)
	return n
}

// open takes what the node needs, in order; release gives it back.
func (n *Node) open() error {
	if err := n.members.openStartLog(); err != nil {
		return err
	}
	n.stores.Attach(store.Hooks{
		Leads:   func() bool { return n.raft.Started.Load() && n.raft.State() == raft.Leader },
		Applied: n.state.Applied.Load,
		Base:    n.snapshots.Base,
		Stored: func(took time.Duration) {
			n.syncs.Add(took)
			n.requests.Proposer.Stored()
		},
		Now: n.clock.Monotonic,
	})
	if err := n.members.begin(n.stores.Empty); err != nil {
		return err
	}
	if err := n.openPeers(); err != nil {
		return err
	}
	if _, port, err := net.SplitHostPort(n.cfg.PeerAdvertise); err == nil && port == "0" {
		addr := n.peers.ListenAddr() // the system chose the port
		n.members.advertise.Store(&addr)
	}
	err := n.startRaft()
	if err == nil && n.fsm.tooOld != nil {
		_ = n.raft.Shutdown().Error()
	}
	if err = cmp.Or(n.fsm.tooOld, err); err != nil {
		return err
	}
	if n.members.roster.Load().Removed[n.cfg.ID] { // what the log says may not be committed
		_ = n.raft.Shutdown().Error()
		return membership.WasRemoved(n.cfg.ID)
	}
	return nil
}

// SetPeerSecrets has other secrets in force for new connections with peers; one at least, each with
// peer.SecretMin bytes. It does nothing on a node that was opened with neither secrets nor certificates.
func (n *Node) SetPeerSecrets(secrets [][]byte) { n.peers.SetSecrets(secrets) }

// openPeers opens the peer port. The port is served once the node is ready to judge callers.
func (n *Node) openPeers() error {
	var certs *peer.Certificates
	if n.cfg.PeerCerts != nil {
		certs = &peer.Certificates{Current: n.cfg.PeerCerts, HostOf: n.members.hostOf}
	}
	err := n.peers.Listen(peer.Config{
		Network: n.cfg.Network, Listen: n.cfg.PeerListen, Self: n.members.identity,
		Heartbeat: n.cfg.Heartbeat, Patience: followers.Timeout, Log: n.log, Expect: n.raft.IDAt, AddrOf: n.entrance.addrOf,
		Secrets: n.cfg.PeerSecrets, Certs: certs, Ready: n.ready,
	}, peer.Handler{
		Admit: n.gate.admit, Forward: n.requests.Serve, Status: n.serveStatus, Refused: n.gate.refused,
		Suspected: n.deaths.suspected, Heard: n.deaths.heard, Ended: n.deaths.ended,
		Query: n.asker.Serve,
	})
	if err != nil {
		return fmt.Errorf("peer address %s: %w", n.cfg.PeerListen, err)
	}
	return nil
}

// raftConfig tunes Raft. A member whose disk takes its time is not taken for
// dead (askHeartbeat), so the heartbeat need not be above the slowest fsync.
func raftConfig(cfg *Config, elected chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(cfg.ID)
	c.HeartbeatTimeout = cfg.Heartbeat
	c.ElectionTimeout = cfg.Heartbeat
	c.LeaderLeaseTimeout = cfg.Heartbeat
	c.CommitTimeout = cfg.commitTimeout
	c.MaxAppendEntries = followers.EntriesMax
	c.ShutdownOnRemove = false // the others refuse a removed node: it stops with their sentence
	c.NotifyCh = elected
	c.NoLegacyTelemetry = true
	// Snapshots and trimming are ours (snapshot.go): by bytes too, and so that the
	// log always reaches back to the older snapshot.
	c.SnapshotInterval = never
	c.SnapshotThreshold = 1 << 62
	c.TrailingLogs = 1 << 62
	c.Logger = group.NewLog("raft: ", cfg.Log)
	return c
}

// never is an interval that does not pass, although Raft adds up to as much again.
const never = 100 * 365 * 24 * time.Hour

// startRaft makes the first configuration if there is none yet, and starts Raft.
func (n *Node) startRaft() (err error) {
	conf := raftConfig(&n.cfg, n.elections.elected)
	trans := n.trans
	trans.open(conf.Logger)
	defer func() {
		// Raft panics over a log or a snapshot it cannot read at the start.
		if r := recover(); r != nil {
			err = fmt.Errorf("raft: %v", r)
		}
		if n.raft.Raft == nil {
			_ = trans.Close()
		}
	}()
	if n.members.founder {
		self := raft.Server{ID: raft.ServerID(n.cfg.ID), Address: raft.ServerAddress(*n.members.advertise.Load())}
		first := raft.Configuration{Servers: []raft.Server{self}}
		err := raft.BootstrapCluster(conf, n.stores.Log, n.stores.Stable, n.stores.Snaps, trans, first)
		if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
			return err
		}
	}
	found, err := scanLog(n.stores)
	if err != nil {
		return err
	}
	n.fsm.replayTo = found.replayTo
	if found.scanned {
		// Until the log is committed again, these hints keep out a member that has lost its data.
		n.members.hints.Store(found.hints)
		if err := n.entrance.check(found.servers); err != nil {
			return err
		}
	}
	n.snapshots.RecordSize()
	r, err := raft.NewRaft(conf, n.fsm, n.stores.Log, n.stores.Stable, n.stores.Snaps, trans)
	if err != nil {
		return err
	}
	n.raft.Raft = r
	n.snapshots.RecordBase()
	return nil
}

// logScan holds what a look through the log finds before Raft starts.
type logScan struct {
	replayTo uint64             // index of the last entry that the machine applies
	hints    *membership.Roster // what the log says of the members, committed or not
	servers  []raft.Server      // the members
	scanned  bool               // there is a log
}

// scanLog looks through the log before Raft starts.
func scanLog(s *store.Stores) (found logScan, err error) {
	found = logScan{hints: membership.Empty}
	first, err := s.Log.FirstIndex()
	if err != nil || first == 0 {
		return found, err
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return found, err
	}
	found.servers, found.scanned = serversOfSnapshot(s), true
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := s.Log.GetLog(i, &l); err != nil {
			return found, fmt.Errorf("log entry %d: %w", i, err)
		}
		if l.Type == raft.LogConfiguration {
			found.servers = raft.DecodeConfiguration(l.Data).Servers
		}
		if l.Type != raft.LogCommand {
			continue
		}
		found.replayTo = i
		if record.KindOf(l.Data) != record.Roster {
			continue // not decoded here: there are millions of requests
		}
		if e, err := record.Decode(l.Data); err == nil && e.Term == l.Term {
			found.hints = found.hints.With(e.Change)
		}
	}
	return found, nil
}

// serversOfSnapshot returns the members as of the newest snapshot, if there is one.
func serversOfSnapshot(s *store.Stores) []raft.Server {
	snaps, err := s.Snaps.List()
	if err != nil || len(snaps) == 0 {
		return nil
	}
	return snaps[0].Configuration.Servers
}

// start starts the node's goroutines.
func (n *Node) start() {
	n.fsm.opened.Store(true)
	n.raft.Started.Store(true)
	close(n.ready)
	if n.snapshots.LacksSpare() {
		n.snapshots.Expose()
	}
	n.leaderWatch.start()
	n.topology.Start()
	n.goroutines.Go(n.topology.Watch)
	n.goroutines.Go(n.topology.Listen)
	n.cfg.Publisher.Publish(n.state.Settings())
	n.goroutines.Go(n.requests.Proposer.Run)
	n.goroutines.Go(n.requests.Reader.Run)
	n.goroutines.Go(n.blocker.Keep)
	n.goroutines.Go(n.suspender.Run)
	n.goroutines.Go(n.asker.Run)
	n.goroutines.Go(n.announcer.Run)
	n.goroutines.Go(n.elections.run)
	n.goroutines.Go(n.deaths.run)
	n.goroutines.Go(n.snapshots.Run)
	n.goroutines.Go(n.keeper.run)
	n.goroutines.Go(n.leaderWatch.run)
	if n.disk.look != nil && n.cfg.KeepRoom {
		n.goroutines.Go(n.disk.run)
	}
	if n.raft.Alone() {
		n.goroutines.Go(func() { n.trans.elect(func() bool { return true }) })
	}
	if n.members.listed() && n.members.search.On() {
		n.goroutines.Go(n.entrance.foundByList)
	}
}

// serveStatus implements peer.Handler. The time that is shown is noted before the term is read, and read after it: a
// node that has answered a leader of this term tells a later one what it was told.
func (n *Node) serveStatus(shown int64) peer.Status {
	if !n.raft.Started.Load() {
		return peer.Status{} // term 0 is nobody's
	}
	clocks := n.members.clocks
	clocks.Show(shown)
	st := peer.Status{
		Term:      n.raft.CurrentTerm(),
		Leader:    n.lead.Held(),
		Applied:   n.state.Applied.Load(),
		LastIndex: n.raft.LastIndex(),
		Short:     n.room.Now().Short,
	}
	st.Shown, st.Wall = clocks.Show(0), clocks.Wall()
	return st
}

// Close hands leadership over, waits until what is in flight has been answered,
// and stops the node. When ctx ends it stops at once. The server must not send it
// requests any more when Close returns, but may until then.
func (n *Node) Close(ctx context.Context) error {
	var err error
	n.stopOnce.Do(func() {
		n.blocker.Leave(ctx)
		if n.lead.Held() && len(n.raft.Voters()) > 1 {
			if err := n.elections.handOver(ctx, ""); err != nil {
				n.log.Info("leadership could not be handed over before stopping: the others elect", "why", err)
			}
		}
		answering, cancel := context.WithTimeout(ctx, drainMax)
		defer cancel()
		wake.Poll(answering, func() bool { return n.requests.Serving.Load() == 0 })
		err = n.shutdown()
	})
	return err
}

// drainMax bounds the wait for requests that are being answered.
const drainMax = 5 * time.Second

// shutdown stops everything, in the reverse order of open.
func (n *Node) shutdown() error {
	n.leaderWatch.stopping()
	close(n.stop)
	n.goroutines.Wait()
	n.deaths.close()
	down := n.raft.Shutdown()
	n.peers.Close() // what Raft has sent to a member that is away it would wait for; and the others for it
	return errors.Join(down.Error(), n.release())
}

func (n *Node) release() error {
	n.peers.Close()
	return n.data.close()
}

// Sentinel returns the node's sentinel; nil if it was opened without one.
func (n *Node) Sentinel() *face.Sentinel { return n.sentinel }

// ClientID returns the id of the nth client since this process began. No other client of the cluster has it, before or
// after.
func (n *Node) ClientID(nth uint64) int64 { return n.asker.ClientID(nth) }

// Members returns the number of other members, as far as this node knows.
func (n *Node) Members() int { return n.asker.Members() }

// Ask puts a question about clients to the other members, as clients.Asker does.
func (n *Node) Ask(ctx context.Context, q resp.Inquiry) ([]resp.Reply, error) {
	return n.asker.Ask(ctx, q)
}

// Leases returns what this node knows of locks: by the entries that it has applied, and by the log clock
// as far as it can have run. While no leader is heard from that clock stands still, and so does what
// is left of a lease. It may be called concurrently.
func (n *Node) Leases(locks []resp.HeldLock) []resp.Lease {
	lead := n.lead.Load()
	leases, tick := n.state.Leases(locks)
	if lead != nil {
		tick = max(tick, lead.Tick())
	}
	for i := range leases {
		if l := &leases[i]; l.Held && l.LeaseMs >= 0 {
			l.LeftMs = max(0, l.Until-tick)
		}
	}
	return leases
}
