package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/resp"
)

// Metrics returns the figures of this node, for monitoring. A member that does not
// answer may make it wait for surveyMax.
func (n *Node) Metrics() []resp.Metric {
	figures, tick := n.state.Metrics()
	for _, more := range [][]resp.Metric{
		logMetrics(n), clockMetrics(n, tick), n.requests.Metrics(), leadMetrics(n), memberMetrics(n), n.snapshots.Metrics(),
		n.disk.metrics(),
	} {
		figures = append(figures, more...)
	}
	return figures
}

// logMetrics returns figures of the way of an entry.
func logMetrics(n *Node) []resp.Metric {
	return []resp.Metric{
		n.requests.Proposer.Commits.Metric("lockd_commit_duration_seconds", "From the moment at which this leader hands an "+
			"entry to Raft until it is on the disks of a majority and applied here."),
		n.syncs.Metric("lockd_sync_duration_seconds", "How long this node's disk took to store entries of the log."),
		n.fsm.applies.Metric("lockd_apply_duration_seconds", "How long this node's machine took to apply an entry."),
		n.state.Work.Metric(),
		resp.CounterOf("lockd_applied_bytes_total", "Bytes of the entries that this node has applied.", n.fsm.bytes.Load()),
		resp.GaugeOf("lockd_log_last_index", "The last entry in this node's log.", n.raft.LastIndex()),
		resp.GaugeOf("lockd_log_commit_index", "The last entry that this node knows to be committed.", n.raft.CommitIndex()),
		resp.GaugeOf("lockd_log_applied_index", "The last entry that this node's machine has applied.",
			n.state.Applied.Load()),
		resp.GaugeOf("lockd_disk_slow", "1 while an append to the log takes so long that another node should lead.",
			resp.One(n.stores.Slow())),
	}
}

// clockMetrics compare the log clock, by which leases end, with the time of this process, and this node's wall clock
// with the others'.
func clockMetrics(n *Node, tick int64) []resp.Metric {
	now := n.clock.Monotonic()
	list := []resp.Metric{
		resp.GaugeOf("lockd_log_clock_seconds", "The log clock as of the last entry applied. It stands still while "+
			"nobody writes and no lease runs.", float64(tick)/1e3),
		resp.GaugeOf("lockd_monotonic_seconds", "Monotonic time of this process, to compare the log clock with.",
			now.Seconds()),
	}
	if lead := n.lead.Load(); lead != nil {
		behind := 0.0
		if n.state.Deadline.Load() != replica.NoDeadline {
			behind = float64(lead.TickAt(now)-tick) / 1e3
		}
		list = append(list, resp.GaugeOf("lockd_log_clock_behind_seconds", "How far the log clock is behind the time of "+
			"this leader while a lease runs: leases end late by so much.", behind))
		list = append(list, resp.GaugeOf("lockd_wall_clock_ahead_seconds", "How far the cluster's time, which this leader "+
			"tells, is ahead of the median of the voters' clocks: it goes slower until they have caught up.",
			lead.Wall.Ahead().Seconds()))
	}
	if ahead, _, known := n.members.clocks.Offset(); known {
		list = append(list, resp.GaugeOf("lockd_clock_offset_seconds", "How far this node's wall clock is ahead of the "+
			"median of the voters' clocks.", ahead.Seconds()))
	}
	return list
}

// leadMetrics returns figures of the leadership.
func leadMetrics(n *Node) []resp.Metric {
	_, leader := n.raft.LeaderWithID()
	silence := time.Duration(0)
	if !n.lead.Held() {
		silence = n.leaderWatch.silence()
	}
	return []resp.Metric{
		resp.GaugeOf("lockd_leader", "1 if this node leads, and serves as the leader.", resp.One(n.lead.Held())),
		resp.GaugeOf("lockd_leader_known", "1 if this node knows who leads.", resp.One(leader != "")),
		resp.GaugeOf("lockd_leader_silence_seconds", "How long this node has not heard from a leader; 0 if it leads.",
			silence.Seconds()),
		resp.GaugeOf("lockd_level", "The level in force, as far as this node has applied the log.", n.members.level()),
		resp.GaugeOf("lockd_level_highest", "The highest level that this node can do: the one in force rises when all can "+
			"do the next.", n.members.highest),
		resp.GaugeOf("lockd_term", "Raft's term: it rises with each election.", n.raft.CurrentTerm()),
		n.leaderWatch.metric(),
		resp.CounterOf("lockd_peers_refused_total", "Connections to or from peers that were refused: by the wrong secret, "+
			"of another cluster, of a removed node and the like; the log says why.", n.peers.Refused()),
	}
}

