package keyspace

import (
	"slices"

	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/resp"
)

// emptied has nothing return to the databases from one to before another. A client that waits for the answer may still
// be told what it was given.
func (m *Machine) emptied(from, to int) {
	lost, work := m.waits.Gifts.Returnable(from, to)
	m.meter.Spend(work)
	if len(lost) == 0 {
		return
	}
	if j := m.journal; j != nil && j.gifts == nil {
		j.gifts = m.waits.Gifts.Copy()
	}
	m.meter.Spend(m.waits.Gifts.Forfeit(lost))
}

// remember keeps what a client was given, and reports whether it does. A command that has changed nothing has no undo.
func (m *Machine) remember(id resp.BlockID, db int, u *wait.Reversal, waited bool) bool {
	if u == nil {
		return false
	}
	given, work := m.waits.Gifts.Give(&wait.Gift{
		ID: id, Entry: m.index, Tick: m.tick, DB: db, Version: m.keys.Sequence, Waited: waited, Reversal: *u,
	})
	m.meter.Spend(work)
	return given
}

// giveBack takes back what was given under a name, as long as the machine remembers it: it may be asked for twice. It is
// never refused for lack of memory. A database that was emptied or exchanged since takes nothing back.
func (m *Machine) giveBack(at resp.Stamp, id resp.BlockID) {
	gift := m.waits.Gifts.TakeBack(id)
	if gift == nil || gift.Version == 0 || m.keys.DBs[gift.DB].Swapped > gift.Version ||
		gift.Lock != nil && m.haveChanged([]resp.Watch{*gift.Lock}) {
		return
	}
	c := &ctx{m: m, at: at, db: gift.DB}
	absent := gift.Key != "" && c.lookup(gift.Key) == nil
	for _, cmd := range gift.Cmds {
		row, _ := table.Find(cmd)
		c.why = cause{by: row.Name}
		m.meter.Spend(meter.CommandWork)
		req, wrong := row.Run(cmd)
		if reply := perform(c, req, wrong); reply.IsErr() || reply.Kind == resp.KindInt && reply.Int == 0 {
			return
		}
	}
	if absent && gift.Until.IsSet() {
		c.setDeadline(gift.Key, gift.Until)
	}
}

// haveChanged reports whether the version of a watched key differs from what it was.
func (m *Machine) haveChanged(watched []resp.Watch) bool {
	for _, w := range watched {
		switch {
		case w.DB < 0 || w.DB >= store.Databases:
			return true
		case w.Holder:
			if !m.stillHeld(w.DB, w.Key, w.Version) {
				return true
			}
		case m.version(w.DB, w.Key) != w.Version:
			return true
		}
	}
	return false
}

// The undos of commands.

// undoPop returns the undo of a command that pops from an end of a list. It is called before that command runs, and
// completed with what that has popped.
func (c *ctx) undoPop(key string, end value.ListEnd) *wait.Reversal {
	return &wait.Reversal{Key: key, Until: c.lookup(key).Deadline(), Cmds: []resp.Args{{pushEvents[end], key}}}
}

// popped completes an undo with the elements that were popped, in their order: the first goes back last.
func popped(u *wait.Reversal, elems []resp.Reply) *wait.Reversal {
	for _, e := range slices.Backward(elems) {
		u.Cmds[0] = append(u.Cmds[0], e.Str)
	}
	return u
}

// undoMove returns the undo of a command that moves an element from an end of a list to an end of another: unless
// somebody has taken it from there, it goes back.
func (c *ctx) undoMove(source, target string, from, to value.ListEnd) *wait.Reversal {
	l, _ := c.lookupList(source)
	at, _ := l.End(from, 1)
	elem, nearest := l.Get(at), "1"
	if to == value.RightEnd {
		nearest = "-1"
	}
	u := c.undoPop(source, from)
	u.Cmds = []resp.Args{{"lrem", target, nearest, elem}, {pushEvents[from], source, elem}}
	return u
}

// undoPopScored returns the undo of a command that pops from a sorted set, to be completed by scored.
func (c *ctx) undoPopScored(key string) *wait.Reversal {
	return &wait.Reversal{Key: key, Until: c.lookup(key).Deadline(), Cmds: []resp.Args{{"zadd", key, "NX"}}}
}

// scored completes an undo with the members that were popped. One that was added again meanwhile keeps its new score.
func scored(u *wait.Reversal, popped []value.Scored) *wait.Reversal {
	for _, m := range popped {
		u.Cmds[0] = append(u.Cmds[0], resp.FormatDouble(m.Score), m.Member)
	}
	return u
}

// undoLock returns the undo of a LOCK that was granted to a token; nil where the command has granted nothing new.
func (m *Machine) undoLock(db int, p *pending, reply resp.Reply, lastFence uint64) *wait.Reversal {
	granted := m.granted(db, p, reply, lastFence)
	if granted == nil {
		return nil
	}
	return &wait.Reversal{Lock: granted, Cmds: []resp.Args{{"unlock", granted.Key, p.lock.Token}}}
}
