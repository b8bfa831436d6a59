package resp

import (
	"encoding/binary"
	"errors"
)

// The binary form of requests and results, for entries of the log and for
// frames between nodes. It is not RESP because it must keep what RESP2 and RESP3
// each lose, and because it is read back without copying.
//
//	request  parts n(cmds) { db n(args) { len bytes } }  n(watch) { db len key version }
//	         [n(keys) { db len key }] [step] [sender] [len user]
//	sender   id len name len addr len node
//	step     kind parts [session number] [spentMs] [n { session }] [n(cancelled) { session number }]
//	         [instead: session number] [n(undelivered) { session number }] [n(resumed) { session number }]
//	         [settled] [process] [len node] [n(locks) { db len key len token fence }]
//	result   parts n(replies) { reply }  [n(versions) { version }] [n(denials) { len reason len object }] [trace]
//	trace    index from n(marks) { mark }  n(reads) { cmd len key at }
//	reply    kind, then by kind: varint | len bytes | n(elems) { reply }
//
// Numbers are unsigned varints, except that an integer reply is a zigzag varint; a kind is a byte. A part in brackets
// is present if its bit is set in parts. A reader refuses a record with a bit that it does not know, so each later
// addition to a request, a step or a result takes a bit of its own, belongs to a new level, and costs no bytes where
// it is absent.
const (
	requestMulti uint64 = 1 << iota
	requestTrace
	requestKeys
	requestBlock
	requestSender
	requestUser
	requestParts = iota // the number of parts
)

// The parts of a step.
const (
	stepID uint64 = 1 << iota
	stepSpent
	stepSessions
	stepCancelled
	stepInstead
	stepUndelivered
	stepResumed
	stepSettled
	stepProcess
	stepNode
	stepLocks
	stepParts = iota
)

// The parts of a result.
const (
	resultAborted uint64 = 1 << iota // alone: nothing else follows
	resultVersions
	resultTrace
	resultDenied
	resultParts = iota
)

// ofHolder marks the version of a Watch whose Holder is set. No version reaches this bit.
const ofHolder = 1 << 61

// Limits of the binary form. They bound what a damaged or hostile frame makes a decoder allocate; what clients send
// is bounded much earlier.
const (
	replyDepthMax = 512     // replies inside each other
	databaseMax   = 1 << 16 // the number of a database
)

// ErrBinary is wrapped by every error about an unreadable request or result.
var ErrBinary = errors.New("resp: malformed binary form")

// AppendRequest appends the binary form of req, which has neither Partly nor Observations.
func AppendRequest(dst []byte, req Request) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, req.parts()), uint64(len(req.Cmds)))
	for _, c := range req.Cmds {
		dst = binary.AppendUvarint(dst, uint64(c.DB))
		dst = binary.AppendUvarint(dst, uint64(len(c.Args)))
		for _, a := range c.Args {
			dst = AppendText(dst, a)
		}
	}
	watching := req.watching()
	dst = binary.AppendUvarint(dst, uint64(len(watching.Check)))
	for _, w := range watching.Check {
		dst = binary.AppendUvarint(dst, uint64(w.DB))
		dst = AppendText(dst, w.Key)
		version := w.Version
		if w.Holder {
			version |= ofHolder
		}
		dst = binary.AppendUvarint(dst, version)
	}
	if len(watching.Learn) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(watching.Learn)))
		for _, k := range watching.Learn {
			dst = AppendText(binary.AppendUvarint(dst, uint64(k.DB)), k.Name)
		}
	}
	if req.Block != nil {
		dst = appendBlockStep(dst, req.Block)
	}
	dst = append(dst, req.Sender...)
	if req.User != "" {
		dst = AppendText(dst, req.User)
	}
	return dst
}

func appendBlockStep(dst []byte, b *BlockStep) []byte {
	parts := b.parts()
	dst = binary.AppendUvarint(append(dst, byte(b.Kind)), parts)
	if parts&stepID != 0 {
		dst = appendBlockID(dst, b.ID)
	}
	if parts&stepSpent != 0 {
		dst = binary.AppendUvarint(dst, uint64(b.SpentMs))
	}
	if parts&stepSessions != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(b.Sessions)))
		for _, s := range b.Sessions {
			dst = binary.AppendUvarint(dst, s)
		}
	}
	if parts&stepCancelled != 0 {
		dst = appendBlockIDs(dst, b.Cancelled)
	}
	if parts&stepInstead != 0 {
		dst = appendBlockID(dst, b.Instead)
	}
	if parts&stepUndelivered != 0 {
		dst = appendBlockIDs(dst, b.Undelivered)
	}
	if parts&stepResumed != 0 {
		dst = appendBlockIDs(dst, b.Resumed)
	}
	if parts&stepSettled != 0 {
		dst = binary.AppendUvarint(dst, b.Settled)
	}
	if parts&stepProcess != 0 {
		dst = binary.AppendUvarint(dst, b.Process)
	}
	if parts&stepNode != 0 {
		dst = AppendText(dst, b.Node)
	}
	if parts&stepLocks != 0 {
		dst = appendHeldLocks(dst, b.Locks)
	}
	return dst
}

