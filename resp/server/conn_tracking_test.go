package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockd/resp"
)

// toldOf is the push that tells of keys; of none, that any may have changed.
func toldOf(keys ...string) string {
	what := resp.Nil()
	if len(keys) > 0 {
		what = resp.Bulks(keys...)
	}
	return string(resp.Push(resp.Bulk("invalidate"), what).AppendTo(nil, 3))
}

// dialTracker dials a client of RESP3 that tracks.
func dialTracker(t *testing.T, addr, options string) *testClient {
	c := dial(t, addr)
	c.send("HELLO 3\r\nCLIENT TRACKING ON " + options + "\r\nPING\r\n")
	for line := ""; line != "+PONG\r\n"; {
		var err error
		if line, err = c.in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// another changes keys as some other client does, in an entry of its own. The fake's
// lock is held.
func (f *fakeBackend) another(keys ...string) {
	var changes []resp.Change
	for _, key := range keys {
		changes = append(changes, resp.Change{Key: key})
	}
	f.index++
	f.publish(resp.Message{Kind: resp.MessageChanges, Index: f.index, Changes: changes})
}

// overtake has keys change after the next request has taken effect, and this node
// hear of that before the answer is here.
func (f *fakeBackend) overtake(keys ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = func() {
		f.held = nil
		f.another(keys...)
	}
}

const readsK = `EVAL "redis.call('get',KEYS[1])" 1 k`

// If a key changes after it was read, and the invalidation came before the answer, the client would cache the old
// value for ever. So the invalidation follows the answer; after that, further changes send none.
func TestChangeOvertakesTheAnswer(t *testing.T) {
	for _, c := range []struct{ options, command, want string }{
		{"", "GET k", "_\r\n" + toldOf("k")},
		{"NOLOOP", "GET k", "_\r\n" + toldOf("k")},
		{"", "GET k\r\nGET j", "_\r\n_\r\n" + toldOf("k")},
		{"", readsK, "_\r\n" + toldOf("k")},
		{"", "MULTI\r\nGET k\r\nPING\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n_\r\n+PONG\r\n" + toldOf("k")},
		{"", "MULTI\r\nGET k\r\nSUBSCRIBE a\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n_\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" + toldOf("k")},
		{"", "GET unchanged", "_\r\n"},
		{"OPTIN", "GET k", "_\r\n"},
		{"OPTIN", "CLIENT CACHING YES\r\nGET k", "+OK\r\n_\r\n" + toldOf("k")},
		{"BCAST", "GET k", "_\r\n" + toldOf("k", "other")},
		{"BCAST PREFIX k", "GET x", "_\r\n" + toldOf("k")},
		{"BCAST PREFIX nosuch", "GET k", "_\r\n"},
	} {
		t.Run(c.options+" "+c.command, func(t *testing.T) {
			_, fake, addr := startServer(t, nil)
			reader := dialTracker(t, addr, c.options)
			fake.overtake("other", "k", "k")
			reader.send(c.command + "\r\n")
			reader.want(c.want)
			if !strings.HasPrefix(c.options, "BCAST") {
				fake.mu.Lock()
				fake.another("k")
				fake.mu.Unlock()
				reader.send("PING\r\n")
				reader.want("+PONG\r\n")
			}
		})
	}
}

// A push never stands before the reply whose key it tells of, even while replies of
// one pipeline wait to be written together.
func TestPushBehindWaitingReply(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dialTracker(t, addr, "")
	fake.mu.Lock()
	fake.held = func() { // after GET
		fake.held = func() { // after CONFIG GET, which is on its way by itself
			fake.held = nil
			fake.another("k")
		}
	}
	fake.mu.Unlock()
	c.send("GET k\r\nCONFIG GET nosuch\r\n")
	c.want("_\r\n" + toldOf("k") + "%0\r\n")
}

// lag makes the node of the fake one that applies entries later than the leader. It
// returns a function that lets it apply the next one.
func (f *fakeBackend) lag() (apply func()) {
	late := make(chan resp.Message, 1000)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = func(m resp.Message) { late <- m }
	return func() { f.hub.Publish([]resp.Message{<-late}) }
}

// On a node that applies an entry later than the leader that answered, a change that the client has seen already
// sends no invalidation, and does not use up the remembered read.
func TestChangeComesAfterTheAnswer(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	apply := fake.lag()
	reader, writer := dialTracker(t, addr, ""), dial(t, addr)
	writer.send("SET k 1\r\n")
	writer.want("+OK\r\n")
	reader.send("GET k\r\n")
	reader.want("$1\r\n1\r\n")
	apply()
	writer.send("SET k 2\r\n")
	writer.want("+OK\r\n")
	reader.send("PING\r\n")
	reader.want("+PONG\r\n")
	apply()
	reader.want(toldOf("k"))
}

// A client that reads k twice, before and after a change, may have cached the first
// answer: it is told.
func TestChangeBetweenTwoReads(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	apply := fake.lag()
	reader, writer := dialTracker(t, addr, ""), dial(t, addr)
	reader.send("GET k\r\n")
	reader.want("_\r\n")
	writer.send("SET k 1\r\n")
	writer.want("+OK\r\n")
	reader.send(readsK + "\r\n")
	reader.want("$1\r\n1\r\n")
	apply()
	reader.want(toldOf("k"))
}

// NOLOOP holds also where a client's own changes reach this node after their answer,
// or while the next request is on its way; what others change at the same time is told.
func TestNoLoopOnAFollower(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	apply := fake.lag()
	c, other := dialTracker(t, addr, "NOLOOP"), dial(t, addr)
	c.send("GET k\r\nGET j\r\nGET l\r\nSET k 1\r\n")
	c.want("_\r\n_\r\n_\r\n+OK\r\n")
	other.send("SET j 1\r\n")
	other.want("+OK\r\n")
	c.send("SET k 2\r\n")
	c.want("+OK\r\n")
	apply()
	apply()
	c.want(toldOf("j"))
	fake.mu.Lock()
	fake.held = func() { // the node applies k = 2 while a request is on its way
		fake.held = nil
		apply()
	}
	fake.mu.Unlock()
	c.send("PUBLISH a b\r\nPING\r\n")
	c.want(":0\r\n+PONG\r\n")
	// Unlike in Redis, k is still remembered after the client's own changes of it.
	other.send("SET k 3\r\n")
	other.want("+OK\r\n")
	apply()
	c.want(toldOf("k"))
}

// An entry may tell in parts what it has changed; what is a client's own is known all
// the same.
func TestNoLoopInParts(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dialTracker(t, addr, "NOLOOP")
	var entry resp.Message
	fake.mu.Lock()
	fake.late = func(m resp.Message) { entry = m }
	fake.mu.Unlock()
	c.send("MGET j k l\r\nMSET j 1 k 1\r\n")
	c.want("*3\r\n_\r\n_\r\n_\r\n+OK\r\n")
	for i, key := range []string{"j", "k", "l"} { // the last one is another client's
		fake.hub.Publish([]resp.Message{{Kind: resp.MessageChanges, Index: entry.Index, From: i, Changes: []resp.Change{{Key: key}}}})
		c.send("PUBLISH a b\r\n")
		if key == "l" {
			c.want(toldOf("l"))
		}
		c.want(":0\r\n")
	}
}

// A tracking client publishes like any other: receivers are counted before the hub is locked, otherwise the lock
// would wait for itself for ever, and with it every client of the node.
func TestTrackerPublishes(t *testing.T) {
	const message = ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n"
	for _, c := range []struct{ command, want string }{
		{"PUBLISH a b", ":1\r\n"},
		{"GET k\r\nPUBLISH a b\r\nGET k", "_\r\n:1\r\n_\r\n"},
		{"MULTI\r\nPUBLISH a b\r\nEXEC", "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n"},
	} {
		_, _, addr := startServer(t, nil)
		sub, own, other := dialTracker(t, addr, ""), dialTracker(t, addr, ""), dial(t, addr)
		sub.send("SUBSCRIBE a\r\n")
		sub.want(">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
		own.send(c.command + "\r\nPING\r\n")
		own.want(c.want + "+PONG\r\n")
		sub.want(message)
		other.send("SET k 1\r\n")
		other.want("+OK\r\n")
		sub.send("PUBLISH a b\r\n") // to itself
		sub.want(message + ":1\r\n")
	}
}

// NOLOOP does not suppress expiry: it is not a change of the client.
func TestNoLoopHearsOfExpiry(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dialTracker(t, addr, "NOLOOP")
	c.send("GET k\r\n")
	c.want("_\r\n")
	fake.mu.Lock()
	fake.changes = []resp.Change{{Kind: resp.ChangeExpired, Key: "k"}}
	expired := fake.changes
	fake.held = func() {
		fake.held = nil
		fake.publish(resp.Message{Kind: resp.MessageChanges, Index: fake.index, Changes: append(fake.changes, expired...)})
	}
	fake.mu.Unlock()
	c.send("SET k 1\r\n")
	c.want("+OK\r\n" + toldOf("k"))
}

// If the leader does not report the reads, or the request was not done, the client is told that any key may have
// changed: it may rely on invalidations of the keys that it asked to read.
func TestLeaderThatDoesNotKnowTracked(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	fake.untraced = true
	c := dialTracker(t, addr, "")
	c.send("GET k\r\n" + readsK + "\r\n")
	c.want("_\r\n_\r\n" + toldOf())
	fake.mu.Lock()
	fake.failing = resp.ErrNotDone
	fake.mu.Unlock()
	c.send("GET k\r\nPING\r\n")
	c.want("-" + resp.ErrNotDone + "\r\n" + toldOf() + "+PONG\r\n")
	b := dialTracker(t, addr, "BCAST")
	b.send("GET k\r\nPING\r\n")
	b.want("-" + resp.ErrNotDone + "\r\n+PONG\r\n")
	fake.mu.Lock()
	fake.failing, fake.untraced = "", false
	fake.mu.Unlock()
	c.send("WATCH k\r\nSET k 1\r\nMULTI\r\nGET k\r\nEXEC\r\nPING\r\n")
	c.want("+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n_\r\n+PONG\r\n")
}

// A node that may have missed changes tells all who track to forget everything, also
// behind an answer that is on its way, and keeps their connections.
func TestMissedChanges(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	c, b := dialTracker(t, addr, ""), dialTracker(t, addr, "BCAST PREFIX x")
	c.send("GET k\r\n")
	c.want("_\r\n")
	srv.Hub().DropSubscribers("test")
	c.want(toldOf())
	b.want(toldOf())
	fake.mu.Lock()
	fake.held = func() {
		fake.held = nil
		fake.hub.DropSubscribers("test")
	}
	fake.mu.Unlock()
	c.send("GET k\r\n")
	c.want("_\r\n" + toldOf())
	b.want(toldOf())
	fake.mu.Lock()
	fake.another("k")
	fake.mu.Unlock()
	c.send("PING\r\n")
	c.want("+PONG\r\n")
}

// More changes than are kept come while a request is on its way.
func TestTooManyChangesOnTheWay(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dialTracker(t, addr, "")
	c.send("GET early\r\n")
	c.want("_\r\n")
	many := make([]string, 1<<16+1)
	many[0] = "early"
	fake.overtake(many...)
	c.send("GET k\r\n")
	c.want("_\r\n" + toldOf())
}

// A client that waits long for an answer hears of the changes meanwhile.
func TestLongWait(t *testing.T) {
	for options, want := range map[string]string{
		"":               toldOf("early") + "_\r\n" + toldOf("k"),
		"BCAST PREFIX e": toldOf("early") + "_\r\n" + toldOf("early"),
	} {
		_, fake, addr := startServer(t, nil)
		c := dialTracker(t, addr, options)
		c.send("GET early\r\n")
		c.want("_\r\n")
		answer := make(chan struct{})
		fake.mu.Lock()
		fake.held = func() {
			fake.held = nil
			fake.another("early", "k")
			<-answer
		}
		fake.mu.Unlock()
		c.send("GET k\r\n")
		first := toldOf("early")
		c.want(first)
		close(answer)
		c.want(strings.TrimPrefix(want, first))
	}
}

// The table keeps its limit: a key that has to go is told as changed.
func TestTrackingTableLimit(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "tracking-table-max-keys", Payload: "2"}})
	c := dialTracker(t, addr, "")
	c.send("GET a\r\nGET b\r\nGET a\r\nPING\r\n")
	c.want("_\r\n_\r\n_\r\n+PONG\r\n")
	c.send("GET c\r\n")
	c.want("_\r\n")
	gone := c.line() + c.line() + c.line() + c.line() + c.line() + c.line()
	if gone != toldOf("a") && gone != toldOf("b") {
		t.Fatalf("%q", gone)
	}
	fake.mu.Lock()
	fake.another("a", "b", "c")
	fake.mu.Unlock()
	for _, key := range []string{"a", "b", "c"} {
		if gone != toldOf(key) {
			c.want(toldOf(key))
		}
	}
}

