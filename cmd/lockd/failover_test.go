package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockd/internal/strict"
)

// roaming is a client that moves on to another node when a connection breaks,
// as a program with a list of addresses does. It never hides an unknown outcome.
type roaming struct {
	clients []*redis.Client
	at      int
}

func newRoaming(cluster nodes, start int) *roaming {
	r := &roaming{at: start}
	for _, p := range cluster {
		r.clients = append(r.clients, p.client())
	}
	return r
}

// errUnknown marks an outcome that is not known: -UNKNOWN, or a connection that
// broke after the command was sent.
var errUnknown = errors.New("unknown outcome")

// do runs one command. A dead node is left at once; because go-redis does not say
// whether the command had left, a broken connection counts as unknown.
func (r *roaming) do(ctx context.Context, args ...any) (any, error) {
	v, err := r.clients[r.at%len(r.clients)].Do(ctx, args...).Result()
	switch {
	case err == nil || err == redis.Nil:
		return v, err
	case strings.HasPrefix(err.Error(), "UNKNOWN "):
		return nil, errUnknown
	case isConnError(err):
		r.at++
		return nil, errUnknown
	}
	return nil, err
}

func isConnError(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNREFUSED)
}

// until repeats a command whose repetition is harmless until its outcome is known.
func (r *roaming) until(ctx context.Context, args ...any) (any, error) {
	for {
		v, err := r.do(ctx, args...)
		if !errors.Is(err, errUnknown) {
			return v, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// lock takes key with SET NX PX; on an unknown outcome it looks whose it is.
func (r *roaming) lock(ctx context.Context, key, mine string) error {
	for {
		_, err := r.do(ctx, "SET", key, mine, "NX", "PX", "30000")
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errUnknown):
			holder, err := r.until(ctx, "GET", key)
			if err == nil && holder == mine {
				return nil
			}
			if err != nil && err != redis.Nil {
				return err
			}
		case err != redis.Nil:
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// The counter program counts exactly although the leader is killed half-way.
func TestCounterLeaderKilled(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	ctx := context.Background()
	if err := cluster[0].client().Set(ctx, "counter", 0, 0).Err(); err != nil {
		t.Fatal(err)
	}
	leader := cluster.leader(t)
	var done atomic.Int32
	var half sync.Once
	halfway := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 10 {
		wg.Add(1)
		r := newRoaming(cluster, w)
		go func() {
			defer wg.Done()
			for i := range 10 {
				mine := fmt.Sprintf("%d/%d/%s", w, i, newToken())
				if err := r.addOne(ctx, mine); err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				if done.Add(1) >= 50 {
					half.Do(func() { close(halfway) })
				}
			}
		}()
	}
	<-halfway
	leader.Kill()
	wg.Wait()
	got, err := cluster.others(leader)[0].client().Get(ctx, "counter").Int()
	if err != nil || got != 100 {
		t.Fatalf("counter is %d, %v, want 100", got, err)
	}
}

// addOne reads, adds and writes the counter under the lock.
func (r *roaming) addOne(ctx context.Context, mine string) error {
	if err := r.lock(ctx, "lock", mine); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	var n int
	v, err := r.until(ctx, "GET", "counter")
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if _, err := fmt.Sscan(v.(string), &n); err != nil {
		return err
	}
	if _, err := r.until(ctx, "SET", "counter", n+1); err != nil { // ours alone: writing it twice is harmless
		return fmt.Errorf("write: %w", err)
	}
	const script = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`
	if _, err := r.until(ctx, "EVAL", script, 1, "lock", mine); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// leaderlessMin is the silence from which on the cluster counts as being without a
// leader: one command takes far less.
const leaderlessMin = 100 * time.Millisecond

// A held lock survives kill -9 of the leader with its remaining lease: it is not
// granted to another meanwhile, never ends early, and ends within its lease plus
// the time without a leader plus 100 ms.
func TestLockSurvivesLeader(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	ctx := context.Background()
	leader := cluster.leader(t)
	survivors := cluster.others(leader)
	const lease = 4 * time.Second
	sent := time.Now()
	if _, err := newRoaming(survivors, 0).until(ctx, "SET", "lock", "holder", "PX", lease.Milliseconds()); err != nil {
		t.Fatal(err)
	}
	acked := time.Now()
	time.Sleep(lease / 4)
	leaderless, heard := time.Duration(0), time.Now() // time without an answer, and the last one
	leader.Kill()

	c := survivors[1].client()
	for {
		asked := time.Now()
		_, err := c.Do(ctx, "SET", "lock", "other", "NX", "PX", "60000").Result()
		answered := time.Now()
		if err != nil && strings.HasPrefix(err.Error(), "UNKNOWN ") {
			var holder string
			holder, err = c.Get(ctx, "lock").Result()
			if err == nil && holder == "holder" {
				continue
			}
			answered = time.Now() // it is free, or has been taken: its lease must have ended
		}
		if err != nil && err != redis.Nil {
			t.Fatal(err)
		}
		if silence := answered.Sub(heard); silence > leaderlessMin {
			leaderless += silence
		}
		heard = answered
		if err == redis.Nil {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if early := sent.Add(lease).Sub(answered); early > 0 {
			t.Errorf("the lock ended %v before its lease", early)
		}
		strict.AtMost(t, "the lock's end after its lease and the time without a leader", asked.Sub(acked.Add(lease+leaderless)), 100*time.Millisecond)
		t.Logf("leaderless %v, the lock ended %v after its lease", leaderless, asked.Sub(acked.Add(lease)))
		return
	}
}

// kill -9 of the leader under 50 writing clients: writes go on within 0.3 s, every
// acknowledged write is there, and no client of a living node sees any error: such a node
// finds in the log what became of the writes that the dead leader was sent.
func TestKillLeaderUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	leader := cluster.leader(t)
	load := startLoad(t, cluster, 50)
	load.awaitWrites(t, 500)
	killed := time.Now()
	leader.Kill()
	load.awaitWriteSentAfter(t, killed)
	load.awaitWrites(t, load.writes.Load()+500)
	load.stop()
	load.atMost(t, killed, 300*time.Millisecond)
	load.check(t, cluster.others(leader), func(node *proc, err error) bool {
		return node == leader && (isConnError(err) || strings.HasPrefix(err.Error(), "UNKNOWN "))
	})
}

// SIGTERM of the leader: no client of another node sees any error at all, or waits for longer
// than 0.2 s, and the leader exits 0.
func TestTerminateLeaderUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	leader := cluster.leader(t)
	load := startLoad(t, cluster.others(leader), 50)
	load.awaitWrites(t, 500)
	asked := time.Now()
	leader.Signal(syscall.SIGTERM)
	if status := leader.wait(startTimeout); status != 0 {
		t.Errorf("the leader exited with status %d:\n%s", status, leader.log.tail(20))
	}
	load.awaitWriteSentAfter(t, asked)
	load.awaitWrites(t, load.writes.Load()+500)
	load.stop()
	load.atMost(t, asked, 200*time.Millisecond)
	load.check(t, cluster.others(leader), func(*proc, error) bool { return false })
}

// Every acknowledged write survives kill -9 of all nodes at once.
func TestKillAll(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	load := startLoad(t, cluster, 20)
	load.awaitWrites(t, 500)
	for _, p := range cluster {
		p.Signal(syscall.SIGKILL)
	}
	for _, p := range cluster {
		p.Kill()
	}
	load.stop()
	for _, p := range cluster {
		p.start()
	}
	for _, p := range cluster {
		p.awaitServing()
	}
	load.check(t, cluster, func(_ *proc, err error) bool {
		return isConnError(err) || strings.HasPrefix(err.Error(), "UNKNOWN ") || strings.HasPrefix(err.Error(), "LOADING ")
	})
}

// load is a number of clients, each of which writes its keys one after another.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	writes atomic.Int64

	mu     sync.Mutex
	acked  map[string]string
	errs   []nodeError
	latest time.Time // when the newest acknowledged write was sent
	slow   []acked   // the acknowledged writes that took slowMin or longer
}

// slowMin is how long a write takes at least whose time is kept.
const slowMin = 20 * time.Millisecond

// acked is an acknowledged write.
type acked struct {
	done time.Time
	took time.Duration
}

type nodeError struct {
	node *proc
	err  error
}

func startLoad(t *testing.T, cluster nodes, clients int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel, acked: map[string]string{}}
	t.Cleanup(l.stop)
	for i := range clients {
		node := cluster[i%len(cluster)]
		c := node.client()
		l.wg.Add(1)
		go l.write(ctx, i, node, c)
	}
	return l
}

func (l *load) write(ctx context.Context, client int, node *proc, c *redis.Client) {
	defer l.wg.Done()
	for seq := 0; ctx.Err() == nil; seq++ {
		key, value := fmt.Sprintf("load:%d:%d", client, seq%200), fmt.Sprint(seq)
		sent := time.Now()
		err := c.Set(context.Background(), key, value, 0).Err() // not ctx: a started write is waited for
		l.mu.Lock()
		if err == nil {
			l.acked[key] = value
			l.latest = sent
			if took := time.Since(sent); took >= slowMin {
				l.slow = append(l.slow, acked{time.Now(), took})
			}
		} else {
			l.errs = append(l.errs, nodeError{node, err})
			l.acked[key] = "" // may hold either value now: not checked
		}
		l.mu.Unlock()
		if err == nil {
			l.writes.Add(1)
		} else {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

func (l *load) awaitWrites(t *testing.T, n int64) {
	t.Helper()
	eventually(t, startTimeout, fmt.Sprintf("%d writes", n), func() error {
		if got := l.writes.Load(); got < n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

// awaitWriteSentAfter waits for the acknowledgement of a write that was sent after
// the given time.
func (l *load) awaitWriteSentAfter(t *testing.T, since time.Time) {
	t.Helper()
	eventually(t, startTimeout, "a write goes through", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.latest.After(since) {
			return errors.New("none yet")
		}
		return nil
	})
}

// atMost verifies that no write that ended after the given time took longer than most.
func (l *load) atMost(t *testing.T, since time.Time, most time.Duration) {
	t.Helper()
	var longest time.Duration
	for _, w := range l.slow {
		if w.done.After(since) {
			longest = max(longest, w.took)
		}
	}
	t.Logf("the slowest write took %v", longest)
	strict.AtMost(t, "the slowest write", longest, most)
}

// check verifies that all acknowledged writes are there, on every node, and that
// only allowed errors were seen.
func (l *load) check(t *testing.T, cluster nodes, allowed func(*proc, error) bool) {
	t.Helper()
	for _, e := range l.errs {
		if !allowed(e.node, e.err) {
			t.Errorf("a client of %s saw %q", e.node.name, e.err)
		}
	}
	ctx := context.Background()
	for _, p := range cluster {
		c, lost := p.client(), 0
		for key, want := range l.acked {
			if want == "" {
				continue
			}
			if got, err := c.Get(ctx, key).Result(); err != nil || got != want {
				lost++
				t.Logf("%s: %s is %q, %v; %q was acknowledged", p.name, key, got, err, want)
			}
		}
		if lost > 0 {
			t.Errorf("%s lost %d of %d acknowledged writes", p.name, lost, len(l.acked))
		}
	}
	if len(l.acked) == 0 {
		t.Error("nothing was written: the test shows nothing")
	}
}
