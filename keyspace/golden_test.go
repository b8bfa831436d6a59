//go:build golden

package keyspace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/resp"
)

// The referee is a real redis-server at LOCKD_GOLDEN_REDIS (HOST:PORT). It must
// be one that may be emptied, of version 7.0, started without a configuration but
// with --enable-debug-command, so that no cycle of its own ends keys: only commands do.
const refereeEnv = "LOCKD_GOLDEN_REDIS"

// refereeWait bounds how long one answer of the referee may take.
const refereeWait = time.Minute

// approxMax is how far apart two integers may be under "approx", besides the milliseconds that
// have passed: one second, and one for what is rounded.
const approxMax = 2000

// TestGolden proves that the machine answers as Redis does: it sends every
// transcript to both, in RESP2 and in RESP3, and compares the bytes. What it does
// not compare is said, with a reason, at the head of the block in the transcript.
// From "at" to the next "fresh" a file has nothing to compare: the real server's
// clock cannot be set.
func TestGolden(t *testing.T) {
	for _, proto := range []int{2, 3} {
		for _, file := range transcriptFiles(t) {
			name := fmt.Sprintf("RESP%d/%s", proto, strings.TrimSuffix(filepath.Base(file), ".txt"))
			t.Run(name, func(t *testing.T) {
				g := newGolden(t, file, proto)
				for _, b := range readTranscript(t, file) {
					g.play(b)
				}
				if t.Failed() {
					t.Log("what is meant to differ is noted, with a reason, at the head of its block; " +
						"the head of keyspace/transcript_test.go lists the notes")
				}
			})
		}
	}
}

// golden plays one file to the machine and to the referee.
type golden struct {
	t        *testing.T
	file     string
	proto    int
	stage    *stage
	redis    *referee
	clients  map[string]*referee // those who wait, by name
	listener *referee            // is subscribed to everything
	tracker  *referee            // is told of every key that changes
	barriers int
	skip     bool      // since an "at"
	began    time.Time // the referee was empty then: none of its clocks has run for longer
}

func newGolden(t *testing.T, file string, proto int) *golden {
	g := &golden{t: t, file: file, proto: proto, stage: newStage(t), clients: map[string]*referee{}}
	g.redis, g.listener, g.tracker = dialReferee(t), dialReferee(t), dialReferee(t)
	g.redis.do("HELLO", strconv.Itoa(proto))
	g.must("DEBUG SET-ACTIVE-EXPIRE 0")
	g.listener.do("PSUBSCRIBE", "*")
	g.tracker.do("HELLO", "3")
	g.tracker.do("CLIENT", "TRACKING", "ON", "BCAST")
	g.reset()
	return g
}

// reset makes the referee as new.
func (g *golden) reset() {
	g.began = time.Now()
	for _, cmd := range []string{
		"SELECT 0", "UNWATCH", "SCRIPT FLUSH", "FUNCTION FLUSH",
		"CONFIG SET notify-keyspace-events '' maxmemory 0 maxmemory-policy noeviction", "CONFIG SET zset-max-listpack-entries 128", "FLUSHALL",
	} {
		g.must(cmd)
	}
	for name, c := range g.clients {
		c.conn.Close()
		delete(g.clients, name)
	}
	g.changed()
	g.skip = false
}

// must sends the referee a command that it may not refuse.
func (g *golden) must(cmd string) {
	g.t.Helper()
	words, _ := splitWords(cmd)
	if r, _ := g.redis.do(words...); r.IsErr() {
		g.t.Fatalf("%s: %s", cmd, r.Str)
	}
}

func (g *golden) play(b block) {
	if b.has("fresh") {
		g.reset()
	}
	g.skip = g.skip || b.has("at")
	if g.skip || b.notes["since"] != "" || b.notes["lockd"] != "" {
		g.stage.play(b)
		return
	}
	g.stage.events = nil
	g.published()
	same := true
	for _, s := range b.steps {
		same = g.step(b, s) && same
	}
	if same && b.notes["differs"] != "" {
		g.t.Errorf("%s:%d: no longer differs from Redis: drop the note", g.file, b.line)
	}
}

