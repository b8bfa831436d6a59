package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/peer"
	"lockd/cluster/wake"
	"lockd/resp"
)

// The id of a client has 53 bits, which every client can read, also one that keeps numbers as floating-point:
//
//	10 bits  the number of its node, which the roster gives; 0: not known when the client came
//	43 bits  the starts of the node's data folder, 2^26 ids apart, plus the clients of this start
//
// A client that came before its node knew its number has, instead of these 43 bits, a number drawn at random, plus the
// clients of this start.
const (
	clientRunBits   = 26 // of the ids of one start; a start with more goes on in those of the next one
	clientCountBits = 43 // of the ids of a node
	clientCountMask = 1<<clientCountBits - 1
)

// Times of questions to other members. A member that does not answer at all is waited for as long as it may keep
// subscribers without a leader: Heartbeat until it notices that it does not lead, LeaderWait, and Heartbeat until it has
// looked at that. One that has been silent for so long is waited for Heartbeat.
const (
	askBriefMax   = 200 * time.Millisecond // how long a brief question waits for a member
	askPause      = 10 * time.Millisecond  // before a question that has failed is asked again
	askSilentEach = 100 * time.Millisecond // how often a silent member is asked whether it answers again
)

// asker asks the other members about their clients, and answers their questions. Its methods may be called
// concurrently.
type asker struct {
	*core
	members *members
	peers   *peer.Port
	drawn   uint64 // ids of clients that come before this node knows its number begin here
	due     chan struct{}

	mu     sync.Mutex
	silent map[raft.ServerID]time.Duration // members that did not answer, and since when: monotonic
}

func newAsker(c *core, peers *peer.Port, m *members) *asker {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &asker{
		core: c, peers: peers, members: m, drawn: binary.LittleEndian.Uint64(b[:]), due: make(chan struct{}, 1),
		silent: map[raft.ServerID]time.Duration{},
	}
}

// ClientID returns the id of the nth client since this process began. No other client of the cluster has it, before or
// after.
func (n *Node) ClientID(nth uint64) int64 { return n.asker.clientID(nth) }

func (a *asker) clientID(nth uint64) int64 {
	number, first := a.members.number.Load(), a.members.starts<<clientRunBits
	if number == 0 {
		first = a.drawn
	}
	return number<<clientCountBits | int64((first+nth)&clientCountMask)
}

// Members is how many other members the cluster has, as far as this node knows.
func (n *Node) Members() int { return len(n.asker.others(n.raft.StartedServers())) }

func (a *asker) others(servers []raft.Server) []raft.Server {
	var others []raft.Server
	for _, s := range servers {
		if s.ID != a.raft.Self {
			others = append(others, s)
		}
	}
	return others
}

// errFewAnswer is the error of a question that less than a majority has answered.
const errFewAnswer = "LOADING fewer than a majority of the nodes can be asked about their clients: try again, or ask " +
	"another node"

// Ask asks the other members' servers, at the same time, and returns the answers of those that do answer. The questions
// leave after the call began. A member whose process is gone has no clients and is not waited for. The error says that
// fewer than a majority, this node included, has answered; or, of a question about one client, that its node does not
// answer, or may have done what it was asked for. Answers are good also beside an error.
func (n *Node) Ask(ctx context.Context, q resp.Inquiry) ([]resp.Reply, error) {
	if number := q.Client >> clientCountBits; number > 0 {
		return n.asker.askOne(ctx, int(number), q)
	}
	return n.asker.askAll(ctx, q)
}

// askAll asks every other member.
func (a *asker) askAll(ctx context.Context, q resp.Inquiry) ([]resp.Reply, error) {
	servers := a.raft.StartedServers()
	others := a.others(servers)
	replies := make([]*resp.Reply, len(others))
	var asking sync.WaitGroup
	for i, s := range others {
		patience := a.patience(s.ID, q.Brief)
		if patience == 0 {
			continue
		}
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			if r, err := a.ask(ctx, s, q); err == nil {
				replies[i] = &r
			}
		})
	}
	asking.Wait()
	var answers []resp.Reply
	voters, heard := len(a.raft.Voters()), 1
	for i, r := range replies {
		if r == nil {
			continue
		}
		answers = append(answers, *r)
		if others[i].Suffrage == raft.Voter {
			heard++
		}
	}
	if heard <= voters/2 {
		return answers, resp.Error(errFewAnswer)
	}
	return answers, nil
}

