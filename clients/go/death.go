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
	struck chan struct{}  // closed when the leaders are dead
	over   chan struct{}  // closed when all must be well again
	failed error          // of the kills; to be read when it is over
}

// How long the scenes play before the leaders die, and after.
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

// heal starts the dead again, for the scenes to come.
func (d *death) heal() error {
	if !isLockd {
		return nil
	}
	<-d.over
	_, err := tell(context.Background(), "/heal")
	return err
}

// isOver reports whether all must be well again.
func (d *death) isOver() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}
