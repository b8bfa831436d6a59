package clustertest

import (
	"context"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"lockd/cluster/peer/peertest"
)

// pause is one pause of a process.
type pause struct {
	from    time.Time
	resumed chan struct{} // closed at its end
}

// setPaused begins or ends a pause of the process that runs, if one does.
func (m *machine) setPaused(paused bool) {
	p := m.running()
	if p == nil {
		return
	}
	if paused {
		p.paused.CompareAndSwap(nil, &pause{from: time.Now(), resumed: make(chan struct{})})
	} else if was := p.paused.Swap(nil); was != nil {
		close(was.resumed)
	}
	for _, addr := range []string{m.PeerAddr, m.ClientAddr} {
		m.world.net.SetPaused(paused, addr)
		if p.silent.Load() { // meanwhile: its end may have ended the pause before this began one
			m.world.net.SetPaused(false, addr)
		}
	}
}

// now returns the time that the process sees: in a pause that of its begin.
func (p *Process) now() time.Time {
	if pause := p.paused.Load(); pause != nil {
		return pause.from
	}
	return time.Now()
}

// awaken waits until the process is not paused, or has ended.
func (p *Process) awaken() {
	for pause := p.paused.Load(); pause != nil && !p.ended.Load(); pause = p.paused.Load() {
		select {
		case <-pause.resumed:
		case <-p.dead:
		}
	}
}

// pausedLog is the log of a process, until that ends. A goroutine of a paused process that logs waits for the end of the
// pause. Raft logs before it draws conclusions from time: before it stands for election, and before it gives up leading.
type pausedLog struct {
	slog.Handler
	p *Process
}

// Enabled implements slog.Handler.
func (l pausedLog) Enabled(ctx context.Context, level slog.Level) bool {
	l.p.awaken()
	return !l.p.ended.Load() && l.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (l pausedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return pausedLog{l.Handler.WithAttrs(attrs), l.p}
}

// WithGroup implements slog.Handler.
func (l pausedLog) WithGroup(name string) slog.Handler {
	return pausedLog{l.Handler.WithGroup(name), l.p}
}

// processNetwork is a network as one process uses it: nothing reaches it once the process ends.
type processNetwork struct {
	peertest.View
	p *Process
}

// Dial implements peer.Network.
func (v processNetwork) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	if v.p.silent.Load() {
		return nil, os.ErrDeadlineExceeded
	}
	if at, ok := v.p.machine.Ways[addr]; ok {
		addr = at
	}
	conn, err := v.View.Dial(addr, timeout)
	if err == nil && v.p.silent.Load() {
		_ = conn.Close()
		return nil, syscall.ECONNRESET
	}
	return conn, err
}

// Listen implements peer.Network.
func (v processNetwork) Listen(addr string) (net.Listener, error) {
	if v.p.silent.Load() {
		return nil, os.ErrDeadlineExceeded
	}
	l, err := v.View.Listen(addr)
	if err == nil && v.p.silent.Load() {
		_ = l.Close()
	}
	return processListener{l, v.p}, err
}

// processListener accepts nobody once the process has ended.
type processListener struct {
	net.Listener
	p *Process
}

// Accept implements net.Listener.
func (l processListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil && l.p.silent.Load() {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return conn, err
}
