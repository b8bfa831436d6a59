package keyspace

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// What a waiter is given is committed before its client hears of it, and the client may be gone by then, or its node.
// So the machine remembers each gift until the node says that it was delivered (settle), or that it was not (giveBack):
// then a lock is released, elements return to the end that they came from, and the next waiter is served. Whether it
// was delivered nobody but the node knows, or the leader that it asked first: see cluster/DESIGN.md.

// Limits of the gifts of the whole cluster that are remembered. Beyond them the oldest is forgotten: it is then taken
// for delivered.
const (
	givenMax      = 1 << 16
	givenBytesMax = 32 << 20
	givenKeepMs   = 600_000 // by the log clock; a node that is in touch settles what it was given within seconds
)

// givenOverheadBytes is what a gift is assumed to take beside its texts.
const givenOverheadBytes = 256

// reversal takes back what a blocking command has done.
type reversal struct {
	cmds []resp.Args // in their order; a command that changes nothing, or fails, is the last one
	lock *resp.Watch // of a LOCK: nothing is done if somebody has touched the lock since

	// The key that the elements return to, if it has gone with the last of them: it gets its deadline back.
	key   string
	until store.Deadline
}

// given is a gift. It is immutable.
type given struct {
	id     resp.BlockID
	entry  uint64 // the index of the entry that gave it
	tick   int64  // the log clock then
	db     int
	at     uint64 // the machine's sequence then; 0: the database was emptied since
	waited bool   // the command had waited
	reversal
}

func givenLess(a, b *given) bool { return idLess(a.id, b.id) }

func (g *given) bytes() int64 {
	n := int64(givenOverheadBytes + len(g.key))
	for _, cmd := range g.cmds {
		n += int64(bytesOf(cmd))
	}
	if g.lock != nil {
		n += int64(len(g.lock.Key))
	}
	return n
}

// olderLess orders gifts by age.
func olderLess(a, b *given) bool {
	if a.entry != b.entry {
		return a.entry < b.entry
	}
	return givenLess(a, b)
}

func idLess(a, b resp.BlockID) bool {
	return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Number, b.Number)) < 0
}

