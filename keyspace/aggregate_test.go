package keyspace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lockd/keyspace/lock"
	"lockd/keyspace/value"
)

// forms has a row for each form of each kind of aggregate: what the tests of this
// file need to prove of a new type what is promised of all. {} is the key.
var forms = []struct {
	kind, encoding string
	make           []string // makes it
	change         string   // changes it, so that it stays what it is
	empty          string   // takes out all that make has put in
	show           string   // answers all that it holds
}{
	{
		"hash", "listpack", []string{"HSET {} a 1 b 2"}, "HSET {} a 3", "HDEL {} a b", "HGETALL {}",
	},
	{
		"hash", "hashtable", []string{"HSET {} a 1 b " + strings.Repeat("v", 100)}, "HSET {} a 3", "HDEL {} a b", "HGETALL {}",
	},
	{
		"list", "listpack", []string{"RPUSH {} a b c"}, "RPUSH {} d", "LPOP {} 100", "LRANGE {} 0 -1",
	},
	{
		"list", "quicklist", []string{"RPUSH {} a " + strings.Repeat("v ", 3000)}, "LPUSH {} d", "RPOP {} 10000", "LRANGE {} 0 -1",
	},
	{
		"set", "intset", []string{"SADD {} 1 3"}, "SADD {} 2", "SREM {} 1 2 3", "SMEMBERS {}",
	},
	{
		"set", "listpack", []string{"SADD {} b", "SADD {} a 1"}, "SADD {} 2", "SREM {} a b 1 2", "SMEMBERS {}",
	},
	{
		"set", "hashtable", []string{"SADD {} a 1 " + strings.Repeat("v", 100)}, "SREM {} a", "SREM {} 1 " + strings.Repeat("v", 100), "SMEMBERS {}",
	},
	{
		"zset", "listpack", []string{"ZADD {} 2 a 1 b -0.5 ''"}, "ZADD {} 3 b", "ZREM {} a b ''", "ZRANGE {} 0 -1 WITHSCORES",
	},
	{
		"zset", "skiplist", []string{"ZADD {} 2 a 1 b 0 " + strings.Repeat("v", 100)}, "ZADD {} 3 b", "ZREMRANGEBYRANK {} 0 -1",
		"ZRANGE {} 0 -1 WITHSCORES",
	},
	{
		"stream", "stream", []string{"XADD {} 1 a 1", "XADD {} 1-5 b 2 c 3", "XADD {} 2 d 4", "XDEL {} 1"}, "XADD {} MAXLEN 2 2-* e 5", "XTRIM {} MAXLEN 0", "XINFO STREAM {} FULL",
	},
	{
		"lock", "shared", []string{"LOCK {} a PX 900000 SHARED OWNER me NOTE mine"}, "LOCK {} b PX 1000 SHARED", "DEL {}", "MEMORY USAGE {}",
	},
	{
		"lock", "limit", []string{"LOCK {} a PX 900000 LIMIT 3", "LOCK {} c PX 900000 LIMIT 3"}, "LOCK {} b PX 1000 LIMIT 3 NOTE mine", "DEL {}", "MEMORY USAGE {}",
	},
}

// keptOf lists the strings that an aggregate holds on to, for the test that none of
// them lies in the memory of an entry of the log.
var keptOf = map[*value.Kind]func(a value.Aggregate) []string{
	value.HashKind: func(a value.Aggregate) (kept []string) {
		a.(*value.Hash).Each(func(name, val string) bool {
			kept = append(kept, name, val)
			return true
		})
		return kept
	},
	value.ListKind: func(a value.Aggregate) (kept []string) {
		a.(*value.List).Ascend(0, func(s string) bool {
			kept = append(kept, s)
			return true
		})
		return kept
	},
	value.SetKind: func(a value.Aggregate) []string { return a.(*value.Set).Members() },
	value.ZsetKind: func(a value.Aggregate) (kept []string) {
		z := a.(*value.Zset)
		for _, m := range z.Members(0, z.Len()) {
			kept = append(kept, m.Member)
		}
		z.Scan(0, z.Len(), func(member string, _ float64) { kept = append(kept, member) }) // by name
		return kept
	},
	value.LockKind: func(a value.Aggregate) (kept []string) {
		a.(*value.Lock).Holders().Each(func(h *lock.Holder) bool {
			kept = append(kept, h.Token, h.Owner, h.Note)
			return true
		})
		return kept
	},
	value.StreamKind: func(a value.Aggregate) (kept []string) {
		a.(*value.Stream).Visit(value.MinStreamID, value.MaxStreamID, false, func(it value.Item) bool {
			kept = append(kept, it.Fields...)
			return true
		})
		return kept
	},
}

// kindWrites draw, for each kind, a command that may change one of it; key is one
// that may hold anything.
var kindWrites = []func(rng *rand.Rand, key string) string{randomListWrite, randomSetWrite, randomZsetWrite, randomStreamWrite, randomLockWrite}

// onKey fills in the key.
func onKey(line, key string) string { return strings.ReplaceAll(line, "{}", key) }

