package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// tempFile writes a file and tells its path.
func tempFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every value is shown with where it comes from, in a form that can be read again, and no secret is.
func TestConfigShow(t *testing.T) {
	password := tempFile(t, "password", "hunter2\n")
	file := tempFile(t, "lockd.toml", "# of n1\nid = \"n1\"\n\nlisten = [\"10.0.0.1:1\", \"127.0.0.1:2\"]\nheartbeat = \"1s\"\n"+
		"sentinel-requirepass = \"hunter3\"\nlog-format = 'json'\n")
	env := []string{"LOCKD_PEER_SECRET=hunter4hunter4hunter4", "LOCKD_REQUIREPASS_FILE=" + password, "LOCKD_LOG_FORMAT=text", "HOME=/"}
	args := []string{"config", "show", "--origin", "--config", file, "--dir", "d"}
	var stdout, stderr bytes.Buffer
	if status := run(args, env, &stdout, &stderr); status != exitOK || stderr.Len() > 0 {
		t.Fatalf("%d, %s", status, stderr.String())
	}
	shown := map[string]string{}
	for line := range strings.Lines(stdout.String()) {
		setting, origin, _ := strings.Cut(strings.TrimSpace(line), "  ")
		shown[setting] = strings.TrimSpace(strings.TrimSpace(origin)[1:])
	}
	for setting, origin := range map[string]string{
		`# config = "` + file + `"`:              "flag",
		`id = "n1"`:                              file + ":2",
		`listen = ["10.0.0.1:1", "127.0.0.1:2"]`: file + ":4",
		`heartbeat = "1s"`:                       file + ":5",
		`# sentinel-requirepass is not shown`:    file + ":6",
		`log-format = "text"`:                    "LOCKD_LOG_FORMAT",
		`requirepass-file = "` + password + `"`:  "LOCKD_REQUIREPASS_FILE",
		`# LOCKD_PEER_SECRET is not shown`:       "LOCKD_PEER_SECRET",
		`dir = "d"`:                              "flag",
		`leader-wait = "3s"`:                     "default",
		`peer-listen = "10.0.0.1:10001"`:         "default",
		`advertise = "10.0.0.1:1"`:               "default",
		`cluster = []`:                           "default",
		`tls-http = false`:                       "default",
		`requirepass = ""`:                       "default", // it is in its file
	} {
		if shown[setting] != origin {
			t.Errorf("%s: from %q, want %q", setting, shown[setting], origin)
		}
	}
	if text := stdout.String(); t.Failed() || strings.Contains(text, "hunter") || strings.Contains(text, "origin =") {
		t.Error(text)
	}
	var plain, again bytes.Buffer
	if status := run(append(args[:2:2], args[3:]...), env, &plain, &stderr); status != exitOK {
		t.Fatal(stderr.String())
	}
	copied := tempFile(t, "copy.toml", plain.String())
	if status := run([]string{"config", "show", "--config", copied}, env, &again, &stderr); status != exitOK {
		t.Fatal(stderr.String())
	}
	rest := func(text string) string { // secrets are not in the copy
		return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "#") || strings.HasPrefix(line, "sentinel-requirepass = ")
		}), "\n")
	}
	if rest(plain.String()) != rest(again.String()) {
		t.Errorf("a copy says\n%s\nof\n%s", again.String(), plain.String())
	}
}

// A flag that takes a secret is marked as one.
func TestSecretsAreMarked(t *testing.T) {
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flagsBelow(parser.Model.Node) {
		holds := strings.HasPrefix(f.Help, "Password") || slices.Contains([]string{"PASSWORD", "SECRET"}, f.PlaceHolder)
		if holds != f.Tag.Has("secret") {
			t.Errorf("--%s: secret %v", f.Name, f.Tag.Has("secret"))
		}
	}
}

