package value

import (
	"unsafe"

	"lockd/resp"
)

// Value is what a key holds: a string or an aggregate. The methods below are the only
// ones that look at the fields. The zero value is an empty string.
type Value struct {
	data unsafe.Pointer // of the bytes of a string, or to a held
	len  int            // of a string, or isAggregate
}

// isAggregate is the length that no string has.
const isAggregate = -1

// held is an aggregate as it was stored. Its inside may be changed in place before the
// next entry replaces it (see Aggregate.Own), so what it counted for is kept beside it.
type held struct {
	agg   Aggregate
	bytes int64 // its size when it was stored
}

// OfString is the value of a string, which it keeps: it must alias nothing that is large or changes.
func OfString(s string) Value {
	return Value{unsafe.Pointer(unsafe.StringData(s)), len(s)}
}

// OfAggregate is an aggregate that is complete: whoever changes it makes a new value
// of it.
func OfAggregate(agg Aggregate) Value {
	return Value{unsafe.Pointer(&held{agg, agg.Size()}), isAggregate}
}

// Str is the string; "" of an aggregate.
func (v Value) Str() string {
	if v.len == isAggregate {
		return ""
	}
	return unsafe.String((*byte)(v.data), v.len)
}

// Aggregate is the aggregate; nil of a string.
func (v Value) Aggregate() Aggregate {
	if v.len != isAggregate {
		return nil
	}
	return (*held)(v.data).agg
}

// Size estimates the memory the value takes in bytes, as it was stored.
func (v Value) Size() int64 {
	if v.len != isAggregate {
		return int64(v.len)
	}
	return (*held)(v.data).bytes
}

// Type is the value's type in the words of TYPE.
func (v Value) Type() string {
	if agg := v.Aggregate(); agg != nil {
		return agg.Kind().Name
	}
	return "string"
}

// Clone is a value that shares nothing that may change.
func (v Value) Clone() Value {
	if agg := v.Aggregate(); agg != nil {
		return OfAggregate(agg.Clone())
	}
	return v
}

// embstrBytesMax is the longest string that Redis stores beside its header.
const embstrBytesMax = 44

// Encoding tells what Redis would make of the value; strings have none here.
func (v Value) Encoding() string {
	if v.Aggregate() != nil {
		return v.Aggregate().Kind().Encodings[v.Aggregate().Form()]
	}
	if _, isInt := resp.ParseInt(v.Str()); isInt {
		return "int"
	}
	if len(v.Str()) <= embstrBytesMax {
		return "embstr"
	}
	return "raw"
}

// Write writes the value into an image.
func (v Value) Write(w *Writer) {
	agg := v.Aggregate()
	if agg == nil {
		w.Byte(KindString)
		w.Text(v.Str())
		return
	}
	w.Byte(agg.Kind().Image + byte(agg.Form()))
	w.U64(uint64(agg.Len()))
	agg.Write(w)
}

// ReadValue reads what Write has written behind the kind. A string lies in buf if it fits there, and
// must be copied before buf is used again. An aggregate is owned by generation.
func ReadValue(r *Reader, kind byte, buf []byte, generation uint64) Value {
	if kind == KindString {
		return OfString(r.TextIn(buf))
	}
	if agg := readAggregate(r, kind, generation); agg != nil {
		return OfAggregate(agg)
	}
	return Value{}
}

// Kinds has a row for each type of aggregate. A row's places in the image are its
// own for ever: a new one takes those after the last.
var Kinds = []*Kind{HashKind, ListKind, SetKind, ZsetKind, StreamKind, LockKind}

// KindOf finds the row and the form of a kind byte of an image; nil where it is
// no aggregate's.
func KindOf(b byte) (k *Kind, form int) {
	for _, k := range Kinds {
		if b >= k.Image && int(b-k.Image) < len(k.Encodings) {
			return k, int(b - k.Image)
		}
	}
	return nil, 0
}

// readAggregate reads an aggregate of a kind byte; nil only where it fails.
func readAggregate(r *Reader, b byte, generation uint64) Aggregate {
	k, form := KindOf(b)
	if k == nil {
		r.Newer("a key")
		return nil
	}
	n := r.U64()
	if n == 0 && !k.KeepsEmpty {
		r.Fail("an empty " + k.Name)
	}
	return k.read(r, n, form, generation)
}

// Kinds in an image, beside those of aggregates, which are in Kinds. A new mark of a key takes the place below the last.
const (
	KindString = 0
	KindTagged = 255 // none of a value: a tag, and the kind, follow
	KindLock   = 254 // likewise: what is known of a lock follows, and a tag or the kind
	KindMaybe  = 253 // likewise: a tag or the kind follows, of what becomes a lock by its first lease
)
