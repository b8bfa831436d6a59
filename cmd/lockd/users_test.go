package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Users that one node reads from its file are those of every node, and still are when that one is gone.
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

	leader.kill()
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
