package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// death is one death of the leaders of all clusters, which several scenes share.
type death struct {
	absent sync.WaitGroup // scenes that are not ready for it yet
	struck chan struct{}  // closed when the leaders have been killed
	over   chan struct{}  // closed when all must serve again
	failed error          // of the kills; valid once it is over
}

// Times for which the scenes run before the death of the leaders, and after.
const (
	beforeDeath = 2 * time.Second
	afterDeath  = 9 * time.Second
)

func newDeath(scenes int) *death {
	d := &death{struck: make(chan struct{}), over: make(chan struct{})}
	d.absent.Add(scenes)
	return d
}

// strike kills the leaders when all scenes are ready.
func (d *death) strike() {
	d.absent.Wait()
	time.Sleep(beforeDeath)
	_, err := tell(context.Background(), "/kill-leader")
	_, clusterErr := tell(context.Background(), "/kill-cluster-leader")
	d.failed = errors.Join(err, clusterErr)
	close(d.struck)
	time.Sleep(afterDeath)
	close(d.over)
}

// heal restarts the killed leaders, for later scenes.
func (d *death) heal() error {
	if !isLockd {
		return nil
	}
	<-d.over
	_, err := tell(context.Background(), "/heal")
	return err
}

// isOver reports whether all must serve again.
func (d *death) isOver() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}
