package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// clocks starts three nodes of a test build, whose wall clocks can be set, when a suite first asks for them; they end
// with the target. Its methods may be called concurrently.
type clocks struct {
	dir string

	mu     sync.Mutex
	nodes  []*server
	faults map[string]string // address of each node's fault port, by the node's address
}

// clockAnswerMax bounds an answer of a fault port.
const clockAnswerMax = 5 * time.Second

// clocksMax bounds the build of the nodes and their start.
const clocksMax = 5 * time.Minute

// start returns the addresses of the nodes, separated by commas.
func (c *clocks) start(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clocksMax)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil {
		if err := c.prepare(ctx); err != nil {
			return "", err
		}
	}
	t := target{nodes: c.nodes}
	return addresses(c.nodes), t.heal(ctx)
}

func (c *clocks) prepare(ctx context.Context) error {
	binary := filepath.Join(c.dir, "lockd-faults")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "faults", "-o", binary, "./cmd/lockd")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build -tags faults ./cmd/lockd: %w: %s", err, out)
	}
	nodes, err := lockdNodes(binary, c.dir, "w", func(int) []string { return nil })
	if err != nil {
		return err
	}
	ports, err := freeAddrs(len(nodes))
	if err != nil {
		return err
	}
	c.faults = map[string]string{}
	for i, n := range nodes {
		n.command.Env = append(os.Environ(), "LOCKD_FAULT_LISTEN="+ports[i])
		c.faults[n.addr] = ports[i]
	}
	c.nodes = nodes
	return nil
}

// leader returns the address of the node that leads.
func (c *clocks) leader(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := leader(ctx, c.nodes)
	if err != nil {
		return "", err
	}
	return n.addr, nil
}

// set makes the clock of the node at an address wrong by ms, and corrects those of the other nodes.
func (c *clocks) set(addr, ms string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults[addr] == "" {
		return fmt.Errorf("there is no node at %q", addr)
	}
	for node, port := range c.faults {
		lines := []string{"reset"}
		if node == addr {
			lines = append(lines, "clock "+ms+" 0")
		}
		for _, line := range lines {
			if err := tellFault(port, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// tellFault sends a line to a fault port.
func tellFault(addr, line string) error {
	conn, err := net.DialTimeout("tcp", addr, clockAnswerMax)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(clockAnswerMax))
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(answer, "ok") {
		err = fmt.Errorf("%s: %s", line, strings.TrimSpace(answer))
	}
	return err
}

func (c *clocks) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		n.kill()
	}
}
