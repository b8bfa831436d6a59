package server

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockd/internal/loglimit"
	"lockd/resp"
	"lockd/resp/acl"
	"lockd/resp/lockuse"
	"lockd/resp/server/access"
	"lockd/resp/server/holders"
	"lockd/resp/server/observer"
	"lockd/resp/server/pubsub"
	"lockd/resp/server/settings"
	"lockd/resp/server/stats"
	"lockd/resp/server/track"
	"lockd/resp/server/wire"
)

// shared has what the sessions of a server share. Its parts do not change, and are safe for concurrent use.
type shared struct {
	backend  Backend
	profile  *Profile
	redirect func(tls bool) string // nil: this node serves every key
	hub      *Hub
	index    *index
	clients  *registry
	settings *settings.Node
	aclFile  *access.File
	log      *slog.Logger

	accounts
	aclLog   access.Denials
	pause    pause
	counter  *pubsub.Counter
	observer *observer.Node
	guesses  *access.Guesses
	guessing loglimit.Limiter // of the warnings of wrong passwords
}

// session runs the commands of one connection. Only its own goroutine uses it; other goroutines know its client.
type session struct {
	stream
	caller
	run  run
	tx   transaction
	exec *execution // nil: no EXEC runs

	untold []func() // lines to log, which must not happen under the broker's lock
}

func newSession(c *client, srv *shared) *session {
	return &session{
		stream: stream{
			client: c, settings: srv.hub.settings, log: srv.log,
			replies: replies{to: c.out, of: &c.status, totals: &srv.stats},
		},
		caller: caller{of: c, srv: srv},
		tx:     transaction{of: c},
	}
}

// charge adds work of a command beside its answer, which is bounded in a transaction.
func (s *session) charge(work int) {
	if s.exec != nil {
		s.exec.work += work
	}
}

// client is the part of a session that other goroutines may use: the janitor, INFO, CLIENT LIST and KILL, the hub. They
// use what does not change, status, memory, the outbox, the name of the user, and what the broker's lock guards.
type client struct {
	endpoint
	registry *registry
	ctx      context.Context // ends when the client disconnects: the backend then stops waiting
	cancel   context.CancelFunc
	out      *wire.Outbox

	rights   access.Rights    // the session's goroutine uses it, others read the name of the user
	observer observer.Session // observes its use of locks

	// The session's goroutine changes these with the broker's lock, and reads them without it; others read them with
	// it.
	sub   pubsub.Subscriber
	track track.Client
	locks holders.Client

	prefixBytes int // bytes of memory that the prefixes of track take; only the session's goroutine uses it

	seen phase // in the janitor's last round; only the janitor uses it

	status
	memory
}

// endpoint is a connection and the data known of it from the start.
type endpoint struct {
	conn  net.Conn
	id    int64
	addr  string // of the client
	laddr string // ours
	unix  bool
	tls   bool
	fd    int64
	since time.Time
}

// newEndpoint writes both addresses as Redis does: a unix socket is its path with port 0.
func newEndpoint(conn net.Conn, id int64, now time.Time) endpoint {
	e := endpoint{conn: conn, id: id, since: now, fd: wire.Descriptor(conn),
		tls: wire.Secured(conn), laddr: conn.LocalAddr().String()}
	if e.unix = conn.LocalAddr().Network() == "unix"; e.unix {
		e.laddr += ":0"
		e.addr = e.laddr
	} else {
		e.addr = conn.RemoteAddr().String()
	}
	return e
}

// kill ends the session from any goroutine: pending output is lost, and nothing more is written, not even that a
// command was given up.
func (c *client) kill() {
	c.out.Kill()
	c.cancel()
}

// observations returns the observations of this client.
func (c *client) observations() []lockuse.Observation {
	name, _, _ := c.names.get()
	name = name[:min(len(name), loggedNameBytesMax)]
	return c.observer.Observations(resp.Client{ID: uint64(c.id), Name: name, Addr: c.addr})
}

// Send implements holders.Conn.
func (c *client) Send(form []byte) { c.sub.Send(form) }