// client has another client of the referee send a command, and waits until it is
// blocked or answered.
func (g *golden) client(s step) {
	c := dialReferee(g.t)
	c.do("HELLO", strconv.Itoa(g.proto))
	c.do("SELECT", strconv.Itoa(g.stage.db))
	id, _ := c.do("CLIENT", "ID")
	c.id = strconv.FormatInt(id.Int, 10)
	c.conn.Write(resp.AppendCommand(nil, s.words[2:]...))
	for !g.blocked(c) && !c.answered() {
	}
	g.clients[s.words[1]] = c
}

// blocked reports whether a client waits at the referee.
func (g *golden) blocked(c *referee) bool {
	r, _ := g.redis.do("CLIENT", "LIST", "ID", c.id)
	return strings.Contains(r.Str, " flags=b ")
}

// answered reports whether an answer has come within a moment.
func (r *referee) answered() bool {
	r.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := r.in.Peek(1)
	return err == nil
}

// ended reads what the referee has answered to those who do not wait any more.
func (g *golden) ended() map[string]resp.Reply {
	answers := map[string]resp.Reply{}
	for name, c := range g.clients {
		if g.blocked(c) {
			continue
		}
		c.conn.SetReadDeadline(time.Now().Add(refereeWait))
		answers[name] = readReply(c.in, io.Discard)
		c.conn.Close()
		delete(g.clients, name)
	}
	return answers
}

// wire writes answers as both servers send them.
func (g *golden) wire(answers map[string]resp.Reply) string {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		b = answers[name].AppendTo(append(b, name+": "...), g.proto)
	}
	return string(b)
}

func (b block) has(directive string) bool {
	return slices.ContainsFunc(b.steps, func(s step) bool { return s.words[0] == directive })
}

// step plays one line and reports whether both answered the same.
func (g *golden) step(b block, s step) bool {
	switch s.words[0] {
	case "fresh", "script":
		g.stage.step(s)
		return true
	case "db":
		g.stage.step(s)
		g.redis.do("SELECT", s.words[1])
		return true
	case "client":
		g.stage.changed = nil
		g.stage.step(s)
		g.client(s)
		return g.compareChanges(b, s)
	case "ended":
		mine := g.stage.ended
		g.stage.ended = map[string]resp.Reply{}
		return g.compare(b, s, g.wire(mine), g.wire(g.ended()))
	case "events":
		g.stage.events = slices.DeleteFunc(g.stage.events, func(m resp.Message) bool {
			return m.Kind != resp.MessageChannel // the listener hears no others
		})
		return g.compare(b, s, strings.Join(g.stage.published(), "\n"), strings.Join(g.published(), "\n"))
	}
	args := g.stage.args(s.words)
	g.stage.changed = nil
	mine := g.stage.command(args)
	theirs, raw := g.redis.do(args...)
	if strings.HasPrefix(theirs.Str, "ERR unknown ") && theirs.IsErr() && !mine.IsErr() && b.notes["differs"] == "" {
		g.t.Errorf("%s:%d: the referee, Redis 7.0, does not know %q: write `since X.Y: why` (a newer Redis has it) or "+
			"`lockd: why` (only lockd has it) at the head of its block, which is then not sent", g.file, s.line, s.words)
		return false
	}
	if !g.compareChanges(b, s) {
		return false
	}
	if mine.Kind == resp.KindNone {
		return true
	}
	if spec := lookupSpec(args[0]); spec != nil && spec.Flags&resp.CountsReceivers != 0 && !mine.IsErr() {
		return true // the session counts them
	}
	ours := mine.AppendTo(nil, g.proto)
	if sameTime(args, mine, theirs, time.Since(g.began)) {
		return true
	}
	switch {
	case b.notes["digits"] != "":
		parsed := readReply(bufio.NewReader(bytes.NewReader(ours)), io.Discard)
		return g.compare(b, s, string(byValue(parsed).AppendTo(nil, g.proto)), string(byValue(theirs).AppendTo(nil, g.proto)))
	case b.notes["sorted"] != "":
		parsed := readReply(bufio.NewReader(bytes.NewReader(ours)), io.Discard)
		return g.compare(b, s, string(sorted(parsed).AppendTo(nil, 3)), string(sorted(theirs).AppendTo(nil, 3)))
	case b.notes["approx"] != "":
		parsed := readReply(bufio.NewReader(bytes.NewReader(ours)), io.Discard)
		if near(parsed, theirs, approxMax+time.Since(g.began).Milliseconds()) {
			return true
		}
	}
	return g.compare(b, s, string(ours), string(raw))
}

