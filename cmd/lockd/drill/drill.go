// Package drill tries out the promises of lockd on this machine. It runs three nodes as processes, kills the leader
// while clients work, and reports what the clients saw.
//
// The files, from top to bottom:
//
//	drill.go    the steps of a drill, and its report
//	clients.go  clients: a holder, a waiter, a writer
//	nodes.go    the processes
package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"lockd/internal/process"
)

// Drill is the configuration of a drill.
type Drill struct {
	Program string        // the binary of lockd
	Environ []string      // that the nodes have
	Dir     string        // where they have their data and their logs
	Lease   time.Duration // of the lock
	Work    time.Duration // how long clients work before and after each thing that happens
	Out     io.Writer     // what happens is told here, a sentence a line
}

// BrokenError reports a broken promise.
type BrokenError struct{ Why string }

func (e BrokenError) Error() string { return "THE PROMISE DID NOT HOLD: " + e.Why }

func broken(format string, args ...any) error { return BrokenError{fmt.Sprintf(format, args...)} }

const (
	// stepMax bounds each step, far above its usual time.
	stepMax = 60 * time.Second
	// writesAfter is the number of acknowledged writes after which a cluster counts as recovered.
	writesAfter = 100
)

// Run runs the drill. A BrokenError reports a broken promise; any other error, that the drill could not be carried
// out. In every case all processes have ended.
func (d *Drill) Run(ctx context.Context) error {
	c, err := d.found()
	if err != nil {
		return err
	}
	defer c.end()
	leader, term, err := c.awaitLeader(ctx)
	if err != nil {
		return err
	}
	d.say("%s leads in term %s.", leader, term)
	work, err := d.startWork(ctx, c)
	if err != nil {
		return err
	}
	defer work.stop()
	if err := work.rest(ctx); err != nil {
		return err
	}
	if err := d.killLeader(ctx, c, work, leader); err != nil {
		return err
	}
	if err := d.bringBack(ctx, c, work, leader); err != nil {
		return err
	}
	work.stop()
	return d.reckon(ctx, c, work)
}

func (d *Drill) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

// found starts the nodes, all or none.
func (d *Drill) found() (*nodes, error) {
	c, err := newNodes(d)
	if err != nil {
		return nil, err
	}
	d.say("Three nodes start, clients at %s, data in %s.", strings.Join(c.addrs(), ", "), d.Dir)
	for _, n := range c.all {
		if err := n.start(); err != nil {
			c.end()
			return nil, fmt.Errorf("a node did not start: %w", err)
		}
	}
	return c, nil
}

// startWork sets the clients to work.
func (d *Drill) startWork(ctx context.Context, c *nodes) (*work, error) {
	w := newWork(c, d.Lease, d.Work)
	err := c.await(ctx, "the lock is taken", func(ctx context.Context) error { return w.holder.take(ctx) })
	if err != nil {
		return nil, err
	}
	d.say("A client has taken the lock %s with the token %s: its fence is %d. It renews it each %s.", lockKey, w.holder.token,
		w.holder.fence, renewEvery(d.Lease))
	d.say("A rival asks for the same lock again and again, and a writer counts: one INCR after the other.")
	w.start(ctx)
	return w, nil
}

// killLeader kills the leader and waits until the others go on without it.
func (d *Drill) killLeader(ctx context.Context, c *nodes, w *work, leader *node) error {
	d.say("%d writes are acknowledged. Now %s is killed: kill -9 %d.", w.writer.sofar().acked, leader, leader.PID())
	w.writer.mark()
	leader.kill()
	next, term, err := c.awaitLeader(ctx)
	if err != nil {
		return err
	}
	if err := w.awaitWrites(ctx, c); err != nil {
		return err
	}
	if err := w.rest(ctx); err != nil {
		return err
	}
	d.say("%s leads in term %s. No write was acknowledged for %s.", next, term, inSeconds(w.writer.sofar().longest))
	if err := w.holder.confirm(ctx, c); err != nil {
		return err
	}
	d.say("The lock is still held, by the same token, with the fence %d.", w.holder.fence)
	return nil
}

// bringBack starts the killed node again, and waits until it has all that the others have.
func (d *Drill) bringBack(ctx context.Context, c *nodes, w *work, killed *node) error {
	if err := killed.start(); err != nil {
		return fmt.Errorf("the killed node did not start again: %w", err)
	}
	began := time.Now()
	d.say("%s is started again with its data: pid %d.", killed.id, killed.PID())
	if err := c.awaitCaughtUp(ctx, killed); err != nil {
		return err
	}
	d.say("It follows, and has caught up after %s.", inSeconds(time.Since(began)))
	return w.rest(ctx)
}

// reckon compares what clients were told with what there is, when they have stopped.
func (d *Drill) reckon(ctx context.Context, c *nodes, w *work) error {
	if err := w.trouble(); err != nil {
		return err
	}
	count := w.writer.sofar()
	for _, n := range c.all {
		value, err := c.integer(ctx, n, "GET", counterKey)
		switch {
		case err != nil:
			return err
		case value < count.acked:
			return broken("%d writes were acknowledged, and %s has only %d of them", count.acked, n.id, value)
		case value > count.acked+count.doubtful:
			return broken("%s counts %d, and only %d writes were sent", n.id, value, count.acked+count.doubtful)
		}
		count.there = value
	}
	d.say("%d writes were acknowledged, %d left in doubt (-UNKNOWN, or no answer), and the counter is at %d: "+
		"none was lost, none was done twice.", count.acked, count.doubtful, count.there)
	if err := w.holder.confirm(ctx, c); err != nil {
		return err
	}
	d.say("The lock was renewed %d times, and is held with the fence %d as ever; the rival asked %d times and never got it.",
		w.holder.renewed.Load(), w.holder.fence, w.rival.asked.Load())
	hash, err := c.awaitSameState(ctx)
	if err != nil {
		return err
	}
	d.say("All three nodes have the same state: %s.", hash)
	d.say("The promise held.")
	return nil
}

// awaitSameState waits until all nodes have applied the same entries, and returns the hash of their state. Only the
// log clock still writes.
func (c *nodes) awaitSameState(ctx context.Context) (hash string, err error) {
	err = c.await(ctx, "all nodes have the same state", func(ctx context.Context) error {
		at := map[int64]string{}
		for _, n := range c.all {
			r, err := c.ask(ctx, n, "LOCKD", "HASH")
			if err != nil {
				return err
			}
			if len(r.Elems) != 2 {
				return errors.New("the answer to LOCKD HASH is not as expected")
			}
			index := r.Elems[0].Int
			if known := at[index]; known != "" && known != r.Elems[1].Str {
				return broken("the nodes have different states at entry %d", index)
			}
			at[index], hash = r.Elems[1].Str, r.Elems[1].Str
		}
		if len(at) > 1 {
			return fmt.Errorf("they have applied entries %v", slices.Sorted(maps.Keys(at)))
		}
		return nil
	})
	return hash, err
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// await tries something again until there is no error, for stepMax at the most. A BrokenError is final.
func (c *nodes) await(ctx context.Context, what string, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepMax)
	defer cancel()
	for {
		err := cmp.Or(c.ended(), try(ctx))
		if err == nil || errors.As(err, &BrokenError{}) || errors.As(err, new(*process.EndedError)) {
			return err
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, stepMax, err)
		}
	}
}

// awaitPause is the pause between two tries of await.
const awaitPause = 20 * time.Millisecond
