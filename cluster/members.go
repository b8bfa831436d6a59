package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/founding"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/cluster/replica"
	"lockd/cluster/store"
	"lockd/cluster/wake"
)

// members holds the identity of this node and of the other members, and admits or refuses them.
// All methods may be called concurrently.
type members struct {
	*core
	peers  *peer.Port                    // nil where the members are no node's (offline)
	dir    *store.Folder                 // nil in memory
	seen   membership.SeenStore          // where the starts of other nodes are kept
	status func(shown int64) peer.Status // of this node
	gone   func(id string) bool          // the process of a member has ended
	clocks *clock.Members

	roster atomic.Pointer[membership.Roster] // replaced under state.mu
	hints  atomic.Pointer[membership.Roster] // roster as of the whole log at the start, committed or not

	metMu           sync.Mutex
	met             map[string]peer.Identity // peers that introduced themselves, by id
	compatibleLevel map[string]int           // by id, the level up to which a peer has the rules of this node
	due             chan struct{}            // capacity 1: there is something for the keeper to do
	startLog        *membership.StartLog

	saving sync.Mutex // while the folder is told of the cluster; taken after state.mu

	advertise   atomic.Pointer[string] // how the other nodes reach this one
	process     uint64                 // of this process, drawn at its start
	incarnation string                 // of this node's data folder
	rules       string                 // what membership.Rules gives of this node
	lowest      int                    // level that this node can do
	highest     int                    // the highest one
	number      atomic.Int64           // of this node in the ids of its clients; 0: not known yet
	starts      uint64                 // of this node's data folder
	tokens      string                 // of these starts
	dirCluster  string                 // the cluster that the data folder belonged to at the start
	founder     bool                   // the data folder was empty, and this node is a cluster by itself
	toldLevel   int                    // level in force as of the last entry applied
	openedAt    time.Duration          // monotonic time at which Open was called

	search *founding.Search
}

func newMembers(
	c *core, d data, peers *peer.Port, k *clock.Members, status func(shown int64) peer.Status, gone func(id string) bool,
) *members {
	m := &members{
		core: c, dir: d.dir, seen: d.seen, peers: peers, clocks: k, status: status, gone: gone,
		incarnation: d.meta.Incarnation, dirCluster: d.meta.Cluster, starts: d.meta.Starts, tokens: d.meta.Tokens,
		met: map[string]peer.Identity{}, compatibleLevel: map[string]int{}, due: make(chan struct{}, 1),
		rules: membership.Rules(c.cfg.Machine, formatsSince), openedAt: c.clock.Monotonic(), search: founding.NewSearch(),
	}
	for m.process == 0 {
		m.process = randv2.Uint64()
	}
	m.lowest, m.highest = c.cfg.Machine.Levels()
	m.startLog = &membership.StartLog{Keep: m.isMember}
	m.number.Store(int64(d.meta.Number))
	m.roster.Store(membership.Empty)
	m.hints.Store(membership.Empty)
	m.advertise.Store(&c.cfg.PeerAdvertise)
	return m
}

// openStartLog reads what is known of other nodes' starts, and refuses a folder that was banned.
func (m *members) openStartLog() error {
	if err := m.startLog.Open(m.seen); err != nil {
		return err
	}
	if why := m.startLog.BanReason(m.cfg.ID, m.incarnation); why != "" {
		return fmt.Errorf("data folder %s is not to be used any more: %s", m.cfg.Dir, why)
	}
	return nil
}

// isMember reports whether the roster knows a node, as far as this node knows the roster.
func (m *members) isMember(id string) bool {
	_, known := m.roster.Load().Members[id]
	_, hinted := m.hints.Load().Members[id]
	return known || hinted
}

// identity returns what this node says of itself to the others.
func (m *members) identity() peer.Identity {
	return peer.Identity{
		ID: m.cfg.ID, Process: m.process, Incarnation: m.incarnation, PeerAddr: *m.advertise.Load(),
		ClientAddrs: m.cfg.clientAddrs(), Arch: membership.OwnArch, Format: record.Version,
		Rules: m.rules, Starts: m.starts, Tokens: m.tokens,
		Level: m.level(), Lowest: m.lowest, Highest: m.highest, Version: m.cfg.Version,
		Cluster: cmp.Or(m.roster.Load().Cluster, m.dirCluster, m.hints.Load().Cluster, m.search.Founded()),
		Promise: m.search.Promised(),
	}
}

