package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
)

// hostile is a name of a key, a token, an owner, a client or a member that tries to inject markup into a page.
const hostile = "<script>alert(1)</script>\"'`--><img src=x onerror=alert(2)>\r\ndata: x\r\n\r\n\x00\u202e&amp;{{.}}\xff"

// Where each page is.
var everyPage = []string{"/", "/lock?key=order:42", "/lock?key=order:42&token=abc", "/members", "/doctor"}

// Names are shown as text only: in both languages, in pages and in streams.
func TestNamesAreEscaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := aConsole(aNode(t, hostile), func(cfg *Config) { cfg.Node = hostile })
		for _, path := range append(everyPage, "/lock?key="+urlEncoded(hostile)) {
			for _, language := range []string{"en", "zh-CN"} {
				w := get(c, path, header("Accept-Language", language))
				checkEscaped(t, path, w.Code, w.Body.String())
			}
		}
	})
}

// A search stands in its field as it was given.
func TestSearchIsEscaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := aConsole(aNode(t, "order:42"))
		wants(t, get(c, "/?q="+urlEncoded(hostile)), 200, `value="&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;`)
	})
}

func urlEncoded(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

// checkEscaped fails if a name has become more than text.
func checkEscaped(t *testing.T, what string, status int, body string) {
	t.Helper()
	if status != http.StatusOK || !strings.Contains(body, "&lt;script&gt;alert(1)") {
		t.Errorf("%s: status %d, without the name:\n%s", what, status, body)
	}
	for _, bad := range []string{"<script>alert", "<img", "\x00", "\u202e", "\xff", "\r", "ZgotmplZ", " style=", " onerror=a"} {
		if i := strings.Index(strings.ReplaceAll(body, "onerror=alert(2)&gt;", ""), bad); i >= 0 {
			t.Errorf("%s: %q in\n%s", what, bad, body)
		}
	}
}

// Every answer forbids the browser features that its page does not need.
func TestEveryAnswerHasHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		c, _ := aConsole(node)
		paths := append(everyPage, "/static/console.js", "/static/console.css", "/static/icon.svg", "/livez", "/readyz", "/nothing", "/lock?db=x")
		for _, path := range paths {
			w := get(c, path)
			for name := range headers {
				if w.Header().Get(name) == "" {
					t.Errorf("%s: no %s", path, name)
				}
			}
			for _, risk := range []string{"unsafe-inline", "unsafe-eval", "http:", "*"} {
				if strings.Contains(w.Header().Get("Content-Security-Policy"), risk) {
					t.Errorf("%s: %s in the policy", path, risk)
				}
			}
			for _, foreign := range []string{"//cdn", "https://", "<script>", "<style", "javascript:"} {
				if strings.Contains(w.Body.String(), foreign) {
					t.Errorf("%s: %s in\n%s", path, foreign, w.Body)
				}
			}
		}
	})
}

// What the pages are for.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		c, _ := aConsole(node)
		wants(t, get(c, "/"), 200, `<a href="/lock?key=order%3A42">order:42</a>`, "order:42/owner", "10 s", "20 s of 30 s", `width="66"`,
			"Locks: 1, waiters: 1", `data-events="/events/locks"`)
		wants(t, get(c, "/lock?key=order:42"), 200, "order:42 bills", "2 times, last at 00:00:15.000", "Waited 4 s, Gives up in 56 s",
			"forced", "reason: order:42 hangs", `class="lost"`, `class="waited"`, `<option value="12-6f726465723a3432">`,
			`action="/lock/force?key=order%3a42"`)
		wants(t, get(c, "/lock?key=order:42&token=abc"), 200, "order:42 got it and lost it.")
		wants(t, get(c, "/members"), 200, "The leader is n1. Level in force: 1.", "behind by 5", ">down<",
			"1 to 2 <small>lockd 0.2.0</small>")
		wants(t, get(c, "/doctor"), 200, "order:42 has no lease.", "<dt>count</dt><dd>7</dd>",
			"Seen at node n1 since 00:00:01.000", `<td data-name="acquisitions">12</td>`)
		node.takeAsked()
		wants(t, get(c, "/?q=b\\r&waited=1&db=3&sort=waiters"), 200, `value="b\r"`, " checked")
		wants(t, get(c, "/?q=a*b"), 200)
		want := []string{"SELECT 3", `LOCKS LIST COUNT 201 MATCH *b\\r* WAITED`, "LOCKS LIST COUNT 201 MATCH a*b"}
		if asked := node.takeAsked(); !slices.Equal(asked, want) {
			t.Errorf("asked %q", asked)
		}
		node.set("LOCKS LIST", resp.Array())
		wants(t, get(c, "/"), 200, "No lock is held.")
		node.set("LOCKS INFO", resp.Nil())
		node.set("LOCKS HISTORY", pairs("known-since", nil, "events", resp.Array()))
		w := get(c, "/lock?key=nothing")
		wants(t, w, 200, "Nobody holds it.", "Nobody waits.", "Nothing is known of it.")
		if strings.Contains(w.Body.String(), "<form method=") {
			t.Error("what nobody holds can be ended by force")
		}
		node.set("LOCKS DOCTOR", pairs("findings", resp.Array()))
		wants(t, get(c, "/doctor"), 200, "Nothing is wrong")
		node.set("LOCKS ADVICE", resp.Err("NOPERM <b>"))
		wants(t, get(c, "/doctor"), 503, "The node answers: NOPERM &lt;b&gt;")
	})
}

