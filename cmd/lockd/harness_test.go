package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockd/internal/freeport"
	"lockd/internal/process"
	"lockd/internal/strict"
)

// The end-to-end tests run real lockd processes: the test binary itself, told by
// this variable to be lockd. So a kill -9 is a kill -9, and the race detector
// watches the servers too.
const runAsServer = "LOCKD_TEST_RUN_AS_SERVER"

// runInTerminal does the same for a process whose input is a terminal, and which does not end with its input.
const runInTerminal = "LOCKD_TEST_RUN_IN_TERMINAL"

func TestMain(m *testing.M) {
	if os.Getenv(runInTerminal) != "" {
		os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
	}
	if os.Getenv(runAsServer) != "" {
		go func() { // the test process holds the other end: if it dies, so do its servers
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
		os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
	}
	redis.SetLogger(silent{})
	runAtOnce(testsAtOnce)
	os.Exit(m.Run())
}

// testsAtOnce bounds the parallel tests that run at the same time. It exceeds the processors of a small machine: tests
// of clusters mostly wait, for elections and for leases.
const testsAtOnce = 6

// runAtOnce sets the flag -parallel to n, unless it was given.
func runAtOnce(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // fails only if there were no such flag
	}
}

// silent keeps go-redis from reporting every failed dial: the tests kill servers.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// proc is one lockd process of a test.
type proc struct {
	*process.Process
	t    *testing.T
	name string
	addr string   // for clients
	args []string // of its next start
	wrap []string // the command that runs lockd, if it is not run by itself
	log  processLog
}

// startTimeout bounds the wait for an event. It far exceeds the usual time, because the machine may have other work.
const startTimeout = 60 * time.Second

// calm are flags for clusters of tests that need a stable leader: a pause of the machine for two seconds causes no
// election. Such a cluster takes longer to start.
var calm = []string{"--heartbeat", "2s", "--leader-wait", "20s"}

// patient returns flags for clusters whose leader is killed: writes wait for an election that a busy machine delays.
// Strict times are those of the default flags.
func patient() []string {
	if strict.Times() {
		return nil
	}
	return []string{"--leader-wait", "20s"}
}

// launch starts lockd with args and does not wait until it serves.
func launch(t *testing.T, name, addr string, args ...string) *proc {
	t.Helper()
	return launchIn(t, nil, name, addr, args...)
}

// launchIn is launch by a command that runs lockd.
func launchIn(t *testing.T, wrap []string, name, addr string, args ...string) *proc {
	t.Helper()
	p := &proc{t: t, name: name, addr: addr, args: args, wrap: wrap, log: processLog(filepath.Join(t.TempDir(), "log"))}
	p.start()
	return p
}

func (p *proc) start() {
	p.t.Helper()
	line := append(append(p.wrap[:len(p.wrap):len(p.wrap)], os.Args[0]), p.args...)
	p.Process = background(p.t, process.Command{
		Name: p.name, Path: line[0], Args: line[1:], Env: append(os.Environ(), runAsServer+"=1"), Tied: true, Log: string(p.log),
	})
}

// background starts a process that is killed at the end of the test, which shows its log if it has failed.
func background(t *testing.T, c process.Command) *process.Process {
	t.Helper()
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", c.Name, tail(p.Output(), 60))
		}
	})
	return p
}

// wait waits for the process's end and returns its exit status.
func (p *proc) wait(timeout time.Duration) int {
	p.t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(timeout):
		p.t.Fatalf("%s did not end within %s", p.name, timeout)
	}
	return p.State().ExitCode()
}

