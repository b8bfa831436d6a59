package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/join"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/replica"
	"lockd/cluster/request"
	"lockd/cluster/wake"
	"lockd/resp"
)

// keeper keeps the members in order while this node leads: their entries in the roster, their
// addresses and their votes. It adds and removes members for LOCKD ADD and REMOVE.
type keeper struct {
	*core
	state     *replica.State
	members   *members
	proposer  *request.Proposer
	elections *elections
	watch     *leaderWatch
	find      func() // looks where members without a leader are now

	missed        missing
	changing      chan struct{} // capacity 1: one change of the members at a time
	awaitedLogged time.Duration // monotonic
}

// membersEvery is the time after which a leader checks the members again without being asked.
const membersEvery = time.Second

// run maintains the roster and the members without a vote while this node leads.
func (k *keeper) run() {
	tick := time.NewTicker(membersEvery)
	defer tick.Stop()
	ticks, strangers := 0, k.members.starts > 0 && k.introduce()
	for {
		select {
		case <-k.members.due:
		case <-tick.C:
			if ticks++; strangers && ticks%introduceEvery == 0 {
				strangers = k.introduce()
			}
		case <-k.stop:
			return
		}
		if k.lead.Held() || k.watch.silence() <= k.cfg.LeaderWait {
			k.missed.forget()
		}
		switch {
		case k.lead.Held():
			k.keepRoster()
			k.follow()
			k.promote()
			k.raise()
		case k.watch.silence() > k.cfg.LeaderWait:
			// No leader speaks to this node. If it was removed, the others say so when it asks;
			// Raft itself does not ask once it has seen the removal.
			asked := k.clock.Monotonic()
			k.logAwaited(k.members.survey(context.Background()), asked)
			k.find()
		}
	}
}

// awaitedEvery is the time after which a node without a majority logs again which members it waits for.
const awaitedEvery = 10 * time.Second

// logAwaited notes the voters that did not answer a question asked at a monotonic time. It logs them if the others are
// no majority, so that nobody can lead. Only run calls it.
func (k *keeper) logAwaited(members []surveyed, now time.Duration) {
	voters, away := k.missed.note(members, now, k.trouble)
	if voters == 0 { // this node has not joined yet, and Join logs its progress
		return
	}
	if voters-away > voters/2 || k.awaitedLogged != 0 && now-k.awaitedLogged < awaitedEvery {
		return
	}
	k.awaitedLogged = now
	k.log.Warn("there is no majority: this node waits for others, and serves nobody until enough of them answer: start "+
		"them, or look whether they reach each other's peer addresses",
		"missed", k.missed.list(), "voters", voters, "answering", voters-away,
		"leaderless", k.watch.silence().Round(time.Second))
}

// trouble returns why a member does not answer: the error of the last dial, if one has failed.
func (k *keeper) trouble(m surveyed) string {
	if err := k.members.peers.Trouble(string(m.Address)); err != nil {
		return peer.OneLine(err.Error(), waitTextMax)
	}
	return peer.OneLine(m.err.Error(), waitTextMax)
}

// introduceEvery is the number of ticks between two introductions to members that have not heard of
// this node's start.
const introduceEvery = 5

// introduce tells the other members of this start. Followers have no other reason to call each
// other, and only a member that has met a node can recognize a copy of that node's folder.
// introduce reports whether some members did not answer, or none is known yet.
func (k *keeper) introduce() (left bool) {
	members := k.members.survey(context.Background())
	return len(members) == 0 || slices.ContainsFunc(members, func(m surveyed) bool { return m.err != nil })
}

// keepRoster proposes what the roster lacks: the cluster's name, and members that have introduced
// themselves.
func (k *keeper) keepRoster() {
	known := k.members.roster.Load()
	var c membership.Change
	if known.Cluster == "" {
		c.Cluster = k.members.identity().Cluster
	}
	for _, s := range k.raft.Servers() {
		who, ok := k.members.identityOf(string(s.ID))
		if !ok {
			continue
		}
		m := membership.MemberFrom(who)
		if old, ok := known.Members[m.ID]; !ok || old.Incarnation == m.Incarnation && !old.Equal(m) {
			c.Upsert = append(c.Upsert, m)
		}
	}
	if c.Cluster == "" && len(c.Upsert) == 0 {
		return
	}
	if o := k.proposer.Change(context.Background(), c); o != peer.Done {
		k.log.Debug("the roster was not changed", "outcome", o)
	}
}

