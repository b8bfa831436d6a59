package server

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockd/resp/server/access"
)

// Logins of an address with too many wrong passwords are refused for a while; other addresses are not affected. The
// log names the address and user, and not the passwords.
func TestWrongPasswords(t *testing.T) {
	var log safeText
	var passed atomic.Int64
	begin := time.Now()
	_, _, addr := startServer(t, func(c *Config) {
		c.Password, c.Log = "right", slog.New(slog.NewTextHandler(&log, nil))
		c.Clock = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
	})
	c := dial(t, addr)
	for range access.GuessesMax / 2 {
		c.send("AUTH guess\r\nHELLO 3 AUTH default guess\r\n")
		const no = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		c.want(no + no)
	}
	const wait = "-WRONGPASS too many wrong passwords from this address: try again in 60 s\r\n"
	c.send("AUTH right\r\nAUTH guess\r\nHELLO 3 AUTH default right\r\n")
	c.want(wait + wait + wait)
	passed.Store(int64(access.GuessesWithin))
	c.send("AUTH guess\r\nAUTH right\r\n")
	c.want("-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n")
	if text := log.String(); strings.Count(text, "level=WARN") != 2 || !strings.Contains(text, "addr=127.0.0.1:") || strings.Contains(text, "guess") {
		t.Errorf("the log says\n%s", text)
	}
}

// safeText is written by one goroutine and read by another.
type safeText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *safeText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *safeText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
