package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

// lookupString finds a key that must hold a string, if it is there: e is nil where
// it is absent.
func lookupString(c *Ctx, key string) (e *store.Entry, err error) {
	e = c.Lookup(key)
	if e != nil && e.Aggregate() != nil {
		return nil, resp.Error(resp.ErrWrongType)
	}
	return e, nil
}

// orNil returns the error of a lookup, or nil for a key that is absent.
func orNil(err error) resp.Reply {
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Nil()
}

// orZero returns the answer of a count where there is nothing, or the error.
func orZero(err error) resp.Reply {
	if err != nil {
		return resp.Fail(err)
	}
	return resp.Int(0)
}

// oneIf answers 1 or 0.
func oneIf(holds bool) resp.Reply { return resp.Int(int64(resp.One(holds))) }

// lookupAs finds a key that must hold an aggregate of the type T, if it is there: v
// is nil where it is absent. It is for reading; see editAs.
func lookupAs[T value.Aggregate](c *Ctx, key string) (v T, err error) {
	e := c.Lookup(key)
	if e == nil {
		return v, nil
	}
	v, ok := e.Aggregate().(T)
	if !ok {
		return v, resp.Error(resp.ErrWrongType)
	}
	return v, nil
}

// lookupFirst finds the first of some keys that is there, by lookupAs for the type; v is nil if none is.
func lookupFirst[V any](c *Ctx, keys []string, lookup func(*Ctx, string) (*V, error)) (found string, v *V, err error) {
	for _, key := range keys {
		if v, err = lookup(c, key); err != nil {
			return "", nil, err
		}
		if c.s.Meter.Exceeded() {
			return "", nil, resp.Error(meter.ErrWork)
		}
		if v != nil {
			return key, v, nil
		}
	}
	return "", nil, nil
}

// editAs lets edit change the aggregate at key, one that fresh makes where key is
// absent. The caller has made sure (lookupAs) that key holds nothing else. An
// aggregate that is left empty is deleted, unless its kind keeps it; emptied says so, and the caller sends the event
// "del" after its own.
func editAs[T value.Aggregate](c *Ctx, key string, fresh func(owner uint64) T, edit func(v T)) (emptied bool) {
	was := c.Lookup(key)
	var v T
	d := store.Never
	if was == nil {
		v = fresh(c.s.Keys.Generation)
	} else {
		v, d = was.Aggregate().Own(c.s.Keys.Generation).(T), was.Deadline()
		if c.s.Keys.Keeps(was) {
			c.s.Meter.Spend(value.CloneWork(v))
		}
	}
	form := v.Form()
	edit(v)
	if v.Form() != form {
		c.s.Meter.Spend(int64(v.Len())*value.TreeWork(v.Len()) + value.HashWork*v.Size())
	}
	if v.Len() > 0 || v.Kind().KeepsEmpty {
		c.s.Put(&c.Why, c.db, was, store.NewEntry(key, was, value.OfAggregate(v), d, nil, markOfEdited(c, key, was, v)))
		return false
	}
	if was != nil {
		c.s.Put(&c.Why, c.db, was, nil)
	}
	return was != nil
}

// notifyRemoved sends the event of a command that has removed elements, and "del" if it has emptied the key.
func notifyRemoved(c *Ctx, class emit.Classes, event, key string, emptied bool) {
	c.Notify(class, event, key)
	if emptied {
		c.Notify(emit.Generic, "del", key)
	}
}

// removeElems removes elements of a hash, a set or a sorted set, with the event of the command, and answers how many
// were there. edit is editAs for the type; the caller has paid for the work.
func removeElems[T interface{ Delete(elem string) bool }](
	c *Ctx, key string, elems []string, edit func(*Ctx, string, func(of T)) (emptied bool), class emit.Classes, event string,
) resp.Reply {
	var n int64
	emptied := edit(c, key, func(of T) {
		for _, elem := range elems {
			if of.Delete(elem) {
				n++
			}
		}
	})
	notifyRemoved(c, class, event, key, emptied)
	return resp.Int(n)
}

// markOfEdited returns the mark of a key whose aggregate was changed, or made.
func markOfEdited(c *Ctx, key string, was *store.Entry, v value.Aggregate) store.Mark {
	if was != nil {
		return was.Mark()
	}
	if h, ok := v.(*value.Hash); ok && c.run != nil {
		return c.s.Locks().HashMark(key, h)
	}
	return store.NoLock
}

// lookupHash is lookupAs for hashes.
func lookupHash(c *Ctx, key string) (h *value.Hash, err error) {
	return lookupAs[*value.Hash](c, key)
}

