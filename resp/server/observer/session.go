package observer

import (
	"slices"
	"strings"
	"sync"

	"lockd/resp"
	"lockd/resp/lockuse"
)

// Op is the role of a command with regard to locks.
type Op uint8

// The kinds of command that are observed.
const (
	None Op = iota
	set
	setNX
	take    // LOCK
	get     // uses the value as data
	use     // what makes data of a key
	del     // DEL, UNLINK
	expire  // EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT
	compare // UNLOCK, DELIFEQ, RENEW: key, token
	delEX
	script // EVAL, EVALSHA, FCALL
)

var ops = map[string]Op{
	"set": set, "setnx": setNX, "lock": take, "get": get, "del": del, "unlink": del,
	"incr": use, "incrby": use, "incrbyfloat": use, "decr": use, "decrby": use, "append": use, "setrange": use,
	"getrange": use, "strlen": use, "getset": use, "getdel": use, "getex": use, "setex": use, "psetex": use,
	"expire": expire, "pexpire": expire, "expireat": expire, "pexpireat": expire,
	"unlock": compare, "delifeq": compare, "renew": compare, "delex": delEX,
	"eval": script, "evalsha": script, "fcall": script,
}

// OpOf returns the Op of a command by its name.
func OpOf(name string) Op { return ops[name] }

// Bounds of a session's memory.
const (
	takenMax    = 8 // locks that it has taken
	refusedMax  = 4 // locks that it did not get
	missedMax   = 8 // locks that it found missing
	extendedMax = 4 // locks that it has taken and extended by EXPIRE
	storedMax   = 4 // keys that it found absent, and stored
	talliesMax  = 8 // kinds of mistake, counted for each template
	tokensMax   = 4 // arguments of a script that may be tokens
	keysMax     = 2 // keys of a script
	tokenMax    = 512
	keyBytesMax = 1024
	leaseMsMax  = 1 << 40
)

// Thresholds of mistakes.
const (
	pollsMin     = 50    // failed tries without a pause that are reported
	pollPauseMs  = 10    // a pause between tries, on average
	pollBreakMs  = 100   // a pause that ends the counting
	streakGapMs  = 60000 // after so long without a try, the next one begins another wait
	stillTaken   = 3     // tries that show interest in a key
	takenAgain   = 3     // times that a key is taken without a lease before it counts as a lock
	afterwardsMs = 5000  // SETNX to EXPIRE
	twoStepsMs   = 5000  // GET to DEL, or to SET
)

// Session is the memory of one session. One goroutine calls Saw, any may call Observations; the zero value is ready.
type Session struct {
	absent absent // only Saw uses it

	mu sync.Mutex
	m  *memory // nil: it has used no lock. Only Saw changes it
}

type memory struct {
	taken    [takenMax]taken
	refused  [refusedMax]streak
	missed   [missedMax]miss
	extended [extendedMax]miss
	stored   [storedMax]stored
	tallies  []tally
	at       [5]int // the next indices of the rings
}

// absent is the key that GET last found absent.
type absent struct {
	key  uint64
	db   int
	atMs int64
}

// stored is a token that SET has stored in such a key. A command that reads or changes it shows that it is data.
type stored struct {
	key, token uint64
	db         int
	atMs       int64 // 0: none
}

// taken is a key that the session has taken by a conditional command.
type taken struct {
	key, token uint64
	db         int
	atMs       int64
	endMs      int64 // when its lease ends, as far as the session knows; 0: unknown
	readMs     int64 // when it read its own token; 0: not since it took the key
	leased     bool
	freed      bool
	read       bool // by GET, without a DEL behind it, or used in another way
	again      int  // how often it was taken without a lease
}

// streak is a key that was asked for without success, always with the same token.
type streak struct {
	key, token     uint64
	db             int
	name           string // of the key, once the streak is reported
	leased         bool
	count          int64
	lastMs         int64
	polls, sinceMs int64 // tries without a pause
	tally          int   // index of its tally; -1: none
}

