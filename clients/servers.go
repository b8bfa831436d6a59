package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// masterName is what the sentinels call the one they watch.
const masterName = "mymaster"

// server is one process.
type server struct {
	path, log string
	args      []string
	addr      string // of its clients

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		select {
		case <-s.exited:
		default:
			return nil
		}
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.path, s.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	return nil
}

func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.exited
}

// target is what suites run against.
type target struct {
	nodes     []*server
	cluster   []*server // speak the cluster protocol
	sentinels []string  // addresses
	watchers  []*server // processes of sentinels, where they are processes of their own
	dir       string
	closers   []func()
}

var targets = map[string]func(context.Context) (*target, error){
	"lockd": startLockd,
	"redis": startRedis,
}

// environment is what a suite learns of the target: addresses, with commas between.
func (t *target) environment() []string {
	list := func(nodes []*server) string {
		var addrs []string
		for _, n := range nodes {
			addrs = append(addrs, n.addr)
		}
		return strings.Join(addrs, ",")
	}
	return []string{
		"CLIENTS_NODES=" + list(t.nodes),
		"CLIENTS_CLUSTER=" + list(t.cluster),
		"CLIENTS_SENTINELS=" + strings.Join(t.sentinels, ","),
		"CLIENTS_MASTER=" + masterName,
	}
}

func (t *target) all() []*server {
	return append(append(append([]*server{}, t.nodes...), t.cluster...), t.watchers...)
}

func (t *target) stop() {
	for _, s := range t.all() {
		s.kill()
	}
	for _, c := range t.closers {
		c()
	}
	_ = os.RemoveAll(t.dir)
}

// startMax bounds the start of all nodes.
const startMax = 30 * time.Second

// heal starts what does not run, and waits until every node takes a write.
func (t *target) heal(ctx context.Context) error {
	for _, s := range t.all() {
		if err := s.start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for _, s := range append(append([]*server{}, t.nodes...), t.cluster...) {
		if err := writable(ctx, s.addr); err != nil {
			return fmt.Errorf("node %s: %w", s.addr, err)
		}
	}
	return nil
}

// ask is a client for the runner's own questions: it tries nothing twice.
func ask(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: 5 * time.Second, Protocol: 2})
}

func writable(ctx context.Context, addr string) error {
	c := ask(addr)
	defer c.Close()
	for {
		err := c.Set(ctx, "clients:healthy", "1", time.Second).Err()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// leader finds the node that leads.
func (t *target) leader(ctx context.Context) (*server, error) {
	for {
		for _, n := range t.nodes {
			c := ask(n.addr)
			role, err := c.Do(ctx, "ROLE").Slice()
			_ = c.Close()
			if err == nil && len(role) > 0 && role[0] == "master" {
				return n, nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.New("no node says that it leads")
		}
	}
}

// killLeader kills the node that leads, in the cluster of plain clients and in that
// of cluster clients.
func (t *target) killLeader(ctx context.Context) (string, error) {
	n, err := t.leader(ctx)
	if err != nil {
		return "", err
	}
	n.kill()
	return n.addr, nil
}

// The ports of servers lie below those that the kernel gives to outgoing
// connections: one of these could take the place of a server that is down.
const (
	portMin = 15_000
	portMax = 31_000
)

// freeAddrs finds n free addresses on loopback.
func freeAddrs(n int) ([]string, error) {
	var addrs []string
	for try := 0; len(addrs) < n; try++ {
		addr := fmt.Sprintf("127.0.0.1:%d", portMin+rand.IntN(portMax-portMin))
		ln, err := net.Listen("tcp", addr)
		if err != nil && try < 100*n {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer ln.Close()
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// startLockd builds lockd and starts three nodes of it.
func startLockd(ctx context.Context) (*target, error) {
	dir, err := os.MkdirTemp("", "lockd-clients-")
	if err != nil {
		return nil, err
	}
	t := &target{dir: dir}
	binary := filepath.Join(dir, "lockd")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/lockd")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("go build ./cmd/lockd: %w", err)
	}
	if t.nodes, err = lockdNodes(binary, dir, "n"); err != nil {
		return nil, err
	}
	return t, t.heal(ctx)
}

func lockdNodes(binary, dir, prefix string, more ...string) ([]*server, error) {
	const count = 3
	addrs, err := freeAddrs(2 * count)
	if err != nil {
		return nil, err
	}
	var nodes []*server
	var members []string
	for i := range count {
		members = append(members, fmt.Sprintf("%s%d=%s", prefix, i+1, addrs[count+i]))
	}
	for i := range count {
		id := fmt.Sprintf("%s%d", prefix, i+1)
		args := append([]string{"serve", "--id", id, "--listen", addrs[i], "--peer-listen", addrs[count+i],
			"--dir", filepath.Join(dir, id), "--cluster", strings.Join(members, ",")}, more...)
		nodes = append(nodes, &server{path: binary, log: filepath.Join(dir, id+".log"), args: args, addr: addrs[i]})
	}
	return nodes, nil
}

// startRedis starts the referee: one redis-server.
func startRedis(ctx context.Context) (*target, error) {
	dir, err := os.MkdirTemp("", "redis-clients-")
	if err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	t := &target{dir: dir, nodes: []*server{redisServer(dir, addrs[0], "single")}}
	return t, t.heal(ctx)
}

func redisServer(dir, addr, name string, more ...string) *server {
	host, port, _ := net.SplitHostPort(addr)
	args := append([]string{"--port", port, "--bind", host, "--dir", dir, "--save", "", "--dbfilename", name + ".rdb"}, more...)
	return &server{path: "redis-server", log: filepath.Join(dir, name+".log"), args: args, addr: addr}
}
