package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockd/internal/freeport"
	"lockd/internal/strict"
)

// The end-to-end tests run real lockd processes: the test binary itself, told by
// this variable to be lockd. So a kill -9 is a kill -9, and the race detector
// watches the servers too.
const runAsServer = "LOCKD_TEST_RUN_AS_SERVER"

// runInTerminal does the same for what has a terminal as its input, which is not for its end.
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
	os.Exit(m.Run())
}

// silent keeps go-redis from reporting every failed dial: the tests kill servers.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// proc is one lockd process of a test.
type proc struct {
	t      *testing.T
	name   string
	addr   string // for clients
	args   []string
	wrap   []string // the command that runs lockd, if it is not run by itself
	cmd    *exec.Cmd
	stdin  io.Closer
	log    *logBuffer
	exited chan struct{}
}

// startTimeout is how long a test waits for what must come, before it gives up: far longer
// than it takes, for the machine may have other work too.
const startTimeout = 60 * time.Second

// calm are flags for clusters of tests in which nobody is to lose leadership: a machine that
// is elsewhere for two seconds elects nobody by it. Such a cluster takes longer to start.
var calm = []string{"--heartbeat", "2s", "--leader-wait", "20s"}

// patient are flags for clusters whose leader is killed: an election that the machine
// makes long is waited for, and is no error. Strict times are those of the default.
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
	p := &proc{t: t, name: name, addr: addr, args: args, wrap: wrap, log: &logBuffer{}}
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.name, p.log.tail(60))
		}
	})
	return p
}

func (p *proc) start() {
	p.t.Helper()
	line := append(append(p.wrap[:len(p.wrap):len(p.wrap)], os.Args[0]), p.args...)
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Env = append(os.Environ(), runAsServer+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(p.cmd, p.exited)
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = p.stdin.Close()
}

// signal sends sig and does not wait.
func (p *proc) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the process's end and returns its exit status.
func (p *proc) wait(timeout time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(timeout):
		p.t.Fatalf("%s did not end within %s", p.name, timeout)
	}
	return p.cmd.ProcessState.ExitCode()
}

// client is a go-redis client of this node that never tries anything twice, so
// that tests see what the server really answered.
func (p *proc) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: p.addr, Password: p.flagOf("--requirepass"), MaxRetries: -1, DialerRetries: 1, ReadTimeout: startTimeout, WriteTimeout: startTimeout, DialTimeout: startTimeout, PoolSize: 64, DisableIdentity: true})
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// awaitServing waits until the node answers a linearizable read.
func (p *proc) awaitServing() {
	p.t.Helper()
	c := p.client()
	eventually(p.t, startTimeout, p.name+" serves", func() error {
		select {
		case <-p.exited:
			p.t.Fatalf("%s ended with status %d:\n%s", p.name, p.cmd.ProcessState.ExitCode(), p.log.tail(20))
		default:
		}
		err := c.Get(context.Background(), "no such key").Err()
		if err == redis.Nil || err != nil && strings.HasPrefix(err.Error(), "MOVED ") { // a follower that redirects
			return nil
		}
		return err
	})
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
	ports := freePorts(t, 2*n)
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("n%d=127.0.0.1:%d", i+1, ports[n+i]))
	}
	dir := t.TempDir()
	var all nodes
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		args := append([]string{"serve", "--id", id,
			"--listen", fmt.Sprintf("127.0.0.1:%d", ports[i]),
			"--peer-listen", fmt.Sprintf("127.0.0.1:%d", ports[n+i]),
			"--dir", filepath.Join(dir, id),
			"--cluster", strings.Join(list, ",")}, extra(i)...)
		all = append(all, launchIn(t, wrap(i), id, fmt.Sprintf("127.0.0.1:%d", ports[i]), args...))
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
		time.Sleep(10 * time.Millisecond)
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

// logBuffer keeps a process's output.
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

func (b *logBuffer) tail(lines int) string {
	all := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
