package keyspace

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"lockd/keyspace/lifecycle"
	"lockd/keyspace/store"
	"lockd/resp"
)

// tokenOf is a token as Redisson makes them.
func tokenOf(n int) string { return fmt.Sprintf("%08x-4b6d-4e7f-9a3b-0c1d2e3f4a5b:%d", n, n) }

// redissonPlay plays programs with locks that are hashes, and writes down who should hold them.
type redissonPlay struct {
	*lockTeller
	counts map[string]map[string]int // by key and token
}

func (p *redissonPlay) loseAll(key, event string) {
	for n := range 5 {
		if token := tokenOf(n); p.counts[key][token] > 0 {
			p.tell(key, event, token[:8]+"...")
		}
	}
	delete(p.counts, key)
}

// step lets time pass, plays one command, and writes down what it should do. Holders are lost in the order
// of their tokens, as nobody else can tell.
func (p *redissonPlay) step(rng *rand.Rand) (line string) {
	p.at.Tick += rng.Int64N(60)
	p.at.Wall = p.at.Tick * 1000
	p.at.Index++
	for key := range p.counts {
		if p.at.Tick > p.ends[key] {
			p.loseAll(key, "expired")
		}
	}
	key, n, ms := fmt.Sprint("k", rng.IntN(3)), rng.IntN(5), 1+rng.Int64N(300)
	token, held := tokenOf(n), p.counts[key]
	switch rng.IntN(9) {
	case 0, 1, 2: // taken, taken again, or one more reader
		if line = fmt.Sprintf("EVAL 'HINCRBY %s %s 1\nPEXPIRE %s %d' 0", key, token, key, ms); held == nil {
			held = map[string]int{}
			p.counts[key] = held
		}
		if held[token]++; held[token] == 1 {
			p.tell(key, "granted", token[:8]+"...")
		}
		p.ends[key] = p.at.Tick + ms
	case 3: // one leaves
		if line = fmt.Sprintf("EVAL 'HDEL %s %s' 0", key, token); held[token] > 0 {
			p.tell(key, "released", token[:8]+"...")
			if delete(held, token); len(held) == 0 {
				delete(p.counts, key)
			}
		}
	case 4:
		line = fmt.Sprintf("EVAL 'HINCRBY %s %s -1\nDEL %s\nHINCRBY %s %s 1\nPEXPIRE %s 9\nlimit' 0", key, token, key, key, token, key) // it is taken back
	case 5:
		line = "EVAL 'DEL " + key + "' 0"
		p.loseAll(key, "released")
	case 6:
		line = "DEL " + key
		p.loseAll(key, "deleted")
	case 7:
		line = "LOCKS FORCE " + key + " REASON why"
		p.loseAll(key, "forced")
	case 8:
		if line = fmt.Sprintf("LOCKS FORCE %s TOKEN %s REASON why", key, token); held[token] > 0 {
			p.tell(key, "forced", token[:8]+"...")
			if delete(held, token); len(held) == 0 {
				delete(p.counts, key)
			}
		}
	}
	return line
}

// What is known of locks that are hashes agrees with what programs did, also behind images.
func TestHashLocksAreKnown(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 13))
		p := &redissonPlay{newLockTeller(), map[string]map[string]int{}}
		for step := range 500 {
			line := p.step(rng)
			results, msgs := p.Apply(p.at, []resp.Request{request(0, line)})
			if r := results[0].Replies[0]; r.IsErr() && !strings.Contains(line, "limit") {
				t.Fatalf("%s: %s", line, r.Str)
			}
			p.hear(t, msgs)
			for i := range 3 {
				key := fmt.Sprint("k", i)
				if got := inOrder(p.news[key]); !reflect.DeepEqual(got, inOrder(p.told[key])) {
					t.Fatalf("seed %d step %d: after %s: %s is told\n%v, want\n%v", seed, step, line, key, p.news[key], p.told[key])
				}
				p.compareHolders(t, key, line)
			}
			if rng.IntN(30) == 0 {
				p.Machine = restored(t, image(t, p.Machine))
				checkDerived(t, p.Machine)
			}
		}
	}
}

