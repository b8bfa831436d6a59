package pubsub

import "testing"

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

// An outbox has all messages that were published before the client settles, and a client without subscriptions does
// not wait for others.
func TestSettle(t *testing.T) {
	b := newBroker()
	sub, other := newClient(t, b), newClient(t, b)
	sub.join(Channel, "c")
	d := shut(b)
	b.Publish(message("c", "x"))
	other.Settle() // or it waits for ever
	close(d)
	sub.Settle()
	sub.want(pushed("message", "c", "x"))
}