// A leader may answer before a follower has applied the entry: CONFIG SET waits until the setting applies here, and
// CLIENT TRACKING until this node has applied all that the client has seen, so that the new mode does not repeat it.
func TestWaitForThisNode(t *testing.T) {
	_, fake, addr := startServer(t, nil)
	c := dialTracker(t, addr, "")
	awaited := func(want ...uint64) {
		t.Helper()
		fake.mu.Lock()
		defer fake.mu.Unlock()
		if !slices.Equal(fake.awaited, want) {
			t.Errorf("waited for %v, want %v", fake.awaited, want)
		}
		fake.awaited = nil
	}
	awaited(0)
	c.send("CONFIG SET timeout 0\r\n")
	c.want("+OK\r\n")
	awaited(1)
	c.send("GET k\r\nCLIENT TRACKING OFF\r\nCLIENT TRACKING ON BCAST\r\n")
	c.want("_\r\n+OK\r\n+OK\r\n")
	awaited(2, 2)
}

// A table that is larger than a new limit shrinks by itself, however much it is too large;
// without a limit it keeps what it has.
func TestTrackingTableShrinks(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	c := dialTracker(t, addr, "")
	const keys = 3 * 128 // more than go in one step
	for i := range keys {
		c.send("GET " + strconv.Itoa(i) + "\r\n")
		c.want("_\r\n")
	}
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "tracking-table-max-keys", Payload: "0"}})
	srv.Hub().shrinkTracking()
	srv.Hub().broker.Lock()
	kept, _, _ := srv.Hub().tracking.Sizes()
	srv.Hub().broker.Unlock()
	if kept != keys {
		t.Errorf("%d keys without a limit", kept)
	}
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "tracking-table-max-keys", Payload: "1"}})
	told := map[string]bool{}
	for range keys - 1 {
		told[c.line()+c.line()+c.line()+c.line()+c.line()+c.line()] = true
	}
	if len(told) != keys-1 {
		t.Errorf("%d different keys were told", len(told))
	}
	c.send("PING\r\n")
	c.want("+PONG\r\n")
}

