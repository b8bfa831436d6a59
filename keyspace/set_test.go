package keyspace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// setModel is a keyspace of sets as simple as it can be.
type setModel map[string]map[string]bool

// do runs a command and returns what it answers: members in sorted order.
func (m setModel) do(args []string) string {
	key, rest := args[1], args[2:]
	switch args[0] {
	case "SADD":
		return m.count(rest, func(name string) bool { return m.add(key, name) })
	case "SREM":
		return m.count(rest, func(name string) bool { return m.rem(key, name) })
	case "SMISMEMBER":
		var bits []string
		for _, name := range rest {
			bits = append(bits, boolWord(m[key][name]))
		}
		return strings.Join(bits, " ")
	case "SMOVE":
		if !m[key][rest[1]] {
			return "0"
		}
		m.rem(key, rest[1])
		m.add(rest[0], rest[1])
		return "1"
	case "SCARD":
		return fmt.Sprint(len(m[key]))
	case "SMEMBERS":
		return sortedNames(m[key])
	case "COPY":
		if m[key] == nil {
			return "0"
		}
		m.put(rest[0], m.union(key))
		return "1"
	}
	return m.operate(args)
}

func (m setModel) operate(args []string) string {
	keys := args[1:]
	command, store := strings.CutSuffix(args[0], "STORE")
	if store {
		keys = keys[1:]
	}
	var result map[string]bool
	switch command {
	case "SUNION":
		result = m.union(keys...)
	case "SINTER":
		result = m.union(keys[0])
		for _, key := range keys[1:] {
			m.keep(result, func(name string) bool { return m[key][name] })
		}
	case "SDIFF":
		result = m.union(keys[0])
		for _, key := range keys[1:] {
			m.keep(result, func(name string) bool { return !m[key][name] })
		}
	}
	if !store {
		return sortedNames(result)
	}
	m.put(args[1], result)
	return fmt.Sprint(len(result))
}

func (m setModel) count(names []string, change func(name string) bool) string {
	n := 0
	for _, name := range names {
		if change(name) {
			n++
		}
	}
	return fmt.Sprint(n)
}

func (m setModel) add(key, name string) bool {
	had := m[key][name]
	m.put(key, m.union(key))
	if m[key] == nil {
		m[key] = map[string]bool{}
	}
	m[key][name] = true
	return !had
}

func (m setModel) rem(key, name string) bool {
	had := m[key][name]
	delete(m[key], name)
	m.put(key, m[key])
	return had
}

func (m setModel) put(key string, s map[string]bool) {
	m[key] = s
	if len(s) == 0 {
		delete(m, key)
	}
}

func (m setModel) union(keys ...string) map[string]bool {
	all := map[string]bool{}
	for _, key := range keys {
		for name := range m[key] {
			all[name] = true
		}
	}
	return all
}

func (m setModel) keep(s map[string]bool, wanted func(name string) bool) {
	for name := range s {
		if !wanted(name) {
			delete(s, name)
		}
	}
}

