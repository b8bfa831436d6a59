package pubsub

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"lockd/resp"
)

// Subscribers belong to their nodes, not to the log. A question about those of the whole cluster goes to every node at
// the time it is asked here, so that the answer is never older than the question: of two clients that subscribe to a
// channel at two nodes and then count its subscribers, at least one sees the other.

// Others are the other nodes of the cluster: see Backend of package server.
type Others interface {
	Members() int
	Ask(ctx context.Context, q resp.Inquiry) ([]resp.Reply, error)
}

// Counter counts the subscribers of this node, or of all nodes. Its methods are safe for concurrent use.
type Counter struct {
	broker *Broker
	others Others
	wanted func() bool // the subscribers of other nodes count
	clock  func() time.Time

	mu      sync.Mutex
	next    *round // the next question about receivers; nil: no publisher waits
	running bool   // a question is on its way
}

// NewCounter returns a counter. wanted reports whether the subscribers of other nodes count, too.
func NewCounter(b *Broker, others Others, wanted func() bool, clock func() time.Time) *Counter {
	return &Counter{broker: b, others: others, wanted: wanted, clock: clock}
}

// asksOthers reports whether the subscribers of other nodes count, and there are other nodes.
func (c *Counter) asksOthers() bool { return c.wanted() && c.others.Members() > 0 }

// errLockedCount answers PUBSUB in a transaction that subscribes: other nodes cannot be asked between its
// subscriptions.
const errLockedCount = "ERR PUBSUB cannot count the whole cluster in a transaction that subscribes or unsubscribes: " +
	"send it after EXEC"

// Ask asks all nodes that count a question.
func (c *Counter) Ask(ctx context.Context, question resp.Args) ([]resp.Reply, error) {
	var answers []resp.Reply
	if c.asksOthers() {
		var err error
		if answers, err = c.others.Ask(ctx, resp.Inquiry{Args: question}); err != nil {
			return nil, err
		}
	}
	return firstError(append(answers, c.broker.Answer(ctx, question))...)
}

// AskLocked is Ask with the broker's lock held, so that only this node can be asked. It returns the steps of matching,
// too.
func (c *Counter) AskLocked(question resp.Args) (answers []resp.Reply, steps int, err error) {
	if c.asksOthers() {
		return nil, 0, resp.Error(errLockedCount)
	}
	left := globStepsPerListMax
	answers, err = firstError(c.broker.about(question, &left, func() {}))
	return answers, globStepsPerListMax - left, err
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

// Union returns the sorted union of the lists that nodes answer. An error says that it is too large to list.
func Union(answers []resp.Reply) ([]string, error) {
	all, size := map[string]struct{}{}, 0
	for _, a := range answers {
		for _, text := range a.Elems {
			all[text.Str] = struct{}{}
		}
	}
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		size += len(name)
	}
	if size > listedBytesMax {
		return nil, resp.Error(errListed)
	}
	return names, nil
}

// Sum adds up answers, each a list of n numbers. An answer of another shape is ignored.
func Sum(answers []resp.Reply, n int) []int64 {
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
