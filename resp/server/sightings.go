package server

import (
	"slices"
	"time"

	"lockd/resp"
	"lockd/resp/server/witness"
	"lockd/resp/sight"
)

// sightings returns this node's observations of locks, if one of the commands takes them.
func (s *Server) sightings(cmds []resp.Cmd) string {
	if !slices.ContainsFunc(cmds, func(c resp.Cmd) bool { return c.Is(resp.TakesSightings) }) {
		return ""
	}
	var list []sight.Sighting
	for _, of := range s.clients() {
		list = append(list, of.sightings()...)
	}
	return s.witness.Report(s.node, list)
}

// sightings returns the observations of this session.
func (s *session) sightings() []sight.Sighting {
	name, _, _ := s.names.get()
	name = name[:min(len(name), loggedNameBytesMax)]
	return s.witness.Sightings(resp.Client{ID: uint64(s.id), Name: name, Addr: s.addr})
}

// observe hands the answered commands of a run to the witness.
func (s *session) observe(start time.Time, res resp.Result, n int) {
	for i, c := range s.runOf[:n] {
		if c.watched != witness.None {
			s.witness.Saw(c.watched, &s.run[i], replyAt(res, i), start.UnixMilli())
		}
	}
}
