package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// What garbage may take beside what is alive. By default Go lets it take as much
// again, so a node with a million locks would need twice the memory that they do. A
// collection costs about as much as there is alive, and comes after as much as may be
// wasted: a share of it keeps the price of a write the same for any number of keys.
// A larger share takes more memory for each lock; a smaller one costs CPU time that shows
// (bench/RESULTS.md, "Memory of a million locks").
const (
	wasteBytes   = 48 << 20 // a node that has less alive is left to Go's default
	wastePercent = 35       // of what is alive, where that is more
)

// heapLookEvery is how often the heap is looked at: one figure that the runtime has
// ready. A heap that grows by much in that time has been collected less often, no worse.
const heapLookEvery = time.Second

// boundHeap keeps the garbage within its bounds until ctx ends, unless the operator has
// said how to collect, in the variables that Go's runtime reads.
func boundHeap(ctx context.Context, getenv func(string) string) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return
	}
	go func() {
		looks := time.NewTicker(heapLookEvery)
		defer looks.Stop()
		defer debug.SetGCPercent(defaultPercent)
		for percent := defaultPercent; ; {
			select {
			case <-ctx.Done():
				return
			case <-looks.C:
			}
			if next := gcPercent(liveHeap()); next != percent {
				debug.SetGCPercent(next)
				percent = next
			}
		}
	}()
}

// liveHeap is how many bytes the last collection has found alive.
func liveHeap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// defaultPercent is Go's own.
const defaultPercent = 100

// percentStep is by how much the percentage changes at least: a change stops the
// program for a moment.
const percentStep = 5

// gcPercent is the share of live bytes after whose allocation they are collected.
func gcPercent(live uint64) int {
	percent := defaultPercent
	if live > wasteBytes {
		percent = int(wasteBytes * 100 / live)
	}
	return max(percent-percent%percentStep, wastePercent)
}