func newOrder[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// gifts are those that the machine remembers.
type gifts struct {
	all *btree.BTreeG[*given] // by id

	// Derived.
	byAge *btree.BTreeG[*given]
	bytes int64

	forgotten int64 // how many this node has forgotten since it was started; in no image
}

func newGifts() gifts { return gifts{all: newOrder(givenLess), byAge: newOrder(olderLess)} }

func (g *gifts) get(id resp.BlockID) *given {
	gift, _ := g.all.Get(&given{id: id})
	return gift
}

func (g *gifts) add(gift *given) {
	g.all.Set(gift)
	g.byAge.Set(gift)
	g.bytes += gift.bytes()
}

func (g *gifts) remove(gift *given) {
	g.all.Delete(gift)
	g.byAge.Delete(gift)
	g.bytes -= gift.bytes()
}

// forget drops the oldest gifts that are too old, or too many.
func (g *gifts) forget(tick int64) {
	for {
		oldest, ok := g.byAge.Min()
		if !ok || g.all.Len() <= givenMax && g.bytes <= givenBytesMax && tick-oldest.tick <= givenKeepMs {
			return
		}
		g.remove(oldest)
		g.forgotten++
	}
}

// copy is what a running script has found of the gifts, in O(1).
func (g *gifts) copy() *gifts {
	return &gifts{all: g.all.Copy(), byAge: g.byAge.Copy(), bytes: g.bytes, forgotten: g.forgotten}
}

// emptied has nothing return to the databases from one to before another. A client that waits for the answer may still
// be told what it was given.
func (m *Machine) emptied(from, to int) {
	g := &m.blocked.gifts
	m.meter.Spend(value.FarWork * int64(g.all.Len()))
	var emptied []*given
	g.all.Scan(func(gift *given) bool {
		if gift.at != 0 && from <= gift.db && gift.db < to {
			emptied = append(emptied, gift)
		}
		return true
	})
	if len(emptied) == 0 {
		return
	}
	if j := m.journal; j != nil && j.gifts == nil {
		j.gifts = g.copy()
	}
	m.meter.Spend(2 * value.TreeWork(g.all.Len()) * int64(len(emptied)))
	for _, gift := range emptied {
		next := *gift
		next.at = 0
		g.all.Set(&next)
		g.byAge.Set(&next)
	}
}

// of lists the gifts of a session that were given by entries up to an index.
func (g *gifts) of(session, upTo uint64) (found []*given) {
	g.all.Ascend(&given{id: resp.BlockID{Session: session}}, func(gift *given) bool {
		if gift.id.Session == session && gift.entry <= upTo {
			found = append(found, gift)
		}
		return gift.id.Session == session
	})
	return found
}

// remember keeps what a client was given, and reports whether it does. A command that has changed nothing has no undo.
func (m *Machine) remember(id resp.BlockID, db int, u *reversal, waited bool) bool {
	if u == nil {
		return false
	}
	gift := &given{
		id: id, entry: m.index, tick: m.tick, db: db, at: m.keys.Sequence, waited: waited, reversal: u.clone(),
	}
	g := &m.blocked.gifts
	m.meter.Spend(2*value.TreeWork(g.all.Len()) + value.CopyWork*gift.bytes())
	if gift.bytes() > givenBytesMax {
		g.forgotten++
		return false
	}
	g.add(gift)
	g.forget(m.tick)
	return true
}

// clone returns an undo that keeps no string of the entry alive.
func (u *reversal) clone() reversal {
	next := reversal{key: strings.Clone(u.key), until: u.until}
	for _, cmd := range u.cmds {
		next.cmds = append(next.cmds, value.CloneTexts(cmd))
	}
	if u.lock != nil {
		lock := *u.lock
		lock.Key = strings.Clone(lock.Key)
		next.lock = &lock
	}
	return next
}

// settle forgets what a session was given by entries up to an index: it was delivered. The session may have lapsed.
func (m *Machine) settle(session, upTo uint64) {
	for _, gift := range m.blocked.gifts.of(session, upTo) {
		m.meter.Spend(value.TreeWork(m.blocked.gifts.all.Len()))
		m.blocked.gifts.remove(gift)
	}
}

// giveBack takes back what was given under a name, as long as the machine remembers it: it may be asked for twice. It is
// never refused for lack of memory. A database that was emptied or exchanged since takes nothing back.
func (m *Machine) giveBack(at resp.Stamp, id resp.BlockID) {
	gift := m.blocked.gifts.get(id)
	if gift == nil {
		return
	}
	m.blocked.gifts.remove(gift)
	if gift.at == 0 || m.keys.DBs[gift.db].Swapped > gift.at || gift.lock != nil && m.haveChanged([]resp.Watch{*gift.lock}) {
		return
	}
	c := &ctx{m: m, at: at, db: gift.db}
	absent := gift.key != "" && c.lookup(gift.key) == nil
	for _, cmd := range gift.cmds {
		row, _ := table.Find(cmd)
		c.why = cause{by: row.Name}
		m.meter.Spend(meter.CommandWork)
		req, wrong := row.Run(cmd)
		if reply := perform(c, req, wrong); reply.IsErr() || reply.Kind == resp.KindInt && reply.Int == 0 {
			return
		}
	}
	if absent && gift.until.IsSet() {
		c.setDeadline(gift.key, gift.until)
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
func (c *ctx) undoPop(key string, end value.ListEnd) *reversal {
	return &reversal{key: key, until: c.lookup(key).Deadline(), cmds: []resp.Args{{pushEvents[end], key}}}
}

// popped completes an undo with the elements that were popped, in their order: the first goes back last.
func (u *reversal) popped(elems []resp.Reply) *reversal {
	for _, e := range slices.Backward(elems) {
		u.cmds[0] = append(u.cmds[0], e.Str)
	}
	return u
}

// undoMove returns the undo of a command that moves an element from an end of a list to an end of another: unless
// somebody has taken it from there, it goes back.
func (c *ctx) undoMove(source, target string, from, to value.ListEnd) *reversal {
	l, _ := c.lookupList(source)
	at, _ := l.End(from, 1)
	elem, nearest := l.Get(at), "1"
	if to == value.RightEnd {
		nearest = "-1"
	}
	u := c.undoPop(source, from)
	u.cmds = []resp.Args{{"lrem", target, nearest, elem}, {pushEvents[from], source, elem}}
	return u
}

// undoPopScored returns the undo of a command that pops from a sorted set, to be completed by scored.
func (c *ctx) undoPopScored(key string) *reversal {
	return &reversal{key: key, until: c.lookup(key).Deadline(), cmds: []resp.Args{{"zadd", key, "NX"}}}
}

// scored completes an undo with the members that were popped. One that was added again meanwhile keeps its new score.
func (u *reversal) scored(popped []value.Scored) *reversal {
	for _, m := range popped {
		u.cmds[0] = append(u.cmds[0], resp.FormatDouble(m.Score), m.Member)
	}
	return u
}

// undoLock returns the undo of a LOCK that was granted to a token; nil where the command has granted nothing new.
func (m *Machine) undoLock(db int, p *pending, reply resp.Reply, lastFence uint64) *reversal {
	granted := m.granted(db, p, reply, lastFence)
	if granted == nil {
		return nil
	}
	return &reversal{lock: granted, cmds: []resp.Args{{"unlock", granted.Key, p.lock.Token}}}
}

func (g *gifts) write(w *value.Writer) {
	w.U64(uint64(g.all.Len()))
	g.all.Scan(func(gift *given) bool {
		w.Parts(gift.parts())
		w.U64(gift.id.Session)
		w.U64(gift.id.Number)
		w.U64(gift.entry)
		w.U64(uint64(gift.tick))
		w.U64(uint64(gift.db))
		w.U64(gift.at)
		w.U64(uint64(len(gift.cmds)))
		for _, cmd := range gift.cmds {
			w.U64(uint64(len(cmd)))
			for _, a := range cmd {
				w.Text(a)
			}
		}
		if gift.lock != nil {
			w.Text(gift.lock.Key)
			w.U64(gift.lock.Version)
		}
		w.Text(gift.key)
		w.U64(uint64(gift.until.Tick))
		w.U64(uint64(gift.until.WallMs))
		return w.OK()
	})
}

// The parts of a gift in an image.
const (
	givenWaited uint64 = 1 << iota // the command had waited
	givenLock                      // on condition of a version
	givenHolder                    // which is that of one holder of many
	givenParts  = iota             // how many there are
)

func (g *given) parts() (parts uint64) {
	if g.waited {
		parts |= givenWaited
	}
	if g.lock != nil {
		parts |= givenLock
		if g.lock.Holder {
			parts |= givenHolder
		}
	}
	return parts
}

func (m *Machine) readGifts(r *value.Reader) {
	var before *given
	for n := r.U64(); n > 0 && r.OK(); n-- {
		gift := readGift(r)
		if r.OK() && (before != nil && !givenLess(before, gift) || !gift.possible() ||
			gift.id.Session > m.blocked.lastSession) {
			r.Fail("something given that can not be")
		}
		if r.OK() {
			m.blocked.gifts.add(gift)
		}
		before = gift
	}
}

func readGift(r *value.Reader) *given {
	parts := r.Parts("what a client was given", 1<<givenParts-1)
	gift := &given{
		id: resp.BlockID{Session: r.U64(), Number: r.U64()}, entry: r.U64(), tick: r.I64(), db: int(r.U64()),
		at: r.U64(), waited: parts&givenWaited != 0,
	}
	for cmds := r.U64(); cmds > 0 && r.OK(); cmds-- {
		var cmd resp.Args
		for n := r.U64(); n > 0 && r.OK(); n-- {
			cmd = append(cmd, r.Text())
		}
		gift.cmds = append(gift.cmds, value.CloneTexts(cmd))
	}
	if parts&givenLock != 0 {
		gift.lock = &resp.Watch{DB: gift.db, Key: strings.Clone(r.Text()), Version: r.U64(), Holder: parts&givenHolder != 0}
	}
	gift.key = strings.Clone(r.Text())
	gift.until = store.Deadline{Tick: r.I64(), WallMs: r.I64()}
	return gift
}

// undoNames are the commands of which undos are made.
var undoNames = []string{"lpush", "rpush", "lrem", "zadd", "unlock"}

// possible reports whether a gift from an image is one that the machine could have remembered.
func (g *given) possible() bool {
	fits := func(cmd resp.Args) bool {
		if len(cmd) == 0 || !slices.Contains(undoNames, cmd[0]) {
			return false
		}
		row, _ := table.Find(cmd)
		return row != nil
	}
	return g.db >= 0 && g.db < store.Databases && len(g.cmds) > 0 && !slices.ContainsFunc(g.cmds, func(cmd resp.Args) bool { return !fits(cmd) })
}
