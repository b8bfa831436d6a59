package track

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockd/resp"
)

// sent lists the invalidations of a client: keys, or "*" for any key.
type sent []string

func (l *sent) Invalidate(inv *Invalidation) {
	if inv.keys == nil {
		*l = append(*l, "*")
	}
	*l = append(*l, inv.keys...)
}

func (l *sent) want(t *testing.T, keys ...string) {
	t.Helper()
	if !slices.Equal(*l, keys) {
		t.Errorf("sent %q, want %q", *l, keys)
	}
	*l = nil
}

func newClient(t *Table, mode Mode, prefixes ...string) (*Client, *sent) {
	l := &sent{}
	c := &Client{Conn: l}
	t.Start(c, mode, prefixes)
	return c, l
}

func unlimited() int64 { return 0 }

// entry returns the changes of an entry.
func entry(index uint64, keys ...string) *resp.Message {
	m := &resp.Message{Kind: resp.MessageChanges, Index: index}
	for _, key := range keys {
		m.Changes = append(m.Changes, resp.Change{Kind: resp.ChangeKey, Key: key})
	}
	return m
}

// read is a whole request that reads keys, at the end of an entry, while other entries are
// published.
func read(t *Table, c *Client, index uint64, keys []string, meanwhile ...*resp.Message) {
	t.Begin(c)
	for _, m := range meanwhile {
		t.Publish(m)
	}
	a := t.Answer(c, Span{Index: index})
	for _, key := range keys {
		a.Read(key, 1<<20, true)
	}
	a.End(true)
}

func (t *Table) wantEmpty(test *testing.T) {
	test.Helper()
	for !t.Clean() {
	}
	n := len(t.unclean) + len(t.clients) + len(t.cached.readers) + t.cached.bytes + t.cached.items +
		len(t.prefixes.followers) + len(t.prefixes.tree.kids)
	if r := &t.recent; n+r.requests+len(r.list)+r.bytes != 0 || t.InUse() {
		test.Errorf("left: %+v", t)
	}
}

// A client gets one invalidation for a change after its read, whichever arrives first, and none for
// a change before the read.
func TestOrderOfReadsAndChanges(t *testing.T) {
	entries := func(list ...*resp.Message) []*resp.Message { return list }
	flush := &resp.Message{Index: 6, Changes: []resp.Change{{Kind: resp.ChangeAll}}}
	for _, tt := range []struct {
		name              string
		meanwhile, behind []*resp.Message
		during, after     []string
	}{
		{"a later change comes first", entries(entry(6, "k")), entries(entry(7, "k")), []string{"k"}, nil},
		{"a later change comes later", nil, entries(entry(6, "k"), entry(7, "k")), nil, []string{"k"}},
		{"an earlier change comes first", entries(entry(5, "k")), entries(entry(6, "k")), nil, []string{"k"}},
		{"an earlier change comes later", nil, entries(entry(5, "k"), entry(6, "other")), nil, nil},
		{"all was flushed", entries(flush), entries(entry(7, "k")), []string{"*"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := NewTable(unlimited)
			c, l := newClient(table, Mode{})
			read(table, c, 5, []string{"k"}, tt.meanwhile...)
			l.want(t, tt.during...)
			for _, m := range tt.behind {
				table.Publish(m)
			}
			l.want(t, tt.after...)
			table.Forget(c)
			table.wantEmpty(t)
		})
	}
}

// With NOLOOP a client gets no invalidation for what its own request has changed, also where this node
// applies that after the answer; it gets those for what others change in the same entry.
func TestOwnChanges(t *testing.T) {
	table := NewTable(unlimited)
	c, l := newClient(table, Mode{NoLoop: true})
	read(table, c, 4, []string{"a", "b"})
	table.Begin(c)
	a := table.Answer(c, Span{Index: 5, From: 1, To: 2}) // the second change of the entry
	a.End(true)
	table.Publish(entry(5, "a", "b"))
	l.want(t, "a")
	table.Publish(entry(6, "a", "b"))
	l.want(t, "b")
	if len(c.own) != 1 {
		t.Errorf("own changes: %v", c.own)
	}
	read(table, c, 6, nil)
	if len(c.own) != 0 {
		t.Errorf("own changes that were published are kept: %v", c.own)
	}
}

