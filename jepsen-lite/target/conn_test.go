package target

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// A push of RESP3 that comes before a reply is kept for Wait. A map is read as an array, and null as nil.
func TestPushes(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	c := &Conn{conn: client, r: bufio.NewReader(client)}
	defer c.Close()
	go func() {
		_, _ = server.Read(make([]byte, 1024))
		_, _ = io.WriteString(server, ">2\r\n$4\r\nlost\r\n:7\r\n%1\r\n+proto\r\n:3\r\n>1\r\n+later\r\n_\r\n>1\r\n+last\r\n")
	}()
	replies, err := c.Pipe(time.Minute, []string{"HELLO", "3"}, []string{"GET", "k"})
	if err != nil || fmt.Sprint(replies[0].Texts()) != "[proto 3]" || !replies[1].Nil {
		t.Fatalf("%+v, %v", replies, err)
	}
	for _, want := range []string{"[lost 7]", "[later]", "[last]"} {
		if r, err := c.Wait(time.Minute); err != nil || r.Kind != '>' || fmt.Sprint(r.Texts()) != want {
			t.Errorf("%+v, %v, want %s", r, err, want)
		}
	}
}
