package server

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockd/internal/strict"
	"lockd/resp"
)

// worstHub sets the size of the worst cases of the hub: its limits if times are strict.
type worstHub struct {
	patterns int // of all clients
	calls    int // of one request
	keys     int // that a client tracks
}

func worstHubNow() worstHub {
	if strict.Times() {
		return worstHub{patterns: 1 << 13, calls: 60_000, keys: 900_000}
	}
	return worstHub{patterns: 64, calls: 200, keys: 2000}
}

// bystanders do what others do meanwhile, one thing after the other: this node applies entries, a client subscribes, one
// looks at what it tracks, one looks around. None of it may take longer than a second. What a client that has subscribed
// already is answered comes behind the messages that were published before, however long that takes (settle).
type bystanders struct {
	t    *testing.T
	stop atomic.Bool
	list []*bystander
}

type bystander struct {
	what    string
	longest time.Duration
	done    chan struct{}
}

func standBy(t *testing.T, srv *Server, addr string) *bystanders {
	all := &bystanders{t: t}
	all.add("applying an entry", func() error {
		srv.hub.publishChanges(&resp.Message{Kind: resp.MessageChanges, Index: 1})
		return nil
	})
	all.add("a subscription", func() error {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Minute))
		if _, err := io.WriteString(conn, "SUBSCRIBE passing\r\n"); err != nil {
			return err
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	})
	for what, send := range map[string][2]string{
		"a command about tracking": {"CLIENT TRACKING ON\r\n", "CLIENT TRACKINGINFO\r\n"},
		"the list of clients":      {"", "CLIENT LIST\r\n"},
	} {
		c := dial(t, addr)
		_ = c.conn.SetDeadline(time.Now().Add(10 * time.Minute))
		c.send("HELLO 3\r\n" + send[0] + "ECHO done\r\n")
		c.skipTo("done\r\n")
		all.add(what, func() error {
			if _, err := io.WriteString(c.conn, send[1]+"ECHO done\r\n"); err != nil {
				return err
			}
			for {
				if line, err := c.in.ReadString('\n'); err != nil || line == "done\r\n" {
					return err
				}
			}
		})
	}
	return all
}

func (all *bystanders) add(what string, do func() error) {
	b := &bystander{what: what, done: make(chan struct{})}
	all.list = append(all.list, b)
	go func() {
		defer close(b.done)
		for !all.stop.Load() {
			start := time.Now()
			if err := do(); err != nil {
				all.t.Errorf("%s: %v", what, err)
				return
			}
			b.longest = max(b.longest, time.Since(start))
			time.Sleep(time.Millisecond)
		}
	}()
}

// end asserts what they waited for while something was done.
func (all *bystanders) end(while string) {
	all.stop.Store(true)
	for _, b := range all.list {
		<-b.done
		all.t.Logf("%s, while %s: %v at most", b.what, while, b.longest)
		strict.AtMost(all.t, b.what+", while "+while, b.longest, time.Second)
	}
}

// worstChannel is the channel that the patterns of patternsFor are matched with.
var worstChannel = strings.Repeat("a", 64+8)

// patternsFor are different patterns of which each is a candidate, and looks at eight letters of the channel: all match
// it, or none does. They begin with heads of all lengths, so that their order has to be found.
func patternsFor(n int, match bool) (list []string) {
	end := "b"
	if match {
		end = "*"
	}
	for i := range n {
		rest := []byte("?aaaaaa")
		for k := range 6 {
			if i>>k&1 == 1 {
				rest[1+k] = '?'
			}
		}
		list = append(list, strings.Repeat("a", i/64%64)+string(rest)+strings.Repeat(end, 1+i/4096))
	}
	return list
}

