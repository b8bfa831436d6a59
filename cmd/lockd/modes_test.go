package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockd/internal/strict"
)

// The clients that find the leader by themselves: one that asks sentinels, and those
// of Redis Cluster. Each is real, with the options that it has by default, but that
// go-redis dials a dead node five times, asks for the slots of a cluster by itself
// only once a minute, and sends again what has no answer after three seconds: what a slow
// machine has still to do would then be done late, and the counters here would be wrong.

// clientModes are the ways to reach a cluster.
var clientModes = map[string]struct {
	flags []string // of every node
	open  func(cluster nodes, sentinels []string) redis.UniversalClient
}{
	"sentinel": {nil, func(_ nodes, sentinels []string) redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "locks", SentinelAddrs: sentinels, SentinelPassword: "secret", DialerRetries: 1, ReadTimeout: startTimeout})
	}},
	"cluster":               {[]string{"--cluster-protocol"}, openClusterClient},
	"cluster with redirect": {[]string{"--cluster-protocol", "--cluster-redirect"}, openClusterClient},
	"cluster reads from followers": {[]string{"--cluster-protocol", "--cluster-redirect"}, func(cluster nodes, _ []string) redis.UniversalClient {
		opts := clusterOptions(cluster)
		opts.RouteRandomly = true
		return redis.NewClusterClient(opts)
	}},
}

func clusterOptions(cluster nodes) *redis.ClusterOptions {
	return &redis.ClusterOptions{Addrs: cluster.addrs(), ClusterStateReloadInterval: time.Second / 2, DialerRetries: 1, ReadTimeout: startTimeout}
}

func openClusterClient(cluster nodes, _ []string) redis.UniversalClient {
	return redis.NewClusterClient(clusterOptions(cluster))
}

func (n nodes) addrs() []string {
	var addrs []string
	for _, p := range n {
		addrs = append(addrs, p.addr)
	}
	return addrs
}

// startModes starts three nodes with sentinels.
func startModes(t *testing.T, flags []string) (nodes, []string) {
	t.Helper()
	var sentinels []string
	for _, port := range freePorts(t, 3) {
		sentinels = append(sentinels, fmt.Sprintf("127.0.0.1:%d", port))
	}
	cluster := startClusterOf(t, 3, func(i int) []string {
		return append([]string{"--sentinel-listen", sentinels[i], "--master-name", "locks", "--sentinel-requirepass", "secret"}, flags...)
	})
	return cluster, sentinels
}

// lockers add to a counter under a lock, each through a separate client.
type lockers struct {
	wg    sync.WaitGroup
	stop  atomic.Bool
	added atomic.Int64 // to the counter, for certain

	mu   sync.Mutex
	errs []error
	last time.Time // when the newest acquisition that succeeded had begun
}

func (l *lockers) start(clients ...redis.UniversalClient) {
	for _, c := range clients {
		l.wg.Go(func() {
			for !l.stop.Load() {
				if l.addOne(context.Background(), c) {
					l.added.Add(1)
				}
			}
		})
	}
}

// addOne adds one to the counter. After an unknown outcome it reads the counter, as a program must.
func (l *lockers) addOne(ctx context.Context, c redis.UniversalClient) bool {
	mine, began := newToken(), time.Now()
	got, err := c.SetNX(ctx, "{job}:lock", mine, 20*time.Second).Result()
	if err != nil || !got {
		l.note(err)
		holder := ""
		l.until(func() (err error) { holder, err = c.Get(ctx, "{job}:lock").Result(); return err })
		if holder != mine {
			return false
		}
	}
	l.mu.Lock()
	l.last = began
	l.mu.Unlock()
	var n int
	l.until(func() (err error) { n, err = c.Get(ctx, "{job}:counter").Int(); return err })
	l.until(func() error { return c.Set(ctx, "{job}:counter", n+1, 0).Err() })
	l.until(func() error { return release.Run(ctx, c, []string{"{job}:lock"}, mine).Err() })
	return true
}

// counted reads the counter. A client may still be on its way to the new leader.
func (l *lockers) counted(ctx context.Context, c redis.UniversalClient) (n int64) {
	l.until(func() (err error) { n, err = c.Get(ctx, "{job}:counter").Int64(); return err })
	return n
}

// until repeats what may be repeated, while its outcome is not known.
func (l *lockers) until(try func() error) {
	for err := try(); err != nil && !errors.Is(err, redis.Nil); err = try() {
		l.note(err)
		time.Sleep(5 * time.Millisecond)
	}
}

func (l *lockers) note(err error) {
	if err == nil || errors.Is(err, redis.Nil) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// awaitLockAfter waits until a lock is taken that was asked for after a moment; it may
// take within.
func (l *lockers) awaitLockAfter(t *testing.T, moment time.Time, within time.Duration) {
	t.Helper()
	eventually(t, startTimeout, "locks are taken again", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.last.After(moment) {
			return fmt.Errorf("the last one was asked for %v before", moment.Sub(l.last))
		}
		return nil
	})
	took := time.Since(moment)
	t.Logf("locks were taken again after %v", took)
	strict.AtMost(t, "the time until locks are taken again", took, within)
}

