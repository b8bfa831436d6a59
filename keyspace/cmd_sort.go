package keyspace

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"lockd/resp"
)

var sortRows = []resp.Row[command]{
	{Spec: resp.Spec{
		Name: "sort", Arity: -2, Flags: resp.Write | resp.DenyOOM | resp.MovableKeys,
		Keys: resp.Keys{First: 1, Last: 1, Step: 1, Word: "STORE"}, Access: "1 RO access; ? RO access; ? OW update",
		Group: "generic", Since: "1.0.0", Summary: "Sort the elements in a list, set or sorted set",
		Syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]",
	}, Run: cmdSort},
	{Spec: resp.Spec{
		Name: "sort_ro", Arity: -2, Flags: resp.ReadOnly | resp.MovableKeys, Keys: resp.FirstKey, Access: "1 RO access; ? RO access",
		Group: "generic", Since: "7.0.0", Summary: "Sort the elements in a list, set or sorted set. Read-only variant of SORT.",
		Syntax: "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
	}, Run: cmdSortRO},
}

const errSortNotDouble = "ERR One or more scores can't be converted into double"

// sortable is an aggregate that SORT takes.
type sortable interface {
	aggregate
	// element is the i-th, 0 <= i < len, in the order of the type.
	element(i int) string
}

// elementWork is the work of finding an element.
func elementWork(v sortable) int64 {
	if v.form() == 0 {
		return visitWork
	}
	return treeWork(v.len())
}

func (l *list) element(i int) string { return l.items.get(i) }
func (s *set) element(i int) string  { return s.at(i) }
func (z *zset) element(i int) string { return z.at(i).member }

// sorting is what SORT is asked for.
type sorting struct {
	by            *sortPattern // nil: by the elements themselves
	asIs          bool         // BY a constant: not sorted at all
	gets          []sortPattern
	offset, count int64
	desc, alpha   bool
	stored        bool
	to            string // where stored
}

func cmdSort(c *ctx, args resp.Args) resp.Reply   { return c.sort(args, false) }
func cmdSortRO(c *ctx, args resp.Args) resp.Reply { return c.sort(args, true) }

func (c *ctx) sort(args resp.Args, readOnly bool) resp.Reply {
	o, fail, ok := parseSort(args[2:], readOnly)
	if !ok {
		return fail
	}
	v, fail, ok := lookupAs[sortable](c, args[1])
	if !ok {
		return fail
	}
	if _, isSet := v.(*set); isSet && o.asIs && (o.stored || c.run != nil) {
		// As in Redis, where the order of a set must not get into the data.
		o.asIs, o.alpha, o.by = false, true, nil
	}
	elems, why := c.sortElements(v, &o)
	if why != "" {
		return resp.Err(why)
	}
	if o.stored {
		return c.storeSorted(elems, &o)
	}
	return c.answerSorted(elems, &o)
}

// parseSort reads the options.
func parseSort(args resp.Args, readOnly bool) (o sorting, fail resp.Reply, ok bool) {
	o.count = -1
	for i := 0; i < len(args); i++ {
		more := len(args) - i - 1
		switch {
		case resp.Is(args[i], "ASC"):
			o.desc = false
		case resp.Is(args[i], "DESC"):
			o.desc = true
		case resp.Is(args[i], "ALPHA"):
			o.alpha = true
		case resp.Is(args[i], "LIMIT") && more >= 2:
			var ok1, ok2 bool
			o.offset, ok1 = resp.ParseInt(args[i+1])
			o.count, ok2 = resp.ParseInt(args[i+2])
			if !ok1 || !ok2 {
				return o, resp.Err(resp.ErrNotInteger), false
			}
			i += 2
		case resp.Is(args[i], "STORE") && more >= 1 && !readOnly:
			i++
			o.stored, o.to = true, args[i]
		case resp.Is(args[i], "BY") && more >= 1:
			i++
			by := newSortPattern(args[i])
			o.by, o.asIs = &by, o.asIs || !by.star
		case resp.Is(args[i], "GET") && more >= 1:
			i++
			o.gets = append(o.gets, newSortPattern(args[i]))
		default:
			return o, resp.Err(resp.ErrSyntax), false
		}
	}
	return o, resp.Reply{}, true
}

