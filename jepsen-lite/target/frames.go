package target

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// What nodes of lockd say to each other, after the hellos of a connection, is messages.
// The proxy knows where one ends and the next begins, and which kind it is, so that a
// single one can be caught. On a calls connection they carry the number of the call; on
// the others each request is answered before the next one is sent.
//
//	calls       length(4, of what follows) kind(1) id(8) body
//	log         length(4) body, both ways; a request begins with five uvarints (version
//	            term prevIndex prevTerm commit), an id, an address, and a count of entries
//	raft        kind(1) and a value of msgpack; an answer is two values, an error first;
//	            a snapshot follows its request

// Kinds of messages.
const (
	MsgForward    = "forward"
	MsgAnswer     = "answer"
	MsgAsk        = "ask"
	MsgStatus     = "status"
	MsgPing       = "ping"
	MsgPong       = "pong"
	MsgBye        = "bye"
	MsgDoubt      = "doubt"
	MsgFinding    = "finding"
	MsgQuery      = "query"
	MsgAppend     = "append"    // with entries
	MsgHeartbeat  = "heartbeat" // without
	MsgVote       = "vote"
	MsgPreVote    = "prevote"
	MsgInstall    = "snapshot"
	MsgTimeoutNow = "timeoutnow"
)

// CatchAct is what becomes of a message that is caught.
type CatchAct string

// Acts.
const (
	Swallow CatchAct = "swallow" // it never arrives
	Hold    CatchAct = "hold"    // it, and what comes after it on its connection, arrives later
	// Double: it arrives twice, as if it had been sent again, and is answered once. Not for calls,
	// which are sent once.
	Double CatchAct = "double"
)

// Catch says which message is caught, once or each time, and what becomes of it.
type Catch struct {
	Node   string // it comes from or goes to this node
	Kind   string
	Answer bool // not it, but what is answered to it, is swallowed or held
	Skip   int  // after so many
	Each   bool // and all that follow, until it is taken back
	Act    CatchAct
	Hold   time.Duration
	Break  bool // then its connection breaks
}

// Caught is a Catch that waits, or has struck.
type Caught struct {
	net *Net
	Catch
	struck bool // under net.catching
}

// Catch has one message be caught.
func (n *Net) Catch(c Catch) *Caught {
	n.catching.Lock()
	defer n.catching.Unlock()
	caught := &Caught{net: n, Catch: c}
	n.catches = append(n.catches, caught)
	n.waiting.Store(int64(len(n.catches)))
	return caught
}

// Cancel takes it back, unless it has struck, once, and is over. It reports whether it has struck.
func (c *Caught) Cancel() (struck bool) {
	c.net.catching.Lock()
	defer c.net.catching.Unlock()
	c.net.forget(c)
	return c.struck
}

// forget removes a catch. n.catching is held.
func (n *Net) forget(c *Caught) {
	n.catches = slices.DeleteFunc(n.catches, func(o *Caught) bool { return o == c })
	n.waiting.Store(int64(len(n.catches)))
}

// catch finds what is to become of a message.
func (n *Net) catch(from, to string, m message) *Catch {
	if n.waiting.Load() == 0 {
		return nil
	}
	n.catching.Lock()
	defer n.catching.Unlock()
	for _, c := range n.catches {
		if c.Kind != m.kind || c.Node != from && c.Node != to || c.Act == Double && m.unique() ||
			m.size > messageKeepMax {
			continue
		}
		if c.Skip--; c.Skip < 0 {
			if c.struck = true; !c.Each {
				n.forget(c)
			}
			return &c.Catch
		}
	}
	return nil
}

// message is one that was read.
type message struct {
	kind    string // "" for an answer of log and raft
	id      uint64 // of calls
	size    int
	follows int // bytes after it that belong to it
}

// unique reports whether the message cannot be sent again as it is.
func (m message) unique() bool { return m.follows > 0 || callKinds[m.kind] > 0 }

// callKinds are all kinds of messages of calls connections. One that is missing here ends what can be caught on its
// connection.
var callKinds = map[string]byte{
	MsgForward: 1, MsgAnswer: 2, MsgAsk: 3, MsgStatus: 4, MsgPing: 5, MsgPong: 6, MsgBye: 7, MsgDoubt: 8, MsgFinding: 9,
	MsgQuery: 10,
}

// raftKinds are those of Raft's own messages.
var raftKinds = map[byte]string{1: MsgVote, 2: MsgInstall, 3: MsgTimeoutNow, 4: MsgPreVote}

// talk is what both directions of one connection share.
type talk struct {
	net              *Net
	kind             byte // of its hello: 'c', 'l' or 'r'
	dialler, serving string

	mu    sync.Mutex
	fates []*Catch // of the answers that are due, in their order; nil: it passes
	calls map[uint64]*Catch
}

// newTalk is nil for a connection that does not begin with a hello.
func newTalk(n *Net, from, to string, head []byte) *talk {
	if len(head) < helloHeadLen || string(head[:len(helloMagic)]) != helloMagic {
		return nil
	}
	return &talk{net: n, kind: head[len(helloMagic)+1], dialler: from, serving: to, calls: map[uint64]*Catch{}}
}