// parts returns the bits of the parts that the step has.
func (b *BlockStep) parts() (parts uint64) {
	for _, part := range [...]struct {
		has bool
		bit uint64
	}{
		{b.ID != BlockID{}, stepID}, {b.SpentMs != 0, stepSpent}, {len(b.Sessions) > 0, stepSessions},
		{len(b.Cancelled) > 0, stepCancelled}, {b.Instead != BlockID{}, stepInstead},
		{len(b.Undelivered) > 0, stepUndelivered}, {len(b.Resumed) > 0, stepResumed},
		{b.Settled != 0, stepSettled}, {b.Process != 0, stepProcess},
		{b.Node != "", stepNode}, {len(b.Locks) > 0, stepLocks},
	} {
		if part.has {
			parts |= part.bit
		}
	}
	return parts
}

func appendHeldLocks(dst []byte, locks []HeldLock) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(locks)))
	for _, l := range locks {
		dst = AppendText(AppendText(binary.AppendUvarint(dst, uint64(l.DB)), l.Key), l.Token)
		dst = binary.AppendUvarint(dst, l.Fence)
	}
	return dst
}

func appendBlockIDs(dst []byte, ids []BlockID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = appendBlockID(dst, id)
	}
	return dst
}

func appendBlockID(dst []byte, id BlockID) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, id.Session), id.Number)
}

// parts returns the bits of the parts that the request has.
func (r *Request) parts() (parts uint64) {
	if r.Multi {
		parts |= requestMulti
	}
	if r.Trace {
		parts |= requestTrace
	}
	if len(r.watching().Learn) > 0 {
		parts |= requestKeys
	}
	if r.Block != nil {
		parts |= requestBlock
	}
	if r.Sender != "" {
		parts |= requestSender
	}
	if r.User != "" {
		parts |= requestUser
	}
	return parts
}

// Size returns an upper bound, in bytes, of the binary form of the request plus its Observations.
func (r *Request) Size() int {
	size := 1 + 3*binary.MaxVarintLen32
	for _, c := range r.Cmds {
		size += 2 * binary.MaxVarintLen32
		for _, a := range c.Args {
			size += binary.MaxVarintLen32 + len(a)
		}
	}
	watching := r.watching()
	for _, w := range watching.Check {
		size += 3*binary.MaxVarintLen64 + len(w.Key)
	}
	for _, k := range watching.Learn {
		size += 2*binary.MaxVarintLen32 + len(k.Name)
	}
	if b := r.Block; b != nil {
		size += 1 + 14*binary.MaxVarintLen64 + len(b.Node) +
			binary.MaxVarintLen64*(len(b.Sessions)+2*(len(b.Cancelled)+len(b.Undelivered)+len(b.Resumed)))
		for _, l := range b.Locks {
			size += 4*binary.MaxVarintLen64 + len(l.Key) + len(l.Token)
		}
	}
	return size + len(r.Sender) + 2*binary.MaxVarintLen32 + len(r.User) + len(r.Observations)
}

// Request reads a request as AppendRequest writes it. Its strings alias the input. Errors of reading it wrap
// ErrBinary.
func (d *Decoder) Request() Request {
	if d.err != nil {
		return Request{}
	}
	parts := d.Parts("a request", 1<<requestParts-1)
	req := Request{Multi: parts&requestMulti != 0, Trace: parts&requestTrace != 0}
	readCmds(d, &req)
	if parts&requestKeys != 0 {
		keys := makeList[Key](d, 2)
		for i := range keys {
			d.Item(2)
			keys[i] = Key{DB: d.database(), Name: d.Text()}
		}
		if len(keys) == 0 {
			d.Fail("no keys")
		}
		req.Watch = &Watching{Learn: keys, Check: req.watching().Check}
	}
	if parts&requestBlock != 0 {
		req.Block = readBlockStep(d, len(req.Cmds))
	}
	if parts&requestSender != 0 {
		req.Sender = d.Sender()
	}
	if parts&requestUser != 0 {
		if req.User = d.Text(); req.User == "" {
			d.Fail("a user without a name")
		}
	}
	if d.malformed() {
		return Request{}
	}
	return req
}