// memberMetrics returns figures of the members, as this node sees them.
func memberMetrics(n *Node) []resp.Metric {
	count := resp.Metric{Name: "lockd_members", Labels: []string{"suffrage"}, Help: "Members of the cluster."}
	up := resp.Metric{
		Name: "lockd_member_up", Labels: []string{"member"}, Help: "1 if a member answers this node.",
	}
	lag := resp.Metric{
		Name: "lockd_member_lag_entries", Labels: []string{"member"},
		Help: "How many entries a member that answers has yet to apply that this node has applied.",
	}
	voters, nonvoters := 0, 0
	for _, m := range n.surveys.get(n.members) {
		if m.Suffrage == raft.Voter {
			voters++
		} else {
			nonvoters++
		}
		up.Add(float64(resp.One(m.err == nil)), string(m.ID))
		if m.err == nil {
			lag.Add(max(0, float64(n.state.Applied.Load())-float64(m.Applied)), string(m.ID))
		}
	}
	count.Add(float64(voters), "voter")
	count.Add(float64(nonvoters), "nonvoter")
	return []resp.Metric{count, up, lag}
}

// surveyCache shares the answers of a survey among callers at about the same time.
type surveyCache struct {
	mu   sync.Mutex
	at   time.Duration // monotonic
	last []surveyed
}

// surveyKept is the time for which the members' answers are good. It bounds what readers of figures, who need no
// password, may cause.
const surveyKept = time.Second

func (l *surveyCache) get(m *members) []surveyed {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := m.clock.Monotonic(); l.last == nil || now-l.at >= surveyKept {
		l.last, l.at = m.survey(context.Background()), now
	}
	return l.last
}

// readyLagMax bounds the entries that a ready node is behind what it knows to be committed.
const readyLagMax = 1000

// Ready returns for each condition of serving why it is not met, with the members that this node waits for; "": it is
// met. No disk and no other node is asked. Any goroutine may call it.
func (n *Node) Ready() []resp.Field {
	leader, member, log, writes := "", "", "", ""
	_, id := n.raft.LeaderWithID()
	if id == "" {
		leader = "no leader is known" + n.keeper.missed.sentence()
	}
	self := func(s raft.Server) bool { return s.ID == n.raft.Self }
	conf := n.raft.GetConfiguration()
	commit, applied := n.raft.CommitIndex(), n.state.Applied.Load()
	switch {
	case conf.Error() != nil || !slices.ContainsFunc(conf.Configuration().Servers, self):
		member = "this node is no member of the cluster yet, or any more: " +
			cmp.Or(n.members.search.WaitsFor(), "it waits for LOCKD ADD")
	case conf.Index() > commit:
		member = fmt.Sprintf("the members of entry %d are not known to be agreed on: this node waits for %s",
			conf.Index(), leaderOr(id))
	}
	switch {
	case commit == 0:
		log = "this node does not know yet what is committed: it waits for " + leaderOr(id)
	case commit > applied+readyLagMax:
		log = fmt.Sprintf("this node is %d entries behind", commit-applied)
	}
	if n.requests.Writes.Stuck(n.clock.Monotonic(), n.cfg.LeaderWait) {
		writes = fmt.Sprintf("writes have waited here for more than %s (--leader-wait), and none was committed in that "+
			"time", n.cfg.LeaderWait)
	}
	return []resp.Field{
		{Name: "leader", Value: leader}, {Name: "member", Value: member}, {Name: "log", Value: log},
		{Name: "writes", Value: writes},
	}
}

func leaderOr(id raft.ServerID) string {
	if id == "" {
		return "a leader"
	}
	return string(id) + ", which leads"
}

// readyFields returns checks as INFO shows them.
func readyFields(checks []resp.Field) []resp.Field {
	ready := resp.Field{Name: "ready", Value: "1"}
	var fields []resp.Field
	for _, c := range checks {
		said := "ok"
		if c.Value != "" {
			said, ready.Value = peer.OneLine(c.Value, waitTextMax), "0"
		}
		fields = append(fields, resp.Field{Name: "ready_" + c.Name, Value: said})
	}
	return append([]resp.Field{ready}, fields...)
}

const waitTextMax = 1024 // bytes of a sentence