// miss is a key that did not have the expected token, or was absent.
type miss struct {
	key    uint64
	db     int
	tokens [tokensMax]uint64
	del    bool
	atMs   int64
}

type tally struct {
	template string
	lockuse.Observation
}

// Saw takes an executed command, with its reply and the wall time. It does not keep the memory of the arguments.
func (s *Session) Saw(op Op, c *resp.Cmd, r resp.Reply, nowMs int64) {
	if op == None || r.IsErr() || len(c.Args) < 2 || len(c.Args[1]) > keyBytesMax {
		return
	}
	var form setForm
	if op == set {
		if form = formOf(c.Args); !form.nx && !form.again {
			op = use
		}
	}
	stores := s.storesAbsent(op, form, c, r, nowMs)
	if s.m == nil && !stores && !begins(op, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = &memory{}
	}
	o := call{memory: s.m, args: c.Args, db: c.DB, now: nowMs}
	o.freeStored(op, c, r)
	if stores {
		o.stored[o.next(4, storedMax)] = stored{lockuse.Hash(c.Args[1]), lockuse.Hash(c.Args[2]), c.DB, nowMs}
	}
	switch op {
	case set:
		o.set(form, r)
	case setNX:
		o.try(c.Args[2], setForm{}, r.Int == 1)
	case take:
		o.try(c.Args[2], formOf(c.Args), r.Kind == resp.KindInt)
	case get:
		o.get(r)
	case use:
		if t := o.own(lockuse.Hash(c.Args[1])); t != nil {
			t.read = true
		}
	case del:
		o.del(r)
	case expire:
		o.expire(r)
	case compare:
		if failed(r) {
			o.miss(c.Args[1], false, c.Args[2])
		} else {
			o.free(c.Args[1])
		}
	case delEX:
		if len(c.Args) == 4 && failed(r) {
			o.miss(c.Args[1], false, c.Args[3])
		}
	case script:
		o.script(c.Spec, r)
	}
}

// storesAbsent records keys that GET finds absent, and reports whether a command is a SET that stores a token there,
// without a condition: locks taken in two steps look like this, and caches being filled.
func (s *Session) storesAbsent(op Op, form setForm, c *resp.Cmd, r resp.Reply, nowMs int64) bool {
	was := &s.absent
	switch {
	case op == get && r.IsNil():
		*was = absent{lockuse.Hash(c.Args[1]), c.DB, nowMs}
	case op == use && form.plain && was.atMs != 0:
		stores := was.key == lockuse.Hash(c.Args[1]) && was.db == c.DB && nowMs-was.atMs <= twoStepsMs &&
			c.Args[2] != "" && len(c.Args[2]) <= tokenMax
		was.atMs = 0
		return stores
	}
	return false
}

// freeStored counts a token that was stored in this way and is freed now by the same session. A read in between
// excludes it: cached answers, and codes for one use, are stored to be read.
func (o *call) freeStored(op Op, c *resp.Cmd, r resp.Reply) {
	for i := range o.stored {
		s := &o.stored[i]
		if s.atMs == 0 || s.db != o.db {
			continue
		}
		if op == script {
			keys, given := tokensOf(c.Spec, o.args)
			at := indexOf(keys, s.key)
			if !failed(r) && at >= 0 && indexOf(given, s.token) >= 0 {
				o.countStored(s, keys[at])
			}
			continue
		}
		if s.key != lockuse.Hash(o.args[1]) {
			continue
		}
		frees := op == del && len(o.args) == 2 || op == compare && !failed(r) && lockuse.Hash(o.args[2]) == s.token
		if frees {
			o.countStored(s, o.args[1])
		} else {
			s.atMs = 0
		}
	}
}

func (o *call) countStored(s *stored, key string) {
	o.count(lockuse.GetThenSet, key, s.token, 1)
	s.atMs = 0
}

// indexOf returns the index of the text with a hash; -1: none.
func indexOf(texts []string, hash uint64) int {
	return slices.IndexFunc(texts, func(text string) bool { return lockuse.Hash(text) == hash })
}