// inOrder has events of the same kind that follow each other in the order of their tokens.
func inOrder(events []toldEvent) []toldEvent {
	sorted := append([]toldEvent(nil), events...)
	for i := range sorted {
		for j := i; j > 0 && sorted[j].event == sorted[j-1].event && sorted[j].event != "granted" && sorted[j].token < sorted[j-1].token; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	return sorted
}

func (p *redissonPlay) compareHolders(t *testing.T, key, line string) {
	t.Helper()
	info := view(p.Machine, p.at, 0, "LOCKS INFO "+key)
	holders := field(info, "holders").Elems
	if len(holders) != len(p.counts[key]) {
		t.Fatalf("after %s: %s has %d holders, want %v", line, key, len(holders), p.counts[key])
	}
	for _, h := range holders {
		if left := field(h, "lease-left-ms").Int; left != p.ends[key]-p.at.Tick {
			t.Fatalf("after %s: %s has %d ms left, want %d", line, key, left, p.ends[key]-p.at.Tick)
		}
	}
}

// So many holders are noted, and a hash that grows to something else keeps the cost of its changes.
func TestHashLockIsBounded(t *testing.T) {
	m := New(fakeScripts{})
	at := resp.Stamp{}
	mustApply(t, m, at, 0, fmt.Sprintf("EVAL 'HINCRBY k %s 1\nPEXPIRE k 9000' 0", tokenOf(0)))
	for i := 1; i < 300; i++ {
		mustApply(t, m, at, 0, fmt.Sprintf("EVAL 'HINCRBY k %s 1' 0", tokenOf(i)))
	}
	e, _ := m.state.Keys.DBs[0].Keys.Get("k")
	l := e.HashLock()
	if len(l.Holders) != store.HashHoldersMax || m.state.Events.Count() != store.HashHoldersMax {
		t.Fatalf("%d holders, %d events", len(l.Holders), m.state.Events.Count())
	}
	if size := unsafe.Sizeof(store.HashHolder{}); size > store.HashHolderBytes {
		t.Errorf("a holder takes %d bytes, and counts for %d", size, store.HashHolderBytes)
	}
	before := e.Size()
	mustApply(t, m, at, 0, fmt.Sprintf("EVAL 'HDEL k %s\nHDEL k %s' 0", tokenOf(0), tokenOf(299)))
	next, _ := m.state.Keys.DBs[0].Keys.Get("k")
	if n := len(next.HashLock().Holders); n != store.HashHoldersMax-1 {
		t.Errorf("%d holders", n)
	}
	if got, want := before-next.Size(), int64(2*48+len(tokenOf(0)+"1"+tokenOf(299)+"1")+store.HashHolderBytes); got != want {
		t.Errorf("%d bytes less, want %d", got, want)
	}
	restored(t, image(t, m))
}

// An image with a holder who is none of the hash is refused.
func TestDamagedHashLockIsRefused(t *testing.T) {
	m := New(fakeScripts{})
	mustApply(t, m, resp.Stamp{}, 0, fmt.Sprintf("EVAL 'HINCRBY k %s 1\nPEXPIRE k 9000' 0", tokenOf(0)))
	e, _ := m.state.Keys.DBs[0].Keys.Get("k")
	l := e.HashLock()
	good := l.Holders
	for _, bad := range [][]store.HashHolder{{{Token: tokenOf(1)}}, {good[0], good[0]}} {
		l.Holders = bad
		if err := New(fakeScripts{}).Restore(strings.NewReader(string(image(t, m)))); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

func TestNamesHolder(t *testing.T) {
	for name, want := range map[string]bool{
		tokenOf(1): true, tokenOf(1) + ":write": true, "8a2f0c1e-4b6d-4e7f-9a3b-0c1d2e3f4a5b": true, "8A2F0C1E4B6D4E7F9A3B0C1D2E3F4A5B-7": true,
		"": false, "mode": false, "8a2f0c1e-4b6d-4e7f-9a3b-0c1d2e3f4a5": false, "8a2f-0c1e4b6d-4e7f-9a3b-0c1d2e3f4a5b": false,
		"ga2f0c1e-4b6d-4e7f-9a3b-0c1d2e3f4a5b": false, tokenOf(1) + strings.Repeat("x", lifecycle.TokenBytesMax): false,
	} {
		if got := lifecycle.NamesHolder(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// BenchmarkHashLock is the work of a lock that scripts keep in a hash, and of the same where no key is a lock.
func BenchmarkHashLock(b *testing.B) {
	for _, pattern := range []string{"*", "none"} {
		b.Run("lock-pattern="+pattern, func(b *testing.B) {
			m := newMachine()
			mustApply(b, m, resp.Stamp{}, 0, "CONFIG SET lock-pattern "+pattern)
			client := resp.Client{ID: 7, Name: "web", Addr: "10.0.0.1:5000", Node: "n1"}.Sender()
			take := redissonCall(`if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
				redis.call('hincrby', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return nil end
				return redis.call('pttl', KEYS[1])`, client)
			free := redissonCall(`if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
				if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then redis.call('pexpire', KEYS[1], ARGV[2]) return 0 end
				redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1`, client)
			at := resp.Stamp{}
			b.ReportAllocs()
			for b.Loop() {
				at.Index += 2
				m.Apply(at, []resp.Request{take})
				m.Apply(at, []resp.Request{free})
			}
		})
	}
}

func redissonCall(script string, client resp.Sender) resp.Request {
	args := resp.Args{"EVAL", script, "2", "order:42", "redisson_lock__channel:{order:42}", tokenOf(41), "30000"}
	return resp.Request{Cmds: []resp.Cmd{{Args: args}}, Sender: client}
}
