package doctor

import (
	"slices"
	"strings"

	"lockd/resp"
	"lockd/resp/lockuse"
)

// Kind is the kind of an Event.
type Kind uint8

// The kinds of event.
const (
	Granted  Kind = iota + 1
	Released      // the token was compared, or its client deleted the key
	Deleted       // somebody deleted the key
	Expired
	Ended    // in another way
	Waited   // a wait in line has ended without the lock
	AllEnded // all locks of a database have
)

// Event is something that happened to a lock. Its texts must not change any more.
type Event struct {
	Kind       Kind
	DB         int
	Key, Token string
	Fence      uint64 // tells holders apart
	AtMs       int64  // wall time
	By         string // the command
	Script     bool   // a script called it
	Several    bool   // of a lock that several may hold
	Client     *resp.Client
	WaitedMs   int64
	HeldMs     int64
	LeaseMs    int64
}

// Limits.
const (
	templatesMax = 128 // with a name
	lapsedMax    = 4   // holds of a key that ended with the lease, the newest
	observedMax  = 64  // holds of a key that a report is about
	others       = "(others)"
)

// Case gathers events and observations.
type Case struct {
	Report lockuse.Report
	nowMs  int64

	classes  map[string]*class
	open     openHolds
	lapsed   map[name][]*hold
	observed map[uint64][]*hold // by the hash of the key: those that the report is about
	active   map[program]int64  // when it last got, or gave up, a lock
	grants   map[uint64]int     // by client ID
}

type name struct {
	db  int
	key string
}

// openHolds has the holds that last: of those with one fence the newest. The end of a database visits its holds alone.
type openHolds struct {
	byFence map[uint64]*hold
	byDB    map[int]map[uint64]*hold // the same holds; by fence
}

// hold is the time for which a token has a lock.
type hold struct {
	name
	token  uint64
	client *resp.Client
	of     *class
	fence  uint64
	script bool
	fromMs int64
	toMs   int64
	lease  int64 // as last set; 0: not known
	end    Kind  // 0: it lasts
	lateMs int64
	late   bool // its client went on after its end
}

// class gathers what is known of the locks of a template.
type class struct {
	template       string
	grants         int
	freed, expired int
	inUse          int     // expired while still in use
	holds          []int64 // how long they were needed
	longest        int64   // of the holds
	leases         []int64
	waits          []int64
	tokens         tokens
	mistakes       map[Mistake]*Finding
}

// tokens has the tokens by which commands, not scripts, took the locks of a class.
type tokens struct {
	grants   int
	first    string
	vary     bool
	by       program
	programs bool // several
	last     *Event
}

// program identifies a program: its connections have one name and one host.
type program struct{ name, host string }

func programOf(c *resp.Client) program {
	if c == nil {
		return program{}
	}
	host := c.Addr
	if i := strings.LastIndexByte(c.Addr, ':'); i >= 0 {
		host = c.Addr[:i]
	}
	return program{c.Name, host}
}

// New begins a case at a wall time.
func New(report lockuse.Report, nowMs int64) *Case {
	c := &Case{
		Report: report, nowMs: nowMs, classes: map[string]*class{}, lapsed: map[name][]*hold{},
		open:     openHolds{map[uint64]*hold{}, map[int]map[uint64]*hold{}},
		observed: map[uint64][]*hold{}, active: map[program]int64{}, grants: map[uint64]int{},
	}
	for i := range report.Observations {
		c.observed[report.Observations[i].Hash] = nil
	}
	return c
}

// class finds the class of a key.
func (c *Case) class(key string) *class {
	template := lockuse.Template(key)
	if w := c.classes[template]; w != nil {
		return w
	}
	if len(c.classes) >= templatesMax {
		if template = others; c.classes[template] != nil {
			return c.classes[template]
		}
	}
	w := &class{template: template, mistakes: map[Mistake]*Finding{}}
	c.classes[template] = w
	return w
}

// Add adds the next event.
func (c *Case) Add(e *Event) {
	switch e.Kind {
	case Granted:
		c.grant(e)
	case Waited:
		w := c.class(e.Key)
		w.waits = append(w.waits, e.WaitedMs)
	case AllEnded:
		c.open.endAll(e.DB, e.AtMs)
	default:
		c.end(e)
	}
}

// add adds a hold.
func (o *openHolds) add(h *hold) {
	o.remove(h.fence)
	o.byFence[h.fence] = h
	of := o.byDB[h.db]
	if of == nil {
		of = map[uint64]*hold{}
		o.byDB[h.db] = of
	}
	of[h.fence] = h
}

// remove removes and returns the hold with a fence; nil: it is not known.
func (o *openHolds) remove(fence uint64) *hold {
	h := o.byFence[fence]
	if h != nil {
		delete(o.byFence, fence)
		delete(o.byDB[h.db], fence)
	}
	return h
}

