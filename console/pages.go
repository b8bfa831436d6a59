package console

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lockd/resp"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// templates are the page templates of each language.
var templates = map[language]*template.Template{english: parseTemplates(english), chinese: parseTemplates(chinese)}

func parseTemplates(l language) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"t": l.translate, "show": printable, "duration": duration, "whose": whose, "percent": percent, "bad": isBad,
		"lockURL": lockURL, "whyURL": whyURL,
		"clock": func(t time.Time) string { return clock(t, time.Now()) },
		"hex":   func(s string) string { return hex.EncodeToString([]byte(s)) },
	}).ParseFS(templateFiles, "templates/*.html"))
}

// query is the part of a request that selects the content of a page.
type query struct {
	DB     int
	Search string // part of the name of a lock, or a pattern
	Waited bool   // only locks with waiters
	Sort   string // sortHeld ...
	Key    string
	Token  string // explain what became of it
}

// The orders of locks.
const (
	sortHeld    = "held"
	sortWaiters = "waiters"
	sortLease   = "lease"
)

func parseQuery(v url.Values) (q query, err error) {
	q = query{Search: v.Get("q"), Waited: v.Get("waited") != "", Sort: v.Get("sort"), Key: v.Get("key"), Token: v.Get("token")}
	if db := v.Get("db"); db != "" {
		if q.DB, err = strconv.Atoi(db); err != nil || q.DB < 0 {
			return q, errors.New("db is not the number of a database")
		}
	}
	switch {
	case len(q.Search) > searchBytesMax:
		return q, fmt.Errorf("a search has at most %d bytes", searchBytesMax)
	case len(q.Key) > keyBytesMax || len(q.Token) > keyBytesMax:
		return q, fmt.Errorf("a key and a token have at most %d bytes here", keyBytesMax)
	}
	if q.Sort != sortWaiters && q.Sort != sortLease {
		q.Sort = sortHeld
	}
	return q, nil
}

// address returns a path with the query, without parameters that have their default.
func (q *query) address(path string) string {
	v := url.Values{}
	set := func(name, value, usual string) {
		if value != usual {
			v.Set(name, value)
		}
	}
	set("db", strconv.Itoa(q.DB), "0")
	set("q", q.Search, "")
	set("sort", q.Sort, sortHeld)
	set("key", q.Key, "")
	set("token", q.Token, "")
	if q.Waited {
		v.Set("waited", "1")
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

func lockURL(db int, key string) string {
	return (&query{DB: db, Key: key, Sort: sortHeld}).address("/lock")
}

func whyURL(db int, key, token string) string {
	return (&query{DB: db, Key: key, Token: token, Sort: sortHeld}).address("/lock")
}

// page is a page that browsers may see, and watch.
type page struct {
	Name, path, title string
	commands          func(q *query) [][]string
	// view converts the node's answers into the data of the page's template. The error is one that the node has
	// answered.
	view func(c *Console, q *query, answers []resp.Reply) (any, error)
}

var pages = map[string]*page{
	"locks":   {"locks", "/", "Locks", locksCommands, locksView},
	"lock":    {"lock", "/lock", "Lock", lockCommands, lockView},
	"members": {"members", "/members", "Members", membersCommands, membersView},
	"doctor":  {"doctor", "/doctor", "Doctor", doctorCommands, doctorView},
}

func (c *Console) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.pageHandler(pages["locks"]))
	for _, name := range []string{"lock", "members", "doctor"} {
		mux.HandleFunc("GET "+pages[name].path, c.pageHandler(pages[name]))
	}
	mux.HandleFunc("GET /events/{page}", c.events)
	mux.HandleFunc("POST /lock/force", c.force)
	mux.Handle("GET /static/", http.FileServerFS(staticFiles))
	mux.HandleFunc("GET /livez", c.livez)
	mux.HandleFunc("GET /readyz", c.readyz)
	mux.Handle("GET /debug/pprof/", c.profiles())
	if c.cfg.Metrics != nil {
		mux.Handle("GET /metrics", c.cfg.Metrics)
	}
	return c.guarded(mux)
}

// visitorOf returns the visitor that sends a request.
func visitorOf(r *http.Request) visitor {
	var addr net.Addr = &net.TCPAddr{}
	if a, err := net.ResolveTCPAddr("tcp", r.RemoteAddr); err == nil { // an address, so nothing is resolved
		addr = a
	}
	user, password, given := r.BasicAuth()
	if given {
		user = cmp.Or(user, "default")
	}
	return visitor{addr, user, password}
}

// pageHandler returns the handler of a page.
func (c *Console) pageHandler(p *page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.show(w, r, p, &q, forcedMessage(r), http.StatusOK)
	}
}

// forcedMessage returns the message on the result of LOCKS FORCE, which the redirection carries.
func forcedMessage(r *http.Request) string {
	lang := languageOf(r.Header.Get("Accept-Language"))
	switch n, err := strconv.Atoi(r.URL.Query().Get("forced")); {
	case err != nil:
		return ""
	case n == 0:
		return lang.translate("Nobody has lost it: it was not held so any more.")
	default:
		return lang.translate("Holders that have lost the lock: %d.", n)
	}
}

// pageData is the data of the frame around a page.
type pageData struct {
	Lang    language
	Page    *page
	Title   string
	Node    string
	Query   *query
	Events  string        // address of its event stream
	Live    template.HTML // made by a template
	Message string
	View    any
}

// show answers with the page as it is now.
func (c *Console) show(w http.ResponseWriter, r *http.Request, p *page, q *query, message string, status int) {
	lang := languageOf(r.Header.Get("Accept-Language"))
	answers, err := c.ask(r.Context(), questionOf(r, p, q))
	if answerRefusal(w, lang, err) {
		return
	}
	live, view, failed := c.live(lang, p, q, answers, err)
	if failed {
		status = max(status, http.StatusServiceUnavailable)
	}
	data := pageData{
		Lang: lang, Page: p, Title: lang.translate(p.title), Node: c.cfg.Node, Query: q, Events: q.address("/events/" + p.Name),
		Live: template.HTML(live), Message: message, View: view,
	}
	if p.Name == "lock" {
		data.Title = printable(q.Key)
	}
	html := render(lang, "page", data)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(html) // the browser has disconnected, or reads it
}

func questionOf(r *http.Request, p *page, q *query) question {
	return question{visitor: visitorOf(r), db: q.DB, commands: p.commands(q)}
}

// answerRefusal answers a visitor that the node refuses, and reports whether it did.
func answerRefusal(w http.ResponseWriter, lang language, err error) bool {
	var wait waitError
	switch {
	case errors.As(err, &refusedError{}):
		w.Header().Set("WWW-Authenticate", `Basic realm="lockd", charset="UTF-8"`)
		http.Error(w, lang.translate("This page needs the password with which clients authenticate."), http.StatusUnauthorized)
	case errors.As(err, &wait):
		seconds, _, _ := strings.Cut(wait.wait, " ")
		w.Header().Set("Retry-After", seconds)
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	default:
		return false
	}
	return true
}

// live renders the part of a page that changes, and returns its data; failed: there is no answer.
func (c *Console) live(
	lang language, p *page, q *query, answers []resp.Reply, err error,
) (html string, view any, failed bool) {
	if err == nil {
		view, err = p.view(c, q, answers)
	}
	if err != nil {
		return string(render(lang, "failed", printable(err.Error()))), nil, true
	}
	return string(render(lang, p.Name, view)), view, false
}

func render(lang language, name string, data any) []byte {
	var b bytes.Buffer
	if err := templates[lang].ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // a defect of the template, which the guard logs
	}
	return b.Bytes()
}