// With as many patterns of all clients as the limits allow, and messages that match or do not, others never wait
// long.
func TestWorstPatterns(t *testing.T) {
	z := worstHubNow()
	for _, match := range []bool{true, false} {
		for _, owners := range []int{1, 64} {
			for _, how := range []string{"alone", "MULTI", "script"} {
				t.Run(fmt.Sprintf("match %v, %d clients, %s", match, owners, how), func(t *testing.T) {
					srv, _, addr := startServer(t, nil)
					list := patternsFor(z.patterns, match)
					for i := range owners {
						c := dial(t, addr)
						mine := list[i*len(list)/owners : (i+1)*len(list)/owners]
						go func() { _, _ = io.Copy(io.Discard, c.conn) }()
						_, _ = c.conn.Write(resp.AppendCommand(nil, append([]string{"PSUBSCRIBE"}, mine...)...))
					}
					eventually(t, "the patterns are there", func() bool {
						_, patterns, _ := srv.hub.broker.Sizes()
						return patterns == len(list)
					})
					others := standBy(t, srv, addr)
					publish(t, srv, addr, how, z.calls)
					others.end("messages are matched")
				})
			}
		}
	}
}

// publish publishes messages: one, or many in a transaction or an entry, and waits until they are delivered.
func publish(t *testing.T, srv *Server, addr, how string, calls int) {
	start := time.Now()
	if how == "script" {
		list := make([]resp.Message, calls)
		for i := range list {
			list[i] = resp.Message{Channel: worstChannel, Payload: "x"}
		}
		srv.hub.Publish(list)
	} else {
		c := dial(t, addr)
		_ = c.conn.SetDeadline(time.Now().Add(10 * time.Minute))
		one := "PUBLISH " + worstChannel + " x\r\n"
		if how == "MULTI" {
			one = "MULTI\r\n" + strings.Repeat(one, calls) + "EXEC\r\n"
		}
		go func() { _, _ = io.WriteString(c.conn, one+"PING\r\n") }()
		c.skipTo("+PONG\r\n")
	}
	t.Logf("the publisher waits %v", time.Since(start))
	srv.hub.broker.Settle()
	t.Logf("delivered after %v, %d dropped", time.Since(start), srv.stats.SubscribersDropped.Load())
}

