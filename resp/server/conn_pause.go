package server

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"lockd/resp"
)

func pauseRows() []row {
	return []row{
		{Spec: resp.Spec{Name: "client|pause", Arity: -3, Flags: administrative, Group: "connection", Since: "2.9.50",
			Summary: "Stop processing commands from clients for some time", Syntax: "timeout [WRITE | ALL]"},
			Run: action{run: clientPause}},
		{Spec: resp.Spec{Name: "client|unpause", Arity: 2, Flags: administrative, Group: "connection", Since: "6.2.0",
			Summary: "Resume processing of clients that were paused"}, Run: action{run: clientUnpause}},
	}
}

func clientPause(s *session, args resp.Args) resp.Reply {
	if len(args) > 4 {
		return wrongSubcommand("client", args[1])
	}
	all := len(args) == 3 || resp.Is(args[3], "ALL")
	if !all && !resp.Is(args[3], "WRITE") {
		return resp.Err("ERR CLIENT PAUSE mode must be WRITE or ALL")
	}
	ms, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		return resp.Err("ERR timeout is not an integer or out of range")
	case ms < 0:
		return resp.Err("ERR timeout is negative")
	}
	now := s.srv.clock()
	s.srv.pause.hold(all, now.Add(time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond)))*time.Millisecond), now)
	return resp.OK()
}

func clientUnpause(s *session, _ resp.Args) resp.Reply {
	s.srv.pause.lift()
	return resp.OK()
}

// pause delays the commands of this node's clients, all or only writes (CLIENT PAUSE). Other nodes are not affected.
type pause struct {
	active atomic.Bool // read first, without the lock

	mu      sync.Mutex
	all     bool
	until   time.Time
	changed chan struct{} // closed when the pause changes
}

// hold begins a pause, or makes the present one stricter or longer, never milder.
func (p *pause) hold(all bool, until, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.After(now) {
		p.all, p.until = false, until
	}
	p.all = p.all || all
	if until.After(p.until) {
		p.until = until
	}
	p.notify()
	p.active.Store(true)
}

// lift ends the pause.
func (p *pause) lift() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
	p.active.Store(false)
	p.notify()
}

// notify makes waiting commands check the pause again. mu is held.
func (p *pause) notify() {
	if p.changed != nil {
		close(p.changed)
	}
	p.changed = make(chan struct{})
}

// holds returns how long a command must wait, 0 for not at all, and a channel that is closed when the pause changes.
func (p *pause) holds(writes bool, now time.Time) (left time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left = p.until.Sub(now)
	if left <= 0 {
		p.active.Store(false)
		return 0, nil
	}
	if !p.all && !writes {
		return 0, nil
	}
	return left, p.changed
}

// waitOutPause delays a command while clients are paused; the commands before it are answered. It returns false if
// the client disconnects meanwhile.
func (s *session) waitOutPause(c *command) bool {
	p := &s.srv.pause
	if !p.active.Load() || s.monitors.Load() {
		return true
	}
	writes := s.mayWrite(c)
	for {
		left, changed := p.holds(writes, s.srv.clock())
		if left <= 0 {
			return true
		}
		s.endRun()
		if s.flush() != nil || !s.sleep(left, changed) {
			s.closing = true
			return false
		}
	}
}

func (s *session) sleep(d time.Duration, changed <-chan struct{}) bool {
	s.blocked.Store(true)
	defer s.blocked.Store(false)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-s.ctx.Done():
		return false
	}
	return true
}

// mayWrite reports whether a command counts as a write for CLIENT PAUSE.
func (s *session) mayWrite(c *command) bool {
	const writes = resp.Write | resp.MayReplicate
	if c.act == nil || !c.act.executes || s.tx == nil {
		return c.spec.Flags&writes != 0
	}
	for _, q := range s.tx.cmds {
		if q.of.spec.Flags&writes != 0 {
			return true
		}
	}
	return false
}
