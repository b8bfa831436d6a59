package keyspace

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"lockd/keyspace/value"
	"lockd/resp"
)

// longLine is a machine with a lock and those who stand in its line. Token 0 holds it, and token i is the i-th.
type longLine struct {
	*testing.T
	m     *Machine
	index uint64
	tick  int64
}

func newLongLine(t *testing.T, waiters int) *longLine {
	l := &longLine{T: t, m: newMachine()}
	l.apply(resp.BlockOpening("", 0))
	l.apply(resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"LOCK", "order:42", l.token(0), "PX", "100"}}}})
	for i := range waiters {
		req := asking(1, uint64(i+1), 0, resp.Args{
			"LOCK", "order:42", l.token(i + 1), "PX", "100", "WAIT", "600000", "OWNER", fmt.Sprintf("web-%d/worker", i),
		})
		req.Sender = resp.Client{
			ID: uint64(i), Name: "web-" + strconv.Itoa(i), Addr: fmt.Sprintf("10.0.%d.%d:40000", i/256, i%256), Node: "n1",
		}.Sender()
		l.apply(req)
	}
	if n := l.m.state.Waits.Line().Len(); n != waiters {
		t.Fatalf("%d in line, want %d", n, waiters)
	}
	return l
}

// token is as long as a UUID.
func (l *longLine) token(i int) string { return fmt.Sprintf("0b77e1d4-2f4a-4c55-9d0e-%012d", i) }

func (l *longLine) apply(req resp.Request) {
	l.index++
	l.m.Apply(resp.Stamp{Tick: l.tick, Index: l.index}, []resp.Request{req})
}

// held fails the test unless a token holds the lock.
func (l *longLine) held(by int) {
	if e, ok := l.m.state.Keys.DBs[0].Keys.Get("order:42"); !ok || e.Str() != l.token(by) {
		l.Fatalf("%s has not got the lock", l.token(by))
	}
}

// release has a token release the lock, and expire its lease end: the next one gets it. They return the work.
func (l *longLine) release(token int) (work int64) {
	l.apply(resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"UNLOCK", "order:42", l.token(token)}}}})
	l.held(token + 1)
	return l.m.state.Meter.Work()
}

func (l *longLine) expire(token int) (work int64) {
	l.tick += 101
	l.index++
	before := l.m.state.Meter.Work()
	l.m.Apply(resp.Stamp{Tick: l.tick, Index: l.index}, nil)
	l.held(token + 1)
	return l.m.state.Meter.Work() - before
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC() // what the first one has found to be finalized
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// Each of 10,000 in line costs every node 1 KiB at most, with its token, owner and client; also a node that has read an
// image.
func TestWaitersAreSmall(t *testing.T) {
	const waiters, most = 10_000, 1024
	before, l := heapBytes(), newLongLine(t, waiters)
	each := int64(heapBytes()-before) / waiters
	img := image(t, l.m)
	before = heapBytes()
	m := newMachine()
	if err := m.Restore(bytes.NewReader(img)); err != nil {
		t.Fatal(err)
	}
	restored := int64(heapBytes()-before) / waiters
	if t.Logf("%d bytes each, %d from an image", each, restored); each > most || restored > most {
		t.Errorf("one who waits takes %d bytes, or %d, want %d at most", each, restored, most)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(m)
	runtime.KeepAlive(img)
}

// A lock is handed on for the same work, and with as many allocations, whether few or many wait behind: only the trees
// are deeper.
func TestHandOverOfLongLine(t *testing.T) {
	const turns = 50
	for name, next := range map[string]func(l *longLine, token int) int64{
		"released": (*longLine).release, "expired": (*longLine).expire,
	} {
		measure := func(waiters int) (work int64, allocs float64) {
			l, token := newLongLine(t, waiters), 0
			allocs = testing.AllocsPerRun(turns, func() {
				work = max(work, next(l, token))
				token++
			})
			return work, allocs
		}
		few, fewAllocs := measure(turns + 10)
		many, manyAllocs := measure(10_000)
		t.Logf("%s: work %d and %d, %v and %v allocations", name, few, many, fewAllocs, manyAllocs)
		if deeper := 20 * (value.TreeWork(10_000) - value.TreeWork(turns)); many > few+deeper {
			t.Errorf("%s: work %d where 10,000 wait, %d where few do", name, many, few)
		}
		if manyAllocs > fewAllocs+2 {
			t.Errorf("%s: %v allocations where 10,000 wait, %v where few do", name, manyAllocs, fewAllocs)
		}
	}
}
