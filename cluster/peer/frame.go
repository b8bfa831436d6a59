package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"lockd/resp"
)

// After the hello, a connection for calls carries frames:
//
//	frame    length(4, big endian: of what follows) kind(1) id(8) body
//	forward  uvarint: milliseconds the sender will wait (0: not said); uvarint: the
//	         term in which alone it may be logged (0: any); uvarint: its number in
//	         the sender's session (0: none), then, if there is one, the session(8,
//	         little endian); then a request, with no commands for a recall, or, without a
//	         number, for an index up to which everything acknowledged before is applied; then its
//	         Observations: uvarint: their length, then their bytes
//	query    uvarint: milliseconds the sender will wait; then a request of one command:
//	         a question about the clients of the node that is asked
//	answer   outcome(1); if that is done, uvarints: index of the entry that did it
//	         (0: there is none), microseconds that it was executed for; then a result
//	ask      what is your status? uvarint: a time of the cluster's wall clock that
//	         clients may have been shown (microseconds since 1970; 0: none)
//	status   uvarints: term, flags (1: it leads; 2: its disk is nearly full), applied index, last index,
//	         its own wall clock, the latest time of the cluster's that it knows to have been shown
//	ping     nothing     pong  nothing
//	bye      nothing; its id is that of the last call taken
//	suspicion  the id of a member, uvarint: the number of its process: has that ended?
//	report   what its sender sees of that process(1), uvarints: its term, flags (1: it may stand for election;
//	         2: its disk is nearly full; 4: it stands for election), term and index of the last entry of its log
//
// The dialler sends forwards, queries, asks, suspicions and pings, with rising ids; the listener answers
// each with the same id, in any order. A listener that stops says bye: it does not serve calls with a later id, and
// still answers the others.

type frameKind byte

const (
	frameForward frameKind = 1 + iota
	frameAnswer
	frameAsk
	frameStatus
	framePing
	framePong
	frameBye
	frameSuspicion
	frameReport
	frameQuery
)

const (
	frameHeadLen    = 4 + frameFixedLen
	frameFixedLen   = 1 + 8
	forwardBytesMax = 64 << 20  // body of a forwarded request; more is answered with an error
	queryBytesMax   = 32 << 20  // body of a query; a longer question is not sent
	answerBytesMax  = 512 << 20 // body of an answer; more makes the outcome unknown
	forwardWaitMax  = time.Hour // a forwarded request that is to wait longer is malformed
	frameChunk      = 1 << 20   // a larger body is allocated as it arrives, not as it is announced
)

// Outcome is the end of a forwarded request (law 6).
type Outcome uint8

// The outcomes. Their numbers are part of the protocol.
const (
	Done    Outcome = iota // the result is the answer
	NotDone                // certainly not executed: never sent, or refused by the peer
	Unknown                // sent, and then the connection broke or the time was up
)

// String implements fmt.Stringer.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case NotDone:
		return "not done"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// Answer is the answer to a forwarded request.
type Answer struct {
	Outcome Outcome
	Result  resp.Result // valid only if the outcome is Done
}

// Status is the answer to a status question. The confirmation of a leader (law 5) rests on Term, which must be read
// after the question has arrived.
type Status struct {
	Term      uint64 // raft.CurrentTerm now
	Leader    bool   // the node leads in Term
	Applied   uint64 // index the machine has applied
	LastIndex uint64 // last index of the node's log
	Short     bool   // its disk is nearly full

	Wall  int64 // its wall clock, in microseconds since 1970, read after the question has arrived; 0: it does not say
	Shown int64 // the latest time of the cluster's wall clock that clients may have been shown; read after Term
}

// The bits of a status in the protocol.
const (
	statusLeader = 1 << iota
	statusShort
	statusFlags = statusLeader | statusShort // all
)

// Suspicion asks a node for its view of a process of a member.
type Suspicion struct {
	ID      string // of the member
	Process uint64 // its Identity.Process
}

// Liveness is a node's view of the process of another node.
type Liveness uint8

// The views. Their numbers are part of the protocol.
const (
	Unsure     Liveness = iota // it cannot tell
	Alive                      // the process has answered, or has a connection with this node that has not ended
	Ended                      // all its connections have ended, and its port refuses, or a later process is there
	livenesses                 // the number of views
)

// String implements fmt.Stringer.
func (l Liveness) String() string {
	switch l {
	case Alive:
		return "alive"
	case Ended:
		return "ended"
	}
	return "unsure"
}

// Report is the answer to a Suspicion, after the answering node has checked the process itself.
type Report struct {
	Sees      Liveness
	Term      uint64 // raft.CurrentTerm of the node that answers
	Stands    bool   // it stands for election
	Able      bool   // it is a follower that may
	Short     bool   // its disk is nearly full
	LastTerm  uint64 // of the last entry of its log
	LastIndex uint64 // of the same entry
}

// The bits of a report in the protocol.
const (
	reportAble = 1 << iota
	reportShort
	reportStands
	reportFlags = reportAble | reportShort | reportStands // all
)

type frame struct {
	kind frameKind
	id   uint64
	body []byte
}

