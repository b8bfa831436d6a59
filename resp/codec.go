package resp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// The binary form of requests and results, for entries of the log and for
// frames between nodes. It is not RESP because it must keep what RESP2 and RESP3
// each lose, and because it is read back without copying.
//
//	request  flags n(cmds) { db n(args) { len bytes } }  n(watch) { db len key version }
//	         n(keys) { db len key }, if it has keys
//	         kind session number spentMs n(sessions) { session } n(cancels) { session number }, if it has a step
//	result   flags n(replies) { reply }  n(versions) { version }, if it has versions
//	         trace, if it has one: index from n(marks) { mark }  n(reads) { cmd len key at }
//	reply    kind, then by kind: varint | len bytes | n(elems) { reply }
//
// All numbers are unsigned varints, but for the zigzag varint of an integer reply;
// flags are a byte.
const (
	requestMulti byte = 1 << iota
	requestTrace
	requestKeys
	requestBlock
)

const (
	resultAborted byte = 1 << iota // and nothing else
	resultVersions
	resultTrace
)

// Limits of the binary form. They bound what a damaged or hostile frame can
// make a decoder allocate; what clients send is bounded much earlier.
const (
	replyDepthMax = 512
)

// ErrBinary is wrapped by every error of the decoders.
var ErrBinary = errors.New("resp: malformed binary form")

// AppendRequest appends the binary form of req.
func AppendRequest(dst []byte, req Request) []byte {
	dst = binary.AppendUvarint(append(dst, req.flags()), uint64(len(req.Cmds)))
	for _, c := range req.Cmds {
		dst = binary.AppendUvarint(dst, uint64(c.DB))
		dst = binary.AppendUvarint(dst, uint64(len(c.Args)))
		for _, a := range c.Args {
			dst = appendString(dst, a)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(req.Watch)))
	for _, w := range req.Watch {
		dst = binary.AppendUvarint(dst, uint64(w.DB))
		dst = appendString(dst, w.Key)
		dst = binary.AppendUvarint(dst, w.Version)
	}
	if len(req.Keys) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(req.Keys)))
		for _, k := range req.Keys {
			dst = appendString(binary.AppendUvarint(dst, uint64(k.DB)), k.Name)
		}
	}
	if req.Block != nil {
		dst = appendBlockStep(dst, req.Block)
	}
	return dst
}

func appendBlockStep(dst []byte, b *BlockStep) []byte {
	dst = appendBlockID(append(dst, byte(b.Kind)), b.ID)
	dst = binary.AppendUvarint(dst, uint64(b.SpentMs))
	dst = binary.AppendUvarint(dst, uint64(len(b.Sessions)))
	for _, s := range b.Sessions {
		dst = binary.AppendUvarint(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Cancels)))
	for _, id := range b.Cancels {
		dst = appendBlockID(dst, id)
	}
	return dst
}

func appendBlockID(dst []byte, id BlockID) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, id.Session), id.Number)
}

func (r *Request) flags() (f byte) {
	if r.Multi {
		f |= requestMulti
	}
	if r.Trace {
		f |= requestTrace
	}
	if len(r.Keys) > 0 {
		f |= requestKeys
	}
	if r.Block != nil {
		f |= requestBlock
	}
	return f
}

// Size is an upper bound, in bytes, of the binary form of the request. It is counted once,
// so the request must not change any more.
func (r *Request) Size() int {
	if r.size == 0 {
		r.size = r.count()
	}
	return r.size
}

func (r *Request) count() int {
	size := 1 + 3*binary.MaxVarintLen32
	for _, c := range r.Cmds {
		size += 2 * binary.MaxVarintLen32
		for _, a := range c.Args {
			size += binary.MaxVarintLen32 + len(a)
		}
	}
	for _, w := range r.Watch {
		size += 3*binary.MaxVarintLen64 + len(w.Key)
	}
	for _, k := range r.Keys {
		size += 2*binary.MaxVarintLen32 + len(k.Name)
	}
	if b := r.Block; b != nil {
		size += 1 + 5*binary.MaxVarintLen64 + binary.MaxVarintLen64*(len(b.Sessions)+2*len(b.Cancels))
	}
	return size
}

