package keyspace

import "lockd/resp"

var lcsRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "lcs", Arity: -3, Flags: resp.ReadOnly, Keys: resp.TwoKeys,
		Group: "string", Since: "7.0.0", Summary: "Find longest common substring",
		Syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]",
	}, Run: cmdLCS},
}

// lcsCellsMax bounds the table of LCS, a cell for each pair of bytes. Redis has room
// for four times as many; but every command waits while a table is filled.
const lcsCellsMax = 32 << 20

// cellWork is the work of one cell: eight of the largest tables are all that one request
// may ask for.
const cellWork = 16

// The error texts that only LCS uses.
const (
	errLCSType   = "ERR The specified keys must contain string values"
	errLCSBoth   = "ERR If you want both the length and indexes, please just use IDX."
	errLCSMemory = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
)

// lcsOptions are what follows the keys of LCS.
type lcsOptions struct {
	length, indexes, withLength bool

	shortest int64 // match that is reported
}

func cmdLCS(c *ctx, args resp.Args) resp.Reply {
	a, _, ok1 := c.lookupString(args[1])
	b, _, ok2 := c.lookupString(args[2])
	if !ok1 || !ok2 {
		return resp.Err(errLCSType)
	}
	o, why := parseLCSOptions(args[3:])
	if why != "" {
		return resp.Err(why)
	}
	return c.lcs(stringOf(a), stringOf(b), o)
}

// stringOf is the string that e holds, "" where e is nil.
func stringOf(e *entry) string {
	if e == nil {
		return ""
	}
	return e.str()
}

func parseLCSOptions(args resp.Args) (o lcsOptions, why string) {
	for i := 0; i < len(args); i++ {
		switch {
		case resp.Is(args[i], "IDX"):
			o.indexes = true
		case resp.Is(args[i], "LEN"):
			o.length = true
		case resp.Is(args[i], "WITHMATCHLEN"):
			o.withLength = true
		case resp.Is(args[i], "MINMATCHLEN") && i+1 < len(args):
			i++
			var ok bool
			if o.shortest, ok = resp.ParseInt(args[i]); !ok {
				return o, resp.ErrNotInteger
			}
		default:
			return o, resp.ErrSyntax
		}
	}
	if o.length && o.indexes {
		return o, errLCSBoth
	}
	return o, ""
}

func (c *ctx) lcs(a, b string, o lcsOptions) resp.Reply {
	cells := int64(len(a)+1) * int64(len(b)+1)
	if cells > lcsCellsMax {
		return resp.Err(errLCSMemory)
	}
	c.m.spend(cellWork * cells)
	t := newLCSTable(a, b)
	if o.length {
		return resp.Int(int64(t.length))
	}
	common, ranges := t.trace()
	if !o.indexes {
		return resp.Bulk(common)
	}
	matches := make([]resp.Reply, 0, len(ranges))
	for _, r := range ranges {
		if r.n >= o.shortest {
			matches = append(matches, r.reply(o.withLength))
		}
	}
	return resp.Map(resp.Bulk("matches"), resp.Array(matches...), resp.Bulk("len"), resp.Int(int64(t.length)))
}

// lcsTable is what is left of the table of the lengths of the longest common
// subsequences of all beginnings of a and b: which way leads back from its end.
type lcsTable struct {
	a, b   string
	length int
	up     []uint64 // of cell i, j bit i*len(b)+j: that of i-1, j is longer than that of i, j-1
}

func newLCSTable(a, b string) *lcsTable {
	t := &lcsTable{a: a, b: b, up: make([]uint64, (len(a)*len(b)+63)/64)}
	row := make([]uint32, len(b)+1) // the lengths for a[:i], left of j those for a[:i+1]
	cell := 0
	for i := range len(a) {
		diagonal, left := uint32(0), uint32(0)
		for j := range len(b) {
			above := row[j+1]
			switch {
			case a[i] == b[j]:
				left = diagonal + 1
			case above > left:
				left = above
				t.up[cell/64] |= 1 << (cell % 64)
			}
			diagonal, row[j+1] = above, left
			cell++
		}
	}
	t.length = int(row[len(b)])
	return t
}

// lcsRange is a piece that both strings have: so many bytes from these places on.
type lcsRange struct{ a, b, n int64 }

func (r lcsRange) reply(withLength bool) resp.Reply {
	reply := resp.Array(
		resp.Array(resp.Int(r.a), resp.Int(r.a+r.n-1)),
		resp.Array(resp.Int(r.b), resp.Int(r.b+r.n-1)))
	if withLength {
		reply.Elems = append(reply.Elems, resp.Int(r.n))
	}
	return reply
}

// trace walks the table from its end: what the strings have in common, and its
// pieces, the last first.
func (t *lcsTable) trace() (common string, ranges []lcsRange) {
	text, at := make([]byte, t.length), t.length
	var r lcsRange
	for i, j := len(t.a), len(t.b); i > 0 && j > 0; {
		if t.a[i-1] == t.b[j-1] {
			i, j, at = i-1, j-1, at-1
			text[at] = t.a[i]
			r = lcsRange{int64(i), int64(j), r.n + 1}
			continue
		}
		if r.n > 0 {
			ranges, r = append(ranges, r), lcsRange{}
		}
		if cell := (i-1)*len(t.b) + j - 1; t.up[cell/64]>>(cell%64)&1 == 1 {
			i--
		} else {
			j--
		}
	}
	if r.n > 0 {
		ranges = append(ranges, r)
	}
	return string(text), ranges
}
