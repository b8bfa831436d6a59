package command

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/settings"
	"lockd/keyspace/value"
	"lockd/resp"
)

var streamRows = []row{
	{Spec: resp.Spec{
		Name: "xadd", Arity: -5, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey, Access: "RW update",
		Group: "stream", Since: "5.0.0", Summary: "Appends a new entry to a stream",
		Syntax: "key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field " +
			"value ...]",
	}, Parse: parseXAdd},
	{Spec: resp.Spec{
		Name: "xtrim", Arity: -4, Flags: resp.Write, Keys: resp.FirstKey, Access: "RW delete",
		Group: "stream", Since: "5.0.0", Summary: "Trims the stream to (approximately if '~' is passed) a certain size",
		Syntax: "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count]",
	}, Parse: parseXTrim},
	{Spec: resp.Spec{
		Name: "xlen", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "stream", Since: "5.0.0", Summary: "Return the number of entries in a stream",
		Syntax: "key",
	}, Parse: ofKey(xlen)},
	{Spec: resp.Spec{
		Name: "xrange", Arity: -4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "stream", Since: "5.0.0",
		Summary: "Return a range of elements in a stream, with IDs matching the specified IDs interval",
		Syntax:  "key start end [COUNT count]",
	}, Parse: parseStreamRange(false)},
	{Spec: resp.Spec{
		Name: "xrevrange", Arity: -4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "stream", Since: "5.0.0",
		Summary: "Return a range of elements in a stream, with IDs matching the specified IDs interval, in reverse " +
			"order (from greater to smaller IDs) compared to XRANGE",
		Syntax: "key end start [COUNT count]",
	}, Parse: parseStreamRange(true)},
	{Spec: resp.Spec{
		Name: "xdel", Arity: -3, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW delete",
		Group: "stream", Since: "5.0.0",
		Summary: "Removes the specified entries from the stream. Returns the number of items actually deleted, that " +
			"may be different from the number of IDs passed in case certain IDs do not exist.",
		Syntax: "key id [id ...]",
	}, Parse: ofKeyAndMany(xdel)},
	{Spec: resp.Spec{
		Name: "xsetid", Arity: -3, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW update",
		Group: "stream", Since: "5.0.0", Summary: "An internal command for replicating stream values",
		Syntax: "key last-id [ENTRIESADDED entries_added] [MAXDELETEDID max_deleted_entry_id]",
	}, Parse: parseXSetID},
	withHelp("5.0.0", row{Spec: resp.Spec{
		Name: "xinfo", Arity: -2,
		Group: "stream", Since: "5.0.0", Summary: "A container for stream introspection commands",
	}, Subs: []row{
		{Spec: resp.Spec{
			Name: "xinfo|stream", Arity: -3, Flags: resp.ReadOnly, Keys: resp.SubKey,
			Group: "stream", Since: "5.0.0", Summary: "Get information about a stream",
			Syntax: "key [FULL [COUNT count]]",
		}, Parse: parseXInfo},
	}}),
}

// The error texts that only these commands use.
const (
	errStreamID         = "ERR Invalid stream ID specified as stream command argument"
	errStreamIDZero     = "ERR The ID specified in XADD must be greater than 0-0"
	errStreamIDSmall    = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
	errStreamFull       = "ERR The stream has exhausted the last possible ID, unable to add more items"
	errStreamTooLarge   = "ERR Elements are too large to be stored"
	errStreamStart      = "ERR invalid start ID for the interval"
	errStreamEnd        = "ERR invalid end ID for the interval"
	errTrimTwice        = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
	errTrimLength       = "ERR The MAXLEN argument must be >= 0."
	errTrimLimit        = "ERR The LIMIT argument must be >= 0."
	errTrimLimitAlone   = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
	errTrimLimitExact   = "ERR syntax error, LIMIT cannot be used without the special ~ option"
	errTrimNone         = "ERR syntax error, XTRIM must be called with a trimming strategy"
	errSetIDAdded       = "ERR entries_added must be positive"
	errSetIDAddedSmall  = "ERR The entries_added specified in XSETID is smaller than the target stream length"
	errSetIDDeleted     = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
	errSetIDDeletedHere = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
	errSetIDSmall       = "ERR The ID specified in XSETID is smaller than the target stream top item"
	errXInfoSyntax      = "ERR unknown subcommand or wrong number of arguments for '%s'. Try XINFO HELP."
)

