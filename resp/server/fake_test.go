package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"lockd/resp"
	"lockd/resp/acl"
)

// fakeBackend is a map with the few commands that session tests need. Its rows
// are Redis's, so that transcripts can be replayed against a real Redis.
type fakeBackend struct {
	table *resp.Table[fakeRun]
	hub   *Hub

	mu       sync.Mutex
	values   [databases]map[string]string
	versions map[string]uint64
	version  uint64
	failing  string   // error of requests that fail as a whole
	refusing string   // error that every command gets by itself
	requests []int    // number of commands of each request
	observed []string // the observations of each request
	waiting  chan struct{}

	index    uint64                     // of the last entry
	changes  []resp.Change              // of the entry that is being applied
	reads    []resp.KeyRead             // of scripts of the request
	command  int                        // number of the command in the request
	late     func(resp.Message)         // takes what an entry changed, for a node that applies it later
	untraced bool                       // it gives no traces
	took     time.Duration              // a request is executed for so long
	denied   []resp.Denial              // what its scripts were denied
	held     func()                     // is called when a request has taken effect and before it is answered
	served   chan resp.Reply            // what a blocking command is answered
	awaited  []uint64                   // entries that a session has waited for
	answer   chan func(resp.Reply) bool // hears it before that, where the test asks

	known *acl.Commands // the server's
	users *acl.Users

	loaded []string // by ACL LOAD
	rev    uint64
	user   string // of the last request

	lastArgs resp.Args // of the last command

	others  sync.Mutex
	members int                                      // other nodes
	ask     func(resp.Inquiry) ([]resp.Reply, error) // what they answer

	client resp.Sender                      // of the request
	news   []resp.LockNews                  // of the entry that is being applied
	lease  func(l resp.HeldLock) resp.Lease // nil: every lock has a long lease
}

type fakeRun func(*fakeBackend, resp.Cmd) resp.Reply

