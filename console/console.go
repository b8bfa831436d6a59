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

// Config is what a Console needs. Dial and Ready are required.
type Config struct {
	// Dial opens a connection on which the node answers commands; browser is whom it is for. It is
	// called concurrently.
	Dial     func(browser net.Addr) (net.Conn, error)
	Node     string // this node's id
	Password string // of the node; without one nobody sees its profiles
	// Ready says for each check of the node why it is not met; "": it is. It costs little, and is called concurrently.
	Ready    func() []resp.Field
	ReadOnly bool // the node serves reads, where it is not the leader, to those who say READONLY
	Loopback bool // only browsers of this machine come: requests for other hosts are refused
	Log      *slog.Logger
	Metrics  http.Handler // of /metrics; nil: there is none
}

// Console serves pages. Its methods may be called concurrently.
type Console struct {
	cfg    Config
	log    *slog.Logger
	ctx    context.Context // until Shutdown
	cancel context.CancelFunc
	http   *http.Server
	asking chan struct{} // a token for each question on its way
	watch  watch
}

// New makes a console that serves nobody yet.
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
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug), // what browsers do wrong
	}
	return c
}

// Serve answers browsers of l until Shutdown, after which it returns nil, or an error of l.
func (c *Console) Serve(l net.Listener) error {
	err := c.http.Serve(&boundedListener{
		Listener: l, room: make(chan struct{}, connsMax), stop: c.ctx.Done(), log: c.log,
	})
	if errors.Is(err, http.ErrServerClosed) || c.ctx.Err() != nil {
		return nil
	}
	return err
}

// Shutdown ends what is watched, lets requests finish until ctx ends, and closes the listener.
func (c *Console) Shutdown(ctx context.Context) {
	c.cancel()
	if err := c.http.Shutdown(ctx); err != nil {
		_ = c.http.Close() // whoever was cut off asks another node
	}
}

// boundedListener accepts no more connections than there is room for. It fails only when it is closed: what else
// can go wrong passes.
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
