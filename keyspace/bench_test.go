package keyspace

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"testing"

	"lockd/keyspace/library"
	"lockd/keyspace/value"
	"lockd/resp"
)

// filled is a machine with n locks, none of which ends during the benchmark.
func filled(b *testing.B, n int) *Machine {
	m := New(unlockScripts{})
	for i := range n {
		m.Apply(resp.Stamp{Tick: 1, Index: uint64(i)}, []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{"SET", "lock" + strconv.Itoa(i), "token", "PX", "1000000000"}}}}})
	}
	b.ReportAllocs()
	b.ResetTimer()
	return m
}

// unlockScripts runs the script that everybody frees a lock with, without Lua.
type unlockScripts struct{ fakeScripts }

func (unlockScripts) Compile(resp.Script) error { return nil }

func (unlockScripts) Run(_ resp.Script, keys, argv []string, lim resp.ScriptLimits, call resp.ScriptCall) (resp.Reply, resp.ScriptLimits, bool) {
	reply, _ := call(resp.Args{"get", keys[0]}, lim.Steps)
	if reply.Str != argv[0] {
		return resp.Int(0), lim, false
	}
	reply, _ = call(resp.Args{"del", keys[0]}, lim.Steps)
	return reply, lim, false
}

// Lock and unlock one of n keys, each in an entry of its own.
func BenchmarkLockUnlock(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run("keys="+strconv.Itoa(n), func(b *testing.B) {
			m := filled(b, n)
			lock := []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{"SET", "the-lock", "token", "NX", "PX", "30000"}}}}}
			free := []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{"DEL", "the-lock"}}}}}
			for i := range b.N {
				m.Apply(resp.Stamp{Tick: int64(i), Index: uint64(i)}, lock)
				m.Apply(resp.Stamp{Tick: int64(i), Index: uint64(i)}, free)
			}
		})
	}
}

// Write one of n keys, and lock and unlock one besides n, drawn anew each time: what is read of the tree is in no cache.
func BenchmarkAmong(b *testing.B) {
	for name, lines := range map[string][]string{
		"write": {"SET lock%d token PX 1000000000"},
		"lock":  {"SET other%d token NX PX 30000", "DEL other%d"},
	} {
		for _, n := range []int{1000, 100_000, 1_000_000} {
			b.Run(name+"/keys="+strconv.Itoa(n), func(b *testing.B) {
				m, rng := filled(b, n), rand.New(rand.NewPCG(1, 2))
				at := resp.Stamp{Tick: 1, Index: uint64(n)}
				for b.Loop() {
					i := rng.IntN(n)
					for _, line := range lines {
						at.Index++
						m.Apply(at, []resp.Request{request(0, fmt.Sprintf(line, i))})
					}
				}
			})
		}
	}
}

// An entry that has nothing to do with locks, and those of a client that takes one by LOCK and frees it.
func BenchmarkApply(b *testing.B) {
	for _, lines := range [][]string{{"SET key value"}, {"LOCK the-lock token PX 30000", "UNLOCK the-lock token"}} {
		b.Run(split(lines[0])[0], func(b *testing.B) {
			m := filled(b, 1000)
			at := resp.Stamp{Tick: 1, Index: 1000}
			reqs := make([][]resp.Request, len(lines))
			for i, line := range lines {
				req := request(0, line)
				req.Sender = clientOf(7)
				reqs[i] = []resp.Request{req}
			}
			for b.Loop() {
				for _, r := range reqs {
					at.Index++
					m.Apply(at, r)
				}
			}
		})
	}
}

// Renew one of n locks.
func BenchmarkRenew(b *testing.B) {
	m := filled(b, 1_000_000)
	reqs := []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{"PEXPIRE", "lock500000", "1000000000"}}}}}
	for i := range b.N {
		m.Apply(resp.Stamp{Tick: int64(i), Index: uint64(i)}, reqs)
	}
}

func BenchmarkGet(b *testing.B) {
	m := filled(b, 1_000_000)
	req := resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"GET", "lock500000"}}}}
	for range b.N {
		m.View(resp.Stamp{}, req)
	}
}

// The script that compares and deletes, by its SHA1 and by its source.
func BenchmarkUnlockScript(b *testing.B) {
	source := `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`
	for command, script := range map[string]string{"EVALSHA": library.SHA(source), "EVAL": source} {
		b.Run(command, func(b *testing.B) {
			m := filled(b, 1000)
			if r, _ := apply(m, resp.Stamp{}, "SCRIPT LOAD '"+source+"'"); len(r.Str) != 40 {
				b.Fatal(r.Str)
			}
			reqs := []resp.Request{{Cmds: []resp.Cmd{
				{Args: resp.Args{"SET", "the-lock", "token", "NX", "PX", "30000"}},
				{Args: resp.Args{command, script, "1", "the-lock", "token"}},
			}}}
			for i := range b.N {
				m.Apply(resp.Stamp{Tick: int64(i), Index: uint64(i)}, reqs)
			}
		})
	}
}

// To mark a snapshot costs the same for a thousand keys and for a million.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run("keys="+strconv.Itoa(n), func(b *testing.B) {
			m := filled(b, n)
			for range b.N {
				m.Snapshot()
			}
		})
	}
}

func BenchmarkImage(b *testing.B) {
	m := filled(b, 100_000)
	for range b.N {
		if err := m.Snapshot()(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestore(b *testing.B) {
	m := filled(b, 100_000)
	var img bytes.Buffer
	if err := m.Snapshot()(&img); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		if err := m.Restore(bytes.NewReader(img.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// Push to a queue and pop from it, and reach into its middle, each in an entry of its
// own; with scripts, each entry begins a generation.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{10, 1_000_000} {
		for _, c := range []struct {
			name string
			cmds []resp.Cmd
		}{
			{"push-pop", []resp.Cmd{{Args: resp.Args{"LPUSH", "queue", "element"}}, {Args: resp.Args{"RPOP", "queue"}}}},
			{"middle", []resp.Cmd{{Args: resp.Args{"LSET", "queue", strconv.Itoa(n / 2), "other"}}, {Args: resp.Args{"LINDEX", "queue", strconv.Itoa(n / 2)}}}},
		} {
			for _, generations := range []bool{false, true} {
				b.Run(c.name+"/len="+strconv.Itoa(n)+"/generations="+strconv.FormatBool(generations), func(b *testing.B) {
					m := New(nil)
					fill(m, "queue", n, 8)
					b.ReportAllocs()
					b.ResetTimer()
					for i := range b.N {
						if generations {
							m.state.Keys.Generation++
						}
						m.Apply(resp.Stamp{Tick: 1, Index: uint64(i)}, []resp.Request{{Cmds: c.cmds}})
					}
				})
			}
		}
	}
}

// What is asked of a sorted set of n members: a rank, and a few members from the
// middle.
func BenchmarkRank(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		m := New(nil)
		z := value.NewZset(m.state.Keys.Generation)
		z.Limit(m.state.Settings.Zsets)
		for i := range n {
			z.Add(value.Scored{Score: float64(i * 7919 % n), Member: "member" + strconv.Itoa(i)})
		}
		keep(m, "z", z)
		for name, args := range map[string]resp.Args{
			"rank":  {"ZRANK", "z", "member" + strconv.Itoa(n/3)},
			"score": {"ZRANGEBYSCORE", "z", strconv.Itoa(n / 3), "+inf", "LIMIT", "0", "3"},
		} {
			b.Run(name+"/members="+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					m.View(resp.Stamp{}, resp.Request{Cmds: []resp.Cmd{{Args: args}}})
				}
			})
		}
	}
}