// DecodeRequest reads one request from b and returns what follows it. The
// strings of the request alias b, which must not change any more.
func DecodeRequest(b []byte) (Request, []byte, error) {
	if len(b) == 0 || b[0] >= 2*requestBlock {
		return Request{}, nil, fmt.Errorf("%w: unknown request flags", ErrBinary)
	}
	flags, d := b[0], decoder{rest: b[1:]}
	req := d.request()
	req.Multi, req.Trace = flags&requestMulti != 0, flags&requestTrace != 0
	if flags&requestKeys != 0 {
		req.Keys = make([]Key, d.count(2))
		for i := range req.Keys {
			d.owed -= 2
			req.Keys[i] = Key{DB: d.small(), Name: d.text()}
		}
		if len(req.Keys) == 0 {
			d.fail("no keys")
		}
	}
	if flags&requestBlock != 0 {
		req.Block = d.blockStep(len(req.Cmds))
	}
	return d.endRequest(req)
}

// DecodeOldRequest is DecodeRequest for the first form, which had no flags.
func DecodeOldRequest(b []byte) (Request, []byte, error) {
	d := decoder{rest: b}
	return d.endRequest(d.request())
}

func (d *decoder) endRequest(req Request) (Request, []byte, error) {
	if d.err != nil {
		return Request{}, nil, d.err
	}
	return req, d.rest, nil
}

// request reads the commands of a request and what is watched for it.
func (d *decoder) request() (req Request) {
	req.Cmds = make([]Cmd, d.count(2))
	for i := range req.Cmds {
		d.owed -= 2
		req.Cmds[i].DB = d.small()
		args := make(Args, d.count(1))
		for j := range args {
			d.owed--
			args[j] = d.text()
		}
		if len(args) == 0 {
			d.fail("a command without a name")
		}
		req.Cmds[i].Args = args
	}
	if n := d.count(3); n > 0 {
		req.Watch = make([]Watch, n)
		for i := range req.Watch {
			d.owed -= 3
			req.Watch[i] = Watch{DB: d.small(), Key: d.text(), Version: d.uvarint()}
		}
	}
	return req
}

// blockStep reads a step, beside so many commands.
func (d *decoder) blockStep(cmds int) *BlockStep {
	b := &BlockStep{Kind: BlockKind(d.byte()), ID: d.blockID(), SpentMs: d.place()}
	if n := d.count(1); n > 0 {
		b.Sessions = make([]uint64, n)
	}
	for i := range b.Sessions {
		d.owed--
		b.Sessions[i] = d.uvarint()
	}
	if n := d.count(2); n > 0 {
		b.Cancels = make([]BlockID, n)
	}
	for i := range b.Cancels {
		d.owed -= 2
		b.Cancels[i] = d.blockID()
	}
	if b.Kind < BlockOpen || b.Kind > BlockClose || (b.Kind == BlockAsk) != (cmds == 1) || cmds > 1 {
		d.fail("a step of no kind")
	}
	return b
}

func (d *decoder) blockID() BlockID { return BlockID{Session: d.uvarint(), Number: d.uvarint()} }

