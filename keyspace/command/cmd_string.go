package command

import (
	"strings"

	"lockd/keyspace/arg"
	"lockd/keyspace/emit"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/resp"
)

var stringRows = []row{
	{Spec: resp.Spec{
		Name: "set", Arity: -3, Flags: resp.Write | resp.DenyOOM, Refuses: "NX",
		Keys: resp.FirstKey, Access: "RW access update variable_flags",
		Group: "string", Since: "1.0.0", Summary: "Set the string value of a key",
		Syntax: "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] [EX seconds | PX " +
			"milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
	}, Parse: parseSet},
	{Spec: resp.Spec{
		Name: "setnx", Arity: 3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Refuses: "*",
		Keys: resp.FirstKey, Access: "OW insert",
		Group: "string", Since: "1.0.0", Summary: "Set the value of a key, only if the key does not exist",
		Syntax: "key value",
	}, Parse: ofKeyAnd(setNX)},
	{Spec: resp.Spec{
		Name: "setex", Arity: 4, Flags: resp.Write | resp.DenyOOM, Keys: resp.FirstKey, Access: "OW update",
		Group: "string", Since: "2.0.0", Summary: "Set the value and expiration of a key",
		Syntax: "key seconds value",
	}, Parse: parseSetFor(expiryEX, "setex")},
	{Spec: resp.Spec{
		Name: "psetex", Arity: 4, Flags: resp.Write | resp.DenyOOM, Keys: resp.FirstKey, Access: "OW update",
		Group: "string", Since: "2.6.0", Summary: "Set the value and expiration in milliseconds of a key",
		Syntax: "key milliseconds value",
	}, Parse: parseSetFor(expiryPX, "psetex")},
	{Spec: resp.Spec{
		Name: "get", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "1.0.0", Summary: "Get the value of a key",
		Syntax: "key",
	}, Parse: parseGet},
	{Spec: resp.Spec{
		Name: "getset", Arity: 3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "1.0.0", Summary: "Set the string value of a key and return its old value",
		Syntax: "key value",
	}, Parse: ofKeyAnd(getSet)},
	{Spec: resp.Spec{
		Name: "getdel", Arity: 2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey, Access: "RW access delete",
		Group: "string", Since: "6.2.0", Summary: "Get the value of a key and delete the key",
		Syntax: "key",
	}, Parse: ofKey(getDel)},
	{Spec: resp.Spec{
		Name: "getex", Arity: -2, Flags: resp.Write | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "6.2.0", Summary: "Get the value of a key and optionally set its expiration",
		Syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
	}, Parse: parseGetEX},
	{Spec: resp.Spec{
		Name: "mget", Arity: -2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.AllKeys,
		Group: "string", Since: "1.0.0", Summary: "Get the values of all the given keys",
		Syntax: "key [key ...]",
	}, Parse: ofMany(mget)},
	{Spec: resp.Spec{
		Name: "mset", Arity: -3, Flags: resp.Write | resp.DenyOOM, Keys: resp.PairKeys, Access: "OW update",
		Group: "string", Since: "1.0.1", Summary: "Set multiple keys to multiple values",
		Syntax: "key value [key value ...]",
	}, Parse: parseMSet("mset", mset)},
	{Spec: resp.Spec{
		Name: "msetnx", Arity: -3, Flags: resp.Write | resp.DenyOOM, Keys: resp.PairKeys, Access: "OW insert",
		Group: "string", Since: "1.0.1",
		Summary: "Set multiple keys to multiple values, only if none of the keys exist",
		Syntax:  "key value [key value ...]",
	}, Parse: parseMSet("msetnx", msetNX)},
	{Spec: resp.Spec{
		Name: "append", Arity: 3, Flags: resp.Write | resp.DenyOOM | resp.Fast,
		Keys: resp.FirstKey, Access: "RW insert",
		Group: "string", Since: "2.0.0", Summary: "Append a value to a key",
		Syntax: "key value",
	}, Parse: ofKeyAnd(appendTo)},
	{Spec: resp.Spec{
		Name: "strlen", Arity: 2, Flags: resp.ReadOnly | resp.Fast, Keys: resp.FirstKey, Access: "RO",
		Group: "string", Since: "2.2.0", Summary: "Get the length of the value stored in a key",
		Syntax: "key",
	}, Parse: ofKey(strLen)},
	{Spec: resp.Spec{
		Name: "getrange", Arity: 4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "string", Since: "2.4.0", Summary: "Get a substring of the string stored at a key",
		Syntax: "key start end",
	}, Parse: parseGetRange},
	{Spec: resp.Spec{
		Name: "substr", Arity: 4, Flags: resp.ReadOnly, Keys: resp.FirstKey,
		Group: "string", Since: "1.0.0", Summary: "Get a substring of the string stored at a key",
		Syntax: "key start end",
	}, Parse: parseGetRange},
	{Spec: resp.Spec{
		Name: "setrange", Arity: 4, Flags: resp.Write | resp.DenyOOM, Keys: resp.FirstKey, Access: "RW update",
		Group: "string", Since: "2.2.0", Summary: "Overwrite part of a string at key starting at the specified offset",
		Syntax: "key offset value",
	}, Parse: parseSetRange},
	{Spec: resp.Spec{
		Name: "incr", Arity: 2, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "1.0.0", Summary: "Increment the integer value of a key by one",
		Syntax: "key",
	}, Parse: parseIncr(1)},
	{Spec: resp.Spec{
		Name: "decr", Arity: 2, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "1.0.0", Summary: "Decrement the integer value of a key by one",
		Syntax: "key",
	}, Parse: parseIncr(-1)},
	{Spec: resp.Spec{
		Name: "incrby", Arity: 3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "1.0.0", Summary: "Increment the integer value of a key by the given amount",
		Syntax: "key increment",
	}, Parse: parseIncrBy},
	{Spec: resp.Spec{
		Name: "decrby", Arity: 3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "1.0.0", Summary: "Decrement the integer value of a key by the given number",
		Syntax: "key decrement",
	}, Parse: parseDecrBy},
	{Spec: resp.Spec{
		Name: "incrbyfloat", Arity: 3, Flags: resp.Write | resp.DenyOOM | resp.Fast, Keys: resp.FirstKey,
		Group: "string", Since: "2.6.0", Summary: "Increment the float value of a key by the given amount",
		Syntax: "key increment",
	}, Parse: ofKeyAnd(incrByFloat)},
}

