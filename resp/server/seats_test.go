package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Clients beyond the seats of the process are told so, whichever server they come to; who
// leaves makes room. Where there are fewer seats than before, who has one keeps it.
func TestSeats(t *testing.T) {
	var most atomic.Int64
	most.Store(2)
	seats := NewSeats(most.Load)
	srv, _, addr := startServer(t, func(c *Config) { c.Seats = seats })
	_, _, other := startServer(t, func(c *Config) { c.Seats = seats })
	first, second := dial(t, addr), dial(t, other)
	for _, c := range []*client{first, second} {
		c.send("PING\r\n")
		c.want("+PONG\r\n")
	}
	third := dial(t, addr)
	third.want("-ERR max number of clients reached\r\n")
	third.wantClosed()
	first.send("CONFIG SET maxclients 3\r\nCONFIG SET maxclients 2\r\nINFO clients\r\n")
	first.want("-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating system is not able to handle " +
		"the specified number of clients, try with 2\r\n+OK\r\n")
	second.conn.Close()
	eventually(t, "there is room", func() bool { return seats.taken.Load() == 1 })
	third = dial(t, addr)
	third.send("PING\r\n")
	third.want("+PONG\r\n")
	if taken, open := seats.taken.Load(), srv.count(); taken != 2 || open != 2 {
		t.Errorf("%d seats are taken by %d clients", taken, open)
	}
	most.Store(1)
	dial(t, other).want("-ERR max number of clients reached\r\n")
	third.send("PING\r\n")
	third.want("+PONG\r\n")
	most.Store(3)
	more := dial(t, other)
	more.send("PING\r\n")
	more.want("+PONG\r\n")
}

// failing is a listener that has no descriptors for a while.
type failing struct {
	net.Listener
	times int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.times--; f.times < 0 {
		return nil, net.ErrClosed
	}
	return nil, syscall.EMFILE
}

func (f *failing) Addr() net.Addr { return &net.TCPAddr{} }

// A listener that fails and fails is logged now and then.
func TestAcceptFailuresAreLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		srv := New(Config{Backend: newFake(), Log: slog.New(slog.NewTextHandler(&log, nil)), Clock: time.Now})
		const seconds = 25
		if err := srv.Serve(&failing{times: int(seconds * time.Second / acceptBackoff)}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "accept failed"); n != 3 || !strings.Contains(log.String(), "untold=199") {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
		srv.listeners = nil
		_ = srv.Shutdown(context.Background())
	})
}