// begins reports whether a command is worth a memory: others matter only after one of these.
func begins(op Op, r resp.Reply) bool {
	switch op {
	case get, use, expire:
		return false
	case del, compare, delEX, script:
		return failed(r)
	}
	return true
}

// failed reports whether a reply says that there was nothing to do: the replies of releases and renewals.
func failed(r resp.Reply) bool { return r.IsNil() || r.Kind == resp.KindInt && r.Int <= 0 }

// call is one command of the session together with the session's memory.
type call struct {
	*memory
	args resp.Args
	db   int
	now  int64
}

// setForm classifies a SET.
type setForm struct {
	plain  bool // without a condition
	nx     bool
	again  bool // IFEQ with the value that is stored
	leased bool
	ms     int64 // of the lease; 0: not known
}

// formOf classifies the options of SET. With GET the reply does not tell the effect, so the result is the zero form.
func formOf(args resp.Args) (f setForm) {
	f.plain = true
	for i := 3; i < len(args); i++ {
		switch a := args[i]; {
		case resp.Is(a, "NX"):
			f.nx, f.plain = true, false
		case resp.Is(a, "GET"):
			return setForm{}
		case resp.Is(a, "KEEPTTL"):
			f.leased = true
		case resp.Is(a, "PX"), resp.Is(a, "EX"), resp.Is(a, "PXAT"), resp.Is(a, "EXAT"):
			f.leased = true
			if i++; i < len(args) {
				f.ms = millis(args[i], a)
			}
		case resp.Is(a, "IFEQ") && i+1 < len(args):
			i++
			f.again, f.plain = args[i] == args[2], false
		default: // XX, and other comparisons
			f.plain = false
		}
	}
	return f
}

// millis returns a lease in milliseconds; unit is the option or command that gives it. 0: it is a point in time, or
// invalid.
func millis(number, unit string) int64 {
	n, ok := resp.ParseInt(number)
	switch {
	case !ok || n < 0 || n > leaseMsMax:
	case resp.Is(unit, "PX"), resp.Is(unit, "PEXPIRE"):
		return n
	case resp.Is(unit, "EX"), resp.Is(unit, "EXPIRE"):
		return 1000 * n
	}
	return 0
}

// begin sets the end of a lease that begins now; ms 0: its length is unknown.
func (t *taken) begin(now, ms int64) {
	t.endMs = 0
	if ms > 0 {
		t.endMs = now + ms
	}
}

func (o *call) set(f setForm, r resp.Reply) {
	key, token := o.args[1], o.args[2]
	switch done := r.Kind == resp.KindStatus; {
	case f.nx:
		o.try(token, f, done)
	case !done:
		o.miss(key, false, token)
	default:
		if !f.leased {
			o.count(lockuse.LeaseDropped, key, lockuse.Hash(token), 1)
		}
		if t := o.own(lockuse.Hash(key)); t != nil {
			t.begin(o.now, f.ms)
		}
	}
}

// try records that a key was asked for under a condition, and whether it was free.
func (o *call) try(token string, f setForm, got bool) {
	if len(token) > tokenMax || token == "" {
		return
	}
	key, mine := lockuse.Hash(o.args[1]), lockuse.Hash(token)
	if !got {
		o.refuse(key, mine, f.leased)
		return
	}
	t := o.own(key)
	again := 0
	if t == nil {
		t = &o.taken[o.next(0, takenMax)]
	} else if !f.leased && !t.leased && t.freed && !t.read {
		if again = t.again + 1; again >= takenAgain {
			o.count(lockuse.NoLease, o.args[1], mine, int64(again))
			again = 0
		}
	}
	*t = taken{key: key, token: mine, db: o.db, atMs: o.now, leased: f.leased, again: again}
	t.begin(o.now, f.ms)
}

// next returns the next index of a ring.
func (m *memory) next(ring, size int) int {
	at := m.at[ring]
	m.at[ring] = (at + 1) % size
	return at
}

