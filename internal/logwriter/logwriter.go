// Package logwriter keeps a program from blocking on a log whose reader has stopped.
package logwriter

import (
	"io"
	"sync"
	"time"
)

// Limits of a Writer.
const (
	// HeldMax bounds the lines that a Writer holds, in bytes. A line that would exceed it is dropped, and so is each
	// that follows until half of it is free again.
	HeldMax = 1 << 20
	// lastMax bounds the last words of the process, in bytes, beyond HeldMax.
	lastMax = 64 << 10
	// lineCost is the cost of a held line besides its bytes.
	lineCost = 32
	// failPause is the pause after a failed write: the disk may be full, or the reader gone.
	failPause = time.Second
)

// Writer passes lines on to another writer from a goroutine of its own. Write never blocks: it drops a line for which
// there is no room, and a notice in its place says how many lines were dropped there. A failed write is tried again.
// All methods are safe for concurrent use.
type Writer struct {
	to     io.Writer
	notice func(lines int) []byte
	wake   chan struct{} // capacity 1: there is something to write
	end    chan struct{} // closed by Close

	mu      sync.Mutex
	lines   [][]byte      // waiting
	last    [][]byte      // last words waiting: they go first
	parting bool          // lines written now are last words
	held    int           // cost of all waiting lines, and of the one being written
	writing int           // cost of the one being written
	unsaid  int           // lines dropped since the last notice
	dropped uint64        // lines dropped in all
	idle    chan struct{} // closed, and nil again, once everything is written
	ended   bool
}

// New returns a Writer to another writer and starts its goroutine. notice returns the line that tells how many lines
// were dropped in its place; it must not write to the Writer.
func New(to io.Writer, notice func(lines int) []byte) *Writer {
	w := &Writer{to: to, notice: notice, wake: make(chan struct{}, 1), end: make(chan struct{})}
	go w.run()
	return w
}

// Write takes one line, or drops it. It always succeeds.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kept := append([]byte(nil), line...); {
	case w.ended, !w.fits(len(line)):
		w.unsaid++
		w.dropped++
		return len(line), nil
	case w.parting:
		w.last = append(w.last, kept)
	default:
		w.sayDropped()
		w.lines = append(w.lines, kept)
	}
	w.held += len(line) + lineCost
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return len(line), nil
}

// fits reports whether there is room for a line of size bytes. mu is held.
func (w *Writer) fits(size int) bool {
	most := HeldMax
	switch {
	case w.parting:
		most += lastMax
	case w.unsaid > 0:
		most /= 2
	}
	return w.held+size+lineCost <= most
}

// sayDropped adds the notice in the place of dropped lines. mu is held.
func (w *Writer) sayDropped() {
	if w.unsaid > 0 {
		line := w.notice(w.unsaid)
		w.lines = append(w.lines, line)
		w.held += len(line) + lineCost
		w.unsaid = 0
	}
}

// Dropped returns how many lines were dropped since the start.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Flush waits until all lines are written, for at most the given time, and reports whether they are.
func (w *Writer) Flush(most time.Duration) bool {
	w.mu.Lock()
	if w.isIdle() {
		w.mu.Unlock()
		return true
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
	}
	idle := w.idle
	w.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
		return false
	}
}

// Last calls say, which logs the last words of the process, waits until they are written, for at most the given time,
// and reports whether they are. If the lines before them cannot be written in half of that time, the last words go
// first.
func (w *Writer) Last(most time.Duration, say func()) bool {
	w.Flush(most / 2)
	w.mu.Lock()
	w.parting = true
	w.mu.Unlock()
	say()
	return w.Flush(most / 2)
}

// Close flushes, for at most the given time, and ends the goroutine after the write in progress. Later writes are
// dropped. It reports whether all lines were written.
func (w *Writer) Close(most time.Duration) bool {
	all := w.Flush(most)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		close(w.end)
	}
	return all
}

// isIdle reports whether everything is written. mu is held.
func (w *Writer) isIdle() bool { return len(w.lines)+len(w.last)+w.writing+w.unsaid == 0 }

// run writes until the Writer is closed.
func (w *Writer) run() {
	for {
		select {
		case <-w.wake:
		case <-w.end:
			return
		}
		for line := w.next(); line != nil; line = w.next() {
			if !w.write(line) {
				return
			}
		}
	}
}

// write writes one line, and retries until it succeeds. It returns false if the Writer is closed first.
func (w *Writer) write(line []byte) bool {
	for len(line) > 0 {
		n, err := w.to.Write(line)
		n = min(max(n, 0), len(line))
		line = line[n:]
		if err == nil && n > 0 {
			continue
		}
		select {
		case <-time.After(failPause):
		case <-w.end:
			return false
		}
	}
	return true
}

// next takes the next line; nil if there is none.
func (w *Writer) next() (line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held -= w.writing
	w.writing = 0
	if len(w.lines)+len(w.last) == 0 {
		w.sayDropped()
	}
	switch {
	case len(w.last) > 0:
		line, w.last = w.last[0], w.last[1:]
	case len(w.lines) > 0:
		line, w.lines = w.lines[0], w.lines[1:]
	default:
		if w.idle != nil {
			close(w.idle)
			w.idle = nil
		}
		return nil
	}
	w.writing = len(line) + lineCost
	return line
}
