package keyspace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// randomStreamWrite draws a command that may change a stream.
func randomStreamWrite(rng *rand.Rand, key string) string {
	key = []string{"stream", "stream", "stream2", key}[rng.IntN(4)]
	n := rng.IntN(5)
	switch rng.IntN(9) {
	case 0, 1:
		return fmt.Sprintf("XADD %s * n %d", key, n)
	case 2:
		return fmt.Sprintf("XADD %s MAXLEN %d * n %s", key, 3*n, strings.Repeat("v", n*20))
	case 3:
		return fmt.Sprintf("XADD %s NOMKSTREAM MAXLEN ~ %d 18000000000%d-* n v m w", key, n, 20+n)
	case 4:
		return fmt.Sprintf("XTRIM %s MINID ~ 1800000000%d LIMIT 7", key, 20+n)
	case 5:
		return fmt.Sprintf("XDEL %s 1700000000000 1700000000%d00 18000000000%d", key, n, 20+n)
	case 6:
		return fmt.Sprintf("XSETID %s 18000000000%d ENTRIESADDED %d", key, 21+n, 100*n)
	case 7:
		return fmt.Sprintf("CONFIG SET stream-node-max-entries %d", n)
	}
	return fmt.Sprintf("COPY %s stream2 REPLACE", key)
}

// streamModel is a stream as simple as it can be.
type streamModel struct {
	ids        []value.StreamID
	last, gone value.StreamID
	added      int
}

func (m *streamModel) add(id value.StreamID) {
	if id.Compare(m.last) > 0 {
		m.ids, m.last, m.added = append(m.ids, id), id, m.added+1
	}
}

func (m *streamModel) del(id value.StreamID) {
	if i := slices.Index(m.ids, id); i >= 0 {
		m.ids = slices.Delete(m.ids, i, i+1)
		if id.Compare(m.gone) > 0 {
			m.gone = id
		}
	}
}

func (m *streamModel) info() string {
	first := value.MinStreamID
	if len(m.ids) > 0 {
		first = m.ids[0]
	}
	return fmt.Sprintf("%d %s %s %d %s", len(m.ids), m.last, m.gone, m.added, first)
}

func (m *streamModel) between(from, to value.StreamID) (ids []string) {
	for _, id := range m.ids {
		if id.Compare(from) >= 0 && id.Compare(to) <= 0 {
			ids = append(ids, id.String())
		}
	}
	return ids
}

// infoOf is what the machine says of a stream, as streamModel.info does.
func infoOf(m *Machine, key string) string {
	r, _ := apply(m, at(1), "XINFO STREAM "+key)
	return fmt.Sprintf("%d %s %s %d %s", r.Elems[1].Int, r.Elems[7].Str, r.Elems[9].Str, r.Elems[11].Int, r.Elems[13].Str)
}

func idsOf(r resp.Reply) (ids []string) {
	for _, e := range r.Elems {
		ids = append(ids, e.Elems[0].Str)
	}
	return ids
}

// A stream gives the answers of a slice that is searched by hand, through deletes,
// trims, scripts that are taken back, and images.
func TestStreamAgreesWithASlice(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		machine, model := New(fakeScripts{}), &streamModel{}
		run := func(format string, args ...any) resp.Reply {
			r, _ := apply(machine, at(1), fmt.Sprintf(format, args...))
			return r
		}
		anyID := func() value.StreamID { return value.StreamID{Ms: 1 + rng.Uint64N(60), Seq: rng.Uint64N(3)} }
		for i := range 400 {
			id := anyID()
			switch rng.IntN(10) {
			case 0, 1, 2, 3, 4:
				if rng.IntN(3) > 0 {
					id = value.StreamID{Ms: model.last.Ms + rng.Uint64N(2), Seq: rng.Uint64N(3)}
				}
				run("XADD s %s a %d", id, i)
				model.add(id)
			case 5:
				run("XDEL s %s", id)
				model.del(id)
			case 6:
				n := min(len(model.ids), rng.IntN(3))
				run("XTRIM s MAXLEN %d", len(model.ids)-n)
				model.ids = model.ids[n:]
			case 7:
				n := len(model.between(value.MinStreamID, id))
				if slices.Contains(model.ids, id) {
					n--
				}
				if n < 5 {
					run("XTRIM s MINID %s", id)
					model.ids = model.ids[n:]
				}
			case 8:
				run("EVAL 'XADD s * a b\nXDEL s %s\nXTRIM s MAXLEN 0\nlimit' 0", id)
			case 9:
				machine = restored(t, image(t, machine))
			}
			if model.added == 0 {
				continue
			}
			if got, want := infoOf(machine, "s"), model.info(); got != want {
				t.Fatalf("seed %d, step %d: %s, want %s", seed, i, got, want)
			}
			from, to := anyID(), anyID()
			want := model.between(from, to)
			if got := idsOf(run("XRANGE s %s %s", from, to)); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d, %s to %s: %v, want %v", seed, i, from, to, got, want)
			}
			slices.Reverse(want)
			if got := idsOf(run("XREVRANGE s %s %s", to, from)); !slices.Equal(got, want) {
				t.Fatalf("seed %d, step %d, %s to %s: %v, want %v", seed, i, to, from, got, want)
			}
		}
		checkDerived(t, machine)
	}
}

