package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Users that one node reads from its file exist on every node, and outlive that node.
func TestUsersOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(i int) string { return filepath.Join(dir, fmt.Sprint("users", i)) }
	cluster := startClusterOf(t, 3, func(i int) []string { return append(slices.Clone(calm), "--aclfile", file(i)) })
	ctx := context.Background()
	leader := cluster.leader(t)
	var own string // the leader's file
	for i, p := range cluster {
		if p == leader {
			own = file(i)
		}
	}
	said := func(p *proc, args ...any) string {
		v, err := p.client().Do(ctx, args...).Result()
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(v)
	}
	must := func(p *proc, want string, args ...any) {
		t.Helper()
		if got := said(p, args...); !strings.Contains(got, want) {
			t.Fatalf("%v: %s, want %s", args, got, want)
		}
	}
	as := func(p *proc, user, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: p.addr, Username: user, Password: password, MaxRetries: -1,
			ReadTimeout: startTimeout, WriteTimeout: startTimeout, DialTimeout: startTimeout})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}

	must(leader, "opening file '"+own+"': no such file", "ACL", "LOAD")
	must(leader, "OK", "ACL", "SETUSER", "gone", "on", ">secret", "~*", "+@all")
	must(leader, "OK", "ACL", "SAVE")
	text, err := os.ReadFile(own)
	if err != nil || !strings.Contains(string(text), "user gone on #") || strings.Contains(string(text), "secret") {
		t.Fatalf("saved: %q, %v", text, err)
	}
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := os.WriteFile(own, []byte("user app on >word ~app:* +@lock +set +get\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(leader, "OK", "ACL", "LOAD")
	for _, p := range cluster {
		eventually(t, startTimeout, p.name+" knows them", func() error {
			if got := said(p, "ACL", "USERS"); got != "[app default]" {
				return errors.New(got)
			}
			return nil
		})
	}
	if err := os.WriteFile(own, []byte("user app on +nosuch\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(leader, own+":1: Error in applying operation '+nosuch': Unknown command", "ACL", "LOAD")

	leader.Kill()
	for _, p := range cluster.others(leader) {
		app := as(p, "app", "word")
		eventually(t, startTimeout, p.name+" lets app in", func() error { return app.Set(ctx, "app:k", "v", 0).Err() })
		if err := app.Set(ctx, "other", "v", 0).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v", p.name, err)
		}
		if err := as(p, "gone", "secret").Ping(ctx).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

// CONFIG SET requirepass sets the default user's password on all nodes, including later ones, and no log shows it. A
// node with a password of its own refuses it.
func TestConfigSetRequirepass(t *testing.T) {
	t.Parallel()
	cluster, ctx := startCluster(t, 3, calm...), context.Background()
	as := func(p *proc, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: p.addr, Password: password, MaxRetries: -1, DisableIdentity: true,
			ReadTimeout: startTimeout, WriteTimeout: startTimeout, DialTimeout: startTimeout})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	says := func(c *redis.Client, want string, args ...any) {
		t.Helper()
		eventually(t, startTimeout, fmt.Sprint(args...), func() error { // another node hears of it a moment later
			got, err := c.Do(ctx, args...).Result()
			if said := fmt.Sprint(got, err); !strings.Contains(said, want) {
				return fmt.Errorf("%s, want %s", said, want)
			}
			return nil
		})
	}
	kept := as(cluster[0], "")
	says(kept, "OK", "CONFIG", "SET", "slowlog-log-slower-than", "0")
	says(kept, "map[requirepass:]", "CONFIG", "GET", "requirepass")
	says(kept, "duplicate parameter", "CONFIG", "SET", "requirepass", "a", "requirepass", "b")
	says(kept, "Unknown option", "CONFIG", "SET", "requirepass", "lost", "no-such", "b")
	says(as(cluster[1], ""), "PONG", "PING")
	says(kept, "OK", "CONFIG", "SET", "requirepass", "hunter2", "timeout", "7")
	says(kept, "PONG", "PING") // a connection that has authenticated stays
	hash := fmt.Sprintf("#%x", sha256.Sum256([]byte("hunter2")))
	says(kept, "map[requirepass:"+hash+"]", "CONFIG", "GET", "requirepass")
	for _, p := range cluster {
		says(as(p, ""), "NOAUTH", "PING")
		says(as(p, "hunter3"), "WRONGPASS", "PING")
		says(as(p, "hunter2"), "PONG", "PING")
		says(as(p, "hunter2"), "map[requirepass:"+hash+"]", "CONFIG", "GET", "requirepass")
		says(as(p, "hunter2"), "map[timeout:7]", "CONFIG", "GET", "timeout")
	}
	if log, err := kept.Do(ctx, "SLOWLOG", "GET", "-1").Result(); err != nil || strings.Contains(fmt.Sprint(log), "hunter2") ||
		!strings.Contains(fmt.Sprint(log), "(redacted)") {
		t.Errorf("%v %v", log, err)
	}
	says(kept, "OK", "CONFIG", "SET", "requirepass", "")
	for _, p := range cluster {
		says(as(p, ""), "PONG", "PING")
	}
	own := startSingle(t, "--requirepass", "hunter2").client()
	says(own, "OK", "CONFIG", "SET", "requirepass", "hunter2") // as it is
	says(own, "is that of its --requirepass", "CONFIG", "SET", "requirepass", "hunter3")
	says(own, "map[requirepass:hunter2]", "CONFIG", "GET", "requirepass")
}
