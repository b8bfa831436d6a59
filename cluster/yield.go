package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockd/cluster/followers"

	"github.com/hashicorp/raft"
)

// A leader whose disk hangs answers nobody, and Raft goes on leading (raft#503), until the
// store ends the process (store.Options.StallMax). The others can do without it: they have
// what it has sent while its disk did not write. So a leader whose append has not ended
// after a fifth of that time has the best of them stand for election, and sends nothing
// more until its disk is back, so that they elect another also if that message is lost.

// errYields is what Raft hears instead of an answer. It gives up when it hears of no
// majority for its lease.
var errYields = errors.New("the disk of this node hangs: it lets another one lead")

// yields reports whether this node must not lead now, nor stand for election.
func (t *transport) yields() bool {
	if !t.stores.Slow() {
		t.yielding.Store(false)
		return false
	}
	if t.yielding.Load() || !t.raft.Started.Load() {
		return t.yielding.Load()
	}
	if t.raft.State() != raft.Leader {
		return true // a candidate
	}
	next := t.prepared()
	if next == nil {
		return false // nobody could lead without this node
	}
	if !t.yielding.Swap(true) {
		t.log.Warn("the disk has not taken an entry for a while: another node shall lead; look what else writes to this "+
			"disk, and whether it is healthy",
			"limit", t.stores.SlowAfter(), "next", next.ID)
		go func() { _ = t.callElection(*next, *t.members.advertise.Load()) }()
	}
	return true
}

// prepared is a voter that has the whole log on its disk; nil if those that have, and
// answer, are no majority without this node: then they wait for their disks, too.
func (t *transport) prepared() *raft.Server {
	voters, last := t.raft.Voters(), t.raft.LastIndex()
	var next *raft.Server
	have := 0
	for i, v := range voters {
		if t.contacts.Silent(v.ID) < t.cfg.Heartbeat && !t.contacts.Gone(string(v.ID)) && t.announcer.Has(v.ID) >= last {
			have++
			next = &voters[i]
		}
	}
	if have < len(voters)/2+1 {
		return nil
	}
	return next
}

// A leader may be heard by all and get its entries to nobody (contacts). It resigns: it gives up its term for good.

// errResigned is what Raft hears instead of an answer when this node has resigned. It gives up when it hears of no
// majority for its lease.
var errResigned = errors.New("the entries of this node do not arrive: it lets another one lead")

// resigns reports whether this leader gives up its term, as a majority hears it and does not take its entries.
func (t *transport) resigns(term uint64) bool {
	if !t.raft.Started.Load() || t.raft.State() != raft.Leader || t.raft.CurrentTerm() != term {
		return false
	}
	able := t.contacts.Unserved(term, t.raft.Voters())
	if able == nil {
		return false
	}
	if t.resigned.Swap(term) != term {
		t.contacts.Resigned()
		t.log.Warn("the other nodes hear this one, but what it sends them to store does not arrive in time: another node " +
			"shall lead; look at the network from here to them, and at what it carries")
		go t.callBest(term, able)
	}
	return true
}

// surveyPart of a heartbeat timeout is what a leader that resigned has to ask the others how long their logs are: when
// they have not heard from it for all of that time they stand for election by themselves.
const surveyPart = 5

// callBest has one of the nodes stand for election: the one with the longest log if it answers, which all others but
// this node elect.
func (t *transport) callBest(term uint64, able []raft.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.Heartbeat/surveyPart)
	defer cancel()
	last := map[raft.ServerID]uint64{}
	for _, m := range t.members.survey(ctx) {
		last[m.ID] = m.LastIndex // 0: no answer
	}
	slices.SortStableFunc(able, func(a, b raft.Server) int { return cmp.Compare(last[b.ID], last[a.ID]) })
	for _, v := range able {
		if t.raft.CurrentTerm() != term || t.callElection(v, calledByResigned) == nil {
			return
		}
	}
}

// tryBytes of a message of no term, which Raft refuses without a look at it, show what a link carries.
const tryBytes = 128 << 10

// tryLinks ends the patience of a leader whose links to as many voters as it needs are as good as patience expects.
func (t *transport) tryLinks() {
	voters := t.raft.Voters()
	good := make(chan bool, len(voters))
	for _, v := range voters {
		go func() { good <- v.ID == t.raft.Self || t.goodLink(v.Address) }()
	}
	need := len(voters)/2 + 1
	for range voters {
		if <-good {
			need--
		}
		if need == 0 {
			t.contacts.LinksAreGood()
			return
		}
	}
}

func (t *transport) goodLink(to raft.ServerAddress) bool {
	msg := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
		Entries:   []*raft.Log{{Data: make([]byte, tryBytes)}},
	}
	limit := t.clock.Monotonic() + followers.Patience(tryBytes) - followers.AnswerPatience
	err := t.replicas.Call(to, msg, &raft.AppendEntriesResponse{})
	if err != nil { // the connection may have been dead for long
		err = t.replicas.Call(to, msg, &raft.AppendEntriesResponse{})
	}
	return err == nil && t.clock.Monotonic() <= limit
}

// standsBack says why this node does not stand for election now; nil if it may.
func (t *transport) standsBack() error {
	switch {
	case t.yields():
		return errYields
	case t.contacts.Rests():
		return errResigned
	}
	return nil
}

// errOtherLeads is the answer to whoever has this node stand for election and leads no more.
var errOtherLeads = errors.New("another node leads by now")

// mayNotStand says why this node does not stand for election though another one says so. A TimeoutNow has no term, and
// Raft asks nothing: one that comes late would depose the leader that was elected meanwhile.
func (t *transport) mayNotStand(req *raft.TimeoutNowRequest) error {
	if !t.raft.Started.Load() {
		return nil
	}
	if _, leader := t.raft.LeaderWithID(); leader == t.raft.Self || leader != "" && string(leader) != string(req.ID) {
		return errOtherLeads
	}
	if t.yields() {
		return errYields
	}
	return nil
}

// calledByResigned is in the place of the sender's address, which Raft does not read there, where a leader that
// resigned has another node stand for election.
const calledByResigned = "resigned"

// callElection has another node stand for election. If the message is lost, the others notice the silence.
func (t *transport) callElection(next raft.Server, sender string) error {
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(t.cfg.ID), Addr: []byte(sender),
	}}
	return t.TimeoutNow(next.ID, next.Address, req, &raft.TimeoutNowResponse{})
}

// TimeoutNow implements raft.Transport: it tells the successor in a transfer to stand for election.
// Raft takes no entry until it is answered, so a member that hangs from that moment on is not waited
// for as long as other messages are. What it does when it wakes is stand, which leaders bear.
func (t *transport) TimeoutNow(
	id raft.ServerID, target raft.ServerAddress, req *raft.TimeoutNowRequest, _ *raft.TimeoutNowResponse,
) error {
	answered := make(chan error, 1)
	go func() { answered <- t.NetworkTransport.TimeoutNow(id, target, req, &raft.TimeoutNowResponse{}) }()
	patience := time.NewTimer(t.cfg.Heartbeat)
	defer patience.Stop()
	select {
	case err := <-answered:
		return err
	case <-patience.C:
		return fmt.Errorf("node %s has not answered for %s", id, t.cfg.Heartbeat)
	}
}