// A long table ends, and says so.
func TestRowsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "x")
		var many []resp.Reply
		for i := range rowsMax + 1 {
			holders := make([]resp.Reply, i%8+1)
			for j := range holders {
				holders[j] = pairs("token", fmt.Sprint("t", j), "owner", fmt.Sprint("t", j), "fence", j, "lease-left-ms", i*100, "lease-ms", 30000)
			}
			many = append(many, pairs("key", fmt.Sprint("lock", i), "mode", "limit", "permits", 9, "holders", resp.Array(holders...), "waiters", i))
		}
		node.set("LOCKS LIST", resp.Array(many...))
		c, _ := aConsole(node)
		w := get(c, "/")
		wants(t, w, 200, "More are held than these 200", "and 3 more", "8 of 9")
		if n := strings.Count(w.Body.String(), "<tr>"); n != rowsMax+1 {
			t.Errorf("%d rows", n)
		}
		byWaiters := get(c, "/?sort=waiters").Body.String()
		if strings.Index(byWaiters, ">lock199<") > strings.Index(byWaiters, ">lock198<") {
			t.Error("not the most waiters first")
		}
		byLease := get(c, "/?sort=lease").Body.String()
		if strings.Index(byLease, ">lock0<") > strings.Index(byLease, ">lock1<") {
			t.Error("not the shortest lease first")
		}
	})
}

// What the node refuses is told.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		c, _ := aConsole(node)
		for _, path := range []string{"/", "/lock?key=k", "/members", "/doctor"} {
			node.replies = map[string]resp.Reply{"LOCKS LIST": resp.Err("LOADING <b>"), "LOCKS INFO": resp.Err("LOADING <b>"),
				"LOCKS HISTORY": resp.Err("LOADING <b>"), "LOCKD MEMBERS": resp.Err("LOADING <b>"), "LOCKS DOCTOR": resp.Err("LOADING <b>")}
			wants(t, get(c, path), 503, "The node answers: LOADING &lt;b&gt;")
		}
		node.down = true
		wants(t, get(c, "/"), 503, "The node answers: ")
		for _, path := range []string{"/?db=x", "/?db=-1", "/?q=" + strings.Repeat("x", searchBytesMax+1), "/lock?key=" + strings.Repeat("x", keyBytesMax+1),
			"/events/locks?db=x"} {
			wants(t, get(c, path), 400)
		}
		wants(t, get(c, "/events/nothing"), 404)
		wants(t, get(c, "/lock/force"), 405)
	})
}

// Nothing of the cluster is told without the password, and it is the node that judges it.
func TestPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		node.password = "hunter2"
		c, _ := aConsole(node)
		for _, path := range append(everyPage, "/events/locks", "/events/lock?key=order:42") {
			for _, with := range [][]asking{nil, {withPassword("", "hunter3")}, {withPassword("admin", "hunter2")}, {header("Authorization", "Bearer x")}} {
				w := get(c, path, with...)
				if wants(t, w, 401); strings.Contains(w.Body.String(), "order") || w.Header().Get("WWW-Authenticate") == "" {
					t.Errorf("%s: %v\n%s", path, w.Header(), w.Body)
				}
			}
		}
		wants(t, post(c, "/lock/force?key=order:42", "token=all&reason=x"), 401)
		if asked := node.takeAsked(); len(asked) > 0 {
			t.Errorf("asked %q", asked)
		}
		for _, user := range []string{"", "default"} {
			wants(t, get(c, "/", withPassword(user, "hunter2")), 200, "order:42")
		}
		for _, path := range []string{"/livez", "/readyz", "/static/console.css"} {
			wants(t, get(c, path), 200)
		}
	})
}

