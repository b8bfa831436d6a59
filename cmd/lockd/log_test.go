//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"lockd/internal/logwriter"
)

// fifo makes a pipe with a name, and opens both of its ends.
func fifo(t *testing.T) (path string, pipe *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	return path, pipe
}

// fillPipe fills a pipe until not a byte has room.
func fillPipe(t *testing.T, pipe *os.File) {
	t.Helper()
	raw, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for _, size := range []int{4096, 1} {
			for {
				if _, err := syscall.Write(int(fd), make([]byte, size)); err != nil {
					break
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Three nodes whose logs block or fail: a full pipe, a pipe without reader, a disk without room. All of them serve,
// lead in turn and stop when asked to.
func TestLogsThatNobodyReads(t *testing.T) {
	t.Parallel()
	full, fullPipe := fifo(t)
	fillPipe(t, fullPipe)
	gone, gonePipe := fifo(t)
	to := []string{full, gone, "/dev/full"}
	cluster := startClusterIn(t, 3, func(i int) []string {
		return []string{"sh", "-c", `exec "$@" 2>` + to[i], "sh"}
	}, func(int) []string { return append(calm, "--log-level", "debug") })
	_ = gonePipe.Close()
	write := func() {
		t.Helper()
		for _, p := range cluster {
			eventually(t, startTimeout, "a write at "+p.name, func() error {
				return p.client().Set(t.Context(), "k", p.name, 0).Err()
			})
		}
	}
	write()
	for _, next := range append(cluster, cluster...) {
		eventually(t, startTimeout, next.name+" leads", func() error {
			leader := cluster.leader(t)
			if leader == next {
				return nil
			}
			return errors.Join(errors.New("not yet"), leader.client().Do(t.Context(), "LOCKD", "TRANSFER", next.name).Err())
		})
		write()
	}
	for _, p := range cluster {
		p.Signal(syscall.SIGTERM)
		if status := p.wait(startTimeout); status != 0 {
			t.Errorf("%s ended with status %d", p.name, status)
		}
	}
}

// Lines that are lost are counted, in INFO and in /metrics, and the log says where they are missing.
func TestLostLinesAreTold(t *testing.T) {
	ports, web := freePorts(t, 2), consoleFlag(t)
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	parsed, _, err := parse(append([]string{"serve", "--dir", t.TempDir(), "--listen", addr, "--log-level", "error",
		"--peer-listen", fmt.Sprintf("127.0.0.1:%d", ports[1])}, web...), nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c, read := parsed.(*serveCmd), make(chan struct{})
	var out logBuffer
	w := c.openLog(writerFunc(func(line []byte) (int, error) { <-read; return out.Write(line) }))
	log := slog.New(c.handler(w, slog.LevelInfo)) // the node logs nothing itself that would be counted
	node, err := start(c, c.logger(w))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.stop)
	p := &proc{t: t, name: "n", addr: addr, args: web}
	says := func(dropped string) {
		t.Helper()
		if info := p.client().Info(t.Context(), "stats").Val(); !strings.Contains(info, "\r\nlog_lines_dropped:"+dropped+"\r\n") {
			t.Error("INFO stats:", info)
		}
		p.shows("/metrics", http.StatusOK, "\nlockd_log_lines_dropped_total "+dropped+"\n")
	}
	says("0")
	for range logwriter.HeldMax>>10 + 100 {
		log.Info(strings.Repeat("x", 1<<10))
	}
	dropped := strconv.FormatUint(w.Dropped(), 10)
	if w.Dropped() < 100 {
		t.Errorf("%s lines were dropped", dropped)
	}
	says(dropped)
	close(read)
	if !w.Flush(startTimeout) || !strings.Contains(out.tail(1), "are missing here") || !strings.HasSuffix(out.tail(1), " lines="+dropped) {
		t.Errorf("the log ends with %s", out.tail(1))
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A process that must stop says why, also where its log is full or fails, and waits no longer for that than it must.
func TestLastWords(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			f := logFlags{LogLevel: "error", LogFormat: format}
			w := f.openLog(&out)
			ended := 0
			f.dies(f.logger(w), errors.New("the disk is on fire"), func(status int) { ended = status })
			w.Close(logEndMax)
			if text := out.String(); ended != exitFault || !strings.Contains(text, "lockd stops") || !strings.Contains(text, "on fire") {
				t.Errorf("status %d: %s", ended, text)
			}
			notice := string(f.dropNotice(7))
			if !regexp.MustCompile(`level"?[:=]"?WARN.*are missing here.*lines"?[:=]7`).MatchString(notice) || strings.Count(notice, "\n") != 1 {
				t.Error(notice)
			}
		})
	}
	var f logFlags
	ended := 0
	f.dies(slog.New(slog.DiscardHandler), errors.New("any"), func(status int) { ended = status })
	if ended != exitFault {
		t.Error("a process without a log goes on")
	}
}