// stringBytesMax bounds what APPEND and SETRANGE may make: no more than one request
// can bring. Redis allows 512 MB; here each change of a string copies it on every
// node, again at each replay, and a dozen bytes of log could ask for all of that.
const stringBytesMax = 16 << 20

// The error texts that only these commands use.
const (
	errDecrementOverflow = "ERR decrement would overflow"
	errOffsetRange       = "ERR offset is out of range"
)

// setCall is SET key value with its options.
type setCall struct {
	key, value string
	setOptions
}

func parseSet(args resp.Args) (call, error) {
	opts, ok := parseSetOptions(args[3:], forSet)
	if !ok {
		return nil, resp.Error(resp.ErrSyntax)
	}
	if err := opts.readNumber("set"); err != nil {
		return nil, err
	}
	return &setCall{args[1], args[2], opts}, nil
}

// renews reports whether SET stores what is there, or nothing: the lock that a program renews may be gone. It is
// refused with NX, as in Redis: that takes a lock.
func (r *setCall) renews(c *Ctx) bool {
	switch {
	case r.onlyNew:
		return false
	case keeps(c, r.key, r.value):
		return true
	case r.when.comparison == nil:
		return r.onlyOld && c.Lookup(r.key) == nil
	}
	met, err := meets(c, r.when, c.Lookup(r.key))
	return err != nil || !met
}

