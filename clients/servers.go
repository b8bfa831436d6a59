package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockd/internal/authority"
	"lockd/internal/freeport"
	"lockd/internal/process"
)

// masterName is the sentinels' name for the watched master.
const masterName = "mymaster"

// server is one server process.
type server struct {
	command process.Command
	addr    string // of its clients

	mu  sync.Mutex
	now *process.Process // nil: it has never been started
}

// newServer prepares a server, whose log has its name.
func newServer(dir, name, path, addr string, args ...string) *server {
	return &server{addr: addr, command: process.Command{
		Name: name, Path: path, Args: args, Log: filepath.Join(dir, name+".log"),
	}}
}

// start starts the server if it does not run.
func (s *server) start() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.now.Running() {
		s.now, err = s.command.Start()
	}
	return err
}

func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Kill()
}

// process returns the present process, or the last one.
func (s *server) process() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// target is a group of servers under test.
type target struct {
	nodes     []*server
	cluster   []*server // speak the cluster protocol
	sentinels []string  // addresses
	watchers  []*server // processes of sentinels that are not servers themselves
	tls       []string  // addresses at which nodes speak TLS
	certs     authority.Paths
	doctor    *examiner // nil: it has no LOCKS DOCTOR
	clocks    *clocks   // nil: the clocks of its nodes cannot be set
	dir       string
	closers   []func()
}

var targets = map[string]func(context.Context) (*target, error){
	"lockd": startLockd,
	"redis": startRedis,
}

// environment returns the variables that describe the target to a suite; addresses are separated by commas.
func (t *target) environment() []string {
	return []string{
		"CLIENTS_NODES=" + addresses(t.nodes),
		"CLIENTS_CLUSTER=" + addresses(t.cluster),
		"CLIENTS_SENTINELS=" + strings.Join(t.sentinels, ","),
		"CLIENTS_MASTER=" + masterName,
		"CLIENTS_TLS=" + strings.Join(t.tls, ","),
		"CLIENTS_CA=" + t.certs.CA,
	}
}

// addresses returns the addresses of nodes, separated by commas.
func addresses(nodes []*server) string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.addr)
	}
	return strings.Join(addrs, ",")
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

// whole heals a new target, or stops the started part of it.
func (t *target) whole(ctx context.Context) (*target, error) {
	if err := t.heal(ctx); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

// startMax bounds the start of all nodes.
const startMax = 30 * time.Second

// heal starts stopped servers and waits until the target is whole and calm: every node accepts a write and has caught
// up, and the sentinels agree. A node serves before it has caught up, but receives no messages then, and drops
// clients that subscribed too early.
func (t *target) heal(ctx context.Context) error {
	for _, s := range t.all() {
		if err := s.start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for _, s := range append(append([]*server{}, t.nodes...), t.cluster...) {
		if err := s.writable(ctx); err != nil {
			return err
		}
	}
	for _, nodes := range [][]*server{t.nodes, t.cluster} {
		if len(nodes) == 0 {
			continue
		}
		if err := eventually(ctx, func() error { return caughtUp(ctx, nodes) }); err != nil {
			return err
		}
	}
	return eventually(ctx, func() error { return t.sentinelsAgree(ctx) })
}

// eventually asks again until there is no error.
func eventually(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// ask returns a client for the runner's own questions. It retries nothing.
func ask(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: askMax, Protocol: 2})
}

// askEvery is the interval of polling.
const askEvery = 50 * time.Millisecond

// askMax bounds the time of a node's answer.
const askMax = time.Minute

// writable waits until the node takes a write.
func (s *server) writable(ctx context.Context) error {
	c := ask(s.addr)
	defer func() { _ = c.Close() }()
	return s.process().Await(ctx, askEvery, func(ctx context.Context) error {
		return c.Set(ctx, "clients:healthy", "1", time.Second).Err()
	})
}

// role is a node's answer to ROLE.
type role struct {
	leads  bool
	linked bool  // it is linked to the leader
	offset int64 // its replication offset
}

func roleOf(ctx context.Context, addr string) (role, error) {
	c := ask(addr)
	defer func() { _ = c.Close() }()
	said, err := c.Do(ctx, "ROLE").Slice()
	if err != nil {
		return role{}, err
	}
	var r role
	switch {
	case len(said) == 3 && said[0] == "master":
		r.leads = true
		r.offset, _ = said[1].(int64)
	case len(said) == 5 && said[0] == "slave":
		r.linked = said[3] == "connected"
		r.offset, _ = said[4].(int64)
	default:
		return role{}, fmt.Errorf("the role of %s is %v", addr, said)
	}
	return r, nil
}

// caughtUp fails unless one node leads and the others have the leader's earlier offset.
func caughtUp(ctx context.Context, nodes []*server) error {
	first, err := leader(ctx, nodes)
	if err != nil {
		return err
	}
	at, err := roleOf(ctx, first.addr)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		r, err := roleOf(ctx, n.addr)
		if err != nil {
			return err
		}
		if n != first && (!r.linked || r.offset < at.offset) {
			return fmt.Errorf("node %s has come to %d and not to %d", n.addr, r.offset, at.offset)
		}
	}
	return nil
}