// askOne asks the member that has a number.
func (a *asker) askOne(ctx context.Context, number int, q resp.Inquiry) ([]resp.Reply, error) {
	id := a.members.roster.Load().Numbered(number)
	for _, s := range a.others(a.raft.StartedServers()) {
		if string(s.ID) != id {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, a.patience(s.ID, false))
		defer cancel()
		r, err := a.ask(ctx, s, q)
		switch {
		case err == nil:
			return []resp.Reply{r}, nil
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, nil // its clients are gone with it
		case err == errInDoubt:
			return nil, resp.Error(resp.ErrUnknown)
		}
		return nil, resp.Error("LOADING node " + id + ", which has this client, does not answer: nothing was done, try again")
	}
	return nil, nil
}

// errInDoubt marks the error of a question that may have been heard.
var errInDoubt = errors.New("the question may have been heard")

// ask asks a member until it answers, its process is known to be gone, or ctx ends. A question about one client may
// have it do something: it is not asked again where it may have been heard.
func (a *asker) ask(ctx context.Context, s raft.Server, q resp.Inquiry) (resp.Reply, error) {
	for began := a.clock.Monotonic(); ; wake.Sleep(ctx, a.stop, askPause) {
		r, outcome, err := a.peers.Query(ctx, string(s.Address), q.Args)
		gone := errors.Is(err, syscall.ECONNREFUSED)
		switch {
		case err == nil:
			a.heard(s.ID)
			return r, nil
		case gone || errors.Is(ctx.Err(), context.DeadlineExceeded):
			a.unheard(s.ID, began)
		}
		switch {
		case outcome == peer.Unknown && q.Client != 0:
			return r, errInDoubt
		case gone || ctx.Err() != nil || a.raft.Stopping():
			return r, err
		}
	}
}

// patience is how long a member is waited for; 0: not at all.
func (a *asker) patience(id raft.ServerID, brief bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	since, silent := a.silent[id]
	switch most := a.cfg.LeaderWait + 2*a.cfg.Heartbeat; {
	case brief && silent:
		return 0
	case brief:
		return askBriefMax
	case silent:
		return max(a.cfg.Heartbeat, since+most-a.clock.Monotonic())
	default:
		return most
	}
}

func (a *asker) heard(id raft.ServerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.silent, id)
}

// unheard notes that a member has not answered a question of a monotonic time.
func (a *asker) unheard(id raft.ServerID, asked time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, silent := a.silent[id]; !silent {
		a.silent[id] = asked
	}
	wake.Signal(a.due)
}

// run asks silent members whether they answer again, until the node stops.
func (a *asker) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-a.stop
		cancel()
	}()
	for {
		select {
		case <-a.due:
		case <-a.stop:
			return
		}
		for ctx.Err() == nil && a.probe(ctx) {
			wake.Sleep(ctx, nil, askSilentEach)
		}
	}
}

// probe asks the silent members once, and reports whether some are left.
func (a *asker) probe(ctx context.Context) (left bool) {
	var asking sync.WaitGroup
	silent := map[raft.ServerID]time.Duration{}
	a.mu.Lock()
	for _, s := range a.others(a.raft.StartedServers()) {
		if since, is := a.silent[s.ID]; is {
			silent[s.ID] = since
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, a.cfg.Heartbeat)
				defer cancel()
				if _, _, err := a.peers.Query(ctx, string(s.Address), resp.Args{"PING"}); err == nil {
					a.heard(s.ID)
				}
			})
		}
	}
	a.silent = silent // without those that are no members any more
	a.mu.Unlock()
	asking.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.silent) > 0
}

// errNoClients answers a question to a node that serves nobody.
var errNoClients = resp.Err("ERR this node has no clients")

// serve implements peer.Handler.
func (a *asker) serve(q peer.Question, respond func(resp.Reply)) {
	go func() {
		ctx, cancel := context.WithDeadline(context.Background(), q.Until)
		defer cancel()
		r := errNoClients
		if a.cfg.Clients != nil {
			r = a.cfg.Clients.Answer(ctx, q.Args)
		}
		respond(r)
	}()
}