// editHash is editAs for hashes.
func editHash(c *Ctx, key string, edit func(h *value.Hash)) (emptied bool) {
	return editAs(c, key, value.NewHash, func(h *value.Hash) {
		h.Limit(c.s.Settings.Hashes)
		edit(h)
	})
}

// LookupList is lookupAs for lists.
func LookupList(c *Ctx, key string) (l *value.List, err error) {
	return lookupAs[*value.List](c, key)
}

// editList is editAs for lists.
func editList(c *Ctx, key string, edit func(l *value.List)) (emptied bool) {
	return editAs(c, key, value.NewList, func(l *value.List) {
		before := l.Size()
		edit(l)
		l.Resize(c.s.Settings.Lists, l.Size() < before)
	})
}

// lookupSet is lookupAs for sets.
func lookupSet(c *Ctx, key string) (s *value.Set, err error) {
	return lookupAs[*value.Set](c, key)
}

// editSet is editAs for sets.
func editSet(c *Ctx, key string, edit func(s *value.Set)) (emptied bool) {
	return editAs(c, key, value.NewSet, func(s *value.Set) {
		s.Limit(c.s.Settings.Sets)
		edit(s)
	})
}

// LookupZset is lookupAs for sorted sets.
func LookupZset(c *Ctx, key string) (z *value.Zset, err error) {
	return lookupAs[*value.Zset](c, key)
}

// editZset is editAs for sorted sets.
func editZset(c *Ctx, key string, edit func(z *value.Zset)) (emptied bool) {
	return editAs(c, key, value.NewZset, func(z *value.Zset) {
		z.Limit(c.s.Settings.Zsets)
		edit(z)
	})
}

// lookupStream is lookupAs for streams.
func lookupStream(c *Ctx, key string) (s *value.Stream, err error) {
	return lookupAs[*value.Stream](c, key)
}

// editStream is editAs for streams.
func editStream(c *Ctx, key string, edit func(s *value.Stream)) {
	editAs(c, key, value.NewStream, edit)
}

// collection is a set, a hash or a sorted set.
type collection interface {
	value.Aggregate
	comparable
	Len() int
	IsTree() bool
}

// scanCall is SSCAN, HSCAN or ZSCAN; scan does a step. Run judges the options, and only where there is something, as
// Redis does.
type scanCall[T collection] struct {
	key     string
	options resp.Args // from the cursor on
	scan    func(of T, o *arg.Scan) (next uint64, items []string)
}

// parseScanItems makes the parser of a scanCall.
func parseScanItems[T collection](scan func(of T, o *arg.Scan) (next uint64, items []string)) parser {
	return func(args resp.Args) (call, error) {
		if _, ok := arg.ParseCursor(args[2]); !ok {
			return nil, resp.Error(resp.ErrCursor)
		}
		return &scanCall[T]{args[1], args[2:], scan}, nil
	}
}

func (r *scanCall[T]) Run(c *Ctx) resp.Reply {
	of, err := lookupAs[T](c, r.key)
	var none T
	switch {
	case err != nil:
		return resp.Fail(err)
	case of == none:
		return resp.Array(resp.Bulk("0"), resp.Array())
	}
	o, err := arg.ParseScan(r.options, false)
	if err != nil {
		return resp.Fail(err)
	}
	if err := beginScan(c, &o, of.Len(), of.IsTree()); err != nil {
		return resp.Fail(err)
	}
	next, items := r.scan(of, &o)
	return endScan(c, &o, next, items)
}

// beginScan bounds COUNT by the n elements that there are, and counts the work of a step; an aggregate that is no tree
// is visited whole.
func beginScan(c *Ctx, o *arg.Scan, n int, tree bool) error {
	if o.Count = min(o.Count, max(n, 1)); !tree {
		o.Count = max(n, 1)
	}
	each := int64(value.VisitWork)
	if tree {
		each = value.FarWork
	}
	return c.s.Meter.Pay(each*int64(o.Count) + value.TreeWork(n))
}

// endScan counts the work of MATCH, and answers the cursor to go on with, and the items.
func endScan(c *Ctx, o *arg.Scan, next uint64, items []string) resp.Reply {
	c.s.Meter.Spend(o.Match.Work())
	if o.Match.Exceeded() {
		return resp.Err(arg.ErrGlob)
	}
	return resp.Array(resp.Bulk(strconv.FormatUint(next, 10)), resp.Bulks(items...))
}

// drawCall is HRANDFIELD or ZRANDMEMBER. Without a count it draws one item; a positive one asks for different items, a
// negative one for that many draws, and pairs for what belongs to each.
type drawCall[T collection] struct {
	key            string
	counted, pairs bool
	count          int64
	at             func(of T, i int) (item, beside resp.Reply)
}

