package keyspace

import (
	"lockd/keyspace/value"
	"lockd/resp"
)

// randomFieldsMax bounds the fields of one HRANDFIELD with a negative count, which
// may name a field again and again: Redis has no bound there but its memory.
const randomFieldsMax = 1 << 20

// randomCount reads the count and the word with that may follow it, in the order of
// Redis's checks.
func randomCount(args resp.Args, with string) (count int64, withValues bool, err error) {
	count, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		return 0, false, resp.Error(resp.ErrNotInteger)
	case count < -maxInt:
		return 0, false, resp.Error(errCountRange)
	case len(args) > 4 || len(args) == 4 && !resp.Is(args[3], with):
		return 0, false, resp.Error(resp.ErrSyntax)
	}
	withValues = len(args) == 4
	if withValues && (count > maxInt/2 || count < -maxInt/2) || count < -randomFieldsMax {
		return 0, false, resp.Error(resp.ErrOutOfRange)
	}
	return count, withValues, nil
}

// drawable counts the work of drawing from n elements, and of finding what was drawn, or
// says why that is too much.
func (c *ctx) drawable(n int, count int64) error {
	draws := min(count, int64(n))
	draws = max(draws, -draws)
	if !c.m.affords(2 * draws * value.TreeWork(n)) {
		return resp.Error(errWorkMeter)
	}
	return nil
}

// choose draws from the n numbers below n: count different ones, all of them in
// their order where count reaches n, or -count independent ones.
func (c *ctx) choose(n int, count int64) []int {
	if count < 0 {
		chosen := make([]int, -count)
		for i := range chosen {
			chosen[i] = c.randN(n)
		}
		return chosen
	}
	chosen := make([]int, min(count, int64(n)))
	if len(chosen) == n {
		for i := range chosen {
			chosen[i] = i
		}
		return chosen
	}
	// A shuffle that keeps only the places it has changed.
	moved := map[int]int{}
	place := func(i int) int {
		if at, ok := moved[i]; ok {
			return at
		}
		return i
	}
	for i := range chosen {
		j := i + c.randN(n-i)
		chosen[i] = place(j)
		moved[j] = place(i)
	}
	return chosen
}
