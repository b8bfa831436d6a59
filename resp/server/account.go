package server

import (
	"time"

	"lockd/resp"
	"lockd/resp/server/stats"
)

// account keeps the figures of commands that ran together; first are the
// arguments of the first.
func (s *session) account(start time.Time, cmds []*command, first resp.Args, r resp.Reply) {
	s.countIfError(r)
	s.accountRun(start, cmds, first, resp.Result{Replies: []resp.Reply{r}})
}

func (s *session) countIfError(r resp.Reply) {
	if r.IsErr() {
		s.srv.stats.CountError(r)
	}
}

// accountRun shares the time of a run out among its commands: it took effect as
// one, and nobody knows more.
func (s *session) accountRun(start time.Time, cmds []*command, first resp.Args, res resp.Result) {
	took := max(0, s.srv.clock().Sub(start).Microseconds())
	s.srv.stats.Commands.Add(int64(len(cmds)))
	share := took / int64(len(cmds))
	for i, c := range cmds {
		c.stats.Count(share, replyAt(res, i).IsErr())
	}
	set := &s.srv.hub.settings
	if slow := set.slowlogMicros.Load(); slow >= 0 && took >= slow && cmds[0].spec.Flags&resp.SkipSlowlog == 0 {
		s.logSlow(start, took, cmds, first)
	}
	if limit := set.latencyMillis.Load(); limit > 0 && took >= limit*1000 {
		s.srv.latency.Add(cmds[0].spec.Flags&resp.Fast != 0, start, took/1000)
	}
}

func (s *session) logSlow(start time.Time, micros int64, cmds []*command, first resp.Args) {
	name, _, _ := s.names.get()
	s.srv.slowlog.Add(stats.Slow{
		Start: start, Micros: micros, Addr: s.addr, Name: name, More: len(cmds) - 1,
		Args: stats.SlowArgs(first, func(i int) bool { return cmds[0].hides(first, i) }),
	}, s.srv.hub.settings.slowlogMax.Load())
}
