package server

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/resp"
)

// Every subscriber sees messages in the order in which they were published, and
// the confirmation of its subscription before the first.
func TestPubSubOrder(t *testing.T) {
	srv, _, addr := startServer(t, nil)
	stop := make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				srv.Hub().Publish([]resp.Message{{Channel: "n", Payload: strconv.Itoa(i)}})
				if i%1000 == 0 {
					srv.Hub().broker.Settle() // subscribers that many messages wait for are dropped
				}
			}
		}
	}()
	defer close(stop)
	done := make(chan error, 8)
	for range 8 {
		c := dial(t, addr)
		go func() { done <- c.readNumbers(2000) }()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Pushes of RESP3 stand between replies, never inside one.
func TestPushesBetweenReplies(t *testing.T) {
	srv, fake, addr := startServer(t, nil)
	fake.values[0]["big"] = strings.Repeat("v", 100000)
	c := dial(t, addr)
	c.send("HELLO 3\r\nSUBSCRIBE n\r\n")
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				srv.Hub().Publish([]resp.Message{{Channel: "n", Payload: "p"}})
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	go c.conn.Write(bytes.Repeat([]byte("GET big\r\n"), 300))
	replies := 0
	for replies < 300 {
		line, err := c.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		switch line {
		case ">3\r\n":
			c.skipLines(t)
		case "$100000\r\n":
			c.want(fake.values[0]["big"] + "\r\n")
			replies++
		}
	}
}
