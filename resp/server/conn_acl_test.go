package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The users of the file are loaded when somebody has changed it, and not again; what failed is tried again.
func TestLoadUsers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const atStart, first, second = "user a on nopass\n", "user b on nopass ~* +@all\n", "user c on nopass ~* +@all\n"
	write(atStart)
	srv, fake, addr := startServer(t, func(cfg *Config) { cfg.ACLFile = path })
	loads := func(want bool, wrong string) {
		t.Helper()
		loaded, err := srv.LoadUsers(context.Background())
		if loaded != want || (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Fatalf("%v, %v; want %v, %q", loaded, err, want, wrong)
		}
	}
	fails := func(answer string) {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		fake.failing = answer
	}
	loads(false, "")
	write(first)
	loads(true, "")
	loads(false, "")
	fails("LOADING nobody leads")
	write(second)
	loads(false, "LOADING nobody leads")
	fails("")
	loads(true, "")
	write("user d +nosuch\n")
	loads(false, path+":1: Error in applying operation '+nosuch'")
	loads(false, path+":1: Error")
	write(second)
	loads(false, "") // as it was
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	loads(false, "opening file '"+path+"': no such file")

	c := dial(t, addr)
	write(first)
	c.send("ACL LOAD\r\n")
	c.want("+OK\r\n")
	loads(false, "")
	c.send("acl save\r\n")
	c.want("+OK\r\n")
	if text, err := os.ReadFile(path); err != nil || string(text) == first {
		t.Errorf("%q, %v", text, err)
	}
	loads(false, "")
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if len(fake.loaded) != 3 {
		t.Errorf("loaded were %q", fake.loaded)
	}
	none, _, _ := startServer(t, nil)
	if loaded, err := none.LoadUsers(context.Background()); loaded || err != nil {
		t.Errorf("without a file: %v, %v", loaded, err)
	}
}