// streamIDLenMax bounds the text of an id, as in Redis.
const streamIDLenMax = 127

// parseStreamID reads ms or ms-seq, as Redis does: each number is what C's strtoull
// takes, and a NUL byte ends it. missing is the second number where there is none;
// open says that it is *, for XADD to choose.
func parseStreamID(s string, missing uint64) (id value.StreamID, open, ok bool) {
	if len(s) > streamIDLenMax {
		return id, false, false
	}
	s, _, _ = strings.Cut(s, "\x00")
	ms, seq, both := strings.Cut(s, "-")
	id.Seq = missing
	if id.Ms, ok = parseStreamNumber(ms); !ok || !both {
		return id, false, ok
	}
	if seq == "*" {
		return value.StreamID{Ms: id.Ms}, true, true
	}
	id.Seq, ok = parseStreamNumber(seq)
	return id, false, ok
}

func parseStreamNumber(s string) (uint64, bool) {
	if n, ok := resp.ParseInt(s); ok {
		return uint64(n), n >= 0
	}
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	n, ok := arg.ParseCursor(s) // the same function of C
	return n, ok && s != ""
}

// parseExactID reads an id of one entry.
func parseExactID(s string, missing uint64) (id value.StreamID, ok bool) {
	id, open, ok := parseStreamID(s, missing)
	return id, ok && !open
}

// parseRangeID reads an end of a range: an id, - or +, the lowest and the highest.
func parseRangeID(s string, missing uint64) (id value.StreamID, ok bool) {
	switch s {
	case "-":
		return value.MinStreamID, true
	case "+":
		return value.MaxStreamID, true
	}
	return parseExactID(s, missing)
}

// trimming has what the options MAXLEN and MINID ask for.
type trimming struct {
	by     trimBy
	maxLen int64
	minID  value.StreamID
	nearly bool  // ~: whole nodes only
	limit  int64 // of entries at a time; 0: none
}

type trimBy int

const (
	trimNothing trimBy = iota
	trimByLength
	trimByID
)

// most returns how many entries may be removed from the start of a stream, to which next, if it is not nil, will be
// added.
func (t trimming) most(s *value.Stream, next *value.Item) int {
	size, n := int64(s.Len()), int64(0)
	if next != nil {
		size++
	}
	switch t.by {
	case trimByLength:
		n = max(0, size-t.maxLen)
	case trimByID:
		n = int64(s.Before(t.minID))
		if n == int64(s.Len()) && next != nil && next.ID.Compare(t.minID) < 0 {
			n++
		}
	}
	if t.nearly && t.limit > 0 {
		n = min(n, t.limit)
	}
	return int(n)
}

// trimmedBy returns how many entries are removed: with ~ whole nodes, as Redis cuts streams. It reports false where
// finding that out is more work than the request may do.
func trimmedBy(c *Ctx, t trimming, s *value.Stream, next *value.Item) (n int, ok bool) {
	n, ok = t.most(s, next), true
	if t.nearly && n > 0 {
		n, ok = s.WholeNodes(n, c.s.Settings.StreamNodes, next, c.s.Meter.Affords)
	}
	return n, ok
}

// xaddOptions has the arguments of XADD and XTRIM behind the key.
type xaddOptions struct {
	trimming
	limited bool // LIMIT was given
	noMake  bool // NOMKSTREAM
	given   bool // the id is not *
	id      value.StreamID
	open    bool // of the id only the first number is given: ms-*
}

// parse reads options up to the id of XADD, or all, and returns what follows.
func (o *xaddOptions) parse(args resp.Args, add bool) (rest resp.Args, err error) {
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch word := args[i]; {
		case add && word == "*":
			return args[i+1:], nil
		case more && resp.Is(word, "MAXLEN"), more && resp.Is(word, "MINID"):
			used, err := o.parseThreshold(args[i:])
			if err != nil {
				return nil, err
			}
			i += used
		case more && resp.Is(word, "LIMIT"):
			i++
			if err := o.parseLimit(args[i]); err != nil {
				return nil, err
			}
		case add && resp.Is(word, "NOMKSTREAM"):
			o.noMake = true
		case add:
			if o.id, o.open, o.given = parseStreamID(word, 0); !o.given {
				return nil, resp.Error(errStreamID)
			}
			return args[i+1:], nil
		default:
			return nil, resp.Error(resp.ErrSyntax)
		}
	}
	return nil, nil
}

