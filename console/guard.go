package console

import (
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
)

// headers are those of every answer: nothing comes from elsewhere, nothing is written into the page but
// by its own files, nobody frames it, and no cache keeps it.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
	"Vary":                         "Accept-Language",
}

// guarded lets through what a browser of the operator may ask, and survives what a handler does wrong.
func (c *Console) guarded(next http.Handler) http.Handler {
	var crossOrigin http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer c.recovers(w, r)
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case c.cfg.Loopback && !isThisMachine(r.Host):
			// A name of somebody else's that leads here would make his page one of this origin.
			http.Error(w, "This console is reached as localhost, or by an address of loopback.", http.StatusMisdirectedRequest)
		case crossOrigin.Check(r) != nil, r.Method == http.MethodPost && !saysOrigin(r), isForeignUse(r):
			http.Error(w, "The page of another site asks for this.", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// recovers keeps a defect of a page from ending the node.
func (c *Console) recovers(w http.ResponseWriter, r *http.Request) {
	defect := recover()
	if defect == nil {
		return
	}
	c.log.Error("the console failed to answer", "method", r.Method, "path", r.URL.Path, "panic", defect,
		"stack", string(debug.Stack()))
	http.Error(w, "This page has failed: the node's log says how.", http.StatusInternalServerError)
}

// isThisMachine reports whether a Host header can only be of loopback, at any port: it may be forwarded.
func isThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// saysOrigin: a browser says of a form whose page it is of, in the one header or the other.
func saysOrigin(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}

// isForeignUse reports whether a page of another site uses what is here for something else than a link.
func isForeignUse(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}
