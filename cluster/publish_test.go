package cluster

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answerOnce is a server that gives one answer to whatever it is sent.
func answerOnce(t *testing.T, answer string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 1024)
		_, _ = conn.Read(buf)
		_, _ = conn.Write([]byte(answer))
	}()
	return ln.Addr().String()
}

// Every node's subscribers hear the same messages in the order of the log, wherever
// they were published.
func TestMessagesInLogOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		c.settle()
		var want []string
		for i := range 30 {
			n := c.others(nil)[i%3]
			c.expect(n, fmt.Sprintf("PUBLISH ch m%d", i), ":0")
			want = append(want, fmt.Sprintf("ch=m%d", i))
		}
		time.Sleep(time.Second)
		for _, n := range c.others(nil) {
			if said := n.pub.said(); !strings.HasSuffix(said, strings.Join(want, " ")) {
				t.Errorf("%s heard %q", n.id, said)
			}
		}
	})
}

// A restart publishes nothing again, but for settings. Whoever subscribed before the
// node knew that its old log is committed is told to look again, and nobody who came
// later. What comes after is heard once.
func TestReplayIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		c.expect(leader, "PUBLISH ch old", ":0")
		c.expect(leader, "CONFIG on", "+OK")
		c.expect(leader, "PUBLISH ch old", ":0")
		time.Sleep(time.Second)
		n := c.others(leader)[0]
		c.kill(n.id)
		c.start(n.id)
		time.Sleep(5 * time.Second)
		c.expect(n, "PUBLISH ch new", ":0")
		time.Sleep(time.Second)
		if got, want := n.pub.said(), "conf= DROP conf=on conf=on ch=new"; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
}

// A node that hears of no leader drops its subscribers, once, and they hear again
// from it afterwards.
func TestCutOffNodeDropsSubscribers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3)
		defer c.close()
		leader := c.settle()
		n := c.others(leader)[0]
		c.cut(n)
		time.Sleep(time.Minute)
		if got, want := n.pub.said(), "conf= DROP"; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
		c.expect(leader, "PUBLISH ch late", ":0")
		c.net.Heal()
		time.Sleep(5 * time.Second)
		if got, want := n.pub.said(), "conf= DROP ch=late"; got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	})
}
