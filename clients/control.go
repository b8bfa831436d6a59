package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// controlMax bounds one request to the control port.
const controlMax = 60 * time.Second

// serveControl opens the port by which suites break the target:
//
//	POST /kill-leader            SIGKILL; answers the address its clients used
//	POST /kill-cluster-leader    the same for the nodes that speak the cluster protocol
//	POST /kill?node=ADDR         SIGKILL of the node that its clients know by that address
//	POST /heal                   starts what does not run, answers when all nodes serve
//	GET  /leader                 the leader's address for clients
//	POST /clocks                 starts three nodes more, whose clocks can be set; answers their addresses
//	GET  /clocks/leader          the address of the one of them that leads
//	POST /clock?node=ADDR&ms=N   the clock of one of them is wrong by N, those of the others are right
//
// A target that cannot lose its leader answers 501.
func (t *target) serveControl() (address string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	handleFor := func(pattern string, do func(context.Context, url.Values) (string, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), controlMax)
			defer cancel()
			if len(t.nodes) < 2 {
				http.Error(w, "this target has one node", http.StatusNotImplemented)
				return
			}
			text, err := do(ctx, r.URL.Query())
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintln(w, text)
		})
	}
	handle := func(pattern string, do func(context.Context) (string, error)) {
		handleFor(pattern, func(ctx context.Context, _ url.Values) (string, error) { return do(ctx) })
	}
	handle("POST /kill-leader", func(ctx context.Context) (string, error) { return t.killLeader(ctx, t.nodes) })
	handle("POST /kill-cluster-leader", func(ctx context.Context) (string, error) { return t.killLeader(ctx, t.cluster) })
	handleFor("POST /kill", func(ctx context.Context, asked url.Values) (string, error) {
		return t.kill(ctx, asked.Get("node"))
	})
	handle("POST /heal", func(ctx context.Context) (string, error) { return "ok", t.heal(ctx) })
	handle("GET /leader", func(ctx context.Context) (string, error) {
		n, err := leader(ctx, t.nodes)
		if err != nil {
			return "", err
		}
		return n.addr, nil
	})
	handle("POST /clocks", t.clocks.start)
	handle("GET /clocks/leader", t.clocks.leader)
	handleFor("POST /clock", func(_ context.Context, asked url.Values) (string, error) {
		return "ok", t.clocks.set(asked.Get("node"), asked.Get("ms"))
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: controlMax}
	t.closers = append(t.closers, func() { _ = srv.Close() })
	go func() { _ = srv.Serve(ln) }()
	return "http://" + ln.Addr().String(), nil
}
