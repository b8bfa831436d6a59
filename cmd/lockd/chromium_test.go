//go:build chromium

package main

import (
	"bytes"
	"context"
	"image"
	_ "image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The console in a real browser, which the step console of .ci/verify installs. CONSOLE_PICTURE names a
// file for the picture of docs/locks.md.

// slowImage is the path of an image that the console lacks: it keeps the page loading until its script has heard from
// the node for a while.
const slowImage = "/slow-image"

// linger stands between chromium, which shows a page as soon as it is complete, and a console.
func linger(to string) *httptest.Server {
	heard, once := make(chan struct{}), sync.Once{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	proxy.ModifyResponse = func(r *http.Response) error {
		if strings.HasPrefix(r.Request.URL.Path, "/events/") {
			once.Do(func() { close(heard) })
		}
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			return nil
		}
		page, err := io.ReadAll(r.Body)
		page = bytes.Replace(page, []byte("</body>"), []byte(`<img src="`+slowImage+`"></body>`), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(page)), int64(len(page))
		r.Header.Del("Content-Length")
		return err
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != slowImage {
			proxy.ServeHTTP(w, r)
			return
		}
		select {
		case <-heard:
			time.Sleep(2 * time.Second) // time for the page to show the event
		case <-r.Context().Done():
		}
	}))
}

// chromium opens a page of a console, and returns its final DOM and the browser's messages. user is empty, or a name
// and a password.
func chromium(t *testing.T, to, user, path string, flags ...string) (dom, says string) {
	t.Helper()
	proxy := linger(to)
	defer proxy.Close()
	defer proxy.CloseClientConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir=" + t.TempDir(), "--enable-logging=stderr"}, flags...)
	cmd := exec.CommandContext(ctx, "chromium", append(args, strings.Replace(proxy.URL, "//", "//"+user, 1)+path)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

// dump is chromium's page after its script has run; what its policy refuses fails the test.
func dump(t *testing.T, to, path string, flags ...string) string {
	t.Helper()
	dom, says := chromium(t, to, "", path, append(flags, "--dump-dom")...)
	for line := range strings.Lines(says) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("%s: %s", path, line)
		}
	}
	return dom
}

// picture takes a screenshot.
func picture(t *testing.T, to, path, file string, flags ...string) {
	t.Helper()
	chromium(t, to, "", path, append(flags, "--screenshot="+file)...)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := image.Decode(f); err != nil {
		t.Fatal(err)
	}
}

// fillConsole has locks held, waited for, lost and forced at a node.
func fillConsole(t *testing.T, p *proc) {
	t.Helper()
	ctx := context.Background()
	for i, name := range []string{"web-7", "web-8", "worker-2", "cron"} {
		holder := p.client().Conn()
		t.Cleanup(func() { _ = holder.Close() })
		for _, args := range [][]any{
			{"CLIENT", "SETNAME", name},
			{"LOCK", "order:" + strconv.Itoa(40+i), name + "-5b0e7f3c", "PX", 30000 + 15000*i, "OWNER", name, "NOTE", "bills"},
			{"LOCK", "table:customers", name + "-0b77e1d4", "PX", 60000, "SHARED"},
		} {
			if err := holder.Do(ctx, args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		next := p.client().Conn()
		t.Cleanup(func() { _ = next.Close() })
		go func() {
			_ = next.Do(ctx, "CLIENT", "SETNAME", "batch-"+strconv.Itoa(i)).Err()
			_ = next.Do(ctx, "LOCK", "order:40", "batch-"+strconv.Itoa(i)+"-77aa", "PX", "20000", "WAIT", "600000").Err() // until the test ends
		}()
		p.blockedClients(i + 1)
		time.Sleep(2 * time.Second) // for the picture
	}
	if err := p.client().Do(ctx, "LOCKS", "FORCE", "order:40", "REASON", "web-7 hangs").Err(); err != nil {
		t.Fatal(err)
	}
}

// The pages work under their own policy, follow what happens, and take names for nothing else.
func TestChromium(t *testing.T) {
	p := startSingle(t, consoleFlag(t)...)
	at := p.flagOf("--http-listen")
	fillConsole(t, p)
	hostile := `<img src=x onerror="document.body.innerHTML='broken'">`
	if err := p.client().Do(context.Background(), "LOCK", hostile, hostile, "PX", "600000", "NOTE", hostile).Err(); err != nil {
		t.Fatal(err)
	}
	for path, texts := range map[string][]string{
		"/":                  {"order:41", "&lt;img src=x onerror="},
		"/lock?key=order:40": {"web-7 hangs", `class="waited"`},
		"/members":           {"The leader is n1."},
		"/doctor":            {"octor"},
	} {
		dom := dump(t, at, path, "--accept-lang=en")
		for _, want := range append(texts, `class="live">live</span>`) {
			if !strings.Contains(dom, want) {
				t.Errorf("%s: no %q in\n%s", path, want, dom)
			}
		}
		if strings.Contains(dom, `src="x"`) || strings.Contains(dom, ">broken<") {
			t.Errorf("%s: a name is more than a name:\n%s", path, dom)
		}
	}
	if dom := dump(t, at, "/", "--accept-lang=zh-CN"); !strings.Contains(dom, `lang="zh-CN"`) || !strings.Contains(dom, `class="live">实时</span>`) {
		t.Errorf("in Chinese:\n%s", dom)
	}
	closed := startSingle2(t, append(consoleFlag(t), "--requirepass", "hunter2")...)
	dom, _ := chromium(t, closed.flagOf("--http-listen"), "default:hunter2@", "/", "--accept-lang=en", "--dump-dom")
	if !strings.Contains(dom, `class="live">live</span>`) {
		t.Errorf("with the password:\n%s", dom)
	}
	picture(t, at, "/", filepath.Join(t.TempDir(), "phone.png"), "--window-size=500,900")
	if path := os.Getenv("CONSOLE_PICTURE"); path != "" {
		picture(t, at, "/lock?key=order:40", path, "--accept-lang=en", "--window-size=1000,900")
	}
}
