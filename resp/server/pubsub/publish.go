package pubsub

import (
	"context"
	"time"

	"lockd/resp"
)

// Count is a request that publishes, on its way to the backend. Meanwhile the other nodes are asked how many receivers
// they have.
type Count struct {
	counter  *Counter
	at       []int     // indices of the commands that publish
	messages resp.Args // their messages, as askReceivers names them
	round    *round    // nil: other nodes are not asked
	from     int       // index of the first message in the question of the round
	began    time.Time // when the question was asked
}

// Begin begins to count the receivers of the messages that commands publish; nil if there are none. End has to follow.
func (c *Counter) Begin(cmds []resp.Cmd) *Count {
	var n *Count
	for i, cmd := range cmds {
		if !cmd.Is(resp.CountsReceivers) || len(cmd.Args) < 2 {
			continue
		}
		if n == nil {
			n = &Count{counter: c}
		}
		letter := letterChannel
		if cmd.Spec.Name == "spublish" {
			letter = letterShard
		}
		n.at, n.messages = append(n.at, i), append(n.messages, letter+cmd.Args[1])
	}
	if n != nil {
		n.ask()
	}
	return n
}

// ask asks the other nodes, if their subscribers count.
func (n *Count) ask() {
	if n.round = nil; n.counter.asksOthers() {
		n.began = n.counter.clock()
		n.round, n.from = n.counter.join(n.messages)
	}
}

// End puts the number of receivers into the replies of PUBLISH and SPUBLISH: the subscribers of this node once the
// messages are in the log, plus those of the other nodes at a moment since Begin. If that is long ago, they are asked
// again. It waits for the other nodes, and takes the broker's lock. A nil Count does nothing.
func (n *Count) End(replies []resp.Reply) {
	if n == nil {
		return
	}
	if n.round != nil && n.counter.clock().Sub(n.began) > countStaleMax {
		n.ask()
	}
	var answers []resp.Reply
	if n.round != nil {
		<-n.round.done
		answers = n.round.answers
	}
	for k, i := range n.at {
		if i >= len(replies) || replies[i].Kind != resp.KindInt {
			continue
		}
		sum := n.counter.broker.receiversOf(n.messages[k])
		for _, a := range answers {
			if len(a.Elems) == len(n.round.question)-1 {
				sum += a.Elems[n.from+k].Int
			}
		}
		replies[i] = resp.Int(sum)
	}
}

// round is one question about the receivers of messages, shared by several publishers. One is asked at a time: messages
// that arrive meanwhile go into the next one.
type round struct {
	question resp.Args
	size     int // bytes of it
	answers  []resp.Reply
	done     chan struct{} // closed when the answers have arrived
}

func newRound(messages resp.Args, size int) *round {
	return &round{question: append(resp.Args{askReceivers}, messages...), size: size, done: make(chan struct{})}
}

// join adds messages to the next question, and returns their index in its answers. Messages without room in it become
// a question of their own.
func (c *Counter) join(messages resp.Args) (r *round, from int) {
	size := 0
	for _, m := range messages {
		size += len(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil && c.next.size+size > countRoundBytesMax {
		r = newRound(messages, size)
		go c.askRound(r)
		return r, 0
	}
	if c.next == nil {
		c.next = newRound(nil, 0)
	}
	r, from = c.next, len(c.next.question)-1
	r.question, r.size = append(r.question, messages...), r.size+size
	if !c.running {
		c.running = true
		go c.askRounds()
	}
	return r, from
}

// askRounds asks until no publisher waits.
func (c *Counter) askRounds() {
	for {
		c.mu.Lock()
		r := c.next
		c.next, c.running = nil, r != nil
		c.mu.Unlock()
		if r == nil {
			return
		}
		c.askRound(r)
	}
}

// askRound asks the other nodes. It does not wait for a node that did not answer the last question.
func (c *Counter) askRound(r *round) {
	r.answers, _ = c.others.Ask(context.Background(), resp.Inquiry{Args: r.question, Brief: true})
	close(r.done)
}