// Is implements holders.Conn. The address counts, too: ids start again with each process.
func (c *client) Is(by resp.Sender) bool {
	named := by.Client()
	return by != "" && named.ID == uint64(c.id) && named.Node == c.registry.node && named.Addr == c.addr
}

// Dropped implements pubsub.Conn: the session then leaves the hub by itself, and logs why.
func (c *client) Dropped(reason stats.DropReason) {
	c.registry.dropped.Add(reason)
	c.kill()
}

// tell writes the lines of untold to the log: EXEC runs some commands under the hub's lock, where logging is
// forbidden.
func (s *session) tell() {
	for _, line := range s.untold {
		line()
	}
	s.untold = nil
}

// keepsTo reports whether a user may go on with what the client is doing; monitor is the command MONITOR. The broker's
// lock is held.
func (c *client) keepsTo(user *acl.User, monitor *acl.Command) bool {
	if user.Unlimited() {
		return true
	}
	for _, k := range []pubsub.Kind{pubsub.Channel, pubsub.Pattern, pubsub.Shard} {
		for name := range c.sub.Names(k) {
			if !user.HasChannel(name, k == pubsub.Pattern) {
				return false
			}
		}
	}
	if p := c.waiter.Load(); p != nil {
		if why, _, _ := user.Check(p.cmd.acl, p.args); why != acl.Allowed {
			return false
		}
	}
	if c.monitors.Load() {
		why, _, _ := user.Check(monitor, resp.Args{"monitor"})
		return why == acl.Allowed
	}
	return true
}

// wake ends the wait of a session for its next command. A session that is not waiting looks at the server's draining
// before it waits again.
func (c *client) wake() {
	c.conn.SetReadDeadline(time.Unix(1, 0))
}

// phase is the activity of a session, for the janitor. Its two lowest bits are the kind, the rest a counter: a value
// seen twice is a session that has made no progress.
type phase = uint64

const (
	phaseReading phase = iota // waits for its client
	phaseRunning              // runs commands; may wait in the backend
	phaseWriting              // writes to its socket
	phaseKinds   = 4
)

// status is the part of a session that others may read while it works: the janitor, INFO, CLIENT LIST, the hub. The
// session's goroutine changes it; the hub changes trackFlags and redirect.
type status struct {
	proto      atomic.Int32
	db         atomic.Int32
	phase      atomic.Uint64
	activeAt   atomic.Int64 // in ticks of the janitor
	last       atomic.Pointer[resp.Spec]
	queued     atomic.Int32 // commands in the open transaction; -1: none
	inputBytes atomic.Int64 // in the input buffer
	noEvict    atomic.Bool
	noTouch    atomic.Bool
	readOnly   atomic.Bool            // READONLY: a follower may serve its reads
	monitors   atomic.Bool            // MONITOR
	blocked    atomic.Bool            // waits until clients are not paused
	trackFlags atomic.Uint32          // flagTracks ...
	redirect   atomic.Int64           // of tracking; -1: does not track
	waiter     atomic.Pointer[waiter] // nil: no blocking command waits
	changing   atomic.Bool            // it is changing users: if the change ends the session, it is answered first
	leaving    atomic.Bool            // the change ended the session
	names      clientNames
}

// begin sets the status of a new client.
func (st *status) begin(ticks int64) {
	st.proto.Store(2)
	st.queued.Store(-1)
	st.redirect.Store(-1)
	st.activeAt.Store(ticks)
}

func (st *status) enter(kind phase) {
	st.phase.Store((st.phase.Load()/phaseKinds+1)*phaseKinds + kind)
}

// Proto returns the version of RESP that the client speaks.
func (st *status) Proto() int { return int(st.proto.Load()) }

func (st *status) kind() phase { return st.phase.Load() % phaseKinds }

// mayTimeOut reports whether an idle client may be disconnected: not one that only listens.
func (c *client) mayTimeOut() bool { return !c.sub.Subscribes() && !c.monitors.Load() }

