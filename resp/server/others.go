package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lockd/resp"
)

// Subscribers and clients belong to their nodes, not to the log. A question about those of the whole cluster goes to
// every node at the time it is asked here, so that the answer is never older than the question: of two clients that
// subscribe to a channel at two nodes and then count its subscribers, at least one sees the other.

// The questions of servers to each other. They are answered in answers.go.
const (
	askReceivers     = "receivers"     // of messages, each a letter for its kind and its channel: how many
	askNumSub        = "numsub"        // channels: how many subscribers each has
	askShardNumSub   = "shardnumsub"   // shard channels: how many subscribers each has
	askChannels      = "channels"      // a pattern: the channels with subscribers
	askShardChannels = "shardchannels" // a pattern: the shard channels with subscribers
	askPatterns      = "patterns"      // hashes of the patterns with subscribers
	askKill          = "kill"          // a killFilter: how many clients were closed
	askUnblock       = "unblock"       // a client's id and a reason: 1 if it was unblocked
	askPing          = "PING"          // whether the node answers
)

// The letters before the channel of a message.
const (
	askChannel = "c"
	askShard   = "s"
)

// errLockedCount answers PUBSUB in a transaction that subscribes: other nodes cannot be asked between its
// subscriptions.
const errLockedCount = "ERR PUBSUB cannot count the whole cluster in a transaction that subscribes or unsubscribes: " +
	"send it after EXEC"

// countsAll reports whether the subscribers of other nodes count, too.
func (s *session) countsAll() bool {
	return *s.srv.own[pubsubCount].value.Load() == CountCluster && s.srv.backend.Members() > 0
}

// askEverybody asks this server and, if they count, those of the other nodes a question about subscribers.
func (s *session) askEverybody(question resp.Args) ([]resp.Reply, error) {
	h := s.srv.hub
	if s.underHub {
		if s.countsAll() {
			return nil, resp.Error(errLockedCount)
		}
		left := globStepsPerListMax
		answer := h.about(question, &left, func() {})
		s.work += globStepsPerListMax - left
		return firstError(answer)
	}
	var answers []resp.Reply
	if s.countsAll() {
		var err error
		if answers, err = s.srv.backend.Ask(s.ctx, resp.Inquiry{Args: question}); err != nil {
			return nil, err
		}
	}
	return firstError(append(answers, h.answerCount(question))...)
}

// firstError returns the answers, or the first that is an error.
func firstError(answers ...resp.Reply) ([]resp.Reply, error) {
	for _, a := range answers {
		if a.IsErr() {
			return nil, resp.Error(a.Str)
		}
	}
	return answers, nil
}

