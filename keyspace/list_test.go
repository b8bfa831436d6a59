package keyspace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
)

// randomListWrite draws a command that may change a list.
func randomListWrite(rng *rand.Rand, key string) string {
	queue := []string{"queue", "list", "list2", key}[rng.IntN(4)]
	n := rng.IntN(6)
	switch rng.IntN(12) {
	case 0:
		return fmt.Sprintf("LPUSH %s a%d b", queue, n)
	case 1:
		return fmt.Sprintf("RPUSH %s %sa%d", queue, strings.Repeat("x ", 80*n), n)
	case 2:
		return fmt.Sprintf("LPOP %s %d", queue, 30*n+1)
	case 3:
		return "RPOP " + queue
	case 4:
		return fmt.Sprintf("LSET %s %d set", queue, 50*n-100)
	case 5:
		return fmt.Sprintf("LINSERT %s AFTER a%d x", queue, n)
	case 6:
		return fmt.Sprintf("LREM %s %d x", queue, 20*n-60)
	case 7:
		return fmt.Sprintf("LTRIM %s %d -2", queue, 10*n)
	case 8:
		return fmt.Sprintf("LMOVE %s list2 RIGHT LEFT", queue)
	case 9:
		return fmt.Sprintf("LMPOP 3 none %s queue LEFT COUNT %d", queue, n+1)
	case 10:
		return fmt.Sprintf("COPY %s list2 REPLACE", queue)
	}
	return fmt.Sprintf("CONFIG SET list-max-listpack-size %d", 100*n-2)
}

// listModel is the list "l" as simple as it can be: what FuzzList compares with.
type listModel []string

// do runs one operation with two numbers from 0 to 255, and returns the command that
// it is, and its answer.
func (m *listModel) do(op byte, a, b int) (cmd, want string) {
	l, s := slices.Clone(*m), fmt.Sprint("s", b%4)
	at := a % (len(l) + 1)
	switch op % 14 {
	case 0:
		return "RPUSH l " + s, m.becomes(append(l, s))
	case 1:
		return "LPUSH l " + s, m.becomes(slices.Insert(l, 0, s))
	case 2:
		many := slices.Repeat([]string{s, "other"}, a+1)
		return "RPUSH l " + strings.Join(many, " "), m.becomes(append(l, many...))
	case 3:
		at = min(a, len(l))
		m.becomes(l[at:])
		return fmt.Sprintf("LPOP l %d", a), orAbsent(l, strings.Join(l[:at], " "))
	case 4:
		at = max(0, len(l)-a)
		gone := slices.Clone(l[at:])
		slices.Reverse(gone)
		m.becomes(l[:at])
		return fmt.Sprintf("RPOP l %d", a), orAbsent(l, strings.Join(gone, " "))
	case 5:
		return fmt.Sprintf("LRANGE l %d %d", at, at+b), strings.Join(l[at:min(len(l), at+b+1)], " ")
	case 6:
		to := min(len(l), at+b*b+1)
		m.becomes(l[at:to])
		return fmt.Sprintf("LTRIM l %d %d", at, at+b*b), "OK"
	case 7:
		return "LINSERT l AFTER " + s + " new", m.insert(s, 1)
	case 8:
		return "LINSERT l BEFORE " + s + " new", m.insert(s, 0)
	case 9:
		return fmt.Sprintf("LREM l %d %s", a-128, s), m.remove(s, a-128)
	case 10:
		return fmt.Sprintf("LPOS l %s COUNT 0 RANK %d", s, a+1), m.positions(s, a)
	}
	if at == len(l) {
		return fmt.Sprintf("LINDEX l %d", at), "(nil)"
	}
	switch op % 14 {
	case 11:
		return fmt.Sprintf("LINDEX l %d", at-len(l)), l[at]
	case 12:
		l[at] = s
		m.becomes(l)
		return fmt.Sprintf("LSET l %d %s", at-len(l), s), "OK"
	}
	m.becomes(append([]string{l[len(l)-1]}, l[:len(l)-1]...))
	return "RPOPLPUSH l l", l[len(l)-1]
}

// becomes replaces the model and returns its length.
func (m *listModel) becomes(l []string) string {
	*m = l
	return strconv.Itoa(len(l))
}

// orAbsent is the answer of a pop with a count.
func orAbsent(l []string, popped string) string {
	if len(l) == 0 {
		return "(nil)"
	}
	return popped
}

func (m *listModel) insert(pivot string, offset int) string {
	at := slices.Index(*m, pivot)
	switch {
	case len(*m) == 0:
		return "0"
	case at < 0:
		return "-1"
	}
	return m.becomes(slices.Insert(*m, at+offset, "new"))
}

func (m *listModel) remove(s string, count int) string {
	var kept []string
	was, gone := slices.Clone(*m), 0
	if count < 0 {
		slices.Reverse(was)
	}
	for _, has := range was {
		if has == s && (count == 0 || gone < max(count, -count)) {
			gone++
			continue
		}
		kept = append(kept, has)
	}
	if count < 0 {
		slices.Reverse(kept)
	}
	m.becomes(kept)
	return strconv.Itoa(gone)
}