func newFake() *fakeBackend {
	f := &fakeBackend{versions: map[string]uint64{}, waiting: make(chan struct{}, 1000), served: make(chan resp.Reply), answer: make(chan func(resp.Reply) bool)}
	for i := range f.values {
		f.values[i] = map[string]string{}
	}
	f.table = resp.NewTable([]resp.Row[fakeRun]{
		fakeRow("get", 2, resp.ReadOnly|resp.Fast, resp.FirstKey, "string", "1.0.0", "Get the value of a key", "key", fakeGet),
		fakeRow("set", -3, resp.Write|resp.DenyOOM, resp.FirstKey, "string", "1.0.0", "Set the string value of a key",
			"key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]", fakeSet),
		fakeRow("mset", -3, resp.Write|resp.DenyOOM, resp.PairKeys, "string", "1.0.1", "Set multiple keys to multiple values", "key value [key value ...]", fakeMset),
		fakeRow("del", -2, resp.Write, resp.AllKeys, "generic", "1.0.0", "Delete a key", "key [key ...]", fakeDel),
		fakeRow("incr", 2, resp.Write|resp.DenyOOM|resp.Fast, resp.FirstKey, "string", "1.0.0", "Increment the integer value of a key by one", "key", fakeIncr),
		fakeRow("eval", -3, resp.NoScript|resp.Stale|resp.SkipMonitor|resp.MayReplicate|resp.NoMandatoryKeys|resp.MovableKeys, resp.EvalKeys, "scripting", "2.6.0",
			"Execute a Lua script server side", "script numkeys [key [key ...]] [arg [arg ...]]", fakeEval),
		fakeRow("blpop", -3, resp.Write|resp.NoScript|resp.Blocking, resp.Keys{First: 1, Last: -2, Step: 1}, "list", "2.0.0",
			"Remove and get the first element in a list, or block until one is available", "key [key ...] timeout",
			func(*fakeBackend, resp.Cmd) resp.Reply { return resp.NilArray() }),
		{Spec: resp.Spec{Name: "xread", Arity: -4, Flags: resp.ReadOnly | resp.Blocking | resp.MovableKeys, Keys: resp.Keys{Half: "STREAMS"}, Waits: "BLOCK", Group: "stream"},
			Run: func(*fakeBackend, resp.Cmd) resp.Reply { return resp.NilArray() }},
		fakeRow("rpush", -3, resp.Write|resp.DenyOOM|resp.Fast, resp.FirstKey, "list", "1.0.0", "Append one or multiple elements to a list", "key element [element ...]",
			func(f *fakeBackend, c resp.Cmd) resp.Reply { return f.serve(resp.Bulks(c.Args[1:]...), resp.Int(1)) }),
		fakeRow("xadd", -5, resp.Write|resp.DenyOOM|resp.Fast, resp.FirstKey, "stream", "5.0.0", "", "", func(f *fakeBackend, c resp.Cmd) resp.Reply {
			entry := resp.Array(resp.Bulk(c.Args[2]), resp.Bulks(c.Args[3:]...))
			return f.serve(resp.PairMap(resp.Bulk(c.Args[1]), resp.Array(entry)), resp.Bulk(c.Args[2]))
		}),
		fakeRow("publish", 3, resp.PubSub|resp.Loading|resp.Stale|resp.Fast|resp.MayReplicate|resp.CountsReceivers, resp.NoKeys, "pubsub", "2.0.0",
			"Post a message to a channel", "channel message", fakePublish),
		fakeRow("spublish", 3, resp.PubSub|resp.Loading|resp.Stale|resp.Fast|resp.MayReplicate|resp.CountsReceivers, resp.FirstKey, "pubsub", "7.0.0",
			"Post a message to a shard channel", "shardchannel message", fakePublish),
		fakeRow("flushall", -1, resp.Write, resp.NoKeys, "server", "1.0.0", "Remove all keys", "", fakeFlush),
		fakeRow("mget", -2, resp.ReadOnly|resp.Fast, resp.AllKeys, "string", "1.0.0", "Get the values of all the given keys", "key [key ...]", fakeMget),
		fakeRow("zunionstore", -4, resp.Write|resp.DenyOOM|resp.MovableKeys, resp.Keys{First: 1, Last: 1, Step: 1, NumAt: 2}, "sorted-set", "2.0.0",
			"Add multiple sorted sets and store the resulting sorted set in a new key",
			"destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>]", nil),
		fakeRow("zintercard", -3, resp.ReadOnly|resp.MovableKeys, resp.Keys{NumAt: 1}, "sorted-set", "7.0.0",
			"Intersect multiple sorted sets and return the cardinality of the result", "numkeys key [key ...] [LIMIT limit]", nil),
		{Spec: resp.Spec{Name: "lock", Arity: -5, Flags: resp.Write | resp.Blocking, Keys: resp.FirstKey, Waits: "WAIT", Group: "lockd"}, Run: fakeLock},
		fakeRow("unlock", 3, resp.Write, resp.FirstKey, "lockd", "1.0.0", "Release a lock", "key token", fakeUnlock),
		fakeRow("wait", 3, resp.NoScript, resp.NoKeys, "generic", "3.0.0", "Wait", "numreplicas timeout", nil),
		{Spec: resp.Spec{Name: "config", Arity: -2, Group: "server"}, Subs: []resp.Row[fakeRun]{
			fakeRow("config|get", -3, resp.Admin, resp.NoKeys, "server", "2.0.0", "", "", fakeConfigGet),
			fakeRow("config|resetstat", 2, resp.Admin, resp.NoKeys, "server", "2.0.0", "", "",
				func(*fakeBackend, resp.Cmd) resp.Reply { return resp.OK() }),
			fakeRow("config|set", -4, resp.Admin, resp.NoKeys, "server", "2.0.0", "", "", fakeConfigSet),
		}},
		acl.Row(func(r resp.Reply) fakeRun { return func(*fakeBackend, resp.Cmd) resp.Reply { return r } }, func(name string) fakeRun { return fakeACL[name] }),
	})
	f.table.Lookup("set").Access = "RW access update variable_flags"
	f.table.Lookup("mset").Access = "OW update"
	f.table.Lookup("del").Access = "RM delete"
	return f
}