// own returns the memory of the key that the session has taken; nil: none, or it was overwritten.
func (o *call) own(key uint64) *taken {
	for i := range o.taken {
		if t := &o.taken[i]; t.key == key && t.db == o.db && t.atMs != 0 {
			return t
		}
	}
	return nil
}

// refuse records that a key was taken already.
func (o *call) refuse(key, token uint64, leased bool) {
	s := o.streak(key, token)
	if s == nil || o.now-s.lastMs > streakGapMs {
		if s == nil {
			s = &o.refused[o.next(1, refusedMax)]
		}
		*s = streak{key: key, token: token, db: o.db, leased: leased, sinceMs: o.now, tally: -1}
	}
	if o.now-s.lastMs > pollBreakMs {
		s.polls, s.sinceMs, s.tally = 0, o.now, -1
	}
	s.count++
	s.polls++
	s.lastMs = o.now
	if !leased && s.count == stillTaken {
		s.name = strings.Clone(o.args[1])
	}
	switch {
	case s.polls < pollsMin || o.now-s.sinceMs >= pollPauseMs*(s.polls-1):
	case s.tally >= 0:
		o.tallies[s.tally].Count++
		o.tallies[s.tally].AtMs = o.now
	default:
		s.tally = o.count(lockuse.Polls, o.args[1], token, s.polls)
	}
}

func (o *call) streak(key, token uint64) *streak {
	for i := range o.refused {
		if s := &o.refused[i]; s.key == key && s.token == token && s.db == o.db && s.count > 0 {
			return s
		}
	}
	return nil
}

// get records that the session reads a key that it has taken.
func (o *call) get(r resp.Reply) {
	t := o.own(lockuse.Hash(o.args[1]))
	if t == nil || r.Kind != resp.KindBulk || len(r.Str) > tokenMax {
		return
	}
	t.read = true
	if lockuse.Hash(r.Str) == t.token {
		t.readMs = o.now
	}
}

// del records a DEL of one key.
func (o *call) del(r resp.Reply) {
	switch {
	case len(o.args) != 2:
	case r.Int == 0:
		o.miss(o.args[1], true)
	default:
		t := o.own(lockuse.Hash(o.args[1]))
		if t == nil {
			return
		}
		if t.readMs != 0 && !t.freed && o.now-t.readMs <= twoStepsMs {
			o.count(lockuse.GetThenDel, o.args[1], t.token, 1)
			t.read = false
		}
		t.freed, t.readMs = true, 0
	}
}

// free records that a key which the session has taken may have been freed.
func (o *call) free(key string) {
	if t := o.own(lockuse.Hash(key)); t != nil {
		t.freed, t.readMs = true, 0
	}
}

// expire counts a lease that is set after the lock was taken.
func (o *call) expire(r resp.Reply) {
	t := o.own(lockuse.Hash(o.args[1]))
	switch {
	case t == nil || r.Int != 1 || t.freed:
		return
	case t.leased:
		if t.endMs != 0 && o.now > t.endMs {
			o.extend(t)
		}
		t.begin(o.now, millis(o.args[2], o.args[0]))
		return
	}
	t.leased = true
	t.begin(o.now, millis(o.args[2], o.args[0]))
	if o.now-t.atMs <= afterwardsMs {
		o.count(lockuse.LeaseAfterwards, o.args[1], t.token, 1)
	}
}

// extend records that the lease of a key was extended after the lease of the session, which had taken it, was over.
func (o *call) extend(t *taken) {
	m := miss{key: t.key, db: t.db, tokens: [tokensMax]uint64{t.token}, atMs: o.now}
	for i := range o.extended {
		if was := &o.extended[i]; was.key == m.key && was.db == m.db && was.tokens == m.tokens {
			was.atMs = o.now
			return
		}
	}
	o.extended[o.next(3, extendedMax)] = m
}

