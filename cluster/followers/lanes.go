// Package followers holds a leader's knowledge of the other members, from the answers to its messages, and the
// connections for these messages. It does not know the machine or requests.
//
//	announce.go  Announcer: tells members early of committed entries
//	contact.go   Contacts: whether a member hears this leader, and takes its entries
//	ack.go       Acked: the index up to which a member must have the log
//	lanes.go     Conns: the connections for AppendEntries, and the form of its messages
package followers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockd/cluster/clock"
	"lockd/cluster/peer"
	"lockd/cluster/record"
	"lockd/resp"
)

// AppendEntries, Raft's most frequent message, has connections of its own and a form of lockd's; the library's form
// costs several times the CPU time of its contents. All other messages (votes, snapshots, transfers of leadership) use
// the library's transport.
//
//	message  length(4, big endian: of the body) body
//	request  version term prevIndex prevTerm commit, id, address, n(entries) { entry }
//	entry    index term type appended, data, extensions
//	answer   error, version term lastIndex flags, id, address
//
// Numbers are uvarints, appended is a varint of nanoseconds since 1970 (0: not set), texts and bytes follow their
// length. An answer follows each request; messages do not overlap.

// Flags of an answer.
const (
	answerSuccess   = 1 << 0
	answerNoBackoff = 1 << 1
)

const (
	idleMax       = 3       // idle connections of a lane
	bufferKeep    = 1 << 20 // bytes; a larger buffer is freed
	readBytes     = 16 << 10
	answerTextMax = 4 << 10 // bytes of an answer's error
)

// Limits of a message.
const (
	// Timeout bounds one message of Raft to a member that does not answer.
	Timeout = 5 * time.Second
	// MessageBytes bounds a message of several entries.
	MessageBytes = 4 << 20
	// EntriesMax bounds the entries that one message carries to a follower that catches up.
	EntriesMax = 32
)

// bytesMax bounds a message: as many entries as one carries, of the largest size.
const bytesMax = EntriesMax*(record.RequestBytesMax+record.BatchBytesMax) + 1<<20

// Conn is a connection for AppendEntries, at either end. One goroutine uses it at a time.
type Conn struct {
	net.Conn
	r   *bufio.Reader
	out []byte
}

// NewConn returns a Conn over a connection.
func NewConn(conn net.Conn) *Conn {
	return &Conn{Conn: conn, r: bufio.NewReaderSize(conn, readBytes)}
}

// Send writes one message, whose body add appends, and returns its size in bytes.
func (c *Conn) Send(add func([]byte) []byte) (size int, err error) {
	b := add(append(c.out[:0], 0, 0, 0, 0))
	if c.out = b; cap(b) > bufferKeep {
		c.out = nil
	}
	if len(b)-4 > bytesMax {
		return 0, fmt.Errorf("%w: a message of %d bytes", peer.ErrFrame, len(b))
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return c.Write(b)
}

// Receive reads one message. The body belongs to the caller.
func (c *Conn) Receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > bytesMax {
		return nil, fmt.Errorf("%w: a message of %d bytes", peer.ErrFrame, size)
	}
	return peer.ReadBody(c.r, int(size))
}

// AnswerPatience bounds the wait for the answer to an empty message. A connection may stay open and deliver nothing. A
// late answer counts as lost, and the message is sent again on a new connection; entries that arrive twice are only
// answered. A leader that waited for each message as long as for the largest would commit nothing meanwhile, if it
// needs this member for a majority.
const AnswerPatience = time.Second

// Patience returns the time to wait for the answer to a message of size bytes.
func Patience(size int) time.Duration {
	return AnswerPatience + (Timeout-AnswerPatience)*time.Duration(min(size, MessageBytes))/MessageBytes
}