func (l *lockers) awaitAdded(t *testing.T, n int64) {
	t.Helper()
	eventually(t, startTimeout, fmt.Sprintf("%d locks", n), func() error {
		if got := l.added.Load(); got < n {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

// kill -9 of the leader while clients lock: they go on within 3 s at the new one, count
// exactly, and see no error other than a connection that broke or an unknown outcome.
func TestModesLeaderKilled(t *testing.T) {
	t.Parallel()
	for name, mode := range clientModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, sentinels := startModes(t, append(patient(), mode.flags...))
			leader := cluster.leader(t)
			l := &lockers{}
			var clients []redis.UniversalClient
			for range 3 {
				c := mode.open(cluster, sentinels)
				defer c.Close()
				clients = append(clients, c)
			}
			if err := clients[0].Set(t.Context(), "{job}:counter", 0, 0).Err(); err != nil {
				t.Fatal(err)
			}
			l.start(clients...)
			l.awaitAdded(t, 50)
			killed := time.Now()
			leader.Kill()
			l.awaitLockAfter(t, killed, 3*time.Second)
			l.awaitAdded(t, l.added.Load()+50)
			l.stop.Store(true)
			l.wg.Wait()
			for _, err := range l.errs {
				if !isConnError(err) && !strings.HasPrefix(err.Error(), "UNKNOWN ") {
					t.Errorf("a client saw: %v", err)
				}
			}
			l.checkFoundLeader(t, cluster.others(leader), clients)
			if got := l.counted(t.Context(), clients[0]); got != l.added.Load() {
				t.Errorf("the counter is %d after %d additions", got, l.added.Load())
			}
		})
	}
}

// seen takes the errors that the clients have seen, and reports whether there were none.
func (l *lockers) seen(t *testing.T) (none bool) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	none = len(l.errs) == 0
	for _, err := range l.errs {
		if t.Logf("a client saw: %v", err); !strings.HasPrefix(err.Error(), "UNKNOWN ") {
			t.Fail()
		}
	}
	l.errs = nil
	return none
}

// checkFoundLeader: after a change the clients have moved to the new leader.
func (l *lockers) checkFoundLeader(t *testing.T, cluster nodes, clients []redis.UniversalClient) {
	t.Helper()
	for _, c := range clients {
		eventually(t, startTimeout, "the client has found the new leader", func() error {
			leader := cluster.leader(t)
			if cc, ok := c.(*redis.ClusterClient); ok {
				cc.ReloadState(t.Context())
				master, err := cc.MasterForKey(t.Context(), "k")
				if err != nil || master.Options().Addr != leader.addr {
					return fmt.Errorf("its master is %v, %v, the leader %s", master, err, leader.addr)
				}
				return nil
			}
			role, err := c.Do(t.Context(), "ROLE").Slice()
			if err != nil || role[0] != "master" {
				return fmt.Errorf("it is at %v, %v", role, err)
			}
			return nil
		})
	}
}

// Leadership is handed over while clients lock: no client sees any error. A machine that is
// elsewhere in the middle of it may have the nodes elect instead, with unknown outcomes:
// that round counts for nothing.
func TestModesHandOver(t *testing.T) {
	t.Parallel()
	for name, mode := range clientModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, sentinels := startModes(t, append(slices.Clone(calm), mode.flags...))
			c := mode.open(cluster, sentinels)
			defer c.Close()
			l := &lockers{}
			l.start(c)
			for rounds, well := 0, 0; well < 3; rounds++ {
				if rounds == 9 {
					t.Fatalf("of %d rounds %d went well", rounds, well)
				}
				l.awaitAdded(t, l.added.Load()+30)
				err := cluster.leader(t).client().Do(t.Context(), "LOCKD", "TRANSFER").Err()
				l.awaitLockAfter(t, time.Now(), 3*time.Second)
				if l.seen(t) && err == nil {
					well++
				} else if strict.Times() {
					t.Fatalf("LOCKD TRANSFER: %v", err)
				}
			}
			l.stop.Store(true)
			l.wg.Wait()
			l.seen(t)
			l.checkFoundLeader(t, cluster, []redis.UniversalClient{c})
		})
	}
}

