package console

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockd/internal/fakenode"
	"lockd/resp"
)

// fakeNode answers as a node would, on pipes.
type fakeNode struct {
	t        *testing.T
	password string
	down     bool                  // it takes no connection
	tired    bool                  // it listens to no password any more
	replies  map[string]resp.Reply // by the first two words
	wait     time.Duration         // before it answers

	mu    sync.Mutex
	asked []string // but for the introduction
	addrs []string
}

func (f *fakeNode) dial(from net.Addr) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, net.ErrClosed
	}
	f.addrs = append(f.addrs, from.String())
	here, there := net.Pipe()
	authed, password, tired := f.password == "", f.password, f.tired
	go fakenode.Serve(there, func(words []string) string {
		r := resp.Err(resp.ErrNoAuth)
		if words[0] == "HELLO" && len(words) > 4 && words[2] == "AUTH" {
			authed = words[3] == "default" && (password == "" || words[4] == password)
			r = resp.Err(resp.ErrWrongPass)
			if tired {
				r, authed = resp.Err(resp.ErrWrongPassMax+"42 s"), false
			}
		}
		if authed {
			r = f.reply(words)
		}
		return string(r.AppendTo(nil, 3))
	})
	return here, nil
}

func (f *fakeNode) note(args []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.Join(args, " "))
}

func (f *fakeNode) reply(args []string) resp.Reply {
	if args[0] == "HELLO" {
		return resp.Map(resp.Bulk("proto"), resp.Int(3))
	}
	f.note(args)
	if args[0] == "SELECT" || args[0] == "READONLY" {
		return resp.OK()
	}
	f.mu.Lock()
	wait := f.wait
	f.mu.Unlock()
	time.Sleep(wait)
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := f.replies[strings.Join(args[:2], " ")]; ok {
		return r
	}
	return resp.Err("ERR unknown subcommand '" + args[1] + "'")
}

// set changes an answer.
func (f *fakeNode) set(command string, r resp.Reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies[command] = r
}

// change changes the node while it answers.
func (f *fakeNode) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
}

// takeAsked returns the questions since the last call.
func (f *fakeNode) takeAsked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

// pairs is a map: names and values, which are texts, numbers or replies.
func pairs(of ...any) resp.Reply {
	var elems []resp.Reply
	for _, v := range of {
		switch v := v.(type) {
		case string:
			elems = append(elems, resp.Bulk(v))
		case int:
			elems = append(elems, resp.Int(int64(v)))
		case nil:
			elems = append(elems, resp.Nil())
		case resp.Reply:
			elems = append(elems, v)
		default:
			panic(fmt.Sprintf("%T", v))
		}
	}
	return resp.Map(elems...)
}

// at is a time of the present day, as the node writes it.
func at(clock string) string { return time.Now().UTC().Format(time.DateOnly) + "T" + clock + "Z" }

