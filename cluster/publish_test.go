package cluster

import (
	"net"
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