// After the answer to QUIT a client neither tracks nor subscribes, though its connection lingers.
func TestQuitEndsTrackingAtOnce(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	for range 20 {
		c := dialTracker(t, addr, "BCAST PREFIX a")
		c.send("SUBSCRIBE ch\r\n")
		c.want(">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
		c.send("QUIT\r\n")
		c.want("+OK\r\n")
		for _, f := range append(srv.figures.clientsSection(srv.clients.census()).Fields, srv.figures.statsSection().Fields...) {
			switch f.Name {
			case "tracking_clients", "pubsub_clients", "tracking_total_prefixes", "pubsub_channels":
				if f.Value != "0" {
					t.Fatalf("%s: %s", f.Name, f.Value)
				}
			}
		}
	}
}

func (c *testClient) line() string {
	c.t.Helper()
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return line
}

// What sessions leave behind is nothing; INFO and CLIENT LIST count and mark them.
func TestTrackingFigures(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	c, d, b := dialTracker(t, addr, ""), dialTracker(t, addr, "OPTOUT"), dialTracker(t, addr, "BCAST PREFIX ab PREFIX x")
	e := dial(t, addr)
	c.send("GET k\r\nGET j\r\n")
	c.want("_\r\n_\r\n")
	d.send("GET k\r\n")
	d.want("_\r\n")
	e.send("MULTI\r\nGET k\r\nCLIENT TRACKING OFF\r\nEXEC\r\n")
	e.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$-1\r\n+OK\r\n")
	figures := func() map[string]string {
		m := map[string]string{}
		for _, s := range srv.Info() {
			for _, f := range s.Fields {
				m[f.Name] = f.Value
			}
		}
		return m
	}
	f := figures()
	if f["tracking_clients"] != "3" || f["tracking_total_keys"] != "2" || f["tracking_total_items"] != "3" || f["tracking_total_prefixes"] != "2" {
		t.Errorf("%v", f)
	}
	list := ""
	for _, s := range srv.clients.list() {
		list += string(s.describe(nil, srv.clock()))
	}
	if strings.Count(list, " flags=t ") != 2 || strings.Count(list, " flags=tB ") != 1 || strings.Count(list, " redir=0 ") != 3 || strings.Count(list, " redir=-1 ") != 1 {
		t.Error(list)
	}
	e.send("SET x 1\r\n")
	e.want("+OK\r\n")
	b.want(toldOf("x"))
	for _, x := range []*testClient{c, d, b, e} {
		x.conn.Close()
	}
	eventually(t, "all are gone", func() bool { return srv.count() == 0 })
	h := srv.Hub()
	eventually(t, "their keys are forgotten", func() bool { return !h.tracking.InUse() })
	h.broker.Lock()
	defer h.broker.Unlock()
	if keys, items, prefixes := h.tracking.Sizes(); h.tracking.InUse() || keys+items+prefixes != 0 {
		t.Errorf("left: %d keys of %d clients, %d prefixes", keys, items, prefixes)
	}
}

// Prefixes have limits.
func TestPrefixLimits(t *testing.T) {
	_, _, addr := startServer(t, nil)
	c := dial(t, addr)
	c.send("CLIENT TRACKING ON BCAST PREFIX " + strings.Repeat("x", 513) + "\r\n")
	c.want("-ERR prefix is too long\r\n")
	words := []string{"CLIENT", "TRACKING", "ON", "BCAST"}
	for i := range 1<<10 + 1 {
		words = append(words, "PREFIX", fmt.Sprintf("%05d", i))
	}
	c.send(string(resp.AppendCommand(nil, words...)))
	c.want("-ERR too many prefixes\r\n")
	c.send(string(resp.AppendCommand(nil, words[:len(words)-2]...)))
	c.want("+OK\r\n")
}

// slowBackend answers late, as a leader far away does.
type slowBackend struct {
	*fakeBackend
	rand func(n int64) time.Duration
}

func (b *slowBackend) Do(ctx context.Context, req resp.Request) resp.Result {
	res := b.fakeBackend.Do(ctx, req)
	time.Sleep(b.rand(int64(500 * time.Microsecond)))
	return res
}

// cachingClient keeps what it reads until it is told otherwise, as its library would.
type cachingClient struct {
	*testClient
	rnd    *rand.Rand
	noloop bool
	cache  map[string]string
	expect []func(reply string) // what the next replies are
}

// In whatever order answers and changes reach a node, near the leader or far from it: in the end the caches of
// clients equal the data.
func TestCachesBecomeTrue(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for seed := range uint64(6) {
		testCachesBecomeTrue(t, seed, rounds)
	}
}

func testCachesBecomeTrue(t *testing.T, seed uint64, rounds int) {
	source := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	random := func(n int64) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(source.Int64N(n))
	}
	near, fake, nearAddr := startServer(t, nil)
	far, _, farAddr := startServer(t, func(c *Config) { c.Backend = &slowBackend{fake, random} })
	late := make(chan resp.Message, 100000)
	applied := make(chan struct{})
	fake.late = func(m resp.Message) {
		near.Hub().Publish([]resp.Message{m})
		late <- m
	}
	go func() {
		defer close(applied)
		for m := range late {
			time.Sleep(random(int64(300 * time.Microsecond)))
			far.Hub().Publish([]resp.Message{m})
		}
	}()
	var clients []*cachingClient
	for i, options := range []string{"", "NOLOOP", "OPTOUT", "BCAST", "BCAST PREFIX k NOLOOP"} {
		for j, addr := range []string{nearAddr, farAddr} {
			clients = append(clients, &cachingClient{testClient: dialTracker(t, addr, options), noloop: strings.Contains(options, "NOLOOP"),
				rnd: rand.New(rand.NewPCG(seed, uint64(10*i+j))), cache: map[string]string{}})
		}
	}
	var done sync.WaitGroup
	for _, c := range clients {
		done.Go(func() {
			for range rounds {
				c.round()
			}
		})
	}
	done.Wait()
	close(late)
	<-applied
	for i, c := range clients {
		c.ask("PING\r\n", func(string) {})
		c.listen()
		for key, cached := range c.cache {
			if now := fake.values[0][key]; now != cached {
				t.Errorf("seed %d: client %d has cached %s = %q, it is %q", seed, i, key, cached, now)
			}
		}
	}
}

