package server

import (
	"slices"
	"time"

	"lockd/resp"
	"lockd/resp/server/witness"
	"lockd/resp/sight"
)

// withSightings adds what this node has seen its clients do with locks to a command that asks for it, as
// its second argument.
func (s *session) withSightings(c *command, args resp.Args) resp.Args {
	if c.spec.Flags&resp.TakesSightings == 0 {
		return args
	}
	var list []sight.Sighting
	for _, other := range s.srv.clients() {
		list = append(list, other.sightings()...)
	}
	return slices.Insert(slices.Clone(args), 2, s.srv.witness.Report(s.srv.node, list))
}

// sightings are what this session has seen.
func (s *session) sightings() []sight.Sighting {
	name, _, _ := s.names.get()
	name = name[:min(len(name), loggedNameBytesMax)]
	return s.witness.Sightings(resp.Client{ID: uint64(s.id), Name: name, Addr: s.addr})
}

// lookAt looks at commands of a run that have been answered.
func (s *session) lookAt(start time.Time, res resp.Result, n int) {
	for i, c := range s.runOf[:n] {
		if c.watched != witness.None {
			s.witness.Saw(c.watched, &s.run[i], replyAt(res, i), start.UnixMilli())
		}
	}
}
