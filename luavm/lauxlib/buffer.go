package lauxlib

import lua "github.com/yuin/gopher-lua"

// Buffer builds a string and pays for it before it grows.
type Buffer struct {
	C     Call
	Bytes []byte
}

// BufferPrice is the cost of a byte of a Buffer: growing copies, and so does making the string.
const BufferPrice = 2

// Add appends s.
func (w *Buffer) Add(s string) {
	w.C.Need(BufferPrice * len(s))
	w.Bytes = append(w.Bytes, s...)
}

// AddByte appends b.
func (w *Buffer) AddByte(b byte) {
	w.C.Need(BufferPrice)
	w.Bytes = append(w.Bytes, b)
}

// Push makes the bytes the function's result.
func (w *Buffer) Push() int {
	w.C.Need(len(w.Bytes)) // the string, while the bytes are still held
	w.C.L.Push(lua.LString(w.Bytes))
	return 1
}