// parseThreshold reads MAXLEN or MINID with what belongs to it, and returns how many
// arguments that is.
func (o *xaddOptions) parseThreshold(args resp.Args) (used int, err error) {
	if o.by != trimNothing {
		return 0, resp.Error(errTrimTwice)
	}
	used = 1
	o.nearly = len(args) > 2 && args[1] == "~"
	if o.nearly || len(args) > 2 && args[1] == "=" {
		used = 2
	}
	if resp.Is(args[0], "MINID") {
		o.by = trimByID
		var ok bool
		if o.minID, ok = parseExactID(args[used], 0); !ok {
			return 0, resp.Error(errStreamID)
		}
		return used, nil
	}
	o.by = trimByLength
	n, ok := resp.ParseInt(args[used])
	switch o.maxLen = n; {
	case !ok:
		return 0, resp.Error(resp.ErrNotInteger)
	case n < 0:
		return 0, resp.Error(errTrimLength)
	}
	return used, nil
}

func (o *xaddOptions) parseLimit(word string) error {
	n, ok := resp.ParseInt(word)
	switch o.limit, o.limited = n, true; {
	case !ok:
		return resp.Error(resp.ErrNotInteger)
	case n < 0:
		return resp.Error(errTrimLimit)
	}
	return nil
}

// check refuses options that do not go together.
func (o *xaddOptions) check(add bool) error {
	switch {
	case o.limit != 0 && o.by == trimNothing:
		return resp.Error(errTrimLimitAlone)
	case !add && o.by == trimNothing:
		return resp.Error(errTrimNone)
	case o.limited && !o.nearly:
		return resp.Error(errTrimLimitExact)
	}
	return nil
}

// trim returns what is asked for, with the limit of the settings where ~ has none of its own.
func (o *xaddOptions) trim(set *settings.Values) trimming {
	t := o.trimming
	if !o.limited && o.nearly {
		t.limit = set.StreamTrimMax()
	}
	return t
}

// xaddCall is XADD.
type xaddCall struct {
	key string
	xaddOptions
	fields resp.Args
}

func parseXAdd(args resp.Args) (call, error) {
	r := &xaddCall{key: args[1]}
	o := &r.xaddOptions
	var err error
	if r.fields, err = o.parse(args[2:], true); err != nil {
		return nil, err
	}
	if err = o.check(true); err != nil {
		return nil, err
	}
	switch {
	case len(r.fields) < 2 || len(r.fields)%2 != 0:
		return nil, wrongArity("xadd")
	case o.given && !o.open && o.id == value.MinStreamID:
		return nil, resp.Error(errStreamIDZero)
	}
	return r, nil
}

func (o *xaddCall) Run(c *Ctx) resp.Reply {
	key := o.key
	s, err := lookupStream(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case s == nil && o.noMake:
		return resp.Nil()
	}
	last := value.MinStreamID
	if s != nil {
		last = s.LastID
	}
	id, err := nextStreamID(c, last, &o.xaddOptions)
	if err != nil {
		return resp.Fail(err)
	}
	it, old := value.NewItem(id, o.fields), s
	if old == nil {
		old = value.NewStream(0)
	}
	trimmed, ok := trimmedBy(c, o.trim(c.s.Settings), old, &it)
	if !ok || !c.s.Meter.HasRoom(trimWork*int64(trimmed)) {
		return resp.Err(meter.ErrWork)
	}
	addItem(c, key, it, trimmed)
	return resp.Bulk(id.String())
}

// nextStreamID returns the id of an entry that is to come after last. XADD * takes its
// milliseconds from the entry of the log, and ids rise even where that clock falls.
func nextStreamID(c *Ctx, last value.StreamID, o *xaddOptions) (id value.StreamID, err error) {
	id = o.id
	switch now := uint64(max(0, c.WallMs())); {
	case last == value.MaxStreamID:
		return id, resp.Error(errStreamFull)
	case !o.given && now > last.Ms:
		return value.StreamID{Ms: now}, nil
	case !o.given:
		id, _ = last.Next()
	case o.open && id.Ms == last.Ms:
		id, _ = last.Next()
		if id.Ms != last.Ms {
			return id, resp.Error(errStreamTooLarge) // Redis's own slip
		}
	}
	if id.Compare(last) <= 0 {
		return id, resp.Error(errStreamIDSmall)
	}
	return id, nil
}