// readCmds reads the commands of a request and its watched keys.
func readCmds(d *Decoder, req *Request) {
	req.Cmds = d.cmds.take(d.Count(2))
	for i := range req.Cmds {
		d.Item(2)
		req.Cmds[i].DB = d.database()
		args := Args(d.args.take(d.Count(1)))
		for j := range args {
			d.Item(1)
			args[j] = d.Text()
		}
		if len(args) == 0 {
			d.Fail("a command without a name")
		}
		req.Cmds[i].Args = args
	}
	check := makeList[Watch](d, 3)
	for i := range check {
		d.Item(3)
		w := Watch{DB: d.database(), Key: d.Text(), Version: d.Uvarint()}
		w.Version, w.Holder = w.Version&^ofHolder, w.Version&ofHolder != 0
		check[i] = w
	}
	if check != nil {
		req.Watch = &Watching{Check: check}
	}
}

// makeList returns a slice for the items that follow, of at least itemMin bytes each; nil if there are none. A function
// that reads one of them is no argument: the decoder would then be allocated.
func makeList[T any](d *Decoder, itemMin int) []T {
	if n := d.Count(itemMin); n > 0 {
		return make([]T, n)
	}
	return nil
}

func readNumbers(d *Decoder) []uint64 {
	list := makeList[uint64](d, 1)
	for i := range list {
		d.Item(1)
		list[i] = d.Uvarint()
	}
	return list
}

// readBlockStep reads a step of a request with cmds commands.
func readBlockStep(d *Decoder, cmds int) *BlockStep {
	b := &BlockStep{Kind: BlockKind(d.Byte())}
	parts := d.Parts("a step of a blocking command", 1<<stepParts-1)
	if parts&stepID != 0 {
		b.ID = readBlockID(d)
	}
	if parts&stepSpent != 0 {
		b.SpentMs = d.int63()
	}
	if parts&stepSessions != 0 {
		b.Sessions = readNumbers(d)
	}
	if parts&stepCancelled != 0 {
		b.Cancelled = readBlockIDs(d)
	}
	if parts&stepInstead != 0 {
		b.Instead = readBlockID(d)
	}
	if parts&stepUndelivered != 0 {
		b.Undelivered = readBlockIDs(d)
	}
	if parts&stepResumed != 0 {
		b.Resumed = readBlockIDs(d)
	}
	if parts&stepSettled != 0 {
		b.Settled = d.Uvarint()
	}
	if parts&stepProcess != 0 {
		b.Process = d.Uvarint()
	}
	if parts&stepNode != 0 {
		b.Node = d.Text()
	}
	if parts&stepLocks != 0 {
		b.Locks = readHeldLocks(d)
	}
	if b.Kind < BlockOpen || b.Kind > BlockClaim || (b.Kind == BlockAsk) != (cmds == 1) || cmds > 1 {
		d.Fail("a step of no kind")
	}
	return b
}

func readHeldLocks(d *Decoder) []HeldLock {
	const lockMin = 4 // bytes
	locks := makeList[HeldLock](d, lockMin)
	for i := range locks {
		d.Item(lockMin)
		locks[i] = HeldLock{DB: d.database(), Key: d.Text(), Token: d.Text(), Fence: d.Uvarint()}
	}
	return locks
}

func readBlockIDs(d *Decoder) []BlockID {
	ids := makeList[BlockID](d, 2)
	for i := range ids {
		d.Item(2)
		ids[i] = readBlockID(d)
	}
	return ids
}

func readBlockID(d *Decoder) BlockID { return BlockID{Session: d.Uvarint(), Number: d.Uvarint()} }

// AppendResult appends the binary form of res.
func AppendResult(dst []byte, res Result) []byte {
	if res.Aborted() {
		return binary.AppendUvarint(dst, resultAborted)
	}
	parts := uint64(0)
	if res.Watched != nil {
		parts |= resultVersions
	}
	if res.Trace != nil {
		parts |= resultTrace
	}
	if len(res.Denied) > 0 {
		parts |= resultDenied
	}
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, parts), uint64(len(res.Replies)))
	for _, r := range res.Replies {
		dst = appendReply(dst, r)
	}
	if res.Watched != nil {
		dst = binary.AppendUvarint(dst, uint64(len(res.Watched.Versions)))
		for _, v := range res.Watched.Versions {
			dst = binary.AppendUvarint(dst, v)
		}
	}
	if len(res.Denied) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(res.Denied)))
		for _, denied := range res.Denied {
			dst = AppendText(AppendText(dst, denied.Reason), denied.Object)
		}
	}
	if res.Trace != nil {
		dst = appendTrace(dst, res.Trace)
	}
	return dst
}