// endAll ends the holds of a database. It drops their map too: a map that has become empty still takes time by its size.
func (o *openHolds) endAll(db int, atMs int64) {
	for fence, h := range o.byDB[db] {
		h.end, h.toMs = Ended, atMs
		delete(o.byFence, fence)
	}
	delete(o.byDB, db)
}

func (c *Case) grant(e *Event) {
	w := c.class(e.Key)
	h := &hold{
		name: name{e.DB, e.Key}, token: lockuse.Hash(e.Token), client: e.Client, of: w, fence: e.Fence, script: e.Script,
		fromMs: e.AtMs,
	}
	c.open.add(h)
	c.active[programOf(e.Client)] = e.AtMs
	if e.Client != nil {
		c.grants[e.Client.ID]++
	}
	w.grants++
	if e.LeaseMs > 0 {
		w.leases = append(w.leases, e.LeaseMs)
	}
	if e.By == resp.LockCommand && !e.Script {
		w.waits = append(w.waits, e.WaitedMs)
	}
	if !e.Script && !e.Several {
		w.tokens.add(e)
	}
	hash := lockuse.Hash(e.Key)
	if list, ok := c.observed[hash]; ok {
		if len(list) == observedMax {
			list = slices.Delete(list, 0, 1)
		}
		c.observed[hash] = append(list, h)
	}
}

func (t *tokens) add(e *Event) {
	by := programOf(e.Client)
	if t.grants == 0 {
		t.first, t.by = e.Token, by
	}
	t.grants++
	t.vary = t.vary || e.Token != t.first
	t.programs = t.programs || by != t.by
	t.last = new(*e)
}

// end ends a hold. Its beginning may be unknown.
func (c *Case) end(e *Event) {
	w := c.class(e.Key)
	h := c.open.remove(e.Fence)
	if e.Kind != Expired {
		c.active[programOf(e.Client)] = e.AtMs
	}
	switch e.Kind {
	case Expired:
		w.expired++
	case Released, Deleted:
		w.freed++
		w.holds = append(w.holds, e.HeldMs)
		w.longest = max(w.longest, e.HeldMs)
	}
	if h == nil {
		return
	}
	h.end, h.toMs, h.lease = e.Kind, e.AtMs, max(0, e.LeaseMs)
	switch {
	case h.script || e.Script && e.Kind == Deleted:
	case e.Kind == Expired:
		c.lapse(h)
	case e.Kind == Deleted && !h.client.Same(e.Client):
		c.deletedByAnother(h, e)
	case e.Kind == Released:
		c.releasedByAnother(h, e)
	}
}

// lapse keeps a hold that ended with its lease: its client may not know that.
func (c *Case) lapse(h *hold) {
	list := c.lapsed[h.name]
	if len(list) == lapsedMax {
		list = slices.Delete(list, 0, 1)
	}
	c.lapsed[h.name] = append(list, h)
}

// deletedByAnother handles a DEL by a client whose lease of the lock ended before. A client that never had the lock may
// delete it on purpose.
func (c *Case) deletedByAnother(h *hold, e *Event) {
	for _, was := range slices.Backward(c.lapsed[h.name]) {
		by := programOf(e.Client)
		same := e.Client != nil && programOf(was.client) == by && programOf(h.client) != by
		if same || was.client.Same(e.Client) {
			was.outlived(e.AtMs)
			h.of.found(DelOfAnothers, e.Key, e.Client, 1, e.AtMs-was.toMs)
			return
		}
	}
}

// releasedByAnother handles a token that two programs had.
func (c *Case) releasedByAnother(h *hold, e *Event) {
	for _, was := range slices.Backward(c.lapsed[h.name]) {
		by := programOf(e.Client)
		if e.Client != nil && h.client != nil && was.token == h.token && programOf(was.client) == by &&
			programOf(h.client) != by {
			was.outlived(e.AtMs)
			h.of.found(SharedToken, e.Key, e.Client, 1, e.AtMs-was.toMs)
			return
		}
	}
}

// outlived records that a client went on after its lease had ended.
func (h *hold) outlived(atMs int64) {
	late := max(1, atMs-h.toMs)
	if !h.late {
		h.of.inUse++
	}
	h.late, h.lateMs = true, max(h.lateMs, late)
}

// found counts a mistake, and keeps the newest example.
func (w *class) found(m Mistake, key string, by *resp.Client, n, ms int64) {
	f := w.mistakes[m]
	if f == nil {
		f = &Finding{Mistake: m, Template: w.template}
		w.mistakes[m] = f
	}
	f.Count += n
	f.Example, f.Client = key, by
	f.Ms = max(f.Ms, ms)
}
