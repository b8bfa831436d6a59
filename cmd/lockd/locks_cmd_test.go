package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lockdLocks runs `lockd locks` or `lockd top` and returns what it printed and its status.
func lockdLocks(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(args, nil, &out, &errs)
	return out.String(), errs.String(), status
}

// lockdSays runs it, which must succeed.
func lockdSays(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, status := lockdLocks(t, args...)
	if status != exitOK || stderr != "" {
		t.Errorf("lockd %q: status %d, %s%s", args, status, stdout, stderr)
	}
	for _, line := range strings.Split(stdout, "\n") {
		if len(line) > plainWidth {
			t.Errorf("lockd %q: a line of %d: %s", args, len(line), line)
		}
	}
	return stdout
}

// Each question is answered by a table and as JSON, and a lock is ended.
func TestLocksCommand(t *testing.T) {
	t.Parallel()
	p := startSingle(t, calm...)
	c := p.client().Conn()
	ctx := t.Context()
	evil := "e\x1b\n\u202e"
	for _, args := range [][]any{
		{"CLIENT", "SETNAME", "web-7"},
		{"LOCK", "order:42", "7f3c9a12-5b0e", "PX", "600000", "NOTE", "bills", "OWNER", "billing"},
		{"LOCK", "table", "reader-1", "PX", "600000", "SHARED"},
		{"LOCK", "table", "reader-2", "PX", "600000", "SHARED"},
		{"SET", evil, "token", "NX", "PX", "600000"},
		{"SELECT", "3"}, {"SET", "third", "token", "NX", "PX", "600000"}, {"SELECT", "0"},
	} {
		if err := c.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	waits := p.client()
	waited := make(chan error, 1)
	go func() {
		waited <- waits.Do(ctx, "LOCK", "order:42", "0b77e1d4-77", "PX", "600000", "WAIT", "60000").Err()
	}()
	p.blockedClients(1)
	ask := func(args ...string) []string { return append([]string{"locks", "--addr", p.addr}, args...) }

	list := lockdSays(t, ask("list")...)
	for _, want := range []string{"KEY ", "HOLDER ", "WAIT", "order:42", "billing", "reader-1 +1", "shared", `e\x1b\n\u202e`, "web-7@n1", "bills"} {
		if !strings.Contains(list, want) {
			t.Errorf("list says nothing of %s:\n%s", want, list)
		}
	}
	if got := lockdSays(t, ask()...); strings.Count(got, "\n") != 4 {
		t.Errorf("without a question:\n%s", got)
	}
	if got := lockdSays(t, ask("list", "--match", "order:*", "--waited", "--held", "1ms")...); strings.Count(got, "\n") != 2 {
		t.Errorf("one lock:\n%s", got)
	}
	if got := lockdSays(t, ask("list", "--count", "2")...); !strings.Contains(got, "These are the first 2: --all shows the others too.") {
		t.Errorf("two locks:\n%s", got)
	}
	if got := lockdSays(t, ask("--db", "3", "list")...); !strings.Contains(got, "third") || strings.Contains(got, "order") {
		t.Errorf("another database:\n%s", got)
	}
	if got := lockdSays(t, ask("list", "--match", "none")...); got != "No such lock is held now.\n" {
		t.Errorf("no lock:\n%s", got)
	}
	var locks []map[string]any
	if err := json.Unmarshal([]byte(lockdSays(t, ask("--json", "list")...)), &locks); err != nil || len(locks) != 3 || locks[0]["holders"] == nil {
		t.Errorf("%v: %v", err, locks)
	}

	info := lockdSays(t, ask("info", "order:42")...)
	for _, want := range []string{"order:42 is held; one waits for it.", "billing (token 7f3c9a12...), fence ", "taken by LOCK, client ", "(web-7)", "note: bills", "IN LINE", "0b77e1d4..."} {
		if !strings.Contains(info, want) {
			t.Errorf("info says nothing of %s:\n%s", want, info)
		}
	}
	if got := lockdSays(t, ask("info", "table")...); !strings.Contains(got, "table is held by 2, shared; nobody waits for it.") {
		t.Errorf("a shared lock:\n%s", got)
	}
	if got := lockdSays(t, ask("why", "order:42", "0b77e1d4")...); !strings.Contains(got, "0b77e1d4... has waited for order:42") {
		t.Errorf("why:\n%s", got)
	}
	if got := lockdSays(t, "top", "--once", "--addr", p.addr); !strings.Contains(got, "lockd top  "+p.addr+"  3 held, 1 in line") || !strings.Contains(got, "\n order:42 ") {
		t.Errorf("top:\n%s", got)
	}

	if got := lockdSays(t, ask("force", "order:42", "--token", "7f3c9a12...", "--reason", "web-7 hangs")...); got != "order:42 has been taken from its holder.\n" {
		t.Errorf("force:\n%s", got)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	history := lockdSays(t, ask("history", "order:42")...)
	for _, want := range []string{"AGO ", "granted ", "forced ", `"web-7 hangs", LOCKS`, "billing", "0b77e1d4..."} {
		if !strings.Contains(history, want) {
			t.Errorf("history says nothing of %s:\n%s", want, history)
		}
	}
	if got := lockdSays(t, ask("force", "table", "--reason", "maintenance")...); got != "table has been taken from its 2 holders.\n" {
		t.Errorf("force:\n%s", got)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{ask("info", "none"), "lockd: none is no lock now: lockd locks history says what it was\n"},
		{ask("history", "none"), "lockd: nothing is known of none in that time: what is known begins at 2"},
		{ask("history", "order:42", "--to", "2001-01-01T00:00"), "lockd: nothing is known of order:42 in that time"},
		{ask("history", "order:42", "--from", "soon"), "lockd: the server refuses: ERR "},
		{ask("why", "none", "token"), "lockd: Nothing is known of token and none: "},
		{ask("force", "none", "--reason", "r"), "lockd: nobody held none, or not by that token: nothing was done\n"},
		{ask("force", "order:42", "--token", "another", "--reason", "r"), "lockd: nobody held order:42, or not by that token"},
		{ask("--db", "99", "list"), "lockd: the server refuses: ERR DB index is out of range\n"},
		{[]string{"locks", "--addr", fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0]), "list"}, "lockd: no server answers: dial tcp"},
		{[]string{"top", "--once", "--addr", fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])}, "lockd: no server answers: dial tcp"},
	} {
		stdout, stderr, status := lockdLocks(t, tt.args...)
		if status != exitFault || !strings.HasPrefix(stderr, tt.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
			t.Errorf("lockd %q: status %d, %q, %q; want %s", tt.args, status, stdout, stderr, tt.want)
		}
	}
	if stdout, _, status := lockdLocks(t, ask("--json", "info", "none")...); status != exitFault || stdout != "null\n" {
		t.Errorf("no lock as JSON: %d, %q", status, stdout)
	}
}