func appendTrace(dst []byte, t *Trace) []byte {
	dst = binary.AppendUvarint(dst, t.Index)
	dst = binary.AppendUvarint(dst, uint64(t.From))
	dst = binary.AppendUvarint(dst, uint64(len(t.Marks)))
	for _, m := range t.Marks {
		dst = binary.AppendUvarint(dst, uint64(m))
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Reads)))
	for _, r := range t.Reads {
		dst = AppendText(binary.AppendUvarint(dst, uint64(r.Cmd)), r.Key)
		dst = binary.AppendUvarint(dst, uint64(r.At))
	}
	return dst
}

// Result reads a result as AppendResult writes it. Its strings alias the input. Errors of reading it wrap ErrBinary.
func (d *Decoder) Result() Result {
	if d.err != nil {
		return Result{}
	}
	res := readResult(d, d.Parts("a result", 1<<resultParts-1))
	if d.malformed() {
		return Result{}
	}
	return res
}

func readResult(d *Decoder, parts uint64) (res Result) {
	switch {
	case parts == resultAborted:
		return Result{Watched: &Watched{Aborted: true}}
	case parts&resultAborted != 0:
		d.Fail("aborted, and more")
		return Result{}
	}
	res.Replies = readReplies(d, 0)
	if parts&resultVersions != 0 {
		res.Watched = &Watched{Versions: readNumbers(d)}
	}
	if parts&resultDenied != 0 {
		res.Denied = makeList[Denial](d, 2)
		for i := range res.Denied {
			d.Item(2)
			res.Denied[i] = Denial{Reason: d.Text(), Object: d.Text()}
		}
		if len(res.Denied) == 0 || len(res.Denied) > DenialsMax {
			d.Fail("no number of denials")
		}
	}
	if parts&resultTrace != 0 {
		res.Trace = readTrace(d)
	}
	return res
}

func readTrace(d *Decoder) *Trace {
	t := &Trace{Index: d.Uvarint(), From: d.int63()}
	t.Marks = makeList[int64](d, 1)
	for i := range t.Marks {
		d.Item(1)
		t.Marks[i] = d.int63()
	}
	t.Reads = makeList[KeyRead](d, 3)
	for i := range t.Reads {
		d.Item(3)
		t.Reads[i] = KeyRead{Cmd: int(d.int63()), Key: d.Text(), At: d.int63()}
	}
	return t
}

func appendReply(dst []byte, r Reply) []byte {
	dst = append(dst, byte(r.Kind))
	switch r.Kind {
	case KindInt, KindBool, KindDouble:
		return binary.AppendVarint(dst, r.Int)
	case KindStatus, KindError, KindBulk, KindBigNumber, KindVerbatim:
		return AppendText(dst, r.Str)
	case KindArray, KindMap, KindSet, KindPairs, KindPush, KindPairMap:
		dst = binary.AppendUvarint(dst, uint64(len(r.Elems)))
		for i := range r.Elems {
			dst = appendReply(dst, r.Elems[i])
		}
	}
	return dst
}

// readReplies reads a count and as many replies, which are inside depth others.
func readReplies(d *Decoder, depth int) []Reply {
	replies := make([]Reply, d.Count(1))
	for i := range replies {
		d.Item(1)
		replies[i] = readReply(d, depth)
	}
	return replies
}

func readReply(d *Decoder, depth int) Reply {
	r := Reply{Kind: Kind(d.Byte())}
	switch r.Kind {
	case KindNone, KindNil, KindNilArray:
	case KindInt, KindBool, KindDouble:
		r.Int = d.Varint()
	case KindStatus, KindError, KindBulk, KindBigNumber, KindVerbatim:
		r.Str = d.Text()
	case KindArray, KindMap, KindSet, KindPairs, KindPush, KindPairMap:
		if depth >= replyDepthMax {
			d.Fail("replies nested too deeply")
			break
		}
		r.Elems = readReplies(d, depth+1)
		checkElems(d, r)
	default:
		d.Fail("unknown kind of reply")
	}
	return r
}

// checkElems refuses replies that AppendTo cannot frame: a key without its value, and an element that writes no
// bytes.
func checkElems(d *Decoder, r Reply) {
	if (r.Kind == KindMap || r.Kind == KindPairs || r.Kind == KindPairMap) && len(r.Elems)%2 != 0 {
		d.Fail("a key without a value")
	}
	for i := range r.Elems {
		if r.Elems[i].Kind == KindNone {
			d.Fail("an element without a value")
		}
	}
}
