package store

import "crypto/rand"

const (
	tokenLen   = 10
	tokensKept = 128 // of a folder's starts; a node that was not met for longer is not compared

	// TokensMax bounds a History's tokens, in bytes.
	TokensMax = tokensKept * tokenLen
)

// History counts the starts of a node on a data folder, with the tokens that it drew at the last of them. It is on the
// disk before anything else is done. A folder restored from a copy has a different history than the nodes remember that
// have met its node since.
type History struct {
	Starts uint64 `json:"starts"` // 0: it has none
	Tokens string `json:"tokens"` // each of tokenLen, the newest last
}

// next returns the history after one more start.
func (h History) next() History {
	h.Starts++
	h.Tokens += rand.Text()[:tokenLen]
	h.Tokens = h.Tokens[max(0, len(h.Tokens)-TokensMax):]
	return h
}

// Token returns the token of a start; false if the history does not have it.
func (h History) Token(start uint64) (string, bool) {
	back := h.Starts - start
	if start == 0 || start > h.Starts || back >= uint64(len(h.Tokens)/tokenLen) {
		return "", false
	}
	end := len(h.Tokens) - int(back)*tokenLen
	return h.Tokens[end-tokenLen : end], true
}
