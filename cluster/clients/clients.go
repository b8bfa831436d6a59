// Package clients gives the clients of a node ids that are unique in the cluster, and asks the other members about
// their clients.
package clients

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/group"
	"lockd/cluster/membership"
	"lockd/cluster/peer"
	"lockd/cluster/wake"
	"lockd/resp"
)

// A client id has 53 bits, which every client can read, also one that stores numbers as floating-point:
//
//	10 bits  the number of its node, which the roster gives; 0: not known when the client came
//	43 bits  the starts of the node's data folder, 2^26 ids apart, plus the clients of this start
//
// A client that came before its node knew its number has, instead of these 43 bits, a number drawn at random, plus the
// clients of this start.
const (
	runBits = 26 // of the ids of one start; a start with more clients continues in those of the next one
	// CountBits is the number of bits below the number of the node.
	CountBits = 43
	countMask = 1<<CountBits - 1
)

// The time for which the answer of a member is awaited. A member that does not answer may keep subscribers without a
// leader for Heartbeat until it notices the loss of its leadership, then for LeaderWait, and for Heartbeat until it
// acts on that: it is awaited for the sum. A member that has been silent for that long is awaited for Heartbeat.
const (
	// BriefMax bounds the wait of a brief question for a member.
	BriefMax      = 200 * time.Millisecond
	askPause      = 10 * time.Millisecond  // before a question that has failed is asked again
	askSilentEach = 100 * time.Millisecond // interval at which a silent member is asked whether it answers again
)

// Asker asks the other members about their clients, and answers their questions. Its methods may be called
// concurrently.
type Asker struct {
	Config
	drawn uint64 // first id of the clients that come before this node knows its number
	due   chan struct{}

	mu     sync.Mutex
	silent map[raft.ServerID]time.Duration // monotonic time of their first unanswered question
}

// Config holds what an Asker uses of its node.
type Config struct {
	Raft       *group.Group
	Peers      *peer.Port
	Clock      clock.Clock
	Stop       <-chan struct{}
	LeaderWait time.Duration
	Heartbeat  time.Duration
	Starts     uint64                    // of this node's data folder
	Number     func() int64              // of this node in the ids of its clients; 0: not known yet
	Roster     func() *membership.Roster // as of the last entry applied
	// Answer answers a question of another member's server before ctx ends. nil: this node has no clients.
	Answer func(ctx context.Context, question resp.Args) resp.Reply
}

// New returns an asker that has asked no member yet.
func New(c Config) *Asker {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &Asker{
		Config: c, drawn: binary.LittleEndian.Uint64(b[:]), due: make(chan struct{}, 1),
		silent: map[raft.ServerID]time.Duration{},
	}
}

// ClientID returns the id of the nth client since this process began. No other client of the cluster ever has it.
func (a *Asker) ClientID(nth uint64) int64 {
	number, first := a.Number(), a.Starts<<runBits
	if number == 0 {
		first = a.drawn
	}
	return number<<CountBits | int64((first+nth)&countMask)
}

// Members returns the number of other members that this node knows.
func (a *Asker) Members() int { return len(a.others(a.Raft.StartedServers())) }

func (a *Asker) others(servers []raft.Server) []raft.Server {
	var others []raft.Server
	for _, s := range servers {
		if s.ID != a.Raft.Self {
			others = append(others, s)
		}
	}
	return others
}

// ErrFewAnswer is the error of a question that fewer than a majority have answered.
const ErrFewAnswer = "LOADING fewer than a majority of the nodes can be asked about their clients: try again, or ask " +
	"another node"

// Ask asks the other members' servers, at the same time, and returns the answers. The questions leave after the call
// began. A member whose process has ended has no clients and is not awaited. The error says that fewer than a majority,
// this node included, has answered; or, for a question about one client, that its node does not answer, or may have
// acted on the question. Answers are valid also beside an error.
func (a *Asker) Ask(ctx context.Context, q resp.Inquiry) ([]resp.Reply, error) {
	if number := q.Client >> CountBits; number > 0 {
		return a.askOne(ctx, int(number), q)
	}
	return a.askAll(ctx, q)
}