// All sentinels give the same answers, ask for their password, and announce a change of the leader in time.
func TestSentinels(t *testing.T) {
	t.Parallel()
	cluster, sentinels := startModes(t, calm)
	ctx := t.Context()
	leader := cluster.leader(t)
	var events []<-chan *redis.Message
	for _, addr := range sentinels {
		if err := redis.NewSentinelClient(&redis.Options{Addr: addr, DisableIdentity: true}).Ping(ctx).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH ") {
			t.Errorf("without a password %s answers %v", addr, err)
		}
		s := redis.NewSentinelClient(&redis.Options{Addr: addr, Password: "secret", DisableIdentity: true})
		defer s.Close()
		eventually(t, startTimeout, addr+" knows all", func() error {
			master, err := s.GetMasterAddrByName(ctx, "locks").Result()
			if err != nil || len(master) != 2 || net.JoinHostPort(master[0], master[1]) != leader.addr {
				return fmt.Errorf("the master is %v, %v", master, err)
			}
			others, err := s.Sentinels(ctx, "locks").Result()
			if err != nil || len(others) != 2 {
				return fmt.Errorf("the other sentinels are %v, %v", others, err)
			}
			for _, o := range others {
				if at := net.JoinHostPort(o["ip"], o["port"]); at == addr || !slices.Contains(sentinels, at) {
					return fmt.Errorf("one of the other sentinels is %s", at)
				}
			}
			replicas, err := s.Replicas(ctx, "locks").Result()
			if err != nil || len(replicas) != 2 {
				return fmt.Errorf("the replicas are %v, %v", replicas, err)
			}
			return s.CkQuorum(ctx, "locks").Err()
		})
		sub := s.Subscribe(ctx, "+switch-master")
		defer sub.Close()
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		events = append(events, sub.Channel())
	}
	killed := time.Now()
	leader.Kill()
	host, port, _ := net.SplitHostPort(leader.addr)
	for i, ch := range events {
		if sentinels[i] == leader.flagOf("--sentinel-listen") {
			continue
		}
		select {
		case m := <-ch:
			if !strings.HasPrefix(m.Payload, fmt.Sprintf("locks %s %s ", host, port)) {
				t.Errorf("%s announced %q", sentinels[i], m.Payload)
			}
			took := time.Since(killed)
			t.Logf("%s announced it after %v", sentinels[i], took)
			strict.AtMost(t, "the announcement of the new leader", took, 6*time.Second)
		case <-time.After(startTimeout):
			t.Errorf("%s did not announce the switch", sentinels[i])
		}
	}
}

// Neither mode is there unless it is switched on.
func TestModesAreOff(t *testing.T) {
	t.Parallel()
	c := startSingle(t).client()
	for command, want := range map[string]string{
		"CLUSTER SLOTS":    "ERR This instance has cluster support disabled",
		"CLUSTER NODES":    "ERR This instance has cluster support disabled",
		"READONLY":         "ERR This instance has cluster support disabled",
		"SENTINEL MASTERS": "ERR unknown command 'SENTINEL', with args beginning with: 'MASTERS' ",
	} {
		var args []any
		for _, word := range strings.Fields(command) {
			args = append(args, word)
		}
		if err := c.Do(t.Context(), args...).Err(); err == nil || err.Error() != want {
			t.Errorf("%s: %v", command, err)
		}
	}
	if info := c.Info(t.Context()).Val(); !strings.Contains(info, "redis_mode:standalone\r\n") || !strings.Contains(info, "cluster_enabled:0\r\n") {
		t.Errorf("INFO: %s", info)
	}
}

// Slots hold their keys, on every node; clients that look for a cluster's settings find them.
func TestClusterKeys(t *testing.T) {
	t.Parallel()
	cluster, _ := startModes(t, append([]string{"--cluster-protocol"}, calm...))
	c := cluster[1].client()
	ctx := t.Context()
	if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 2500 {
			p.Set(ctx, fmt.Sprintf("k%d", i), i, 0)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slot := c.ClusterKeySlot(ctx, "k7").Val()
	if n, err := c.ClusterCountKeysInSlot(ctx, int(slot)).Result(); err != nil || n != 2 {
		t.Errorf("slot %d has %d keys, %v", slot, n, err)
	}
	keys := cluster[2].client().ClusterGetKeysInSlot(ctx, int(slot), 10).Val()
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"k1309", "k7"}) {
		t.Errorf("slot %d has the keys %v", slot, keys)
	}
	if keys := c.ClusterGetKeysInSlot(ctx, int(slot), 1).Val(); len(keys) != 1 {
		t.Errorf("at most one key: %v", keys)
	}
	if keys, err := c.ClusterGetKeysInSlot(ctx, int(slot), 0).Result(); err != nil || len(keys) != 0 {
		t.Errorf("no key: %v, %v", keys, err)
	}
	config := c.ConfigGet(ctx, "*").Val()
	if config["cluster-enabled"] != "yes" || config["databases"] != "1" {
		t.Errorf("CONFIG GET: cluster-enabled %q, databases %q", config["cluster-enabled"], config["databases"])
	}
	if info := c.Info(ctx).Val(); !strings.Contains(info, "redis_mode:cluster\r\n") || !strings.Contains(info, "cluster_enabled:1\r\n") {
		t.Errorf("INFO: %s", info)
	}
	if err := c.MSet(ctx, "a", 1, "b", 2, "c", 3).Err(); err != nil {
		t.Errorf("keys of several slots: %v", err)
	}
}