func (g *golden) compare(b block, s step, mine, theirs string) bool {
	if mine != theirs && b.notes["differs"] == "" {
		g.t.Errorf("%s:%d: %q\nredis  %q\nlockd  %q", g.file, s.line, s.words, theirs, mine)
	}
	return mine == theirs
}

// compareChanges compares the keys that clients which track every key are told of.
// The referee tells each once, in the order of their names. It forgets to tell of SWAPDB and XSETID.
func (g *golden) compareChanges(b block, s step) bool {
	mine := g.stage.changed
	if resp.Is(s.words[0], "SWAPDB") || resp.Is(s.words[0], "XSETID") {
		mine = nil
	}
	for i, key := range mine {
		mine[i] = strings.TrimPrefix(strings.TrimPrefix(key, "x "), "w ")
	}
	mine = slices.Compact(slices.Sorted(slices.Values(mine)))
	theirs := slices.Compact(slices.Sorted(slices.Values(g.changed())))
	if !slices.Equal(mine, theirs) && b.notes["differs"] == "" {
		g.t.Errorf("%s:%d: %q\nredis  invalidates %q\nlockd  invalidates %q", g.file, s.line, s.words, theirs, mine)
		return false
	}
	return true
}

// changed reads which keys the referee has invalidated up to now.
func (g *golden) changed() (keys []string) {
	g.tracker.conn.Write(resp.AppendCommand(nil, "PING"))
	for {
		r := readReply(g.tracker.in, io.Discard)
		switch {
		case r.Kind != resp.KindPush:
			return keys
		case r.Elems[1].IsNil():
			keys = append(keys, "all")
		}
		for _, key := range r.Elems[1].Elems {
			keys = append(keys, key.Str)
		}
	}
}

// published reads what the referee has published up to now.
func (g *golden) published() (lines []string) {
	g.barriers++
	barrier := "barrier " + strconv.Itoa(g.barriers)
	g.redis.do("PUBLISH", "golden", barrier)
	for {
		r := readReply(g.listener.in, io.Discard)
		channel, payload := r.Elems[2].Str, r.Elems[3].Str
		if payload == barrier {
			return lines
		}
		lines = append(lines, strconv.Quote(channel)+" "+strconv.Quote(payload))
	}
}

// sorted orders the elements of every collection, pairs by their key.
func sorted(r resp.Reply) resp.Reply {
	width := 1
	if r.Kind == resp.KindMap {
		width = 2
	}
	var items []string
	for i := 0; i+width <= len(r.Elems); i += width {
		var b []byte
		for _, e := range r.Elems[i : i+width] {
			b = sorted(e).AppendTo(b, 3)
		}
		items = append(items, string(b))
	}
	slices.Sort(items)
	if r.Elems != nil {
		return resp.Array(resp.Bulks(items...).Elems...)
	}
	return r
}

// byValue writes every number of a reply in the same way.
func byValue(r resp.Reply) resp.Reply {
	if f, err := strconv.ParseFloat(r.Str, 64); r.Kind == resp.KindBulk && err == nil {
		r.Str = resp.FormatDouble(f)
	}
	r.Elems = slices.Clone(r.Elems)
	for i := range r.Elems {
		r.Elems[i] = byValue(r.Elems[i])
	}
	return r
}

