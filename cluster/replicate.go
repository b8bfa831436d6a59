package cluster

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
	"lockd/cluster/store"
	"lockd/resp"
	"lockd/resp/fault"
)

// Raft's most frequent message, AppendEntries, travels on connections of its own and
// in a form of our own; the library's costs several times as much CPU time as what it
// carries. All others (votes, snapshots, hand-overs) stay with the library's transport.
//
//	message  length(4, big endian: of what follows) body
//	request  version term prevIndex prevTerm commit, id, address, n(entries) { entry }
//	entry    index term type appended, data, extensions
//	answer   error, version term lastIndex flags, id, address
//
// Numbers are uvarints, appended is a varint of nanoseconds since 1970 (0: not set), texts
// and bytes have their length before them. An answer follows each request; nothing overlaps.

// Flags of an answer.
const (
	answerSuccess   = 1 << 0
	answerNoBackoff = 1 << 1
)

const (
	replicateIdleMax    = 3       // connections of a lane that are kept while nobody uses them
	replicateBufferKeep = 1 << 20 // bytes; a larger buffer is given back
	replicateReadBytes  = 16 << 10
	answerTextMax       = 4 << 10 // bytes of an answer's error
	heartbeatPatience   = 10      // Raft has this part of the heartbeat timeout to take a heartbeat
)

// replicateBytesMax bounds a message: as many entries as one carries, of the largest size.
const replicateBytesMax = appendEntriesMax*(record.RequestBytesMax+record.BatchBytesMax) + 1<<20

// logConn is a connection for AppendEntries, at either end. One goroutine uses it.
type logConn struct {
	net.Conn
	r   *bufio.Reader
	out []byte
}

func newLogConn(conn net.Conn) *logConn {
	return &logConn{Conn: conn, r: bufio.NewReaderSize(conn, replicateReadBytes)}
}

// send writes one message, whose body add appends, and returns its size in bytes.
func (c *logConn) send(add func([]byte) []byte) (size int, err error) {
	b := add(append(c.out[:0], 0, 0, 0, 0))
	if c.out = b; cap(b) > replicateBufferKeep {
		c.out = nil
	}
	if len(b)-4 > replicateBytesMax {
		return 0, fmt.Errorf("%w: a message of %d bytes", peer.ErrFrame, len(b))
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return c.Write(b)
}

// receive reads one message. The body is the caller's.
func (c *logConn) receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > replicateBytesMax {
		return nil, fmt.Errorf("%w: a message of %d bytes", peer.ErrFrame, size)
	}
	return peer.ReadBody(c.r, int(size))
}

// A connection may stay open and pass nothing on. An answer that is late counts as lost, and the message is sent
// again on a new connection: entries that come twice are only answered. Who waited for each as long as for the
// largest would commit nothing meanwhile, if he needs this member for it.
const answerPatience = time.Second

// patience is how long to wait for the answer to a message of size bytes.
func patience(size int) time.Duration {
	return answerPatience + (peerTimeout-answerPatience)*time.Duration(min(size, messageBytes))/messageBytes
}

