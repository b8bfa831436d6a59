package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"lockd/jepsen-lite/history"
)

const (
	paceEvery = 20 * time.Millisecond  // between two checks of the processor
	syncEvery = 100 * time.Millisecond // between two writes to the disk
	paceSlow  = 200 * time.Millisecond // a delay that is recorded
	paceKept  = 10                     // delays of one workload that are recorded
)

// pace watches the machine while a workload runs: how late an idle goroutine wakes up, and how long the disk of the
// nodes takes to sync one block. No majority need write while the machine itself stands still.
type pace struct {
	began time.Time
	rec   *history.Recorder
	stop  chan struct{}
	done  sync.WaitGroup

	mu   sync.Mutex
	slow []lateness
}

// lateness is a delay that was recorded.
type lateness struct {
	at, took time.Duration // since the workload began
	what     string
}

// watchPace starts to watch the machine and the disk of dir.
func watchPace(dir string, began time.Time, rec *history.Recorder) *pace {
	p := &pace{began: began, rec: rec, stop: make(chan struct{})}
	p.done.Go(p.processor)
	p.done.Go(func() { p.disk(filepath.Join(dir, "pace")) })
	return p
}

func (p *pace) processor() {
	for last := time.Now(); p.wait(paceEvery); last = time.Now() {
		p.note("a goroutine was woken %s late", last, time.Since(last)-paceEvery)
	}
}

func (p *pace) disk(name string) {
	f, err := os.Create(name)
	if err != nil {
		return // the nodes report a broken disk themselves
	}
	defer func() { _ = f.Close(); _ = os.Remove(name) }()
	block := make([]byte, 4096)
	for p.wait(syncEvery) {
		began := time.Now()
		if _, err := f.WriteAt(block, 0); err != nil || f.Sync() != nil {
			continue
		}
		p.note("the disk took %s to sync a block", began, time.Since(began))
	}
}

// wait waits for a time. It returns false if the workload has ended.
func (p *pace) wait(d time.Duration) bool {
	select {
	case <-p.stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (p *pace) note(what string, from time.Time, took time.Duration) {
	if took < paceSlow {
		return
	}
	p.rec.Record(history.Event{
		Process: history.Nemesis, Type: history.Info, Op: history.Stood, Value: []string{strconv.FormatInt(int64(took), 10)},
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = append(p.slow, lateness{from.Sub(p.began), took, fmt.Sprintf(what, took.Round(time.Millisecond))})
}

// end stops watching and returns the longest delays, in the order of time.
func (p *pace) end() (notes []string) {
	close(p.stop)
	p.done.Wait()
	slices.SortFunc(p.slow, func(a, b lateness) int { return int(b.took - a.took) })
	p.slow = p.slow[:min(len(p.slow), paceKept)]
	slices.SortFunc(p.slow, func(a, b lateness) int { return int(a.at - b.at) })
	for _, s := range p.slow {
		notes = append(notes, fmt.Sprintf("the machine, at %.1f s: %s", s.at.Seconds(), s.what))
	}
	return notes
}
