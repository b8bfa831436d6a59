package server

import (
	"slices"
	"strings"

	"lockd/resp"
	"lockd/resp/server/track"
)

// flight is a request of a session that tracks, on its way to the backend and back.
type flight struct {
	cmds    []resp.Cmd
	of      []*command
	tracked []bool // commands whose reads are to be remembered
	aborted bool   // a transaction that was not run: it has read nothing

	trace *resp.Trace // nil: not known
	gone  int         // reads of the trace that were gone through
}

// followRun begins the flight of the run that has gathered.
func (s *session) followRun(req *resp.Request) *flight {
	if !s.track.On {
		return nil
	}
	f := s.takeOff(req, s.runOf)
	if f != nil {
		for i := range s.runOf {
			f.tracked = append(f.tracked, s.track.Wants(s.runFirst && i == 0))
		}
	}
	return f
}

// followTransaction begins the flight of a transaction's data commands. Which of
// their reads are to be remembered is decided while its array is composed.
func (s *session) followTransaction(tx *transaction, req *resp.Request) *flight {
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
	return s.takeOff(req, of)
}

// takeOff begins the flight of a request; nil if nobody needs to follow it.
func (s *session) takeOff(req *resp.Request, of []*command) *flight {
	const data = resp.ReadOnly | resp.Write | resp.MayReplicate
	if !slices.ContainsFunc(of, func(c *command) bool { return c.spec.Flags&data != 0 }) {
		return nil
	}
	f := &flight{cmds: req.Cmds, of: of, tracked: make([]bool, 0, len(of))}
	req.Trace = true
	h := s.srv.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tracking.Begin(&s.track)
	return f
}

// arrive takes the answer of the backend. Of a run it may answer some first commands only:
// the others are run by themselves.
func (f *flight) arrive(res resp.Result) {
	f.aborted = res.Aborted
	n := min(len(f.cmds), max(1, len(res.Replies)))
	f.cmds, f.of = f.cmds[:n], f.of[:n]
	if res.Trace != nil && len(res.Trace.Marks) == n {
		f.trace = res.Trace
	}
}

// remembers reports whether what command i reads is to be remembered. Of a transaction
// that was not run it is never said.
func (f *flight) remembers(i int) bool { return i < len(f.tracked) && f.tracked[i] }

// settle ends a flight: it appends the replies of its commands (or finds them appended, where
// reply is nil), remembers what was read, and tells the client what has changed since. Under the
// hub's lock all of it is one step: no change comes between a reply and the memory of it.
func (s *session) settle(f *flight, reply func(i int)) {
	h := s.srv.hub
	h.mu.Lock()
	h.answering = s
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
	h.endAnswer()
	h.mu.Unlock()
	s.waitForRoom()
}

// made are the changes that the request itself has made; zero where that is not known.
func (f *flight) made() track.Span {
	t := f.trace
	if t == nil {
		return track.Span{}
	}
	return track.Span{Index: t.Index, From: t.From, To: t.Marks[len(t.Marks)-1]}
}

// goThrough hands on what command i has read: first what its scripts read, in their order, then
// its own keys. Commands are gone through one after the other.
func (f *flight) goThrough(a *track.Answer, i int) {
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

// endCaching ends what CLIENT CACHING asked for, after the one command it was for: a
// transaction counts as one, and other commands of CLIENT do not count, as in Redis.
func (s *session) endCaching(c *command) {
	if s.track.Caching && s.tx == nil && (c == nil || !strings.HasPrefix(c.spec.Name, "client|")) {
		s.track.Caching = false
	}
}
