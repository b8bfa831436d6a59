//go:build golden

package server

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockd/resp"
)

// Every transcript holds against a real Redis, whose address LOCKD_GOLDEN_REDIS
// gives (7.0.15; it is emptied). With -rewrite its answers are written into the
// transcripts.
func TestGolden(t *testing.T) {
	addr := os.Getenv("LOCKD_GOLDEN_REDIS")
	if addr == "" {
		t.Fatal("LOCKD_GOLDEN_REDIS is not set to host:port of a redis-server")
	}
	for _, tr := range readTranscripts(t) {
		if tr.ours {
			continue
		}
		t.Run(filepath.Base(tr.name), func(t *testing.T) {
			ask(t, addr, "", "FLUSHALL")
			ask(t, addr, "", "CONFIG", "SET", "requirepass", tr.password)
			defer ask(t, addr, tr.password, "CONFIG", "SET", "requirepass", "")
			tr.run(t, addr, nil, *rewrite)
		})
	}
}

// ask runs a command that answers +OK.
func ask(t *testing.T, addr, password string, words ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	var msg, want []byte
	if password != "" {
		msg, want = resp.AppendCommand(nil, "AUTH", password), []byte("+OK\r\n")
	}
	want = append(want, "+OK\r\n"...)
	conn.Write(resp.AppendCommand(msg, words...))
	got := make([]byte, 0, 64)
	for len(got) < len(want) {
		var b [64]byte
		n, err := conn.Read(b[:])
		if err != nil {
			t.Fatal(words, err)
		}
		got = append(got, b[:n]...)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%q: %q", words, got)
	}
}