func fakeRow(name string, arity int, flags resp.Flags, keys resp.Keys, group, since, summary, syntax string, run fakeRun) resp.Row[fakeRun] {
	return resp.Row[fakeRun]{Spec: resp.Spec{Name: name, Arity: arity, Flags: flags, Keys: keys, Group: group, Since: since,
		Summary: summary, Syntax: syntax}, Run: run}
}

func (f *fakeBackend) Specs() []*resp.Spec { return f.table.Specs() }

func (f *fakeBackend) Do(ctx context.Context, req resp.Request) resp.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if args := req.Cmds; len(args) == 1 && args[0].Args[0] == "acl" && args[0].Args[1] == "save" {
		return resp.Result{Replies: []resp.Reply{f.learned()}} // a node asks once; no test counts that
	}
	if cmds := req.Cmds; len(cmds) == 1 && cmds[0].Args[0] == "acl" && cmds[0].Args[1] == "load" { // with all users
		return resp.Result{Replies: []resp.Reply{f.load(cmds[0].Args[2])}}
	}
	f.requests, f.observed = append(f.requests, len(req.Cmds)), append(f.observed, req.Observations)
	f.user = req.User
	watching := resp.Watching{}
	if req.Watch != nil {
		watching = *req.Watch
	}
	for _, w := range watching.Check {
		if f.versions[strconv.Itoa(w.DB)+w.Key] != w.Version {
			return resp.Result{Watched: &resp.Watched{Aborted: true}}
		}
	}
	res := resp.Result{Replies: make([]resp.Reply, len(req.Cmds)), Failed: f.failing != ""}
	marks := make([]int64, 0, len(req.Cmds))
	f.changes, f.reads, f.news, f.client = nil, nil, nil, req.Sender
	for i, c := range req.Cmds {
		f.command, f.lastArgs = i, c.Args
		res.Replies[i] = f.one(ctx, c)
		marks = append(marks, int64(len(f.changes)))
	}
	for _, k := range watching.Learn {
		if f.failing != "" {
			return resp.Result{Replies: []resp.Reply{resp.Err(f.failing)}, Failed: true}
		}
		if res.Watched == nil {
			res.Watched = &resp.Watched{}
		}
		res.Watched.Versions = append(res.Watched.Versions, f.versions[strconv.Itoa(k.DB)+k.Name])
	}
	f.index++
	res.Index, res.TookNs, res.Denied = f.index, int64(f.took), f.denied
	if req.Trace && f.failing == "" && !f.untraced {
		res.Trace = &resp.Trace{Index: f.index, Marks: marks, Reads: f.reads}
	}
	f.publish(resp.Message{Kind: resp.MessageChanges, Index: f.index, Changes: f.changes})
	for _, m := range newsMessages(f.index, f.news...) {
		f.publish(m)
	}
	if f.held != nil {
		f.held()
	}
	return res
}

func (f *fakeBackend) ClientID(nth uint64) int64 { return int64(nth) }

func (f *fakeBackend) Members() int {
	f.others.Lock()
	defer f.others.Unlock()
	return f.members
}

func (f *fakeBackend) Ask(_ context.Context, q resp.Inquiry) ([]resp.Reply, error) {
	f.others.Lock()
	ask := f.ask
	f.others.Unlock()
	return ask(q)
}

// Await notes for which entries a session waits.
func (f *fakeBackend) Await(_ context.Context, index uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaited = append(f.awaited, index)
}