// A client that waits long gets the invalidations of keys cached before; those of keys that its request reads follow
// the reply.
func TestTellEarly(t *testing.T) {
	table := NewTable(unlimited)
	c, l := newClient(table, Mode{})
	b, lb := newClient(table, Mode{Broadcast: true}, "ea")
	read(table, c, 1, []string{"early"})
	table.Begin(c)
	table.Begin(b)
	table.Publish(entry(3, "early", "k"))
	l.want(t)
	for range 2 {
		table.SendEarly(c)
		table.SendEarly(b)
	}
	l.want(t, "early")
	lb.want(t, "early")
	a := table.Answer(c, Span{Index: 2})
	a.Read("k", 0, true)
	a.End(true)
	l.want(t, "k")
	a = table.Answer(b, Span{Index: 2})
	a.End(true)
	lb.want(t, "early") // once more
}

// What is not known for sure counts as a change of any key: an answer without its reads, more changes
// than are kept, changes that this node has missed.
func TestNotKnown(t *testing.T) {
	table := NewTable(unlimited)
	c, l := newClient(table, Mode{})
	table.Begin(c)
	a := table.Answer(c, Span{})
	a.End(false)
	l.want(t, "*")
	many := make([]string, recentChangesMax+1)
	read(table, c, 1, []string{"k"}, entry(2, many...))
	l.want(t, "*")
	read(table, c, 3, []string{"k"})
	table.Missed()
	l.want(t, "*")
	table.Publish(entry(4, "k"))
	l.want(t)
	if keys, items, _ := table.Sizes(); keys+items != 0 {
		t.Errorf("%d keys are kept", keys)
	}
}

// One message goes to all clients of a prefix; with NOLOOP each has its own, without what it
// has changed itself.
func TestBroadcast(t *testing.T) {
	table := NewTable(unlimited)
	all, la := newClient(table, Mode{Broadcast: true})
	some, ls := newClient(table, Mode{Broadcast: true, NoLoop: true}, "a:", "bb:")
	table.Publish(entry(1, "bb:2", "c:1", "a:1", "a:1"))
	la.want(t, "a:1", "bb:2", "c:1")
	ls.want(t, "a:1", "bb:2")
	table.Begin(some)
	a := table.Answer(some, Span{Index: 2, From: 0, To: 1})
	a.End(true)
	table.Publish(entry(2, "a:1", "bb:2"))
	la.want(t, "a:1", "bb:2")
	ls.want(t, "bb:2")
	table.Stop(all)
	table.Publish(entry(3, "a:1"))
	la.want(t)
	table.Forget(all)
	table.Forget(some)
	table.wantEmpty(t)
}

// The table has limits for keys and for their bytes: a key that has to go counts as changed.
// Where a limit becomes smaller, the table shrinks in steps.
func TestTableLimits(t *testing.T) {
	limit := int64(2)
	table := NewTable(func() int64 { return limit })
	c, l := newClient(table, Mode{})
	read(table, c, 1, []string{"a", "b", "a", "c"})
	if gone := *l; len(gone) != 1 || gone[0] != "a" && gone[0] != "b" {
		t.Errorf("sent %q", gone)
	}
	*l = nil
	limit = 0
	var keys []string
	for i := range 3 * evictionsMax {
		keys = append(keys, strconv.Itoa(i))
	}
	read(table, c, 1, keys)
	l.want(t)
	limit = 1
	steps := 1
	for ; !table.Shrink(); steps++ {
		if len(*l) != steps*evictionsMax {
			t.Fatalf("%d keys in %d steps", len(*l), steps)
		}
	}
	if n, _, _ := table.Sizes(); n != 1 || steps < 3 {
		t.Errorf("%d keys after %d steps", n, steps)
	}
	*l, limit = nil, 0
	huge := strings.Repeat("x", trackedBytesMax/40)
	for i := range 40 {
		read(table, c, 1, []string{fmt.Sprint(i) + huge})
	}
	if len(*l) == 0 || table.cached.bytes > trackedBytesMax {
		t.Errorf("%d bytes of names are kept", table.cached.bytes)
	}
}