// follow moves members to their new addresses: a node may come back under another address, as long
// as it has the same data.
func (k *keeper) follow() {
	for _, s := range k.raft.Servers() {
		who, met := k.members.identityOf(string(s.ID))
		m, known := k.members.roster.Load().Members[string(s.ID)]
		addr := raft.ServerAddress(who.PeerAddr)
		if !met || !known || m.Incarnation != who.Incarnation || addr == s.Address || k.raft.IDAt(who.PeerAddr) != "" {
			continue
		}
		change := k.raft.AddVoter
		if s.Suffrage != raft.Voter {
			change = k.raft.AddNonvoter
		}
		if err := k.reconfigure(&s, func() raft.Future { return change(s.ID, addr, 0, reconfigureMax) }); err != nil {
			k.log.Debug("a member's address was not changed", "member", s.ID, "why", err)
			continue
		}
		k.log.Info("a member has moved", "member", s.ID, "from", s.Address, "to", addr)
	}
}

// promoteLagMax is the lag, in entries, at which a member may get its vote.
const promoteLagMax = 256

// promote gives a vote to members that have caught up. A new member must not have one earlier: it
// would count in every majority, and delay all writes, while its log is still empty.
func (k *keeper) promote() {
	if !slices.ContainsFunc(k.raft.Servers(), func(s raft.Server) bool { return s.Suffrage != raft.Voter }) {
		return
	}
	for _, m := range k.members.survey(context.Background()) {
		if m.Suffrage == raft.Voter || m.err != nil || m.Applied+promoteLagMax < k.state.Applied.Load() {
			continue
		}
		if _, known := k.members.roster.Load().Members[string(m.ID)]; !known {
			continue // the roster must have it first
		}
		err := k.reconfigure(&m.Server, func() raft.Future {
			return k.raft.AddVoter(m.ID, m.Address, 0, reconfigureMax)
		})
		if err != nil {
			k.log.Debug("a member did not get its vote", "member", m.ID, "why", err)
			continue
		}
		k.log.Info("a member has caught up and has a vote now", "member", m.ID)
	}
}

// raise has the next level in force once every member can do it. Most of the time there is none, and nobody is asked.
func (k *keeper) raise() {
	next := k.members.level() + 1
	if k.members.notReadyFor(next) != "" {
		return
	}
	if o, err := k.raiseTo(context.Background(), next); err != nil || o != peer.Done {
		k.log.Debug("the level did not rise", "to", next, "outcome", o, "why", err)
	}
}

// raiseTo logs that the next level is in force. The error says why a member keeps it from being so.
func (k *keeper) raiseTo(ctx context.Context, level int) (peer.Outcome, error) {
	if err := k.members.mayRaise(ctx, level); err != nil {
		return peer.NotDone, err
	}
	return k.proposer.Change(ctx, membership.Change{Level: level}), nil
}

// setLevel runs LOCKD LEVEL with a level.
func (k *keeper) setLevel(ctx context.Context, level int64) (peer.Outcome, resp.Reply) {
	switch now := int64(k.members.level()); {
	case level == now:
		return settled(resp.OK())
	case level < now:
		return settled(resp.Errf("ERR level %d is in force, and a level never falls", now))
	case level > now+1:
		return settled(resp.Errf("ERR level %d is in force, and rises by one: to %d", now, now+1))
	}
	o, err := k.raiseTo(ctx, int(level))
	switch {
	case err != nil:
		return settled(resp.Errf("ERR level %d cannot be in force yet: %s", level, peer.OneLine(err.Error(), 256)))
	case o != peer.Done:
		return peer.NotDone, resp.Reply{} // it may be asked for twice
	}
	return settled(resp.OK())
}

// reconfigureMax bounds one change of Raft's configuration.
const reconfigureMax = 5 * time.Second

var errMemberChanged = errors.New("the member has been changed or removed meanwhile")

// reconfigure changes Raft's configuration. A change of a member fails if the member is no longer
// as it was when the change was decided: Raft would add a member again that was removed since.
func (k *keeper) reconfigure(member *raft.Server, change func() raft.Future) error {
	k.changing <- struct{}{}
	defer func() { <-k.changing }()
	if member != nil && !slices.Contains(k.raft.Servers(), *member) {
		return errMemberChanged
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*reconfigureMax)
	defer cancel()
	return k.raft.Wait(ctx, change())
}

// addMember makes a node a member, without a vote at first. It returns once the node has its vote;
// if that takes too long, the reply is an error that says how far the node is.
func (k *keeper) addMember(ctx context.Context, id, addr string) (peer.Outcome, resp.Reply) {
	if k.members.roster.Load().Removed[id] {
		return settled(resp.Errf("ERR %s", membership.WasRemoved(id)))
	}
	if _, _, err := net.SplitHostPort(addr); err != nil || (peer.Identity{ID: id, PeerAddr: addr}).Check() != nil {
		return settled(resp.Errf("ERR '%s' is not an id with a host:port that peers are reached at",
			peer.OneLine(id+" "+addr, 128)))
	}
	if err := k.cfg.needsSecret("peer address", addr); err != nil {
		return settled(resp.Errf("ERR %s", err))
	}
	for _, s := range k.raft.Servers() {
		switch {
		case string(s.ID) == id && string(s.Address) == addr:
			return k.awaitVote(ctx, id)
		case string(s.ID) == id:
			return settled(resp.Errf("ERR node %s is a member already, at %s", id, s.Address))
		case string(s.Address) == addr:
			return settled(resp.Errf("ERR %s is the address of node %s", addr, s.ID))
		}
	}
	err := k.reconfigure(nil, func() raft.Future {
		return k.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(addr), 0, reconfigureMax)
	})
	if err != nil {
		return reconfigureReply(err)
	}
	k.log.Info("a member was added", "member", id, "addr", addr)
	return k.awaitVote(ctx, id)
}