// Block waits until the test serves it.
func (f *fakeBackend) Block(ctx context.Context, _ resp.Cmd, _ resp.Sender, unblock <-chan resp.Unblock, waiter resp.Waiter) (reply resp.Reply, unblocked bool) {
	f.waiting <- struct{}{}
	select {
	case r := <-f.served:
		return r, false
	case f.answer <- waiter.Served:
		select {
		case r := <-f.served:
			return r, false
		case <-ctx.Done():
			return resp.Err(resp.ErrUnknown), false
		}
	case why := <-unblock:
		return map[resp.Unblock]resp.Reply{resp.UnblockTimeout: resp.NilArray(), resp.UnblockError: resp.Err(resp.ErrUnblocked),
			resp.UnblockStop: resp.Err(resp.ErrNotDone)}[why], true
	case <-ctx.Done():
		return resp.Err(resp.ErrUnknown), false
	}
}

// serve answers a client that waits, or will, and then the one that has pushed.
func (f *fakeBackend) serve(waits, pushes resp.Reply) resp.Reply {
	f.mu.Unlock()
	defer f.mu.Lock()
	f.served <- waits
	return pushes
}

// publish does what the node does when it applies an entry.
func (f *fakeBackend) publish(m resp.Message) {
	switch {
	case len(m.Changes) == 0 && m.Form == nil:
	case f.late != nil:
		f.late(m)
	default:
		f.hub.Publish([]resp.Message{m})
	}
}

func (f *fakeBackend) one(ctx context.Context, c resp.Cmd) resp.Reply {
	if text := f.failing + f.refusing; text != "" {
		return resp.Err(text)
	}
	row, fail := f.table.Find(c.Args)
	if row == nil {
		return fail
	}
	if row.Name == "wait" && f.waiting == nil {
		return resp.Int(0)
	}
	if row.Name == "wait" { // stands for a command that waits for the log
		f.mu.Unlock()
		f.waiting <- struct{}{}
		<-ctx.Done()
		f.mu.Lock()
		return resp.Err(resp.ErrUnknown)
	}
	return row.Run(f, c)
}

func (f *fakeBackend) touch(db int, key string) {
	f.version++
	f.versions[strconv.Itoa(db)+key] = f.version
	f.changes = append(f.changes, resp.Change{Key: key})
}

func fakeGet(f *fakeBackend, c resp.Cmd) resp.Reply {
	if v, ok := f.values[c.DB][c.Args[1]]; ok {
		return resp.Bulk(v)
	}
	return resp.Nil()
}

func fakeSet(f *fakeBackend, c resp.Cmd) resp.Reply {
	if len(c.Args) > 3 && !resp.Is(c.Args[3], "NX") {
		return resp.Err(resp.ErrSyntax)
	}
	if _, have := f.values[c.DB][c.Args[1]]; have && len(c.Args) > 3 {
		return resp.Nil()
	}
	f.values[c.DB][c.Args[1]] = c.Args[2]
	f.touch(c.DB, c.Args[1])
	return resp.OK()
}

// fakeLock takes a lock for PX milliseconds, unless another token has it. The tests of the machine check the rest.
func fakeLock(f *fakeBackend, c resp.Cmd) resp.Reply {
	key, token := c.Args[1], c.Args[2]
	if holder, have := f.values[c.DB][key]; have && holder != token {
		return resp.Nil()
	}
	f.values[c.DB][key] = token
	f.touch(c.DB, key)
	ms, _ := resp.ParseInt(c.Args[4])
	lock := resp.HeldLock{DB: c.DB, Key: key, Token: token, Fence: f.version}
	f.news = append(f.news, resp.LockNews{HeldLock: lock, How: resp.LockGranted, LeaseMs: ms, Client: f.client})
	return resp.Int(int64(f.version))
}

func fakeUnlock(f *fakeBackend, c resp.Cmd) resp.Reply {
	key, token := c.Args[1], c.Args[2]
	if f.values[c.DB][key] != token {
		return resp.Int(0)
	}
	delete(f.values[c.DB], key)
	f.touch(c.DB, key)
	f.lost(resp.HeldLock{DB: c.DB, Key: key, Token: token}, resp.LockReleased)
	return resp.Int(1)
}

