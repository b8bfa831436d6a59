// Package freeport chooses ports of loopback for servers that a program or a test is about to start.
//
// A port belongs to a server from before it first listens there until after it has been killed and started again. So
// the ports lie below those that systems give to outgoing connections, and in blocks, each held by one process: a
// process reserves a block by listening on its first port, until the process ends.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Blocks lie from portMin to below portMax; their first ports are never given out.
const (
	portMin   = 10_000
	portMax   = 32_000
	blockSize = 100
)

// After this many failures in a row the cause is not another process's port.
const failuresMax = 20

var mine struct {
	sync.Mutex
	holds     []net.Listener // one for each block of this process
	next, end int            // the rest of the last block
}

// Ports returns n ports that are free at host, an address of loopback. No port is returned twice in the life of a
// process. It is safe for concurrent use.
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

// Addrs returns n addresses of host with such ports.
func Addrs(host string, n int) ([]string, error) {
	ports, err := Ports(host, n)
	var addrs []string
	for _, p := range ports {
		addrs = append(addrs, net.JoinHostPort(host, strconv.Itoa(p)))
	}
	return addrs, err
}

// hold reserves a free block.
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