// call sends a request and waits for its answer. broken: the connection can no longer be used; otherwise an error comes
// from the other side's Raft.
func (c *Conn) call(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (broken bool, err error) {
	if err := c.SetDeadline(clock.After(Timeout)); err != nil {
		return true, err
	}
	size, err := c.Send(func(b []byte) []byte { return appendRequest(b, req) })
	if err == nil {
		err = c.SetReadDeadline(clock.After(Patience(size)))
	}
	if err != nil {
		return true, err
	}
	body, err := c.Receive()
	if err != nil {
		return true, err
	}
	said, err := decodeAnswer(body, resp)
	if err != nil || said == "" {
		return err != nil, err
	}
	return false, errors.New(said)
}

func appendRequest(b []byte, req *raft.AppendEntriesRequest) []byte {
	for _, n := range [...]uint64{
		uint64(req.ProtocolVersion), req.Term, req.PrevLogEntry, req.PrevLogTerm, req.LeaderCommitIndex,
	} {
		b = binary.AppendUvarint(b, n)
	}
	b = resp.AppendText(resp.AppendText(b, req.ID), req.Addr)
	b = binary.AppendUvarint(b, uint64(len(req.Entries)))
	for _, e := range req.Entries {
		b = binary.AppendUvarint(binary.AppendUvarint(b, e.Index), e.Term)
		b = binary.AppendUvarint(b, uint64(e.Type))
		appended := int64(0)
		if !e.AppendedAt.IsZero() {
			appended = e.AppendedAt.UnixNano()
		}
		b = binary.AppendVarint(b, appended)
		b = resp.AppendText(resp.AppendText(b, e.Data), e.Extensions)
	}
	return b
}

// DecodeRequest reads a request. Its entries alias body.
func DecodeRequest(body []byte) (*raft.AppendEntriesRequest, error) {
	f := resp.NewDecoder(body)
	req := &raft.AppendEntriesRequest{}
	req.ProtocolVersion = raft.ProtocolVersion(f.Uvarint())
	req.Term, req.PrevLogEntry, req.PrevLogTerm = f.Uvarint(), f.Uvarint(), f.Uvarint()
	req.LeaderCommitIndex = f.Uvarint()
	req.ID, req.Addr = f.Bytes(), f.Bytes()
	n := f.Count(1)
	entries := make([]raft.Log, min(n, EntriesMax+1))
	if n > EntriesMax {
		f.Fail("too many entries")
	}
	for i := 0; i < n && f.Err() == nil; i++ {
		f.Item(1)
		e := &entries[i]
		e.Index, e.Term = f.Uvarint(), f.Uvarint()
		kind := f.Uvarint()
		if e.Type = raft.LogType(kind); kind > uint64(raft.LogConfiguration) {
			f.Fail("unknown type of entry") // Raft would panic
		}
		if appended := f.Varint(); appended != 0 {
			e.AppendedAt = time.Unix(0, appended)
		}
		e.Data, e.Extensions = f.Bytes(), f.Bytes()
		req.Entries = append(req.Entries, e)
	}
	return req, f.End()
}

// AppendAnswer appends the binary form of an answer, or of an error in its place.
func AppendAnswer(b []byte, answer *raft.AppendEntriesResponse, err error) []byte {
	said := ""
	if err != nil {
		said = peer.OneLine(err.Error(), answerTextMax)
	}
	if answer == nil {
		answer = &raft.AppendEntriesResponse{}
	}
	flags := uint64(0)
	if answer.Success {
		flags |= answerSuccess
	}
	if answer.NoRetryBackoff {
		flags |= answerNoBackoff
	}
	b = resp.AppendText(b, said)
	for _, n := range [...]uint64{uint64(answer.ProtocolVersion), answer.Term, answer.LastLog, flags} {
		b = binary.AppendUvarint(b, n)
	}
	return resp.AppendText(resp.AppendText(b, answer.ID), answer.Addr)
}

// decodeAnswer reads an answer, and the error of the other side's Raft.
func decodeAnswer(body []byte, answer *raft.AppendEntriesResponse) (said string, err error) {
	f := resp.NewDecoder(body)
	said = f.Text()
	answer.ProtocolVersion = raft.ProtocolVersion(f.Uvarint())
	answer.Term, answer.LastLog = f.Uvarint(), f.Uvarint()
	flags := f.Uvarint()
	answer.Success, answer.NoRetryBackoff = flags&answerSuccess != 0, flags&answerNoBackoff != 0
	if flags > answerSuccess|answerNoBackoff {
		f.Fail("unknown flags")
	}
	answer.ID, answer.Addr = f.Bytes(), f.Bytes()
	return said, f.End()
}

// Conns keeps a leader's idle connections to the other members. All methods may be called concurrently.
type Conns struct {
	dial func(target raft.ServerAddress) (net.Conn, error)

	mu     sync.Mutex
	idle   map[lane][]*Conn
	closed bool
}

// lane separates the connections to a member by use. Heartbeats have their own: they survive when a connection breaks
// because an entry does not arrive.
type lane struct {
	target     raft.ServerAddress
	heartbeats bool
}

// NewConns returns Conns without connections; dial makes one.
func NewConns(dial func(raft.ServerAddress) (net.Conn, error)) *Conns {
	return &Conns{dial: dial, idle: map[lane][]*Conn{}}
}

// Call sends a request to the member at target, and waits for its answer.
func (r *Conns) Call(
	target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	to := lane{target, IsHeartbeat(req)}
	c, err := r.take(to)
	if err != nil {
		return err
	}
	broken, err := c.call(req, resp)
	if broken {
		_ = c.Close()
		r.drop(to) // the others lead to the same process, which has ended
		return err
	}
	r.put(to, c)
	return err
}

func (r *Conns) take(from lane) (*Conn, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, raft.ErrTransportShutdown
	}
	if list := r.idle[from]; len(list) > 0 {
		c := list[len(list)-1]
		r.idle[from] = list[:len(list)-1]
		r.mu.Unlock()
		return c, nil
	}
	r.mu.Unlock()
	conn, err := r.dial(from.target)
	if err != nil {
		return nil, err
	}
	return NewConn(conn), nil
}

func (r *Conns) put(to lane, c *Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.idle[to]) >= idleMax {
		_ = c.Close()
		return
	}
	r.idle[to] = append(r.idle[to], c)
}

// Prune closes the idle connections that a member has ended.
func (r *Conns) Prune(target raft.ServerAddress) {
	for _, of := range []lane{{target, false}, {target, true}} {
		r.mu.Lock()
		idle := r.idle[of]
		delete(r.idle, of)
		r.mu.Unlock()
		for _, c := range idle {
			_ = c.SetReadDeadline(clock.After(prunePause))
		}
		for _, c := range idle {
			if _, err := c.r.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
				r.put(of, c)
			} else {
				_ = c.Close()
			}
		}
	}
}

// prunePause bounds the time to read the end of an ended connection.
const prunePause = time.Millisecond

func (r *Conns) drop(all lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.idle[all] {
		_ = c.Close()
	}
	delete(r.idle, all)
}

// Close closes all idle connections; those in use are closed when they are put back.
func (r *Conns) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, list := range r.idle {
		for _, c := range list {
			_ = c.Close()
		}
	}
	r.idle = nil
}

// IsHeartbeat reports whether a request is a mere heartbeat.
func IsHeartbeat(req *raft.AppendEntriesRequest) bool {
	return req.PrevLogEntry == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
}
