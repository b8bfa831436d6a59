package pubsub

import (
	"strings"
	"testing"
	"testing/synctest"

	"lockd/resp/server/wire"
)

// While a subscriber is answered, what its answer makes others hear waits until it has its replies; what it hears
// itself stands behind those, and nothing comes twice.
func TestPushesToOthersWaitForTheReplies(t *testing.T) {
	b := newBroker()
	other, answered := newClient(t, b), newClient(t, b)
	var replies []byte
	b.Lock()
	b.BeginAnswer(&answered.Subscriber, &replies)
	for _, text := range []string{"+one\r\n", "+two\r\n"} {
		other.Push([]byte(text))
		answered.Push([]byte(text))
	}
	if len(b.delayed) != 2 || string(replies) != "+one\r\n+two\r\n" {
		t.Errorf("%d wait, and %q stands behind the replies", len(b.delayed), replies)
	}
	b.EndAnswer()
	b.EndAnswer()
	other.Push([]byte("+three\r\n"))
	waiting := len(b.delayed)
	b.Unlock()
	other.want("+one\r\n+two\r\n+three\r\n")
	if waiting != 0 {
		t.Errorf("%d wait where nobody is answered", waiting)
	}
}

// A push to a client that has left its channels stands behind what was on its way to it when it left: one that goes past
// that would tell it of things in another order than they came about. One that was disconnected is pushed nothing.
func TestPushesBehindWhatIsOnItsWay(t *testing.T) {
	b := newBroker()
	c := newClient(t, b)
	d := shut(b)
	c.join(Channel, "c")
	c.push("+one\r\n")
	b.Lock()
	c.UnsubscribeAll()
	b.Unlock()
	c.push("+two\r\n")
	close(d)
	c.want("+one\r\n+two\r\n")
	c.push("+three\r\n")
	c.want("+one\r\n+two\r\n+three\r\n")
	var replies []byte
	b.Lock()
	c.drop(0, "a test")
	b.BeginAnswer(&c.Subscriber, &replies)
	c.Push([]byte("+four\r\n"))
	b.EndAnswer()
	b.Unlock()
	if len(replies) > 0 {
		t.Errorf("%q is pushed to a client that was disconnected", replies)
	}
}

// A push to a client that subscribes stands behind the messages that were published before, and to one that does not
// subscribe it goes past them: it has nothing to do with those.
func TestPushesBehindMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		sub, left := newClient(t, b), newClient(t, b)
		sub.join(Channel, "c")
		left.join(Channel, "c")
		left.push("+one\r\n")
		left.has("+one\r\n")
		b.Lock()
		left.UnsubscribeAll()
		b.Unlock()
		d := shut(b)
		b.Publish(message("c", "x"))
		left.push("+two\r\n")
		sub.push("+two\r\n")
		left.has("+one\r\n+two\r\n")
		sub.has("")
		close(d)
		sub.want(pushed("message", "c", "x") + "+two\r\n")
	})
}

// A client whose output buffer is full is dropped, once.
func TestSlowClientIsDropped(t *testing.T) {
	b := NewBroker(func() wire.PushLimit { return wire.PushLimit{Hard: 100} })
	c := newClient(t, b)
	c.push("+one\r\n")
	if c.drops.Load() != 0 {
		t.Error("a client is dropped while there is room")
	}
	for range 2 {
		c.push("+" + strings.Repeat("x", 100) + "\r\n")
	}
	if why := c.WhyDropped(); c.drops.Load() != 1 || !strings.Contains(why, "buffer") {
		t.Errorf("dropped %d times: %q", c.drops.Load(), why)
	}
}

// The reply to a blocking command goes before the pushes since the command. To a client that subscribes, the messages
// published before the command go first, and to one that does not the reply goes past them.
func TestPushesWaitForAReply(t *testing.T) {
	for _, subscribes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker()
			c := newClient(t, b)
			if subscribes {
				c.join(Channel, "c")
			}
			c.DelayPushes(subscribes)
			c.push("+one\r\n")
			c.ResumePushes([]byte("+reply\r\n"), subscribes)
			c.has("+reply\r\n+one\r\n")
			d := shut(b)
			b.Publish(message("c", "x"))
			c.DelayPushes(subscribes)
			b.Publish(message("c", "y"))
			c.push("+two\r\n")
			c.ResumePushes([]byte("+again\r\n"), subscribes)
			c.push("+three\r\n")
			want := "+reply\r\n+one\r\n"
			if subscribes {
				c.has(want)
				want += pushed("message", "c", "x") + "+again\r\n" + pushed("message", "c", "y") + "+two\r\n+three\r\n"
			} else {
				want += "+again\r\n+two\r\n+three\r\n"
				c.has(want)
			}
			close(d)
			c.want(want)
		})
	}
}

// A client that subscribes settles when its outbox has all messages that were published before, one that has left when
// it has what was on its way to it alone, and one that has nothing to do with them at once.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		sub, left, other := newClient(t, b), newClient(t, b), newClient(t, b)
		sub.join(Channel, "c")
		left.join(Channel, "c")
		other.join(Channel, "c")
		other.push("+one\r\n")
		b.Lock()
		other.UnsubscribeAll()
		b.Unlock()
		d := shut(b)
		b.Publish(message("c", "x"))
		left.push("+one\r\n")
		b.Lock()
		left.UnsubscribeAll()
		b.Unlock()
		var settled [3]bool
		for i, c := range []*client{sub, left, other} {
			go func() { c.Settle(); settled[i] = true }()
		}
		synctest.Wait()
		if settled != [3]bool{false, false, true} {
			t.Errorf("they settle before the messages are there: %v", settled)
		}
		close(d)
		synctest.Wait()
		if settled != [3]bool{true, true, true} {
			t.Errorf("they do not settle: %v", settled)
		}
		sub.has(pushed("message", "c", "x"))
		left.has("+one\r\n")
	})
}