// window is the range of n elements that LIMIT leaves.
func (o *sorting) window(n int) (from, to int) {
	size := int64(n)
	first := min(max(o.offset, 0), size)
	if o.count < 0 {
		return int(first), n
	}
	return int(first), int(first + min(o.count, size-first))
}

// sortElement is an element and what it is sorted by.
type sortElement struct {
	text   string
	at     int // its place before
	score  float64
	weight string // with BY and ALPHA
	absent bool   // there is no weight
}

// sortElements gives the elements that SORT answers, in their order. Where it is
// more work than one request may ask for, or a score is no number, why is the error.
func (c *ctx) sortElements(v sortable, o *sorting) (elems []sortElement, why string) {
	if v == nil {
		return nil, ""
	}
	n := v.len()
	from, to := o.window(n)
	if o.asIs {
		return c.elementsAsIs(v, from, to, o.desc)
	}
	if !c.m.affords(int64(n)*elementWork(v) + sortWork(n, v.size())) {
		return nil, errWorkMeter // before they take memory
	}
	elems = make([]sortElement, n)
	bytes := int64(0)
	for i := range elems {
		elems[i] = sortElement{text: v.element(i), at: i}
		if why := c.weigh(&elems[i], o); why != "" {
			return nil, why
		}
		bytes += int64(len(elems[i].weight))
	}
	if o.by != nil && !c.m.affords(sortWork(n, bytes)) {
		return nil, errWorkMeter
	}
	slices.SortFunc(elems, o.compare)
	return elems[from:to], ""
}

// elementsAsIs gives a range of elements in the order of their type; desc turns it
// round, but that of a set.
func (c *ctx) elementsAsIs(v sortable, from, to int, desc bool) (elems []sortElement, why string) {
	if !c.m.affords(int64(to-from) * elementWork(v)) {
		return nil, errWorkMeter
	}
	_, isSet := v.(*set)
	for i := from; i < to; i++ {
		at := i
		if desc && !isSet {
			at = v.len() - 1 - i
		}
		elems = append(elems, sortElement{text: v.element(at)})
	}
	return elems, ""
}

// weigh finds out what an element is sorted by.
func (c *ctx) weigh(e *sortElement, o *sorting) (why string) {
	weight, found := e.text, true
	if o.by != nil {
		weight, found = c.follow(o.by, e.text)
	}
	switch {
	case c.m.tired():
		return errWorkMeter
	case o.alpha:
		e.weight, e.absent = weight, !found
	case found:
		c.m.spend(numeralWork * int64(len(weight)))
		if e.score, found = parseSortScore(weight); !found {
			return errSortNotDouble
		}
	}
	return ""
}

// parseSortScore reads a number as C's strtod does, with spaces before it, up to the
// end or a NUL byte. One of nothing is 0; one that a double cannot hold in full is
// refused, even where only its last digits are lost below the smallest normal one.
func parseSortScore(s string) (float64, bool) {
	s, _, _ = strings.Cut(s, "\x00")
	if s == "" {
		return 0, true
	}
	f, outside, ok := parseDouble(strings.TrimLeft(s, " \t\n\v\f\r"))
	return f, ok && !outside && (f == 0 || math.Abs(f) >= minNormal)
}

// minNormal is the smallest double that has all its digits.
const minNormal = 0x1p-1022

