package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
)

// A variable with lockd's prefix that matches no flag is reported.
func TestMisspeltVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"LOCKD_PEER_LISEN=x":                     "LOCKD_PEER_LISTEN",
		"LOCKD_REQUIREPAS=secret":                "LOCKD_REQUIREPASS",
		"LOCKD_PASSWORDS=secret":                 "LOCKD_",
		"LOCKD_PASWORD=secret":                   "LOCKD_PASSWORD",
		"LOCKD_PASSWORD=secret":                  "",
		"LOCKD_CLUSTERS=":                        "LOCKD_CLUSTER",
		"LOCKD_PEER_LISTEN=x":                    "",
		"LOCKD_CONFIG=x":                         "",
		"LOCKD_LOG_LEVEL=debug":                  "",
		"HOME=/root":                             "",
		"lockd_listen=x":                         "",
		"LOCKD_SERVICE_HOST=10.0.0.1":            "",
		"LOCKD_PORT=tcp://10.0.0.1:6379":         "",
		"LOCKD_PORT_6379_TCP_ADDR=10.0.0.1":      "",
		"LOCKD_PEERS_SERVICE_PORT_CLIENTS=16379": "",
		"LOCKD_PEERS_PORT=tcp://10.0.0.1:6379":   "",
		runAsServer + "=1":                       "",
	} {
		got := ""
		if err := errors.Join(misspelt([]string{variable})...); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || want != "" && !strings.Contains(got, "did you mean "+want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %q", variable, got)
		}
	}
}

// A node does not start with such a variable, and a command that asks one does; lockd run passes some on.
func TestMisspeltVariableOfNode(t *testing.T) {
	env := []string{"LOCKD_PEER_LISEN=127.0.0.1:1", "LOCKD_PASSWORD=hunter2", "LOCKD_FENCE=7"}
	const want = "the environment variable LOCKD_PEER_LISEN is not known, did you mean LOCKD_PEER_LISTEN?\n"
	for _, args := range [][]string{{}, {"dev"}, {"config", "check"}, {"config", "show"}} {
		var stdout, stderr bytes.Buffer
		if status := run(args, env, &stdout, &stderr); status != exitUsage || stderr.String() != "lockd: "+want || stdout.Len() > 0 {
			t.Errorf("%q: %d, %s%s", args, status, stdout.String(), stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	status := run([]string{"health", "127.0.0.1:1"}, env, &stdout, &stderr)
	if status != exitFault || stderr.String() != "lockd: warning: "+want {
		t.Errorf("health: %d, %s", status, stderr.String())
	}
}

// SIGHUP does not end a node; CONFIG SET changes what belongs to it alone.
func TestHangup(t *testing.T) {
	t.Parallel()
	p := startSingle(t)
	c, ctx := p.client(), context.Background()
	p.Signal(syscall.SIGHUP)
	eventually(t, startTimeout, "it says so", func() error {
		if !strings.Contains(p.log.String(), "SIGHUP is ignored") {
			return errors.New(p.log.String())
		}
		return nil
	})
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if got := c.ConfigGet(ctx, "loglevel").Val()["loglevel"]; got != "notice" {
		t.Errorf("loglevel is %q", got)
	}
	if err := c.ConfigSet(ctx, "loglevel", "warning").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(ctx, "loglevel", "debug").Err(); err != nil {
		t.Fatal(err)
	}
	if got := c.ConfigGet(ctx, "loglevel").Val()["loglevel"]; got != "debug" {
		t.Errorf("loglevel is %q", got)
	}
	if got := c.ConfigGet(ctx, "protected-mode").Val()["protected-mode"]; got != "yes" {
		t.Errorf("protected-mode is %q", got)
	}
}

// onLoopback tells at the start whether protected mode keeps other machines out.
func TestOnLoopback(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, ":1": false, "10.0.0.1:1": false, "[::]:1": false, "example.org:1": false} {
		if got := onLoopback([]string{"127.0.0.1:2", addr}); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}