// A browser is told to wait when the node listens to no password of its address any more, and nothing else.
func TestWrongPasswordsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		node.password, node.tired = "hunter2", true
		c, _ := aConsole(node)
		for _, path := range append(everyPage, "/events/locks", "/debug/pprof/") {
			w := get(c, path, from("10.0.0.1:9"), withPassword("", "hunter2"))
			wants(t, w, 429, "too many wrong passwords from this address: try again in 42 s")
			if w.Header().Get("Retry-After") != "42" || w.Header().Get("WWW-Authenticate") != "" {
				t.Errorf("%s: %v", path, w.Header())
			}
		}
		wants(t, post(c, "/lock/force?key=order:42", "token=all&reason=x", withPassword("", "hunter2")), 429)
		wants(t, get(c, "/"), 401) // who says no password has given none
		if !slices.Contains(node.addrs, "10.0.0.1:9") {
			t.Errorf("the node is not told whose password it is: %q", node.addrs)
		}
		node.tired = false
		wants(t, get(c, "/", withPassword("", "hunter2")), 200, "order:42")
	})
}

// tiredListener has no descriptors for a while.
type tiredListener struct {
	net.Listener
	failures int
}

func (l *tiredListener) Accept() (net.Conn, error) {
	if l.failures--; l.failures < 0 {
		return nil, net.ErrClosed
	}
	return nil, syscall.ENOBUFS // which net/http takes for the end
}

func (l *tiredListener) Close() error   { return nil }
func (l *tiredListener) Addr() net.Addr { return &net.TCPAddr{} }

// A console that cannot accept goes on, and says so about once a minute.
func TestAcceptFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := aConsole(aNode(t, "order:42"))
		begin, l := time.Now(), &tiredListener{failures: int(150 * time.Second / acceptPause)}
		if err := c.Serve(l); !errors.Is(err, net.ErrClosed) || time.Since(begin) != 150*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		if n := strings.Count(log.String(), "cannot accept browsers"); n != 3 {
			t.Errorf("said %d times:\n%s", n, log)
		}
	})
}

// A page of another site gets nothing done, nor read.
func TestOtherSites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		node.set("LOCKS FORCE", resp.Int(1))
		c, _ := aConsole(node)
		for _, tt := range []struct {
			name string
			want int
			with []asking
		}{
			{"its own page", 303, nil},
			{"its own page, of a browser that says it", 303, []asking{header("Sec-Fetch-Site", "same-origin")}},
			{"another site", 403, []asking{header("Sec-Fetch-Site", "cross-site")}},
			{"another port", 403, []asking{header("Sec-Fetch-Site", "same-site"), header("Sec-Fetch-Mode", "navigate")}},
			{"another origin", 403, []asking{header("Origin", "http://evil.example")}},
			{"a sandbox", 403, []asking{header("Origin", "null")}},
			{"nothing is said", 403, []asking{func(r *http.Request) { r.Header.Del("Origin") }}},
		} {
			w := post(c, "/lock/force?key=order:42", "token=all&reason=x", tt.with...)
			asked := node.takeAsked()
			if w.Code != tt.want || (w.Code == 303) != (len(asked) == 1) {
				t.Errorf("%s: status %d, asked %q", tt.name, w.Code, asked)
			}
		}
		for _, path := range []string{"/", "/events/locks", "/static/console.js"} {
			wants(t, get(c, path, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors")), 403)
		}
		wants(t, get(c, "/", header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate")), 200) // a link
	})
}

// A foreign name that resolves to loopback is not accepted as a host.
func TestHostsOfLoopback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := aConsole(aNode(t, "order:42"), func(cfg *Config) { cfg.Loopback = true })
		for name, want := range map[string]int{
			"localhost": 200, "localhost:7080": 200, "127.0.0.1:1": 200, "127.0.0.1": 200, "[::1]:7080": 200, "[::1]": 200, "LOCALHOST:1": 200,
			"evil.example": 421, "evil.example:7080": 421, "localhost.evil.example": 421, "10.0.0.1:7080": 421, "0.0.0.0:7080": 421, "": 421,
		} {
			for _, path := range []string{"/", "/livez", "/events/nothing"} {
				w := get(c, path, host(name))
				if (w.Code == 421) != (want == 421) {
					t.Errorf("%q: status %d for %s", name, w.Code, path)
				}
			}
		}
		wide, _ := aConsole(aNode(t, "order:42"))
		wants(t, get(wide, "/", host("lockd.example")), 200)
	})
}