// The number and length of prefixes are bounded; they must not overlap.
func TestPrefixes(t *testing.T) {
	const must = ". Prefixes for a single client must not overlap."
	table := NewTable(unlimited)
	c, _ := newClient(table, Mode{Broadcast: true}, "a")
	many := make([]string, prefixesMax)
	for i := range many {
		many[i] = fmt.Sprintf("%05d", i)
	}
	for _, tt := range []struct {
		prefixes []string
		why      string
	}{
		{[]string{strings.Repeat("x", prefixBytesMax+1)}, "ERR prefix is too long"},
		{[]string{"ab"}, "ERR Prefix 'ab' overlaps with an existing prefix 'a'" + must},
		{[]string{"b", "bc"}, "ERR Prefix 'b' overlaps with another provided prefix 'bc'" + must},
		{many, "ERR too many prefixes"},
		{make([]string, 1<<19), "ERR too many prefixes"}, // and that is all that is looked at
		{many[1:], ""},
	} {
		if err := c.Check(&Mode{Broadcast: true}, tt.prefixes); (err != nil || tt.why != "") && err != resp.Error(tt.why) {
			t.Errorf("%v, want %s", err, tt.why)
		}
	}
}

// What a flush has forgotten is not counted any more, as in Redis.
func TestSizesAfterAFlush(t *testing.T) {
	table := NewTable(unlimited)
	c, _ := newClient(table, Mode{})
	read(table, c, 1, []string{"a", "b"})
	if keys, items, _ := table.Sizes(); keys != 2 || items != 2 {
		t.Errorf("%d keys, %d items", keys, items)
	}
	table.Publish(&resp.Message{Index: 2, Changes: []resp.Change{{Kind: resp.ChangeAll}}})
	read(table, c, 3, []string{"c"})
	if keys, items, _ := table.Sizes(); keys != 1 || items != 1 {
		t.Errorf("%d keys, %d items after the flush", keys, items)
	}
}

// A flush, and the end of a client, do not iterate over the client's keys: Clean does, some at a time. Meanwhile the
// client gets no invalidations of these keys, but those of keys read since.
func TestManyKeysAreForgottenInPieces(t *testing.T) {
	const keys = 5 * cleanedMax
	name := strconv.Itoa
	table := NewTable(unlimited)
	c, l := newClient(table, Mode{})
	other, lo := newClient(table, Mode{})
	for i := range keys {
		table.cached.read(c, name(i), place{1, 1})
		table.cached.read(other, name(i), place{2, int64(i % 2 * 9)}) // half of them come after the flush
	}
	flush := resp.Change{Kind: resp.ChangeAll}
	table.Publish(&resp.Message{Index: 2, Changes: []resp.Change{flush, {Key: "none"}, flush}})
	l.want(t, "*")
	lo.want(t, "*")
	if len(c.dead) != keys || len(other.dead) != keys/2 || table.cached.items != 2*keys {
		t.Errorf("%d and %d keys to forget, %d items", len(c.dead), len(other.dead), table.cached.items)
	}
	read(table, c, 3, []string{"0", "1"})
	table.Publish(entry(4, "0", "2", "3"))
	l.want(t, "0")
	lo.want(t, "3")
	steps := 1
	for ; !table.Clean(); steps++ {
	}
	if most := keys * 3 / 2 / cleanedMax; steps < most || len(c.keys) != 1 || len(other.keys) != keys/2-1 ||
		table.cached.items != keys/2 {
		t.Errorf("%d steps; %d and %d keys, %d items", steps, len(c.keys), len(other.keys), table.cached.items)
	}
	table.Publish(entry(5, "1", "5"))
	l.want(t, "1")
	lo.want(t, "1", "5")
	table.Forget(other)
	if table.cached.items != keys/2-3 || !table.InUse() {
		t.Errorf("%d items after the end of a client", table.cached.items)
	}
	table.Publish(entry(6, "7"))
	lo.want(t)
	table.Forget(c)
	table.wantEmpty(t)
}