// begin decides how a node without data comes into a cluster.
func (m *members) begin(empty bool) error {
	err := m.search.Begin(m.dir, empty, m.cfg.Discover != nil || m.listed())
	if err == nil && empty && !m.cfg.Join && m.cfg.Discover == nil && !m.listed() {
		err = m.found()
	}
	return err
}

// listed reports whether a list says with whom this node founds a cluster.
func (m *members) listed() bool { return len(m.cfg.Members) > 1 }

// found gives the cluster of a single node its name before anything else happens: so it and a node that holds another
// cluster's data refuse each other from the first word on.
func (m *members) found() error {
	m.dirCluster = rand.Text()
	m.founder = true
	if m.dir == nil {
		return nil
	}
	return m.dir.SetCluster(m.dirCluster)
}

// metMax bounds the peers that a node remembers having met.
const metMax = 1024

// gatekeeper admits or refuses nodes that connect, and handles refusals by other nodes. All methods may be called
// concurrently.
type gatekeeper struct {
	*core
	members *members
}

// admit implements peer.Handler.
func (g *gatekeeper) admit(who peer.Identity, kind peer.Kind) error {
	if err := g.members.checkPeer(who); err != nil {
		if kind != 0 && g.members.founder {
			g.foundsBeside(fmt.Errorf("%w (it calls)", err), who.PeerAddr)
		}
		return err
	}
	if err := g.checkCaller(who, kind); err != nil {
		return err
	}
	if err := g.checkClone(who); err != nil {
		return err
	}
	level, err := g.checkLevel(who)
	if err != nil {
		return err
	}
	if err := membership.CheckRules(who, g.cfg.ID, g.members.rules, level); err != nil {
		return err
	}
	if err := g.members.startLog.Register(who); err != nil {
		return err
	}
	common := membership.CompatibleLevel(who, g.members.rules, level, g.members.highest)
	who.Rules, who.Tokens = "", "" // checked, and no longer needed
	g.members.metMu.Lock()
	if _, known := g.members.met[who.ID]; known || len(g.members.met) < metMax {
		g.members.met[who.ID], g.members.compatibleLevel[who.ID] = who, common
	}
	g.members.metMu.Unlock()
	wake.Signal(g.members.due)
	return nil
}

// checkLevel returns why a node may not take part because of its level, or else the level at which the node and this
// one must be alike: the level in force as far as either of them knows. It never falls.
func (g *gatekeeper) checkLevel(who peer.Identity) (level int, err error) {
	level = max(g.members.level(), who.Level)
	lowest, highest := max(who.Lowest, membership.LevelFirst), max(who.Highest, membership.LevelFirst)
	switch {
	case level > g.members.highest:
		err := g.members.tooOld(level)
		g.fatal(err) // the log that this node would be sent is beyond it
		return level, err
	case level > highest:
		return level, peer.Because(peer.Outdated, fmt.Errorf("node %s is too old for this cluster: level %d is in force, "+
			"and it can do %s; start a newer lockd on its data folder", who.ID, level, membership.SayLevels(lowest, highest)))
	case level < g.members.lowest || level < lowest:
		return level, fmt.Errorf("nodes %s and %s are of versions too far apart: level %d is in force, and they can do %s "+
			"and %s; start the version between them first",
			g.cfg.ID, who.ID, level, membership.SayLevels(g.members.lowest, g.members.highest),
			membership.SayLevels(lowest, highest))
	}
	return level, nil
}

// checkCaller returns why a node that has connected may not do what it connected for. A joining
// node is called, and calls nobody before it knows its cluster. A member that this node has not
// heard of may replicate, since that is how this node hears of it, and may not forward
// requests of clients.
func (g *gatekeeper) checkCaller(who peer.Identity, kind peer.Kind) error {
	switch {
	case kind != 0 && g.members.search.Refuses():
		return fmt.Errorf("node %s is in no cluster yet, and looks for one", g.cfg.ID)
	case kind == 0 || g.members.identity().Cluster == "": // this node is the caller, or is itself joining
		return nil
	case who.Cluster == "" && !g.knows(who.ID):
		return peer.Because(peer.Stranger, fmt.Errorf("%w: node %s is in no cluster, and none of the members of %s",
			peer.ErrUninvited, who.ID, g.members.identity().Cluster))
	case who.Cluster == "":
		return fmt.Errorf("%w: node %s does not say in which cluster it is", peer.ErrUninvited, who.ID)
	case kind == peer.ForCalls && !g.knows(who.ID):
		return fmt.Errorf("%w: node %s is no member as far as is known here", peer.ErrUninvited, who.ID)
	}
	return nil
}