// tokensOf returns the keys of a script, and its arguments that may be tokens.
func tokensOf(spec *resp.Spec, args resp.Args) (keys, given []string) {
	if spec == nil {
		return nil, nil
	}
	all, ok := spec.Keys.Of(args)
	if !ok || len(all) == 0 {
		return nil, nil
	}
	given = args[spec.Keys.NumAt+1+len(all):]
	return all[:min(len(all), keysMax)], given[:min(len(given), tokensMax)]
}

// script records the reply of a script: its effect is unknown, except whether it reports one.
func (o *call) script(spec *resp.Spec, r resp.Reply) {
	keys, given := tokensOf(spec, o.args)
	for _, key := range keys {
		switch {
		case !failed(r):
			o.free(key)
		case len(given) > 0 && len(key) <= keyBytesMax:
			o.miss(key, false, given...)
		}
	}
}

// miss records that a key had none of the tokens; repeated misses count once.
func (o *call) miss(key string, del bool, tokens ...string) {
	m := miss{key: lockuse.Hash(key), db: o.db, del: del, atMs: o.now}
	for i, t := range tokens {
		if t != "" && len(t) <= tokenMax {
			m.tokens[i] = lockuse.Hash(t)
		}
	}
	for i := range o.missed {
		was := &o.missed[i]
		if was.atMs != 0 && was.key == m.key && was.db == m.db && was.tokens == m.tokens && was.del == m.del {
			was.atMs = m.atMs
			return
		}
	}
	o.missed[o.next(2, missedMax)] = m
}

// count adds a mistake to its tally, and returns the tally's index; -1: there are too many.
func (o *call) count(kind lockuse.Kind, key string, token uint64, n int64) int {
	template := lockuse.Template(key)
	for i := range o.tallies {
		if t := &o.tallies[i]; t.Kind == kind && t.DB == o.db && t.template == template {
			t.Count += n
			t.AtMs = o.now
			return i
		}
	}
	if len(o.tallies) == talliesMax {
		return -1
	}
	o.tallies = append(o.tallies, tally{template, lockuse.Observation{
		Kind: kind, DB: o.db, Key: strings.Clone(key), Hash: lockuse.Hash(key), Tokens: []uint64{token},
		AtMs: o.now, Count: n,
	}})
	return len(o.tallies) - 1
}

// Observations returns the observations of the session so far, with the client they concern.
func (s *Session) Observations(of resp.Client) []lockuse.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		return nil
	}
	var list []lockuse.Observation
	for i := range s.m.tallies {
		list = append(list, s.m.tallies[i].Observation)
	}
	for i := range s.m.refused {
		if r := &s.m.refused[i]; r.count > 0 {
			list = append(list, r.observation())
		}
	}
	for i := range s.m.missed {
		if m := &s.m.missed[i]; m.atMs != 0 {
			list = append(list, m.observation())
		}
	}
	for i := range s.m.extended {
		if m := &s.m.extended[i]; m.atMs != 0 {
			list = append(list, lockuse.Observation{
				Kind: lockuse.Extended, DB: m.db, Hash: m.key, Tokens: m.tokens[:1:1], AtMs: m.atMs, Count: 1,
			})
		}
	}
	for i := range list {
		list[i].Client = of
	}
	return list
}

func (s *streak) observation() lockuse.Observation {
	kind := lockuse.Refused
	if s.name != "" {
		kind = lockuse.StillTaken
	}
	return lockuse.Observation{
		Kind: kind, DB: s.db, Key: s.name, Hash: s.key, Tokens: []uint64{s.token}, AtMs: s.lastMs, Count: s.count,
	}
}

func (m *miss) observation() lockuse.Observation {
	s := lockuse.Observation{Kind: lockuse.Missed, DB: m.db, Hash: m.key, AtMs: m.atMs, Count: 1}
	if m.del {
		s.Kind = lockuse.MissedDel
	}
	for _, t := range m.tokens {
		if t != 0 {
			s.Tokens = append(s.Tokens, t)
		}
	}
	return s
}