func (r *setCall) Run(c *Ctx) resp.Reply {
	until := store.Never
	if r.expiry != nil {
		var err error
		if until, err = r.expiry.deadlineFrom(c, r.ms, "set"); err != nil {
			return resp.Fail(err)
		}
	}
	was := c.Lookup(r.key)
	reply, refused := resp.OK(), resp.Nil()
	if r.get {
		if was != nil && was.Aggregate() != nil {
			return resp.Err(resp.ErrWrongType)
		}
		reply = bulkOrNil(was)
		refused = reply
	}
	met, err := meets(c, r.when, was)
	if err != nil {
		return resp.Fail(err)
	}
	if !met || (r.onlyNew && was != nil) || (r.onlyOld && was == nil) {
		return refused
	}
	until = r.keptOr(was, until)
	c.Why.Condition = c.Why.Condition || r.onlyNew
	c.Why.Compared = r.when.comparison != nil || r.get && c.run == nil
	setString(c, r.key, store.StringValue(r.value), until, r.expiry != nil)
	return reply
}

// setString puts a value and sends the events of SET.
func setString(c *Ctx, key string, v value.Value, until store.Deadline, leased bool) {
	c.putUntil(key, v, until)
	c.Notify(emit.String, "set", key)
	if leased {
		c.Notify(emit.Generic, "expire", key)
	}
}

// setOptions has what follows the value in SET, the key in GETEX, the pairs in MSETEX.
type setOptions struct {
	onlyNew, onlyOld, get, keepTTL, persist bool

	when   condition
	expiry *expiry // the unit of the deadline, or nil
	number string  // the deadline as written
	ms     int64   // the same in milliseconds, once readNumber has read it
}

// readNumber reads the number of a deadline, if there is one.
func (o *setOptions) readNumber(command string) (err error) {
	if o.expiry != nil {
		o.ms, err = o.expiry.read(o.number, command)
	}
	return err
}

// keptOr returns the deadline of the key that was there, if it is to be kept.
func (o *setOptions) keptOr(was *store.Entry, until store.Deadline) store.Deadline {
	if o.keepTTL && was != nil {
		return was.Deadline()
	}
	return until
}

// setWords are the options that a command knows, beside those of a deadline.
type setWords uint8

const (
	wordExists  setWords = 1 << iota // NX, XX
	wordCompare                      // IFEQ ...
	wordGet
	wordKeepTTL
	wordPersist

	forSet    = wordExists | wordCompare | wordGet | wordKeepTTL
	forGetEX  = wordPersist
	forMSetEX = wordExists | wordKeepTTL
)

// parseSetOptions reads the options in any order and any case. As in Redis, a
// pair that contradicts itself is a syntax error, and a repetition is none: of
// "EX 10 EX 20" the last counts.
func parseSetOptions(args resp.Args, known setWords) (o setOptions, ok bool) {
	for i := 0; i < len(args); i++ {
		if o.flag(args[i], known) {
			continue
		}
		if i+1 == len(args) || !o.pair(args[i], args[i+1], known) {
			return o, false
		}
		i++
	}
	return o, true
}

// flag reads an option that is a word alone.
func (o *setOptions) flag(word string, known setWords) bool {
	switch {
	case known&wordExists != 0 && resp.Is(word, "NX") && !o.onlyOld && o.when.comparison == nil:
		o.onlyNew = true
	case known&wordExists != 0 && resp.Is(word, "XX") && !o.onlyNew && o.when.comparison == nil:
		o.onlyOld = true
	case known&wordGet != 0 && resp.Is(word, "GET"):
		o.get = true
	case known&wordKeepTTL != 0 && resp.Is(word, "KEEPTTL") && o.expiry == nil:
		o.keepTTL = true
	case known&wordPersist != 0 && resp.Is(word, "PERSIST") && o.expiry == nil:
		o.persist = true
	default:
		return false
	}
	return true
}

// pair reads an option that has a value.
func (o *setOptions) pair(word, value string, known setWords) bool {
	if x := expiryOption(word); x != nil {
		again := o.expiry == nil || o.expiry == x
		o.expiry, o.number = x, value
		return again && !o.keepTTL && !o.persist
	}
	if known&wordCompare == 0 || o.onlyNew || o.onlyOld || o.when.comparison != nil {
		return false
	}
	o.when = condition{comparisonOf(word), value}
	return o.when.comparison != nil
}