// class returns Redis's class of a client. There are no replicas among them: replication has its own port.
func (c *client) class() string {
	if c.sub.Subscribes() {
		return "pubsub"
	}
	return "normal"
}

// The bits of status.trackFlags.
const (
	flagTracks uint32 = 1 << iota
	flagBroken
	flagBroadcast
)

// flags returns the letters of CLIENT LIST.
func (c *client) flags() string {
	track := c.trackFlags.Load()
	letters := ""
	for _, f := range []struct {
		set    bool
		letter string
	}{
		{c.monitors.Load(), "O"}, {c.sub.Subscribes(), "P"}, {c.queued.Load() >= 0, "x"},
		{c.blocked.Load() || c.waiter.Load() != nil, "b"},
		{track&flagTracks != 0, "t"}, {track&flagBroken != 0, "R"}, {track&flagBroadcast != 0, "B"},
		{c.unix, "U"}, {c.readOnly.Load(), "r"}, {c.noEvict.Load(), "e"}, {c.noTouch.Load(), "T"},
	} {
		if f.set {
			letters += f.letter
		}
	}
	if letters == "" {
		return "N"
	}
	return letters
}

// describe appends the line of CLIENT LIST about the client. Any goroutine may call it.
func (c *client) describe(b []byte, now time.Time) []byte {
	name, libName, libVer := c.names.get()
	cmd := "NULL"
	if spec := c.last.Load(); spec != nil {
		cmd = spec.Name
	}
	field := func(key, value string) {
		b = append(append(append(append(b, key...), '='), value...), ' ')
	}
	number := func(key string, n int64) { field(key, strconv.FormatInt(n, 10)) }
	waiting := int64(c.out.Waiting())
	number("id", c.id)
	field("addr", c.addr)
	field("laddr", c.laddr)
	number("fd", c.fd)
	field("name", name)
	number("age", int64(now.Sub(c.since)/time.Second))
	number("idle", (c.registry.ticks.Load()-c.activeAt.Load())/int64(time.Second/janitorEvery))
	field("flags", c.flags())
	number("db", int64(c.db.Load()))
	number("sub", int64(c.sub.Count(pubsub.Channel)))
	number("psub", int64(c.sub.Count(pubsub.Pattern)))
	number("ssub", int64(c.sub.Count(pubsub.Shard)))
	number("multi", int64(c.queued.Load()))
	number("qbuf", c.inputBytes.Load())
	number("qbuf-free", 0)
	number("argv-mem", 0)
	number("multi-mem", 0)
	number("rbs", 0)
	number("rbp", 0)
	number("obl", 0)
	number("oll", 0)
	number("omem", waiting)
	number("tot-mem", c.inputBytes.Load()+waiting+c.memory.bytes.Load())
	field("events", "r")
	field("cmd", cmd)
	field("user", c.rights.Name())
	number("redir", c.redirect.Load())
	number("resp", int64(c.proto.Load()))
	field("lib-name", libName)
	field("lib-ver", libVer)
	b[len(b)-1] = '\n'
	return b
}

// recordDenial adds a denied call, or a failed login, of a client to ACL LOG.
func (s *shared) recordDenial(of *client, reason, context, user, object string) {
	now := s.clock()
	s.aclLog.Add(access.Denied{Reason: reason, Context: context, Object: object, User: user, At: now,
		Client: strings.TrimSuffix(string(of.describe(nil, now)), "\n")}, int(s.hub.settings.ACLLogMax.Load()))
}

// clientNames are the names that a client gives itself.
type clientNames struct {
	mu                    sync.Mutex
	name, libName, libVer string
}

const errClientName = "ERR Client names cannot contain spaces, newlines or special characters."

// printable reports whether Redis accepts a name of a client or library.
func printable(name string) bool {
	strange := func(r rune) bool { return r < '!' || r > '~' }
	return len(name) <= clientNameBytesMax && !strings.ContainsFunc(name, strange)
}

func (n *clientNames) get() (name, libName, libVer string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.name, n.libName, n.libVer
}

// set changes one of the names, which field points to.
func (n *clientNames) set(field *string, value string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	*field = strings.Clone(value)
}
