package keyspace

import (
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"lockd/resp"
)

const errDigestLength = "ERR must be exactly 16 hexadecimal characters"

// comparison is a way to compare what a key holds.
type comparison struct {
	word   string
	digest bool // with the digest, not with the value itself
	equal  bool // it is to be equal, or else to differ
}

var comparisons = []comparison{
	{word: "IFEQ", equal: true},
	{word: "IFNE"},
	{word: "IFDEQ", digest: true, equal: true},
	{word: "IFDNE", digest: true},
}

// comparisonOf is the comparison that a word names; nil for another word.
func comparisonOf(word string) *comparison {
	for i := range comparisons {
		if resp.Is(word, comparisons[i].word) {
			return &comparisons[i]
		}
	}
	return nil
}

// condition is a comparison with an operand; without a comparison it is always met.
type condition struct {
	*comparison
	operand string
}

// meets reports whether a key is as the condition asks; e is nil where it is absent,
// and then differs from everything. As in Redis, the digest's length is looked at last,
// and the digits never.
func (c *ctx) meets(cond condition, e *entry) (met bool, err error) {
	switch {
	case cond.comparison == nil:
		return true, nil
	case e == nil:
		return !cond.equal, nil
	case e.agg() != nil:
		return false, resp.Error(resp.ErrWrongType)
	case !cond.digest:
		c.m.spend(int64(len(cond.operand)))
		return (e.str() == cond.operand) == cond.equal, nil
	case len(cond.operand) != digestDigits:
		return false, resp.Error(errDigestLength)
	}
	return strings.EqualFold(c.digest(e), cond.operand) == cond.equal, nil
}

const digestDigits = 16

// digestWork is the work of a byte.
const digestWork = 2

// digest is the XXH3 hash of a string, 64 bits, with the default secret and no seed.
func (c *ctx) digest(e *entry) string {
	c.m.spend(digestWork * int64(len(e.str())))
	return fmt.Sprintf("%0*x", digestDigits, xxh3.HashString(e.str()))
}