// A lock is ended for whom the form names, with the reason, by whom.
func TestForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "order:42")
		c, _ := aConsole(node)
		node.set("LOCKS FORCE", resp.Int(1))
		for _, tt := range []struct {
			path, form string
			want       int
			asked      []string
		}{
			{"/lock/force?key=a%ff&db=2", "token=12-61ff&reason=+web-7+hangs+", 303, []string{"SELECT 2", "LOCKS FORCE a\xff TOKEN a\xff FENCE 12 REASON web-7 hangs"}},
			{"/lock/force?key=a", "token=all&reason=x", 303, []string{"LOCKS FORCE a REASON x"}},
			{"/lock/force?key=a", "token=all&reason=++", 400, nil},
			{"/lock/force?key=a", "reason=x", 400, nil},
			{"/lock/force?key=a", "token=12-xyz&reason=x", 400, nil},
			{"/lock/force", "token=all&reason=x", 400, nil},
			{"/lock/force?key=a&token=all&reason=x", "", 400, nil},
			{"/lock/force?key=a", "token=all&reason=" + strings.Repeat("x", reasonBytesMax+1), 400, nil},
			{"/lock/force?key=a", "token=all&reason=x&more=" + strings.Repeat("x", formBytesMax), 400, nil},
		} {
			w := post(c, tt.path, tt.form, from("10.0.0.9:77"))
			if asked := node.takeAsked(); w.Code != tt.want || !slices.Equal(asked, tt.asked) {
				t.Errorf("%s %.99s: status %d, asked %q\n%s", tt.path, tt.form, w.Code, asked, w.Body)
			}
		}
		if !slices.Contains(node.addrs, "10.0.0.9:77") {
			t.Errorf("the node takes %q for those who ask", node.addrs)
		}
		w := post(c, "/lock/force?key=a%ff&db=2", "token=all&reason=x")
		if to := w.Header().Get("Location"); to != "/lock?db=2&key=a%FF&forced=1" {
			t.Errorf("then %q", to)
		}
		wants(t, get(c, "/lock?key=a&forced=1"), 200, "Holders that have lost the lock: 1.")
		wants(t, get(c, "/lock?key=a&forced=0"), 200, "Nobody has lost it")
		node.set("LOCKS FORCE", resp.Err("UNKNOWN <b>"))
		wants(t, post(c, "/lock/force?key=a", "token=all&reason=x"), 409, "The node answers: UNKNOWN &lt;b&gt;", "Held by")
	})
}

func TestLanguages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := aConsole(aNode(t, "order:42"))
		for accept, want := range map[string]language{
			"": english, "en-US,en;q=0.9": english, "zh-CN,zh;q=0.9,en;q=0.8": chinese, "en;q=0.5, zh-TW;q=0.7": chinese, "de": english,
			"zh;q=0": english, "fr, zh;q=0.1": chinese, "zh;q=x, en": english, ";;q=,,": english, "ZH": chinese, "zh;q=0.3,en;q=0.4": english,
		} {
			w := get(c, "/", header("Accept-Language", accept))
			if !strings.Contains(w.Body.String(), `<html lang="`+string(want)+`">`) {
				t.Errorf("%q: not %s", accept, want)
			}
		}
		wants(t, get(c, "/lock?key=order:42", header("Accept-Language", "zh")), 200, "排队者", "强制结束这把锁", "被强制结束", "原因：order:42 hangs")
	})
}

// Each text has its Chinese, with the same gaps, and no Chinese is without its text.
func TestEveryTextIsTranslated(t *testing.T) {
	var sources strings.Builder
	for _, pattern := range []string{"templates/*.html", "*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if file != "text.go" && !strings.HasSuffix(file, "_test.go") {
				sources.Write(text)
			}
		}
	}
	gaps := regexp.MustCompile(`%[a-z]`)
	for _, m := range regexp.MustCompile(`(?:\bt |translate\()"([^"]+)"`).FindAllStringSubmatch(sources.String(), -1) {
		zh, ok := chineseOf[m[1]]
		if !ok {
			t.Errorf("%q has no Chinese", m[1])
		} else if !slices.Equal(gaps.FindAllString(m[1], -1), gaps.FindAllString(zh, -1)) {
			t.Errorf("%q and %q have other gaps", m[1], zh)
		}
	}
	words := " granted released expired deleted overwritten forced moved flushed swapped gave-up left gone replaced refused " +
		"leader follower voter nonvoter up down shared limit mistake keys count example client acquisitions hold-p50-ms hold-p99-ms " +
		"hold-max-ms lease-ms expired-in-use wait-p50-ms wait-p99-ms lease-enough-ms "
	for text := range chineseOf {
		if !strings.Contains(sources.String(), `"`+text+`"`) && !strings.Contains(words, " "+text+" ") {
			t.Errorf("nobody says %q", text)
		}
	}
}

