package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// consoleFlag gives a node a console.
func consoleFlag(t *testing.T) []string {
	return []string{"--http-listen", fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])}
}

// browse asks a node's console for a page, as a browser does.
func (p *proc) browse(method, path, password string, form url.Values) (status int, text string, err error) {
	r, err := http.NewRequest(method, "http://"+p.flagOf("--http-listen")+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://"+p.flagOf("--http-listen"))
	if password != "" {
		r.SetBasicAuth("", password)
	}
	client := http.Client{Timeout: startTimeout}
	defer client.CloseIdleConnections()
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// shows waits until a page has the status and all texts.
func (p *proc) shows(path string, status int, texts ...string) {
	p.t.Helper()
	eventually(p.t, startTimeout, p.name+path, func() error {
		got, text, err := p.browse(http.MethodGet, path, "", nil)
		if err != nil {
			return err
		}
		for _, want := range texts {
			if !strings.Contains(text, want) {
				err = fmt.Errorf("no %q", want)
			}
		}
		if got != status || err != nil {
			return fmt.Errorf("status %d, %w:\n%s", got, err, text)
		}
		return nil
	})
}

// watch opens the event stream of a page.
func (p *proc) watch(path string) *bufio.Reader {
	p.t.Helper()
	res, err := http.Get("http://" + p.flagOf("--http-listen") + path)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { res.Body.Close() })
	return bufio.NewReader(res.Body)
}

// awaitFrame reads what is told until a change has the text.
func (p *proc) awaitFrame(events *bufio.Reader, text string) {
	p.t.Helper()
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			p.t.Fatalf("without %q: %v", text, err)
		}
		if strings.HasPrefix(line, "data: ") && strings.Contains(line, text) {
			return
		}
	}
}

// Every node's console shows holders and waiters, updates as they change, and ends a lock for an operator, whose name
// the history shows.
func TestConsole(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cluster := startClusterOf(t, 3, func(int) []string { return append(consoleFlag(t), calm...) })
	holder, next := cluster[0].client().Conn(), cluster[1].client().Conn()
	for _, args := range [][]any{
		{"CLIENT", "SETNAME", "web-7"}, {"LOCK", "order:<42>", "the-first-token", "PX", "600000", "NOTE", "bills"},
	} {
		if err := holder.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	granted := make(chan error, 1)
	go func() {
		granted <- next.Do(ctx, "LOCK", "order:<42>", "the-second-token", "PX", "600000", "WAIT", "600000").Err()
	}()
	cluster[1].blockedClients(1)
	for _, p := range cluster {
		p.shows("/", http.StatusOK, "order:&lt;42&gt;", "web-7")
		p.shows("/lock?key=order:%3C42%3E", http.StatusOK, "the-firs...", "bills", "the-seco...")
		p.shows("/members", http.StatusOK, "n1", "n2", "n3", "The leader is ")
		p.shows("/readyz", http.StatusOK, "ok")
		p.shows("/livez", http.StatusOK, "ok")
	}
	events := cluster[2].watch("/events/lock?key=order:%3C42%3E")
	cluster[2].awaitFrame(events, "the-seco...")
	_, page, _ := cluster[1].browse(http.MethodGet, "/lock?key=order:%3C42%3E", "", nil)
	whose := regexp.MustCompile(`<option value="([0-9]+-[0-9a-f]+)">the-firs`).FindStringSubmatch(page)
	if whose == nil {
		t.Fatalf("no holder to choose:\n%s", page)
	}
	form := url.Values{"token": {whose[1]}, "reason": {"web-7 hangs"}}
	status, text, err := cluster[1].browse(http.MethodPost, "/lock/force?key=order:%3C42%3E", "", form)
	if err != nil || status != http.StatusOK || !strings.Contains(text, "Holders that have lost the lock: 1.") {
		t.Fatalf("status %d, %v:\n%s", status, err, text)
	}
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	cluster[2].awaitFrame(events, "web-7 hangs")
	for _, p := range cluster {
		p.shows("/lock?key=order:%3C42%3E", http.StatusOK, "reason: web-7 hangs", "lockd-console 127.0.0.1:")
		why, err := p.client().Do(ctx, "LOCKS", "WHY", "order:<42>", "the-first-token").Text()
		if err != nil || !strings.Contains(why, "because: web-7 hangs") {
			t.Errorf("%s: %s, %v", p.name, why, err)
		}
	}
	left := cluster[2]
	for _, p := range cluster.others(left) {
		p.Kill()
	}
	left.shows("/readyz", http.StatusServiceUnavailable, "not ready: ")
	left.shows("/livez", http.StatusOK, "ok")
}

// The console asks for the clients' password; an orderly stop does not wait for its viewers.
func TestConsolePassword(t *testing.T) {
	t.Parallel()
	p := startSingle2(t, append(consoleFlag(t), "--requirepass", "hunter2")...)
	c := redis.NewClient(&redis.Options{Addr: p.addr, Password: "hunter2", DisableIdentity: true})
	defer c.Close()
	if err := c.SetNX(context.Background(), "order:42", "token", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for password, want := range map[string]int{"": 401, "hunter3": 401, "hunter2": 200} {
		status, text, err := p.browse(http.MethodGet, "/", password, nil)
		if err != nil || status != want {
			t.Errorf("%q: status %d, %v:\n%s", password, status, err, text)
		}
	}
	eventually(t, startTimeout, "the log tells of the wrong password", func() error {
		if !strings.Contains(p.log.String(), "a client gave a wrong password") {
			return errors.New("it does not")
		}
		return nil
	})
	if text := p.log.String(); strings.Contains(text, "hunter") {
		t.Errorf("log:\n%s", text)
	}
	p.shows("/metrics", http.StatusOK, `{reason="password"} 1`) // once
	p.shows("/readyz", http.StatusOK, "ok")
	r, err := http.NewRequest(http.MethodGet, "http://"+p.flagOf("--http-listen")+"/events/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("default", "hunter2")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	p.awaitFrame(bufio.NewReader(res.Body), "")
	p.Signal(syscall.SIGTERM)
	if status := p.wait(startTimeout); status != exitOK || strings.Contains(p.log.String(), "cut off") {
		t.Errorf("status %d:\n%s", status, p.log.tail(5))
	}
}

// A cluster to try things out has a console at its first node, at another port if that is taken.
func TestConsoleOfDev(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for flag, want := range map[string]string{"": "127.0.0.1:7080", "--http-listen=": "", "--http-listen=" + taken.Addr().String(): taken.Addr().String()} {
		cmd, _, err := parse(append([]string{"dev"}, strings.Fields(flag)...), nil, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := cmd.(*devCmd).plan()
		if err != nil || nodes[0].HTTPListen != want || nodes[1].HTTPListen != "" {
			t.Errorf("%q: %+v, %v", flag, nodes[0], err)
		}
	}
	c := &serveCmd{HTTPListen: taken.Addr().String()}
	if _, err := listenHTTP(c); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
	c.anyHTTPPort = true
	l, err := listenHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !onLoopback([]string{l.Addr().String()}) {
		t.Errorf("at %s", l.Addr())
	}
}