// sentinelsAgree fails unless every sentinel names the leading node and is connected to it.
func (t *target) sentinelsAgree(ctx context.Context) error {
	first, err := leader(ctx, t.nodes)
	if err != nil {
		return err
	}
	for _, addr := range t.sentinels {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1, Protocol: 2})
		master, err := c.Master(ctx, masterName).Result()
		_ = c.Close()
		if err != nil {
			return fmt.Errorf("sentinel %s: %w", addr, err)
		}
		if named := net.JoinHostPort(master["ip"], master["port"]); named != first.addr || master["flags"] != "master" {
			return fmt.Errorf("sentinel %s takes %s for the %s, and %s leads", addr, named, master["flags"], first.addr)
		}
	}
	return nil
}

// leader finds the node that leads.
func leader(ctx context.Context, nodes []*server) (first *server, err error) {
	err = eventually(ctx, func() error {
		for _, n := range nodes {
			if r, err := roleOf(ctx, n.addr); err == nil && r.leads {
				first = n
				return nil
			}
		}
		return errors.New("no node says that it leads")
	})
	return first, err
}

// killLeader kills the node that leads, and answers its address.
func (t *target) killLeader(ctx context.Context, nodes []*server) (string, error) {
	n, err := leader(ctx, nodes)
	if err != nil {
		return "", err
	}
	t.doctor.ask(ctx, n.addr)
	n.kill()
	return n.addr, nil
}

// kill kills the node at an address of clients, and answers the address.
func (t *target) kill(ctx context.Context, addr string) (string, error) {
	for _, n := range t.nodes {
		if n.addr == addr {
			t.doctor.ask(ctx, n.addr)
			n.kill()
			return n.addr, nil
		}
	}
	return "", fmt.Errorf("there is no node at %q", addr)
}

// examine converts the findings of LOCKS DOCTOR after a suite into a result.
func (t *target) examine(ctx context.Context, s *suite, name string) ([]result, error) {
	if t.doctor == nil {
		return nil, nil
	}
	if err := t.heal(ctx); err != nil {
		return nil, err
	}
	for _, n := range append(append([]*server{}, t.nodes...), t.cluster...) {
		t.doctor.ask(ctx, n.addr)
	}
	return []result{t.doctor.judge(s, name)}, nil
}

// freeAddrs returns n addresses for servers that no other server has.
func freeAddrs(n int) ([]string, error) { return freeport.Addrs("127.0.0.1", n) }

// certificatesLast is longer than any run.
const certificatesLast = 24 * time.Hour

// certify makes an authority for the run, n addresses for TLS, and a certificate for them; clients need the authority
// alone.
func (t *target) certify(n int) (err error) {
	ca, err := authority.New("clients")
	if err != nil {
		return err
	}
	if t.certs, err = ca.Write(t.dir, certificatesLast, "127.0.0.1", "localhost"); err != nil {
		return err
	}
	t.tls, err = freeAddrs(n)
	return err
}

// certificate returns the flags by which lockd, and redis-server, use the certificate.
func (t *target) certificate() []string {
	return []string{
		"--tls-cert-file", t.certs.Cert, "--tls-key-file", t.certs.Key, "--tls-ca-cert-file", t.certs.CA,
		"--tls-auth-clients", "no",
	}
}