// All that is wrong is said, each in a line with its place.
func TestConfigCheck(t *testing.T) {
	file := tempFile(t, "lockd.toml", "lisen = [\"a\"]\nheartbeat = \"soon\"\nleader-wait = \"-1s\"\nlog-level = \"loud\"\n[dir]\nx = 1\n")
	args := []string{"config", "check", "--config", file, "--id", "a b", "--join", "x", "--http-listen", ":8080"}
	env := []string{"LOCKD_PEER_LISTEN=6379", "LOCKD_CLUSTERS=x", "LOCKD_PEER_SECRET=short"}
	var stdout, stderr bytes.Buffer
	if status := run(args, env, &stdout, &stderr); status != exitUsage || stdout.Len() > 0 {
		t.Errorf("status %d, %s", status, stdout.String())
	}
	for _, want := range []string{
		"config file " + file + `:1: unknown setting "lisen", did you mean "listen"?`,
		"config file " + file + `:5: dir is a table or a time, and no value of a flag`,
		`--heartbeat: expected duration but got "soon": time: invalid duration "soon" (from ` + file + ":2)",
		`--log-level must be one of "debug","info","warn","error" but got "loud" (from ` + file + ":4)",
		"--leader-wait -1s is negative (from " + file + ":3)",
		`node id "a b" is not 1 to 64 printable characters without space, comma and equals sign`,
		`--join "x" is not of the form host:port`,
		`--peer-listen "6379" is not of the form host:port (from LOCKD_PEER_LISTEN)`,
		"LOCKD_PEER_SECRET holds 5 bytes besides white space, not 16 to 4096",
		"the environment variable LOCKD_CLUSTERS is not known, did you mean LOCKD_CLUSTER?",
	} {
		if !strings.Contains(stderr.String(), "lockd: "+want+"\n") {
			t.Errorf("nothing says %s", want)
		}
	}
	if n := strings.Count(stderr.String(), "\n"); n != 10 {
		t.Errorf("%d lines:\n%s", n, stderr.String())
	}
	stderr.Reset()
	if status := run([]string{"config", "check", "--dir", "d"}, nil, &stdout, &stderr); status != exitOK || stderr.Len() > 0 {
		t.Errorf("status %d, %s", status, stderr.String())
	}
	if stdout.String() != "The settings are good.\n" {
		t.Error(stdout.String())
	}
}

// A file of a node tells those who ask it how: where it is, that TLS is spoken, the password.
func TestConfigOfClient(t *testing.T) {
	secret := tempFile(t, "secret", "hunter2\n")
	for name, tt := range map[string]struct {
		file, args string
		want       string // address, TLS, the name of the certificate, password
	}{
		"nothing":       {"id = \"n1\"", "", "127.0.0.1:6379 false  "},
		"address":       {"listen = [\"0.0.0.0:7000\", \"127.0.0.1:1\"]\nrequirepass = \"p\"", "", "127.0.0.1:7000 false  p"},
		"given":         {"listen = [\"0.0.0.0:7000\"]\nrequirepass = \"p\"", "--addr n2:1 --auth q", "n2:1 false  q"},
		"a file":        {"listen = [\"[::]:7000\"]\nrequirepass-file = \"" + secret + "\"", "", "[::1]:7000 false  hunter2"},
		"another user":  {"requirepass = \"p\"", "--user ops", "127.0.0.1:6379 false  "},
		"TLS only":      {"listen = []\ntls-listen = [\":7001\"]\ntls-advertise = \"db1.example:7001\"", "", "127.0.0.1:7001 true db1.example "},
		"TLS elsewhere": {"listen = []\ntls-listen = [\":7001\"]\ntls-advertise = \"db1.example:7001\"", "--addr db2.example:7001", "db2.example:7001 true  "},
		"TLS asked for": {"tls-listen = [\"10.0.0.1:7001\"]\nadvertise = \"db1.example:6379\"", "--tls", "10.0.0.1:7001 true db1.example "},
		"TLS beside":    {"tls-listen = [\"10.0.0.1:7001\"]", "", "127.0.0.1:6379 false  "},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"locks", "--config", tempFile(t, "file", tt.file)}, strings.Fields(tt.args)...)
			cmd, _, err := parse(args, nil, &bytes.Buffer{})
			if err != nil {
				t.Fatal(err)
			}
			f := cmd.(*locksCmd).clusterFlags
			got := strings.Join([]string{strings.Join(f.Addr, ","), map[bool]string{true: "true", false: "false"}[f.TLS && f.secured != nil], f.SNI, f.Auth}, " ")
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	for _, args := range []string{"health", "members", "backup --out x", "top --once", "run --lock l -- true"} {
		words := append([]string{"--config", tempFile(t, "lockd.toml", "listen = [\"127.0.0.1:7002\"]")}, strings.Fields(args)...)
		cmd, _, err := parse(words, nil, &bytes.Buffer{})
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		var addr []string
		switch cmd := cmd.(type) {
		case *healthCmd:
			addr = cmd.Addr
		case *membersCmd:
			addr = cmd.Addr
		case *backupCmd:
			addr = cmd.Addr
		case *topCmd:
			addr = cmd.Addr
		case *runCmd:
			addr = cmd.Addr
		}
		if !slices.Equal(addr, []string{"127.0.0.1:7002"}) {
			t.Errorf("%s: %q", args, addr)
		}
	}
}
