package keyspace

import "lockd/resp"

// bitRows see a string as a row of bits, the first being the highest of its first byte.
var bitRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "setbit", Arity: 4, Flags: resp.Write | resp.DenyOOM, Keys: resp.FirstKey,
		Group: "bitmap", Since: "2.2.0", Summary: "Sets or clears the bit at offset in the string value stored at key",
		Syntax: "key offset value",
	}, Run: cmdSetBit},
	{Spec: resp.Spec{
		Name: "getbit", Arity: 3, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "bitmap", Since: "2.2.0", Summary: "Returns the bit value at offset in the string value stored at key",
		Syntax: "key offset",
	}, Run: cmdGetBit},
}

// The error texts that only these commands use.
const (
	errBitOffset = "ERR bit offset is not an integer or out of range"
	errBit       = "ERR bit is not an integer or out of range"
)

// The bits that there are: SETBIT makes no string that SETRANGE would not make, GETBIT
// may look as far as in Redis.
const (
	setBitsMax = stringBytesMax * 8
	getBitsMax = 1 << 32
)

// bitOffset reads the place of a bit, below limit.
func bitOffset(word string, limit int64) (n int64, ok bool) {
	n, ok = resp.ParseInt(word)
	return n, ok && n >= 0 && n < limit
}

// bitAt is a bit of s, which zeros follow for ever, and its byte.
func bitAt(s string, offset int64) (bit, inByte byte) {
	if at := offset / 8; at < int64(len(s)) {
		inByte = s[at]
	}
	return inByte >> (7 - offset%8) & 1, inByte
}

func cmdSetBit(c *ctx, args resp.Args) resp.Reply {
	offset, ok := bitOffset(args[2], setBitsMax)
	if !ok {
		return resp.Err(errBitOffset)
	}
	fresh, ok := resp.ParseInt(args[3])
	if !ok || fresh&^1 != 0 {
		return resp.Err(errBit)
	}
	e, fail, ok := c.lookupString(args[1])
	if !ok {
		return fail
	}
	var old string
	if e != nil {
		old = e.str()
	}
	bit, inByte := bitAt(old, offset)
	if offset/8 >= int64(len(old)) || int64(bit) != fresh {
		mask := byte(1) << (7 - offset%8)
		inByte = inByte&^mask | byte(fresh)*mask
		c.rewrite(args[1], overlay(old, int(offset/8), string([]byte{inByte})), "setbit")
	}
	return resp.Int(int64(bit))
}

func cmdGetBit(c *ctx, args resp.Args) resp.Reply {
	offset, ok := bitOffset(args[2], getBitsMax)
	if !ok {
		return resp.Err(errBitOffset)
	}
	e, fail, ok := c.lookupString(args[1])
	if !ok || e == nil {
		return orZero(fail, ok)
	}
	bit, _ := bitAt(e.str(), offset)
	return resp.Int(int64(bit))
}
