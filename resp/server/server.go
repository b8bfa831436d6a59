package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"lockd/internal/loglimit"
	"lockd/resp"
	"lockd/resp/server/access"
	"lockd/resp/server/observer"
	"lockd/resp/server/pubsub"
	"lockd/resp/server/settings"
	"lockd/resp/server/wire"
)

// Server serves clients. Its methods are safe for concurrent use.
type Server struct {
	*shared
	figures figures
	janitor janitor

	mu        sync.Mutex
	listeners []net.Listener
}

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("server: closed")

// New returns a server, which serves no listener yet.
func New(cfg Config) *Server {
	cfg.complete()
	fixed := map[string]string{settings.RequirePass: cfg.Password, "aclfile": cfg.ACLFile}
	maps.Copy(fixed, cfg.Local)
	s := &Server{shared: &shared{
		backend: cfg.Backend, profile: cfg.Profile, redirect: cfg.Redirect, hub: cfg.Hub,
		index: newIndex(cfg.Profile.table(), cfg.Backend), aclFile: access.NewFile(cfg.ACLFile),
		settings: settings.NewNode(settings.NodeConfig{
			Fixed: fixed, Protect: cfg.Protect, PubSubCount: cfg.PubSubCount, ClientsMax: cfg.ClientsMax,
			LogLevel: cfg.LogLevel, SeatsMax: cfg.Seats.Max,
		}),
		accounts: accounts{clock: cfg.Clock, limits: cfg.Hub.settings}, log: cfg.Log,
		guesses: access.NewGuesses(), guessing: loglimit.Limiter{Clock: cfg.Clock},
	}}
	started := s.clock()
	s.observer = observer.NewNode(started.UnixMilli())
	s.counter = pubsub.NewCounter(s.hub.broker, s.backend, s.settings.CountsCluster, s.clock)
	s.clients = newRegistry(cfg.Node, cfg.Seats, &s.stats.SubscribersDropped)
	s.janitor = janitor{
		clients: s.clients, hub: s.hub, backend: s.backend, totals: &s.stats, clock: s.clock, log: s.log,
		stop: make(chan struct{}),
	}
	s.figures = figures{
		version: cfg.Version, runID: cfg.RunID, mode: s.profile.mode, started: started, clock: s.clock,
		settings: s.settings, hub: s.hub, clients: s.clients,
		limit:  func() int64 { return min(s.clientsMax(), cfg.Seats.Max()) },
		totals: &s.stats, commands: s.index.figures,
	}
	s.hub.users.Serve(&access.Serving{
		Known: s.index.known, Password: cfg.Password, Log: s.log, Changed: s.endDenied,
	})
	s.hub.clients.Store(s.clients)
	return s
}

// complete fills in what is left out.
func (cfg *Config) complete() {
	if cfg.Profile == nil {
		cfg.Profile = Standalone
	}
	if cfg.Hub == nil {
		cfg.Hub = NewHub()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = wallClock
	}
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
		case s.clients.draining.Load():
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
	if s.clients.draining.Load() {
		return false
	}
	s.listeners = append(s.listeners, l)
	s.janitor.start()
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

// clientsMax returns how many clients may be connected, regardless of file descriptors.
func (s *Server) clientsMax() int64 {
	if own := s.settings.ClientsMax(); own > 0 {
		return own
	}
	return s.hub.settings.ClientsMax.Load()
}

// newSession registers a session; nil if there are too many or the server is stopping.
func (s *Server) newSession(conn net.Conn) *session {
	c := s.clients.admit(s.clientsMax(), func(nth uint64) *client { return s.newClient(conn, nth) })
	if c == nil {
		return nil
	}
	s.stats.Connections.Add(1)
	return newSession(c, s.shared)
}

func (s *Server) newClient(conn net.Conn, nth uint64) *client {
	c := &client{registry: s.clients, endpoint: newEndpoint(conn, s.backend.ClientID(nth), s.clock())}
	c.out = wire.NewOutbox(conn, s.clock)
	c.memory.ofAll = &s.clients.memoryBytes
	c.sub.Init(s.hub.broker, c, c.out)
	c.locks.Init(c.id, c, s.clock)
	c.track.Conn = c
	c.status.begin(s.clients.ticks.Load())
	c.rights.Init(s.hub.users)
	ctx := context.Background()
	if c.tls {
		ctx = resp.WithTLS(ctx)
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// endDenied closes the connections of deleted users, and those that are doing what their users may no longer do:
// listen, wait, monitor. The broker's lock is held.
func (s *Server) endDenied() {
	now, monitor := s.hub.users.Now(), s.index.aclOf("monitor")
	for _, c := range s.clients.list() {
		user := now.Get(c.rights.Name())
		if user != nil && c.keepsTo(user, monitor) {
			continue
		}
		if c.changing.Load() {
			c.leaving.Store(true)
		} else {
			c.kill()
		}
	}
}

// LoadUsers does as ACL LOAD if the file of users (Config.ACLFile) has changed since the server started, or since ACL
// LOAD, ACL SAVE or LoadUsers last handled it. So changes by ACL SETUSER stay as long as nobody edits the file. It
// reports whether the users were loaded; an error is one of ACL LOAD's answers. It is safe for concurrent use.
func (s *Server) LoadUsers(ctx context.Context) (loaded bool, err error) {
	if s.aclFile.Path == "" {
		return false, nil
	}
	text, err := s.aclFile.Read()
	if err != nil || !s.aclFile.Changed(text) {
		return false, err
	}
	users, err := s.aclFile.Parse(s.index.known, text)
	if err != nil {
		return false, err
	}
	r := replyAt(s.backend.Do(ctx, resp.Request{Cmds: []resp.Cmd{{Args: loadUsers(users)}}}), 0)
	if r.IsErr() {
		return false, resp.Error(r.Str)
	}
	s.aclFile.Note(text)
	return true, nil
}

// Info returns the sections of INFO on this process and its clients.
func (s *Server) Info() []resp.Section { return s.figures.sections() }

// Metrics returns the figures of INFO as metrics, for monitoring.
func (s *Server) Metrics() []resp.Metric { return s.figures.metrics() }

// Shutdown stops accepting, lets each session finish the commands it has read and write the replies, and closes the
// connections. If ctx ends first, it cuts off the remaining sessions and returns ctx's error, after cutOffMax at the
// latest: a session still blocked in the backend is left behind.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	for _, c := range s.clients.list() {
		c.wake()
		c.unblock(resp.UnblockStop)
	}
	defer s.janitor.end()
	select {
	case <-s.clients.idle:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.clients.list() {
		c.kill()
	}
	select {
	case <-s.clients.idle:
	case <-time.After(cutOffMax):
		s.log.Info("clients that were cut off are still being served", "clients", len(s.clients.list()))
	}
	return ctx.Err()
}

// drain closes the listeners, and admits nobody any more.
func (s *Server) drain() {
	s.clients.drain()
	s.pause.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l.Close()
	}
}
