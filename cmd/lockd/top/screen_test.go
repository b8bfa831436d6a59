package top

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"lockd/internal/client"
	"lockd/internal/fakenode"
	"lockd/resp"
)

// fakeNode answers INFO and FORCE of one lock, and counts the latter.
type fakeNode struct {
	addr, info, force string

	mu     sync.Mutex
	forces []string
}

func startFake(t *testing.T, info resp.Reply, force string) *fakeNode {
	t.Helper()
	f := &fakeNode{info: string(info.AppendTo(nil, 3)), force: force}
	f.addr = fakenode.Listen(t, f.answer)
	return f
}

func (f *fakeNode) answer(words []string) string {
	switch {
	case words[0] == "HELLO":
		return "+OK\r\n"
	case words[1] == "INFO":
		return f.info
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forces = append(f.forces, strings.Join(words, " "))
	return f.force
}

// A force goes to the holder that was seen, once.
func TestSend(t *testing.T) {
	held := resp.Map(resp.Bulk("mode"), resp.Bulk("exclusive"), resp.Bulk("holders"),
		resp.Array(resp.Map(resp.Bulk("token"), resp.Bulk("lockd-ru..."), resp.Bulk("fence"), resp.Int(7))))
	for _, tt := range []struct {
		name   string
		info   resp.Reply
		force  string // the answer; "": the node hangs up
		fence  int64
		n      int64
		err    error
		forces int
	}{
		{"as seen", held, ":1\r\n", 7, 1, nil, 1},
		{"another holder with a token that begins alike", held, ":1\r\n", 6, 0, nil, 0},
		{"nobody has it", resp.Nil(), ":1\r\n", 7, 0, nil, 0},
		{"refused", held, "-NOPERM no\r\n", 7, 0, resp.Error("NOPERM no"), 1},
		{"no answer", held, "", 7, 0, client.ErrUnknown, 1},
		{"nothing may be asked", resp.Err("NOPERM no"), ":1\r\n", 7, 0, resp.Error("NOPERM no"), 0},
	} {
		f := startFake(t, tt.info, tt.force)
		other := startFake(t, tt.info, ":1\r\n")
		c := &client.Cluster{Addrs: []string{f.addr, other.addr}}
		told := func(f *fakeNode) []string {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.forces
		}
		n, err := send(t.Context(), c, Force{Key: "k", Fence: tt.fence, Token: "lockd-ru...", Reason: "r"})
		if n != tt.n || !errors.Is(err, tt.err) || len(told(f)) != tt.forces || len(told(other)) != 0 {
			t.Errorf("%s: %d, %v; it was told %q, another one %q", tt.name, n, err, told(f), told(other))
		}
		if tt.forces > 0 && !strings.HasPrefix(told(f)[0], "LOCKS FORCE k REASON r TOKEN lockd-ru...") {
			t.Errorf("%s: %q", tt.name, told(f))
		}
	}
}