// manyItems makes a stream of n entries at key.
func manyItems(m *Machine, n int) {
	var req resp.Request
	for i := range n {
		req.Cmds = append(req.Cmds, resp.Cmd{Args: resp.Args{"XADD", "s", decimal(int64(i + 1)), "a", "1"}})
	}
	m.Apply(at(1), []resp.Request{req})
}

// An entry added to a long stream after a snapshot copies a few nodes of it, not the
// stream.
func TestStreamIsNotCopiedForAnEntry(t *testing.T) {
	m := New(fakeScripts{})
	manyItems(m, 100_000)
	const kept = 1 << 10 // objects on the way to the last entry; the stream has many more
	id := 200_000
	allocs := testing.AllocsPerRun(20, func() {
		m.Snapshot()
		id++
		do(m, 1, fmt.Sprintf("XADD s %d a 1", id))
	})
	if allocs > kept {
		t.Errorf("%.0f allocations for an entry after a snapshot", allocs)
	}
}

// A range that no reply can hold is refused, and its work is counted; so is what a trim
// removes.
func TestStreamWorkIsMetered(t *testing.T) {
	m := New(fakeScripts{})
	long := strings.Repeat("v", 1<<20)
	for i := range 70 {
		m.Apply(at(1), []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{"XADD", "big", decimal(int64(i + 1)), "a", long}}}}})
	}
	if got := do(m, 1, "XRANGE big - +"); got != meter.ErrReplyTooLarge {
		t.Errorf("70 MiB: %.80q", got)
	}
	if got := do(m, 1, "XINFO STREAM big FULL COUNT 0"); got != meter.ErrReplyTooLarge {
		t.Errorf("70 MiB: %.80q", got)
	}
	if got := do(m, 1, "XREVRANGE big + - COUNT 1"); len(got) != len("70-0 a ")+len(long) {
		t.Errorf("%d bytes for one entry", len(got))
	}
	m = New(fakeScripts{})
	manyItems(m, 10_000)
	do(m, 1, "XTRIM s MAXLEN 1000")
	if m.state.Meter.EntryWork() < 9000*value.FindWork {
		t.Errorf("a trim of 9000 entries counted as %d", m.state.Meter.EntryWork())
	}
}

// again lists what those who wait are to ask for once more.
func again(msgs []resp.Message) (list []string) {
	for _, m := range msgs {
		if m.Block != nil && m.Block.Args != nil {
			list = append(list, fmt.Sprintf("%d %s: %s", m.Block.ID.Number, endingWords[m.Block.How], strings.Join(m.Block.Args, " ")))
		}
	}
	return list
}

// $ means the last id of the moment in which the log first saw the command. It means the
// same when the node asks again: because it did not hear, because its session is over, and
// because the entry that was to serve it has done too much. Nothing that came in
// between is missed.
func TestWaiterForNewEntriesMissesNone(t *testing.T) {
	const line = "XREAD BLOCK 0 STREAMS s missing $ $"
	s := newBlockStage(t)
	s.run("XADD s 1-1 a 1")
	s.ask(1, line)
	s.run("XSETID s 5")
	s.ask(1, line) // it did not hear; the machine knows who waits
	s.expect()
	s.at.Tick, s.at.Index = 1001+wait.LeaseMs, s.at.Index+1
	_, msgs := s.m.Apply(s.at, nil)
	if got, want := again(msgs), []string{"1 lapsed: XREAD BLOCK 0 STREAMS s missing 1-1 0-0"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	s.run("XADD s 5-1 came between")
	s.send(resp.BlockOpening("", 0))
	s.send(asking(2, 1, 0, msgs[len(msgs)-1].Block.Args))
	s.expect("2/1 served s 5-1 came between")

	large := strings.Repeat("v", meter.ReplyBytesMax/4)
	for n := range uint64(7) {
		s.send(asking(2, 2+n, 0, split(line)))
	}
	s.at.Index++
	_, msgs = s.m.Apply(s.at, []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{"XADD", "s", "6", "a", large}}}}})
	want := []string{}
	for n := range 3 {
		want = append(want, fmt.Sprintf("%d dropped: XREAD BLOCK 0 STREAMS s missing 5-1 0-0", 6+n))
	}
	if got := again(msgs); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
}

// An entry serves all who wait for it, in their order, also behind one who waits for
// a later id; and the work of looking for them is counted.
func TestAllReadersAreServed(t *testing.T) {
	s := newBlockStage(t)
	const readers = 100
	s.ask(1, "XREAD BLOCK 0 STREAMS s 9")
	var want []string
	for n := range uint64(readers) {
		s.ask(2+n, "XREAD BLOCK 0 STREAMS s $")
		want = append(want, fmt.Sprintf("1/%d served s 5-0 a 1", 2+n))
	}
	s.run("XADD s 5 a 1")
	s.expect(want...)
	if s.m.state.Meter.EntryWork() < readers*value.VisitWork {
		t.Errorf("%d readers counted as %d", readers, s.m.state.Meter.EntryWork())
	}
	s.run("XADD s 10 a 1")
	s.expect("1/1 served s 10-0 a 1")
}
