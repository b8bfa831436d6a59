package lib

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"lockd/luavm/lauxlib"
	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

// structLibrary is Roberto Ierusalimschy's struct. A format is a row of letters:
//
//	b B h H l L T   integers of 1, 2, 8 bytes; small letters are signed
//	in In           integers of n bytes, 4 without n, at most 32
//	f d             floats of 4 and 8 bytes
//	cn s x          n bytes (c0: as many as the number before says), a string up to NUL, a pad
//	> < !n          big endian, little endian (the default), alignment n (8 without n)
var structLibrary = []lauxlib.Func{
	{"pack", structPack},
	{"unpack", structUnpack},
	{"size", structSize},
}

// OpenStruct returns the table of the library struct.
func OpenStruct(L *lua.LState, b *lauxlib.Budget) *lua.LTable {
	return lauxlib.NewLibrary(L, b, structLibrary)
}

const (
	structIntBytesMax = 32 // the widest integer
	structAlign       = 8  // alignment of "!" without a number
)

// structFormat walks a format.
type structFormat struct {
	c     lauxlib.Call
	rest  string
	big   bool
	align uint64
}

func newFormat(c lauxlib.Call, format string) *structFormat {
	return &structFormat{c: c, rest: libc.CString(format), align: 1}
}

// next reads an option letter and its number; ok is false at the end. size is the option's size in bytes, 0 if only
// its data tells, and pad is the padding that aligns it after pos bytes.
func (f *structFormat) next(pos uint64) (opt byte, size, pad uint64, ok bool) {
	if f.rest == "" {
		return 0, 0, 0, false
	}
	f.c.Charge(1)
	opt = f.rest[0]
	f.rest = f.rest[1:]
	size = f.size(opt)
	return opt, size, f.padding(pos, opt, size), true
}

func (f *structFormat) size(opt byte) uint64 {
	switch opt {
	case 'b', 'B', 'x':
		return 1
	case 'h', 'H':
		return 2
	case 'l', 'L', 'T', 'd':
		return 8
	case 'f':
		return 4
	case 'c':
		return f.count(1)
	case 'i', 'I':
		size := f.count(4)
		if size > structIntBytesMax {
			f.c.Fail("integral size %d is larger than limit of %d", size, structIntBytesMax)
		}
		return size
	}
	return 0
}

// count reads a number in the format, or returns def if there is none.
func (f *structFormat) count(def uint64) uint64 {
	n := uint64(0)
	i := 0
	for ; i < len(f.rest) && libc.IsDigit(f.rest[i]); i++ {
		n = n*10 + uint64(f.rest[i]-'0')
		if n > math.MaxInt32 {
			f.c.Fail("integral size overflow")
		}
	}
	if i == 0 {
		return def
	}
	f.c.Charge(i)
	f.rest = f.rest[i:]
	return n
}

func (f *structFormat) padding(pos uint64, opt byte, size uint64) uint64 {
	if size == 0 || opt == 'c' {
		return 0
	}
	size = min(size, f.align)
	return (size - pos&(size-1)) & (size - 1)
}

// control applies an option that stands for no data.
func (f *structFormat) control(opt byte) {
	switch opt {
	case ' ':
	case '>':
		f.big = true
	case '<':
		f.big = false
	case '!':
		n := f.count(structAlign)
		if n == 0 || n&(n-1) != 0 {
			f.c.Fail("alignment %d is not a power of 2", n)
		}
		f.align = n
	default:
		f.c.Arg(1).Fail("invalid format option '" + string([]byte{opt}) + "'")
	}
}

func structPack(c lauxlib.Call) int {
	f := newFormat(c, c.Arg(1).Text())
	c.L.Push(lua.LNil) // as the original: a missing argument is nil, not "no value"
	out := &lauxlib.Buffer{C: c}
	arg := 2
	for {
		opt, size, pad, ok := f.next(uint64(len(out.Bytes)))
		if !ok {
			return out.Push()
		}
		for ; pad > 0; pad-- {
			out.AddByte(0)
		}
		switch opt {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			f.packInteger(out, c.Arg(arg).Number(), int(size))
			arg++
		case 'f':
			f.packBits(out, uint64(math.Float32bits(libc.Float32(c.Arg(arg).Number()))), 4)
			arg++
		case 'd':
			f.packBits(out, math.Float64bits(libc.OneNaN(c.Arg(arg).Number())), 8)
			arg++
		case 'c', 's':
			f.packString(out, arg, opt, size)
			arg++
		case 'x':
			out.AddByte(0)
		default:
			f.control(opt)
		}
	}
}

func (f *structFormat) packInteger(out *lauxlib.Buffer, n float64, size int) {
	bits := libc.Uint64(n)
	if n < 0 {
		bits = uint64(libc.Int64(n))
	}
	f.packBits(out, bits, size)
}

