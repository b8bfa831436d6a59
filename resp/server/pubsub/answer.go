package pubsub

import (
	"context"

	"lockd/resp"
)

// The questions about the subscribers of a node, and their arguments: what Broker.Answer answers.
const (
	askReceivers  = "receivers"     // of messages, each a letter for its kind and its channel: how many
	NumSub        = "numsub"        // channels: how many subscribers each has
	ShardNumSub   = "shardnumsub"   // shard channels: how many subscribers each has
	Channels      = "channels"      // a pattern: the channels with subscribers
	ShardChannels = "shardchannels" // a pattern: the shard channels with subscribers
	Patterns      = "patterns"      // hashes of the patterns with subscribers
)

// The letters before the channel of a message.
const (
	letterChannel = "c"
	letterShard   = "s"
)

// ErrQuestion answers an unknown question.
const ErrQuestion = "ERR this node does not know the question"

// errListed answers a question for more names than are listed.
const errListed = "ERR the names of the channels take more than 16 MiB: ask with a pattern that fewer of them match"

// errPatternWork answers a pattern that takes too long to match.
const errPatternWork = "ERR the pattern takes too much work to match"

// errLate answers a question whose asker waits no longer.
const errLate = "ERR the question takes longer than the time to answer it"

// Answer answers a question about this node's subscribers. It takes the lock, and releases it now and then. Once ctx
// has ended it counts the receivers of no further message: nobody waits for them, and each may take a millisecond.
func (b *Broker) Answer(ctx context.Context, question resp.Args) resp.Reply {
	if question[0] == askReceivers {
		counts := make([]resp.Reply, len(question)-1)
		for i, message := range question[1:] {
			if ctx.Err() != nil {
				return resp.Err(errLate)
			}
			counts[i] = resp.Int(b.receiversOf(message))
		}
		return resp.Array(counts...)
	}
	b.counting.Lock()
	defer b.counting.Unlock()
	b.Lock()
	defer b.Unlock()
	left := globStepsPerListMax
	return b.about(question, &left, func() {
		b.Unlock()
		b.Lock()
	})
}

// about answers a question; left bounds the steps of matching. The lock is held; pause releases it for a moment.
func (b *Broker) about(question resp.Args, left *int, pause func()) resp.Reply {
	switch {
	case question[0] == NumSub:
		return b.channels.counts(question[1:])
	case question[0] == ShardNumSub:
		return b.shards.counts(question[1:])
	case question[0] == Channels && len(question) == 2:
		return b.channels.names(question[1], left, pause)
	case question[0] == ShardChannels && len(question) == 2:
		return b.shards.names(question[1], left, pause)
	case question[0] == Patterns:
		return b.patterns.sums()
	}
	return resp.Err(ErrQuestion)
}

// receiversOf counts the receivers on this node of a message, as askReceivers names it.
func (b *Broker) receiversOf(message string) int64 {
	if message == "" {
		return 0
	}
	return b.receivers(message[1:], message[:1] == letterShard)
}

// receivers counts the subscribers that a message to the channel reaches, as PUBLISH answers.
func (b *Broker) receivers(channel string, shard bool) int64 {
	if !b.InUse() {
		return 0
	}
	b.Lock()
	defer b.Unlock()
	if shard {
		return int64(len(b.shards[channel]))
	}
	n, patterns := len(b.channels[channel]), b.patterns.candidates(channel)
	if len(patterns) > 0 {
		b.Unlock()
		patterns, _ = match(patterns, channel, nil)
		b.Lock()
	}
	for _, p := range patterns {
		n += len(p.subs)
	}
	return int64(n)
}
