package keyspace

import (
	"fmt"
	"slices"
	"testing"

	"lockd/keyspace/history"
	"lockd/keyspace/store"
	"lockd/luavm"
	"lockd/resp"
)

// A lease and a wait in line that end in the same millisecond end in this order: the lock is lost first, and the wait
// was in vain after that. So the history tells it, whichever part of the sweep gets there: one entry ends so many leases,
// and then those that somebody waits for.
func TestLeaseEndsBeforeTheWait(t *testing.T) {
	for _, others := range []int{0, sweepMax + 1} {
		t.Run(fmt.Sprint(others, " other leases"), func(t *testing.T) {
			m := New(luavm.New())
			session := m.state.Waits.Sessions.Open("", 0, m.state.Tick)
			for i := range others {
				m.Apply(resp.Stamp{Tick: 1, Index: uint64(i)}, []resp.Request{request(0, fmt.Sprintf("SET other:%d v PX 1", i))})
			}
			m.Apply(resp.Stamp{Tick: 1, Index: 5000}, []resp.Request{request(0, "LOCK x a PX 10")})
			for i, wait := range []string{"LOCK x b PX 1000 WAIT 10", "LOCK x c PX 1000 WAIT 1000"} {
				req := request(0, wait)
				req.Block = &resp.BlockStep{Kind: resp.BlockAsk, ID: resp.BlockID{Session: session, Number: uint64(i + 1)}}
				m.Apply(resp.Stamp{Tick: 1, Index: 5001 + uint64(i)}, []resp.Request{req})
			}
			if m.state.Waits.Len() != 2 {
				t.Fatalf("%d wait", m.state.Waits.Len())
			}
			_, messages := m.Apply(resp.Stamp{Tick: 100, Index: 6000}, nil)
			var got []string
			for _, msg := range messages {
				if msg.Kind == resp.MessageLock {
					e, _ := history.Read(msg.Event)
					got = append(got, fmt.Sprint(e.Kind, " ", e.Token, " ", e.Tick))
				}
			}
			if want := []string{"expired a 11", "gave-up b 11", "granted c 100"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// Waits in one line that are over end in the order in which they ended, also where so many leases have ended that the line
// is swept by itself. One that lasts up to this millisecond goes on.
func TestWaitsOfALineEndInOrder(t *testing.T) {
	m := New(luavm.New())
	session := m.state.Waits.Sessions.Open("", 0, m.state.Tick)
	for i := range sweepMax + 1 {
		m.Apply(resp.Stamp{Tick: 1, Index: uint64(i)}, []resp.Request{request(0, fmt.Sprintf("SET other:%d v PX 1", i))})
	}
	m.Apply(resp.Stamp{Tick: 1, Index: 5000}, []resp.Request{request(0, "LOCK x a PX 60000")})
	for i, wait := range []string{"LOCK x b PX 1000 WAIT 20", "LOCK x c PX 1000 WAIT 10", "LOCK x d PX 1000 WAIT 99"} {
		req := request(0, wait)
		req.Block = &resp.BlockStep{Kind: resp.BlockAsk, ID: resp.BlockID{Session: session, Number: uint64(i + 1)}}
		m.Apply(resp.Stamp{Tick: 1, Index: 5001 + uint64(i)}, []resp.Request{req})
	}
	var got []string
	for i, tick := range []int64{100, 101} {
		_, messages := m.Apply(resp.Stamp{Tick: tick, Index: 6000 + uint64(i)}, nil)
		for _, msg := range messages {
			if msg.Kind == resp.MessageLock {
				e, _ := history.Read(msg.Event)
				if e.Kind.String() == "gave-up" {
					got = append(got, fmt.Sprint(tick, ": ", e.Token))
				}
			}
		}
	}
	if want := []string{"100: c", "100: b", "101: d"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The version of a key that never was is no mark of an exchange where there was none; after one it is, and a creation
// since then counts again.
func TestVersionOfAbsentKeys(t *testing.T) {
	m := New(nil)
	if v := m.state.Version(0, "k"); v != 0 {
		t.Errorf("before everything: %x", v)
	}
	do(m, 1, "SWAPDB 0 1")
	swapped := m.state.Version(0, "k")
	if swapped&store.AbsentSwapped == 0 || swapped&^uint64(store.AbsentSwapped) != m.state.Keys.DBs[0].Swapped {
		t.Errorf("after SWAPDB: %x", swapped)
	}
	do(m, 1, "SET k v")
	do(m, 1, "DEL k")
	if v := m.state.Version(0, "k"); v&store.AbsentSwapped != 0 || v <= m.state.Keys.DBs[0].Swapped {
		t.Errorf("created since then: %x", v)
	}
	if v := m.state.Version(2, "k"); v != 0 {
		t.Errorf("in another database: %x", v)
	}
}
