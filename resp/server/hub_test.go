package server

import (
	"fmt"
	"strings"
	"testing"

	"lockd/resp"
)

// A subscriber that does not read is dropped; publishing goes on without waiting.
func TestSlowSubscriberIsDropped(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "client-output-buffer-limit", Payload: "normal 0 0 0 pubsub 1mb 0 0"}})
	slow, quick := dial(t, addr), dial(t, addr)
	slow.send("SUBSCRIBE n\r\n")
	slow.want("*3\r\n$9\r\nsubscribe\r\n$1\r\nn\r\n:1\r\n")
	quick.send("PSUBSCRIBE quick\r\n")
	quick.want("*3\r\n$10\r\npsubscribe\r\n$5\r\nquick\r\n:1\r\n")
	payload := strings.Repeat("x", 100000)
	for i := 0; srv.stats.SubscribersDropped.Load() == 0; i++ {
		if i > 10000 {
			t.Fatal("never dropped")
		}
		srv.Hub().Publish([]resp.Message{{Channel: "n", Payload: payload}})
		srv.Hub().queue.wait()
	}
	eventually(t, "its session ends", func() bool { return srv.count() == 1 })
	wantDropped(t, srv, "1 0 0 0")
	srv.Hub().Publish([]resp.Message{{Channel: "quick", Payload: "x"}})
	quick.want("*4\r\n$8\r\npmessage\r\n$5\r\nquick\r\n$5\r\nquick\r\n$1\r\nx\r\n")
}

// wantDropped asserts what INFO says of clients that were disconnected because they missed something, by reason: slow,
// missed, pattern, unsure.
func wantDropped(t *testing.T, srv *Server, counts string) {
	t.Helper()
	var got []string
	for _, f := range srv.infoStats().Fields {
		if strings.HasPrefix(f.Name, "subscribers_dropped_") || f.Name == "client_output_buffer_limit_disconnections" {
			got = append(got, f.Value)
		}
	}
	if text := strings.Join(got, " "); text != counts {
		t.Errorf("dropped: %s, want %s", text, counts)
	}
}

// DropSubscribers closes subscribed connections and no others.
func TestDropSubscribers(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	sub, plain := dial(t, addr), dial(t, addr)
	sub.send("SSUBSCRIBE a\r\n")
	sub.want("*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n")
	plain.send("PING\r\n")
	plain.want("+PONG\r\n")
	srv.Hub().DropSubscribers("a test")
	sub.wantClosed()
	wantDropped(t, srv, "0 0 0 1")
	srv.stats.Reset()
	wantDropped(t, srv, "0 0 0 0")
	plain.send("PING\r\n")
	plain.want("+PONG\r\n")
	eventually(t, "nobody is subscribed", func() bool { return srv.Hub().subscribers.Load() == 0 })
}

// A node listens while one of its clients subscribes or tracks keys.
func TestListening(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	c := dial(t, addr)
	for _, step := range []struct {
		send, want string
		listens    bool
	}{
		{"PING\r\n", "+PONG\r\n", false},
		{"SSUBSCRIBE a\r\n", "*3\r\n$10\r\nssubscribe\r\n$1\r\na\r\n:1\r\n", true},
		{"SUNSUBSCRIBE a\r\n", "*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n", false},
		{"HELLO 3\r\nCLIENT TRACKING ON\r\nPING\r\n", "", true},
	} {
		c.send(step.send)
		if step.want != "" {
			c.want(step.want)
		}
		eventually(t, step.send, func() bool { return srv.Hub().Listening() == step.listens })
	}
}

// countedNews counts the messages that are made of events.
type countedNews struct{ channels, payloads int }

func (n *countedNews) Channel(event []byte) string {
	n.channels++
	return "__lock@0__:" + string(event)
}

func (n *countedNews) Payload(event []byte) string {
	n.payloads++
	return "news of " + string(event)
}

func (n *countedNews) News([]byte) resp.LockNews { return resp.LockNews{} }

