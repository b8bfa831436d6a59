package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockd/internal/secure/securetest"
)

const month = 30 * 24 * time.Hour

// tlsArgs are flags of a node with the certificate of p.
func tlsArgs(p securetest.Paths, more ...string) []string {
	return append([]string{"--tls-cert-file", p.Cert, "--tls-key-file", p.Key, "--tls-ca-cert-file", p.CA}, more...)
}

// clientConfig returns the configuration of a client with a certificate of the authority.
func clientConfig(t *testing.T, ca *securetest.CA, own securetest.Paths) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
}

// tlsClient is a client of an address, with TLS.
func tlsClient(t *testing.T, addr string, cfg *tls.Config) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: cfg, Password: "hunter2", MaxRetries: -1, DialerRetries: 1,
		ReadTimeout: startTimeout, WriteTimeout: startTimeout, DialTimeout: startTimeout, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// serial returns the serial number of the certificate that a server shows.
func serial(t *testing.T, addr string, cfg *tls.Config) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return fmt.Sprintf("%X", conn.ConnectionState().PeerCertificates[0].SerialNumber)
}

// A node speaks TLS at all its addresses; it takes a new certificate without closing connections, and keeps the
// old one where the new one is no good; another node joins by TLS, and has no other clients; the
// commands of this binary get in. The password stands in a file.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, dir := securetest.NewCA(t, "ca"), t.TempDir()
	server := ca.Write(t, dir, month, "127.0.0.1")
	own := ca.Write(t, t.TempDir(), month, "an operator")
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, 6)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	cfg, ctx := clientConfig(t, ca, own), context.Background()
	first := launch(t, "n1", at(0), append([]string{"serve", "--id", "n1", "--listen=", "--tls-listen", at(0), "--peer-listen", at(1),
		"--dir", filepath.Join(dir, "n1"), "--requirepass-file", password, "--sentinel-listen", at(2), "--tls-sentinel",
		"--http-listen", at(3), "--tls-http"}, tlsArgs(server)...)...)
	c := tlsClient(t, at(0), cfg)
	eventually(t, startTimeout, "it serves", func() error { return c.Set(ctx, "k", "v", 0).Err() })
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", first.PID())); err == nil && bytes.Contains(line, []byte("hunter2")) {
		t.Error("the password is in the list of processes")
	}
	if err := tlsClient(t, at(0), &tls.Config{RootCAs: cfg.RootCAs}).Ping(ctx).Err(); err == nil {
		t.Error("who has no certificate comes in")
	}

	sentinel := redis.NewSentinelClient(&redis.Options{Addr: at(2), TLSConfig: cfg, DisableIdentity: true})
	defer sentinel.Close()
	if got, err := sentinel.GetMasterAddrByName(ctx, "mymaster").Result(); err != nil || strings.Join(got, ":") != at(0) {
		t.Errorf("the sentinel says %v, %v", got, err)
	}
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}
	if r, err := browser.Get("https://" + at(3) + "/livez"); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("/livez: %v, %v", r, err)
	} else {
		r.Body.Close()
	}

	kept := c.Conn()
	defer kept.Close()
	id, err := kept.ClientID(ctx).Result()
	if err != nil {
		t.Fatal(err)
	}
	before := serial(t, at(0), cfg)
	ca.Write(t, dir, month, "127.0.0.1")
	first.Signal(syscall.SIGHUP)
	eventually(t, startTimeout, "it shows the new certificate", func() error {
		if now := serial(t, at(0), cfg); now == before {
			return errors.New("it shows " + now)
		}
		return nil
	})
	if now, err := kept.ClientID(ctx).Result(); err != nil || now != id {
		t.Errorf("a connection did not outlive that: %v", err)
	}
	after := serial(t, at(0), cfg)
	if err := os.WriteFile(server.Key, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	first.Signal(syscall.SIGHUP)
	eventually(t, startTimeout, "it says that the file is no good", func() error {
		if !strings.Contains(first.log.String(), "level=WARN msg=\"the new certificates are no good") {
			return errors.New(first.log.tail(3))
		}
		return nil
	})
	info, err := c.Info(ctx, "tls").Result()
	if now := serial(t, at(0), cfg); now != after || err != nil || !strings.Contains(info, "tls_server_cert_serial:"+after) ||
		!strings.Contains(info, "tls_ca_cert_expires_in_seconds:") {
		t.Errorf("it shows %s, not %s, and says %q, %v", now, after, info, err)
	}
	if got := c.ConfigGet(ctx, "tls-port").Val()["tls-port"]; got != fmt.Sprint(ports[0]) {
		t.Errorf("tls-port is %q", got)
	}

	key := ca.Write(t, dir, month, "127.0.0.1") // it was spoilt
	launch(t, "n2", at(4), append([]string{"serve", "--id", "n2", "--listen=", "--tls-listen", at(4), "--peer-listen", at(5),
		"--dir", filepath.Join(dir, "n2"), "--requirepass-file", password, "--join", "tls://" + at(0)}, tlsArgs(key)...)...)
	second := tlsClient(t, at(4), cfg)
	eventually(t, startTimeout, "n2 serves", func() error { return second.Get(ctx, "k").Err() })
	eventually(t, startTimeout, "both answer in time, and say where", func() error { // a slow member counts as down
		if got := fmt.Sprint(second.Do(ctx, "LOCKD", "MEMBERS").Val()); !strings.Contains(got, "tls://"+at(0)) || !strings.Contains(got, "tls://"+at(4)) {
			return errors.New(got)
		}
		return nil
	})

	commandsOverTLS(t, at(4), at(0), own, password)
}

