package server

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An address that gives wrong passwords is not listened to for a while, whatever it says; others are. The log
// says who it is, and not what he has tried.
func TestWrongPasswords(t *testing.T) {
	var log safeText
	var passed atomic.Int64
	begin := time.Now()
	_, _, addr := startServer(t, func(c *Config) {
		c.Password, c.Log = "right", slog.New(slog.NewTextHandler(&log, nil))
		c.Clock = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
	})
	c := dial(t, addr)
	for range wrongPasswordsMax / 2 {
		c.send("AUTH guess\r\nHELLO 3 AUTH default guess\r\n")
		const no = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
		c.want(no + no)
	}
	const wait = "-WRONGPASS too many wrong passwords from this address: try again in 60 s\r\n"
	c.send("AUTH right\r\nAUTH guess\r\nHELLO 3 AUTH default right\r\n")
	c.want(wait + wait + wait)
	passed.Store(int64(wrongPasswordsWithin))
	c.send("AUTH guess\r\nAUTH right\r\n")
	c.want("-WRONGPASS invalid username-password pair or user is disabled.\r\n+OK\r\n")
	if text := log.String(); strings.Count(text, "level=WARN") != 2 || !strings.Contains(text, "addr=127.0.0.1:") || strings.Contains(text, "guess") {
		t.Errorf("the log says\n%s", text)
	}
}

// What is remembered is bounded, and a network of IPv6 is one address.
func TestWrongPasswordsAreBounded(t *testing.T) {
	now := time.Now()
	g := newGuesses(slog.New(slog.DiscardHandler), func() time.Time { return now })
	at := func(text string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for i := range wrongPasswordsAddrMax + 100 {
		g.wrong(at(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)), "default", now)
	}
	if len(g.of) != wrongPasswordsAddrMax {
		t.Errorf("%d are remembered", len(g.of))
	}
	for i := range wrongPasswordsMax {
		g.wrong(at(fmt.Sprintf("[2001:db8::%x]:1", i)), "default", now)
	}
	if g.wait(at("[2001:db8::ffff]:9"), now) != wrongPasswordsWithin || g.wait(at("[2001:db8:0:1::1]:9"), now) != 0 {
		t.Error("a network of IPv6 is not one address")
	}
	now = now.Add(wrongPasswordsWithin)
	g.wrong(at("10.9.9.9:1"), "default", now)
	if len(g.of) != 1 {
		t.Errorf("%d are remembered after their time", len(g.of))
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