// stream reads one direction.
func (t *talk) stream(asks bool) *stream {
	if t == nil {
		return nil
	}
	return &stream{talk: t, asks: asks, hello: true}
}

// surplus is the fate of the answer to a message that came twice.
var surplus = &Catch{Act: Swallow}

// request finds the fate of a request, and notes that of its answer.
func (t *talk) request(m message) *Catch {
	c := t.net.catch(t.dialler, t.serving, m)
	t.mu.Lock()
	defer t.mu.Unlock()
	answer := (*Catch)(nil)
	if c != nil && c.Answer {
		c, answer = nil, c
	}
	switch {
	case t.kind == 'c':
		if answer != nil {
			t.calls[m.id] = answer
		}
	case c != nil && c.Act == Swallow: // nobody will answer
	case c != nil && c.Act == Double:
		t.fates = append(t.fates, nil, surplus)
	default:
		t.fates = append(t.fates, answer)
	}
	return c
}

// answer finds the fate of an answer.
func (t *talk) answer(m message) *Catch {
	if t.kind == 'c' {
		t.mu.Lock()
		c := t.calls[m.id]
		delete(t.calls, m.id)
		t.mu.Unlock()
		if c == nil {
			c = t.net.catch(t.serving, t.dialler, m)
		}
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.fates) == 0 {
		return nil
	}
	c := t.fates[0]
	t.fates = t.fates[1:]
	return c
}

// stream cuts the bytes of one direction into messages. One goroutine uses it.
type stream struct {
	*talk
	asks  bool // it is the dialler's
	hello bool // its hello, or what the dialler says to that of the other side, is still to come
	blind bool // a message could not be read: all that follows passes unread
	rest  int  // bytes that belong to the last message
	drop  bool // and go its way
	buf   []byte
}

// parcel is bytes that go on together.
type parcel struct {
	data []byte
	hold time.Duration
	last bool // the connection breaks after it
}

// messageKeepMax is the largest message that is kept until it is whole; of a larger one
// nothing can be caught.
const messageKeepMax = 4 << 20

// feed takes what has come and returns what goes on.
func (s *stream) feed(data []byte) []parcel {
	if s.blind {
		return []parcel{{data: data}}
	}
	var out []parcel
	s.buf = append(s.buf, data...)
	for len(s.buf) > 0 {
		if s.rest > 0 {
			part := s.take(min(s.rest, len(s.buf)))
			s.rest -= len(part)
			if !s.drop {
				out = pass(out, part)
			}
			continue
		}
		m, err := s.next()
		if err != nil {
			s.blind = true
			s.net.unread.Add(1)
			return pass(out, s.take(len(s.buf)))
		}
		if m.size == 0 {
			break // more must come
		}
		out = s.send(out, m)
	}
	return out
}

// take removes the first bytes of the buffer.
func (s *stream) take(n int) []byte {
	part := bytes.Clone(s.buf[:n])
	s.buf = append(s.buf[:0], s.buf[n:]...)
	return part
}

// pass lets bytes go on as they are.
func pass(out []parcel, data []byte) []parcel {
	if last := len(out) - 1; last >= 0 && !out[last].last {
		out[last].data = append(out[last].data, data...)
		return out
	}
	return append(out, parcel{data: data})
}

// send lets a message go its way.
func (s *stream) send(out []parcel, m message) []parcel {
	data := s.take(min(m.size, len(s.buf)))
	s.rest, s.drop = m.size-len(data)+m.follows, false
	if s.hello {
		s.hello = false
		return pass(out, data)
	}
	c := (*Catch)(nil)
	if s.asks {
		c = s.request(m)
	} else {
		c = s.answer(m)
	}
	if c == nil {
		return pass(out, data)
	}
	switch c.Act {
	case Swallow:
		data, s.drop = nil, true
	case Hold:
		return append(out, parcel{data, c.Hold, c.Break})
	case Double:
		data = append(data, data...)
	}
	out = pass(out, data)
	out[len(out)-1].last = c.Break
	return out
}

var errMessage = errors.New("not a message of lockd")

// next finds the message with which the buffer begins. Its size is 0 if that is not known
// yet, or if the message is not whole and may still be kept until it is.
func (s *stream) next() (m message, err error) {
	switch {
	case s.hello:
		m, err = s.nextHello()
	case s.kind == 'c':
		m, err = s.nextCall()
	case s.kind == 'l':
		m = s.nextLog()
	case s.kind == 'r':
		m, err = s.nextRaft()
	default:
		err = errMessage
	}
	if m.size > len(s.buf) && m.size <= messageKeepMax {
		m.size = 0
	}
	return m, err
}

func (s *stream) nextHello() (message, error) {
	if begin := s.buf[:min(len(s.buf), len(helloMagic))]; !strings.HasPrefix(helloMagic, string(begin)) {
		return message{}, errMessage
	}
	if len(s.buf) < helloHeadLen {
		return message{}, nil
	}
	return message{size: helloHeadLen + int(binary.BigEndian.Uint32(s.buf[helloHeadLen-4:]))}, nil
}

