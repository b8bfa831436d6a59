package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// SIGHUP makes a node reread its log level and its file of users, and log what is in force. Invalid input changes
// nothing and is an error in the log; users that did not change in the file stay as they are.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings, users := filepath.Join(dir, "lockd.toml"), filepath.Join(dir, "users.acl")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(settings, `log-level = "info"`)
	p := startSingle(t, "--config", settings, "--aclfile", users)
	ctx, c := context.Background(), p.client()
	reload := func(level, names string, said ...string) { // what CONFIG GET, ACL USERS and the log say then
		t.Helper()
		before := strings.Count(p.log.String(), "SIGHUP: files were read again")
		at := len(p.log.String())
		p.Signal(syscall.SIGHUP)
		eventually(t, startTimeout, "it has read the files", func() error {
			if strings.Count(p.log.String(), "SIGHUP: files were read again") == before {
				return errors.New(p.log.tail(3))
			}
			return nil
		})
		for _, want := range said {
			if news := p.log.String()[at:]; !strings.Contains(news, want) {
				t.Errorf("it does not say %s, but\n%s", want, news)
			}
		}
		if got := c.ConfigGet(ctx, "loglevel").Val()["loglevel"]; got != level {
			t.Errorf("loglevel is %q, not %q", got, level)
		}
		if got := fmt.Sprint(c.Do(ctx, "ACL", "USERS").Val()); got != names {
			t.Errorf("users are %s, not %s", got, names)
		}
	}

	write(settings, `log-level = "debug"`)
	reload("debug", "[default]", `read="log level debug" asBefore=users`, "level=ERROR msg=\"the file of users", "no such file")
	write(users, "user app on >word ~app:* +@lock\n")
	reload("debug", "[app default]", `read="log level debug, users"`)
	if err := c.Do(ctx, "ACL", "SETUSER", "late").Err(); err != nil {
		t.Fatal(err)
	}
	reload("debug", "[app default late]", `asBefore="users (their file has not changed)"`)
	write(users, "user app +nosuch\n")
	write(settings, `log-level = "loud"`)
	reload("debug", "[app default late]", `read="" asBefore="log level, users"`,
		`--log-level must be one of`, settings+":1", users+":1: Error in applying operation '+nosuch'")
	write(settings, "loglevel = 1\n")
	reload("debug", "[app default late]", "level=ERROR msg=\"the file of settings")
	write(users, "user other off\n")
	write(settings, "") // the default
	reload("notice", "[default other]", `read="log level info, users"`)
}

// A flag and a variable stand above the file, whatever is in it when it is read again.
func TestLogLevelNow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lockd.toml")
	if err := os.WriteFile(path, []byte(`log-level = "debug"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, environ []string
		want          string
	}{
		{[]string{"--config", path}, nil, "debug"},
		{[]string{"serve"}, []string{"LOCKD_CONFIG=" + path}, "debug"},
		{[]string{"--config", path, "--log-level", "warn"}, nil, ""},
		{[]string{"--config", path}, []string{"LOCKD_LOG_LEVEL=warn"}, ""},
		{nil, nil, "none"},
	} {
		cmd, _, err := parse(c.args, c.environ, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if now := cmd.(*serveCmd).logLevelNow; now != nil {
			if got, err = now(); err != nil {
				t.Error(err)
			}
		}
		if got != c.want {
			t.Errorf("%q %q: %q, not %q", c.args, c.environ, got, c.want)
		}
	}
}