// There are bounds to how many clients may have read keys, and to what changes are told for each prefix.
func TestTableIsBounded(t *testing.T) {
	table := NewTable(unlimited)
	a, la := newClient(table, Mode{})
	b, lb := newClient(table, Mode{})
	read(table, a, 1, []string{"k", "j"})
	table.cached.items += trackedItemsMax - 2
	read(table, b, 1, []string{"k"})
	if gone := len(*la); gone != 1 || len(*lb) != 0 || table.cached.items != trackedItemsMax {
		t.Errorf("%d keys were let go, %d items", gone, table.cached.items)
	}
	*la = nil
	var all []*sent
	for n := range 300 {
		_, l := newClient(table, Mode{Broadcast: true}, strings.Repeat("z", n+1))
		all = append(all, l)
	}
	for changes, want := range map[int]int{broadcastMax/300 - 1: broadcastMax/300 - 1, broadcastMax/300 + 1: 1} {
		var keys []string
		for i := range changes {
			keys = append(keys, fmt.Sprint(strings.Repeat("z", 300), i))
		}
		table.Publish(entry(uint64(changes), keys...))
		for _, l := range all {
			if len(*l) != want || (want == 1) != ((*l)[0] == "*") {
				t.Fatalf("%d changes: told of %d", changes, len(*l))
			}
			*l = nil
		}
	}
}

// zeros are keys of 512 bytes and more, and clients with all prefixes of these.
func zeros(t *Table, n int) (keys []string, followers []*sent) {
	for n := range prefixBytesMax {
		_, l := newClient(t, Mode{Broadcast: true}, strings.Repeat("0", n+1))
		followers = append(followers, l)
	}
	for i := range n {
		keys = append(keys, strings.Repeat("0", prefixBytesMax)+strconv.Itoa(i))
	}
	return keys, followers
}

// An entry beyond the bound of prefixes looks for no more of them, also while a request is on its way.
func TestPrefixesAreSoughtUpToABound(t *testing.T) {
	table := NewTable(unlimited)
	const enough = broadcastMax/prefixBytesMax + 1
	keys, followers := zeros(table, 10*enough)
	waits, _ := newClient(table, Mode{})
	table.Begin(waits)
	index := uint64(0)
	work := func(keys []string) float64 {
		return testing.AllocsPerRun(1, func() {
			index++
			table.Publish(entry(index, keys...))
		})
	}
	if few, many := work(keys[:enough]), work(keys); many > 2*few {
		t.Errorf("%v allocations for %d keys, %v for %d", few, enough, many, len(keys))
	}
	for _, l := range followers {
		l.want(t, "*", "*", "*", "*")
	}
}

// An answer looks only for the client's own prefixes, and for none without BCAST.
func TestAnswerLooksForOwnPrefixes(t *testing.T) {
	table := NewTable(unlimited)
	keys, _ := zeros(table, 100)
	for i, tt := range []struct {
		mode     Mode
		prefixes []string
		told     int
	}{
		{Mode{}, nil, 0},
		{Mode{Broadcast: true}, []string{"1", "2"}, 0},
		{Mode{Broadcast: true}, []string{"00", "01"}, len(keys)},
		{Mode{Broadcast: true}, []string{keys[5]}, 1 + 10}, // 5, 50 to 59
		{Mode{Broadcast: true}, nil, len(keys)},
	} {
		c, l := newClient(table, tt.mode, tt.prefixes...)
		other, _ := newClient(table, Mode{})
		table.Begin(other) // so that the changes are kept
		from := table.recent.next()
		table.Publish(entry(1, keys...))
		work := testing.AllocsPerRun(1, func() {
			table.Begin(c)
			c.since, c.sent, *l = from, from, nil
			table.SendEarly(c)
			a := table.Answer(c, Span{Index: 1})
			a.End(true)
		})
		if n := len(*l); n != 2*tt.told || work > 100 {
			t.Errorf("case %d: told %d keys with %v allocations", i, n, work)
		}
		a := table.Answer(other, Span{Index: 1})
		a.End(true)
		table.Forget(c)
	}
}

// A client that takes every key after some prefixes gets what is under each of them, also while it waits.
func TestPrefixesAndEveryKey(t *testing.T) {
	table := NewTable(unlimited)
	c, l := newClient(table, Mode{Broadcast: true}, "b", "ab", "ac")
	table.Start(c, c.Mode, nil)
	m := entry(1, "", "a", "ab", "aba", "ad", "b", "c")
	want := []string{"", "a", "ab", "aba", "ad", "b", "c", "ab", "aba", "b"}
	table.Publish(m)
	l.want(t, want...)
	read(table, c, 1, nil, m)
	l.want(t, want...)
	if got := c.Prefixes(); !slices.Equal(got, []string{"", "ab", "ac", "b"}) {
		t.Errorf("prefixes %q", got)
	}
	table.Forget(c)
	table.wantEmpty(t)
}

