package store

import "testing"

// A history knows the tokens of its last starts, and no others.
func TestHistory(t *testing.T) {
	var h History
	if _, ok := h.Token(0); ok {
		t.Error("a history without starts has a token")
	}
	tokens := map[uint64]string{}
	for start := uint64(1); start <= tokensKept+5; start++ {
		h = h.next()
		tokens[start] = h.Tokens[len(h.Tokens)-tokenLen:]
	}
	if h.Starts != tokensKept+5 || len(h.Tokens) != TokensMax {
		t.Errorf("%d starts, %d bytes of tokens", h.Starts, len(h.Tokens))
	}
	for start := uint64(0); start <= h.Starts+1; start++ {
		token, ok := h.Token(start)
		if kept := start > 5 && start <= h.Starts; ok != kept || kept && token != tokens[start] {
			t.Errorf("start %d: %q, %v", start, token, ok)
		}
	}
}
