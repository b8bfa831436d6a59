package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// clog connects a client that asks for more than a server holds for it, and reads
// nothing: its session waits for room until one of the two ends.
func clog(t *testing.T, addr string) {
	t.Helper()
	const size, heldMax = 1 << 20, 32 << 20
	c, ctx := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true, ReadTimeout: startTimeout}), context.Background()
	defer c.Close()
	if err := c.Set(ctx, "large", make([]byte, size), 0).Err(); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, strings.Repeat("GET large\r\n", 2*heldMax/size)); err != nil {
		t.Fatal(err)
	}
	held := regexp.MustCompile(` omem=(\d{8,}) `)
	eventually(t, startTimeout, "a session waits for room", func() error {
		m := held.FindStringSubmatch(c.ClientList(ctx).Val())
		if m == nil {
			return errors.New("no client is held much for")
		}
		if n, _ := strconv.Atoi(m[1]); n <= heldMax {
			return fmt.Errorf("%d bytes are held", n)
		}
		return nil
	})
}

// A client that the leader cannot finish with is cut off, and takes nothing of the
// time in which leadership is handed over.
func TestStopHandsOverBehindCloggedClient(t *testing.T) {
	ports := freePorts(t, 6)
	var members []string
	for i := range 3 {
		members = append(members, fmt.Sprintf("n%d=127.0.0.1:%d", i+1, ports[3+i]))
	}
	dir, log := t.TempDir(), &logBuffer{}
	byAddr := map[string]*instance{}
	var cluster nodes
	for i := range 3 {
		id, addr := fmt.Sprintf("n%d", i+1), fmt.Sprintf("127.0.0.1:%d", ports[i])
		cmd, _, err := parse(append([]string{"serve", "--id", id, "--dir", filepath.Join(dir, id), "--cluster", strings.Join(members, ","),
			"--listen", addr, "--peer-listen", fmt.Sprintf("127.0.0.1:%d", ports[3+i])}, calm...), nil, log)
		if err != nil {
			t.Fatal(err)
		}
		node, err := start(cmd.(*serveCmd), cmd.(*serveCmd).logger(log))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(node.stop)
		byAddr[addr] = node
		cluster = append(cluster, &proc{t: t, name: id, addr: addr}) // only what clients need
	}
	leader := cluster.leader(t)
	clog(t, leader.addr)
	byAddr[leader.addr].stopWithin(50*time.Millisecond, startTimeout)
	if text := log.String(); !strings.Contains(text, "some clients were cut off") || strings.Contains(text, "could not be handed over") {
		t.Errorf("the log:\n%s", log.tail(20))
	}
}

// The first signal starts an orderly stop; a second one ends the process at once.
func TestSecondSignalEnds(t *testing.T) {
	t.Parallel()
	p := startSingle(t)
	clog(t, p.addr)
	p.Signal(syscall.SIGTERM)
	eventually(t, startTimeout, "a second signal ends the process", func() error {
		if !p.Running() {
			return nil
		}
		p.Signal(syscall.SIGTERM)
		return errors.New("it runs")
	})
	if end := p.State().Sys().(syscall.WaitStatus); end.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", p.State())
	}
}