func (s *stream) nextCall() (message, error) {
	const head = 4 + 1 + 8
	if len(s.buf) < head {
		return message{}, nil
	}
	m := message{id: binary.BigEndian.Uint64(s.buf[5:]), size: 4 + int(binary.BigEndian.Uint32(s.buf))}
	for kind, b := range callKinds {
		if b == s.buf[4] {
			m.kind = kind
		}
	}
	if m.kind == "" || m.size < head {
		return m, errMessage
	}
	return m, nil
}

func (s *stream) nextLog() message {
	if len(s.buf) < 4 {
		return message{}
	}
	m := message{size: 4 + int(binary.BigEndian.Uint32(s.buf))}
	if s.asks {
		m.kind = MsgAppend
		if m.size <= len(s.buf) && entriesOf(s.buf[4:m.size]) == 0 {
			m.kind = MsgHeartbeat
		}
	}
	return m
}

// entriesOf is the count of entries in a request.
func entriesOf(body []byte) uint64 {
	number := func() uint64 {
		v, n := binary.Uvarint(body)
		body = body[max(n, 0):]
		return v
	}
	for range 5 {
		number()
	}
	for range 2 { // id and address
		n := number()
		body = body[min(n, uint64(len(body))):]
	}
	return number()
}

func (s *stream) nextRaft() (m message, err error) {
	values := 2 // an answer
	b := s.buf
	if s.asks {
		if m.kind = raftKinds[b[0]]; m.kind == "" {
			return m, errMessage
		}
		values, b = 1, b[1:]
	}
	for range values {
		size := valueSize(b)
		if size < 0 {
			return m, errMessage
		}
		if size == 0 {
			return m, nil
		}
		if m.kind == MsgInstall {
			m.follows = sizeField(b[:size])
		}
		b = b[size:]
	}
	m.size = len(s.buf) - len(b)
	return m, nil
}

// valueSize is how many bytes the value of msgpack takes with which b begins; 0 if b ends
// in it, -1 if it is none.
func valueSize(b []byte) int {
	open, at := 1, 0
	for ; open > 0; open-- {
		if at >= len(b) {
			return 0
		}
		head, body, inside := valueHead(b[at:])
		if head < 0 {
			return -1
		}
		if at += head + body; head == 0 || at > len(b) {
			return 0
		}
		open += inside
	}
	return at
}

// valueHead reads the head of a value: how long it is, how many bytes of its own follow,
// and how many values. It is 0 long if b ends in it, -1 if it is none.
func valueHead(b []byte) (head, body, inside int) {
	c := b[0]
	sized := func(width, fixed, each int) (int, int, int) { // a length of so many bytes
		if len(b) < 1+width {
			return 0, 0, 0
		}
		n := 0
		for _, d := range b[1 : 1+width] {
			n = n<<8 | int(d)
		}
		if n > math.MaxInt32 {
			return -1, 0, 0
		}
		if each > 0 {
			return 1 + width, 0, n * each
		}
		return 1 + width, n + fixed, 0
	}
	switch {
	case c <= 0x7f || c >= 0xe0 || c == 0xc0 || c == 0xc2 || c == 0xc3:
		return 1, 0, 0
	case c <= 0x8f:
		return 1, 0, 2 * int(c&0x0f)
	case c <= 0x9f:
		return 1, 0, int(c & 0x0f)
	case c <= 0xbf:
		return 1, int(c & 0x1f), 0
	case c >= 0xc4 && c <= 0xc6: // bytes
		return sized(1<<(c-0xc4), 0, 0)
	case c >= 0xc7 && c <= 0xc9: // of an extension
		return sized(1<<(c-0xc7), 1, 0)
	case c == 0xca || c == 0xcb:
		return 1, 4 << (c - 0xca), 0
	case c >= 0xcc && c <= 0xcf:
		return 1, 1 << (c - 0xcc), 0
	case c >= 0xd0 && c <= 0xd3:
		return 1, 1 << (c - 0xd0), 0
	case c >= 0xd4 && c <= 0xd8:
		return 1, 1 + 1<<(c-0xd4), 0
	case c >= 0xd9 && c <= 0xdb: // text
		return sized(1<<(c-0xd9), 0, 0)
	case c == 0xdc || c == 0xdd: // array
		return sized(2<<(c-0xdc), 0, 1)
	case c == 0xde || c == 0xdf: // map
		return sized(2<<(c-0xde), 0, 2)
	}
	return -1, 0, 0
}

// sizeField is the number under the name Size in a map.
func sizeField(b []byte) int {
	head, _, inside := valueHead(b)
	b = b[head:]
	for ; inside >= 2; inside -= 2 {
		n := valueSize(b)
		name, value := b[:n], b[n:]
		n = valueSize(value)
		if bytes.HasSuffix(name, []byte("Size")) && len(name) <= 2+len("Size") {
			return integer(value[:n])
		}
		b = value[n:]
	}
	return 0
}

// integer is a number of msgpack that is not negative.
func integer(b []byte) int {
	if len(b) == 1 {
		return int(b[0])
	}
	n := 0
	for _, d := range b[1:] {
		n = n<<8 | int(d)
	}
	return n
}
