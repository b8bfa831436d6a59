package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockd/internal/strict"
)

// popAnswer is the answer to a BLPOP.
type popAnswer struct {
	client int
	value  string
	err    error
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

// startPops has n clients wait for a key, through all nodes of a cluster.
func startPops(t *testing.T, cluster nodes, n int, answers chan popAnswer) {
	t.Helper()
	for i := range n {
		node := cluster[i%len(cluster)]
		go func() {
			kv, err := node.client().BLPop(context.Background(), 0, "queue").Result()
			a := popAnswer{client: i, err: err}
			if err == nil {
				a.value = kv[1]
			}
			answers <- a
		}()
	}
	for i, node := range cluster {
		node.blockedClients((n + len(cluster) - 1 - i) / len(cluster))
	}
}

// pushOnce pushes a value unless it was pushed before: it may be sent again.
const pushOnce = `if redis.call('SET', KEYS[2], '1', 'NX') then return redis.call('RPUSH', KEYS[1], ARGV[1]) end return 0`

// Clients that wait for a key survive kill -9 of the leader: those of the nodes that
// live are served by what is pushed then, with each value once.
func TestBlockedClientsSurviveLeader(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	leader := cluster.leader(t)
	survivors := cluster.others(leader)
	answers := make(chan popAnswer, 6)
	startPops(t, survivors, 6, answers)
	leader.Kill()
	r := newRoaming(survivors, 0)
	for i := range 8 {
		if _, err := r.until(context.Background(), "EVAL", pushOnce, 2, "queue", fmt.Sprint("pushed:", i), i); err != nil {
			t.Fatal(err)
		}
	}
	var values []string
	for range 6 {
		select {
		case a := <-answers:
			if a.err != nil {
				t.Errorf("client %d: %v", a.client, a.err)
			}
			values = append(values, a.value)
		case <-time.After(startTimeout):
			t.Fatal("somebody waits for ever")
		}
	}
	slices.Sort(values)
	if want := []string{"0", "1", "2", "3", "4", "5"}; !slices.Equal(values, want) {
		t.Errorf("they have %q, want %q", values, want)
	}
	rest, err := survivors[1].client().LRange(context.Background(), "queue", 0, -1).Result()
	if want := []string{"6", "7"}; err != nil || !slices.Equal(rest, want) {
		t.Errorf("left are %q, %v, want %q", rest, err, want)
	}
}

// SIGTERM of a node answers its blocked clients that nothing was done, and withdraws their commands; the stop does
// not wait for them.
func TestTerminateWithBlockedClients(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	node := cluster.others(cluster.leader(t))[0]
	answers := make(chan popAnswer, 2)
	startPops(t, nodes{node}, 2, answers)
	asked := time.Now()
	node.Signal(syscall.SIGTERM)
	if status := node.wait(startTimeout); status != 0 {
		t.Errorf("it exited with status %d:\n%s", status, node.log.tail(20))
	}
	strict.AtMost(t, "the node's stop", time.Since(asked), 10*time.Second)
	for range 2 {
		if a := <-answers; a.err == nil || !strings.HasPrefix(a.err.Error(), "LOADING ") {
			t.Errorf("client %d: %q, %v", a.client, a.value, a.err)
		}
	}
	c := cluster.others(node)[0].client()
	if err := c.RPush(context.Background(), "queue", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if n := c.LLen(context.Background(), "queue").Val(); n != 1 {
		t.Errorf("%d values are there", n)
	}
}

// A client that hangs up or is unblocked waits no longer; a time that is over is nil.
func TestBlockedClientLeaves(t *testing.T) {
	t.Parallel()
	node := startSingle(t)
	c, ctx := node.client(), context.Background()
	if err := c.BLPop(ctx, time.Second, "queue").Err(); err != redis.Nil {
		t.Errorf("after its time: %v", err)
	}
	waits := redis.NewClient(&redis.Options{Addr: node.addr, MaxRetries: -1, DisableIdentity: true, ReadTimeout: startTimeout})
	conn := waits.Conn()
	id := conn.ClientID(ctx).Val()
	answer := make(chan error, 1)
	go func() { answer <- conn.BLPop(ctx, 0, "queue").Err() }()
	node.blockedClients(1)
	if n := c.ClientUnblockWithError(ctx, id).Val(); n != 1 {
		t.Errorf("%d clients were unblocked", n)
	}
	if err := <-answer; err == nil || err.Error() != "UNBLOCKED client unblocked via CLIENT UNBLOCK" {
		t.Errorf("unblocked: %v", err)
	}
	go func() { answer <- conn.BLPop(ctx, 0, "queue").Err() }()
	node.blockedClients(1)
	_ = waits.Close()
	<-answer
	node.blockedClients(0)
	eventually(t, startTimeout, "a value stays", func() error {
		if n := c.RPush(ctx, "queue", "x").Val(); n == 0 || c.LLen(ctx, "queue").Val() != n {
			return fmt.Errorf("it was pushed as number %d", n)
		}
		return nil
	})
}