// awaitVote waits until a member has its vote.
func (k *keeper) awaitVote(ctx context.Context, id string) (peer.Outcome, resp.Reply) {
	ctx, cancel := context.WithTimeout(ctx, join.AddWaitMax)
	defer cancel()
	for {
		changed := k.changed.Next()
		if slices.ContainsFunc(k.raft.Voters(), func(s raft.Server) bool { return string(s.ID) == id }) {
			return settled(resp.OK())
		}
		if !k.lead.Held() {
			return peer.NotDone, resp.Reply{}
		}
		if ctx.Err() != nil {
			return settled(k.howFar(id))
		}
		wake.Signal(k.members.due)
		wake.Sleep(ctx, changed, 100*time.Millisecond)
	}
}

func (k *keeper) howFar(id string) resp.Reply {
	for _, m := range k.members.survey(context.Background()) {
		switch {
		case string(m.ID) != id:
		case m.err != nil:
			return resp.Errf("%s node %s is a member now, but does not answer at %s: it gets its vote once it has caught up",
				join.CodeCatchingUp, id, m.Address)
		default:
			return resp.Errf("%s node %s is a member now and is catching up: it has applied entry %d of %d, and gets its vote "+
				"by itself", join.CodeCatchingUp, id, m.Applied, k.state.Applied.Load())
		}
	}
	return resp.Errf("ERR node %s is not a member any more", id)
}

// reconfigureReply translates an error of Raft into the reply to a change of the members. Such a
// change may be made twice, so a doubtful one is retried as well.
func reconfigureReply(err error) (peer.Outcome, resp.Reply) {
	if request.OutcomeOf(err) == peer.NotDone {
		return peer.NotDone, resp.Reply{}
	}
	return settled(resp.Errf("%s the change of the members is in doubt, look at LOCKD MEMBERS: %s", join.CodeInDoubt,
		peer.OneLine(err.Error(), 256)))
}

// removeMember removes a node for ever.
func (k *keeper) removeMember(ctx context.Context, id string) (peer.Outcome, resp.Reply) {
	member := slices.ContainsFunc(k.raft.Servers(), func(s raft.Server) bool { return string(s.ID) == id })
	_, known := k.members.roster.Load().Members[id]
	switch {
	case !member && k.members.roster.Load().Removed[id]:
		return settled(resp.OK()) // done before
	case !member && !known:
		return settled(resp.Errf("NOMEMBER node %s is not a member of this cluster", peer.OneLine(id, 64)))
	}
	if member {
		if text := k.whyNotRemove(ctx, id); text != "" {
			return settled(resp.Err(text))
		}
		if id == k.cfg.ID {
			return k.leaveToOther(ctx)
		}
		err := k.reconfigure(nil, func() raft.Future {
			return k.raft.RemoveServer(raft.ServerID(id), 0, reconfigureMax)
		})
		if err != nil {
			return reconfigureReply(err)
		}
		k.log.Info("a member was removed", "member", id)
	}
	if k.proposer.Change(ctx, membership.Change{Remove: []string{id}}) != peer.Done {
		return settled(resp.Errf("ERR node %s was removed, but the cluster may not remember it: send the command again", id))
	}
	return settled(resp.OK())
}

// leaveToOther hands leadership over, so that the new leader can remove this node. The caller sends
// the command there again.
func (k *keeper) leaveToOther(ctx context.Context) (peer.Outcome, resp.Reply) {
	if err := k.elections.handOver(ctx, ""); err != nil {
		return settled(resp.Errf("ERR the leader cannot be removed before another node leads: %s",
			peer.OneLine(err.Error(), 256)))
	}
	return peer.NotDone, resp.Reply{}
}

// whyNotRemove returns an error text if the cluster would stop without the member, and ""
// otherwise.
func (k *keeper) whyNotRemove(ctx context.Context, id string) string {
	left, answering := 0, 0
	for _, m := range k.members.survey(ctx) {
		if m.Suffrage != raft.Voter || string(m.ID) == id {
			continue
		}
		left++
		if m.err == nil {
			answering++
		}
	}
	switch {
	case left == 0:
		return "ERR the last voter cannot be removed"
	case answering < left/2+1:
		return fmt.Sprintf("ERR without node %s only %d of %d voters would answer: the cluster would stop",
			id, answering, left)
	}
	return ""
}
