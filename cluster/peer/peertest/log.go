package peertest

import (
	"bytes"
	"strings"
	"sync"
)

// Log collects a node's log lines as slog.NewTextHandler writes them. The zero value is ready; it may be used
// concurrently.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// Warnings returns the lines of level WARN, without their time.
func (l *Log) Warnings() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if _, rest, ok := strings.Cut(line, "level=WARN "); ok {
			lines = append(lines, rest)
		}
	}
	return lines
}