// trimWork is the work of removing the first entry of a stream.
const trimWork = 2 * value.FindWork

// addItem adds an entry to the stream at key, and removes some from its start.
func addItem(c *Ctx, key string, it value.Item, trimmed int) {
	editStream(c, key, func(s *value.Stream) {
		c.s.Meter.Spend(value.TreeWork(s.Len()) + value.CopyWork*it.Bytes())
		s.Add(it)
		trimStream(c, s, trimmed)
	})
	c.Notify(emit.Stream, "xadd", key)
	if trimmed > 0 {
		c.Notify(emit.Stream, "xtrim", key)
	}
}

// trimStream removes the first entries of a stream that may be changed.
func trimStream(c *Ctx, s *value.Stream, n int) {
	c.s.Meter.Spend(trimWork * int64(n))
	s.Trim(n)
}

// xtrimCall is XTRIM.
type xtrimCall struct {
	key string
	xaddOptions
}

func parseXTrim(args resp.Args) (call, error) {
	r := &xtrimCall{key: args[1]}
	if _, err := r.parse(args[2:], false); err != nil {
		return nil, err
	}
	if err := r.check(false); err != nil {
		return nil, err
	}
	return r, nil
}

func (o *xtrimCall) Run(c *Ctx) resp.Reply {
	key := o.key
	s, err := lookupStream(c, key)
	if err != nil || s == nil {
		return orZero(err)
	}
	n, ok := trimmedBy(c, o.trim(c.s.Settings), s, nil)
	switch {
	case !ok, n < s.Len() && !c.s.Meter.HasRoom(trimWork*int64(n)):
		return resp.Err(meter.ErrWork)
	case n == 0:
		return resp.Int(0)
	}
	editStream(c, key, func(s *value.Stream) { trimStream(c, s, n) })
	c.Notify(emit.Stream, "xtrim", key)
	return resp.Int(int64(n))
}

func xlen(c *Ctx, key string) resp.Reply {
	s, err := lookupStream(c, key)
	if err != nil || s == nil {
		return orZero(err)
	}
	return resp.Int(int64(s.Len()))
}

// streamRangeCall is XRANGE or XREVRANGE.
type streamRangeCall struct {
	key      string
	from, to value.StreamID
	count    int64 // -1: not given
	reverse  bool
}

func parseStreamRange(reverse bool) parser {
	return func(args resp.Args) (call, error) {
		r := &streamRangeCall{key: args[1], reverse: reverse}
		start, end := args[2], args[3]
		if reverse {
			start, end = end, start
		}
		var err error
		if r.from, r.to, err = parseStreamEnds(start, end); err != nil {
			return nil, err
		}
		if r.count, err = parseStreamCount(args[4:]); err != nil {
			return nil, err
		}
		return r, nil
	}
}

func (r *streamRangeCall) Run(c *Ctx) resp.Reply {
	s, err := lookupStream(c, r.key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case s == nil:
		return resp.Array()
	case r.count == 0:
		return resp.NilArray()
	}
	return itemsReply(c, s, r.from, r.to, max(0, r.count), r.reverse)
}

// parseStreamEnds reads the ends of a range, ( before one that is not part of it.
func parseStreamEnds(start, end string) (from, to value.StreamID, err error) {
	word, open := strings.CutPrefix(start, "(")
	from, ok := parseStreamEnd(start, word, open, 0)
	if !ok {
		return from, to, resp.Error(errStreamID)
	}
	if open {
		if from, ok = from.Next(); !ok {
			return from, to, resp.Error(errStreamStart)
		}
	}
	word, open = strings.CutPrefix(end, "(")
	if to, ok = parseStreamEnd(end, word, open, value.MaxStreamID.Seq); !ok {
		return from, to, resp.Error(errStreamID)
	}
	if open {
		if to, ok = to.Previous(); !ok {
			return from, to, resp.Error(errStreamEnd)
		}
	}
	return from, to, nil
}

