package access

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// What is remembered is bounded, and a network of IPv6 is one address.
func TestWrongPasswordsAreBounded(t *testing.T) {
	now := time.Now()
	g := NewGuesses()
	at := func(text string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for i := range guessersMax + 100 {
		g.Wrong(at(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)), now)
	}
	if len(g.of) != guessersMax {
		t.Errorf("%d are remembered", len(g.of))
	}
	for i := range GuessesMax {
		g.Wrong(at(fmt.Sprintf("[2001:db8::%x]:1", i)), now)
	}
	if g.Wait(at("[2001:db8::ffff]:9"), now) != GuessesWithin || g.Wait(at("[2001:db8:0:1::1]:9"), now) != 0 {
		t.Error("a network of IPv6 is not one address")
	}
	now = now.Add(GuessesWithin)
	g.Wrong(at("10.9.9.9:1"), now)
	if len(g.of) != 1 {
		t.Errorf("%d are remembered after their time", len(g.of))
	}
}