// startLockd builds lockd and starts a cluster of three nodes.
func startLockd(ctx context.Context) (*target, error) {
	dir, err := os.MkdirTemp("", "lockd-clients-")
	if err != nil {
		return nil, err
	}
	t := &target{dir: dir, doctor: &examiner{}, clocks: &clocks{dir: dir}}
	t.closers = append(t.closers, t.clocks.stop)
	binary := filepath.Join(dir, "lockd")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/lockd")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("go build ./cmd/lockd: %w", err)
	}
	sentinels, err := freeAddrs(lockdCount)
	if err != nil {
		return nil, err
	}
	t.sentinels = sentinels
	if err := t.certify(lockdCount); err != nil {
		return nil, err
	}
	if t.nodes, err = lockdNodes(binary, dir, "n", func(i int) []string {
		flags := []string{"--sentinel-listen", sentinels[i], "--master-name", masterName, "--tls-listen", t.tls[i]}
		return append(flags, t.certificate()...)
	}); err != nil {
		return nil, err
	}
	if t.cluster, err = lockdNodes(binary, dir, "c", func(int) []string {
		return []string{"--cluster-protocol"}
	}); err != nil {
		return nil, err
	}
	return t.whole(ctx)
}

const lockdCount = 3

// lockdNodes prepares a cluster; more are the arguments of a node beyond the usual.
func lockdNodes(binary, dir, prefix string, more func(i int) []string) ([]*server, error) {
	laid, err := process.Cluster(dir, prefix, lockdCount)
	if err != nil {
		return nil, err
	}
	var nodes []*server
	for i, node := range laid {
		nodes = append(nodes, newServer(dir, node.ID, binary, node.Addr, append(node.Args, more(i)...)...))
	}
	return nodes, nil
}

// startRedis starts the referee: one redis-server, a sentinel that watches it, and
// a redis-server that is a whole Redis Cluster.
func startRedis(ctx context.Context) (*target, error) {
	dir, err := os.MkdirTemp("", "redis-clients-")
	if err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(3)
	if err != nil {
		return nil, err
	}
	bus, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	_, busPort, _ := net.SplitHostPort(bus[0])
	t := &target{
		dir:       dir,
		sentinels: addrs[1:2],
		cluster: []*server{
			// A single node does not learn its address, which ioredis needs
			redisServer(dir, addrs[2], "cluster", "--cluster-enabled", "yes", "--cluster-port", busPort,
				"--cluster-config-file", filepath.Join(dir, "nodes.conf"), "--cluster-announce-ip", "127.0.0.1"),
		},
	}
	if err := t.certify(1); err != nil {
		return nil, err
	}
	_, tlsPort, _ := net.SplitHostPort(t.tls[0])
	t.nodes = []*server{redisServer(dir, addrs[0], "single", append(t.certificate(), "--tls-port", tlsPort)...)}
	if err := t.watch(addrs[0], addrs[1]); err != nil {
		return nil, err
	}
	if err := t.cluster[0].start(); err != nil {
		return nil, err
	}
	if err := giveAllSlots(ctx, addrs[2]); err != nil {
		return nil, err
	}
	return t.whole(ctx)
}

// watch prepares a sentinel, whose configuration file must be writable.
func (t *target) watch(redisAddr, addr string) error {
	host, port, _ := net.SplitHostPort(redisAddr)
	_, own, _ := net.SplitHostPort(addr)
	file := filepath.Join(t.dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 1\n",
		own, t.dir, masterName, host, port)
	t.watchers = []*server{newServer(t.dir, "sentinel", "redis-server", addr, file, "--sentinel")}
	return os.WriteFile(file, []byte(text), 0o644)
}

// giveAllSlots turns one redis-server into a separate cluster.
func giveAllSlots(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	c := ask(addr)
	defer func() { _ = c.Close() }()
	for c.Ping(ctx).Err() != nil && ctx.Err() == nil {
		time.Sleep(askEvery)
	}
	return c.ClusterAddSlotsRange(ctx, 0, 16383).Err()
}

func redisServer(dir, addr, name string, more ...string) *server {
	host, port, _ := net.SplitHostPort(addr)
	args := append(
		[]string{"--port", port, "--bind", host, "--dir", dir, "--save", "", "--dbfilename", name + ".rdb"},
		more...)
	return newServer(dir, name, "redis-server", addr, args...)
}
