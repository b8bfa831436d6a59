package pubsub

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockd/resp"
	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
)

// client is a client of a broker: its connection keeps what is written to it.
type client struct {
	Subscriber
	t     testing.TB
	out   *wire.Outbox
	drops atomic.Int64

	mu      sync.Mutex
	written strings.Builder
}

func newBroker() *Broker { return NewBroker(func() wire.PushLimit { return wire.PushLimit{} }) }

func newClient(t testing.TB, b *Broker) *client {
	c := &client{t: t}
	c.out = wire.NewOutbox(c, time.Now)
	c.Init(b, c, c.out)
	t.Cleanup(c.out.Kill)
	return c
}

// join subscribes.
func (c *client) join(k Kind, names ...string) {
	c.t.Helper()
	c.broker.Lock()
	defer c.broker.Unlock()
	for _, name := range names {
		if err := c.Subscribe(k, name); err != nil {
			c.t.Fatal(err)
		}
	}
}

// push pushes a text.
func (c *client) push(text string) {
	c.broker.Lock()
	defer c.broker.Unlock()
	c.Push([]byte(text))
}

// want asserts what the client gets, once all that was published is in its outbox and written.
func (c *client) want(want string) {
	c.t.Helper()
	c.broker.Settle()
	c.has(want)
}

// has asserts what the client gets of what is in its outbox by now.
func (c *client) has(want string) {
	c.t.Helper()
	for until := time.Now().Add(10 * time.Second); c.out.Waiting() > 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(until) {
			c.t.Fatalf("%d bytes are not written", c.out.Waiting())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.written.String(); got != want {
		c.t.Errorf("%q, want %q", got, want)
	}
}

func (c *client) Proto() int               { return 3 }
func (c *client) Dropped(stats.DropReason) { c.drops.Add(1); c.out.Kill() }
func (c *client) Reserve(int) error        { return nil }
func (c *client) Release(int)              {}

func (c *client) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written.Write(b)
	return len(b), nil
}

func (c *client) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (c *client) Close() error                     { return nil }
func (c *client) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *client) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *client) SetDeadline(time.Time) error      { return nil }
func (c *client) SetReadDeadline(time.Time) error  { return nil }
func (c *client) SetWriteDeadline(time.Time) error { return nil }

// dam is the form of a message whose channel takes until the dam is opened to find out: all behind it waits.
type dam chan struct{}

func (d dam) Channel([]byte) string         { <-d; return "nobody's" }
func (d dam) Payload([]byte) string         { return "" }
func (d dam) News([]byte) (n resp.LockNews) { return n }

// shut publishes a message that holds up those behind it until the dam is opened.
func shut(b *Broker) dam {
	d := make(dam)
	b.Publish([]resp.Message{{Kind: resp.MessageLock, Form: d}})
	return d
}

func message(channel, payload string) []resp.Message {
	return []resp.Message{{Channel: channel, Payload: payload}}
}

func pushed(words ...string) string { return string(pushOf(words...).AppendTo(nil, 3)) }