func (c *cachingClient) ask(command string, then ...func(string)) {
	c.send(command)
	c.expect = append(c.expect, then...)
}

// round sends a few commands and reads until all are answered.
func (c *cachingClient) round() {
	key := func() string { return "k" + strconv.Itoa(c.rnd.IntN(4)) }
	skip := func(string) {}
	read := func(k string) func(string) { return func(v string) { c.cache[k] = v } }
	wrote := func(k string) func(string) {
		return func(string) {
			if c.noloop {
				delete(c.cache, k)
			}
		}
	}
	var text string
	var then []func(string)
	add := func(command string, f ...func(string)) {
		text += command + "\r\n"
		then = append(then, f...)
	}
	for range 1 + c.rnd.IntN(4) {
		k, v := key(), strconv.Itoa(c.rnd.IntN(1000))
		switch c.rnd.IntN(6) {
		case 0, 1:
			add("GET "+k, read(k))
		case 2:
			add("SET "+k+" "+v, wrote(k))
		case 3:
			add("DEL "+k, wrote(k))
		case 4:
			add(`EVAL "redis.call('set',KEYS[1],'`+v+`') redis.call('get',KEYS[2])" 2 `+k+" "+k, read(k))
		case 5:
			j := key()
			add("MULTI", skip)
			add("GET "+k, skip)
			add("SET "+j+" "+v, skip)
			add("GET "+j, skip)
			add("EXEC", skip, read(k), wrote(j), read(j))
		}
	}
	c.ask(text, then...)
	c.listen()
}

