package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Replies of a pipeline may be more than one request may have: the rest of it is
// executed a little later, through any node.
func TestPipelineOfLargeReplies(t *testing.T) {
	t.Parallel()
	const size, gets = 1 << 20, 150
	cluster := startCluster(t, 3, calm...)
	leader := cluster.leader(t)
	if err := leader.client().Set(context.Background(), "large", strings.Repeat("x", size), 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*proc{leader, cluster.others(leader)[0]} {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(startTimeout))
		if _, err := io.WriteString(conn, strings.Repeat("GET large\r\n", gets)+"PING\r\n"); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		for i := range gets {
			head, err := in.ReadString('\n')
			if err != nil || head != fmt.Sprintf("$%d\r\n", size) {
				t.Fatalf("%s: reply %d begins with %q, %v", p.name, i, head, err)
			}
			if _, err := in.Discard(size + 2); err != nil {
				t.Fatal(err)
			}
		}
		if line, err := in.ReadString('\n'); line != "+PONG\r\n" {
			t.Errorf("%s: %q, %v", p.name, line, err)
		}
		_ = conn.Close()
	}
}
