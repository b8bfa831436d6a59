package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lockd/internal/loglimit"
	"lockd/resp"
	"lockd/resp/server/access"
	"lockd/resp/server/pubsub"
	"lockd/resp/server/settings"
	"lockd/resp/server/stats"
	"lockd/resp/server/wire"
	"lockd/resp/server/witness"
)

// Server serves clients. Its methods are safe for concurrent use.
type Server struct {
	backend  Backend
	profile  *Profile
	redirect func(tls bool) string
	hub      *Hub
	index    *index
	settings *settings.Node
	version  string
	runID    string
	node     string
	log      *slog.Logger
	aclFile  *access.File
	clock    Clock
	seats    *Seats
	started  time.Time

	stats    stats.Totals
	slowlog  stats.Slowlog
	aclLog   access.Denials
	latency  stats.Latency
	pause    pause
	counter  *pubsub.Counter
	witness  *witness.Node
	guesses  *access.Guesses
	guessing loglimit.Limiter // of the warnings of wrong passwords

	held     atomic.Int64 // of all sessions: see session.hold
	ticks    atomic.Int64 // rounds of the janitor, by which idle time is measured
	draining atomic.Bool  // Shutdown has begun

	mu        sync.Mutex
	listeners []net.Listener
	sessions  map[int64]*client
	came      uint64 // number of sessions so far
	janitor   bool
	idle      chan struct{} // closed when the last session ends while draining
	stop      chan struct{} // ends the janitor
}

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("server: closed")

// New returns a server, which serves no listener yet.
func New(cfg Config) *Server {
	s := &Server{
		backend: cfg.Backend, profile: cfg.Profile, redirect: cfg.Redirect, hub: cfg.Hub,
		version: cfg.Version, runID: cfg.RunID, node: cfg.Node,
		log: cfg.Log, clock: cfg.Clock, seats: cfg.Seats, aclFile: access.NewFile(cfg.ACLFile),
		sessions: map[int64]*client{}, idle: make(chan struct{}), stop: make(chan struct{}),
	}
	if s.profile == nil {
		s.profile = Standalone
	}
	if s.hub == nil {
		s.hub = NewHub()
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.clock == nil {
		s.clock = wallClock
	}
	fixed := map[string]string{settings.RequirePass: cfg.Password, "aclfile": cfg.ACLFile}
	maps.Copy(fixed, cfg.Local)
	s.settings = settings.NewNode(settings.NodeConfig{
		Fixed: fixed, Protect: cfg.Protect, PubSubCount: cfg.PubSubCount, ClientsMax: cfg.ClientsMax,
		LogLevel: cfg.LogLevel, SeatsMax: s.seats.Max,
	})
	s.counter = pubsub.NewCounter(s.hub.broker, cfg.Backend, s.settings.CountsCluster, s.clock)
	s.index = newIndex(s.profile.table(), cfg.Backend)
	s.hub.users.Serve(&access.Serving{
		Known: s.index.known, Password: cfg.Password, Log: s.log, Changed: s.endDenied,
	})
	s.hub.server.Store(s)
	s.started = s.clock()
	s.guesses = access.NewGuesses()
	s.guessing.Clock = s.clock
	s.witness = witness.NewNode(s.started.UnixMilli())
	return s
}

// Hub returns the hub to which messages and settings are published.
func (s *Server) Hub() *Hub { return s.hub }

// Serve accepts clients of l, tcp or unix, until Shutdown or a permanent error of l. Several listeners may be served
// at once.
func (s *Server) Serve(l net.Listener) error {
	if !s.begin(l) {
		l.Close()
		return ErrServerClosed
	}
	failures := loglimit.Limiter{Clock: s.clock}
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			s.admit(conn)
		case s.draining.Load():
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			if n, ok := failures.Allow(""); ok {
				s.log.Warn("accept failed; if there are too many open files, raise the limit of the process (ulimit -n)",
					"listener", l.Addr().String(), "err", err, "untold", n)
			}
			time.Sleep(acceptBackoff)
		}
	}
}

func (s *Server) begin(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.listeners = append(s.listeners, l)
	s.startJanitor()
	return true
}

