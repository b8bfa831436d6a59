package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A node with few file descriptors turns the clients away that it has none for, and
// goes on.
func TestIdleClientsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	addr := "127.0.0.1:" + strconv.Itoa(ports[0])
	p := launchIn(t, []string{"sh", "-c", `ulimit -n 336; exec "$0" "$@"`}, "single", addr,
		"serve", "--listen", addr, "--peer-listen", "127.0.0.1:"+strconv.Itoa(ports[1]), "--dir", t.TempDir())
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
