package freeport

import (
	"fmt"
	"net"
	"testing"
)

// No port is given twice, and each lies in a block that no other process can hold.
func TestPorts(t *testing.T) {
	seen := map[int]bool{}
	const n = blockSize * 3 / 5 // two times so many are of two blocks
	for range 2 {
		ports, err := Ports("127.0.0.1", n)
		if err != nil || len(ports) != n {
			t.Fatalf("%d ports, %v", len(ports), err)
		}
		for _, p := range ports {
			first := p - p%blockSize
			if seen[p] || p < portMin || p >= portMax || p == first {
				t.Errorf("port %d is given", p)
			}
			seen[p] = true
			if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first)); err == nil {
				ln.Close()
				t.Errorf("port %d is given, and %d is free", p, first)
			}
		}
	}
}

// A port with a listener is not given out.
func TestPortTaken(t *testing.T) {
	addrs, err := Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	mine.Lock()
	if mine.next == mine.end {
		if err := hold(); err != nil {
			t.Fatal(err)
		}
	}
	taken := mine.next
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", taken))
	mine.Unlock()
	if err == nil { // else it is taken already
		defer ln.Close()
	}
	next, err := Ports("127.0.0.1", 1)
	if err != nil || next[0] == taken || addrs[0] == fmt.Sprintf("127.0.0.1:%d", next[0]) {
		t.Errorf("%v after %v, %v, although somebody listens at %d", next, addrs, err, taken)
	}
}

// An address that is not this machine's is an error.
func TestNoHost(t *testing.T) {
	if ports, err := Ports("192.0.2.1", 1); err == nil {
		t.Errorf("%v are free at another machine", ports)
	}
}