// A defect of a page is an error in the log and of that request alone.
func TestPanicsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, log := aConsole(aNode(t, "order:42"), func(cfg *Config) { cfg.Dial = func(net.Addr) (net.Conn, error) { panic("a defect") } })
		wants(t, get(c, "/"), 500)
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "a defect") {
			t.Errorf("log:\n%s", log)
		}
		c.cfg.Dial = aNode(t, "order:42").dial
		wants(t, get(c, "/"), 200)
		if len(c.asking) != 0 {
			t.Error("the room of the question is lost")
		}
	})
}

func TestReady(t *testing.T) {
	for _, tt := range []struct {
		checks        []resp.Field
		want, verbose string
	}{
		{[]resp.Field{{Name: "leader"}, {Name: "log"}}, "ok", "[+]leader ok\n[+]log ok\nreadyz check passed"},
		{[]resp.Field{{Name: "leader", Value: "no leader is known: x"}, {Name: "log"}}, "not ready: no leader is known: x",
			"[-]leader failed: no leader is known: x\n[+]log ok\nreadyz check failed"},
		{[]resp.Field{{Name: "leader", Value: "a"}, {Name: "log", Value: "b"}}, "not ready: a; b",
			"[-]leader failed: a\n[-]log failed: b\nreadyz check failed"},
	} {
		node := aNode(t, "x")
		node.password, node.down = "hunter2", true // nobody is asked, so no password is needed
		c, _ := aConsole(node)
		c.cfg.Ready = func() []resp.Field { return tt.checks }
		status := 503
		if tt.want == "ok" {
			status = 200
		}
		wants(t, get(c, "/readyz"), status, tt.want+"\n")
		wants(t, get(c, "/readyz?verbose"), status, tt.verbose+"\n")
		wants(t, get(c, "/livez"), 200, "ok")
		wants(t, get(c, "/livez?verbose"), 200, "[+]ping ok\nlivez check passed\n")
	}
}

// A node that does not answer is waited for so long, and no more questions than are allowed wait at once.
func TestQuestionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "x")
		node.wait = time.Hour
		c, _ := aConsole(node)
		answers := make(chan int)
		began := time.Now()
		for range asksMax + 2 {
			go func() { answers <- get(c, "/").Code }()
		}
		synctest.Wait()
		if n := len(node.takeAsked()); n != asksMax {
			t.Errorf("%d questions on their way", n)
		}
		for range asksMax + 2 {
			if code := <-answers; code != 503 {
				t.Errorf("status %d", code)
			}
		}
		if took := time.Since(began); took != askTimeMax {
			t.Errorf("it took %s", took)
		}
		time.Sleep(time.Hour)
	})
}

// An answer that would take much memory is not read to its end.
func TestAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "x")
		c, _ := aConsole(node)
		node.set("LOCKS LIST", resp.Array(slices.Repeat([]resp.Reply{resp.Bulk(strings.Repeat("x", 1<<20))}, answerBytesMax>>20+1)...))
		wants(t, get(c, "/"), 503, errTooLarge.Error())
		node.set("LOCKS LIST", resp.Array())
		wants(t, get(c, "/"), 200)
	})
}

// A follower that sends writers to the leader is asked as what it is for.
func TestFollowerThatRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := aNode(t, "x")
		c, _ := aConsole(node, func(cfg *Config) { cfg.ReadOnly = true })
		get(c, "/")
		if asked := node.takeAsked(); !slices.Equal(asked, []string{"READONLY", "LOCKS LIST COUNT 201"}) {
			t.Errorf("asked %q", asked)
		}
	})
}

func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"order:42": "order:42", "锁 1": "锁 1", "a\r\nb\x00": `a\x0d\x0ab\x00`, "a\u202eb\u200b": `a\u{202e}b\u{200b}`, "\xff\xfe": `\xff\xfe`,
		"\uFFFD": "\uFFFD", "": "", "a\u00a0b": `a\u{a0}b`,
	} {
		if got := printable(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if got := printable(strings.Repeat("x", 5000)); len(got) != shownRunesMax+3 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestDuration(t *testing.T) {
	for ms, want := range map[int64]string{
		0: "0 ms", 999: "999 ms", 1000: "1 s", 59999: "59 s", 61000: "1 min 1 s", 3600000: "1 h", 300000: "5 min", 90061000: "1 d 1 h", -5: "-5 ms",
	} {
		if got := duration(time.Duration(ms) * time.Millisecond); got != want {
			t.Errorf("%d: %q, want %q", ms, got, want)
		}
	}
}