// near compares two replies whose integers may differ by so much.
func near(a, b resp.Reply, most int64) bool {
	if a.Kind != b.Kind || len(a.Elems) != len(b.Elems) {
		return false
	}
	for i := range a.Elems {
		if !near(a.Elems[i], b.Elems[i], most) {
			return false
		}
	}
	if a.Kind == resp.KindInt {
		d := a.Int - b.Int
		return d <= most && -d <= most
	}
	return a.Str == b.Str
}

// sameTime reports whether both tell one time in seconds, of which the referee's runs while
// the machine's stands: it may have run for what has passed, and no longer. What is left of
// a lease is rounded, and of what a key is idle for the seconds count that have begun.
func sameTime(args resp.Args, mine, theirs resp.Reply, passed time.Duration) bool {
	if mine.Kind != resp.KindInt || theirs.Kind != resp.KindInt || mine.Int < 0 || theirs.Int < 0 {
		return false
	}
	switch {
	case resp.Is(args[0], "TTL"):
		ran := mine.Int - theirs.Int
		return ran >= 0 && ran <= int64(passed.Round(time.Second)/time.Second)
	case resp.Is(args[0], "OBJECT") && resp.Is(args[1], "IDLETIME"):
		ran := theirs.Int - mine.Int
		return ran >= 0 && ran <= int64(passed/time.Second)+1
	}
	return false
}

// referee is a connection to the real server.
type referee struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	id   string // of the client, if it waits
}

func dialReferee(t *testing.T) *referee {
	t.Helper()
	conn, err := net.DialTimeout("tcp", os.Getenv(refereeEnv), refereeWait)
	if err != nil {
		t.Fatalf("%s must name a redis-server to compare with: %v", refereeEnv, err)
	}
	t.Cleanup(func() { conn.Close() })
	return &referee{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// do sends a command and reads its answer, as a value and as bytes.
func (r *referee) do(args ...string) (resp.Reply, []byte) {
	r.t.Helper()
	r.conn.SetDeadline(time.Now().Add(refereeWait))
	if _, err := r.conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		r.t.Fatal(err)
	}
	var raw bytes.Buffer
	return readReply(r.in, &raw), raw.Bytes()
}

// readReply reads one reply in either protocol and copies its bytes to raw. A
// reader that ends or a reply it does not know panics: the test is then over.
func readReply(in *bufio.Reader, raw io.Writer) resp.Reply {
	line, err := in.ReadString('\n')
	if err != nil {
		panic(err)
	}
	io.WriteString(raw, line)
	text := line[1 : len(line)-2]
	n, _ := strconv.ParseInt(text, 10, 64)
	switch line[0] {
	case '+':
		return resp.Status(text)
	case '-':
		return resp.Err(text)
	case ':':
		return resp.Int(n)
	case '_':
		return resp.Nil()
	case '#':
		return resp.Bool(text == "t")
	case '(':
		return resp.BigNumber(text)
	case ',':
		f, _ := strconv.ParseFloat(text, 64)
		return resp.Double(f)
	case '$', '=':
		return readBulk(in, raw, line[0], n)
	case '*', '~', '>', '%':
		return readElems(in, raw, line[0], n)
	}
	panic("not a reply: " + line)
}

func readBulk(in *bufio.Reader, raw io.Writer, mark byte, n int64) resp.Reply {
	if n < 0 {
		return resp.Nil()
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(in, b); err != nil {
		panic(err)
	}
	raw.Write(b)
	if mark == '=' {
		return resp.Verbatim(string(b[len("txt:"):n]))
	}
	return resp.Bulk(string(b[:n]))
}

func readElems(in *bufio.Reader, raw io.Writer, mark byte, n int64) resp.Reply {
	if n < 0 {
		return resp.NilArray()
	}
	kind := map[byte]resp.Kind{'*': resp.KindArray, '~': resp.KindSet, '>': resp.KindPush, '%': resp.KindMap}[mark]
	if mark == '%' {
		n *= 2
	}
	elems := make([]resp.Reply, n)
	for i := range elems {
		elems[i] = readReply(in, raw)
	}
	return resp.Reply{Kind: kind, Elems: elems}
}