// expiryOption returns the unit that EX, PX, EXAT or PXAT names; nil for another word.
func expiryOption(word string) *expiry {
	switch {
	case resp.Is(word, "EX"):
		return &expiryEX
	case resp.Is(word, "PX"):
		return &expiryPX
	case resp.Is(word, "EXAT"):
		return &expiryEXAT
	case resp.Is(word, "PXAT"):
		return &expiryPXAT
	}
	return nil
}

func setNX(c *Ctx, key, text string) resp.Reply {
	if c.Lookup(key) != nil {
		return resp.Int(0)
	}
	c.Why.Condition = true
	setString(c, key, store.StringValue(text), store.Never, false)
	return resp.Int(1)
}

// setForCall is SETEX or PSETEX key time value.
type setForCall struct {
	key, value string
	unit       expiry
	ms         int64
	command    string
}

func parseSetFor(unit expiry, command string) parser {
	return func(args resp.Args) (call, error) {
		ms, err := unit.read(args[2], command)
		if err != nil {
			return nil, err
		}
		return &setForCall{args[1], args[3], unit, ms, command}, nil
	}
}

func (r *setForCall) renews(c *Ctx) bool { return keeps(c, r.key, r.value) }

func (r *setForCall) Run(c *Ctx) resp.Reply {
	until, err := r.unit.deadlineFrom(c, r.ms, r.command)
	if err != nil {
		return resp.Fail(err)
	}
	setString(c, r.key, store.StringValue(r.value), until, true)
	return resp.OK()
}

// getCall has the key of GET. It is where the arguments are, and takes no memory of its own.
type getCall [1]string

func parseGet(args resp.Args) (call, error) { return (*getCall)(args[1:]), nil }

func (r *getCall) Run(c *Ctx) resp.Reply {
	e, err := lookupString(c, r[0])
	if err != nil {
		return resp.Fail(err)
	}
	return bulkOrNil(e)
}