func (m *listModel) positions(s string, skip int) string {
	var found []string
	for i, has := range *m {
		if has == s {
			found = append(found, strconv.Itoa(i))
		}
	}
	return strings.Join(found[min(skip, len(found)):], " ")
}

// listFuzzBytesMax bounds a row of commands: longer ones find nothing more.
const listFuzzBytesMax = 300

// Random commands on a list give the answers of a model that is a slice, also
// through images and behind snapshots. Every three bytes are an operation and two
// numbers.
func FuzzList(f *testing.F) {
	for seed := range uint64(20) {
		rng, program := rand.New(rand.NewPCG(seed, 3)), make([]byte, listFuzzBytesMax)
		for i := range program {
			program[i] = byte(rng.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		machine, m := New(fakeScripts{}), listModel(nil)
		for i := 0; i+2 < min(len(program), listFuzzBytesMax); i += 3 {
			cmd, want := m.do(program[i], int(program[i+1]), int(program[i+2]))
			switch {
			case program[i] >= 250:
				machine = restored(t, image(t, machine))
			case program[i] >= 240:
				machine.Snapshot()
			}
			if got := do(machine, 1, cmd); got != want {
				t.Fatalf("step %d, %s: %q, want %q", i/3, cmd, got, want)
			}
			if got, want := do(machine, 1, "LRANGE l 0 -1"), strings.Join(m, " "); got != want {
				t.Fatalf("step %d, after %s: %q, want %q", i/3, cmd, got, want)
			}
		}
		checkDerived(t, machine)
	})
}

// fill pushes n elements of some bytes to a key.
func fill(m *Machine, key string, n, bytes int) {
	args := resp.Args{"RPUSH", key}
	for range min(n, 10_000) {
		args = append(args, strings.Repeat("x", bytes))
	}
	for ; n > 0; n -= len(args) - 2 {
		ask(m, args[:2+min(n, len(args)-2)])
	}
}

// What would not fit a reply is not popped, ranged or listed at all.
func TestListRepliesAreBounded(t *testing.T) {
	m := New(nil)
	fill(m, "wide", 9, 8<<20)
	fill(m, "long", meter.ReplyBytesMax/32+1, 1)
	for _, c := range [][]string{
		{"LPOP", "wide", "100"}, {"RPOP", "wide", "9"}, {"LMPOP", "1", "wide", "LEFT", "COUNT", "9"},
		{"LRANGE", "wide", "0", "-1"}, {"LPOS", "long", "x", "COUNT", "0"},
	} {
		if got := ask(m, c)[0]; got.Str != meter.ErrReplyTooLarge {
			t.Errorf("%v: %.80v, want %s", c, got, meter.ErrReplyTooLarge)
		}
	}
	if got := ask(m, []string{"LLEN", "wide"})[0]; got.Int != 9 {
		t.Errorf("a pop that was refused left %d elements of 9", got.Int)
	}
	if got := ask(m, []string{"LPOP", "wide", "7"})[0]; len(got.Elems) != 7 {
		t.Errorf("a pop that fits a reply: %.80v", got)
	}
	if got := ask(m, []string{"LPOS", "long", "x", "COUNT", "100000"})[0]; len(got.Elems) != 100_000 {
		t.Errorf("LPOS of as many as fit: %d", len(got.Elems))
	}
}

// To look through a long list is counted as work, element by element and byte by
// byte where it compares, so that no request does it for ever; to reach into it is
// not.
func TestListSearchIsWork(t *testing.T) {
	m := New(nil)
	fill(m, "long", 100_000, 1)
	fill(m, "wide", 100, 1<<20)
	wide := strings.Repeat("x", 1<<20-1) + "y"
	for _, c := range []struct {
		args resp.Args
		work int64
	}{
		{resp.Args{"LPOS", "long", "no"}, 100_000 * value.VisitWork},
		{resp.Args{"LPOS", "long", "no", "RANK", "-1"}, 100_000 * value.VisitWork},
		{resp.Args{"LINSERT", "long", "AFTER", "no", "x"}, 100_000 * value.VisitWork},
		{resp.Args{"LREM", "long", "0", "no"}, 100_000 * value.VisitWork},
		{resp.Args{"LPOS", "wide", wide}, 100 << 20},
		{resp.Args{"LPOS", "long", "no", "MAXLEN", "10"}, 10 * value.VisitWork},
		{resp.Args{"LINDEX", "long", "50000"}, 0},
		{resp.Args{"LSET", "long", "50000", "x"}, 0},
		{resp.Args{"RPUSH", "long", "x"}, 0},
		{resp.Args{"LREM", "long", "0", "x"}, 100_000 * (value.VisitWork + 4*value.VisitWork + 1)},
	} {
		ask(m, c.args)
		if got := m.state.Meter.Work(); got < c.work || got > c.work+c.work/10+10*meter.CommandWork {
			t.Errorf("%.40v: %d work, want about %d", c.args, got, c.work)
		}
	}
}
