package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"lockd/cluster/followers"
	"lockd/cluster/store"
)

// A leader whose disk hangs answers nobody, and Raft goes on leading (raft#503), until the
// store ends the process (store.Options.StallMax). The others can do without that leader:
// they have what it has sent while its disk did not write. So a leader whose append has not
// ended after a fifth of StallMax has the best of the others stand for election, and sends
// nothing more until its disk is back, so that they elect another also if that message is
// lost.

// yielder decides whether this node goes on leading, and whether it stands for election. All methods may be called
// concurrently.
type yielder struct {
	*core
	stores    *store.Stores
	members   *members
	contacts  *followers.Contacts
	announcer *followers.Announcer
	replicas  *followers.Conns
	// timeoutNow has another node stand for election.
	timeoutNow func(raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse) error

	yielding atomic.Bool
	resigned atomic.Uint64 // the term in which this node leads no more, as its entries do not arrive
	tried    atomic.Uint64 // the last term in which it has tried its links
}

// errYields ends Raft's calls instead of an answer. Raft gives up when it hears of no
// majority for its lease.
var errYields = errors.New("the disk of this node hangs: it lets another one lead")

// yields reports whether this node must not lead now, nor stand for election.
func (y *yielder) yields() bool {
	if !y.stores.Slow() {
		y.yielding.Store(false)
		return false
	}
	if y.yielding.Load() || !y.raft.Started.Load() {
		return y.yielding.Load()
	}
	if y.raft.State() != raft.Leader {
		return true // a candidate
	}
	next := y.prepared()
	if next == nil {
		return false // nobody could lead without this node
	}
	if !y.yielding.Swap(true) {
		y.log.Warn("the disk has not taken an entry for a while: another node shall lead; look what else writes to this "+
			"disk, and whether it is healthy",
			"limit", y.stores.SlowAfter(), "next", next.ID)
		go func() { _ = y.callElection(*next, *y.members.advertise.Load()) }()
	}
	return true
}

// prepared returns a voter that has the whole log on its disk; nil if the voters that have it and
// answer are no majority without this node: then their disks hang, too.
func (y *yielder) prepared() *raft.Server {
	voters, last := y.raft.Voters(), y.raft.LastIndex()
	var next *raft.Server
	have := 0
	for i, v := range voters {
		if y.contacts.Silent(v.ID) < y.cfg.Heartbeat && !y.contacts.Gone(string(v.ID)) && y.announcer.Has(v.ID) >= last {
			have++
			next = &voters[i]
		}
	}
	if have < len(voters)/2+1 {
		return nil
	}
	return next
}

// A leader that all others hear may get its entries to none of them (contacts). It resigns: it gives up its term for
// good.

// errResigned ends Raft's calls when this node has resigned. Raft gives up when it hears of no
// majority for its lease.
var errResigned = errors.New("the entries of this node do not arrive: it lets another one lead")

// resigns reports whether this leader gives up its term, as a majority hears it and does not take its entries.
func (y *yielder) resigns(term uint64) bool {
	if !y.raft.Started.Load() || y.raft.State() != raft.Leader || y.raft.CurrentTerm() != term {
		return false
	}
	able := y.contacts.Unserved(term, y.raft.Voters())
	if able == nil {
		return false
	}
	if y.resigned.Swap(term) != term {
		y.contacts.Resigned()
		y.log.Warn("the other nodes hear this one, but what it sends them to store does not arrive in time: another node " +
			"shall lead; look at the network from here to them, and at what it carries")
		go y.callBest(term, able)
	}
	return true
}

// surveyPart of a heartbeat timeout bounds the time for which a leader that resigned asks the others how long their
// logs are. After a whole timeout without a word of the leader they stand for election by themselves.
const surveyPart = 5

// callBest has one of the nodes stand for election: if it answers, the one with the longest log, which all others but
// this node elect.
func (y *yielder) callBest(term uint64, able []raft.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), y.cfg.Heartbeat/surveyPart)
	defer cancel()
	last := map[raft.ServerID]uint64{}
	for _, m := range y.members.survey(ctx) {
		last[m.ID] = m.LastIndex // 0: no answer
	}
	slices.SortStableFunc(able, func(a, b raft.Server) int { return cmp.Compare(last[b.ID], last[a.ID]) })
	for _, v := range able {
		if y.raft.CurrentTerm() != term || y.callElection(v, calledByResigned) == nil {
			return
		}
	}
}

// tryBytes of a message of no term, which Raft refuses without a look at it, show what a link carries.
const tryBytes = 128 << 10

// tryLinks ends the patience of a leader whose links to as many voters as it needs are as good as patience expects.
func (y *yielder) tryLinks() {
	voters := y.raft.Voters()
	good := make(chan bool, len(voters))
	for _, v := range voters {
		go func() { good <- v.ID == y.raft.Self || y.goodLink(v.Address) }()
	}
	need := len(voters)/2 + 1
	for range voters {
		if <-good {
			need--
		}
		if need == 0 {
			y.contacts.LinksAreGood()
			return
		}
	}
}

func (y *yielder) goodLink(to raft.ServerAddress) bool {
	msg := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
		Entries:   []*raft.Log{{Data: make([]byte, tryBytes)}},
	}
	limit := y.clock.Monotonic() + followers.Patience(tryBytes) - followers.AnswerPatience
	err := y.replicas.Call(to, msg, &raft.AppendEntriesResponse{})
	if err != nil { // the connection may have been dead for long
		err = y.replicas.Call(to, msg, &raft.AppendEntriesResponse{})
	}
	return err == nil && y.clock.Monotonic() <= limit
}

// standsBack returns why this node does not stand for election now; nil if it may.
func (y *yielder) standsBack() error {
	switch {
	case y.yields():
		return errYields
	case y.contacts.Rests():
		return errResigned
	}
	return nil
}

// errOtherLeads answers a node that has this one stand for election and leads no more.
var errOtherLeads = errors.New("another node leads by now")

// mayNotStand returns why this node does not stand for election though another one says so. A TimeoutNow has no term,
// and Raft asks nothing: a late one would depose the leader that was elected meanwhile.
func (y *yielder) mayNotStand(req *raft.TimeoutNowRequest) error {
	if !y.raft.Started.Load() {
		return nil
	}
	if _, leader := y.raft.LeaderWithID(); leader == y.raft.Self || leader != "" && string(leader) != string(req.ID) {
		return errOtherLeads
	}
	if y.yields() {
		return errYields
	}
	return nil
}

// calledByResigned stands for the sender's address, which Raft does not read, in the message by which a leader that
// resigned has another node stand for election.
const calledByResigned = "resigned"

// callElection has another node stand for election. If the message is lost, the others notice the silence.
func (y *yielder) callElection(next raft.Server, sender string) error {
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(y.cfg.ID), Addr: []byte(sender),
	}}
	return y.timeoutNow(next.ID, next.Address, req, &raft.TimeoutNowResponse{})
}
