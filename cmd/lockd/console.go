package main

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"

	"lockd/console"
	"lockd/metrics"
	"lockd/resp"
)

// checkConsole refuses a console that other machines can reach without authentication.
func (c *serveCmd) checkConsole() error {
	if c.HTTPListen == "" || c.Requirepass != "" || c.ProtectedMode != "yes" || onLoopback([]string{c.HTTPListen}) {
		return nil
	}
	return usagef("--http-listen %s is reached from other machines, and there is no password: give --requirepass, "+
		"or --protected-mode no", c.HTTPListen)
}

// listenHTTP opens the address of the console, or any of its host if that is taken and the node does not mind.
func listenHTTP(c *serveCmd) (net.Listener, error) {
	l, err := net.Listen("tcp", c.HTTPListen)
	if err != nil && c.anyHTTPPort {
		host, _, _ := net.SplitHostPort(c.HTTPListen) // it was checked
		l, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("--http-listen %s: %w", c.HTTPListen, cause(err))
	}
	return l, nil
}

// serveConsole lets browsers in, whose questions come to the server as those of any client.
func (i *instance) serveConsole(c *serveCmd) {
	inside := &pipes{addr: i.httpListener.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	i.serve(i.server, inside)
	i.console = console.New(console.Config{
		Dial: inside.dial, Node: c.ID, Password: c.Requirepass, Ready: i.node.Ready, ReadOnly: c.ClusterRedirect,
		Loopback: onLoopback([]string{c.HTTPListen}), Log: i.log,
		Metrics: i.metricsHandler(&c.logFlags),
	})
	i.serving.Go(func() {
		if err := i.console.Serve(i.httpListener); err != nil {
			select {
			case i.failed <- fmt.Errorf("--http-listen %s: %w", i.httpListener.Addr(), err):
			default:
			}
		}
	})
}

// metricsHandler serves the metrics of the node, of its server and of its log.
func (i *instance) metricsHandler(logs *logFlags) http.Handler {
	about := func() []resp.Metric {
		m := resp.Metric{
			Name: "lockd_build_info", Labels: []string{"version", "go"}, Help: "1; which lockd this is.",
		}
		m.Add(1, version, runtime.Version())
		return []resp.Metric{m}
	}
	return metrics.Handler(i.log, about, i.node.Metrics, i.server.Metrics, logs.logMetrics)
}

// pipes is a listener inside the process.
type pipes struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept waits for the other end of a dial.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr returns the address of the console.
func (p *pipes) Addr() net.Addr { return p.addr }

// dial connects a client that the server takes for one at the address from.
func (p *pipes) dial(from net.Addr) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- piped{there, p.addr, from}:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// piped is a connection with the addresses of its two ends.
type piped struct {
	net.Conn
	local, remote net.Addr
}

func (c piped) LocalAddr() net.Addr  { return c.local }
func (c piped) RemoteAddr() net.Addr { return c.remote }
