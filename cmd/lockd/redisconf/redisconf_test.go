package redisconf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Split cuts lines as Redis does.
func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		`port 6379`:                        {"port", "6379"},
		"  port\t 6379  ":                  {"port", "6379"},
		`requirepass "a b # c"`:            {"requirepass", "a b # c"},
		`requirepass a#b`:                  {"requirepass", "a#b"},
		`save ""`:                          {"save", ""},
		`x "\x41\x6a\n\r\t\b\a\\\"\q\xzz"`: {"x", "Aj\n\r\t\b\a\\\"qxzz"},
		`x 'it\'s "so" \n'`:                {"x", `it's "so" \n`},
		`x a"b c"`:                         {"x", "ab c"},
		`x "\x4"`:                          {"x", "x4"},
		``:                                 nil,
		`x "open`:                          {"!"},
		`x 'open`:                          {"!"},
		`x 'open\'`:                        {"!"},
		`x "a"b`:                           {"!"},
		`x 'a'b`:                           {"!"},
		`x "a\`:                            {"!"},
	} {
		got, err := Split(line)
		if err != nil {
			got = []string{"!"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
}

// Neither syntax is taken for the other.
func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		"# a comment\n\n  port 6379\n":       true,
		"requirepass \"a = b\"\n":            true,
		"include /etc/a.conf":                true,
		"# port 6379\nlisten = [\"a:1\"]":    false,
		"listen=[\"a:1\"]":                   false,
		"\"listen\" = []":                    false,
		"[listen]\n":                         false,
		"# nothing\n":                        false,
		"":                                   false,
		"'tls-cert-file'   = \"/etc/a.pem\"": false,
	} {
		if Is(text) != want {
			t.Errorf("%q", text)
		}
	}
}

// Files are included where the line stands, which has the last word.
func TestInclude(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("1.inc", "PORT 1\n")
	write("2.inc", "port 2 # no comment\nx \"\n")
	self := write("self", "")
	write("self", "include "+self+"\n")
	path := filepath.Join(dir, "main.conf")
	text := strings.Join([]string{"port 0", "include " + dir + "/*.inc", "include " + dir + "/none*", "dir x",
		"include " + dir + "/none", "include", "include " + self}, "\r\n")
	lines, problems := Read(path, text)
	var got []string
	for _, line := range lines {
		got = append(got, fmt.Sprintf("%s %s %s", strings.TrimPrefix(line.At, dir+"/"), line.Name, strings.Join(line.Args, ",")))
	}
	want := "main.conf:1 port 0|1.inc:1 port 1|2.inc:1 port 2,#,no,comment|main.conf:4 dir x"
	if strings.Join(got, "|") != want {
		t.Errorf("got %q", got)
	}
	said := fmt.Sprint(problems)
	for _, want := range []string{"2.inc:2: Unbalanced quotes in configuration line", "main.conf:5: include " + dir + "/none: open",
		"main.conf:6: wrong number of arguments", "self:1: files include each other more than 16 deep"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
	if len(problems) != 4 {
		t.Errorf("%d problems", len(problems))
	}
}

// Input is bounded, even if two files include each other.
func TestReadIsBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, text := range []string{strings.Repeat("x 1\n", 100), "", strings.Repeat("\"\n", 100)} {
		text += strings.Repeat("include "+path+"\n", 100)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if lines, problems := Read(path, text); len(lines) > linesMax || len(problems) == 0 || len(problems) > problemsMax {
			t.Errorf("%d lines, %d problems", len(lines), len(problems))
		}
	}
	if err := os.WriteFile(path, make([]byte, fileBytesMax+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil {
		t.Error("a file of any size is read")
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(`requirepass "a\x41" 'b\''`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Split(line)
		if err != nil && words != nil {
			t.Errorf("%q, %v", words, err)
		}
	})
}

// A line that repeats what is so anyway asks for nothing.
func TestAsksNothing(t *testing.T) {
	for line, want := range map[string]bool{
		"timeout 0": true, "timeout 30": false, "databases 16": true, "databases 1": false,
		"appendonly no": true, "appendonly yes": true, "appendfsync always": true, "appendfsync no": false,
		`save ""`: true, "save 3600 1": true, "save 900 1": false, "daemonize yes": false, "maxmemory 1gb": false,
		"client-output-buffer-limit replica 256mb 64mb 60": true, "client-output-buffer-limit pubsub 1mb 1mb 60": false,
		"auto-aof-rewrite-min-size 64mb": true, "aclfile \"\"": true, "aclfile users.acl": false,
		"replicaof no one": true, "slaveof 10.0.0.1 6379": false, "user default on": false, "rename-command a b": false,
	} {
		words, err := Split(line)
		if err != nil {
			t.Fatal(err)
		}
		m, ok := MeaningOf(words[0])
		if !ok || m.AsksNothing(words[1:]) != want {
			t.Errorf("%s: %v, %+v", line, ok, m)
		}
	}
	if _, ok := MeaningOf("port"); ok {
		t.Error("what lockd has is not Redis's alone")
	}
}