// client returns a go-redis client of this node that never retries, so that tests see each answer of the server.
func (p *proc) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: p.addr, Password: p.flagOf("--requirepass"), MaxRetries: -1, DialerRetries: 1, ReadTimeout: startTimeout, WriteTimeout: startTimeout, DialTimeout: startTimeout, PoolSize: 64, DisableIdentity: true})
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// awaitServing waits until the node answers a linearizable read.
func (p *proc) awaitServing() {
	p.t.Helper()
	c := p.client()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := p.Await(ctx, pollEvery, func(ctx context.Context) error {
		err := c.Get(ctx, "no such key").Err()
		if err == redis.Nil || err != nil && strings.HasPrefix(err.Error(), "MOVED ") { // a follower that redirects
			return nil
		}
		return err
	}); err != nil {
		p.t.Fatal(err)
	}
}

// nodes is a cluster of processes.
type nodes []*proc

// startCluster starts a cluster of n nodes and waits until each serves.
func startCluster(t *testing.T, n int, extra ...string) nodes {
	t.Helper()
	return startClusterOf(t, n, func(int) []string { return extra })
}

// startClusterOf is startCluster with flags for each node by itself.
func startClusterOf(t *testing.T, n int, extra func(i int) []string) nodes {
	t.Helper()
	return startClusterIn(t, n, func(int) []string { return nil }, extra)
}

// startClusterIn is startClusterOf with a command that runs each node.
func startClusterIn(t *testing.T, n int, wrap, extra func(i int) []string) nodes {
	t.Helper()
	laid, err := process.Cluster(t.TempDir(), "n", n)
	if err != nil {
		t.Fatal(err)
	}
	var all nodes
	for i, node := range laid {
		all = append(all, launchIn(t, wrap(i), node.ID, node.Addr, append(node.Args, extra(i)...)...))
	}
	for _, p := range all {
		p.awaitServing()
	}
	return all
}

// startSingle starts a single node.
func startSingle(t *testing.T, extra ...string) *proc {
	t.Helper()
	ports := freePorts(t, 2)
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := append([]string{"serve", "--listen", addr, "--peer-listen", fmt.Sprintf("127.0.0.1:%d", ports[1]),
		"--dir", filepath.Join(t.TempDir(), "data")}, extra...)
	p := launch(t, "single", addr, args...)
	p.awaitServing()
	return p
}

// leader finds the node whose ROLE is master, waiting for an election if need be.
func (n nodes) leader(t *testing.T) *proc {
	t.Helper()
	var found *proc
	eventually(t, startTimeout, "one node leads", func() error {
		for _, p := range n {
			c := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
			role, err := c.Do(context.Background(), "ROLE").Slice()
			_ = c.Close()
			if err == nil && len(role) > 0 && role[0] == "master" {
				found = p
				return nil
			}
		}
		return fmt.Errorf("no node says master")
	})
	return found
}

// others are the nodes without p.
func (n nodes) others(p *proc) nodes {
	var rest nodes
	for _, o := range n {
		if o != p {
			rest = append(rest, o)
		}
	}
	return rest
}

// pollEvery is the interval of polling.
const pollEvery = 10 * time.Millisecond

// eventually polls until try gives no error, or fails the test at the timeout.
func eventually(t *testing.T, timeout time.Duration, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s: %v", timeout, what, err)
		}
		time.Sleep(pollEvery)
	}
}

// freePorts are n ports of loopback for servers, which no other server has.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports, err := freeport.Ports("127.0.0.1", n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// processLog is the file that has what a process has said, at all its starts.
type processLog string

func (l processLog) String() string { return process.LogFrom(string(l), 0) }

func (l processLog) tail(lines int) string { return tail(l.String(), lines) }

// logBuffer keeps what is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) tail(lines int) string { return tail(b.String(), lines) }

// tail is the end of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// blockedClients waits until a node has want clients in blocking commands.
func (p *proc) blockedClients(want int) {
	p.t.Helper()
	c := p.client()
	eventually(p.t, startTimeout, fmt.Sprintf("%s has %d blocked clients", p.name, want), func() error {
		info, err := c.Info(context.Background(), "clients").Result()
		if err == nil && !strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r\n", want)) {
			err = fmt.Errorf("%q", info)
		}
		return err
	})
}