// ErrFrame is wrapped by every error about unreadable input from a peer.
var ErrFrame = errors.New("malformed frame")

// appendFrame appends a frame; head and body, either of which may be empty, form its body.
func appendFrame(dst []byte, kind frameKind, id uint64, head, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(frameFixedLen+len(head)+len(body)))
	dst = append(dst, byte(kind))
	dst = binary.BigEndian.AppendUint64(dst, id)
	return append(append(dst, head...), body...)
}

// frameLimit returns the largest body of a kind of frame; ok is false for an unknown kind.
func frameLimit(kind frameKind) (limit int, ok bool) {
	switch kind {
	case frameForward:
		return binary.MaxVarintLen64 + bindingBytesMax + forwardBytesMax, true
	case frameQuery:
		return binary.MaxVarintLen64 + queryBytesMax, true
	case frameAnswer:
		return 1 + 2*binary.MaxVarintLen64 + answerBytesMax, true
	case frameStatus:
		return 6 * binary.MaxVarintLen64, true
	case frameSuspicion:
		return NameMax + 2*binary.MaxVarintLen64, true
	case frameReport:
		return 1 + 4*binary.MaxVarintLen64, true
	case frameAsk:
		return binary.MaxVarintLen64, true
	case framePing, framePong, frameBye:
		return 0, true
	}
	return 0, false
}

// readFrame reads one frame. The body is freshly allocated and belongs to the caller: requests and results alias it.
func readFrame(r io.Reader) (frame, error) {
	var head [frameHeadLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: frameKind(head[4]), id: binary.BigEndian.Uint64(head[5:])}
	size := int64(binary.BigEndian.Uint32(head[:])) - frameFixedLen
	limit, ok := frameLimit(f.kind)
	if !ok || size < 0 || size > int64(limit) {
		return frame{}, fmt.Errorf("%w: kind %d of %d bytes", ErrFrame, f.kind, size)
	}
	var err error
	f.body, err = ReadBody(r, int(size))
	return f, err
}

// ReadBody reads a body of size bytes, which the caller has checked against a limit. A large body is allocated only as
// it arrives.
func ReadBody(r io.Reader, size int) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	if size <= frameChunk {
		body := make([]byte, size)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	var body bytes.Buffer
	n, err := io.CopyN(&body, r, int64(size))
	if err == io.EOF && n < int64(size) {
		err = io.ErrUnexpectedEOF
	}
	return body.Bytes(), err
}

// Binding identifies the attempt that a request belongs to, and restricts the term in which it may be logged. The zero
// value names no attempt, and allows any term.
type Binding struct {
	Session uint64 // of the process that has the client; 0: none
	Number  uint64 // of the attempt in that session, from 1; 0: none
	Term    uint64 // the only one in which it may be logged; 0: any
}

// Forwarded is a request of another node's client. Its strings alias a buffer that does not change.
type Forwarded struct {
	Req resp.Request // without commands: a recall, or, without a number, a question for a confirmed index
	Binding
	Until time.Time // the other node waits no longer than this
}

// bindingBytesMax bounds the bytes that appendBinding appends.
const bindingBytesMax = 2*binary.MaxVarintLen64 + 8

// appendBinding appends the part of a forward's body between the wait and the request.
func appendBinding(dst []byte, b Binding) []byte {
	dst = binary.AppendUvarint(dst, b.Term)
	dst = binary.AppendUvarint(dst, b.Number)
	if b.Number > 0 {
		dst = binary.LittleEndian.AppendUint64(dst, b.Session)
	}
	return dst
}

// appendForward appends a forward's body without the wait at its beginning.
func appendForward(dst []byte, b Binding, req resp.Request) []byte {
	return resp.AppendText(resp.AppendRequest(appendBinding(dst, b), req), req.Observations)
}

// forwardBody reads a forward's body.
func forwardBody(body []byte) (Forwarded, error) {
	var f Forwarded
	d := resp.NewDecoder(body)
	ms := d.Uvarint()
	f.Term, f.Number = d.Uvarint(), d.Uvarint()
	if f.Number > 0 {
		f.Session = d.Uint64()
	}
	if d.Err() != nil || ms > uint64(forwardWaitMax/time.Millisecond) || (f.Number > 0) != (f.Session > 0) {
		return f, fmt.Errorf("%w: bad forward", ErrFrame)
	}
	wait := forwardWaitMax
	if ms > 0 {
		wait = time.Duration(ms) * time.Millisecond
	}
	f.Req, f.Until = d.Request(), after(wait)
	f.Req.Observations = d.Text()
	return f, end(&d, "request")
}

// Question is a question of another node's server about the clients of this node. Its strings alias a buffer that does
// not change.
type Question struct {
	Args  resp.Args
	Until time.Time // the other node waits no longer than this
}

// queryBody reads a query's body.
func queryBody(body []byte) (Question, error) {
	d := resp.NewDecoder(body)
	ms := d.Uvarint()
	req := d.Request()
	if err := end(&d, "question"); err != nil {
		return Question{}, err
	}
	if ms > uint64(forwardWaitMax/time.Millisecond) || len(req.Cmds) != 1 || len(req.Cmds[0].Args) == 0 {
		return Question{}, fmt.Errorf("%w: bad query", ErrFrame)
	}
	if ms == 0 {
		ms = uint64(queryWaitMax / time.Millisecond)
	}
	return Question{Args: req.Cmds[0].Args, Until: after(time.Duration(ms) * time.Millisecond)}, nil
}