func sortedNames(s map[string]bool) string {
	names := []string{}
	for name := range s {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// anySetCommand draws a command on a few sets of a few members.
func anySetCommand(rng *rand.Rand) []string {
	key := func() string { return "k" + decimal(rng.Int64N(5)) }
	names := func(most int) (list []string) {
		for range 1 + rng.IntN(most) {
			if n := rng.Int64N(12); rng.IntN(3) > 0 {
				list = append(list, decimal(n-6))
			} else {
				list = append(list, strings.Repeat("m", int(n)+1))
			}
		}
		return list
	}
	switch rng.IntN(8) {
	case 0, 1:
		return append([]string{"SADD", key()}, names(6)...)
	case 2:
		return append([]string{"SREM", key()}, names(6)...)
	case 3:
		return append([]string{"SMISMEMBER", key()}, names(6)...)
	case 4:
		return []string{"SMOVE", key(), key(), names(1)[0]}
	case 5:
		return []string{[]string{"SCARD", "SMEMBERS"}[rng.IntN(2)], key()}
	case 6:
		if rng.IntN(4) == 0 {
			return []string{"COPY", "k1", "k2", "REPLACE"}
		}
		return []string{[]string{"SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"}[rng.IntN(3)], key(), key(), key(), key()}
	}
	return []string{[]string{"SINTER", "SUNION", "SDIFF"}[rng.IntN(3)], key(), key(), key()}
}

// Random commands on sets of every form give the answers of a model that is a Go
// map, whatever the limits of the forms are at the moment, through images and while
// snapshots are taken. What each form promises of itself holds all the time.
func TestSetsAreLikeAModel(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m, model := New(nil), setModel{}
		for i := range 2000 {
			switch rng.IntN(40) {
			case 0:
				m = restored(t, image(t, m))
			case 1:
				m.Snapshot()
			case 2:
				ask(m, []string{"CONFIG", "SET", "set-max-intset-entries", decimal(rng.Int64N(9)),
					"set-max-listpack-entries", decimal(rng.Int64N(9)), "set-max-listpack-value", decimal(rng.Int64N(9))})
			}
			args := anySetCommand(rng)
			want, reply := model.do(args), ask(m, args)[0]
			if reply.Kind == resp.KindSet {
				slices.SortFunc(reply.Elems, func(a, b resp.Reply) int { return strings.Compare(a.Str, b.Str) })
			}
			if got := plain(reply); got != want {
				t.Fatalf("seed %d step %d, %q: %q, want %q", seed, i, args, got, want)
			}
			checkSets(t, m)
		}
		checkDerived(t, m)
	}
}

// checkSets checks that sets find their members, at their places.
func checkSets(t *testing.T, m *Machine) {
	t.Helper()
	m.state.Keys.DBs[0].Keys.Each(func(e *store.Entry) bool {
		key := e.Key()
		s := e.Aggregate().(*value.Set)
		members := s.Members()
		for i, member := range members {
			if s.At(i) != member || !s.Has(member) {
				t.Fatalf("%s: %q is not at its place %d", key, member, i)
			}
		}
		if len(slices.Compact(slices.Sorted(slices.Values(members)))) != s.Len() {
			t.Fatalf("%s has a member twice: %q", key, members)
		}
		return true
	})
}

// A set becomes a tree at its limits, and no setting makes it be searched member by
// member without end.
func TestSmallSetsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		config, prefix, form string
		most                 int
	}{
		{"", "", "intset", 512},
		{"", "m", "listpack", 128},
		{"CONFIG SET set-max-intset-entries 9000000000", "", "intset", value.SmallMax},
		{"CONFIG SET set-max-listpack-entries 9000000000", "m", "listpack", value.SmallMax},
	} {
		m := New(nil)
		if tt.config != "" {
			do(m, 1, tt.config)
		}
		for i := range tt.most {
			do(m, 1, fmt.Sprintf("SADD s %s%d", tt.prefix, i))
		}
		if got := do(m, 1, "OBJECT ENCODING s"); got != tt.form {
			t.Errorf("%s: %d members are a %s", tt.config, tt.most, got)
		}
		do(m, 1, "SADD s "+tt.prefix+"-1")
		if got := do(m, 1, "OBJECT ENCODING s"); got != "hashtable" {
			t.Errorf("%s: %d members are a %s", tt.config, tt.most+1, got)
		}
	}
}

// randomSetWrite draws a command that may change a set.
func randomSetWrite(rng *rand.Rand, key string) string {
	n := rng.IntN(5)
	other := []string{"numbers", "words", "members"}[rng.IntN(3)]
	switch rng.IntN(6) {
	case 0:
		return fmt.Sprintf("SADD %s %d", key, n)
	case 1:
		return fmt.Sprintf("SADD %s m%d %s", key, n, strings.Repeat("v", n*20))
	case 2:
		return fmt.Sprintf("SREM %s m%d %d z a", key, n, n)
	case 3:
		return fmt.Sprintf("SPOP %s %d", key, n)
	case 4:
		return fmt.Sprintf("SMOVE %s %s %d", key, other, n)
	}
	return fmt.Sprintf("%s %s %s %s", []string{"SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE"}[rng.IntN(3)], key, other, key)
}

