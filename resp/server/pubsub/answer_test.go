package pubsub

import (
	"context"
	"slices"
	"testing"

	"lockd/resp"
)

// endsAfter is a context that ends once it was asked a number of times whether it has.
type endsAfter struct {
	context.Context
	asked, left int
}

func (e *endsAfter) Err() error {
	e.asked++
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// Receivers are counted until the asker has given up, and for no further message.
func TestCountingReceiversEndsWithTheQuestion(t *testing.T) {
	b := newBroker()
	newClient(t, b).join(Pattern, "*")
	const messages = 1000
	question := append(resp.Args{askReceivers}, slices.Repeat(resp.Args{letterChannel + "k"}, messages)...)
	for _, counted := range []int{0, 1, messages - 1} {
		ctx := &endsAfter{Context: context.Background(), left: counted}
		if got := b.Answer(ctx, question); !got.IsErr() || ctx.asked != counted+1 {
			t.Errorf("the context ends after %d messages, and is asked %d times; the answer has %d counts",
				counted, ctx.asked, len(got.Elems))
		}
	}
	ctx := &endsAfter{Context: context.Background(), left: messages}
	got := b.Answer(ctx, question)
	if sum := Sum([]resp.Reply{got}, messages); sum[0] != 1 || sum[messages-1] != 1 {
		t.Errorf("the counts are %d and %d, want 1", sum[0], sum[messages-1])
	}
}
