package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Limits of garbage beside live memory. Go's default lets garbage grow to the size of the live heap, so a node with a
// million locks would need twice their memory. A collection costs in proportion to the live heap, and the room for
// garbage decides how often it runs: bounding garbage by a share of the live heap keeps the price of a write constant
// for any number of keys. A larger share takes more memory for each lock; a smaller one costs CPU time that shows
// (bench/RESULTS.md, "Memory of a million locks").
const (
	wasteBytes   = 48 << 20 // a node that has less alive is left to Go's default
	wastePercent = 35       // of the live heap, where that is more
)

// heapLookEvery is the interval at which the heap is measured, from a value that the runtime keeps. A heap that grows
// fast in between is only collected less often.
const heapLookEvery = time.Second

// boundHeap bounds garbage until ctx ends, unless the operator has configured collection in the variables that Go's
// runtime reads.
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

// liveHeap returns the bytes that the last collection found alive.
func liveHeap() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64()
}

// defaultPercent is Go's own.
const defaultPercent = 100

// percentStep is the least change of the percentage: each change stops the program for a moment.
const percentStep = 5

// gcPercent is the share of live bytes after whose allocation they are collected.
func gcPercent(live uint64) int {
	percent := defaultPercent
	if live > wasteBytes {
		percent = int(wasteBytes * 100 / live)
	}
	return max(percent-percent%percentStep, wastePercent)
}