// hugeSet stores a set of n members of one MiB each, which share their memory.
func hugeSet(m *Machine, key string, n int) {
	const mib = 1 << 20
	text := strings.Repeat("x", mib+n)
	s := value.NewSet(m.state.Keys.Generation)
	s.Limit(m.state.Settings.Sets)
	for i := range n {
		s.Add(text[:mib+i])
	}
	keep(m, key, s)
}

// A command that would answer, store or do more than one request may is refused, and
// has changed nothing.
func TestSetCommandsAreBounded(t *testing.T) {
	m := New(nil)
	do(m, 1, "CONFIG SET set-max-listpack-entries 4096 set-max-listpack-value 1073741824") // no MiB needs a hash
	hugeSet(m, "huge", meter.ReplyBytesMax>>20)
	hugeSet(m, "giant", meter.GrowthBytesMax>>20)
	do(m, 1, "SADD a 1 2 3")
	do(m, 1, "SADD b 2 3 x")
	mustRefuse(t, m, []refusal{
		{"SMEMBERS huge", 0, meter.ErrReplyTooLarge},
		{"SPOP huge 1000", 0, meter.ErrReplyTooLarge},
		{"SRANDMEMBER huge 1000", 0, meter.ErrReplyTooLarge},
		{"SRANDMEMBER huge -1000", 0, meter.ErrReplyTooLarge},
		{"SUNION huge a", 0, meter.ErrReplyTooLarge},
		{"SINTER huge huge", 0, meter.ErrReplyTooLarge},
		{"SDIFF huge a", 0, meter.ErrReplyTooLarge},
		{"SINTERCARD 2 huge huge", 0, "64"},
		{"SUNIONSTORE c giant a", 0, meter.ErrWork},
		{"SUNION a b", meter.WorkMax, meter.ErrWork},
		{"SINTER a b", meter.WorkMax, meter.ErrWork},
		{"SDIFF a b", meter.WorkMax, meter.ErrWork},
		{"SINTERCARD 2 a b", meter.WorkMax, meter.ErrWork},
		{"SUNIONSTORE c a b", meter.WorkMax, meter.ErrWork},
		{"SINTERSTORE c a b", meter.WorkMax, meter.ErrWork},
		{"SDIFFSTORE c a b", meter.WorkMax, meter.ErrWork},
		{"SDIFF a b b b b b b b b b", meter.WorkMax, meter.ErrWork},
	})
	if got := ask(m, []string{"SPOP", "huge", fmt.Sprint(meter.ReplyBytesMax>>20 - 1)})[0]; len(got.Elems) != meter.ReplyBytesMax>>20-1 {
		t.Errorf("SPOP of as much as one may: %.100s", plain(got))
	}
}

// What a command on many members costs is counted before the next command runs.
func TestSetWorkIsCounted(t *testing.T) {
	m := New(nil)
	for i := range 1000 {
		do(m, 1, fmt.Sprintf("SADD s m%d", i))
		do(m, 1, fmt.Sprintf("HSET h f%d v", i))
		do(m, 1, fmt.Sprintf("ZADD z 1 m%d", i))
	}
	for _, tt := range []struct {
		line  string
		least int64
	}{
		{"SUNION s s", 2000 * value.FindWork},
		{"SINTERCARD 2 s s", 1000 * value.VisitWork},
		{"SINTERSTORE c s s", 1000 * value.FindWork},
		{"SDIFF s c", 1000 * value.FindWork},
		{"SRANDMEMBER s -1000", 1000 * value.FindWork},
		{"SSCAN s 0 COUNT 100000", 1000 * value.VisitWork},
		{"HSCAN h 0 COUNT 100000000", 1000 * value.VisitWork},
		{"ZSCAN z 0 COUNT 100000000", 1000 * value.VisitWork},
		{"SCAN 0 COUNT 100000000", 3 * value.VisitWork},
		{"SPOP s 500", 500 * value.FindWork},
	} {
		m.state.Applying = true
		m.state.Meter.BeginRequest(m.state.UsedBytes())
		if r := run(m, resp.Stamp{}, 0, split(tt.line)); r.IsErr() {
			t.Fatalf("%s: %s", tt.line, r.Str)
		}
		if got := m.state.Meter.Work(); got < tt.least || got > 20*tt.least {
			t.Errorf("%s: work %d, want at least %d", tt.line, got, tt.least)
		}
	}
}