// commandsOverTLS tries the commands that are clients.
func commandsOverTLS(t *testing.T, addr, other string, own securetest.Paths, password string) {
	t.Helper()
	files := []string{"--tls", "--cacert", own.CA, "--cert", own.Cert, "--key", own.Key}
	login := func(words ...string) []string {
		return append(append(words, files...), "--addr", addr, "--addr", other)
	}
	for name, tt := range map[string]struct {
		args   []string
		env    string
		status int
		says   string
	}{
		"locks":                {login("locks", "list", "--password-file", password), "", exitOK, "No such lock"},
		"by the environment":   {login("locks", "list"), "LOCKD_PASSWORD=hunter2", exitOK, "No such lock"},
		"a wrong password":     {login("locks", "list"), "LOCKD_PASSWORD=hunter3", exitFault, "WRONGPASS"},
		"without a password":   {login("locks", "list"), "", exitFault, "NOAUTH"},
		"without an authority": {[]string{"locks", "list", "--addr", addr, "--tls"}, "", exitFault, "unknown authority"},
		"insecure, no key":     {[]string{"locks", "list", "--addr", addr, "--tls", "--insecure"}, "", exitFault, "certificate required"},
		"top":                  {login("top", "--once", "--password-file", password), "", exitOK, "lock"},
		"run":                  {append(login("run", "--lock", "l", "--password-file", password), "--", "true"), "", exitOK, ""},
	} {
		var out bytes.Buffer
		if status := run(tt.args, []string{tt.env}, &out, &out); status != tt.status || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: status %d, %s", name, status, &out)
		}
	}
}

// Flags that make no sense are refused with what to do.
func TestTLSFlags(t *testing.T) {
	p := securetest.NewCA(t, "ca").Write(t, t.TempDir(), month, "127.0.0.1")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"--listen is empty":                {"--listen="},
		"need --tls-cert-file":             {"--tls-listen", "127.0.0.1:1"},
		"yes needs --tls-ca-cert-file":     {"--tls-listen", "127.0.0.1:1", "--tls-cert-file", p.Cert, "--tls-key-file", p.Key},
		"optional needs --tls-ca":          {"--tls-listen", "127.0.0.1:1", "--tls-cert-file", p.Cert, "--tls-key-file", p.Key, "--tls-auth-clients", "optional"},
		"the certificates are no good":     tlsArgs(securetest.Paths{Cert: p.Cert, Key: p.CA, CA: p.CA}, "--tls-listen", "127.0.0.1:1"),
		"needs --sentinel-listen":          tlsArgs(p, "--tls-sentinel"),
		"needs --http-listen":              tlsArgs(p, "--tls-http"),
		"--tls-listen \"x\"":               tlsArgs(p, "--tls-listen", "x"),
		"--requirepass-file exclude":       {"--requirepass", "a", "--requirepass-file", empty},
		"--requirepass-file " + empty:      {"--requirepass-file", empty},
		"no such file":                     {"--requirepass-file", empty + "x"},
		"--sentinel-requirepass-file excl": {"--sentinel-requirepass", "a", "--sentinel-requirepass-file", empty},
	} {
		if _, _, err := parse(append([]string{"serve"}, args...), nil, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %s", args, err, want)
		}
	}
}

// The announced addresses follow from the listeners.
func TestTLSAddresses(t *testing.T) {
	p := securetest.NewCA(t, "ca").Write(t, t.TempDir(), month, "127.0.0.1")
	for _, tt := range []struct{ args, plain, tls, peer string }{
		{"--listen 10.0.0.1:1 --tls-listen 10.0.0.1:2", "10.0.0.1:1", "10.0.0.1:2", "127.0.0.1:10001"},
		{"--listen= --tls-listen 10.0.0.1:2", "10.0.0.1:2", "10.0.0.1:2", "127.0.0.1:10002"},
		{"--listen 0.0.0.0:1 --tls-listen 0.0.0.0:2 --advertise h:1", "h:1", "h:2", "127.0.0.1:10001"},
		{"--listen= --tls-listen 0.0.0.0:2 --advertise h:7", "h:7", "h:7", "127.0.0.1:10002"},
		{"--listen 10.0.0.1:1 --tls-listen 10.0.0.1:2 --tls-advertise t:3", "10.0.0.1:1", "t:3", "127.0.0.1:10001"},
	} {
		command, _, err := parse(append(append([]string{"serve"}, strings.Fields(tt.args)...), tlsArgs(p)...), nil, io.Discard)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		c := command.(*serveCmd)
		if plain, secured := c.clientAddrs(); plain[0] != tt.plain || secured != tt.tls || c.PeerListen != tt.peer {
			t.Errorf("%s: %v, %s, peers %s", tt.args, plain, secured, c.PeerListen)
		}
	}
}