// flushes are changes of everything, followed by changes of keys.
func flushes(index uint64, n int, keys ...string) *resp.Message {
	m := entry(index, keys...)
	m.Changes = append(slices.Repeat([]resp.Change{{Kind: resp.ChangeAll}}, n), m.Changes...)
	return m
}

// An answer, and what is sent before it, look at a bounded number of changes; beyond it any key may have changed.
func TestAnswerLooksAtABoundedNumber(t *testing.T) {
	var keys []string
	for i := range answerChangesMax + 1 {
		keys = append(keys, fmt.Sprintf("%05d", i))
	}
	enough, flushed := keys[1:], []string{"*"}
	for _, tt := range []struct {
		name         string
		changes      *resp.Message
		reads, bcast []string // what is told to a client that has read two keys, and to one of BCAST
	}{
		{"enough", entry(2, enough...), enough[1:2], enough},
		{"too many", entry(2, keys...), flushed, flushed},
		{"enough after a flush", flushes(2, 1, enough[1:]...), flushed, append([]string{"*"}, enough[1:]...)},
		{"too many before a flush", flushes(2, recentChangesMax-9), flushed, flushed},
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", early ", early), func(t *testing.T) {
				table := NewTable(unlimited)
				reads, lr := newClient(table, Mode{})
				bcast, lb := newClient(table, Mode{Broadcast: true})
				read(table, reads, 1, []string{keys[2], "other"})
				table.Begin(reads)
				table.Begin(bcast)
				table.Publish(tt.changes)
				if early {
					for range 3 {
						table.SendEarly(reads)
						table.SendEarly(bcast)
					}
					lr.want(t, tt.reads...)
					lb.want(t, tt.bcast...)
				}
				for _, c := range []*Client{reads, bcast} {
					a := table.Answer(c, Span{Index: 1})
					if n := len(a.rest); n > answerChangesMax {
						t.Errorf("the answer looks at %d changes", n)
					}
					for pos := range 3 {
						a.UpTo(int64(pos))
					}
					a.End(true)
				}
				lb.want(t, tt.bcast...)
				if !early {
					lr.want(t, tt.reads...)
				}
				table.Forget(reads)
				table.Forget(bcast)
				table.wantEmpty(t)
			})
		}
	}
}

// Many flushes while a client waits are one for it, however many commands its request has.
func TestFlushesMeanwhileAreOne(t *testing.T) {
	table := NewTable(unlimited)
	c, l := newClient(table, Mode{})
	table.Begin(c)
	table.Publish(flushes(2, 100, "k", "j"))
	a := table.Answer(c, Span{Index: 2, From: 0, To: 100})
	for pos := range 100 {
		a.Read("k", int64(pos), true)
	}
	a.Read("j", 102, true)
	a.End(true)
	l.want(t, "*")
	table.Publish(entry(3, "k", "j"))
	l.want(t, "j")
}

// Whatever comes in whatever order, no client keeps an answer in its cache that a later change of another has made
// stale.
func TestNoCacheIsStale(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		table := NewTable(unlimited)
		var all []*cache
		for range 6 {
			one := &cache{reads: map[string]place{}}
			one.Client = &Client{Conn: one}
			mode := Mode{NoLoop: random.IntN(2) == 0, Broadcast: random.IntN(2) == 0}
			table.Start(one.Client, mode, nil)
			all = append(all, one)
		}
		key := func() string { return strconv.Itoa(random.IntN(4)) }
		var log []*resp.Message // of the leader, from index 1 on
		published := 0
		changed := map[string][]place{}
		for range 400 {
			one := all[random.IntN(len(all))]
			switch random.IntN(6) {
			case 0:
				m := entry(uint64(len(log)+1), key(), key())
				switch random.IntN(50) {
				case 0:
					m.Changes = slices.Insert(m.Changes, random.IntN(3), resp.Change{Kind: resp.ChangeAll})
				case 1:
					m.Changes = slices.Repeat(m.Changes, answerChangesMax/4)
				}
				for i, ch := range m.Changes {
					at := place{m.Index, int64(i + 1)}
					if ch.Kind != resp.ChangeAll {
						changed[ch.Key] = append(changed[ch.Key], at)
						continue
					}
					for i := range 4 {
						changed[strconv.Itoa(i)] = append(changed[strconv.Itoa(i)], at)
					}
				}
				log = append(log, m)
			case 1, 2:
				if published < len(log) {
					table.Publish(log[published])
					published++
				}
			case 3:
				if one.waiting {
					table.SendEarly(one.Client)
				} else {
					table.Begin(one.Client)
					one.begun = len(log)
				}
			default:
				if one.waiting {
					one.answer(table, random, log, key)
				}
			}
		}
		for _, one := range all {
			if one.waiting {
				one.answer(table, random, log, key)
			}
		}
		for _, m := range log[published:] {
			table.Publish(m)
		}
		for i, one := range all {
			for key, since := range one.reads {
				for _, at := range changed[key] {
					own := one.NoLoop && slices.ContainsFunc(one.made, func(s Span) bool { return s.has(at) })
					if at.after(since) && !own {
						t.Fatalf("seed %d: client %d keeps %s of %v, which changed at %v", seed, i, key, since, at)
					}
				}
			}
		}
	}
}

