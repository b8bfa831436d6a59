package keyspace

import (
	"unsafe"

	"lockd/resp"
)

// value is what a key holds: a string or an aggregate. The methods below are the only
// ones that look at the fields. The zero value is an empty string.
type value struct {
	data unsafe.Pointer // of the bytes of a string, or to a held
	len  int            // of a string, or isAggregate
}

// isAggregate is the length that no string has.
const isAggregate = -1

// held is an aggregate as it was stored. Its inside may be changed in place before the
// next entry replaces it (see editAs), so what it counted for is kept beside it.
type held struct {
	agg   aggregate
	bytes int64 // its size when it was stored
}

// freshValue is a string that a command has made itself, which aliases nothing.
func freshValue(s string) value {
	return value{unsafe.Pointer(unsafe.StringData(s)), len(s)}
}

// aggregateValue is an aggregate that is complete: whoever changes it makes a new value
// of it.
func aggregateValue(agg aggregate) value {
	return value{unsafe.Pointer(&held{agg, agg.size()}), isAggregate}
}

// str is the string; "" of an aggregate.
func (v value) str() string {
	if v.len == isAggregate {
		return ""
	}
	return unsafe.String((*byte)(v.data), v.len)
}

// agg is the aggregate; nil of a string.
func (v value) agg() aggregate {
	if v.len != isAggregate {
		return nil
	}
	return (*held)(v.data).agg
}

// size estimates the memory the value takes, as it was stored.
func (v value) size() int64 {
	if v.len != isAggregate {
		return int64(v.len)
	}
	return (*held)(v.data).bytes
}

// kind is the value's type in the words of TYPE.
func (v value) kind() string {
	if agg := v.agg(); agg != nil {
		return agg.kind().name
	}
	return "string"
}

// clone is a value that shares nothing that may change.
func (v value) clone() value {
	if agg := v.agg(); agg != nil {
		return aggregateValue(agg.clone())
	}
	return v
}

// embstrBytesMax is the longest string that Redis stores beside its header.
const embstrBytesMax = 44

// encoding tells what Redis would make of the value; strings have none here.
func (v value) encoding() string {
	if v.agg() != nil {
		return v.agg().kind().encodings[v.agg().form()]
	}
	if _, isInt := resp.ParseInt(v.str()); isInt {
		return "int"
	}
	if len(v.str()) <= embstrBytesMax {
		return "embstr"
	}
	return "raw"
}

// write writes the value into an image.
func (v value) write(w *imageWriter) {
	agg := v.agg()
	if agg == nil {
		w.byte(kindString)
		w.text(v.str())
		return
	}
	w.byte(agg.kind().image + byte(agg.form()))
	w.u64(uint64(agg.len()))
	agg.write(w)
}

// readValue reads what write has written. A string lies in buf if it fits there, and must be copied
// before buf is used again. An aggregate is owned by generation.
func readValue(r *imageReader, buf []byte, generation uint64) value {
	kind := r.byte()
	if kind == kindString {
		return freshValue(r.textIn(buf))
	}
	if agg := readAggregate(r, kind, generation); agg != nil {
		return aggregateValue(agg)
	}
	return value{}
}