// admit starts the session of a connection, or refuses it.
func (s *Server) admit(conn net.Conn) {
	s.setKeepAlive(conn)
	why := resp.ErrMaxClients
	if s.protects(conn) {
		why = errProtected
		s.stats.Protected.Add(1)
	} else if c := s.newSession(conn); c != nil {
		go c.serve()
		return
	}
	s.stats.Rejected.Add(1)
	conn.SetWriteDeadline(wallClock().Add(lingerMax))
	_, _ = conn.Write(resp.Err(why).AppendTo(nil, 2)) // the connection is refused in any case
	conn.Close()
}

// errProtected begins as in Redis, whose clients look for DENIED, and names lockd's ways out.
const errProtected = "DENIED Redis is running in protected mode because protected mode is enabled and no password " +
	"is set for the default user. " +
	"In this mode connections are only accepted from the loopback interface. " +
	"If you want to connect from external computers to lockd you may adopt one of the following solutions: " +
	"1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface " +
	"by connecting to lockd from the same host the server is running, however MAKE SURE lockd is not publicly " +
	"accessible from internet if you do so: it holds for this node until it is restarted. " +
	"2) Start each node with the '--protected-mode no' option, or protected-mode = \"no\" in its settings file. " +
	"3) Set up an authentication password: start all nodes with the same '--requirepass'. " +
	"NOTE: You only need to do one of the above things in order for the server to start accepting connections from " +
	"the outside."

// SetLogLevel does as CONFIG SET loglevel, or nothing without Config.LogLevel. It is safe for concurrent use.
func (s *Server) SetLogLevel(level slog.Level) { s.settings.SetLogLevel(level) }

// protects reports whether protected mode refuses a client: it is on another machine, and no password is set.
func (s *Server) protects(conn net.Conn) bool {
	if !s.hub.users.Now().Default().NoPass || !s.settings.Protected() {
		return false
	}
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && !addr.IP.IsLoopback()
}

func (s *Server) setKeepAlive(conn net.Conn) {
	tcp, ok := wire.Socket(conn).(*net.TCPConn)
	if !ok {
		return
	}
	every := time.Duration(s.hub.settings.KeepAliveSeconds.Load()) * time.Second
	_ = tcp.SetKeepAliveConfig( // a connection that is closed already needs none
		net.KeepAliveConfig{Enable: every > 0, Idle: every, Interval: max(every/3, time.Second), Count: 3})
}

// newSession registers a session; nil if there are too many or the server is stopping.
func (s *Server) newSession(conn net.Conn) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() || int64(len(s.sessions)) >= s.clientsMax() || !s.seats.take() {
		return nil
	}
	s.came++
	c := &client{srv: s, endpoint: newEndpoint(conn, s.backend.ClientID(s.came), s.clock())}
	c.out = wire.NewOutbox(conn, s.clock)
	c.memory.ofAll = &s.held
	c.sub.Init(s.hub.broker, c, c.out)
	c.locks.Init(c.id, c, s.clock)
	c.track.Conn = c
	c.status.begin(s.ticks.Load())
	c.rights.Init(s.hub.users)
	ctx := context.Background()
	if c.tls {
		ctx = resp.WithTLS(ctx)
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	s.sessions[c.id] = c
	s.stats.Connections.Add(1)
	return &session{client: c, replies: replies{to: c.out, of: &c.status, totals: &s.stats}}
}

// Shutdown stops accepting, lets each session finish the commands it has read and write the replies, and closes the
// connections. If ctx ends first, it cuts off the remaining sessions and returns ctx's error, after cutOffMax at the
// latest: a session still blocked in the backend is left behind.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	for _, c := range s.clients() {
		c.wake()
		c.unblock(resp.UnblockStop)
	}
	var err error
	select {
	case <-s.idle:
	case <-ctx.Done():
		err = ctx.Err()
		for _, c := range s.clients() {
			c.kill()
		}
		select {
		case <-s.idle:
		case <-time.After(cutOffMax):
			s.log.Info("clients that were cut off are still being served", "clients", len(s.clients()))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	return err
}

// drain closes the listeners and wakes the sessions.
func (s *Server) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining.Store(true)
	s.pause.lift()
	for _, l := range s.listeners {
		l.Close()
	}
	if len(s.sessions) == 0 {
		s.closeIdle()
	}
}
