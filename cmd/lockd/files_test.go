package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The number of clients is fitted to the limit of open files, which is raised first.
func TestSeatsFitFiles(t *testing.T) {
	const need = clientsDefault + filesReserved
	for name, tt := range map[string]struct {
		cur, hard uint64 // the limit; hard is the most that can be set
		want      int64  // clients; without an answer no bound
		says      string
	}{
		"enough":        {need + 5, need + 5, clientsDefault + 5, ""},
		"wants more":    {need + 5, need + 5, clientsDefault + 5, "You requested maxclients of 20000 requiring at least 20256 max file descriptors."},
		"can be raised": {1024, need, clientsDefault, "Increased maximum number of open files to 10256 (it was originally set to 1024)."},
		"too low":       {336, 336, 80, "maxclients has been reduced to 80 to compensate for low ulimit"},
		"far too low":   {256, 256, math.MaxInt64, "your current 'ulimit -n' of 256 is not enough for the server to start: increase your open file limit to at least 10256"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logBuffer{}
			f := files{
				get: func(l *fileLimit) error { l.Cur, l.Max = tt.cur, tt.cur; return nil },
				set: func(l *fileLimit) error {
					if l.Cur > tt.hard {
						return syscall.EPERM
					}
					tt.cur = l.Cur
					return nil
				},
			}
			wanted := int64(clientsDefault)
			if name == "wants more" {
				wanted *= 2
			}
			s, err := f.seats(wanted, filesReserved, slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				_, _ = io.WriteString(log, err.Error())
			}
			if got := s.Max(); got != tt.want || !strings.Contains(log.String(), tt.says) || tt.says == "" && log.String() != "" {
				t.Errorf("%d clients; the log:\n%s", got, log)
			}
		})
	}
}

// The number of clients follows a limit that changes while the process runs.
func TestSeatsFollowFiles(t *testing.T) {
	const enough = clientsDefault + filesReserved
	now, failure := uint64(enough), error(nil)
	f := files{get: func(l *fileLimit) error { l.Cur, l.Max = now, enough; return failure }}
	s, err := f.seats(clientsDefault, filesReserved, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		limit   uint64
		failure error
		want    int64
	}{
		{filesReserved + 7, nil, 7},
		{filesReserved - 1, nil, 0},
		{1, syscall.EPERM, 0}, // as it was
		{enough, nil, clientsDefault},
		{math.MaxUint64, nil, 1<<30 - filesReserved},
	} {
		if now, failure = step.limit, step.failure; s.Max() != step.want {
			t.Errorf("%d clients with %d files (%v), want %d", s.Max(), step.limit, failure, step.want)
		}
	}
}

// A node with few file descriptors turns the clients away that it has none for, and
// goes on.
func TestIdleClientsLeaveDescriptors(t *testing.T) {
	ports := freePorts(t, 2)
	p := &proc{t: t, name: "single", addr: "127.0.0.1:" + strconv.Itoa(ports[0]), log: &logBuffer{},
		wrap: []string{"sh", "-c", `ulimit -n 336; exec "$0" "$@"`}}
	p.args = []string{"serve", "--listen", p.addr, "--peer-listen", "127.0.0.1:" + strconv.Itoa(ports[1]), "--dir", t.TempDir()}
	p.start()
	t.Cleanup(p.kill)
	p.awaitServing()
	c, ctx := p.client(), context.Background()
	if err := c.Ping(ctx).Err(); err != nil { // from now on it has a connection
		t.Fatal(err)
	}
	refused := 0
	for range 300 {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(startTimeout))
		_, _ = io.WriteString(conn, "PING\r\n") // one that is turned away may be closed already
		line, err := bufio.NewReader(conn).ReadString('\n')
		switch {
		case line == "+PONG\r\n":
		case line == "-ERR max number of clients reached\r\n", err != nil && strings.Contains(err.Error(), "reset"):
			refused++
		default:
			t.Fatalf("%q, %v", line, err)
		}
	}
	lowered := strings.Contains(p.log.String(), "maxclients has been reduced")
	if lowered != (refused > 0) {
		t.Errorf("%d connections refused; the log:\n%s", refused, p.log)
	}
	for i := range 200 {
		if err := c.Set(ctx, strconv.Itoa(i), strings.Repeat("x", 1000), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Save(ctx).Err(); err != nil {
		t.Error(err)
	}
	if strings.Contains(p.log.String(), "accept failed") {
		t.Errorf("the log:\n%s", p.log)
	}
}