// queryWaitMax is the time to answer a question whose sender gives no time.
const queryWaitMax = time.Minute

// answerBody reads an answer's body.
func answerBody(body []byte) (Answer, error) {
	unknown := Answer{Outcome: Unknown}
	d := resp.NewDecoder(body)
	o := Outcome(d.Byte())
	if d.Err() != nil || o > Unknown || o != Done && d.Len() > 0 {
		return unknown, fmt.Errorf("%w: bad answer", ErrFrame)
	}
	if o != Done {
		return Answer{Outcome: o}, nil
	}
	index, micros := d.Uvarint(), d.Uvarint()
	if d.Err() != nil || micros > uint64(forwardWaitMax/time.Microsecond) {
		return unknown, fmt.Errorf("%w: bad index or time", ErrFrame)
	}
	res := d.Result()
	res.Index, res.TookNs = index, int64(micros)*1000
	if err := end(&d, "result"); err != nil {
		return unknown, err
	}
	return Answer{Outcome: Done, Result: res}, nil
}

// end returns the decoder's error; bytes left over after a body are an error, too.
func end(d *resp.Decoder, what string) error {
	if d.Len() > 0 {
		return fmt.Errorf("%w: %d bytes after the %s", ErrFrame, d.Len(), what)
	}
	return d.Err()
}

func appendStatus(dst []byte, s Status) []byte {
	flags := uint64(0)
	if s.Leader {
		flags |= statusLeader
	}
	if s.Short {
		flags |= statusShort
	}
	for _, n := range [...]uint64{s.Term, flags, s.Applied, s.LastIndex, uint64(s.Wall), uint64(s.Shown)} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func decodeStatus(body []byte) (Status, error) {
	d := resp.NewDecoder(body)
	s := Status{Term: d.Uvarint()}
	flags := d.Uvarint()
	s.Leader, s.Short = flags&statusLeader != 0, flags&statusShort != 0
	s.Applied, s.LastIndex = d.Uvarint(), d.Uvarint()
	s.Wall, s.Shown = wallTime(&d), wallTime(&d)
	if d.End() != nil || flags > statusFlags {
		return Status{}, fmt.Errorf("%w: bad status", ErrFrame)
	}
	return s, nil
}

func appendSuspicion(dst []byte, q Suspicion) []byte {
	return binary.AppendUvarint(resp.AppendText(dst, q.ID), q.Process)
}

func decodeSuspicion(body []byte) (Suspicion, error) {
	d := resp.NewDecoder(body)
	q := Suspicion{ID: d.Text(), Process: d.Uvarint()}
	if d.End() != nil || q.ID == "" || len(q.ID) > NameMax || q.Process == 0 {
		return Suspicion{}, fmt.Errorf("%w: bad suspicion", ErrFrame)
	}
	return q, nil
}

func appendReport(dst []byte, f Report) []byte {
	flags := uint64(0)
	if f.Able {
		flags |= reportAble
	}
	if f.Short {
		flags |= reportShort
	}
	if f.Stands {
		flags |= reportStands
	}
	dst = append(dst, byte(f.Sees))
	for _, n := range [...]uint64{f.Term, flags, f.LastTerm, f.LastIndex} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func decodeReport(body []byte) (Report, error) {
	d := resp.NewDecoder(body)
	f := Report{Sees: Liveness(d.Byte()), Term: d.Uvarint()}
	flags := d.Uvarint()
	f.Able, f.Short, f.Stands = flags&reportAble != 0, flags&reportShort != 0, flags&reportStands != 0
	f.LastTerm, f.LastIndex = d.Uvarint(), d.Uvarint()
	if d.End() != nil || flags > reportFlags || f.Sees >= livenesses {
		return Report{}, fmt.Errorf("%w: bad report", ErrFrame)
	}
	return f, nil
}

// answers returns the kind of frame that answers a kind of call.
func (k frameKind) answers() frameKind {
	switch k {
	case frameForward, frameQuery:
		return frameAnswer
	case frameSuspicion:
		return frameReport
	}
	return frameStatus
}

// WallMax bounds the wall clocks that nodes exchange, in microseconds since 1970: the year 2255.
const WallMax = 1<<53 - 1

// wallTime reads a time of a wall clock.
func wallTime(d *resp.Decoder) int64 {
	us := d.Uvarint()
	if us > WallMax {
		d.Fail("a wall clock after the year 2255")
	}
	return int64(us)
}

func appendAsk(shown int64) []byte { return binary.AppendUvarint(nil, uint64(shown)) }

// askBody reads the body of a question.
func askBody(body []byte) (shown int64, err error) {
	d := resp.NewDecoder(body)
	if shown = wallTime(&d); d.End() != nil {
		return 0, fmt.Errorf("%w: bad question", ErrFrame)
	}
	return shown, nil
}