// aNode has a lock that is called by the name, as all about it is.
func aNode(t *testing.T, name string) *fakeNode {
	holder := pairs("token", name, "owner", name+"/owner", "by", "LOCK", "client-id", 7, "client-name", name, "client-addr",
		"10.0.0.9:5000", "node", "n2", "fence", 12, "lease-left-ms", 20000, "since", at("00:00:10.000"), "held-ms", 10000,
		"lease-ms", 30000, "renewals", 2, "last-renewal", at("00:00:15.000"), "note", name+" bills")
	waiting := pairs("token", name+"2", "owner", name+"2", "client-id", 8, "client-name", name, "client-addr", "10.0.0.9:5001",
		"node", "n1", "mode", "exclusive", "waited-ms", 4000, "left-ms", 56000, "note", nil)
	return &fakeNode{t: t, replies: map[string]resp.Reply{
		"LOCKS LIST": resp.Array(pairs("key", name, "mode", "exclusive", "permits", 1, "holders", resp.Array(holder), "waiters", 1)),
		"LOCKS INFO": pairs("mode", "exclusive", "permits", 1, "holders", resp.Array(holder), "line", resp.Array(waiting),
			"known-since", at("00:00:00.000")),
		"LOCKS HISTORY": pairs("known-since", at("00:00:00.000"), "events", resp.Array(
			pairs("time", at("00:00:02.000"), "tick", 2000, "event", "granted", "token", name+"0", "owner", nil, "mode", "exclusive",
				"fence", 11, "by", "SET", "client-id", 5, "client-name", name, "client-addr", "a:1", "node", "n1", "waited-ms", 0,
				"lease-ms", 30000, "note", name),
			pairs("time", at("00:00:10.000"), "tick", 10000, "event", "forced", "token", name+"0", "owner", nil, "mode", "exclusive",
				"fence", 11, "by", "LOCKS FORCE", "client-id", 5, "client-name", name, "client-addr", "a:1", "node", "n1", "held-ms", 8000,
				"lease-ms", 30000, "renewals", 0, "last-renewal", nil, "reason", name+" hangs"),
			pairs("time", at("00:00:10.000"), "tick", 10000, "event", "granted", "token", name, "owner", name+"/owner", "mode", "exclusive",
				"fence", 12, "by", "LOCK", "client-id", 7, "client-name", name, "client-addr", "a:1", "node", "n1", "waited-ms", 3000,
				"lease-ms", 30000, "note", nil),
		)),
		"LOCKS WHY": resp.Bulk(name + " got it and lost it."),
		"LOCKD MEMBERS": resp.Array(
			pairs("id", "n1", "peer", "p1:1", "clients", resp.Bulks("c1:1"), "role", "leader", "suffrage", "voter", "state", "up", "applied", 90,
				"level", 1, "lowest", 1, "highest", 2, "version", "0.2.0"),
			pairs("id", name, "peer", name, "clients", resp.Bulks(name), "role", "follower", "suffrage", "voter", "state", "up", "applied", 85,
				"level", 1, "lowest", 1, "highest", 1, "version", name),
			pairs("id", "n3", "peer", "p3:1", "clients", resp.Array(), "role", "follower", "suffrage", "voter", "state", "down", "applied", 0)),
		"LOCKS DOCTOR": pairs("known-since", at("00:00:00.000"), "node", "n1", "seen-since", at("00:00:01.000"), "findings", resp.Array(
			pairs("mistake", "no-lease", "keys", name, "count", 7, "example", name, "client", nil, "says", name+" has no lease."))),
		"LOCKS ADVICE": pairs("known-since", at("00:00:00.000"), "locks", resp.Array(
			pairs("keys", name, "acquisitions", 12, "hold-p50-ms", 30, "lease-ms", nil))),
		"INFO raft": resp.Verbatim("# Raft\r\nnode_id:n1\r\nleader_id:n1\r\ncommit_index:90\r\nmachine_index:90\r\nmembers:n1,n2\r\nready:1\r\nready_leader:ok\r\nready_log:ok\r\n"),
	}}
}

// aConsole returns a console for a node, with its log.
func aConsole(f *fakeNode, change ...func(*Config)) (*Console, *bytes.Buffer) {
	log := &bytes.Buffer{}
	cfg := Config{Dial: f.dial, Node: "n1", Password: f.password, Ready: func() []resp.Field { return nil }, Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, c := range change {
		c(&cfg)
	}
	return New(cfg), log
}

// asking changes a request.
type asking func(*http.Request)

func header(name, value string) asking { return func(r *http.Request) { r.Header.Set(name, value) } }
func from(addr string) asking          { return func(r *http.Request) { r.RemoteAddr = addr } }
func host(name string) asking          { return func(r *http.Request) { r.Host = name } }

func withPassword(user, password string) asking {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

// get asks for a path.
func get(c *Console, path string, with ...asking) *httptest.ResponseRecorder {
	return send(c, httptest.NewRequest(http.MethodGet, path, nil), with...)
}

// post sends a form as its page in a browser would.
func post(c *Console, path, form string, with ...asking) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://example.com")
	return send(c, r, with...)
}

func send(c *Console, r *http.Request, with ...asking) *httptest.ResponseRecorder {
	for _, change := range with {
		change(r)
	}
	w := httptest.NewRecorder()
	c.http.Handler.ServeHTTP(w, r)
	return w
}

// wants fails unless a page has the status and all texts.
func wants(t *testing.T, w *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	body := w.Body.String()
	missing := slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(body, text) })
	if w.Code != status || len(missing) > 0 {
		t.Errorf("status %d, want %d; without %q:\n%s", w.Code, status, missing, body)
	}
}
