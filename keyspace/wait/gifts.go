package wait

import (
	"cmp"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// What a waiter is given is committed before its client hears of it, and the client may be gone by then, or its node.
// So each gift is remembered until the node says that it was delivered, or that it was not: then it is taken back. Only
// the node knows whether it was delivered, or the leader that it asked first: see cluster/DESIGN.md.

// Limits of the gifts of the whole cluster that are remembered. Beyond them the oldest is forgotten: it is then taken
// for delivered.
const (
	GiftsMax     = 1 << 16
	GiftBytesMax = 32 << 20
	GiftKeepMs   = 600_000 // by the log clock; a node that is in touch settles what it was given within seconds
)

// giftOverheadBytes is the memory that a gift is assumed to take beside its texts.
const giftOverheadBytes = 256

// Reversal takes back what a blocking command has done.
type Reversal struct {
	Cmds []resp.Args // in their order; a command that changes nothing, or fails, is the last one
	Lock *resp.Watch // of a LOCK: nothing is done if somebody has touched the lock since

	// The key that the elements return to, if it has gone with the last of them: it gets its deadline back.
	Key   string
	Until store.Deadline
}

// Gift is something that a client was given. It does not change.
type Gift struct {
	ID      resp.BlockID
	Entry   uint64 // the index of the entry that gave it
	Tick    int64  // the log clock then
	DB      int
	Version uint64 // the last one of the machine then; 0: the database was emptied since
	Waited  bool   // the command had waited

	// Of a LOCK alone, which is asked for again under another id if its client could not be told.
	Returned bool // it was taken back
	Left     bool // its token has left by UNLOCK since

	Reversal
}

// token returns the token of a LOCK.
func (g *Gift) token() string { return g.Cmds[0][2] }

func giftsByID(a, b *Gift) bool { return byID(a.ID, b.ID) }

// giftsByAge orders gifts by age.
func giftsByAge(a, b *Gift) bool {
	if a.Entry != b.Entry {
		return a.Entry < b.Entry
	}
	return giftsByID(a, b)
}

// giftsByLock orders gifts of LOCK by lock and token.
func giftsByLock(a, b *Gift) bool {
	order := cmp.Or(cmp.Compare(a.DB, b.DB), cmp.Compare(a.Lock.Key, b.Lock.Key), cmp.Compare(a.token(), b.token()))
	return order < 0 || order == 0 && giftsByID(a, b)
}

func (g *Gift) bytes() int64 {
	n := int64(giftOverheadBytes + len(g.Key))
	for _, cmd := range g.Cmds {
		n += int64(bytesOf(cmd))
	}
	if g.Lock != nil {
		n += int64(len(g.Lock.Key))
	}
	return n
}

// clone returns a reversal that keeps no string of the entry alive.
func (u *Reversal) clone() Reversal {
	next := Reversal{Key: strings.Clone(u.Key), Until: u.Until}
	for _, cmd := range u.Cmds {
		next.Cmds = append(next.Cmds, value.CloneTexts(cmd))
	}
	if u.Lock != nil {
		lock := *u.Lock
		lock.Key = strings.Clone(lock.Key)
		next.Lock = &lock
	}
	return next
}

// Gifts has the gifts that are remembered.
type Gifts struct {
	all *btree.BTreeG[*Gift] // by id

	// Derived.
	byAge  *btree.BTreeG[*Gift]
	byLock *btree.BTreeG[*Gift] // of LOCK, whose token has not left
	bytes  int64

	// Forgotten counts the gifts that this node has forgotten since it was started; in no image.
	Forgotten int64
}

func newGifts() Gifts {
	return Gifts{all: newOrder(giftsByID), byAge: newOrder(giftsByAge), byLock: newOrder(giftsByLock)}
}

// Copy returns the gifts as they are now, in O(1).
func (g *Gifts) Copy() *Gifts {
	return &Gifts{
		all: g.all.Copy(), byAge: g.byAge.Copy(), byLock: g.byLock.Copy(), bytes: g.bytes, Forgotten: g.Forgotten,
	}
}

// Len is the number of gifts.
func (g *Gifts) Len() int { return g.all.Len() }

// Get returns the gift of a command, or nil.
func (g *Gifts) Get(id resp.BlockID) *Gift {
	gift, _ := g.all.Get(&Gift{ID: id})
	return gift
}

// Of lists the gifts of a session that were given by entries up to an index. The session may be closed.
func (g *Gifts) Of(session, upTo uint64) (found []*Gift) {
	g.all.Ascend(&Gift{ID: resp.BlockID{Session: session}}, func(gift *Gift) bool {
		if gift.ID.Session == session && gift.Entry <= upTo {
			found = append(found, gift)
		}
		return gift.ID.Session == session
	})
	return found
}

// Give remembers a gift, and reports whether it does: one that is larger than all gifts may be is forgotten at once.
// The oldest make room. It returns its work.
func (g *Gifts) Give(gift *Gift) (kept bool, work int64) {
	gift.Reversal = gift.clone()
	bytes := gift.bytes()
	work = 2*value.TreeWork(g.all.Len()) + value.CopyWork*bytes
	if bytes > GiftBytesMax {
		g.Forgotten++
		return false, work
	}
	g.add(gift)
	g.Sweep(gift.Tick)
	return true, work
}

func (g *Gifts) add(gift *Gift) {
	g.all.Set(gift)
	g.byAge.Set(gift)
	if gift.Lock != nil && !gift.Left {
		g.byLock.Set(gift)
	}
	g.bytes += gift.bytes()
}

func (g *Gifts) remove(gift *Gift) {
	g.all.Delete(gift)
	g.byAge.Delete(gift)
	if gift.Lock != nil {
		g.byLock.Delete(gift)
	}
	g.bytes -= gift.bytes()
}

// Sweep forgets the oldest gifts that are too old by now, or too many.
func (g *Gifts) Sweep(now int64) {
	for {
		oldest, ok := g.byAge.Min()
		if !ok || g.all.Len() <= GiftsMax && g.bytes <= GiftBytesMax && now-oldest.Tick <= GiftKeepMs {
			return
		}
		g.remove(oldest)
		g.Forgotten++
	}
}

// Settle forgets the gifts of a session that were given by entries up to an index: they were delivered. It returns its
// work.
func (g *Gifts) Settle(session, upTo uint64) (work int64) {
	for _, gift := range g.Of(session, upTo) {
		work += value.TreeWork(g.all.Len())
		g.remove(gift)
	}
	return work
}

// TakeBack forgets the gift of a command and returns it, for the caller to take back; nil: there is none, or it was
// taken back before.
func (g *Gifts) TakeBack(id resp.BlockID) *Gift {
	gift := g.Get(id)
	if gift == nil {
		return nil
	}
	g.remove(gift)
	if gift.Returned {
		return nil
	}
	return gift
}

// Return is TakeBack for a command that may be asked for again: a LOCK is remembered, as its token may leave meanwhile.
func (g *Gifts) Return(id resp.BlockID) *Gift {
	gift := g.Get(id)
	if gift == nil || gift.Lock == nil || gift.Returned {
		return g.TakeBack(id)
	}
	next := *gift
	next.Returned = true
	g.replace(&next)
	return gift
}

// Leave marks the gifts of a lock to a token that leaves by UNLOCK: a client that was not told of its grant is told that
// its wait has ended. It returns its work.
func (g *Gifts) Leave(db int, key, token string) (work int64) {
	if g.byLock.Len() == 0 {
		return 0
	}
	pivot := &Gift{DB: db, Reversal: Reversal{Cmds: []resp.Args{{"", "", token}}, Lock: &resp.Watch{Key: key}}}
	var left []*Gift
	g.byLock.Ascend(pivot, func(gift *Gift) bool {
		same := gift.DB == db && gift.Lock.Key == key && gift.token() == token
		if same {
			left = append(left, gift)
		}
		return same
	})
	for _, gift := range left {
		next := *gift
		next.Left = true
		g.replace(&next)
	}
	return value.TreeWork(g.all.Len()) * int64(1+3*len(left))
}

// replace puts a gift in the place of the one with its id, which has the same size.
func (g *Gifts) replace(next *Gift) {
	g.all.Set(next)
	g.byAge.Set(next)
	switch {
	case next.Lock == nil:
	case next.Left:
		g.byLock.Delete(next)
	default:
		g.byLock.Set(next)
	}
}

// Returnable lists the gifts that could return to the databases from one to before another, and the work of that.
func (g *Gifts) Returnable(from, to int) (found []*Gift, work int64) {
	g.all.Scan(func(gift *Gift) bool {
		if gift.Version != 0 && from <= gift.DB && gift.DB < to {
			found = append(found, gift)
		}
		return true
	})
	return found, value.FarWork * int64(g.all.Len())
}

// Forfeit has gifts never return, as their databases were emptied. A client that waits for the answer may still be told
// what it was given. It returns its work.
func (g *Gifts) Forfeit(gifts []*Gift) (work int64) {
	for _, gift := range gifts {
		next := *gift
		next.Version = 0
		g.replace(&next)
	}
	return 3 * value.TreeWork(g.all.Len()) * int64(len(gifts))
}

func bytesOf(args resp.Args) (n int) {
	for _, a := range args {
		n += len(a)
	}
	return n
}
