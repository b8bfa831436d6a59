package access

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Guesses counts wrong passwords by address and blocks addresses that try too many. Its methods are safe for
// concurrent use.
type Guesses struct {
	mu sync.Mutex
	of map[string]*guessed
}

// guessed counts the wrong passwords of an address since a time.
type guessed struct {
	n     int
	since time.Time
}

// Limits of wrong passwords.
const (
	GuessesMax    = 100         // of an address, within GuessesWithin; then its logins are refused
	GuessesWithin = time.Minute // since the first of them

	guessersMax = 4096 // addresses counted at a time
)

// NewGuesses returns an empty count.
func NewGuesses() *Guesses { return &Guesses{of: map[string]*guessed{}} }

// Wait returns how long the logins of an address are still refused; 0: they are not.
func (g *Guesses) Wait(addr net.Addr, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.of[origin(addr)]
	if at == nil || at.n < GuessesMax {
		return 0
	}
	return max(0, at.since.Add(GuessesWithin).Sub(now))
}

// Wrong counts a wrong password.
func (g *Guesses) Wrong(addr net.Addr, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	who := origin(addr)
	at := g.of[who]
	if at == nil || now.Sub(at.since) >= GuessesWithin {
		if at == nil {
			g.makeRoom(now)
		}
		at = &guessed{since: now}
		g.of[who] = at
	}
	at.n++
}

// makeRoom removes expired counts, or else any one.
func (g *Guesses) makeRoom(now time.Time) {
	if len(g.of) < guessersMax {
		return
	}
	for who, at := range g.of {
		if now.Sub(at.since) >= GuessesWithin {
			delete(g.of, who)
		}
	}
	for who := range g.of {
		if len(g.of) < guessersMax {
			return
		}
		delete(g.of, who)
	}
}

// origin returns the address to count by: of an IPv6 address its /64 network.
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
