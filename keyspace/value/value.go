package value

import (
	"unsafe"

	"lockd/resp"
)

// Value is the value of a key: a string or an aggregate. Only its methods look at the fields. The zero Value is an
// empty string.
type Value struct {
	data unsafe.Pointer // of the bytes of a string, or to a held
	len  int            // of a string, or isAggregate
}

// isAggregate is the length that no string has.
const isAggregate = -1

// held is an aggregate as it was stored. Its inside may be changed in place before the next entry replaces it (see
// Aggregate.Own), so its size when it was stored is kept beside it.
type held struct {
	agg   Aggregate
	bytes int64 // its size when it was stored
}

// OfString returns the value of a string. It keeps the string, which must not alias anything large or changing.
func OfString(s string) Value {
	return Value{unsafe.Pointer(unsafe.StringData(s)), len(s)}
}

// OfAggregate returns the value of an aggregate. A changed aggregate needs a new value.
func OfAggregate(agg Aggregate) Value {
	return Value{unsafe.Pointer(&held{agg, agg.Size()}), isAggregate}
}

// Str returns the string; "" of an aggregate.
func (v Value) Str() string {
	if v.len == isAggregate {
		return ""
	}
	return unsafe.String((*byte)(v.data), v.len)
}

// Aggregate returns the aggregate; nil of a string.
func (v Value) Aggregate() Aggregate {
	if v.len != isAggregate {
		return nil
	}
	return (*held)(v.data).agg
}

// Size estimates the memory of the value in bytes, as it was stored.
func (v Value) Size() int64 {
	if v.len != isAggregate {
		return int64(v.len)
	}
	return (*held)(v.data).bytes
}

// Type returns the value's type in the words of TYPE.
func (v Value) Type() string {
	if agg := v.Aggregate(); agg != nil {
		return agg.Kind().Name
	}
	return "string"
}

// Clone returns a copy that shares nothing that may change.
func (v Value) Clone() Value {
	if agg := v.Aggregate(); agg != nil {
		return OfAggregate(agg.Clone())
	}
	return v
}

// embstrBytesMax is the longest string that Redis stores beside its header.
const embstrBytesMax = 44

// Encoding returns the name that OBJECT ENCODING has for the value.
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

// ReadValue reads what Write has written behind the kind. A string lies in buf if it fits, and must be copied before
// buf is used again. generation owns an aggregate.
func ReadValue(r *Reader, kind byte, buf []byte, generation uint64) Value {
	if kind == KindString {
		return OfString(r.TextIn(buf))
	}
	if agg := readAggregate(r, kind, generation); agg != nil {
		return OfAggregate(agg)
	}
	return Value{}
}

// Kinds has a row for each type of aggregate. The kind bytes of a row in images never change; a new row takes those
// after the last.
var Kinds = []*Kind{HashKind, ListKind, SetKind, ZsetKind, StreamKind, LockKind}

// KindOf returns the row and the form of a kind byte of an image; nil if it is not that of an aggregate.
func KindOf(b byte) (k *Kind, form int) {
	for _, k := range Kinds {
		if b >= k.Image && int(b-k.Image) < len(k.Encodings) {
			return k, int(b - k.Image)
		}
	}
	return nil, 0
}

// readAggregate reads an aggregate of a kind byte; nil only if that fails.
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

// Kinds in an image, beside those of aggregates, which are in Kinds. A new mark of a key takes the place below the
// last.
const (
	KindString = 0
	KindTagged = 255 // none of a value: a tag, and the kind, follow
	KindLock   = 254 // the facts of a lock follow, then a tag or the kind
	KindMaybe  = 253 // the key becomes a lock by its first lease; a tag or the kind follows
)