// knows reports whether a node is a member.
func (g *gatekeeper) knows(id string) bool {
	_, member := g.members.roster.Load().Members[id]
	return member || slices.ContainsFunc(g.raft.Servers(), func(s raft.Server) bool { return string(s.ID) == id })
}

// refused implements peer.Handler.
func (g *gatekeeper) refused(r *peer.Refusal) {
	switch {
	case membership.IsFinal(r.Reason):
		g.fatal(fmt.Errorf("%s (says %s)", r.Text, r.By))
	case r.Reason == peer.Stranger && g.members.listed() && g.members.search.On():
		g.fatal(fmt.Errorf("%s (says %s): this new node does not found a cluster beside a node that has data; add new nodes "+
			"to that one with --join", r.Text, r.By))
	}
}

// foundsBeside stops a single node that was founded at an address of another cluster, whose member at an address calls
// it: two clusters side by side would both grant the same lock. The folder of the node is refused from then on. A caller
// may say anything, so the member is asked where it is.
func (g *gatekeeper) foundsBeside(met error, at string) {
	if g.clock.Monotonic()-g.members.openedAt >= foundingMax || peer.ReasonOf(met) != peer.Foreign {
		return
	}
	who, err := g.members.peers.IdentifyWithin(at, askBackMax)
	if err != nil || who.Cluster == "" || who.Cluster == g.members.identity().Cluster {
		return
	}
	why := fmt.Errorf("%w: this new node does not found a cluster beside a node that has data; add new nodes to that one "+
		"with --join and an empty data folder", met)
	if err := g.members.startLog.Ban(g.members.identity(), why.Error()); err != nil {
		g.log.Warn("this will not be remembered after a restart: look at the disk", "why", err)
	}
	g.fatal(why)
}

// checkClone refuses a node whose start is news if an earlier start of its data folder still answers at an address at
// which it is known: two processes do not share a folder, so the later one runs on a copy. A start is news once.
func (g *gatekeeper) checkClone(who peer.Identity) error {
	if !g.members.startLog.IsNew(who) {
		return nil
	}
	var addrs []string
	for _, s := range g.raft.StartedServers() {
		if string(s.ID) == who.ID {
			addrs = append(addrs, string(s.Address))
		}
	}
	if known, ok := g.members.roster.Load().Members[who.ID]; ok && !slices.Contains(addrs, known.PeerAddr) {
		addrs = append(addrs, known.PeerAddr)
	}
	for _, addr := range addrs {
		if err := g.checkOriginal(who, addr); err != nil {
			return err
		}
	}
	return nil
}

// checkOriginal asks at an address whether the original of a node is there.
func (g *gatekeeper) checkOriginal(who peer.Identity, addr string) error {
	there, err := g.members.peers.IdentifyWithin(addr, askBackMax)
	if err != nil || there.ID != who.ID || there.Incarnation != who.Incarnation || there.Starts >= who.Starts {
		return nil
	}
	return peer.Because(peer.Copied, fmt.Errorf("node %s %s: the original answers at %s, on its start %d, and this is "+
		"start %d; stop this node, and give it a new id and an empty data folder (a folder is moved while its node is "+
		"stopped)",
		who.ID, membership.SaysCopied, addr, there.Starts, who.Starts))
}

// checkPeer returns why a node may not take part. Its address is no reason: this node may have been
// away, or be replaying its log, and know that address as that of a former member. To refuse it
// could keep out the leader, the only node from which this one can learn the change. Where an
// answer counts for the member at an address, package peer checks that it comes from that member.
func (m *members) checkPeer(who peer.Identity) error {
	if who.ID == m.cfg.ID {
		return fmt.Errorf("node %s met itself: two nodes have the same id, or an address points back to its own node",
			who.ID)
	}
	if mine := m.identity().Cluster; mine != "" && who.Cluster != "" && who.Cluster != mine {
		return peer.Because(peer.Foreign, fmt.Errorf("node %s belongs to another cluster (%s, here it is %s): check the "+
			"addresses", who.ID, who.Cluster, mine))
	}
	if err := m.roster.Load().Check(who, membership.OwnArch); err != nil {
		return err
	}
	if err := m.hints.Load().Check(who, membership.OwnArch); err != nil {
		return peer.Because(peer.Passing, fmt.Errorf("%w (as far as the log says, which may not be committed)", err))
	}
	return nil
}

