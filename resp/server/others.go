package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lockd/resp"
)

// Subscribers and clients are each node's own, and no part of the log. What is asked about those of the whole cluster
// is asked of every node when it is asked here, so the answer is not older than the question: of two clients that have
// subscribed to a channel, at two nodes, and ask who has, one at least sees the other.

// The questions of servers to each other. They are answered in answers.go.
const (
	askReceivers     = "receivers"     // of messages, each a letter for its kind and its channel: how many
	askNumSub        = "numsub"        // channels: how many subscribers each has
	askShardNumSub   = "shardnumsub"   // likewise of shard channels
	askChannels      = "channels"      // a pattern: the channels with subscribers
	askShardChannels = "shardchannels" // likewise
	askPatterns      = "patterns"      // sums of the patterns with subscribers
	askKill          = "kill"          // a killFilter: how many clients were closed
	askUnblock       = "unblock"       // a client's id and a reason: 1 if it was unblocked
	askPing          = "PING"          // whether the node answers
)

// The letters before the channel of a message.
const (
	askChannel = "c"
	askShard   = "s"
)

// errLockedCount answers PUBSUB in a transaction that subscribes: nobody can be asked between its subscriptions.
const errLockedCount = "ERR PUBSUB cannot count the whole cluster in a transaction that subscribes or unsubscribes: " +
	"send it after EXEC"

// countsAll reports whether the subscribers of other nodes count, too.
func (s *session) countsAll() bool {
	return *s.srv.own[pubsubCount].value.Load() == CountCluster && s.srv.backend.Members() > 0
}

// askEverybody has this server and, if they count, those of the other nodes answer a question about subscribers.
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

// askUnion returns what everybody's answers list, sorted, each text once.
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

// addUp adds the numbers of answers, each of which lists n. One that does not counts for nothing.
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

// about answers a question about this node's subscribers, in so many steps of matching at most. mu is held; pause lets
// others have it.
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

// errQuestion answers what is none of the questions.
const errQuestion = "ERR this node does not know the question"

// counting is a request with PUBLISH in it, on its way to the backend. The other nodes are asked meanwhile how many
// receivers they have.
type counting struct {
	at       []int     // the commands
	messages resp.Args // of each, as askReceivers names it
	round    *countRound
	from     int       // where its messages are in the question of the round
	began    time.Time // when they were asked
}

// beginCount begins to count the receivers of what a request publishes; nil if it publishes nothing. endCount has to
// follow.
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

// ask asks the other nodes, if they count.
func (c *counting) ask(s *session) {
	if c.round = nil; s.countsAll() {
		c.began = s.srv.clock()
		c.round, c.from = s.srv.joinRound(c.messages)
	}
}

// endCount puts the receivers into the replies of PUBLISH and SPUBLISH: the subscribers of this node once the messages
// are in the log, and those of the others at a moment since they came. If that is long ago, they are asked again. It
// waits for the others, and takes the hub's lock.
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

// receiversOf counts the receivers of a message, as askReceivers names it, on this node.
func (h *Hub) receiversOf(message string) int64 {
	if message == "" {
		return 0
	}
	return h.receivers(message[1:], message[:1] == askShard)
}

// countRound is one question about the receivers of messages of several sessions.
type countRound struct {
	question resp.Args
	size     int // bytes of it
	answers  []resp.Reply
	done     chan struct{} // closed when the answers are there
}

// countRounds asks one question at a time: what comes meanwhile waits for the next one, which is sent after it came.
type countRounds struct {
	mu      sync.Mutex
	next    *countRound // nil: nobody waits
	running bool
}

// joinRound puts messages into the next question, and returns where they begin in its answers. What has no room in that
// is a question of its own.
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

// runRounds asks until nobody waits.
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

// askRound asks the other nodes. One that did not answer the last question is not waited for.
func (s *Server) askRound(r *countRound) {
	r.answers, _ = s.backend.Ask(context.Background(), resp.Inquiry{Args: r.question, Brief: true})
	close(r.done)
}