// lost tells that a lock was lost by the request.
func (f *fakeBackend) lost(lock resp.HeldLock, how string) {
	f.news = append(f.news, resp.LockNews{HeldLock: lock, How: how, Client: f.client})
}

// Leases returns the leases that the test has set.
func (f *fakeBackend) Leases(locks []resp.HeldLock) []resp.Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	leases := make([]resp.Lease, len(locks))
	for i, l := range locks {
		if leases[i] = (resp.Lease{Held: true, Until: 1, LeaseMs: 3_600_000, LeftMs: 3_600_000}); f.lease != nil {
			leases[i] = f.lease(l)
		}
	}
	return leases
}

func fakeMset(f *fakeBackend, c resp.Cmd) resp.Reply {
	for i := 1; i+1 < len(c.Args); i += 2 {
		f.values[c.DB][c.Args[i]] = c.Args[i+1]
		f.touch(c.DB, c.Args[i])
	}
	return resp.OK()
}

func fakeDel(f *fakeBackend, c resp.Cmd) resp.Reply {
	n := int64(0)
	for _, key := range c.Args[1:] {
		if token, have := f.values[c.DB][key]; have {
			f.lost(resp.HeldLock{DB: c.DB, Key: key, Token: token}, resp.LockDeleted)
			delete(f.values[c.DB], key)
			f.touch(c.DB, key)
			n++
		}
	}
	return resp.Int(n)
}

func fakeIncr(f *fakeBackend, c resp.Cmd) resp.Reply {
	text, have := f.values[c.DB][c.Args[1]]
	n, ok := resp.ParseInt(text)
	if have && !ok {
		return resp.Err(resp.ErrNotInteger)
	}
	f.values[c.DB][c.Args[1]] = strconv.FormatInt(n+1, 10)
	f.touch(c.DB, c.Args[1])
	return resp.Int(n + 1)
}

func fakeMget(f *fakeBackend, c resp.Cmd) resp.Reply {
	var elems []resp.Reply
	for _, key := range c.Args[1:] {
		elems = append(elems, fakeGet(f, resp.Cmd{DB: c.DB, Args: resp.Args{"get", key}}))
	}
	return resp.Array(elems...)
}

func fakeFlush(f *fakeBackend, _ resp.Cmd) resp.Reply {
	for i := range f.values {
		clear(f.values[i])
		f.lost(resp.HeldLock{DB: i}, "flushed")
	}
	f.changes = append(f.changes, resp.Change{Kind: resp.ChangeAll})
	return resp.OK()
}

var scriptCall = regexp.MustCompile(`redis\.call\('(\w+)',KEYS\[(\d)\](?:,'([^']*)')?\)`)

// fakeEval runs the calls of a script one after the other and returns the last reply.
func fakeEval(f *fakeBackend, c resp.Cmd) resp.Reply {
	last := resp.Nil()
	for _, call := range scriptCall.FindAllStringSubmatch(c.Args[1], -1) {
		n, _ := strconv.Atoi(call[2])
		args := resp.Args{call[1], c.Args[2+n]}
		if call[3] != "" {
			args = append(args, call[3])
		}
		row, _ := f.table.Find(args)
		last = row.Run(f, resp.Cmd{DB: c.DB, Args: args})
		if row.ReadsKeys() {
			f.reads = append(f.reads, resp.KeyRead{Cmd: f.command, Key: args[1], At: int64(len(f.changes))})
		}
	}
	return last
}

func fakePublish(f *fakeBackend, c resp.Cmd) resp.Reply {
	kind := resp.MessageChannel
	if resp.Is(c.Args[0], "SPUBLISH") {
		kind = resp.MessageShard
	}
	f.hub.Publish([]resp.Message{{Kind: kind, Channel: c.Args[1], Payload: c.Args[2]}})
	return resp.Int(0)
}

