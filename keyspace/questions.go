package keyspace

import (
	"math"

	"lockd/keyspace/lifecycle"
	"lockd/keyspace/settings"
	"lockd/keyspace/state"
	"lockd/keyspace/store"
	"lockd/resp"
)

// Questions of the cluster about the state.

// Tick returns the log clock, in milliseconds, as of the last Apply.
func (m *Machine) Tick() int64 { return m.state.Tick }

// Wall returns the latest wall time of the entries, in microseconds since 1970; 0: there was none.
func (m *Machine) Wall() int64 { return m.state.WallUs }

// Digest returns the digest as of the last entry.
func (m *Machine) Digest() uint64 { return uint64(m.state.Digest) }

// NextDeadline returns the tick after which the next lease or wait ends; false if there is none.
func (m *Machine) NextDeadline() (tick int64, ok bool) {
	_, l, leased := m.state.Keys.NextLease()
	end, waits := m.state.Waits.NextEnd()
	switch {
	case !waits:
		return l.Tick, leased
	case !leased:
		return end, true
	}
	return min(l.Tick, end), true
}

// Blocks returns a view of blocking commands; see cluster.Machine.
func (m *Machine) Blocks() resp.BlockView { return (*blocks)(&m.state) }

// blocks implements resp.BlockView.
type blocks state.State

func (b *blocks) State(id resp.BlockID) resp.BlockState { return b.Waits.State(id) }
func (b *blocks) Sessions() []resp.BlockSession         { return b.Waits.Sessions.All() }
func (b *blocks) Revision() uint64                      { return b.Waits.Sessions.Revision }

func (b *blocks) Given(id resp.BlockID) bool {
	gift := b.Waits.Gifts.Get(id)
	return gift != nil && !gift.Returned
}

func (b *blocks) Gifts(session uint64) (all []resp.BlockGift) {
	for _, gift := range b.Waits.Gifts.Of(session, math.MaxUint64) {
		if gift.Waited && !gift.Returned {
			all = append(all, resp.BlockGift{ID: gift.ID, Entry: gift.Entry})
		}
	}
	return all
}

// KeysInSlot does a step of a walk through the keys of the first database; see cluster.Machine.
func (m *Machine) KeysInSlot(slot int, cursor uint64, most int) (keys []string, next uint64) {
	next = m.state.Keys.DBs[0].Keys.Scan(cursor, most, func(e *store.Entry) {
		if resp.Slot(e.Key()) == slot && !m.state.Expired(e) {
			keys = append(keys, e.Key())
		}
	})
	return keys, next
}

// Leases returns the leases of locks; see cluster.Machine.
func (m *Machine) Leases(locks []resp.HeldLock) []resp.Lease {
	return lifecycle.Leases(m.state.Keys, &m.state.Events, locks)
}

// FullDisks returns the nodes whose disks keep the state from growing, and the error by which commands that are over
// maxmemory are refused meanwhile.
func (m *Machine) FullDisks() (nodes, refusal string) {
	return m.state.Settings.FullDisks, m.state.Settings.NoRoom
}

// NameFullDisks returns the request by which a leader writes into a setting whose disks keep the state from growing.
func (m *Machine) NameFullDisks(nodes string) resp.Request {
	return resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"CONFIG", "SET", settings.NameFullDisks, nodes}}}}
}

// Settings lists every replicated setting as a MessageConfig, and the users.
func (m *Machine) Settings() []resp.Message {
	users := resp.Message{Kind: resp.MessageUsers, Payload: m.state.Users.Text(), Index: m.state.UsersRev}
	return append(m.state.Settings.Messages(), users)
}

// Totals returns the number of keys in all databases, and the highest fence that was given.
func (m *Machine) Totals() (keys int, lastFence uint64) {
	return m.state.Keys.Len(), m.state.Keys.LastFence
}
