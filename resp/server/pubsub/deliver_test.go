package pubsub

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
)

// A new subscriber does not get earlier messages, even while others are still to get them.
func TestNothingFromBeforeTheSubscription(t *testing.T) {
	b := newBroker()
	first, second := newClient(t, b), newClient(t, b)
	first.join(Channel, "c")
	d := shut(b)
	b.Publish(message("c", "before"))
	second.join(Channel, "c")
	b.Publish(message("c", "behind"))
	close(d)
	first.want(pushed("message", "c", "before") + pushed("message", "c", "behind"))
	second.want(pushed("message", "c", "behind"))
}

// The queue is bounded: beyond it all that may have missed a message are dropped, and no later subscriber.
func TestTooManyMessagesWait(t *testing.T) {
	for name, flood := range map[string]func(b *Broker){
		"messages": func(b *Broker) {
			b.Publish(make([]resp.Message, queuedMax+1))
		},
		"bytes": func(b *Broker) {
			large := message("c", strings.Repeat("x", queuedBytesMax/64))
			for range 65 {
				b.Publish(large)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker()
			first, second := newClient(t, b), newClient(t, b)
			first.join(Channel, "c")
			d := shut(b)
			flood(b)
			second.join(Channel, "c")
			b.Publish(message("c", "behind"))
			close(d)
			second.want(pushed("message", "c", "behind"))
			if first.drops.Load() != 1 || second.drops.Load() != 0 || first.WhyDropped() != errMissed {
				t.Errorf("dropped: %d, %d, %q", first.drops.Load(), second.drops.Load(), first.WhyDropped())
			}
			if q := b.queue; q.size != 0 || q.bytes != 0 {
				t.Errorf("%d messages and %d bytes are left", q.size, q.bytes)
			}
		})
	}
}

// Where patterns make deliveries late, those that take the most have to go. Usual ones stay, and miss nothing.
func TestPatternsThatMakeDeliveriesLate(t *testing.T) {
	b := newBroker()
	usual := newClient(t, b)
	usual.join(Pattern, "a*")
	channel := strings.Repeat("a", 250)
	var costly []*client
	for i := range 8 {
		c := newClient(t, b)
		c.join(Pattern, fmt.Sprintf("*%sb", strings.Repeat("a", 56+i)))
		costly = append(costly, c)
	}
	d := shut(b)
	const messages = 4000
	var want strings.Builder
	for i := range messages {
		payload := fmt.Sprintf("%05d", i)
		b.Publish(message(channel, payload))
		want.WriteString(pushed("pmessage", "a*", channel, payload))
	}
	close(d)
	usual.want(want.String())
	if !slices.ContainsFunc(costly, func(c *client) bool { return c.drops.Load() > 0 }) {
		t.Error("nobody was dropped")
	}
	if n := b.matching.steps; n > globStepsBehindMax {
		t.Errorf("%d steps", n)
	}
}

// A message goes to more subscribers than the broker serves at once.
func TestManySubscribers(t *testing.T) {
	b := newBroker()
	var all []*client
	for range 3*deliveriesAtOnce + 1 {
		c := newClient(t, b)
		c.join(Channel, "c")
		all = append(all, c)
	}
	b.Publish(message("c", "x"))
	for _, c := range all {
		c.want(pushed("message", "c", "x"))
	}
}

// costly is a pattern whose match with a channel of as many letters a takes about
// steps comparisons.
func costly(i, steps, channelLen int) string {
	n := steps / channelLen
	return "*" + strings.Repeat("a", n) + "b" + fmt.Sprint(i)
}

// Matching a message with patterns takes a bounded time: the owner of a pattern beyond it is dropped. Owners of
// ordinary patterns are not, however many they are.
func TestMatchingIsBounded(t *testing.T) {
	channel := strings.Repeat("a", 4096)
	for name, tt := range map[string]struct {
		patterns []string
		dropped  int64
	}{
		"one that is dear": {[]string{costly(0, 4*globStepsMax, len(channel))}, 1},
		"many of a usual kind": {func() (all []string) {
			for i := range patternsMax - 1 {
				all = append(all, fmt.Sprintf("__keyspace@0__:order:%d:*", i))
			}
			return all
		}(), 0},
		"many that are dear together": {func() (all []string) {
			for i := range 40 {
				all = append(all, costly(i, globStepsMax*3/4, len(channel)))
			}
			return all
		}(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBroker()
			usual, other := newClient(t, b), newClient(t, b)
			usual.join(Pattern, "a*")
			other.join(Pattern, tt.patterns...)
			if n := b.receivers(channel, false); n != 1 {
				t.Errorf("%d receivers", n)
			}
			b.Publish(message(channel, "x"))
			usual.want(pushed("pmessage", "a*", channel, "x"))
			if usual.drops.Load() != 0 || other.drops.Load() != tt.dropped {
				t.Errorf("dropped: %d, %d", usual.drops.Load(), other.drops.Load())
			}
		})
	}
}

// BenchmarkWorstPatterns counts the receivers of a message, with the most expensive patterns whose owners are not
// dropped.
func BenchmarkWorstPatterns(b *testing.B) {
	channel := strings.Repeat("a", 4096)
	class := "[" + strings.Repeat("b", 900) + "]"
	for name, pattern := range map[string]func(int) string{
		"letters": func(i int) string { return costly(i, globStepsMax*9/10, len(channel)) },
		"classes": func(i int) string { return "*" + strings.Repeat("?", i) + class + "b" },
		"cheap":   func(i int) string { return fmt.Sprint("b", i) },
	} {
		b.Run(name, func(b *testing.B) {
			broker := newBroker()
			n := map[string]int{"letters": 8, "classes": 8, "cheap": patternsMax}[name]
			for i := range n {
				newClient(b, broker).join(Pattern, pattern(i))
			}
			for b.Loop() {
				broker.receivers(channel, false)
			}
		})
	}
}
