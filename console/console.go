package console

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"lockd/resp"
)

// Config configures a Console. Dial and Ready are required.
type Config struct {
	// Dial opens a connection on which the node answers commands, on behalf of a browser. It is called concurrently.
	Dial     func(browser net.Addr) (net.Conn, error)
	Node     string // this node's id
	Password string // of the node; without one its profiles are refused
	// Ready returns the node's checks, each with the reason why it fails; "": it passes. It is cheap, and called
	// concurrently.
	Ready    func() []resp.Field
	ReadOnly bool // the node is a follower that serves reads after READONLY
	Loopback bool // only browsers on this machine have access: requests for other hosts are refused
	Log      *slog.Logger
	Metrics  http.Handler // serves /metrics; nil: 404
}

// Console serves pages. Its methods are safe for concurrent use.
type Console struct {
	cfg    Config
	log    *slog.Logger
	ctx    context.Context // ends at Shutdown
	cancel context.CancelFunc
	http   *http.Server
	asking chan struct{} // a token for each question on its way
	watch  watch
}

// New returns a console, which serves no listener yet.
func New(cfg Config) *Console {
	c := &Console{cfg: cfg, log: cfg.Log, asking: make(chan struct{}, asksMax)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.log == nil {
		c.log = slog.Default()
	}
	c.watch = watch{ctx: c.ctx, ask: c.ask, log: c.log, topics: map[string]*topic{}}
	c.http = &http.Server{
		Handler: c.handler(), ReadHeaderTimeout: headerTimeMax, ReadTimeout: readTimeMax, WriteTimeout: writeTimeMax,
		IdleTimeout: idleTimeMax, MaxHeaderBytes: headerBytesMax,
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug), // errors of browsers
	}
	return c
}

// Serve serves browsers on l until Shutdown, after which it returns nil, or until an error of l.
func (c *Console) Serve(l net.Listener) error {
	err := c.http.Serve(&boundedListener{
		Listener: l, room: make(chan struct{}, connsMax), stop: c.ctx.Done(), log: c.log,
	})
	if errors.Is(err, http.ErrServerClosed) || c.ctx.Err() != nil {
		return nil
	}
	return err
}

// Shutdown ends all watches, lets requests finish until ctx ends, and closes the listener.
func (c *Console) Shutdown(ctx context.Context) {
	c.cancel()
	if err := c.http.Shutdown(ctx); err != nil {
		_ = c.http.Close() // browsers that are cut off ask another node
	}
}

// boundedListener accepts at most connsMax connections at a time. Accept fails only after Close: other errors are
// temporary, and it retries.
type boundedListener struct {
	net.Listener
	room   chan struct{}
	stop   <-chan struct{}
	log    *slog.Logger
	warned time.Time
}

// Accept waits for room first.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.stop:
		return nil, net.ErrClosed
	}
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			return &boundedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.room })}, nil
		}
		if errors.Is(err, net.ErrClosed) || !l.waitOut(err) {
			<-l.room
			return nil, err
		}
	}
}

// waitOut pauses after an error, and logs it now and then. It reports false when the console stops.
func (l *boundedListener) waitOut(err error) bool {
	if now := time.Now(); now.Sub(l.warned) >= acceptLogged {
		l.warned = now
		l.log.Warn("the console cannot accept browsers; if there are too many open files, raise the limit of the process "+
			"(ulimit -n)", "listener", l.Addr().String(), "err", err)
	}
	select {
	case <-time.After(acceptPause):
		return true
	case <-l.stop:
		return false
	}
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Close makes room for another connection.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
