package console

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"
)

// profiles serves Go's own pages about the process, at /debug/pprof, except the command line: it may contain a
// password.
func (c *Console) profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.mayAdminister(w, r) {
			return
		}
		// A profile takes longer than a page, and pprof reads the limit from the server in the context.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(profileTimeMax))
		ctx := context.WithValue(r.Context(), http.ServerContextKey, &http.Server{WriteTimeout: profileTimeMax})
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// mayAdminister reports whether a visitor may see profiles, and answers one that may not. A profile shows the
// contents of memory, so the node must have a password, and the visitor that of a user who may configure the node.
func (c *Console) mayAdminister(w http.ResponseWriter, r *http.Request) bool {
	if c.cfg.Password == "" {
		http.Error(w, "There is no password, so nobody may see this: --requirepass gives one.", http.StatusForbidden)
		return false
	}
	q := question{visitor: visitorOf(r), commands: [][]string{{"CONFIG", "GET", "maxclients"}}}
	answers, err := c.ask(r.Context(), q)
	if answerRefusal(w, languageOf(r.Header.Get("Accept-Language")), err) {
		return false
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return false
	}
	if answers[0].IsErr() {
		http.Error(w, printable(answers[0].Str), http.StatusForbidden)
		return false
	}
	return true
}
