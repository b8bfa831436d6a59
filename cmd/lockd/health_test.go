package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockd/cmd/lockd/show"
	"lockd/resp"
)

// health and members report the state of a node to people and to programs, and why a client may not ask. A node
// without the others is not healthy, and names the members that it waits for.
func TestHealthAndMembers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := startClusterOf(t, 3, func(int) []string {
		return append(consoleFlag(t), append(calm, "--requirepass", "hunter2")...)
	})
	answers := func(status int, want string, environ []string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		got := run(args, environ, &out, &errs)
		if said := out.String() + errs.String(); got != status || !regexp.MustCompile("^(?s:"+want+")$").MatchString(said) {
			t.Errorf("lockd %q: status %d, want %d:\n%s", args, got, status, said)
		}
		return out.String()
	}
	asked := cluster[1]
	const ready = "n2 is ready, and (leads|follows n[13]) in term [0-9]+\n"
	secret := []string{"LOCKD_PASSWORD=hunter2"}
	answers(0, ready, secret, "health", asked.addr)
	answers(0, ready, nil, "health", "--addr", asked.addr, "--user", "default", "--password-file", file)
	answers(0, strings.Repeat("n[123] is ready, [^\n]*\n", 3), append(secret, "LOCKD_USER=default"), "health", "--addr",
		cluster[0].addr+","+cluster[1].addr+","+cluster[2].addr)
	answers(1, asked.addr+" refuses: WRONGPASS [^\n]*\n", []string{"LOCKD_PASSWORD=wrong"}, "health", asked.addr)
	answers(1, asked.addr+" refuses: NOAUTH [^\n]*\n", nil, "health", asked.addr)
	answers(2, "lockd: --password-file: .*\n", nil, "health", "--password-file", file+"-not")
	eventually(t, startTimeout, "all members answer in time", func() (err error) { // a slow member counts as down
		for line := range strings.Lines(answers(0, "n1 .*\nn2 .*\nn3 .*\n", secret, "members", asked.addr)) {
			if words := strings.Fields(line); len(words) != 11 || words[8] != "1" || words[9] != "1" || words[10] != version || words[2] != "voter" || words[3] != "up" {
				err = fmt.Errorf("what is %q", line)
			}
		}
		return err
	})
	answers(1, "lockd: the server refuses: NOAUTH .*\n", nil, "members", asked.addr)
	for _, other := range cluster.others(asked) {
		other.Kill()
	}
	waits := regexp.MustCompile(`^n2 is not ready: no leader is known: this node waits for n1 \(127\.0\.0\.1:[0-9]+, for [0-9]+s: .*refused\), n3 \(`)
	asked.shows("/readyz?verbose", http.StatusServiceUnavailable, "[-]leader failed: no leader is known: this node waits for n1", "readyz check failed")
	says := func(status int, want *regexp.Regexp, args ...string) {
		t.Helper()
		eventually(t, startTimeout, "it has tried to reach the others", func() error {
			var out bytes.Buffer
			if got := run(args, secret, &out, &out); got != status || !want.MatchString(out.String()) {
				return fmt.Errorf("status %d: %s", got, &out)
			}
			return nil
		})
	}
	says(1, waits, "health", asked.addr)
	says(0, regexp.MustCompile("^n1 follower voter down - - .*\nn2 follower voter up .*\nn3 "), "members", asked.addr)
	asked.Kill()
	answers(1, asked.addr+" does not answer: .*refused\n", secret, "health", asked.addr)
}

// Malformed and hostile answers cause no harm.
func TestMembersOfOthers(t *testing.T) {
	for _, r := range []resp.Reply{resp.OK(), resp.Array(resp.Int(1)), resp.Map()} {
		if _, err := membersTable(r); err == nil {
			t.Errorf("%v is taken for members", r)
		}
	}
	table, err := membersTable(resp.Array(resp.Map(resp.Bulk("id"), resp.Bulk("\x1b[2J x"))))
	if err != nil || table.Rows[0][0] != show.Escape("\x1b[2J x") || table.Rows[0][1] != "-" {
		t.Errorf("%v, %v", table, err)
	}
}

// A sentence below the table tells the level in force and the levels of members; it is absent if a node does not
// report them.
func TestMembersSayTheLevel(t *testing.T) {
	member := func(id string, highest int64, version string) resp.Reply {
		return resp.Map(resp.Bulk("id"), resp.Bulk(id), resp.Bulk("peer"), resp.Bulk("a:1"), resp.Bulk("level"), resp.Int(1),
			resp.Bulk("lowest"), resp.Int(min(highest, 1)), resp.Bulk("highest"), resp.Int(highest), resp.Bulk("version"), resp.Bulk(version))
	}
	for _, c := range []struct {
		answer resp.Reply
		want   string
	}{
		{resp.Array(member("n1", 1, "0.1.0"), member("n2", 1, "0.1.0")), "level 1 is in force; n1, n2 can do 1 (lockd 0.1.0)"},
		{resp.Array(member("n3", 2, "0.2.0"), member("n2", 1, "0.1.0"), member("n1", 2, "0.2.0"), member("n4", 0, "")),
			"level 1 is in force; n1, n3 can do 1-2 (lockd 0.2.0); n2 can do 1 (lockd 0.1.0); n4 can do - (lockd -)"},
		{resp.Array(resp.Map(resp.Bulk("id"), resp.Bulk("n1"))), ""},
		{resp.Array(), ""},
	} {
		table, err := membersTable(c.answer)
		lines := strings.Join(membersLines(table, 200)[1+len(table.Rows):], "\n")
		if err != nil || lines != c.want {
			t.Errorf("%q, %v, want %q", lines, err, c.want)
		}
	}
}
