package track

import (
	"slices"

	"lockd/resp"
)

// readsMax bounds the keys that one request reads and that are remembered.
const readsMax = 1 << 16

// Request is a request of a client that tracks keys, on its way to the backend and back. When the answer arrives, its
// reads are ordered with the changes published meanwhile.
type Request struct {
	Tracked []bool // for each command: remember its reads

	cmds    []resp.Cmd
	aborted bool        // the transaction was not run, so it read nothing
	trace   *resp.Trace // nil: not known
	gone    int         // reads of the trace already handled
}

// Follow begins to follow a request, which is not yet sent; nil if none of its commands accesses data. The lock is
// held. Answer must follow in any case.
func (t *Table) Follow(c *Client, req *resp.Request) *Request {
	t.Begin(c)
	req.Trace = true
	return &Request{cmds: req.Cmds, Tracked: make([]bool, 0, len(req.Cmds))}
}

// Accesses reports whether any of the commands accesses data: only such a request has to be followed.
func Accesses(cmds []resp.Cmd) bool {
	return slices.ContainsFunc(cmds, func(c resp.Cmd) bool { return c.Is(resp.ReadOnly | resp.Write | resp.MayReplicate) })
}

// Answered takes the answer of the backend. For a run it may cover only the first commands; the others run again by
// themselves.
func (f *Request) Answered(res resp.Result) {
	f.aborted = res.Aborted()
	n := min(len(f.cmds), max(1, len(res.Replies)))
	f.cmds = f.cmds[:n]
	if res.Trace != nil && len(res.Trace.Marks) == n && f.reads(res.Trace) <= readsMax {
		f.trace = res.Trace
	}
}

// reads returns how many keys the request may have to remember. More than readsMax would hold the hub's lock
// too long: the client is then told that any key may have changed, as when the reads are unknown.
func (f *Request) reads(t *resp.Trace) int {
	n, may := 0, func(i int) bool { return i >= len(f.Tracked) || f.Tracked[i] }
	for _, r := range t.Reads {
		if may(r.Cmd) {
			n++
		}
	}
	for i, c := range f.cmds {
		if may(i) && c.Spec != nil && c.Spec.ReadsKeys() {
			keys, _ := c.Spec.Keys.Of(c.Args)
			n += len(keys)
		}
	}
	return n
}

// remembers reports whether to remember the reads of command i; never those of a transaction that was not run.
func (f *Request) remembers(i int) bool { return i < len(f.Tracked) && f.Tracked[i] }

// Answer answers the request: for each command it calls reply, which appends its reply, and remembers the keys that the
// command read; the client gets the changes since. The lock is held throughout, so that no change is published in
// between.
func (f *Request) Answer(t *Table, c *Client, reply func(i int)) {
	answer := t.Answer(c, f.made())
	for i := range f.cmds {
		reply(i)
		if f.trace != nil {
			f.goThrough(&answer, i)
		}
	}
	answer.End(f.trace != nil || f.aborted)
}

// made returns the span of changes that the request itself made; zero if unknown.
func (f *Request) made() Span {
	t := f.trace
	if t == nil {
		return Span{}
	}
	return Span{Index: t.Index, From: t.From, To: t.Marks[len(t.Marks)-1]}
}

// goThrough records the reads of command i: first those of its scripts, in order, then its own keys. Commands are
// handled in order.
func (f *Request) goThrough(a *Answer, i int) {
	for ; f.gone < len(f.trace.Reads) && f.trace.Reads[f.gone].Cmd == i; f.gone++ {
		a.Read(f.trace.Reads[f.gone].Key, f.trace.Reads[f.gone].At, f.remembers(i))
	}
	c, mark := &f.cmds[i], f.trace.Marks[i]
	if c.Spec != nil && c.Spec.ReadsKeys() {
		keys, _ := c.Spec.Keys.Of(c.Args)
		for _, key := range keys {
			a.Read(key, mark, f.remembers(i))
		}
	}
	a.UpTo(mark)
}