func getSet(c *Ctx, key, text string) resp.Reply {
	e, err := lookupString(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	c.Why.Compared = c.run == nil
	setString(c, key, store.StringValue(text), store.Never, false)
	return bulkOrNil(e)
}

func getDel(c *Ctx, key string) resp.Reply {
	e, err := lookupString(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	if e != nil {
		deleteNotify(c, key)
	}
	return bulkOrNil(e)
}

// deleteNotify deletes a key that is there, with its event.
func deleteNotify(c *Ctx, key string) {
	c.delete(key)
	c.Notify(emit.Generic, "del", key)
}

// getEXCall is GETEX key with its options. Run judges the number of an option, and only once the key is found, as
// Redis does.
type getEXCall struct {
	key string
	setOptions
}

func parseGetEX(args resp.Args) (call, error) {
	opts, ok := parseSetOptions(args[2:], forGetEX)
	if !ok {
		return nil, resp.Error(resp.ErrSyntax)
	}
	return &getEXCall{args[1], opts}, nil
}

func (r *getEXCall) Run(c *Ctx) resp.Reply {
	key := r.key
	e, err := lookupString(c, key)
	if err != nil || e == nil {
		return orNil(err)
	}
	switch {
	case r.expiry != nil:
		until, err := r.expiry.deadlineOf(c, r.number, "getex")
		if err != nil {
			return resp.Fail(err)
		}
		if c.past(until) {
			deleteNotify(c, key)
			break
		}
		SetDeadline(c, key, until)
		c.Notify(emit.Generic, "expire", key)
	case r.persist && e.Deadline().IsSet():
		SetDeadline(c, key, store.Never)
		c.Notify(emit.Generic, "persist", key)
	}
	return bulkOrNil(e)
}

// mget answers nil for what holds no string, too.
func mget(c *Ctx, keys []string) resp.Reply {
	replies := make([]resp.Reply, len(keys))
	for i, key := range keys {
		if c.s.Meter.Exceeded() {
			return resp.Err(meter.ErrWork)
		}
		e, _ := lookupString(c, key)
		replies[i] = bulkOrNil(e)
	}
	return resp.Array(replies...)
}

// parseMSet reads the pairs of a key and a value that MSET and MSETNX have.
func parseMSet(command string, run func(c *Ctx, pairs []string) resp.Reply) parser {
	return func(args resp.Args) (call, error) {
		if len(args)%2 == 0 {
			return nil, wrongArity(command)
		}
		return &textsCall{args[1:], run}, nil
	}
}

func mset(c *Ctx, pairs []string) resp.Reply {
	if !c.s.Meter.HasRoom(c.s.Keys.DBs[c.db].EditWork(pairs, 2)) {
		return resp.Err(meter.ErrWork)
	}
	setPairs(c, pairs)
	return resp.OK()
}

func msetNX(c *Ctx, pairs []string) resp.Reply {
	for i := 0; i < len(pairs); i += 2 {
		if c.Lookup(pairs[i]) != nil {
			return resp.Int(0)
		}
	}
	if !c.s.Meter.HasRoom(c.s.Keys.DBs[c.db].EditWork(pairs, 2)) {
		return resp.Err(meter.ErrWork)
	}
	c.Why.Condition = true
	setPairs(c, pairs)
	return resp.Int(1)
}

func setPairs(c *Ctx, pairs resp.Args) {
	for i := 0; i < len(pairs); i += 2 {
		setString(c, pairs[i], store.StringValue(pairs[i+1]), store.Never, false)
	}
}

func appendTo(c *Ctx, key, text string) resp.Reply {
	e, err := lookupString(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	var old string
	if e != nil {
		old = e.Str()
	}
	if e != nil && len(old)+len(text) > stringBytesMax {
		return resp.Err(resp.ErrStringTooBig)
	}
	grown := old + text
	if old == "" {
		grown = strings.Clone(grown) // the sum is then the argument itself
	}
	rewrite(c, key, grown, "append")
	return resp.Int(int64(len(grown)))
}

// rewrite puts a value that a command has made out of the old one: the lease stays.
func rewrite(c *Ctx, key, fresh, event string) {
	until := store.Never
	if was := c.Lookup(key); was != nil {
		until = was.Deadline()
	}
	c.putUntil(key, value.OfString(fresh), until)
	c.Notify(emit.String, event, key)
}

func strLen(c *Ctx, key string) resp.Reply {
	e, err := lookupString(c, key)
	if err != nil || e == nil {
		return orZero(err)
	}
	return resp.Int(int64(len(e.Str())))
}

// getRangeCall is GETRANGE key start end.
type getRangeCall struct {
	key        string
	start, end int64
}

func parseGetRange(args resp.Args) (call, error) {
	start, end, err := parseSpan(args)
	if err != nil {
		return nil, err
	}
	return &getRangeCall{args[1], start, end}, nil
}

func (r *getRangeCall) Run(c *Ctx) resp.Reply {
	e, err := lookupString(c, r.key)
	if err != nil {
		return resp.Fail(err)
	}
	if e == nil {
		return resp.Bulk("")
	}
	return resp.Bulk(substring(e.Str(), r.start, r.end))
}

// substring returns s from start up to and with end, both counted from the end of s
// where they are negative.
func substring(s string, start, end int64) string {
	n := int64(len(s))
	if start < 0 && end < 0 && start > end {
		return ""
	}
	start, end = arg.FromEnd(start, n), min(arg.FromEnd(end, n), n-1)
	if start > end || n == 0 {
		return ""
	}
	return s[start : end+1]
}

// setRangeCall is SETRANGE key offset value. Run judges how large the value gets: a value that holds no string is
// told first.
type setRangeCall struct {
	key, patch string
	offset     int64
}

func parseSetRange(args resp.Args) (call, error) {
	offset, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		return nil, resp.Error(resp.ErrNotInteger)
	case offset < 0:
		return nil, resp.Error(errOffsetRange)
	}
	return &setRangeCall{args[1], args[3], offset}, nil
}

func (r *setRangeCall) Run(c *Ctx) resp.Reply {
	e, err := lookupString(c, r.key)
	if err != nil {
		return resp.Fail(err)
	}
	var old string
	if e != nil {
		old = e.Str()
	}
	if r.patch == "" {
		return resp.Int(int64(len(old)))
	}
	if r.offset > stringBytesMax-int64(len(r.patch)) {
		return resp.Err(resp.ErrStringTooBig)
	}
	fresh := overlay(old, int(r.offset), r.patch)
	rewrite(c, r.key, fresh, "setrange")
	return resp.Int(int64(len(fresh)))
}

// overlay writes patch over s from offset on, with zero bytes between them.
func overlay(s string, offset int, patch string) string {
	end := offset + len(patch)
	var b strings.Builder
	b.Grow(max(len(s), end))
	b.WriteString(s[:min(offset, len(s))])
	for b.Len() < offset {
		b.WriteString(zeros[:min(offset-b.Len(), len(zeros))])
	}
	b.WriteString(patch)
	if end < len(s) {
		b.WriteString(s[end:])
	}
	return b.String()
}

var zeros = strings.Repeat("\x00", 4096)

// incrCall adds to a number: INCR, DECR, INCRBY and DECRBY.
type incrCall struct {
	key string
	by  int64
}

func (r *incrCall) Run(c *Ctx) resp.Reply { return addTo(c, r.key, r.by) }

func parseIncr(by int64) parser {
	return func(args resp.Args) (call, error) { return &incrCall{args[1], by}, nil }
}

func parseIncrBy(args resp.Args) (call, error) {
	n, ok := resp.ParseInt(args[2])
	if !ok {
		return nil, resp.Error(resp.ErrNotInteger)
	}
	return &incrCall{args[1], n}, nil
}

func parseDecrBy(args resp.Args) (call, error) {
	n, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		return nil, resp.Error(resp.ErrNotInteger)
	case n == minInt:
		return nil, resp.Error(errDecrementOverflow)
	}
	return &incrCall{args[1], -n}, nil
}

// addTo adds n to the number at key; an absent key counts as 0.
func addTo(c *Ctx, key string, n int64) resp.Reply {
	e, err := lookupString(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	var old int64
	if e != nil {
		n, ok := resp.ParseInt(e.Str())
		if !ok {
			return resp.Err(resp.ErrNotInteger)
		}
		old = n
	}
	sum, ok := addInt(old, n)
	if !ok {
		return resp.Err(resp.ErrOverflow)
	}
	rewrite(c, key, itoa(sum), "incrby")
	return resp.Int(sum)
}

// incrByFloat judges the increment after the key, and with it what the key holds, as Redis does.
func incrByFloat(c *Ctx, key, increment string) resp.Reply {
	e, err := lookupString(c, key)
	if err != nil {
		return resp.Fail(err)
	}
	old := "0"
	if e != nil {
		old = e.Str()
	}
	c.s.Meter.Spend(value.LongDoubleWork(old) + value.LongDoubleWork(increment))
	a, ok1 := value.ParseLongDouble(old)
	b, ok2 := value.ParseLongDouble(increment)
	if !ok1 || !ok2 {
		return resp.Err(resp.ErrNotFloat)
	}
	sum, ok := a.Plus(b)
	if !ok {
		return resp.Err(resp.ErrNaNOrInf)
	}
	c.s.Meter.Spend(2 * value.LongDoubleWork(sum.String()))
	rewrite(c, key, sum.String(), "incrbyfloat")
	return resp.Bulk(sum.String())
}

// bulkOrNil answers the string that e holds, or nil where e is.
func bulkOrNil(e *store.Entry) resp.Reply {
	if e == nil {
		return resp.Nil()
	}
	return resp.Bulk(e.Str())
}