// parseStreamEnd reads an end. A parenthesis (open) goes with ids only, not with - and +.
func parseStreamEnd(whole, word string, open bool, missing uint64) (value.StreamID, bool) {
	if open {
		return parseExactID(word, missing)
	}
	return parseRangeID(whole, missing)
}

// parseStreamCount reads COUNT; -1 where it is not given.
func parseStreamCount(args resp.Args) (count int64, err error) {
	count = -1
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) || !resp.Is(args[i], "COUNT") {
			return 0, resp.Error(resp.ErrSyntax)
		}
		n, ok := resp.ParseInt(args[i+1])
		if !ok {
			return 0, resp.Error(resp.ErrNotInteger)
		}
		count = max(0, n)
	}
	return count, nil
}

// itemWork is the work of answering an entry, besides its fields.
const itemWork = 8 * value.VisitWork

// itemsReply answers the entries from one id to another, at most count of them, all
// where it is 0. It gives up where they are too many for one reply.
func itemsReply(c *Ctx, s *value.Stream, from, to value.StreamID, count int64, reverse bool) resp.Reply {
	elems, size := []resp.Reply{}, int64(0)
	c.s.Meter.Spend(value.TreeWork(s.Len()))
	s.Visit(from, to, reverse, func(it value.Item) bool {
		c.s.Meter.Spend(itemWork + value.VisitWork*int64(len(it.Fields)))
		r := itemReply(it)
		elems, size = append(elems, r), size+r.Size()
		return size <= meter.ReplyBytesMax && int64(len(elems)) != count && !c.s.Meter.Exceeded()
	})
	if c.s.Meter.Exceeded() {
		return resp.Err(meter.ErrWork)
	}
	if size > meter.ReplyBytesMax {
		c.s.Meter.Spend(size)
		return resp.Err(meter.ErrReplyTooLarge)
	}
	return resp.Array(elems...)
}

func itemReply(it value.Item) resp.Reply {
	return resp.Array(resp.Bulk(it.ID.String()), resp.Bulks(it.Fields...))
}

// xdel judges the ids after the key, as Redis does.
func xdel(c *Ctx, key string, words []string) resp.Reply {
	s, err := lookupStream(c, key)
	if err != nil || s == nil {
		return orZero(err)
	}
	if !c.s.Meter.Affords(2 * value.TreeWork(s.Len()) * int64(len(words))) {
		return resp.Err(meter.ErrWork)
	}
	ids := make([]value.StreamID, len(words))
	found := false
	for i, word := range words {
		id, ok := parseExactID(word, 0)
		if !ok {
			return resp.Err(errStreamID)
		}
		ids[i] = id
		found = found || s.Holds(ids[i])
	}
	if !found {
		return resp.Int(0)
	}
	var n int64
	editStream(c, key, func(s *value.Stream) {
		for _, id := range ids {
			if s.Delete(id) {
				n++
			}
		}
	})
	c.Notify(emit.Stream, "xdel", key)
	return resp.Int(n)
}

// setIDOptions has the options of XSETID.
type setIDOptions struct {
	added   int64 // -1: not given
	deleted value.StreamID
}

func parseSetID(id value.StreamID, args resp.Args) (o setIDOptions, err error) {
	o.added = -1
	for i := 0; i < len(args); i += 2 {
		var ok bool
		more := i+1 < len(args)
		switch {
		case more && resp.Is(args[i], "ENTRIESADDED"):
			if o.added, ok = resp.ParseInt(args[i+1]); !ok {
				return o, resp.Error(resp.ErrNotInteger)
			}
			if o.added < 0 {
				return o, resp.Error(errSetIDAdded)
			}
		case more && resp.Is(args[i], "MAXDELETEDID"):
			if o.deleted, ok = parseExactID(args[i+1], 0); !ok {
				return o, resp.Error(errStreamID)
			}
			if id.Compare(o.deleted) < 0 {
				return o, resp.Error(errSetIDDeleted)
			}
		default:
			return o, resp.Error(resp.ErrSyntax)
		}
	}
	return o, nil
}

// xsetIDCall is XSETID.
type xsetIDCall struct {
	key string
	id  value.StreamID
	setIDOptions
}