// What becomes of a lock is put into words only where somebody hears it, and then once: for subscribers of
// its channel and of patterns, in both protocols.
func TestNewsOfLocks(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	news := &countedNews{}
	tell := func(keys ...string) {
		for _, key := range keys {
			srv.Hub().Publish([]resp.Message{{Kind: resp.MessageLock, Event: []byte(key), Form: news}})
		}
		srv.Hub().queue.wait()
	}
	tell("a", "b")
	if *news != (countedNews{}) {
		t.Errorf("nobody listens: %+v", news)
	}
	channel, pattern, other := dial(t, addr), dialTracker(t, addr, ""), dial(t, addr)
	other.send("SUBSCRIBE other\r\n")
	other.want("*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n")
	tell("a", "b")
	if *news != (countedNews{2, 0}) {
		t.Errorf("others listen: %+v", news)
	}
	channel.send("SUBSCRIBE __lock@0__:a\r\n")
	channel.want("*3\r\n$9\r\nsubscribe\r\n$12\r\n__lock@0__:a\r\n:1\r\n")
	pattern.send("PSUBSCRIBE __lock@*:a*\r\n")
	pattern.want(">3\r\n$10\r\npsubscribe\r\n$11\r\n__lock@*:a*\r\n:1\r\n")
	tell("a", "b", "ab")
	channel.want("*3\r\n$7\r\nmessage\r\n$12\r\n__lock@0__:a\r\n$9\r\nnews of a\r\n")
	pattern.want(">4\r\n$8\r\npmessage\r\n$11\r\n__lock@*:a*\r\n$12\r\n__lock@0__:a\r\n$9\r\nnews of a\r\n" +
		">4\r\n$8\r\npmessage\r\n$11\r\n__lock@*:a*\r\n$13\r\n__lock@0__:ab\r\n$10\r\nnews of ab\r\n")
	if *news != (countedNews{5, 2}) {
		t.Errorf("%+v", news)
	}
	other.send("UNSUBSCRIBE other\r\nPUBSUB NUMSUB __lock@0__:a\r\n")
	other.want("*3\r\n$11\r\nunsubscribe\r\n$5\r\nother\r\n:0\r\n*2\r\n$12\r\n__lock@0__:a\r\n:1\r\n")
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
			srv, _, addr := startServer(t, nil)
			c := dial(t, addr)
			c.send("PSUBSCRIBE a*" + "\r\n")
			c.want("*3\r\n$10\r\npsubscribe\r\n$2\r\na*\r\n:1\r\n")
			d := dial(t, addr)
			go d.conn.Write(resp.AppendCommand(nil, append([]string{"PSUBSCRIBE"}, tt.patterns...)...))
			eventually(t, "the patterns are there", func() bool {
				srv.hub.mu.Lock()
				defer srv.hub.mu.Unlock()
				return len(srv.hub.byGlob) == len(tt.patterns)+1
			})
			if n := srv.hub.receivers(channel, false); n != 1 {
				t.Errorf("%d receivers", n)
			}
			srv.hub.Publish([]resp.Message{{Channel: channel, Payload: "x"}})
			srv.hub.queue.wait()
			wantDropped(t, srv, fmt.Sprintf("0 0 %d 0", tt.dropped))
			c.want("*4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$4096\r\n")
		})
	}
}

// What does not fit the time for a list of channels is an error, not left out.
func TestListingChannelsIsBounded(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	name := strings.Repeat("a", 60000)
	for i := range 8 {
		c.send(fmt.Sprintf("SUBSCRIBE %s%d\r\n", name, i))
		c.want(fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$60001\r\n%s%d\r\n:%d\r\n", name, i, i+1))
	}
	c.send("UNSUBSCRIBE nosuch\r\nHELLO 3\r\n")
	b := dial(t, addr)
	b.send("PUBSUB CHANNELS " + strings.Repeat("*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 100) + "\r\n")
	b.want("-" + errPatternWork + "\r\n")
	b.send("PUBSUB CHANNELS b*\r\n")
	b.want("*0\r\n")
}

// Others use the hub while the channels are listed: they subscribe and leave, and the list has all channels that had
// subscribers all the time.
func TestListingChannelsLetsOthersUseTheHub(t *testing.T) {
	h, s := NewHub(), &session{}
	const n = 4 * listedAtOnce
	for i := range n {
		h.channels.add(fmt.Sprintf("c%d", i), s, 0)
	}
	pauses := 0
	left := globStepsPerListMax
	h.mu.Lock()
	reply := h.about(resp.Args{askChannels, "c*"}, &left, func() {
		pauses++
		h.mu.Unlock()
		h.receivers("c", false)
		h.mu.Lock()
		for i := range 100 {
			h.channels.remove(fmt.Sprintf("c%d", pauses*100+i), s)
			h.channels.add(fmt.Sprintf("d%d", pauses*100+i), s, 0)
			h.channels.add(fmt.Sprintf("c-%d", pauses*100+i), s, 0)
		}
	})
	h.mu.Unlock()
	if pauses < 4 {
		t.Errorf("others could use the hub %d times", pauses)
	}
	listed := map[string]int{}
	for _, name := range reply.Elems {
		listed[name.Str]++
	}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		if _, stays := h.channels[name]; listed[name] > 1 || stays && listed[name] == 0 {
			t.Fatalf("%s is listed %d times", name, listed[name])
		}
	}
	if listed["d150"] > 0 {
		t.Error("d150 does not match")
	}
}

// BenchmarkWorstPatterns publishes to the most expensive patterns whose owners are not dropped.
func BenchmarkWorstPatterns(b *testing.B) {
	channel := strings.Repeat("a", 4096)
	class := "[" + strings.Repeat("b", 900) + "]"
	for name, pattern := range map[string]func(int) string{
		"letters": func(i int) string { return costly(i, globStepsMax*9/10, len(channel)) },
		"classes": func(i int) string { return "*" + strings.Repeat("?", i) + class + "b" },
		"cheap":   func(i int) string { return fmt.Sprint("b", i) },
	} {
		b.Run(name, func(b *testing.B) {
			h := NewHub()
			n := map[string]int{"letters": 8, "classes": 8, "cheap": patternsMax}[name]
			for i := range n {
				h.addPattern(pattern(i), &session{})
			}
			h.subscribers.Store(1)
			for b.Loop() {
				h.receivers(channel, false)
			}
		})
	}
}
