package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/target"
)

// level is the use of resources by an idle process.
type level struct {
	goroutines int
	heap       int64 // bytes in use after a garbage collection, beyond what the node counts for its data
}

// Limits of the growth of an idle node over a workload. A leak of a goroutine or a buffer per connection, request or
// fault soon exceeds them: a workload has hundreds of connections and thousands of requests.
const (
	// goroutinesMore, and goroutinesMorePerPeer for each peer, allow for a change of role: a leader has goroutines for
	// each follower, and a stream of Raft until the other end closes it.
	goroutinesMore        = 10
	goroutinesMorePerPeer = 5
	// heapMore is for caches that fill slowly, and for a snapshot's buffers.
	heapMore = 16 << 20
	// heapPerOperation covers data that the count of the data omits: in most workloads every other operation leaves a
	// key, or a member with its tree node.
	heapPerOperation = 512
	levelsWait       = 10 * time.Second // for connections that are being closed
	levelsEvery      = 250 * time.Millisecond
)

// allowed returns the level that a node with this many peers, which had level l, may reach after this many
// operations.
func (l level) allowed(peers, operations int) level {
	return level{
		l.goroutines + goroutinesMore + peers*goroutinesMorePerPeer,
		l.heap + heapMore + int64(operations)*heapPerOperation,
	}
}

func askLevel(t target.Target, node string) (l level, err error) {
	answer, err := t.Fault(node, "stat")
	if err != nil {
		return l, err
	}
	if _, err = fmt.Sscanf(answer, "goroutines %d heap %d", &l.goroutines, &l.heap); err != nil {
		return l, err
	}
	data, err := askData(t, node)
	l.heap -= data
	return l, err
}

// askData returns the bytes that a node counts for its data; a script may leave megabytes.
func askData(t target.Target, node string) (data int64, err error) {
	r, err := t.Do(node, levelsWait, "INFO", "memory")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(r.Text(), "# Memory\r\nused_memory:%d", &data)
	return data, err
}

// warmOperations is the number of requests of each client in the warm-up.
const warmOperations = 50

// warmUp has clients work on all nodes, so that pools and caches are filled, and records the levels of the nodes
// afterwards. Without fault ports there are none.
func (s *session) warmUp(ctx context.Context) error {
	if !s.ports {
		return nil
	}
	var clients sync.WaitGroup
	for id := range s.cmd.Workers * len(s.target.Nodes()) {
		clients.Go(func() { s.warm(id) })
	}
	clients.Wait()
	s.levels = map[string]level{}
	for _, n := range s.target.Nodes() {
		l, err := askLevel(s.target, n)
		if err != nil {
			return err
		}
		s.levels[n] = l
	}
	return ctx.Err()
}

func (s *session) warm(id int) {
	addr, _, err := s.target.Endpoint(id, 0)
	if err != nil {
		return
	}
	c, err := s.target.Connect(addr, startMax)
	if err != nil {
		return
	}
	defer c.Close()
	key := fmt.Sprint("warm:", id)
	for range warmOperations {
		_, err := c.Pipe(startMax, []string{"SET", key, key, "PX", "1000"}, []string{"GET", key},
			[]string{"EVAL", "return redis.call('del', KEYS[1])", "1", key}, []string{"PUBLISH", key, key})
		if err != nil {
			return
		}
	}
}

// checkLevels compares the nodes' levels with those after the warm-up.
func (s *session) checkLevels(ctx context.Context, counts history.Counts, v *model.Verdict) {
	if !s.ports {
		return
	}
	s.operations += counts.OK + counts.Fail + counts.Info
	ctx, cancel := context.WithTimeout(ctx, levelsWait)
	defer cancel()
	nodes := slices.Clone(s.target.Nodes())
	nodes = slices.DeleteFunc(nodes, func(n string) bool { return slices.Contains(s.dead, n) })
	now, errs := make([]level, len(nodes)), make([]error, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() { now[i], errs[i] = s.settledLevel(ctx, n, s.allowed(n)) })
	}
	asking.Wait()
	for i, n := range nodes {
		if errs[i] != nil {
			v.Undecided = append(v.Undecided, fmt.Sprintf("the level of node %s is unknown: %v", n, errs[i]))
			continue
		}
		v.Note("%s: %d goroutines (%d before the run), heap %.1f MiB (%.1f)",
			n, now[i].goroutines, s.levels[n].goroutines, mib(now[i].heap), mib(s.levels[n].heap))
		if !now[i].judge(v, n, s.allowed(n)) {
			_, _ = s.target.Fault(n, "stacks")
		}
	}
}

// allowed returns the level that a node may have now.
func (s *session) allowed(node string) level {
	return s.levels[node].allowed(len(s.levels)-1, s.operations)
}

// settledLevel waits until a node's level is within most, and returns the last level. A node may keep much of the log
// that it has not trimmed yet in memory: the last entries, and the buffers of the files. So it is made to trim.
func (s *session) settledLevel(ctx context.Context, node string, most level) (now level, err error) {
	for {
		now, err = askLevel(s.target, node)
		if err == nil && now.goroutines <= most.goroutines && now.heap <= most.heap {
			return now, nil
		}
		if now.heap > most.heap {
			// without it there may be nothing new to snapshot
			_, _ = s.target.Do(node, levelsWait, "SET", "warm:trim", time.Now().String())
			_, _ = s.target.Do(node, levelsWait, "LOCKD", "SNAPSHOT")
		}
		select {
		case <-time.After(levelsEvery):
		case <-ctx.Done():
			return now, err
		}
	}
}

// judge adds to the verdict what exceeds most. It reports whether nothing does.
func (l level) judge(v *model.Verdict, node string, most level) bool {
	v.Stake(model.RuleLevels, 1)
	if l.goroutines > most.goroutines {
		v.Add("goroutines not back", nil,
			"%s has %d goroutines %s after its clients have gone, at most %d are well; they are in its log", node,
			l.goroutines, levelsWait, most.goroutines)
	}
	if l.heap > most.heap {
		v.Add("memory not back", nil,
			"%s has %.1f MiB on its heap %s after its clients have gone, at most %.1f are well", node, mib(l.heap),
			levelsWait, mib(most.heap))
	}
	return l.goroutines <= most.goroutines && l.heap <= most.heap
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
