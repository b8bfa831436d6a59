package membership

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockd/cluster/peer"
	"lockd/cluster/store"
)

// A start is compared with the last one that was met, any number of starts later, while its token is kept; met starts
// are on the disk.
func TestStartBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	dir, err := store.OpenFolder(path, "n0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	open := func() *StartLog {
		b := &StartLog{Keep: func(string) bool { return false }}
		if err := b.Open(dir); err != nil {
			t.Fatal(err)
		}
		return b
	}
	const tokenLen = 10
	const kept = store.TokensMax / tokenLen
	start := func(who peer.Identity, times int) peer.Identity {
		for range times {
			who.Starts++
			who.Tokens += rand.Text()[:tokenLen]
		}
		who.Tokens = who.Tokens[max(0, len(who.Tokens)-store.TokensMax):]
		return who
	}
	meet := func(who peer.Identity, ok bool) {
		t.Helper()
		if err := open().Register(who); (err == nil) != ok || err != nil && !IsFinal(peer.ReasonOf(err)) {
			t.Errorf("start %d: %v", who.Starts, err)
		}
	}
	copied := start(peer.Identity{ID: "n1", Incarnation: "i"}, 2)
	lived := start(copied, 1)
	meet(copied, true)
	meet(lived, true)
	meet(lived, true)
	meet(copied, false)           // a lower number
	meet(start(copied, 1), false) // the same number, another token
	copied = start(copied, kept-2)
	meet(copied, false)
	lived = start(lived, kept+5)
	meet(lived, true) // it was not met for long: nothing to compare
	if err := lived.Check(); err != nil {
		t.Errorf("%d bytes of tokens, %v", len(lived.Tokens), err)
	}
	b := open()
	if err := b.Ban(lived, "node n1 "+SaysLost); err != nil {
		t.Fatal(err)
	}
	meet(start(lived, 1), false)

	for i := range 3 * seenMax {
		b.seen[fmt.Sprint(i)] = store.LastSeen{ID: fmt.Sprint(i)}
	}
	if err := b.Register(peer.Identity{ID: "n2", Incarnation: "i", Starts: 1, Tokens: strings.Repeat("x", tokenLen)}); err != nil || len(b.seen) > seenMax {
		t.Errorf("%v, %d remembered", err, len(b.seen))
	}
	altered := []byte(`{"program":"lockd peers"}` + "\n")
	if err := os.WriteFile(filepath.Join(path, "peers.json"), altered, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&StartLog{}).Open(dir); err == nil || !strings.Contains(err.Error(), "is damaged: peers.json") {
		t.Errorf("altered: %v", err)
	}
}