// compare orders two elements. It never calls two of them equal, so that the order
// is the same whatever the algorithm.
func (o *sorting) compare(a, b sortElement) int {
	order := 0
	switch {
	case !o.alpha:
		order = cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.text, b.text))
	case a.absent || b.absent:
		order = presence(a) - presence(b)
	default:
		order = strings.Compare(a.weight, b.weight)
	}
	if o.desc {
		order = -order
	}
	return cmp.Or(order, a.at-b.at)
}

func presence(e sortElement) int {
	if e.absent {
		return 0
	}
	return 1
}

// sortPattern is the argument of BY or GET: where to find a value for an element,
// whose text takes the place of the first star.
type sortPattern struct {
	self          bool // "#": the element itself
	star          bool
	before, after string
	field         string // of a hash, behind "->"; "" for a string
}

// newSortPattern reads a pattern as Redis does, for which a NUL byte ends the search
// for what is special.
func newSortPattern(text string) sortPattern {
	special, _, _ := strings.Cut(text, "\x00")
	p := sortPattern{self: special == "#"}
	var rest string
	if _, rest, p.star = strings.Cut(special, "*"); !p.star {
		return p
	}
	p.before, p.after, _ = strings.Cut(text, "*")
	if arrow := strings.Index(rest, "->"); arrow >= 0 && arrow+len("->") < len(rest) {
		p.after, p.field = p.after[:arrow], p.after[arrow+len("->"):]
	}
	return p
}

// follow finds the value that a pattern names for an element.
func (c *ctx) follow(p *sortPattern, text string) (val string, found bool) {
	switch {
	case p.self:
		return text, true
	case !p.star:
		return "", false
	}
	key := p.before + text + p.after
	c.m.spend(copyWork * int64(len(key)))
	e := c.lookup(key)
	if e == nil {
		return "", false
	}
	if p.field == "" {
		return e.str(), e.agg() == nil
	}
	if h, isHash := e.agg().(*hash); isHash {
		c.m.spend(h.findWork(p.field))
		return h.get(p.field)
	}
	return "", false
}

// output visits what SORT makes of the elements: themselves, or what each GET finds
// for them. It ends with the error of visit, or with that of too much work.
func (c *ctx) output(elems []sortElement, o *sorting, visit func(val string, found bool) (why string)) (why string) {
	for i := range elems {
		c.m.spend(visitWork)
		if len(o.gets) == 0 {
			why = visit(elems[i].text, true)
		}
		for j := 0; j < len(o.gets) && why == ""; j++ {
			if why = visit(c.follow(&o.gets[j], elems[i].text)); c.m.tired() {
				why = errWorkMeter
			}
		}
		if why != "" {
			return why
		}
	}
	return ""
}

func (c *ctx) answerSorted(elems []sortElement, o *sorting) resp.Reply {
	replies, size := []resp.Reply{}, int64(0)
	why := c.output(elems, o, func(val string, found bool) string {
		r := resp.Nil()
		if found {
			r = resp.Bulk(val)
		}
		replies = append(replies, r)
		if size += r.Size(); size > replyBytesMax {
			return errReplyTooLarge
		}
		return ""
	})
	if why != "" {
		return resp.Err(why)
	}
	return resp.Array(replies...)
}

// storeSorted makes a list of the result, which replaces whatever was there; an empty
// one deletes it. A value that GET does not find is an empty string.
func (c *ctx) storeSorted(elems []sortElement, o *sorting) resp.Reply {
	l := newList(c.m.generation)
	why := c.output(elems, o, func(val string, _ bool) string {
		l.items.insert(l.len(), val)
		if l.size() > growthBytesMax {
			return errGrowthMeter
		}
		return ""
	})
	if why != "" {
		return resp.Err(why)
	}
	n := l.len()
	switch {
	case n > 0:
		l.resize(c.m.settings.listLimits(), false)
		c.putUntil(o.to, aggregateValue(l), never)
		c.notify(notifyList, "sortstore", o.to)
	case c.delete(o.to):
		c.notify(notifyGeneric, "del", o.to)
	}
	return resp.Int(int64(n))
}