func fakeConfigGet(_ *fakeBackend, c resp.Cmd) resp.Reply {
	steps := globStepsMax
	if !slices.ContainsFunc(c.Args[2:], func(p string) bool { return resp.Glob(p, "timeout", &steps) }) {
		return resp.Map()
	}
	return resp.Map(resp.Bulk("timeout"), resp.Bulk("0"))
}

func fakeConfigSet(f *fakeBackend, c resp.Cmd) resp.Reply {
	for i := 2; i+1 < len(c.Args); i += 2 {
		f.hub.Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: lower(c.Args[i]), Payload: c.Args[i+1]}})
	}
	return resp.OK()
}

// fakeACL keeps users as the machine does.
var fakeACL = map[string]fakeRun{
	"setuser": func(f *fakeBackend, c resp.Cmd) resp.Reply {
		user := f.users.Get(c.Args[2])
		if user == nil {
			user = acl.New(f.known, c.Args[2])
		}
		next, err := user.With(f.known, c.Args[3:])
		if err != nil {
			return resp.Fail(err)
		}
		f.users = f.users.With(next)
		f.tellUser(next.Name, next.Text())
		return resp.OK()
	},
	"deluser": func(f *fakeBackend, c resp.Cmd) resp.Reply {
		n := int64(0)
		if slices.Contains(c.Args[2:], "default") {
			return resp.Err("ERR The 'default' user cannot be removed")
		}
		for _, name := range c.Args[2:] {
			if f.users.Get(name) != nil {
				n++
				f.users = f.users.Without(name)
				f.tellUser(name, "")
			}
		}
		return resp.Int(n)
	},
	"getuser": func(f *fakeBackend, c resp.Cmd) resp.Reply {
		if user := f.users.Get(c.Args[2]); user != nil {
			return user.Describe()
		}
		return resp.Nil()
	},
	"list":  func(f *fakeBackend, _ resp.Cmd) resp.Reply { return f.users.List() },
	"users": func(f *fakeBackend, _ resp.Cmd) resp.Reply { return f.users.Names() },
}

// load answers a node that has read users from its file.
func (f *fakeBackend) load(text string) resp.Reply {
	if f.failing != "" {
		return resp.Err(f.failing)
	}
	f.loaded = append(f.loaded, text)
	return resp.OK()
}

// learned answers a node that asks for the users.
func (f *fakeBackend) learned() resp.Reply {
	text := "user default on nopass ~* &* +@all\n"
	if f.failing != "" {
		return resp.Err(f.failing)
	}
	if f.users != nil {
		text = f.users.Text()
	}
	return resp.Array(resp.Int(int64(f.rev)), resp.Bulk(text))
}

func (f *fakeBackend) tellUser(name, rules string) {
	f.rev++
	f.hub.Publish([]resp.Message{{Kind: resp.MessageUser, Channel: name, Payload: rules, Index: f.rev}})
}

// justStarted is the name of a node that has not asked for the users of its cluster.
const justStarted = "just started"

// startServer serves a fake backend on a loopback port until the test ends.
func startServer(t testing.TB, change func(*Config), before ...func(*Server)) (*Server, *fakeBackend, string) {
	t.Helper()
	fake := newFake()
	cfg := Config{Backend: fake, Version: "test", RunID: "0123456789012345678901234567890123456789",
		Local: map[string]string{"port": "6379", "bind": "127.0.0.1"}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if change != nil {
		change(&cfg)
	}
	srv := New(cfg)
	fake.hub, fake.known, fake.users = srv.Hub(), srv.index.known, acl.NewUsers(srv.index.known)
	if cfg.Node != justStarted {
		srv.hub.users.Learn(context.Background(), fake)
	}
	for _, f := range before {
		f(srv)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		srv.Shutdown(ctx)
	})
	return srv, fake, l.Addr().String()
}
