// Package freeport chooses ports of loopback for servers that a program or a test is
// going to start.
//
// A port stays a server's own from before it listens there for the first time until
// after it has been killed and started again. So what is given lies below the ports that
// systems lend to outgoing connections, and in blocks of which each belongs to one
// process: one that uses this package holds a block against all others that do by
// listening at its first port, until it ends.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Blocks lie from portMin to below portMax; their first ports are not given.
const (
	portMin   = 10_000
	portMax   = 32_000
	blockSize = 100
)

// After so many failures in a row it is not that somebody else listens.
const failuresMax = 20

var mine struct {
	sync.Mutex
	holds     []net.Listener // one for each of our blocks
	next, end int            // what is left of the last one
}

// Ports gives n ports that are free at host, an address of loopback. No port is given
// twice in the life of a process. It may be called concurrently.
func Ports(host string, n int) ([]int, error) {
	mine.Lock()
	defer mine.Unlock()
	var ports []int
	for failures := 0; len(ports) < n; {
		if mine.next == mine.end {
			if err := hold(); err != nil {
				return nil, err
			}
		}
		port := mine.next
		mine.next++
		ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			if failures++; failures > failuresMax {
				return nil, fmt.Errorf("no free port: %w", err)
			}
			continue
		}
		_ = ln.Close()
		failures = 0
		ports = append(ports, port)
	}
	return ports, nil
}

// Addrs gives n addresses of host with such ports.
func Addrs(host string, n int) ([]string, error) {
	ports, err := Ports(host, n)
	var addrs []string
	for _, p := range ports {
		addrs = append(addrs, net.JoinHostPort(host, strconv.Itoa(p)))
	}
	return addrs, err
}

// hold takes a block that nobody has.
func hold() error {
	const blocks = (portMax - portMin) / blockSize
	from := rand.IntN(blocks)
	for i := range blocks {
		first := portMin + (from+i)%blocks*blockSize
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first)); err == nil {
			mine.holds = append(mine.holds, ln)
			mine.next, mine.end = first+1, first+blockSize
			return nil
		}
	}
	return errors.New("no free port: others hold all of them")
}
