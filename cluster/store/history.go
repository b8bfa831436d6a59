package store

import "crypto/rand"

const (
	tokenLen   = 10
	tokensKept = 128 // of a folder's starts; who was not met for longer is not compared

	// TokensMax is how long a History's tokens may be, in bytes.
	TokensMax = tokensKept * tokenLen
)

// History is how often a node was started on a data folder, and what it drew at the last of
// these starts. It is on the disk before anything else is done. A folder that is put back as
// it was before has another one than those remember that have met its node since.
type History struct {
	Starts uint64 `json:"starts"` // 0: it has none
	Tokens string `json:"tokens"` // each of tokenLen, the newest last
}

// next is the history after one more start.
func (h History) next() History {
	h.Starts++
	h.Tokens += rand.Text()[:tokenLen]
	h.Tokens = h.Tokens[max(0, len(h.Tokens)-TokensMax):]
	return h
}

// Token is what was drawn at a start; false if the history does not say.
func (h History) Token(start uint64) (string, bool) {
	back := h.Starts - start
	if start == 0 || start > h.Starts || back >= uint64(len(h.Tokens)/tokenLen) {
		return "", false
	}
	end := len(h.Tokens) - int(back)*tokenLen
	return h.Tokens[end-tokenLen : end], true
}
