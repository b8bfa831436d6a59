package server

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// guesses counts wrong passwords by address, so that nobody finds one by trying. Its methods may be called
// concurrently.
type guesses struct {
	mu      sync.Mutex
	of      map[string]*guessed
	trouble trouble
}

// guessed are the wrong passwords of an address since a moment.
type guessed struct {
	n     int
	since time.Time
}

func newGuesses(log *slog.Logger, clock Clock) *guesses {
	return &guesses{of: map[string]*guessed{}, trouble: trouble{log: log, clock: clock}}
}

// wait is how long an address is not listened to; 0: it is.
func (g *guesses) wait(addr net.Addr, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.of[origin(addr)]
	if at == nil || at.n < wrongPasswordsMax {
		return 0
	}
	return max(0, at.since.Add(wrongPasswordsWithin).Sub(now))
}

// wrong counts a wrong password, and tells of it.
func (g *guesses) wrong(addr net.Addr, user string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	who := origin(addr)
	at := g.of[who]
	if at == nil || now.Sub(at.since) >= wrongPasswordsWithin {
		if at == nil {
			g.makeRoom(now)
		}
		at = &guessed{since: now}
		g.of[who] = at
	}
	at.n++
	g.trouble.tell("a client gave a wrong password", "addr", addr.String(),
		"user", user[:min(len(user), loggedNameBytesMax)])
}

// makeRoom forgets what is over, or else anybody.
func (g *guesses) makeRoom(now time.Time) {
	if len(g.of) < wrongPasswordsAddrMax {
		return
	}
	for who, at := range g.of {
		if now.Sub(at.since) >= wrongPasswordsWithin {
			delete(g.of, who)
		}
	}
	for who := range g.of {
		if len(g.of) < wrongPasswordsAddrMax {
			return
		}
		delete(g.of, who)
	}
}

// origin is the address whose wrong passwords are counted: one of IPv6 has as many as its network.
func origin(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.String()
	}
	ip := at.Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.WithZone("").Prefix(64) // of an IPv6 address there is one
	return network.String()
}

// trouble logs what happens again and again, but not each time.
type trouble struct {
	log    *slog.Logger
	clock  Clock
	last   time.Time
	untold int
}

func (t *trouble) tell(msg string, about ...any) {
	now := t.clock()
	if !t.last.IsZero() && now.Sub(t.last) < troubleEvery {
		t.untold++
		return
	}
	t.log.Warn(msg, append(about, "untold", t.untold)...)
	t.last, t.untold = now, 0
}