// Every form has its row above, its own place in the image, and no two the same.
func TestKindsAreComplete(t *testing.T) {
	rows, names, places := map[string]bool{}, map[string]bool{"string": true}, map[byte]string{value.KindString: "string"}
	for _, f := range forms {
		rows[f.kind+" "+f.encoding] = true
	}
	for _, k := range value.Kinds {
		if names[k.Name] || keptOf[k] == nil {
			t.Errorf("%s: two rows of that name, or none in keptOf", k.Name)
		}
		names[k.Name] = true
		for i, encoding := range k.Encodings {
			place, form := k.Image+byte(i), k.Name+" "+encoding
			if places[place] != "" {
				t.Errorf("%s and %s share the place %d in the image", places[place], form, place)
			}
			places[place] = form
			if found, at := value.KindOf(place); found != k || at != i {
				t.Errorf("the place %d of %s finds another form", place, form)
			}
			if !rows[form] {
				t.Errorf("no test makes a %s", form)
			}
		}
	}
	if k, _ := value.KindOf(value.KindString); k != nil {
		t.Error("a string is no aggregate")
	}
}

// What the interface promises holds for every form of every kind.
func TestAggregates(t *testing.T) {
	for _, f := range forms {
		t.Run(f.kind+" "+f.encoding, func(t *testing.T) {
			m := New(fakeScripts{})
			run := func(line, key string) string { return do(m, 1, onKey(line, key)) }
			expect := func(what, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
			for _, line := range f.make {
				run(line, "k")
			}
			expect("TYPE", run("TYPE {}", "k"), f.kind)
			expect("OBJECT ENCODING", run("OBJECT ENCODING {}", "k"), f.encoding)
			expect("SCAN TYPE", run("SCAN 0 TYPE "+f.kind, ""), "0 k")
			expect("SCAN TYPE string", run("SCAN 0 TYPE string", ""), "0 ")
			expect("GET", run("GET {}", "k"), "WRONGTYPE Operation against a key holding the wrong kind of value")
			first := run(f.show, "k")

			expect("COPY", run("COPY {} c", "k"), "1")
			expect("a copy's encoding", run("OBJECT ENCODING {}", "c"), f.encoding)
			run(f.change, "k")
			changed := run(f.show, "k")
			if changed == first {
				t.Fatalf("%s changes nothing: %s", f.change, first)
			}
			expect("a copy after its original has changed", run(f.show, "c"), first)
			run(f.change, "c")
			expect("a copy, changed", run(f.show, "c"), changed)
			run("DEL c", "")

			img := image(t, m)
			again := restored(t, img)
			if !bytes.Equal(image(t, again), img) {
				t.Error("an image of a restored machine differs")
			}
			expect("restored", do(again, 1, onKey(f.show, "k")), changed)
			checkDerived(t, again)

			run("EXPIRE {} 100", "k")
			run(f.change, "k")
			expect("TTL after a change", run("TTL {}", "k"), "100")
			fence := run("FENCE {}", "k")
			run(f.change, "k")
			expect("FENCE after a change", run("FENCE {}", "k"), fence)
			checkDerived(t, m)

			e, _ := m.state.Keys.DBs[0].Keys.Get("k")
			keepsEmpty := boolWord(e.Aggregate().Kind().KeepsEmpty)
			run(f.empty, "k")
			expect("EXISTS when empty", run("EXISTS {}", "k"), keepsEmpty)
			checkDerived(t, m)
			checkDerived(t, restored(t, image(t, m)))
			expect("DEL when empty", run("DEL {}", "k"), keepsEmpty)
			if left := m.state.UsedBytes() - m.state.Events.Bytes(); left != 0 {
				t.Errorf("%d bytes are left of nothing", left)
			}
		})
	}
}

// A snapshot, and a script that is taken back, still have what was there: what
// comes after them changes a copy.
func TestAggregatesAreCopiedByGeneration(t *testing.T) {
	for _, f := range forms {
		t.Run(f.kind+" "+f.encoding, func(t *testing.T) {
			m := New(fakeScripts{})
			for _, line := range f.make {
				do(m, 1, onKey(line, "k"))
				do(m, 1, onKey(line, "gone"))
			}
			first := do(m, 1, onKey(f.show, "k"))
			before, write := image(t, m), m.Snapshot()
			do(m, 1, onKey(f.change, "k"))
			do(m, 1, onKey(f.empty, "gone"))
			var snapshot bytes.Buffer
			if err := write(&snapshot); err != nil || !bytes.Equal(snapshot.Bytes(), before) {
				t.Errorf("the snapshot has changed (%v)", err)
			}

			m = restored(t, before)
			used := m.state.UsedBytes()
			script := fmt.Sprintf("EVAL '%s\n%s\n%s\nlimit' 0", onKey(f.change, "k"), onKey(f.change, "k"), onKey(f.empty, "gone"))
			do(m, 1, script)
			if got := do(m, 1, onKey(f.show, "k")); got != first {
				t.Errorf("after a script was taken back: %s, want %s", got, first)
			}
			if got := m.state.UsedBytes() - m.state.Library.Bytes(); got != used {
				t.Errorf("%d bytes after a script was taken back, %d before", got, used)
			}
			checkDerived(t, m)
		})
	}
}