// level returns the level in force, as far as this node has applied the log.
func (m *members) level() int { return m.roster.Load().Level }

// tooOld returns why this node cannot go on where a level is in force.
func (m *members) tooOld(level int) error {
	return membership.TooOld(m.cfg.ID, m.lowest, m.highest, level)
}

// stateConfig returns what the state of this node uses of it.
func (m *members) stateConfig() replica.Config {
	return replica.Config{
		Machine: m.cfg.Machine, Clock: m.clock, Due: m.wakeProposer, Roster: m.roster.Load, Use: m.set,
		Check: func(level int) error {
			if level <= m.highest {
				return nil
			}
			return m.tooOld(level)
		},
	}
}

// foundingMax bounds the time after its first start in which a new single node stops if it meets members of a cluster.
// Later a stranger must not stop it.
const foundingMax = 30 * time.Second

// tellLevel logs that the level has risen since it was last called. Only the goroutine that applies calls it.
func (m *members) tellLevel() {
	was, now := m.toldLevel, m.level()
	m.toldLevel = now
	if was < now && m.raft.Started.Load() {
		m.log.Info("the level in force has risen", "from", was, "to", now)
	}
}

// askBackMax bounds the wait of a caller while this node asks at an address who is there.
const askBackMax = 300 * time.Millisecond

// set takes a new roster into use. The lock of the state is held.
func (m *members) set(next *membership.Roster) {
	m.roster.Store(next)
	if next.Removed[m.cfg.ID] && m.raft.Started.Load() {
		m.fatal(membership.WasRemoved(m.cfg.ID))
	}
	if number := next.Members[m.cfg.ID].Number; number != 0 {
		m.number.Store(int64(number))
	}
	if m.dir != nil && next.Cluster != "" {
		if err := m.saveCluster(next.Cluster); err != nil {
			m.fatal(err)
		}
	}
	if m.peers != nil {
		m.disconnectRefused()
	}
	m.changed.Notify()
}

func (m *members) saveCluster(cluster string) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	if known := m.dir.Meta().Cluster; known != "" && known != cluster {
		return fmt.Errorf("the data folder belongs to cluster %s, the log to cluster %s", known, cluster)
	}
	return errors.Join(m.dir.SetCluster(cluster), m.dir.SetNumber(int(m.number.Load())))
}

// disconnectRefused closes the connections of peers that the new roster refuses.
func (m *members) disconnectRefused() {
	m.metMu.Lock()
	defer m.metMu.Unlock()
	for id, who := range m.met {
		if m.checkPeer(who) != nil || m.compatibleLevel[id] < m.level() {
			delete(m.met, id)
			delete(m.compatibleLevel, id)
			if m.roster.Load().Removed[id] {
				// It may have asked for its own removal, and wait for the answer.
				time.AfterFunc(removedGrace, func() { m.peers.Disconnect(id) })
			} else {
				m.peers.Disconnect(id)
			}
		}
	}
}

// removedGrace is the time for which a removed peer is still answered. That does no harm, since Raft no
// longer counts the peer.
const removedGrace = 500 * time.Millisecond

// identityOf returns what a member has said of itself.
func (m *members) identityOf(id string) (peer.Identity, bool) {
	if id == m.cfg.ID {
		return m.identity(), true
	}
	m.metMu.Lock()
	defer m.metMu.Unlock()
	who, ok := m.met[id]
	return who, ok
}