func parseXSetID(args resp.Args) (call, error) {
	id, ok := parseExactID(args[2], 0)
	if !ok {
		return nil, resp.Error(errStreamID)
	}
	o, err := parseSetID(id, args[3:])
	if err != nil {
		return nil, err
	}
	return &xsetIDCall{args[1], id, o}, nil
}

func (o *xsetIDCall) Run(c *Ctx) resp.Reply {
	key, id := o.key, o.id
	s, err := lookupStream(c, key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case s == nil:
		return resp.Err(resp.ErrNoSuchKey)
	case id.Compare(s.DeletedID) < 0:
		return resp.Err(errSetIDDeletedHere)
	case s.HasAfter(id):
		return resp.Err(errSetIDSmall)
	case o.added >= 0 && int64(s.Len()) > o.added:
		return resp.Err(errSetIDAddedSmall)
	}
	editStream(c, key, func(s *value.Stream) {
		s.LastID = id
		if o.added >= 0 {
			s.Added = uint64(o.added)
		}
		if o.deleted != value.MinStreamID {
			s.DeletedID = o.deleted
		}
	})
	c.Notify(emit.Stream, "xsetid", key)
	return resp.OK()
}

// fullCount is the number of entries that XINFO STREAM FULL shows without COUNT.
const fullCount = 10

// xinfoCall is XINFO STREAM. Run judges FULL, after the key, as Redis does.
type xinfoCall struct {
	word, key string // the subcommand as it was written
	options   resp.Args
}

func parseXInfo(args resp.Args) (call, error) { return &xinfoCall{args[1], args[2], args[3:]}, nil }

func (r *xinfoCall) Run(c *Ctx) resp.Reply {
	s, err := lookupStream(c, r.key)
	switch {
	case err != nil:
		return resp.Fail(err)
	case s == nil:
		return resp.Err(resp.ErrNoSuchKey)
	}
	full, count, err := parseFull(r.word, r.options)
	if err != nil {
		return resp.Fail(err)
	}
	// Redis keeps entries in the nodes of a tree. These are as many as it has if all are full.
	nodes := (int64(s.Len()) + c.s.Settings.StreamNodeEntries - 1) / c.s.Settings.StreamNodeEntries
	elems := []resp.Reply{
		resp.Bulk("length"), resp.Int(int64(s.Len())),
		resp.Bulk("radix-tree-keys"), resp.Int(nodes),
		resp.Bulk("radix-tree-nodes"), resp.Int(nodes + 1),
		resp.Bulk("last-generated-id"), resp.Bulk(s.LastID.String()),
		resp.Bulk("max-deleted-entry-id"), resp.Bulk(s.DeletedID.String()),
		resp.Bulk("entries-added"), resp.Int(int64(s.Added)),
		resp.Bulk("recorded-first-entry-id"), resp.Bulk(s.FirstItem().ID.String()),
	}
	if full {
		entries := itemsReply(c, s, value.MinStreamID, value.MaxStreamID, count, false)
		if entries.IsErr() {
			return entries
		}
		return resp.Map(append(elems, resp.Bulk("entries"), entries, resp.Bulk("groups"), resp.Array())...)
	}
	return resp.Map(append(elems, resp.Bulk("groups"), resp.Int(0),
		resp.Bulk("first-entry"), itemReplyOrNil(s.FirstItem()),
		resp.Bulk("last-entry"), itemReplyOrNil(s.LastItem()))...)
}

// itemReplyOrNil answers nil for the entry of an empty stream.
func itemReplyOrNil(it value.Item) resp.Reply {
	if it.Fields == nil {
		return resp.Nil()
	}
	return itemReply(it)
}

// parseFull reads FULL and its COUNT, where 0 means all entries. word is the
// subcommand as it was written.
func parseFull(word string, args resp.Args) (full bool, count int64, err error) {
	switch {
	case len(args) == 0:
		return false, 0, nil
	case len(args) != 1 && len(args) != 3 || !resp.Is(args[0], "FULL") || len(args) == 3 && !resp.Is(args[1], "COUNT"):
		return false, 0, resp.Errorf(errXInfoSyntax, word)
	case len(args) == 1:
		return true, fullCount, nil
	}
	count, ok := resp.ParseInt(args[2])
	if !ok {
		return false, 0, resp.Error(resp.ErrNotInteger)
	}
	if count < 0 {
		count = fullCount
	}
	return true, count, nil
}