// listen reads replies, and what comes between them, until every command is answered.
func (c *cachingClient) listen() {
	for len(c.expect) > 0 {
		line := strings.TrimSuffix(c.line(), "\r\n")
		switch line[0] {
		case '>':
			c.told()
			continue
		case '$':
			line = strings.TrimSuffix(c.line(), "\r\n")
		case '_':
			line = ""
		}
		c.expect[0](line)
		c.expect = c.expect[1:]
	}
}

func (c *cachingClient) told() {
	c.line()
	c.line()
	what := c.line()
	if what == "_\r\n" {
		clear(c.cache)
		return
	}
	n, _ := strconv.Atoi(strings.TrimSpace(what[1:]))
	for range n {
		c.line()
		delete(c.cache, strings.TrimSuffix(c.line(), "\r\n"))
	}
}

// Prefixes count among what a client makes the node keep, as long as it has them.
func TestPrefixesAreCounted(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	const on = "CLIENT TRACKING ON BCAST PREFIX abc PREFIX d\r\n"
	c := dialTracker(t, addr, "BCAST PREFIX abc PREFIX d")
	counted := func(want int64) {
		t.Helper()
		eventually(t, fmt.Sprint(want, " bytes"), func() bool { return srv.clients.memoryBytes.Load() == want })
	}
	const both = 4 + 2*memoryPerPrefix
	counted(both)
	c.send("CLIENT TRACKING ON BCAST PREFIX abcd\r\nCLIENT TRACKING ON BCAST PREFIX x\r\n")
	c.skipTo("+OK\r\n")
	counted(both + 1 + memoryPerPrefix)
	c.send("CLIENT TRACKING OFF\r\n")
	c.want("+OK\r\n")
	counted(0)
	srv.clients.memoryBytes.Store(memoryBytesOfAllMax - both + 1)
	c.send(on)
	c.want("-" + errMemory + "\r\n")
	srv.clients.memoryBytes.Store(0)
	c.send(on + "RESET\r\n")
	c.want("+OK\r\n+RESET\r\n")
	counted(0)
	c.send(on)
	c.want("+OK\r\n")
	c.conn.Close()
	counted(0)
}