// hostOf returns the host at which peers reach a member, or one of the list of founders; "" if it is not known.
func (m *members) hostOf(id string) string {
	addr := m.cfg.Members[id]
	if known, ok := m.roster.Load().Members[id]; ok {
		addr = known.PeerAddr
	}
	for _, s := range m.raft.StartedServers() {
		if string(s.ID) == id {
			addr = string(s.Address)
		}
	}
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// MemberOf returns what is known of a member: from the roster, or else what the member said of
// itself.
func (m *members) MemberOf(id string) membership.Member {
	if known, ok := m.roster.Load().Members[id]; ok {
		return known
	}
	who, _ := m.identityOf(id)
	return membership.MemberFrom(who)
}

// ban refuses a member for ever if its log ends before what it had confirmed.
func (m *members) ban(who peer.Identity, last, required uint64) {
	why := fmt.Sprintf("node %s %s: its log ends with entry %d, and it had confirmed entry %d; remove it with LOCKD "+
		"REMOVE %s and add it under a new id with an empty data folder",
		who.ID, membership.SaysLost, last, required, who.ID)
	m.log.Error("a member is refused from now on", "member", who.ID, "why", why)
	if err := m.startLog.Ban(who, why); err != nil {
		m.log.Warn("this will not be remembered after a restart: look at the disk", "why", err)
	}
	m.peers.Disconnect(who.ID)
}

// surveyed is a member and its answer to a survey.
type surveyed struct {
	raft.Server
	peer.Status
	err error // why there is no answer
}

// errGone stands for the answer of a member whose process has ended.
var errGone = errors.New("its process has ended")

// surveyMax bounds the wait for members' answers.
const surveyMax = 500 * time.Millisecond

// survey asks all members for their status. A node that stops waits for none of them.
func (m *members) survey(ctx context.Context) []surveyed {
	ctx, cancel := context.WithTimeout(ctx, surveyMax)
	defer cancel()
	servers := m.raft.Servers()
	answers := make(chan int, len(servers))
	members := make([]surveyed, len(servers))
	for i, s := range servers {
		members[i].Server = s
		go func() {
			switch {
			case string(s.ID) == m.cfg.ID:
				members[i].Status = m.status(0)
			case m.lead.Held() && m.gone(string(s.ID)): // which goes on to call it, and hears when it is back
				members[i].err = errGone
			default:
				members[i].Status, members[i].err = m.clocks.Ask(ctx, s)
			}
			answers <- i
		}()
	}
	for range servers {
		select {
		case <-answers:
		case <-m.stop:
			cancel()
			<-answers
		}
	}
	return members
}

// AppliedBy asks all members, and returns the last entry that each that answers has applied.
func (m *members) AppliedBy() map[string]uint64 {
	applied := map[string]uint64{}
	for _, s := range m.survey(context.Background()) {
		if s.err == nil {
			applied[string(s.ID)] = s.Applied
		}
	}
	return applied
}

// ClientHostPort returns where clients reach a member, or its peer address while that
// is not known.
func (m *members) ClientHostPort(s raft.Server) (host, port string) {
	addr := m.MemberOf(string(s.ID)).ClientAddr()
	if addr == "" {
		addr = string(s.Address)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, "0"
	}
	return host, port
}

// missing lists the voters that did not answer a node without a leader. Its methods may be called
// concurrently.
type missing struct {
	mu sync.Mutex
	of map[string]missed
}

// missed is a member that does not answer.
type missed struct {
	addr   string
	since  time.Duration // monotonic: when it was first found so
	silent time.Duration // until the last question
	why    string
}

// note takes the answers to a question that was asked at a monotonic time, and says how many voters there
// are, and how many of them do not answer.
func (m *missing) note(answers []surveyed, now time.Duration, why func(surveyed) string) (voters, away int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.of
	m.of = map[string]missed{}
	for _, a := range answers {
		if a.Suffrage != raft.Voter {
			continue
		}
		voters++
		if a.err == nil {
			continue
		}
		away++
		since := now
		if known, ok := was[string(a.ID)]; ok {
			since = known.since
		}
		m.of[string(a.ID)] = missed{addr: string(a.Address), since: since, silent: now - since, why: why(a)}
	}
	return voters, away
}

// forget empties the list: there is a leader.
func (m *missing) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of = nil
}

// list names the members that do not answer, each with the time since when, and the reason.
func (m *missing) list() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for id, of := range m.of {
		list = append(list, fmt.Sprintf("%s (%s, for %s: %s)", id, of.addr, of.silent.Round(time.Second), of.why))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// sentence returns the list as the end of a sentence about this node.
func (m *missing) sentence() string {
	if list := m.list(); list != "" {
		return ": this node waits for " + list
	}
	return ""
}