// cache is a client that caches what it reads.
type cache struct {
	*Client
	reads map[string]place
	begun int    // length of the log when its request began
	made  []Span // its own changes
}

func (c *cache) Invalidate(inv *Invalidation) {
	if inv.keys == nil {
		clear(c.reads)
	}
	for _, key := range inv.keys {
		delete(c.reads, key)
	}
}

// answer answers a request: it is the first of an entry's changes since it began, or reads some of the log.
func (c *cache) answer(t *Table, random *rand.Rand, log []*resp.Message, key func() string) {
	at := c.begun + random.IntN(len(log)-c.begun+1)
	made := Span{Index: uint64(at)}
	if at > c.begun && log[at-1].Changes[0].Kind == resp.ChangeKey && len(log[at-1].Changes) == 2 && c.first(log[at-1]) {
		made.To = 1
		c.made = append(c.made, made)
	}
	a := t.Answer(c.Client, made)
	for range random.IntN(3) {
		k := key()
		if _, has := c.reads[k]; !has {
			c.reads[k] = place{made.Index, 2 + answerChangesMax}
		}
		a.Read(k, 2+answerChangesMax, true)
	}
	a.End(random.IntN(30) > 0)
}

// first reports whether nobody has made an entry's first change before, and notes that somebody has.
func (c *cache) first(m *resp.Message) bool {
	free := m.Channel == ""
	m.Channel = "made"
	return free
}

// messages are the invalidations of a client.
type messages []*Invalidation

func (m *messages) Invalidate(inv *Invalidation) { *m = append(*m, inv) }

// Clients of NOLOOP share one message, but for those with changes of their own in the entry. The messages of these are
// bounded together; beyond the bound any key may have changed.
func TestOwnMessagesAreBounded(t *testing.T) {
	const clients, keys = 48, ownMax / 32 // so that a third of them get all of their own
	table := NewTable(unlimited)
	start := func(noLoop bool) (*Client, *messages) {
		m := &messages{}
		c := &Client{Conn: m}
		table.Start(c, Mode{Broadcast: true, NoLoop: noLoop}, []string{"a", "b"})
		return c, m
	}
	var names []string
	for i := range keys {
		names = append(names, string('a'+byte(i%2))+strconv.Itoa(i))
	}
	_, plain := start(false)
	var makers, others []*messages
	for i := range clients {
		c, m := start(true)
		table.Begin(c)
		a := table.Answer(c, Span{Index: 2, From: int64(i), To: int64(i + 1)})
		a.End(true)
		makers = append(makers, m)
		_, m = start(true)
		others = append(others, m)
	}
	for _, index := range []uint64{1, 2} {
		table.Publish(entry(index, names...))
		shared := (*plain)[:2]
		if n := len(shared[0].keys) + len(shared[1].keys); n != keys {
			t.Fatalf("%d keys of %d", n, keys)
		}
		told, lost := 0, 0
		for i, m := range append(others, makers...) {
			if slices.Equal(*m, shared) {
				if index == 2 && i >= clients {
					t.Errorf("client %d gets its own change", i)
				}
			} else if i < clients || index == 1 {
				t.Errorf("client %d has %d messages of its own", i, len(*m))
			} else {
				for _, inv := range *m {
					if told += len(inv.keys); inv.keys == nil {
						lost++
					} else if slices.Contains(inv.keys, names[i-clients]) {
						t.Errorf("client %d gets its own change", i)
					}
				}
				if len(*m) != 2 || (*m)[0].keys == nil {
					t.Errorf("client %d gets %d messages", i, len(*m))
				}
			}
			*m = nil
		}
		if index == 2 && (told > ownMax || told < ownMax-clients || lost != clients*2/3) {
			t.Errorf("told of %d keys, and of any key %d times", told, lost)
		}
		*plain = nil
	}
}

