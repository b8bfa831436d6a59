package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"lockd/internal/fakenode"
	"lockd/internal/freeport"
	"lockd/resp"
)

// A machine that stands still for a while is no node that does not answer.
func init() { connectMax, answerMax = time.Hour, time.Hour }

// The reader reads back replies as they were written, in either protocol.
func TestReader(t *testing.T) {
	replies := []resp.Reply{
		resp.OK(), resp.Err("ERR no"), resp.Int(-5), resp.Bulk("a\r\nb\x00"), resp.Bulk(""), resp.Nil(), resp.Array(resp.Int(1), resp.Array()),
		resp.Map(resp.Bulk("k"), resp.Map(resp.Bulk("n"), resp.Nil())), resp.Set(resp.Bulk("x")), resp.Double(1.5), resp.Double(math.Inf(-1)),
		resp.Bool(true), resp.BigNumber("123456789012345678901234567890"), resp.Verbatim("text"), resp.Push(resp.Bulk("m")),
		resp.Bulk(strings.Repeat("x", 3*bulkAtOnce+1)),
	}
	for _, r := range replies {
		got, err := read(string(r.AppendTo(nil, 3)))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(r) && len(r.Str) < 100 || got.Str != r.Str {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	for text, want := range map[string]resp.Reply{
		"$-1\r\n": resp.Nil(), "*-1\r\n": resp.NilArray(), "*2\r\n$1\r\na\r\n:1\r\n": resp.Array(resp.Bulk("a"), resp.Int(1)),
	} {
		if got, err := read(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func read(text string) (resp.Reply, error) {
	return (&reader{in: bufio.NewReaderSize(strings.NewReader(text), lineMax), left: replyMax}).reply(0)
}

// What is no reply, or too much of one, is an error, and takes no more memory than it has bytes.
func TestReaderRefuses(t *testing.T) {
	for _, text := range []string{
		"", "\r\n", "+", "+OK", "+OK\n", ":\r\n", ":x\r\n", "$5\r\nabc", "$3\r\nabcde", "$-2\r\n", "$9999999999\r\n", "=2\r\nab\r\n",
		"*2\r\n:1\r\n", "*-2\r\n", "*99999999999\r\n", "%1\r\n:1\r\n", "#x\r\n", ",x\r\n", "(x\r\n", "?1\r\n", "HTTP/1.1 400 Bad Request\r\n",
		"$268435000\r\n", "*200000000\r\n:1\r\n",
		strings.Repeat("*1\r\n", 1000) + ":1\r\n",
		"+" + strings.Repeat("x", lineMax+1) + "\r\n",
	} {
		if got, err := read(text); err == nil {
			t.Errorf("%.50q: %v", text, got)
		}
	}
	many := "*900\r\n" + strings.Repeat(":1\r\n", 900)
	for _, text := range []string{many, "$9000\r\n" + strings.Repeat("x", 9000) + "\r\n"} {
		r := reader{in: bufio.NewReader(strings.NewReader(text)), left: 8000}
		if _, err := r.reply(0); !errors.Is(err, errTooLarge) {
			t.Errorf("%.50q: %v", text, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add("%1\r\n+a\r\n*2\r\n:1\r\n_\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := read(text)
		if err != nil {
			return
		}
		written := string(r.AppendTo(nil, 3))
		again, err := read(written)
		if err != nil || string(again.AppendTo(nil, 3)) != written {
			t.Fatalf("%q: %v, %v, %v", text, r, again, err)
		}
	})
}

// node is a server that answers commands by a script; "" closes the connection.
type node struct {
	addr, hello string

	mu      sync.Mutex
	answers []string
	asked   []string
}

func startNode(t *testing.T, answers ...string) *node {
	t.Helper()
	n := &node{answers: answers, hello: "%1\r\n+proto\r\n:3\r\n"}
	n.addr = fakenode.Listen(t, n.answer)
	return n
}

func (n *node) answer(words []string) (answer string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	command := strings.Join(words, " ")
	n.asked = append(n.asked, command)
	if strings.HasPrefix(command, "HELLO") {
		return n.hello
	}
	if len(n.answers) > 0 {
		answer, n.answers = n.answers[0], n.answers[1:]
	}
	return answer
}

// commands lists the commands that the node has received, without greetings.
func (n *node) commands() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.asked {
		if !strings.HasPrefix(c, "HELLO") {
			list = append(list, c)
		}
	}
	return list
}

// nobody returns an address on which no server listens.
func nobody(t *testing.T) string {
	t.Helper()
	addrs, err := freeport.Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	return addrs[0]
}

// A question goes from node to node until one answers it; a command that is not to be done twice does
// only where it is certain that it was not done.
func TestAskAndTell(t *testing.T) {
	const ok, loading, unknown = "+OK\r\n", "-LOADING no leader\r\n", "-UNKNOWN it may be done\r\n"
	for _, tt := range []struct {
		name          string
		first, second []string // what the nodes answer; nil: nobody is there
		tell          bool
		want          string // the answer, or what the error has in it
		unknown       bool
		atSecond      int // the commands that get there
	}{
		{"the first answers", []string{ok}, []string{ok}, false, "OK", false, 0},
		{"the first answers", []string{ok}, []string{ok}, true, "OK", false, 0},
		{"the first is not there", nil, []string{ok}, false, "OK", false, 1},
		{"the first is not there", nil, []string{ok}, true, "OK", false, 1},
		{"the first has no leader", []string{loading}, []string{ok}, false, "OK", false, 1},
		{"the first has no leader", []string{loading}, []string{ok}, true, "OK", false, 1},
		{"the first hangs up", []string{""}, []string{ok}, false, "OK", false, 1},
		{"the first hangs up", []string{""}, []string{ok}, true, "not known", true, 0},
		{"the first does not know", []string{unknown}, []string{ok}, false, "OK", false, 1},
		{"the first does not know", []string{unknown}, []string{ok}, true, "not known", true, 0},
		{"the first refuses", []string{"-WRONGTYPE x\r\n"}, []string{ok}, false, "WRONGTYPE x", false, 0},
		{"the first refuses", []string{"-WRONGTYPE x\r\n"}, []string{ok}, true, "WRONGTYPE x", false, 0},
		{"nobody is there", nil, nil, false, "refused", false, 0},
		{"nobody is there", nil, nil, true, "refused", false, 0},
		{"nobody has a leader", []string{loading, loading}, []string{loading}, false, "LOADING", false, 1},
		{"nobody has a leader", []string{loading}, []string{loading}, true, "LOADING", false, 1},
		{"something is pushed in between", []string{">2\r\n+invalidate\r\n*0\r\n" + ok}, nil, false, "OK", false, 0},
	} {
		var nodes [2]*node
		c := &Cluster{Name: "test"}
		for i, answers := range [][]string{tt.first, tt.second} {
			if answers == nil {
				c.Addrs = append(c.Addrs, nobody(t))
				continue
			}
			nodes[i] = startNode(t, answers...)
			c.Addrs = append(c.Addrs, nodes[i].addr)
		}
		do := c.DoIdempotent
		if tt.tell {
			do = c.DoOnce
		}
		r, err := do(t.Context(), "LOCKS", "LIST")
		said := r.Str
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, tt.want) || errors.Is(err, ErrUnknown) != tt.unknown {
			t.Errorf("%s, tell %v: %v, %v; want %s", tt.name, tt.tell, r, err, tt.want)
		}
		if nodes[1] != nil && len(nodes[1].commands()) != tt.atSecond {
			t.Errorf("%s, tell %v: the second got %q", tt.name, tt.tell, nodes[1].commands())
		}
		c.Close()
	}
}

// One node alone is asked again where it has closed a connection that was kept.
func TestAskAgain(t *testing.T) {
	n := startNode(t, "+1\r\n", "", "+2\r\n", "", "")
	c := &Cluster{Addrs: []string{n.addr}}
	defer c.Close()
	for _, want := range []string{"1", "2"} {
		if r, err := c.DoIdempotent(t.Context(), "PING"); err != nil || r.Str != want {
			t.Errorf("%v, %v", r, err)
		}
	}
	if _, err := c.DoIdempotent(t.Context(), "PING"); err == nil {
		t.Error("who hangs up has answered")
	}
}

// A node that has closed a connection is asked once more, before another node is.
func TestAskTheSameAgain(t *testing.T) {
	n, other := startNode(t, "+1\r\n", "", "+2\r\n"), startNode(t, "+3\r\n")
	c := &Cluster{Addrs: []string{n.addr, other.addr}}
	defer c.Close()
	for _, want := range []string{"1", "2"} {
		if r, err := c.DoIdempotent(t.Context(), "PING"); err != nil || r.Str != want || c.Addr() != n.addr {
			t.Errorf("%v, %v", r, err)
		}
	}
}

// A greeting sends all that the configuration demands, and a refused greeting is an answer.
func TestGreeting(t *testing.T) {
	n := startNode(t, "+OK\r\n", "+PONG\r\n")
	c := &Cluster{Addrs: []string{n.addr}, Password: "secret", Name: "lockd-test", DB: 3}
	defer c.Close()
	if r, err := c.DoIdempotent(t.Context(), "PING"); err != nil || r.Str != "PONG" {
		t.Errorf("%v, %v", r, err)
	}
	if want := []string{"HELLO 3 AUTH default secret SETNAME lockd-test", "SELECT 3", "PING"}; !reflect.DeepEqual(n.asked, want) {
		t.Errorf("%q", n.asked)
	}
	n = startNode(t, "+PONG\r\n")
	guest := &Cluster{Addrs: []string{n.addr}, User: "guest"}
	defer guest.Close()
	if r, err := guest.DoIdempotent(t.Context(), "PING"); err != nil || r.Str != "PONG" || n.asked[0] != "HELLO 3 AUTH guest " {
		t.Errorf("a user without a password: %v, %v, %q", r, err, n.asked)
	}
	n = startNode(t)
	n.hello = "-NOAUTH HELLO must be\r\n"
	for _, do := range []func(context.Context, ...string) (resp.Reply, error){
		(&Cluster{Addrs: []string{n.addr}}).DoIdempotent, (&Cluster{Addrs: []string{n.addr}}).DoOnce,
	} {
		if r, err := do(t.Context(), "PING"); err != nil || !r.IsErr() || !strings.HasPrefix(r.Str, "NOAUTH") {
			t.Errorf("%v, %v", r, err)
		}
	}
}

// Ask ends with its context.
func TestAskEnds(t *testing.T) {
	n := startNode(t)
	n.hello = "+" // the rest never comes
	ctx, cancel := context.WithCancel(t.Context())
	c := &Cluster{Addrs: []string{n.addr, n.addr}}
	defer c.Close()
	ended := make(chan error)
	go func() {
		_, err := c.DoIdempotent(ctx, "PING")
		ended <- err
	}()
	cancel()
	if err := <-ended; err == nil {
		t.Error("there was an answer")
	}
}

// A deadlock is reported to the client that closed the cycle; another try would close it again.
func TestAnswersThatPass(t *testing.T) {
	for answer, want := range map[string]bool{
		"DEADLOCK a holds x and waits for x": false, "WRONGTYPE": false, "LOADING no leader": true, "MOVED 5 10.0.0.1:6379": true, "UNKNOWN": true,
		"BUSYKEY Target key name already exists.": false, "ERR syntax error": false, resp.ErrMaxClients: true,
		resp.ErrTokenElsewhere: true,
	} {
		if Temporary(answer) != want {
			t.Errorf("%s passes: %v", answer, !want)
		}
	}
}