// With clients that track as many keys as the limits allow, others never wait long while keys are read, while they
// change, at once or one by one, and while the clients disconnect.
func TestWorstTracking(t *testing.T) {
	z := worstHubNow()
	key := func(i int) string { return "k" + strconv.Itoa(i) }
	srv, fake, addr := startServer(t, nil)
	tracker := func() *testClient {
		c := dialTracker(t, addr, "")
		_ = c.conn.SetDeadline(time.Now().Add(10 * time.Minute))
		return c
	}
	readAll := func(c *testClient, atOnce int) {
		for i := 0; i < z.keys; i += atOnce {
			words := []string{"MGET"}
			for j := i; j < min(i+atOnce, z.keys); j++ {
				words = append(words, key(j))
			}
			go func() { _, _ = c.conn.Write(resp.AppendCommand(nil, words...)) }()
			c.skipTo("*" + strconv.Itoa(len(words)-1) + "\r\n")
			c.send("ECHO read\r\n")
			c.skipTo("read\r\n")
		}
	}
	tracked := func() int {
		srv.hub.broker.Lock()
		defer srv.hub.broker.Unlock()
		n, _, _ := srv.hub.tracking.Sizes()
		return n
	}
	a, b := tracker(), tracker()
	readAll(b, 10_000)
	step := func(what string, do func()) {
		others := standBy(t, srv, addr)
		start := time.Now()
		do()
		t.Logf("%s took %v, %d keys are tracked", what, time.Since(start), tracked())
		others.end(what)
	}
	c := dial(t, addr)
	run := func(text string) {
		go func() { _, _ = io.WriteString(c.conn, text+"ECHO done\r\n") }()
		c.skipTo("done\r\n")
	}
	step("reading all at once", func() { readAll(a, z.keys) })
	step("reading all", func() { readAll(a, 10_000) })
	step("one write", func() { run("SET k1 v\r\n") })
	step("writes in MULTI", func() {
		var text strings.Builder
		for i := range z.calls {
			text.WriteString("SET " + key(i) + " v\r\n")
		}
		run("MULTI\r\n" + text.String() + "EXEC\r\n")
	})
	step("writes in a script", func() {
		var keys []string
		for i := range z.calls {
			keys = append(keys, key(z.keys/2+i))
		}
		fake.mu.Lock()
		fake.another(keys...)
		fake.mu.Unlock()
	})
	step("FLUSHALL", func() { run("FLUSHALL\r\n") })
	step("reading all after it", func() { readAll(b, 10_000) })
	step("FLUSHALL in a script", func() {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		fake.changes = nil
		for range z.calls {
			fake.changes = append(fake.changes, resp.Change{Kind: resp.ChangeAll})
		}
		fake.index++
		fake.publish(resp.Message{Kind: resp.MessageChanges, Index: fake.index, Changes: fake.changes})
	})
	step("a reconnect", func() {
		b.conn.Close()
		b = tracker()
		readAll(b, 10_000)
	})
	var many []*testClient
	for range 30 {
		c := tracker()
		go func() { _, _ = io.Copy(io.Discard, c.in) }()
		many = append(many, c)
	}
	step("many reading the same keys", func() {
		for i := 0; i < z.calls; i += 10_000 {
			words := []string{"MGET"}
			for j := i; j < min(i+10_000, z.calls); j++ {
				words = append(words, key(j))
			}
			for _, c := range many {
				_, _ = c.conn.Write(resp.AppendCommand(nil, words...))
			}
		}
		eventually(t, "they have read them", func() bool {
			srv.hub.broker.Lock()
			defer srv.hub.broker.Unlock()
			_, items, _ := srv.hub.tracking.Sizes()
			return items >= min(30*z.calls, 1_750_000)
		})
	})
	step("writes of what many have read", func() {
		var keys []string
		for i := range z.calls {
			keys = append(keys, key(i))
		}
		fake.mu.Lock()
		defer fake.mu.Unlock()
		fake.another(keys...)
	})
	step("all reading and going", func() {
		readAll(a, 10_000)
		for _, c := range append(many, a, b) {
			c.conn.Close()
		}
		eventually(t, "their keys are forgotten", func() bool { return tracked() < 3 })
	})
}

// With clients of BCAST that have as many prefixes of one key as there may be, and some of NOLOOP, others never wait
// long while all keys of an entry have these prefixes, also while clients wait for an answer.
func TestWorstBroadcast(t *testing.T) {
	prefixes, followers, calls := 16, 16, worstHubNow().calls
	if strict.Times() {
		prefixes, followers = 512, 64
	}
	follow := func(addr, options string) {
		c := dialTracker(t, addr, options)
		go func() { _, _ = io.Copy(io.Discard, c.conn) }()
	}
	write := func(t *testing.T, what, key string, before func(addr string)) {
		t.Run(what, func(t *testing.T) {
			srv, fake, addr := startServer(t, nil)
			before(addr)
			var keys []string
			for i := range calls {
				keys = append(keys, key+strconv.Itoa(i))
			}
			for _, options := range []string{"", "BCAST PREFIX other", "BCAST PREFIX " + key} {
				waits := dialTracker(t, addr, options)
				_ = waits.conn.SetDeadline(time.Now().Add(10 * time.Minute))
				others := standBy(t, srv, addr)
				fake.overtake(keys...)
				waits.send("GET k\r\nECHO done\r\n")
				waits.skipTo("done\r\n")
				others.end("a client of mode '" + options[:min(len(options), 20)] + "' waits for an answer")
			}
		})
	}
	long := strings.Repeat("z", prefixes)
	write(t, "prefixes", long, func(addr string) {
		for n := range prefixes {
			follow(addr, "BCAST PREFIX "+long[:n+1])
		}
	})
	write(t, "NOLOOP", "key:", func(addr string) {
		for range followers {
			follow(addr, "BCAST NOLOOP")
		}
	})
}
