package server

import (
	"slices"
	"strings"

	"lockd/resp"
	"lockd/resp/server/track"
)

// followed is a request of a session that tracks keys, on its way to the backend and back. When the answer arrives,
// its reads are ordered with the changes published meanwhile.
type followed struct {
	cmds    []resp.Cmd
	of      []*command
	tracked []bool // for each command: remember its reads
	aborted bool   // the transaction was not run, so it read nothing

	trace *resp.Trace // nil: not known
	gone  int         // reads of the trace already handled
}

// followRun follows the gathered run; nil if the session does not track.
func (s *session) followRun(req *resp.Request) *followed {
	if !s.track.On {
		return nil
	}
	f := s.follow(req, s.runOf)
	if f != nil {
		for i := range s.runOf {
			f.tracked = append(f.tracked, s.track.Wants(s.runFirst && i == 0))
		}
	}
	return f
}

// followTransaction follows the data commands of a transaction; nil if tracking is off and stays off. EXEC decides
// which of their reads to remember while it composes its array.
func (s *session) followTransaction(tx *transaction, req *resp.Request) *followed {
	follow := s.track.On
	var of []*command
	for _, q := range tx.cmds {
		if q.of.act == nil {
			of = append(of, q.of)
		} else {
			follow = follow || q.of.act.tracks
		}
	}
	if !follow {
		return nil
	}
	return s.follow(req, of)
}

// follow begins to follow a request; nil if none of its commands accesses data.
func (s *session) follow(req *resp.Request, of []*command) *followed {
	const data = resp.ReadOnly | resp.Write | resp.MayReplicate
	if !slices.ContainsFunc(of, func(c *command) bool { return c.spec.Flags&data != 0 }) {
		return nil
	}
	f := &followed{cmds: req.Cmds, of: of, tracked: make([]bool, 0, len(of))}
	req.Trace = true
	h := s.srv.hub
	h.broker.Lock()
	defer h.broker.Unlock()
	h.tracking.Begin(&s.track)
	return f
}

// answered takes the answer of the backend. For a run it may cover only the first commands; the others run again by
// themselves.
func (f *followed) answered(res resp.Result) {
	f.aborted = res.Aborted()
	n := min(len(f.cmds), max(1, len(res.Replies)))
	f.cmds, f.of = f.cmds[:n], f.of[:n]
	if res.Trace != nil && len(res.Trace.Marks) == n && f.reads(res.Trace) <= followedReadsMax {
		f.trace = res.Trace
	}
}

// reads returns how many keys the request may have to remember. More than followedReadsMax would hold the hub's lock
// too long: the client is then told that any key may have changed, as when the reads are unknown.
func (f *followed) reads(t *resp.Trace) int {
	n, may := 0, func(i int) bool { return i >= len(f.tracked) || f.tracked[i] }
	for _, r := range t.Reads {
		if may(r.Cmd) {
			n++
		}
	}
	for i, c := range f.of {
		if may(i) && c.spec.ReadsKeys() {
			keys, _ := c.spec.Keys.Of(f.cmds[i].Args)
			n += len(keys)
		}
	}
	return n
}

// remembers reports whether to remember the reads of command i; never those of a transaction that was not run.
func (f *followed) remembers(i int) bool { return i < len(f.tracked) && f.tracked[i] }

// answerFollowed answers a followed request: it appends the replies of its commands (reply is nil if they were
// appended before), remembers the keys read, and sends the client the changes since. It holds the hub's lock
// throughout, so that no change is published in between.
func (s *session) answerFollowed(f *followed, reply func(i int)) {
	h := s.srv.hub
	h.broker.Lock()
	h.broker.BeginAnswer(&s.sub, &s.pending)
	answer := h.tracking.Answer(&s.track, f.made())
	for i := range f.cmds {
		if reply != nil {
			reply(i)
		}
		if f.trace != nil {
			f.goThrough(&answer, i)
		}
	}
	answer.End(f.trace != nil || f.aborted)
	s.handOver()
	h.broker.EndAnswer()
	h.broker.Unlock()
	s.waitForRoom()
}

// made returns the span of changes that the request itself made; zero if unknown.
func (f *followed) made() track.Span {
	t := f.trace
	if t == nil {
		return track.Span{}
	}
	return track.Span{Index: t.Index, From: t.From, To: t.Marks[len(t.Marks)-1]}
}

// goThrough records the reads of command i: first those of its scripts, in order, then its own keys. Commands are
// handled in order.
func (f *followed) goThrough(a *track.Answer, i int) {
	for ; f.gone < len(f.trace.Reads) && f.trace.Reads[f.gone].Cmd == i; f.gone++ {
		a.Read(f.trace.Reads[f.gone].Key, f.trace.Reads[f.gone].At, f.remembers(i))
	}
	spec, mark := f.of[i].spec, f.trace.Marks[i]
	if spec.ReadsKeys() {
		keys, _ := spec.Keys.Of(f.cmds[i].Args)
		for _, key := range keys {
			a.Read(key, mark, f.remembers(i))
		}
	}
	a.UpTo(mark)
}

// endCaching ends the effect of CLIENT CACHING, which lasts for one command. As in Redis a transaction counts as one
// command, and commands of CLIENT do not count.
func (s *session) endCaching(c *command) {
	if s.track.Caching && s.tx == nil && (c == nil || !strings.HasPrefix(c.spec.Name, "client|")) {
		s.track.Caching = false
	}
}