// A list that exceeds one answer is requested in pieces and shown as one.
func TestLocksCommandInPieces(t *testing.T) {
	t.Parallel()
	p := startSingle(t, calm...)
	ctx := t.Context()
	const many = 2*pieceCount + 1
	for i := range 20 {
		do(ctx, t, p, "SET", fmt.Sprint("early:", i), "token", "NX", "PX", "600000")
	}
	words := []any{"MSETEX", many}
	for i := range many {
		words = append(words, fmt.Sprint("many:", i), "token")
	}
	do(ctx, t, p, append(words, "NX", "PX", "600000")...)
	do(ctx, t, p, "EVAL", "for _ = 1, ARGV[1] do redis.call('SET', KEYS[1], 't', 'PX', 60000); redis.call('DEL', KEYS[1]) end return 1", 1, "busy", many)
	ask := func(answer any, args ...string) {
		t.Helper()
		said, stderr, status := lockdLocks(t, append([]string{"locks", "--addr", p.addr, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(said), answer); err != nil || status != exitOK || stderr != "" {
			t.Fatalf("%q: %v, status %d, %s", args, err, status, stderr)
		}
	}
	var list []struct {
		Key     string
		Holders []struct{ Since string }
	}
	ask(&list, "list", "--all")
	seen, before := map[string]bool{}, ""
	for _, l := range list {
		if l.Holders[0].Since < before {
			t.Errorf("%s is held since %s, the one before it since %s", l.Key, l.Holders[0].Since, before)
		}
		seen[l.Key], before = true, l.Holders[0].Since
	}
	if len(list) != many+20 || len(seen) != many+20 {
		t.Errorf("%d locks, %d different ones", len(list), len(seen))
	}
	if ask(&list, "list", "--all", "--match", "*:77*", "--count", "3"); len(list) != 1+10 {
		t.Errorf("%d locks match", len(list))
	}
	var history struct {
		Since  string `json:"known-since"`
		Events []struct{ Event string }
	}
	ask(&history, "history", "busy", "--all")
	for i, e := range history.Events {
		if e.Event != []string{"granted", "released"}[i%2] {
			t.Fatalf("event %d is %s", i, e.Event)
		}
	}
	if len(history.Events) != 2*many || history.Since == "" {
		t.Errorf("%d events, known since %q", len(history.Events), history.Since)
	}
	if table := lockdSays(t, "locks", "--addr", p.addr, "history", "busy", "--all"); strings.Count(table, "\n") != 2*many+1 {
		t.Errorf("%d lines", strings.Count(table, "\n"))
	}
	if _, stderr, status := lockdLocks(t, "locks", "--addr", p.addr, "history", "busy", "--all", "--from", "soon"); status != exitFault || !strings.HasPrefix(stderr, "lockd: the server refuses: ERR ") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// A client sends the password that a server needs, and reports a question that the server does not know.
func TestLocksCommandRefused(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	p := launch(t, "single", fmt.Sprintf("127.0.0.1:%d", ports[0]), append([]string{"serve", "--requirepass", "secret",
		"--listen", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--peer-listen", fmt.Sprintf("127.0.0.1:%d", ports[1]),
		"--dir", t.TempDir()}, calm...)...)
	eventually(t, startTimeout, "it serves", func() error {
		if _, stderr, status := lockdLocks(t, "locks", "--addr", p.addr, "--auth", "secret"); status != exitOK {
			return errors.New(stderr)
		}
		return nil
	})
	for _, command := range []string{"locks", "top"} {
		args := []string{command, "--addr", p.addr}
		if command == "top" {
			args = append(args, "--once")
		}
		if _, stderr, status := lockdLocks(t, args...); status != exitFault || !strings.HasPrefix(stderr, "lockd: the server refuses: NOAUTH ") {
			t.Errorf("%q without a password: %d, %s", args, status, stderr)
		}
		if _, stderr, status := lockdLocks(t, append(args, "--auth", "wrong")...); status != exitFault || !strings.HasPrefix(stderr, "lockd: the server refuses: WRONGPASS ") {
			t.Errorf("%q with a wrong password: %d, %s", args, status, stderr)
		}
		var out, errs bytes.Buffer
		if status := run(args, []string{"LOCKD_AUTH=secret"}, &out, &errs); status != exitOK || errs.Len() != 0 {
			t.Errorf("%q with the password: %d, %s", args, status, &errs)
		}
	}
}

// A wrong command line is one line with status 2 and advice.
func TestLocksUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"locks lst", `unexpected argument lst, did you mean "list"?`},
		{"locks list --mach x", "unknown flag --mach, did you mean \"--match\"?"},
		{"locks info", `expected "<key>"`},
		{"locks why key", `expected "<token>"`},
		{"locks force key", "missing flags: --reason=TEXT"},
		{"locks force key --reason=", "--reason is empty"},
		{"locks list --count 0", "--count 0 is not positive"},
		{"locks history key --count 0", "--count 0 is not positive"},
		{"locks list --held=-1s", "--held -1s is negative"},
		{"locks --addr nowhere", `--addr "nowhere" is not of the form host:port`},
		{"locks --db=-1", "--db -1 is negative"},
		{"top --intervall 1s", `unknown flag --intervall, did you mean "--interval"?`},
		{"top --interval 1ms", "--interval 1ms is less than 100ms"},
		{"top --count 0", "--count 0 is not positive"},
		{"top", "top needs a terminal: --once prints one picture as text, lockd locks list a table"},
	} {
		stdout, stderr, status := lockdLocks(t, strings.Fields(tt.args)...)
		if status != exitUsage || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
			t.Errorf("%s: status %d, %q, %q; want %s", tt.args, status, stdout, stderr, tt.want)
		}
	}
}

// A node that dies is left for another one.
func TestLocksOutliveANode(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, patient()...)
	if err := cluster[0].client().Do(t.Context(), "LOCK", "order:42", "token", "PX", "600000").Err(); err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, p := range cluster {
		addrs = append(addrs, p.addr)
	}
	cluster[0].Kill()
	eventually(t, startTimeout, "another node answers", func() error {
		stdout, stderr, status := lockdLocks(t, "locks", "--addr", strings.Join(addrs, ","), "list")
		if status != exitOK || !strings.Contains(stdout, "order:42") {
			return fmt.Errorf("%d, %s%s", status, stdout, stderr)
		}
		return nil
	})
}

// The page about locks shows the picture that lockd top draws.
func TestDocsShowTop(t *testing.T) {
	page := filepath.Join(docsDir, "locks.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("top/testdata/readme_80x24.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```\n"+string(picture)+"```\n") {
		t.Errorf("%s does not have the picture:\n%s", page, picture)
	}
}
