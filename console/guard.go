package console

import (
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
)

// headers are set on every answer: the page loads nothing from other origins, only its own files run in it, no page
// frames it, and no cache keeps it.
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

// guarded lets through the requests that a browser of the operator may make, and recovers from panics of handlers.
func (c *Console) guarded(next http.Handler) http.Handler {
	var crossOrigin http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer c.recovers(w, r)
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case c.cfg.Loopback && !isThisMachine(r.Host):
			// A foreign name that resolves to this machine would make a foreign page same-origin.
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

// isThisMachine reports whether a Host header names loopback. Any port will do: it may be forwarded.
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

// saysOrigin reports whether a request names the page it comes from, in either header: browsers do so for forms.
func saysOrigin(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}

// isForeignUse reports whether a page of another site uses the console other than by a link.
func isForeignUse(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}
