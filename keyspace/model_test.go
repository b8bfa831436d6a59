package keyspace

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"lockd/resp"
)

// model is a keyspace of strings as simple as it can be: what FuzzApply compares
// the machine with.
type model struct {
	now   int64
	keys  map[string]modelKey
	fence int64
}

type modelKey struct {
	val   string
	until int64 // 0: no lease
	fence int64
}

func (m *model) get(key string) (modelKey, bool) {
	k, ok := m.keys[key]
	if ok && k.until != 0 && m.now > k.until {
		delete(m.keys, key)
		return modelKey{}, false
	}
	return k, ok
}

func (m *model) put(key, val string, until int64) {
	k, ok := m.get(key)
	if !ok || k.val != val {
		m.fence++
		k.fence = m.fence
	}
	m.keys[key] = modelKey{val, until, k.fence}
}

func (m *model) del(key string) string {
	_, ok := m.get(key)
	delete(m.keys, key)
	return boolWord(ok)
}

func boolWord(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// do runs one operation on one key with a small number, and returns the command it
// is in lockd, and its answer.
func (m *model) do(op byte, key string, n int64) (cmd, want string) {
	k, there := m.get(key)
	ms := strconv.FormatInt(n, 10)
	switch op % 12 {
	case 0:
		m.put(key, ms, 0)
		return "SET " + key + " " + ms, "OK"
	case 1:
		if there {
			want = "(nil)"
		} else {
			m.put(key, "held", m.now+n+1)
			want = "OK"
		}
		return fmt.Sprintf("SET %s held NX PX %d", key, n+1), want
	case 2:
		if there {
			m.put(key, "held", k.until)
			return "SET " + key + " held XX KEEPTTL", "OK"
		}
		return "SET " + key + " held XX KEEPTTL", "(nil)"
	case 3:
		if there {
			return "GET " + key, k.val
		}
		return "GET " + key, "(nil)"
	case 4:
		return "DEL " + key, m.del(key)
	case 5:
		return "PEXPIRE " + key + " " + ms, m.pexpire(key, n)
	case 6:
		if there && k.until != 0 {
			m.put(key, k.val, 0)
			return "PERSIST " + key, "1"
		}
		return "PERSIST " + key, "0"
	case 7:
		return "PTTL " + key, m.pttl(key)
	case 8:
		if there {
			return "FENCE " + key, strconv.FormatInt(k.fence, 10)
		}
		return "FENCE " + key, "(nil)"
	case 9:
		m.put(key, k.val+ms, k.until)
		return "APPEND " + key + " " + ms, strconv.Itoa(len(k.val) + len(ms))
	case 10:
		m.now += n
		return "EXISTS " + key, boolWord(func() bool { _, ok := m.get(key); return ok }())
	}
	return "INCR " + key, m.incr(key)
}

func (m *model) pexpire(key string, n int64) string {
	k, there := m.get(key)
	switch {
	case !there:
		return "0"
	case n == 0:
		m.del(key)
	default:
		m.put(key, k.val, m.now+n)
	}
	return "1"
}

func (m *model) pttl(key string) string {
	k, there := m.get(key)
	switch {
	case !there:
		return "-2"
	case k.until == 0:
		return "-1"
	}
	return strconv.FormatInt(k.until-m.now, 10)
}

func (m *model) incr(key string) string {
	k, there := m.get(key)
	n, ok := int64(0), true
	if there {
		n, ok = resp.ParseInt(k.val)
	}
	if !ok || n == math.MaxInt64 {
		return "error"
	}
	m.put(key, decimal(n+1), k.until)
	return decimal(n + 1)
}

// Random commands on strings and leases give the answers of a model that is a Go
// map, also through images. Every three bytes are an operation, a key, a number.
func FuzzApply(f *testing.F) {
	f.Add([]byte("\x01a\x05\x01a\x05\x07a\x00\x0aa\x06\x01a\x05\x08a\x00"))
	f.Add([]byte("\x00a\x05\x0ba\x00\x09a\x01\x05a\x03\x06a\x00\x04a\x00\x08a\x00"))
	f.Fuzz(func(t *testing.T, program []byte) {
		machine, m := New(nil), &model{now: 1000, keys: map[string]modelKey{}}
		for i := 0; i+2 < len(program); i += 3 {
			op, key, n := program[i], "k"+strconv.Itoa(int(program[i+1]%4)), int64(program[i+2]%16)
			cmd, want := m.do(op, key, n)
			if op >= 250 {
				machine = restored(t, image(t, machine))
			}
			r, _ := apply(machine, resp.Stamp{Tick: m.now, Wall: 1}, cmd)
			got := plain(r)
			if r.IsErr() {
				got = "error"
			}
			if got != want {
				t.Fatalf("step %d, tick %d, %s: %q, want %q", i/3, m.now, cmd, got, want)
			}
		}
		checkDerived(t, machine)
	})
}