// call sends a request and waits for its answer. broken says that the connection is of no
// more use; otherwise an error is what the other side's Raft says.
func (c *logConn) call(req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (broken bool, err error) {
	if err := c.SetDeadline(clock.After(peerTimeout)); err != nil {
		return true, err
	}
	size, err := c.send(func(b []byte) []byte { return appendReplicate(b, req) })
	if err == nil {
		err = c.SetReadDeadline(clock.After(patience(size)))
	}
	if err != nil {
		return true, err
	}
	body, err := c.receive()
	if err != nil {
		return true, err
	}
	said, err := decodeReplicateAnswer(body, resp)
	if err != nil || said == "" {
		return err != nil, err
	}
	return false, errors.New(said)
}

func appendReplicate(b []byte, req *raft.AppendEntriesRequest) []byte {
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

// decodeReplicate reads a request. Its entries alias body.
func decodeReplicate(body []byte) (*raft.AppendEntriesRequest, error) {
	f := resp.NewDecoder(body)
	req := &raft.AppendEntriesRequest{}
	req.ProtocolVersion = raft.ProtocolVersion(f.Uvarint())
	req.Term, req.PrevLogEntry, req.PrevLogTerm = f.Uvarint(), f.Uvarint(), f.Uvarint()
	req.LeaderCommitIndex = f.Uvarint()
	req.ID, req.Addr = f.Bytes(), f.Bytes()
	n := f.Count(1)
	entries := make([]raft.Log, min(n, appendEntriesMax+1))
	if n > appendEntriesMax {
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

func appendReplicateAnswer(b []byte, answer *raft.AppendEntriesResponse, err error) []byte {
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

// decodeReplicateAnswer reads an answer, and what the other side's Raft says against the
// request.
func decodeReplicateAnswer(body []byte, answer *raft.AppendEntriesResponse) (said string, err error) {
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

// replicas keeps the connections of a leader to the others while nobody uses them. All
// methods may be called concurrently.
type replicas struct {
	dial func(target raft.ServerAddress) (net.Conn, error)

	mu     sync.Mutex
	idle   map[lane][]*logConn
	closed bool
}

// lane is the use of connections to a member. Heartbeats have their own: where an entry does not arrive, theirs
// does not break with the connection of the entry.
type lane struct {
	target     raft.ServerAddress
	heartbeats bool
}

func newReplicas(dial func(raft.ServerAddress) (net.Conn, error)) *replicas {
	return &replicas{dial: dial, idle: map[lane][]*logConn{}}
}

// call has the member at target answer a request.
func (r *replicas) call(
	target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	to := lane{target, heartbeat(req)}
	c, err := r.take(to)
	if err != nil {
		return err
	}
	broken, err := c.call(req, resp)
	if broken {
		_ = c.Close()
		r.drop(to) // the others lead to the same process, which is gone
		return err
	}
	r.put(to, c)
	return err
}

func (r *replicas) take(from lane) (*logConn, error) {
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
	return newLogConn(conn), nil
}

func (r *replicas) put(to lane, c *logConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.idle[to]) >= replicateIdleMax {
		_ = c.Close()
		return
	}
	r.idle[to] = append(r.idle[to], c)
}

// prune closes the idle connections to a member that the member has ended, which nobody has noticed.
func (r *replicas) prune(target raft.ServerAddress) {
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

// prunePause is how long the end of a connection that has ended may take to be read.
const prunePause = time.Millisecond

func (r *replicas) drop(all lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.idle[all] {
		_ = c.Close()
	}
	delete(r.idle, all)
}

func (r *replicas) close() {
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

// serveLog hands a leader's requests to Raft and its answers back, until the connection
// or Raft ends.
func (t *transport) serveLog(conn net.Conn) {
	defer conn.Close()
	c := newLogConn(conn)
	answers := make(chan raft.RPCResponse, 1)
	for {
		body, err := c.receive()
		if err != nil {
			return
		}
		req, err := decodeReplicate(body)
		if err != nil {
			t.log.Warn("a message of the leader cannot be read: the connection is closed",
				"peer", conn.RemoteAddr().String(), "error", err)
			return
		}
		a, ok := t.respond(req, answers)
		if !ok || len(req.Entries) > 0 && fault.At(fault.Replicated) != nil {
			return
		}
		resp, _ := a.Response.(*raft.AppendEntriesResponse)
		_, err = c.send(func(b []byte) []byte { return appendReplicateAnswer(b, resp, a.Error) })
		if err != nil {
			return
		}
	}
}

// respond answers a leader's request; false if the transport is closed before.
func (t *transport) respond(req *raft.AppendEntriesRequest, answers chan raft.RPCResponse) (raft.RPCResponse, bool) {
	why := t.ownLog.contradiction(req.Term, &raft.Log{Index: req.PrevLogEntry, Term: req.PrevLogTerm})
	if why == nil {
		why = t.ownLog.contradiction(req.Term, req.Entries...)
	}
	if why != nil {
		t.fatal(why)
		return raft.RPCResponse{}, false
	}
	if answer := t.ownLog.skipApplied(req); answer != nil {
		return raft.RPCResponse{Response: answer}, true
	}
	rpc := raft.RPC{Command: req, RespChan: answers}
	if heartbeat(req) {
		return t.askHeartbeat(rpc, answers)
	}
	return t.ask(rpc, answers)
}

// heartbeat reports whether a request only says that its sender leads.
func heartbeat(req *raft.AppendEntriesRequest) bool {
	return req.PrevLogEntry == 0 && len(req.Entries) == 0 && req.LeaderCommitIndex == 0
}

// askHeartbeat has Raft answer a heartbeat, or answers for it while it is busy: a disk that
// takes its time, or a snapshot that is being restored, is no reason for a leader to give
// up. All that a leader concludes from the answer is that this member is there and knows of
// no later term (no read rests on it, see confirm), and that is so. Raft misses nothing: it
// counts the message it is busy with as heard from the leader when it is done with it.
// NoRetryBackoff, which Raft sets in no answer to a heartbeat, says that Raft was busy (contacts).
func (t *transport) askHeartbeat(rpc raft.RPC, answers <-chan raft.RPCResponse) (raft.RPCResponse, bool) {
	req := rpc.Command.(*raft.AppendEntriesRequest)
	busy := time.NewTimer(t.cfg.Heartbeat / heartbeatPatience)
	defer busy.Stop()
	for {
		select {
		case t.requests <- rpc:
			return t.answer(answers)
		case <-busy.C:
			if t.raft.Follows(req.Term) {
				header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}
				return raft.RPCResponse{Response: &raft.AppendEntriesResponse{
					RPCHeader: header, Term: req.Term, Success: true, NoRetryBackoff: true,
				}}, true
			}
		case <-t.closed:
			return raft.RPCResponse{}, false
		}
	}
}

// ask has Raft answer a request; false if the transport is closed before.
func (t *transport) ask(rpc raft.RPC, answers <-chan raft.RPCResponse) (raft.RPCResponse, bool) {
	select {
	case t.requests <- rpc:
	case <-t.closed:
		return raft.RPCResponse{}, false
	}
	return t.answer(answers)
}

// answer waits for the answer to a request that Raft has taken.
func (t *transport) answer(answers <-chan raft.RPCResponse) (raft.RPCResponse, bool) {
	select {
	case a := <-answers:
		return a, true
	case <-t.closed:
		return raft.RPCResponse{}, false
	}
}

// A leader resends what it has no answer to. Meanwhile this node may have applied those entries and
// trimmed its log. Raft locates a message only by an entry that is still in the log. It would
// refuse the message, and the leader would fall back to its snapshot. Raft installs any snapshot,
// even one older than the state: it removes the whole log, and with it entries that this node has
// acknowledged and the cluster has committed. So Raft never sees what this node already has.

// ownLog is what this node has on its disk and has applied. All methods may be called concurrently.
type ownLog struct {
	*core
	state     *state
	snapshots *snapshots
	stores    *store.Stores
	mark      *store.AppliedMark // nil in memory
}

// skipApplied removes from a message the entries that this node has and that are committed: those
// that are applied, or in the snapshot that Raft goes by. It returns the answer if nothing else is
// in the message, or nil if Raft must answer. The leader of the present term has the same entries.
func (o *ownLog) skipApplied(req *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
	has := o.has()
	if req.PrevLogEntry == 0 && len(req.Entries) == 0 || req.PrevLogEntry >= has || !o.raft.Follows(req.Term) {
		return nil // a heartbeat, or behind what is here
	}
	known := 0
	for known < len(req.Entries) && req.Entries[known].Index <= has {
		known++
	}
	if known == len(req.Entries) {
		return &raft.AppendEntriesResponse{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
			Term:      req.Term, LastLog: o.raft.LastIndex(), Success: true,
		}
	}
	if known == 0 {
		return nil // a gap: Raft looks at it
	}
	last := req.Entries[known-1]
	req.PrevLogEntry, req.PrevLogTerm, req.Entries = last.Index, last.Term, req.Entries[known:]
	return nil
}

// has is the index up to which this node has the committed entries on its disk. A snapshot may end
// with an entry of Raft's own, which is never applied here; behind it the log has everything.
func (o *ownLog) has() uint64 {
	index, _ := o.snapshots.base()
	return max(index, o.state.appliedNow.Load())
}

// last returns term and index of the last entry of this node's log.
func (o *ownLog) last() (term, index uint64) {
	index = o.raft.LastIndex()
	var l raft.Log
	if o.stores.Log.GetLog(index, &l) == nil {
		return l.Term, index
	}
	base, term := o.snapshots.base() // the log is empty behind it
	return term, max(base, index)
}

// errRestart stops a node whose log differs from the leader's and goes past the leader's snapshot:
// Raft would remove the log and still take its last entry for its own. At the next start the log is
// removed before Raft reads it (store: checkEnds).
var errRestart = errors.New("this node's log is not the leader's, and longer than his snapshot: start the node again " +
	"to finish")

// checkInstall checks the snapshot that Raft is about to install. A refusal leaves Raft's state,
// and the machine's, as they were.
func (o *ownLog) checkInstall() error {
	snaps, err := o.stores.Snaps.List()
	switch {
	case err != nil || len(snaps) == 0 || o.raft.LastIndex() < snaps[0].Index:
		return err
	case o.reaches(snaps[0].Index, snaps[0].Term):
		return errSnapshotKnown // it came while this was on its way
	}
	return errRestart
}

// reaches reports whether this node's state or log reaches as far as a snapshot. A log with the
// snapshot's last entry has all entries before it.
func (o *ownLog) reaches(index, term uint64) bool {
	if index <= o.has() {
		return true
	}
	var last raft.Log
	return o.stores.Log.GetLog(index, &last) == nil && last.Term == term
}

// contradiction reports that a leader has another log than the one this node has applied, which
// cannot happen while every node keeps its promises; nil if it has not.
func (o *ownLog) contradiction(term uint64, entries ...*raft.Log) error {
	if !o.raft.Started.Load() || term < o.raft.CurrentTerm() {
		return nil
	}
	applied := max(o.state.appliedNow.Load(), o.mark.Begin())
	for _, e := range entries {
		var own raft.Log
		if e.Index == 0 || e.Index > applied || o.stores.Log.GetLog(e.Index, &own) != nil || own.Term == e.Term {
			continue
		}
		return fmt.Errorf("this node has applied entry %d of term %d, the leader of term %d has another one of term "+
			"%d in its place: the others have lost what was acknowledged, or this node has; it stops and changes "+
			"nothing. Nodes that run on older copies of their data folders do this: remove those, and add them "+
			"with empty folders",
			e.Index, own.Term, term, e.Term)
	}
	return nil
}
