package server

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockd/resp"
	"lockd/resp/server/wire"
)

// scriptConn is a client that sends chunks, then hangs up, and keeps what it got.
type scriptConn struct {
	chunks [][]byte
	mu     sync.Mutex
	out    []byte
}

func (c *scriptConn) Read(b []byte) (int, error) {
	for len(c.chunks) > 0 && len(c.chunks[0]) == 0 {
		c.chunks = c.chunks[1:]
	}
	if len(c.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.chunks[0])
	c.chunks[0] = c.chunks[0][n:]
	return n, nil
}

func (c *scriptConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, b...)
	return len(b), nil
}

func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *scriptConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// cutUp cuts data at pseudo-random places.
func cutUp(data []byte, seed uint64) [][]byte {
	var chunks [][]byte
	for len(data) > 0 {
		seed = seed*6364136223846793005 + 1442695040888963407
		n := 1 + int(seed>>59)
		if seed>>40&7 == 0 {
			n *= 40
		}
		n = min(n, len(data))
		chunks = append(chunks, data[:n])
		data = data[n:]
	}
	return chunks
}

// talk runs a whole session and returns what the client got.
func talk(chunks [][]byte, password string) []byte {
	fake := newFake()
	fake.waiting = nil
	srv := New(Config{Backend: fake, Password: password, Log: slog.New(slog.DiscardHandler), Clock: func() time.Time { return time.Unix(1, 0) }})
	fake.hub = srv.Hub()
	srv.Hub().Publish([]resp.Message{{Kind: resp.MessageConfig, Channel: "proto-max-bulk-len", Payload: "4096"},
		{Kind: resp.MessageConfig, Channel: "client-query-buffer-limit", Payload: "65536"}})
	conn := &scriptConn{chunks: chunks}
	s := srv.newSession(conn)
	s.serve()
	s.out.Finish(time.Time{})
	return conn.out
}

// countReplies reads out as replies; -1 if it is none.
func countReplies(out []byte) int {
	n := 0
	for len(out) > 0 {
		rest, ok := skipReply(out)
		if !ok {
			return -1
		}
		out = rest
		n++
	}
	return n
}

func skipReply(b []byte) ([]byte, bool) {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok || len(line) == 0 {
		return nil, false
	}
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return rest, true
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return nil, false
	}
	switch line[0] {
	case '$', '=':
		if n < 0 {
			return rest, true
		}
		if len(rest) < n+2 || rest[n] != '\r' {
			return nil, false
		}
		return rest[n+2:], true
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil, false
	}
	for ; n > 0; n-- {
		if rest, ok = skipReply(rest); !ok {
			return nil, false
		}
	}
	return rest, true
}

// commandsIn lists the commands of data, and says whether what follows them is an error of
// the protocol.
func commandsIn(data []byte, bulkMax int) (list []resp.Args, failed bool) {
	var in wire.Input
	for r := bytes.NewReader(data); r.Len() > 0; {
		in.Fill(r)
		for more := true; more; {
			cmds, next, err := in.Take(wire.Limits{BulkMax: bulkMax, QueryMax: 1 << 30, Trusted: true})
			if list = append(list, cmds...); err != nil {
				return list, true
			}
			more = next
		}
	}
	return list, false
}

func addSeeds(f *testing.F) {
	for _, seed := range []string{
		"*9000000000000000000\r\n", "*1\r\n$-2\r\n", "*0\r\n*-1\r\nPING\r\n", "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
		"SET a 1\r\nGET a\r\nQUIT\r\nPING\r\n", "MULTI\r\nSUBSCRIBE a\r\nPING\r\nUNSUBSCRIBE\r\nEXEC\r\n", "HELLO 3\r\nPSUBSCRIBE *\r\nPUBLISH a b\r\n",
		"ECHO \"\\x41\" 'b\\'c'\r\n", "WATCH a\r\nMULTI\r\nCONFIG GET *\r\nSELECT 3\r\nINCR a\r\nEXEC\r\n", "CLIENT REPLY SKIP\r\nPING\r\nPING\r\n",
		"COMMAND DOCS set\r\nCOMMAND GETKEYS EVAL x 1 a\r\nCLIENT KILL ID 1 SKIPME no\r\n", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\nxyz\r\n$", "*1\r\n$4097\r\n",
		"AUTH secret\r\n*11\r\n$4\r\nPING\r\n", "HELLO 2 AUTH default secret SETNAME x\r\nRESET\r\n", "\r\n\n \r\nPING\n",
	} {
		f.Add([]byte(seed), uint64(1))
	}
}

// Whatever a client sends, in whatever pieces: nothing panics or stalls, what
// comes back is whole replies, the same however the bytes were cut, and one for
// each command where commands answer once.
func FuzzSession(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		password := ""
		if seed&1 == 0 {
			password = "secret"
		}
		whole := talk([][]byte{data}, password)
		pieces := talk(cutUp(data, seed), password)
		n := countReplies(whole)
		cmds, failed := commandsIn(data, 4096)
		names := strings.ToLower(string(bytes.ToValidUTF8(data, nil)))
		if !strings.Contains(names, "client") && !bytes.Equal(whole, pieces) {
			t.Fatalf("whole %q, in pieces %q", whole, pieces)
		}
		subscribing := strings.Contains(names, "subscribe")
		if n < 0 && !subscribing {
			t.Fatalf("not replies: %q", whole)
		}
		if subscribing || strings.Contains(names, "client") || strings.Contains(names, "quit") || password != "" || len(data) > 60000 {
			return
		}
		want := len(cmds)
		if failed {
			want++
		}
		if i := slices.IndexFunc(cmds, func(a resp.Args) bool { return resp.Is(a[0], "POST") || resp.Is(a[0], "HOST:") }); i >= 0 {
			return
		}
		if n != want {
			t.Fatalf("%d replies to %d commands (error: %v): %q", n, len(cmds), failed, whole)
		}
	})
}