// parseDraw makes the parser of a drawCall; with is the word for pairs.
func parseDraw[T collection](with string, at func(of T, i int) (item, beside resp.Reply)) parser {
	return func(args resp.Args) (call, error) {
		r := &drawCall[T]{key: args[1], counted: len(args) > 2, at: at}
		var err error
		if r.counted {
			r.count, r.pairs, err = arg.DrawCount(args, with)
		}
		if err != nil {
			return nil, err
		}
		return r, nil
	}
}

func (r *drawCall[T]) Run(c *Ctx) resp.Reply {
	if !r.counted {
		return drawItem(c, r.key, r.at)
	}
	of, err := lookupAs[T](c, r.key)
	var none T
	switch {
	case err != nil:
		return resp.Fail(err)
	case of == none || r.count == 0:
		return resp.Array()
	}
	if err := drawable(c, of.Len(), r.count); err != nil {
		return resp.Fail(err)
	}
	var items []resp.Reply
	for _, i := range choose(c, of.Len(), r.count) {
		item, beside := r.at(of, i)
		if items = append(items, item); r.pairs {
			items = append(items, beside)
		}
	}
	if r.pairs {
		return resp.Pairs(items...)
	}
	return resp.Array(items...)
}

// drawable counts the work of drawing from n elements, and of finding what was drawn, or says why that is too much.
func drawable(c *Ctx, n int, count int64) error {
	draws := min(count, int64(n))
	return c.s.Meter.Pay(2 * max(draws, -draws) * value.TreeWork(n))
}

func drawItem[T collection](c *Ctx, key string, at func(of T, i int) (item, beside resp.Reply)) resp.Reply {
	of, err := lookupAs[T](c, key)
	var none T
	if err != nil || of == none {
		return orNil(err)
	}
	c.s.Meter.Spend(value.TreeWork(of.Len()))
	item, _ := at(of, c.randN(of.Len()))
	return item
}

const errDigestLength = "ERR must be exactly 16 hexadecimal characters"

// comparison is a way to compare what a key holds.
type comparison struct {
	word   string
	digest bool // with the digest, not with the value itself
	equal  bool // it is to be equal, or else to differ
}

var comparisons = []comparison{
	{word: "IFEQ", equal: true},
	{word: "IFNE"},
	{word: "IFDEQ", digest: true, equal: true},
	{word: "IFDNE", digest: true},
}

// comparisonOf returns the comparison that a word names; nil for another word.
func comparisonOf(word string) *comparison {
	for i := range comparisons {
		if resp.Is(word, comparisons[i].word) {
			return &comparisons[i]
		}
	}
	return nil
}

// condition has a comparison and its operand; without a comparison it is always met.
type condition struct {
	*comparison
	operand string
}

// meets reports whether a key is as the condition asks; e is nil where it is absent,
// and then differs from everything. As in Redis, the digest's length is looked at last,
// and the digits never.
func meets(c *Ctx, cond condition, e *store.Entry) (met bool, err error) {
	switch {
	case cond.comparison == nil:
		return true, nil
	case e == nil:
		return !cond.equal, nil
	case e.Aggregate() != nil:
		return false, resp.Error(resp.ErrWrongType)
	case !cond.digest:
		c.s.Meter.Spend(int64(len(cond.operand)))
		return (e.Str() == cond.operand) == cond.equal, nil
	case len(cond.operand) != digestDigits:
		return false, resp.Error(errDigestLength)
	}
	return strings.EqualFold(stringDigest(c, e), cond.operand) == cond.equal, nil
}

const digestDigits = 16

// digestWork is the work of a byte.
const digestWork = 2

// stringDigest returns the XXH3 hash of a string, 64 bits, with the default secret and no seed.
func stringDigest(c *Ctx, e *store.Entry) string {
	c.s.Meter.Spend(digestWork * int64(len(e.Str())))
	return fmt.Sprintf("%0*x", digestDigits, xxh3.HashString(e.Str()))
}

// lookupLock finds a key that must hold a lock, if it is there: a string, where many is nil, or one
// that several may hold.
func lookupLock(c *Ctx, key string) (e *store.Entry, many *lock.Many, err error) {
	if e = c.Lookup(key); e == nil || e.Aggregate() == nil {
		return e, nil, nil
	}
	if many = e.Lock(); many == nil {
		return nil, nil, resp.Error(resp.ErrWrongType)
	}
	c.s.Meter.Spend(value.LockWork(many))
	return e, many, nil
}