// packBits writes the low size bytes of bits, and zeros beyond 8 bytes.
func (f *structFormat) packBits(out *lauxlib.Buffer, bits uint64, size int) {
	var buf [structIntBytesMax]byte
	binary.LittleEndian.PutUint64(buf[:], bits)
	if f.big {
		slices.Reverse(buf[:size])
	}
	out.C.Need(lauxlib.BufferPrice * size)
	out.Bytes = append(out.Bytes, buf[:size]...)
}

func (f *structFormat) packString(out *lauxlib.Buffer, arg int, opt byte, size uint64) {
	s := f.c.Arg(arg).Text()
	if size == 0 {
		size = uint64(len(s))
	}
	if uint64(len(s)) < size {
		f.c.Arg(arg + 1).Fail("string too short") // one too far, as in the original
	}
	out.Add(s[:size])
	if opt == 's' {
		out.AddByte(0)
	}
}

// structReader is the state of unpack: its data, position and number of results.
type structReader struct {
	*structFormat
	data string
	pos  uint64
	n    int // results
}

func structUnpack(c lauxlib.Call) int {
	r := &structReader{structFormat: newFormat(c, c.Arg(1).Text()), data: c.Arg(2).Text()}
	args := c.L.GetTop()
	r.pos = uint64(c.Arg(3).OptInteger(1))
	if r.pos == 0 {
		c.Arg(3).Fail("offset must be 1 or greater")
	}
	r.pos--
	for {
		opt, size, pad, ok := r.next(r.pos)
		if !ok {
			break
		}
		r.pos += pad
		r.checkRoom(size)
		c.CheckStack(args+r.n, 2, "too many results")
		r.pos += r.read(opt, size)
	}
	c.L.Push(lua.LNumber(r.pos + 1))
	return r.n + 1
}

func (r *structReader) checkRoom(size uint64) {
	if have := uint64(len(r.data)); size > have || r.pos > have-size {
		r.c.Arg(2).Fail("data string too short")
	}
}

func (r *structReader) push(v lua.LValue) {
	r.c.L.Push(v)
	r.n++
}

// read reads one option's data and returns its length in bytes.
func (r *structReader) read(opt byte, size uint64) uint64 {
	switch opt {
	case 'b', 'h', 'l', 'i':
		r.push(lua.LNumber(signExtend(r.bits(size), size)))
	case 'B', 'H', 'L', 'T', 'I':
		r.push(lua.LNumber(r.bits(size)))
	case 'f':
		r.push(lua.LNumber(libc.OneNaN(float64(math.Float32frombits(uint32(r.bits(4)))))))
	case 'd':
		r.push(lua.LNumber(libc.OneNaN(math.Float64frombits(r.bits(8)))))
	case 'c':
		return r.readBytes(size)
	case 's':
		return r.readString()
	case 'x':
	default:
		r.control(opt)
	}
	return size
}

// bits reads an integer of size bytes; of a wider one the low 64 bits.
func (r *structReader) bits(size uint64) uint64 {
	bits := uint64(0)
	for i := range size {
		if !r.big {
			i = size - 1 - i
		}
		bits = bits<<8 | uint64(r.data[r.pos+i])
	}
	return bits
}

// signExtend returns bits as a signed integer of size bytes. Beyond 8 bytes the original shifts by more than the
// width of a word, which x86 takes modulo 64.
func signExtend(bits, size uint64) int64 {
	mask := ^uint64(0) << ((size*8 - 1) & 63)
	if bits&mask != 0 {
		bits |= mask
	}
	return int64(bits)
}

func (r *structReader) readBytes(size uint64) uint64 {
	if size == 0 {
		n, ok := 0.0, false
		if r.n > 0 {
			n, ok = r.c.AsNumber(r.c.L.Get(-1))
		}
		if !ok {
			r.c.Fail("format 'c0' needs a previous size")
		}
		r.c.L.Pop(1)
		r.n--
		size = libc.Uint64(n)
		r.checkRoom(size)
	}
	r.pushText(r.data[r.pos : r.pos+size])
	return size
}

func (r *structReader) readString() uint64 {
	end := strings.IndexByte(r.data[r.pos:], 0)
	if end < 0 {
		r.c.Touch(len(r.data))
		r.c.Fail("unfinished string in data")
	}
	r.pushText(r.data[r.pos : r.pos+uint64(end)])
	return uint64(end) + 1
}

// pushText pushes a copy, so that a short string does not keep the whole data in memory.
func (r *structReader) pushText(s string) {
	r.c.Need(len(s))
	r.push(lua.LString(strings.Clone(s)))
}

func structSize(c lauxlib.Call) int {
	f := newFormat(c, c.Arg(1).Text())
	pos := uint64(0)
	for {
		opt, size, pad, ok := f.next(pos)
		if !ok {
			c.L.Push(lua.LNumber(pos))
			return 1
		}
		switch {
		case opt == 's':
			c.Arg(1).Fail("option 's' has no fixed size")
		case opt == 'c' && size == 0:
			c.Arg(1).Fail("option 'c0' has no fixed size")
		case !libc.IsAlnum(opt): // unknown letters pass, as in the original
			f.control(opt)
		}
		pos += pad + size
	}
}
