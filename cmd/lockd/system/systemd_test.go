package system

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// soon is after what happens at an instant of virtual time.
const soon = time.Millisecond

// manager is a fake service manager, and the node that the notifier asks.
type manager struct {
	mu    sync.Mutex
	told  []string
	waits string
	stuck chan struct{} // nil: the node moves
}

func (m *manager) notifier() *Notifier {
	return &Notifier{
		send: func(state string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.told = append(m.told, strings.ReplaceAll(strings.TrimSpace(state), "\n", " "))
			return nil
		},
		ready: func() []resp.Field {
			m.mu.Lock()
			defer m.mu.Unlock()
			return []resp.Field{{Name: "leader", Value: m.waits}, {Name: "member"}}
		},
		moves: func() {
			m.mu.Lock()
			stuck := m.stuck
			m.mu.Unlock()
			if stuck != nil {
				<-stuck
			}
		},
		log: slog.New(slog.DiscardHandler),
	}
}

// since returns what was told since the last call.
func (m *manager) since() []string {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = nil
	return told
}

func (m *manager) waitsFor(whom string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits = whom
}

// tells compares what was told since the last time.
func (m *manager) tells(t *testing.T, want ...string) {
	t.Helper()
	if got := m.since(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// READY is said once, when the node is ready; what it waits for whenever that changes.
func TestNotifyReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{waits: "no leader is known:\nn2 does not answer"}
		n := m.notifier()
		go n.Watch(t.Context(), 0)
		m.tells(t, "STATUS=not ready: no leader is known: n2 does not answer")
		n.Reloading(func() {})
		time.Sleep(time.Hour)
		m.tells(t)
		m.waitsFor("")
		time.Sleep(updateEvery + soon)
		m.tells(t, "READY=1 STATUS=serving")
		m.waitsFor("no leader is known")
		time.Sleep(updateEvery + soon)
		m.tells(t, "STATUS=not ready: no leader is known")
		m.waitsFor("")
		time.Sleep(updateEvery + soon)
		m.tells(t, "STATUS=serving")
	})
}

// The watchdog hears four times within its time of a node that moves, and nothing of one that does not.
func TestNotifyWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{}
		n := m.notifier()
		const within = 40 * time.Second
		go n.Watch(t.Context(), within)
		m.tells(t, "READY=1 STATUS=serving")
		time.Sleep(within + soon)
		m.tells(t, "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1")
		stuck := make(chan struct{})
		m.mu.Lock()
		m.stuck = stuck
		m.mu.Unlock()
		time.Sleep(10 * within)
		m.tells(t)
		close(stuck)
		time.Sleep(within)
		if got := m.since(); !slices.Contains(got, "WATCHDOG=1") {
			t.Errorf("told %q of a node that moves again", got)
		}
	})
}

// A reload is announced before and after; a stop is announced once, as the last message.
func TestNotifyReloadAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &manager{}
		n := m.notifier()
		ctx, cancel := context.WithCancel(t.Context())
		go n.Watch(ctx, time.Minute)
		m.tells(t, "READY=1 STATUS=serving")
		n.Reloading(func() {
			if got := m.since(); len(got) != 1 || !strings.HasPrefix(got[0], "RELOADING=1 MONOTONIC_USEC=") {
				t.Errorf("told %q before the reload", got)
			}
		})
		m.tells(t, "READY=1")
		n.Stopping()
		m.waitsFor("no leader is known")
		time.Sleep(time.Hour)
		n.Reloading(func() {})
		cancel()
		m.tells(t, "STOPPING=1 STATUS=stopping")
	})
}

// A manager that is not to be reached is a warning, once.
func TestNotifyNobody(t *testing.T) {
	var log bytes.Buffer
	n := (&manager{}).notifier()
	n.send = func(string) error { return errors.New("connection refused") }
	n.log = slog.New(slog.NewTextHandler(&log, nil))
	n.update()
	n.Stopping()
	if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "connection refused") {
		t.Errorf("the log is %q", got)
	}
}