// A request that reads more keys than can be remembered is followed by a flush: its client may have cached keys
// without later invalidations. A request that reads as many as the limit is remembered, and so is one whose reads
// need not be.
func TestRequestThatReadsTooMuch(t *testing.T) {
	mget := func(from, n int) string {
		var text strings.Builder
		fmt.Fprintf(&text, "*%d\r\n$4\r\nMGET\r\n", n+1)
		for i := range n {
			fmt.Fprintf(&text, "$7\r\nk%06d\r\n", from+i)
		}
		return text.String()
	}
	const followedReadsMax = 1 << 16 // keys that one request reads and that are remembered
	const half = followedReadsMax / 2
	for name, tt := range map[string]struct {
		options, send string
		told, keys    int
	}{
		"as many as may be":      {"", mget(0, followedReadsMax), 0, followedReadsMax},
		"one more":               {"", mget(0, followedReadsMax+1), 1, 0},
		"a transaction":          {"", "MULTI\r\n" + mget(0, half) + mget(half, half+1) + "EXEC\r\n", 1, 0},
		"nothing to be told of":  {"OPTIN", mget(0, followedReadsMax+1), 0, 0},
		"prefixes are told of":   {"BCAST", mget(0, followedReadsMax+1), 0, 0},
		"what is forgotten anew": {"", mget(0, 5) + "PING\r\n" + mget(5, followedReadsMax+1), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			srv, _, addr := startServer(t, nil)
			c := dialTracker(t, addr, tt.options)
			go func() { _, _ = c.conn.Write([]byte(tt.send + "ECHO end\r\n")) }()
			told := 0
			for line := ""; line != "end\r\n"; {
				var err error
				if line, err = c.in.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				if line == "$10\r\n" {
					if line, _ = c.in.ReadString('\n'); line == "invalidate\r\n" {
						c.want("_\r\n")
						told++
					}
				}
			}
			if told != tt.told {
				t.Errorf("it was told %d times that any key may have changed", told)
			}
			eventually(t, "its keys are remembered, or forgotten", func() bool {
				srv.hub.broker.Lock()
				defer srv.hub.broker.Unlock()
				keys, _, _ := srv.hub.tracking.Sizes()
				return keys == tt.keys
			})
		})
	}
}