// askUnion returns the sorted union of the lists that all nodes answer.
func (s *session) askUnion(question ...string) ([]string, error) {
	answers, err := s.askEverybody(question)
	if err != nil {
		return nil, err
	}
	all := map[string]struct{}{}
	for _, a := range answers {
		for _, text := range a.Elems {
			all[text.Str] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// addUp adds up answers, each a list of n numbers. An answer of another shape is ignored.
func addUp(answers []resp.Reply, n int) []int64 {
	sums := make([]int64, n)
	for _, a := range answers {
		if len(a.Elems) != n {
			continue
		}
		for i := range a.Elems {
			sums[i] += a.Elems[i].Int
		}
	}
	return sums
}

// answerCount answers a question about this node's subscribers.
func (h *Hub) answerCount(question resp.Args) resp.Reply {
	h.counting.Lock()
	defer h.counting.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	left := globStepsPerListMax
	return h.about(question, &left, func() {
		h.mu.Unlock()
		h.mu.Lock()
	})
}

// about answers a question about this node's subscribers; left bounds the steps of matching. mu is held; pause
// releases it for a moment.
func (h *Hub) about(question resp.Args, left *int, pause func()) resp.Reply {
	switch {
	case question[0] == askNumSub:
		return h.channels.counts(question[1:])
	case question[0] == askShardNumSub:
		return h.shards.counts(question[1:])
	case question[0] == askChannels && len(question) == 2:
		return h.channels.names(question[1], left, pause)
	case question[0] == askShardChannels && len(question) == 2:
		return h.shards.names(question[1], left, pause)
	case question[0] == askPatterns:
		sums := make([]string, 0, len(h.byGlob))
		for _, p := range h.byGlob {
			sums = append(sums, p.sum)
		}
		return resp.Bulks(sums...)
	}
	return resp.Err(errQuestion)
}

// errQuestion answers an unknown question.
const errQuestion = "ERR this node does not know the question"

// counting is a request that publishes, on its way to the backend. Meanwhile the other nodes are asked how many
// receivers they have.
type counting struct {
	at       []int     // indices of the commands that publish
	messages resp.Args // their messages, as askReceivers names them
	round    *countRound
	from     int       // index of the first message in the question of the round
	began    time.Time // when the question was asked
}

// beginCount begins to count the receivers of the messages that a request publishes; nil if there are none. endCount
// has to follow.
func (s *session) beginCount(cmds []resp.Cmd) *counting {
	var c *counting
	for i, cmd := range cmds {
		if cmd.Spec == nil || cmd.Spec.Flags&resp.CountsReceivers == 0 || len(cmd.Args) < 2 {
			continue
		}
		if c == nil {
			c = &counting{}
		}
		letter := askChannel
		if cmd.Spec.Name == "spublish" {
			letter = askShard
		}
		c.at, c.messages = append(c.at, i), append(c.messages, letter+cmd.Args[1])
	}
	if c != nil {
		c.ask(s)
	}
	return c
}

// ask asks the other nodes, if their subscribers count.
func (c *counting) ask(s *session) {
	if c.round = nil; s.countsAll() {
		c.began = s.srv.clock()
		c.round, c.from = s.srv.joinRound(c.messages)
	}
}

// endCount puts the number of receivers into the replies of PUBLISH and SPUBLISH: the subscribers of this node once
// the messages are in the log, plus those of the other nodes at a moment since beginCount. If that is long ago, they
// are asked again. It waits for the other nodes, and takes the hub's lock.
func (s *session) endCount(c *counting, res resp.Result) {
	if c == nil {
		return
	}
	if c.round != nil && s.srv.clock().Sub(c.began) > countStaleMax {
		c.ask(s)
	}
	var answers []resp.Reply
	if c.round != nil {
		<-c.round.done
		answers = c.round.answers
	}
	for k, i := range c.at {
		if i >= len(res.Replies) || res.Replies[i].Kind != resp.KindInt {
			continue
		}
		n := s.srv.hub.receiversOf(c.messages[k])
		for _, a := range answers {
			if len(a.Elems) == len(c.round.question)-1 {
				n += a.Elems[c.from+k].Int
			}
		}
		res.Replies[i] = resp.Int(n)
	}
}

// receiversOf counts the receivers on this node of a message, as askReceivers names it.
func (h *Hub) receiversOf(message string) int64 {
	if message == "" {
		return 0
	}
	return h.receivers(message[1:], message[:1] == askShard)
}

// countRound is one question about the receivers of messages, shared by several sessions.
type countRound struct {
	question resp.Args
	size     int // bytes of it
	answers  []resp.Reply
	done     chan struct{} // closed when the answers have arrived
}

// countRounds asks one question at a time: messages that arrive meanwhile go into the next one.
type countRounds struct {
	mu      sync.Mutex
	next    *countRound // nil: no session waits
	running bool
}

// joinRound adds messages to the next question, and returns their index in its answers. Messages without room in it
// become a question of their own.
func (s *Server) joinRound(messages resp.Args) (r *countRound, from int) {
	size := 0
	for _, m := range messages {
		size += len(m)
	}
	g := &s.rounds
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next != nil && g.next.size+size > countRoundBytesMax {
		r = newRound(messages, size)
		go s.askRound(r)
		return r, 0
	}
	if g.next == nil {
		g.next = newRound(nil, 0)
	}
	r, from = g.next, len(g.next.question)-1
	r.question, r.size = append(r.question, messages...), r.size+size
	if !g.running {
		g.running = true
		go s.runRounds()
	}
	return r, from
}

func newRound(messages resp.Args, size int) *countRound {
	return &countRound{question: append(resp.Args{askReceivers}, messages...), size: size, done: make(chan struct{})}
}

// runRounds asks until no session waits.
func (s *Server) runRounds() {
	for {
		s.rounds.mu.Lock()
		r := s.rounds.next
		s.rounds.next, s.rounds.running = nil, r != nil
		s.rounds.mu.Unlock()
		if r == nil {
			return
		}
		s.askRound(r)
	}
}

// askRound asks the other nodes. It does not wait for a node that did not answer the last question.
func (s *Server) askRound(r *countRound) {
	r.answers, _ = s.backend.Ask(context.Background(), resp.Inquiry{Args: r.question, Brief: true})
	close(r.done)
}