// An entry tells the readers of its keys one by one, up to a bound; beyond it they are told that any key may have
// changed. Its messages count together, and no client keeps a key that has changed, also one that waits for an answer.
func TestEntryTellsABoundedNumber(t *testing.T) {
	const clients = 128
	for name, beyond := range map[string][]int{"one message": {0, 1, 50}, "many messages": {50}} {
		for _, more := range beyond { // keys
			t.Run(fmt.Sprint(name, ", ", more), func(t *testing.T) {
				var keys []string
				for i := range toldMax/clients + more {
					keys = append(keys, strconv.Itoa(i))
				}
				table := NewTable(unlimited)
				var all []*Client
				var lists []*sent
				for range clients {
					c, l := newClient(table, Mode{})
					read(table, c, 1, keys)
					all, lists = append(all, c), append(lists, l)
				}
				waits, later := all[0], all[1]
				table.Begin(waits)
				read(table, later, 9, []string{"of later"})
				m := entry(2, keys...)
				if name == "many messages" {
					for i := range m.Changes {
						table.Publish(&resp.Message{Index: 2, From: i, Changes: m.Changes[i : i+1]})
					}
				} else {
					table.Publish(m)
				}
				lists[0].want(t)
				a := table.Answer(waits, Span{Index: 2})
				a.End(true)
				for i, c := range all {
					flushed := slices.Contains(*lists[i], "*")
					if i > 0 && flushed != (more > 1 || more == 1 && c == later) || len(*lists[i]) < len(keys)-more || len(*lists[i]) > len(keys)+1 {
						t.Fatalf("client %d was told %d times of %d keys, of any: %v", i, len(*lists[i]), len(keys), flushed)
					}
					if left := len(c.keys); left > 1 || left == 1 && c != later {
						t.Fatalf("client %d still has %d keys", i, left)
					}
				}
				table.Publish(entry(10, "of later"))
				if l := *lists[1]; l[len(l)-1] != "of later" {
					t.Errorf("%q: the next entry does not begin anew", l[len(l)-1])
				}
				for _, c := range all {
					table.Forget(c)
				}
				table.wantEmpty(t)
			})
		}
	}
}

// The tree finds the prefixes that keys have, whatever was added and removed.
func TestPrefixTree(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, random.IntN(6))
		for i := range b {
			b[i] = byte('a' + random.IntN(2))
		}
		return string(b)
	}
	var tree prefixTree
	have := map[string]bool{}
	for range 5000 {
		if p := word(); have[p] {
			delete(have, p)
			tree.remove(p)
		} else {
			have[p] = true
			tree.add(p)
		}
		key := word()
		var got, want []string
		tree.each(key, func(p string) { got = append(got, p) })
		for n := range len(key) + 1 {
			if have[key[:n]] {
				want = append(want, key[:n])
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", key, got, want)
		}
	}
	for p := range have {
		tree.remove(p)
	}
	if tree.ends || len(tree.kids) > 0 {
		t.Errorf("left: %+v", tree)
	}
}

// BenchmarkPrefixLengths is the worst that BCAST makes of one change: a prefix of each length parts from the key at its
// end.
func BenchmarkPrefixLengths(b *testing.B) {
	t := NewTable(unlimited)
	c := &Client{Conn: &sent{}}
	var prefixes []string
	for n := 1; n <= prefixBytesMax; n++ {
		prefixes = append(prefixes, strings.Repeat("z", n-1)+"a")
	}
	t.Start(c, Mode{On: true, Broadcast: true}, prefixes)
	m := entry(1, strings.Repeat("z", prefixBytesMax))
	for b.Loop() {
		t.Publish(m)
	}
}