// askAll asks every other member.
func (a *Asker) askAll(ctx context.Context, q resp.Inquiry) ([]resp.Reply, error) {
	servers := a.Raft.StartedServers()
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
	voters, heard := len(a.Raft.Voters()), 1
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
		return answers, resp.Error(ErrFewAnswer)
	}
	return answers, nil
}

// askOne asks the member with a number.
func (a *Asker) askOne(ctx context.Context, number int, q resp.Inquiry) ([]resp.Reply, error) {
	id := a.Roster().Numbered(number)
	for _, s := range a.others(a.Raft.StartedServers()) {
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
			return nil, nil // its clients are gone, too
		case err == errInDoubt:
			return nil, resp.Error(resp.ErrUnknown)
		}
		return nil, resp.Error("LOADING node " + id + ", which has this client, does not answer: nothing was done, try again")
	}
	return nil, nil
}

// errInDoubt marks the error of a question that may have arrived.
var errInDoubt = errors.New("the question may have been heard")

// ask asks a member until it answers, its process is known to have ended, or ctx ends. A question about one client may
// change that client's state: it is not asked again if it may have arrived.
func (a *Asker) ask(ctx context.Context, s raft.Server, q resp.Inquiry) (resp.Reply, error) {
	for began := a.Clock.Monotonic(); ; wake.Sleep(ctx, a.Stop, askPause) {
		r, outcome, err := a.Peers.Query(ctx, string(s.Address), q.Args)
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
		case gone || ctx.Err() != nil || a.Raft.Stopping():
			return r, err
		}
	}
}

// patience returns the time for which a member is awaited; 0: not at all.
func (a *Asker) patience(id raft.ServerID, brief bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	since, silent := a.silent[id]
	switch most := a.LeaderWait + 2*a.Heartbeat; {
	case brief && silent:
		return 0
	case brief:
		return BriefMax
	case silent:
		return max(a.Heartbeat, since+most-a.Clock.Monotonic())
	default:
		return most
	}
}

func (a *Asker) heard(id raft.ServerID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.silent, id)
}

// unheard records that a member has not answered a question of a monotonic time.
func (a *Asker) unheard(id raft.ServerID, asked time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, silent := a.silent[id]; !silent {
		a.silent[id] = asked
	}
	wake.Signal(a.due)
}

// Run asks silent members whether they answer again, until the node stops.
func (a *Asker) Run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-a.Stop
		cancel()
	}()
	for {
		select {
		case <-a.due:
		case <-a.Stop:
			return
		}
		for ctx.Err() == nil && a.probe(ctx) {
			wake.Sleep(ctx, nil, askSilentEach)
		}
	}
}

// probe asks the silent members once, and reports whether some are left.
func (a *Asker) probe(ctx context.Context) (left bool) {
	var asking sync.WaitGroup
	silent := map[raft.ServerID]time.Duration{}
	a.mu.Lock()
	for _, s := range a.others(a.Raft.StartedServers()) {
		if since, is := a.silent[s.ID]; is {
			silent[s.ID] = since
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, a.Heartbeat)
				defer cancel()
				if _, _, err := a.Peers.Query(ctx, string(s.Address), resp.Args{"PING"}); err == nil {
					a.heard(s.ID)
				}
			})
		}
	}
	a.silent = silent // without former members
	a.mu.Unlock()
	asking.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.silent) > 0
}

// errNoClients answers a question to a node without a server.
var errNoClients = resp.Err("ERR this node has no clients")

// Serve implements the Query of peer.Handler.
func (a *Asker) Serve(q peer.Question, respond func(resp.Reply)) {
	go func() {
		ctx, cancel := context.WithDeadline(context.Background(), q.Until)
		defer cancel()
		r := errNoClients
		if a.Answer != nil {
			r = a.Answer(ctx, q.Args)
		}
		respond(r)
	}()
}
