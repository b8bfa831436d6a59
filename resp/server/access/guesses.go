package access

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Guesses counts wrong passwords by address, so that nobody finds one by trying. Its methods may be called
// concurrently.
type Guesses struct {
	mu sync.Mutex
	of map[string]*guessed
}

// guessed are the wrong passwords of an address since a moment.
type guessed struct {
	n     int
	since time.Time
}

// Limits of wrong passwords.
const (
	GuessesMax    = 100         // of an address, in GuessesWithin; then it is not listened to
	GuessesWithin = time.Minute // since the first of them

	guessersMax = 4096 // addresses that are remembered for them
)

// NewGuesses returns one that has counted nothing.
func NewGuesses() *Guesses { return &Guesses{of: map[string]*guessed{}} }

// Wait is how long an address is not listened to; 0: it is.
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

// makeRoom forgets what is over, or else anybody.
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
