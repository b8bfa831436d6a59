package server

import (
	"context"
	"strings"
	"testing"
	"time"
)

func (s *Server) field(name string) string {
	for _, section := range s.Info() {
		for _, f := range section.Fields {
			if f.Name == name {
				return f.Value
			}
		}
	}
	return ""
}

// awaitBlocked waits until n clients are held back.
func (s *Server) awaitBlocked(t *testing.T, n string) {
	t.Helper()
	eventually(t, n+" clients are held back", func() bool { return s.field("blocked_clients") == n })
}

// A pause of writes holds back what may write, a transaction with a write in it too,
// after what came before is answered; nothing of it reaches the backend.
func TestPauseWrites(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	admin, reader, writer, tx := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr)
	tx.send("MULTI\r\nINCR n\r\nGET n\r\n")
	tx.want("+OK\r\n+QUEUED\r\n+QUEUED\r\n")
	admin.send("CLIENT PAUSE 100000 WRITE\r\n")
	admin.want("+OK\r\n")
	writer.send("GET k\r\nSET k 1\r\nGET k\r\n")
	writer.want("$-1\r\n")
	tx.send("EXEC\r\n")
	srv.awaitBlocked(t, "2")
	reader.send("MULTI\r\nGET k\r\nEXEC\r\nPING\r\nINCR n\r\n")
	reader.want("+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n+PONG\r\n")
	srv.awaitBlocked(t, "3")
	admin.send("CLIENT LIST\r\n")
	list := ""
	for !strings.HasSuffix(list, "\n\r\n") {
		list += admin.line()
	}
	if strings.Count(list, " flags=b ") != 2 || strings.Count(list, " flags=xb ") != 1 {
		t.Error(list)
	}
	fake.mu.Lock()
	if len(fake.values[0]) != 0 {
		t.Errorf("written: %v", fake.values[0])
	}
	fake.mu.Unlock()
	admin.send("CLIENT UNPAUSE\r\n")
	admin.want("+OK\r\n")
	writer.want("+OK\r\n$1\r\n1\r\n")
	tx.line()
	srv.awaitBlocked(t, "0")
}

// A pause of all holds back every command, and ends by itself.
func TestPauseAll(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	admin, other := dial(t, addr), dial(t, addr)
	start := time.Now()
	admin.send("CLIENT PAUSE 100\r\nPING\r\n")
	admin.want("+OK\r\n+PONG\r\n")
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("it ended after %v", took)
	}
	admin.send("CLIENT PAUSE 9223372036854775807\r\n")
	admin.want("+OK\r\n")
	other.send("PING\r\n")
	srv.awaitBlocked(t, "1")
	srv.pause.lift()
	other.want("+PONG\r\n")
}

// A second pause makes the present one stricter or longer, never milder; after its end a new one begins.
func TestPauseIsNeverMilder(t *testing.T) {
	var p pause
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	hold := func(all bool, until, now int) func() { return func() { p.hold(all, at(until), at(now)) } }
	for _, step := range []struct {
		what          string
		do            func()
		now           int
		reads, writes time.Duration // left
	}{
		{"a pause of writes", hold(false, 300, 0), 10, 0, 290},
		{"one of all, shorter", hold(true, 50, 10), 20, 280, 280},
		{"one of writes, shorter", hold(false, 30, 20), 30, 270, 270},
		{"one of writes, longer", hold(false, 400, 30), 30, 370, 370},
		{"its last moment", func() {}, 399, 1, 1},
		{"its end", func() {}, 400, 0, 0},
		{"a pause of writes after it", hold(false, 500, 400), 450, 0, 50},
		{"lifted", p.lift, 450, 0, 0},
	} {
		step.do()
		reads, _ := p.holds(false, at(step.now))
		writes, _ := p.holds(true, at(step.now))
		if reads != step.reads*time.Millisecond || writes != step.writes*time.Millisecond {
			t.Errorf("%s: reads wait %v, writes %v", step.what, reads, writes)
		}
	}
}

// A client that hangs up while it is held back is let go, and its command is not run;
// a server that stops waits for no pause.
func TestPauseEnds(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	admin, gone, stays := dial(t, addr), dial(t, addr), dial(t, addr)
	admin.send("CLIENT PAUSE 100000 WRITE\r\n")
	admin.want("+OK\r\n")
	gone.send("SET gone 1\r\n")
	srv.awaitBlocked(t, "1")
	gone.conn.Close()
	srv.awaitBlocked(t, "0")
	stays.send("SET stays 1\r\n")
	srv.awaitBlocked(t, "1")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	stays.want("+OK\r\n")
	if _, written := fake.values[0]["gone"]; written {
		t.Error("the command of a client that was gone has run")
	}
}
