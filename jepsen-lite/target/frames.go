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

// After the hellos of a connection, nodes of lockd exchange messages. A stream cuts the bytes of one direction into
// messages and tells their kinds, so that Net.Catch can lose, hold or repeat a single one. On a calls connection each
// message carries the number of its call. On the others the answers come in the order of the requests.
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
	MsgSuspicion  = "suspicion"
	MsgReport     = "report"
	MsgQuery      = "query"
	MsgAppend     = "append"    // with entries
	MsgHeartbeat  = "heartbeat" // without entries
	MsgVote       = "vote"
	MsgPreVote    = "prevote"
	MsgInstall    = "snapshot"
	MsgTimeoutNow = "timeoutnow"
)

// CatchAct names an action on a caught message.
type CatchAct string

// Acts.
const (
	Swallow CatchAct = "swallow" // it is lost
	Hold    CatchAct = "hold"    // it and all later messages of its connection arrive later
	// Double delivers the message twice, as if it were sent again, and one answer. It is not for calls, which are never
	// sent again.
	Double CatchAct = "double"
)

// Catch selects a message and says what happens to it. It strikes once, or each time.
type Catch struct {
	Node   string // the message comes from this node or goes to it
	Kind   string
	Answer bool // catch the answer to the message instead
	Skip   int  // after so many messages of the kind
	Each   bool // catch all later ones, too, until Cancel
	Act    CatchAct
	Hold   time.Duration
	Break  bool // break the connection after it
}

// Caught is a Catch that is installed or has struck.
type Caught struct {
	net *Net
	Catch
	struck bool // under net.catching
}

// Catch makes the net catch a message, from now on.
func (n *Net) Catch(c Catch) *Caught {
	n.catching.Lock()
	defer n.catching.Unlock()
	caught := &Caught{net: n, Catch: c}
	n.catches = append(n.catches, caught)
	n.waiting.Store(int64(len(n.catches)))
	return caught
}

// Struck reports whether the catch has struck.
func (c *Caught) Struck() bool {
	c.net.catching.Lock()
	defer c.net.catching.Unlock()
	return c.struck
}

// Cancel removes the catch and reports whether it has struck.
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

// catch returns the Catch that selects a message, or nil.
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

// message is one message of a stream.
type message struct {
	kind    string // "" for an answer of log and raft
	id      uint64 // of calls
	size    int
	follows int // bytes after the message that belong to it
}

// unique reports whether the message cannot be delivered twice.
func (m message) unique() bool { return m.follows > 0 || callKinds[m.kind] > 0 }

// callKinds are all kinds of messages of calls connections, with their bytes. A message of another kind makes the
// stream blind.
var callKinds = map[string]byte{
	MsgForward: 1, MsgAnswer: 2, MsgAsk: 3, MsgStatus: 4, MsgPing: 5, MsgPong: 6, MsgBye: 7, MsgSuspicion: 8, MsgReport: 9,
	MsgQuery: 10,
}

// raftKinds are the kinds of Raft's own messages, by their bytes.
var raftKinds = map[byte]string{1: MsgVote, 2: MsgInstall, 3: MsgTimeoutNow, 4: MsgPreVote}

// talk is the state that both directions of one connection share: requests decide what happens to their answers.
type talk struct {
	net              *Net
	kind             byte // of the hello: 'c' calls, 'l' log, 'r' raft
	dialler, serving string

	mu    sync.Mutex
	fates []*Catch // for the answers that are due, in order; nil: pass
	// of answers, by the number of their call
	calls map[uint64]*Catch
}

// newTalk returns nil for a connection that does not begin with a hello.
func newTalk(n *Net, from, to string, head []byte) *talk {
	if len(head) < helloHeadLen || string(head[:len(helloMagic)]) != helloMagic {
		return nil
	}
	return &talk{net: n, kind: head[len(helloMagic)+1], dialler: from, serving: to, calls: map[uint64]*Catch{}}
}

// stream makes the stream of one direction. asks tells that it is the direction of the node that dialled.
func (t *talk) stream(asks bool) *stream {
	if t == nil {
		return nil
	}
	return &stream{talk: t, asks: asks, hello: true}
}

// surplus swallows the second answer to a message that was doubled.
var surplus = &Catch{Act: Swallow}

// request returns what happens to a request, and records what happens to its answer.
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
	case c != nil && c.Act == Swallow: // there will be no answer
	case c != nil && c.Act == Double:
		t.fates = append(t.fates, nil, surplus)
	default:
		t.fates = append(t.fates, answer)
	}
	return c
}

// answer returns what happens to an answer.
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
	asks  bool // the direction of the node that dialled
	hello bool // the first message, a hello or the dialler's answer to one, has not passed yet
	blind bool // a message could not be read, so the rest passes unread
	rest  int  // bytes still to come of the last message
	drop  bool // lose these bytes, too
	buf   []byte
}

// parcel is bytes that are forwarded together.
type parcel struct {
	data []byte
	hold time.Duration
	last bool // the connection breaks after it
}

// messageKeepMax bounds the size of messages that can be caught, since those are kept until they are whole.
const messageKeepMax = 4 << 20

// feed takes bytes that have arrived and returns those to forward.
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

// take removes the first bytes of the buffer and returns them.
func (s *stream) take(n int) []byte {
	part := bytes.Clone(s.buf[:n])
	s.buf = append(s.buf[:0], s.buf[n:]...)
	return part
}

// pass forwards bytes unchanged, with those before them if the connection does not break between.
func pass(out []parcel, data []byte) []parcel {
	if last := len(out) - 1; last >= 0 && !out[last].last {
		out[last].data = append(out[last].data, data...)
		return out
	}
	return append(out, parcel{data: data})
}

// send forwards one message, as its Catch says.
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

// next reads the message at the beginning of the buffer. Its size is 0 while more bytes must arrive: for its header, or
// for the whole message, if that may be caught.
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

// entriesOf returns the count of entries in a log request.
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

// valueSize returns the size of the msgpack value at the beginning of b; 0 if b ends within the value, -1 if it is no
// value.
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

// valueHead reads the header of a msgpack value: the size of the header, the bytes of content after it, and the number
// of values inside. The size is 0 if b ends within the header, and -1 if it is no value.
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

// sizeField returns the number under the key Size of a msgpack map.
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

// integer returns a msgpack number that is not negative.
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