// AppendResult appends the binary form of res.
func AppendResult(dst []byte, res Result) []byte {
	if res.Aborted {
		return append(dst, resultAborted)
	}
	flags := byte(0)
	if res.Versions != nil {
		flags |= resultVersions
	}
	if res.Trace != nil {
		flags |= resultTrace
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(len(res.Replies)))
	for _, r := range res.Replies {
		dst = appendReply(dst, r)
	}
	if res.Versions != nil {
		dst = binary.AppendUvarint(dst, uint64(len(res.Versions)))
		for _, v := range res.Versions {
			dst = binary.AppendUvarint(dst, v)
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
		dst = appendString(binary.AppendUvarint(dst, uint64(r.Cmd)), r.Key)
		dst = binary.AppendUvarint(dst, uint64(r.At))
	}
	return dst
}

// DecodeResult reads one result from b and returns what follows it. The strings
// of the result alias b.
func DecodeResult(b []byte) (Result, []byte, error) {
	d := decoder{rest: b}
	res := d.result(d.byte())
	if d.err != nil {
		return Result{}, nil, d.err
	}
	return res, d.rest, nil
}

func (d *decoder) result(flags byte) (res Result) {
	switch {
	case flags == resultAborted:
		return Result{Aborted: true}
	case flags&^(resultVersions|resultTrace) != 0:
		d.fail("unknown result flags")
		return Result{}
	}
	res.Replies = make([]Reply, d.count(1))
	for i := range res.Replies {
		d.owed--
		res.Replies[i] = d.reply(0)
	}
	if flags&resultVersions != 0 {
		res.Versions = make([]uint64, d.count(1))
		for i := range res.Versions {
			d.owed--
			res.Versions[i] = d.uvarint()
		}
	}
	if flags&resultTrace != 0 {
		res.Trace = d.trace()
	}
	return res
}

func (d *decoder) trace() *Trace {
	t := &Trace{Index: d.uvarint(), From: d.place()}
	t.Marks = make([]int64, d.count(1))
	for i := range t.Marks {
		d.owed--
		t.Marks[i] = d.place()
	}
	t.Reads = make([]KeyRead, d.count(3))
	for i := range t.Reads {
		d.owed -= 3
		t.Reads[i] = KeyRead{Cmd: int(d.place()), Key: d.text(), At: d.place()}
	}
	return t
}

// place reads a number of changes.
func (d *decoder) place() int64 {
	n := d.uvarint()
	if n > math.MaxInt64 {
		d.fail("number out of range")
		return 0
	}
	return int64(n)
}

func appendReply(dst []byte, r Reply) []byte {
	dst = append(dst, byte(r.Kind))
	switch r.Kind {
	case KindInt, KindBool, KindDouble:
		return binary.AppendVarint(dst, r.Int)
	case KindStatus, KindError, KindBulk, KindBigNumber, KindVerbatim:
		return appendString(dst, r.Str)
	case KindArray, KindMap, KindSet, KindPairs, KindPush, KindPairMap:
		dst = binary.AppendUvarint(dst, uint64(len(r.Elems)))
		for i := range r.Elems {
			dst = appendReply(dst, r.Elems[i])
		}
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// decoder reads the binary form. After the first error it reads nothing more
// and every value is zero, so its callers check err once.
type decoder struct {
	rest []byte
	owed int // bytes of rest, at least, that announced items still need
	err  error
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrBinary, why)
	}
	d.rest = nil
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail("cut short")
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.fail("bad number")
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.fail("bad number")
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) small() int {
	n := d.uvarint()
	if n > 1<<16 {
		d.fail("number out of range")
		return 0
	}
	return int(n)
}

// count reads how many items follow, each of at least itemMin bytes. It refuses
// more than the input has room for beside what was announced before, so that all
// counts together, nested ones too, cannot make the caller allocate more than the
// input's own size allows. Whoever reads an item takes itemMin off owed first.
func (d *decoder) count(itemMin int) int {
	n := d.uvarint()
	if room := len(d.rest) - d.owed; room < 0 || n > uint64(room/itemMin) {
		d.fail("count exceeds the input")
		return 0
	}
	d.owed += int(n) * itemMin
	return int(n)
}

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail("string exceeds the input")
		return ""
	}
	if n == 0 {
		return ""
	}
	s := unsafe.String(&d.rest[0], int(n))
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) reply(depth int) Reply {
	r := Reply{Kind: Kind(d.byte())}
	switch r.Kind {
	case KindNone, KindNil, KindNilArray:
	case KindInt, KindBool, KindDouble:
		r.Int = d.varint()
	case KindStatus, KindError, KindBulk, KindBigNumber, KindVerbatim:
		r.Str = d.text()
	case KindArray, KindMap, KindSet, KindPairs, KindPush, KindPairMap:
		if depth >= replyDepthMax {
			d.fail("replies nested too deeply")
			break
		}
		r.Elems = make([]Reply, d.count(1))
		for i := range r.Elems {
			d.owed--
			r.Elems[i] = d.reply(depth + 1)
		}
		d.checkElems(r)
	default:
		d.fail("unknown kind of reply")
	}
	return r
}

// checkElems refuses what AppendTo could not frame: a key without its value, and
// an element that writes nothing.
func (d *decoder) checkElems(r Reply) {
	if (r.Kind == KindMap || r.Kind == KindPairs || r.Kind == KindPairMap) && len(r.Elems)%2 != 0 {
		d.fail("a key without a value")
	}
	for i := range r.Elems {
		if r.Elems[i].Kind == KindNone {
			d.fail("an element without a value")
		}
	}
}
