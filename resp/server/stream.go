package server

import (
	"log/slog"
	"strconv"

	"lockd/resp"
	"lockd/resp/server/settings"
	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
)

// stream moves the bytes of one connection: it cuts commands out of the input, and writes the replies. It knows nothing
// of commands, users or databases.
type stream struct {
	*client
	replies
	in       wire.Input
	settings *settings.Cluster
	log      *slog.Logger
}

// runner runs the commands of a stream.
type runner interface {
	trusted() bool         // the limits before AUTH do not bind the client
	expect(commands int)   // that have arrived together
	handle(args resp.Args) // runs a command, now or with those after it
	endRun()               // no more have arrived: all of them run
	leaveHub()             // the connection ends soon
	flushAll() error       // writes the replies, and what waits for them
}

// serve reads commands, has them run and writes the replies, until the client disconnects, QUIT, or Shutdown.
func (s *stream) serve(r runner) {
	for !s.closing {
		s.enter(phaseReading)
		if s.registry.draining.Load() {
			break // Shutdown looks at the phase after it has set the flag
		}
		n, err := s.in.Fill(s.conn)
		s.enter(phaseRunning)
		if err != nil {
			if s.registry.draining.Load() {
				break
			}
			s.out.Finish(wallClock().Add(lingerMax)) // the client may have closed only its sending direction
			return
		}
		s.totals.InputBytes.Add(int64(n))
		s.totals.Reads.Add(1)
		s.activeAt.Store(s.registry.ticks.Load())
		s.inputBytes.Store(int64(s.in.Pending()))
		if s.process(r); s.closing {
			r.leaveHub() // it may linger, and a client that has the answer to QUIT expects to be gone
		}
		s.inputBytes.Store(int64(s.in.Pending()))
		if r.flushAll() != nil {
			return
		}
	}
	s.linger()
}

// process runs every whole command that has arrived. Replies stay in pending.
func (s *stream) process(r runner) {
	defer s.in.Release()
	for !s.closing {
		cmds, more, err := s.in.Take(wire.Limits{
			BulkMax: int(s.settings.BulkBytesMax.Load()), QueryMax: int(s.settings.QueryBytesMax.Load()),
			Trusted: r.trusted(),
		})
		for i, args := range cmds {
			r.expect(len(cmds) - i)
			if r.handle(args); s.closing {
				return // commands pipelined after QUIT do not run
			}
		}
		r.endRun()
		if err != nil {
			s.reply(resp.Err("ERR " + err.Error()))
			s.log.Debug("protocol error", "client", s.id, "addr", s.addr, "err", err)
			s.closing = true
		}
		if !more {
			return
		}
	}
}

// linger closes in order: all replies are written, and the client has a moment to read them. A socket closed over
// unread input would be reset, and the last replies could be lost.
func (s *stream) linger() {
	if s.flush() != nil {
		return
	}
	deadline := wallClock().Add(lingerMax)
	s.out.Finish(deadline)
	half, ok := s.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	s.conn.SetReadDeadline(deadline)
	var scratch [4096]byte
	for read := 0; read < lingerBytes; {
		n, err := s.conn.Read(scratch[:])
		if err != nil {
			return
		}
		read += n
	}
}

// replies are a session's replies on their way to its client: they gather in pending and go into the outbox. Any
// goroutine may use the outbox; the rest belongs to the session's goroutine.
type replies struct {
	to     *wire.Outbox
	of     *status
	totals *stats.Totals

	pending  []byte // not yet written
	replyOff bool   // CLIENT REPLY OFF
	skipping bool   // CLIENT REPLY SKIP: this command's reply is left out
	skipNext bool   // the next command's reply is left out
	pushing  bool   // pushes may come: the outbox has its writer goroutine
	closing  bool   // the connection closes when everything is written
}

// reply appends a reply to the pending ones.
func (o *replies) reply(r resp.Reply) {
	if !o.replyOff && !o.skipping {
		o.confirm(r)
	}
}

// replyHead appends the head of an array whose elements follow one by one.
func (o *replies) replyHead(elems int) {
	if !o.replyOff && !o.skipping {
		o.pending = append(strconv.AppendInt(append(o.pending, '*'), int64(elems), 10), "\r\n"...)
	}
}

// confirm appends the confirmation of a subscription: a push in RESP3. It is written even where CLIENT REPLY switched
// replies off.
func (o *replies) confirm(r resp.Reply) {
	o.pending = r.AppendTo(o.pending, int(o.of.proto.Load()))
}

// startPushing prepares for pushes between replies. The pending replies go out before them.
func (o *replies) startPushing() {
	if !o.pushing {
		o.pushing = true
		o.to.StartWriter()
	}
}

// handOver gives the pending replies to the writer goroutine, if there is one, without waiting. The hub's lock is
// held.
func (o *replies) handOver() {
	if o.pushing {
		o.to.Enqueue(o.pending)
		o.totals.OutputBytes.Add(int64(len(o.pending)))
		o.pending = o.pending[:0]
	}
}

// flush writes the pending replies.
func (o *replies) flush() error {
	if len(o.pending) == 0 {
		return nil
	}
	o.totals.OutputBytes.Add(int64(len(o.pending)))
	o.totals.Writes.Add(1)
	was := o.of.kind()
	o.of.enter(phaseWriting)
	err := o.to.Write(o.pending)
	o.of.enter(was)
	if o.pending = o.pending[:0]; cap(o.pending) > outputKeep {
		o.pending = nil
	}
	return err
}

// flushFull writes the pending replies if they have flushBytes or more.
func (o *replies) flushFull() {
	if len(o.pending) >= flushBytes && o.flush() != nil {
		o.closing = true
	}
}

// waitForRoom blocks while the session's outbox is full.
func (o *replies) waitForRoom() {
	if o.pushing && o.to.WaitForRoom() != nil {
		o.closing = true
	}
}
