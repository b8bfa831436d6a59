package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"lockd/cmd/lockd/redisconf"
	"lockd/internal/secure/securetest"
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

// Lines of redis.conf have the effect that they have in Redis, or an error tells what to do instead.
func TestRedisConf(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want string // flags and values
		says string // warnings and problems
	}{
		"addresses":     {"bind 127.0.0.1 -192.0.2.1 10.0.0.1\nport 7000", "listen=127.0.0.1:7000,10.0.0.1:7000", ""},
		"everywhere":    {"port 7000\nbind * -::*", "listen=:7000", ""},
		"IPv4":          {"bind *", "listen=0.0.0.0:6379", ""},
		"TLS only":      {"port 0\ntls-port 6379\nbind 10.0.0.1\ntls-auth-clients no", "listen= tls-auth-clients=no tls-listen=10.0.0.1:6379", ""},
		"no bind":       {"PORT 6380", "listen=127.0.0.1:6380", "FILE:1: without a line bind lockd listens on 127.0.0.1 only"},
		"nowhere":       {"bind -192.0.2.1", "", "FILE:1: bind names no address that this machine has"},
		"passwords":     {"# x\nrequirepass 'a \"b, c'\nmasterauth hunter2", "requirepass=a \"b, c", "FILE:3: masterauth has no effect: nodes know each other by --peer-secret-file"},
		"files":         {"dir /var/lib/x\ntls-cert-file \"a b.pem\"\ntls-key-file k\ntls-ca-cert-file c\nunixsocket /run/s", "dir=/var/lib/x tls-ca-cert-file=c tls-cert-file=a b.pem tls-key-file=k unixsocket=/run/s", ""},
		"words":         {"loglevel notice\ncluster-enabled yes\nprotected-mode no\nmaxclients 5\ntls-sentinel yes", "cluster-protocol=true log-level=info maxclients=5 protected-mode=no tls-sentinel=true", ""},
		"lockd's own":   {"id n1\ncluster n1=a:1 n2=b:2\nheartbeat 1s", "cluster=n1=a:1,n2=b:2 heartbeat=1s id=n1", ""},
		"the last":      {"dir a\ndir b", "dir=b", ""},
		"usual":         {"save \"\"\nappendonly yes\ntimeout 0\ndatabases 16\naclfile \"\"\ndaemonize no", "", ""},
		"Redis's alone": {"save 900 1\nsave 300 10\nmaxmemory 1gb", "", "FILE:1: save has no effect: lockd has no such files; FILE:3: maxmemory has no effect: it is a setting of the whole cluster"},
		"dangerous":     {"user hunter2 on >hunter3 +@all", "", "FILE:1: user cannot be had from a file: users are state of the cluster"},
		"a replica":     {"replicaof 10.0.0.1 6379", "", "FILE:1: replicaof cannot be had from a file: the node would be a server of its own"},
		"unknown":       {"port 1\nbind ::1\nrequirepas hunter2", "listen=[::1]:1", `FILE:3: unknown setting "requirepas", did you mean "requirepass"?`},
		"wrong":         {"loglevel loud\nport x\ndir a b\nx \"y\ntls-http maybe", "", "FILE:1: loglevel: argument must be one of debug, nothing, notice, verbose, warning; FILE:2: port: argument must be between 0 and 65535 inclusive; FILE:3: dir: wrong number of arguments; FILE:4: Unbalanced quotes in configuration line; FILE:5: tls-http: argument must be one of no, yes"},
		"TOML":          {"dir a\nid = 'b'", "dir=a", "FILE:2: the file has the syntax of redis.conf, without equals signs: id VALUE"},
		"twice":         {"port 1\nlisten 127.0.0.1:2", "listen=127.0.0.1:2", "FILE:1: port and bind say the same as listen, which is there too (FILE:2)"},
	} {
		t.Run(name, func(t *testing.T) {
			path := tempFile(t, "redis.conf", tt.text)
			f := readConfigOf(t, path)
			var got, says []string
			for _, flag := range names(f.values) {
				got = append(got, flag+"="+f.values[flag].text)
			}
			says = append(says, f.warnings...)
			for _, problem := range f.problems {
				says = append(says, strings.TrimPrefix(problem.Error(), "config file "))
			}
			slices.Sort(says)
			said := strings.ReplaceAll(strings.Join(says, "; "), path, "FILE")
			if strings.Join(got, " ") != tt.want {
				t.Errorf("taken: %q", got)
			}
			if wants := strings.Split(tt.says, "; "); len(says) != len(wants) && tt.says != "" || tt.says == "" && said != "" {
				t.Errorf("says %s", said)
			} else {
				for _, want := range wants {
					if !strings.Contains(said, want) {
						t.Errorf("says %s, want %s", said, want)
					}
				}
			}
			if strings.Contains(said, "hunter") {
				t.Errorf("a secret is told: %s", said)
			}
		})
	}
}

func readConfigOf(t *testing.T, path string) *configFile {
	t.Helper()
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	return readConfig(path, flagsBelow(parser.Model.Node))
}

// No name has two meanings.
func TestRedisNames(t *testing.T) {
	for _, name := range flagNames(t) {
		if _, ok := redisconf.MeaningOf(name); ok && name != "user" && name != "aclfile" {
			// user is a flag of client commands, and aclfile is not read at each start as Redis's is.
			t.Errorf("%s is a flag, and Redis's alone", name)
		}
	}
}

// Every setting that CONFIG GET of a node reports may stand in a file, or its line gives advice.
func TestSettingsOfClusterInFile(t *testing.T) {
	t.Parallel()
	c := startSingle(t).client()
	theirs, err := c.ConfigGet(context.Background(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for name := range theirs {
		if !meansSomething(t, name) {
			t.Errorf("%s is not known in a file: give it a line in cmd/lockd/redisconf/meaning.go", name)
		}
	}
	for _, name := range redisconf.Names() {
		if m, _ := redisconf.MeaningOf(name); m.Instead == redisconf.OfCluster && theirs[name] == "" && name != "notify-keyspace-events" && name != "lockd-full-disks" &&
			!strings.Contains(name, "ziplist") && name != "lua-time-limit" && name != "busy-reply-threshold" {
			t.Errorf("%s cannot be changed by CONFIG SET", name)
		}
	}
}

// meansSomething reports whether a line of redis.conf with the name is not an unknown one.
func meansSomething(t *testing.T, name string) bool {
	t.Helper()
	_, only := redisconf.MeaningOf(name)
	return only || slices.Contains(append(flagNames(t), "port", "bind", "tls-port", "loglevel", "cluster-enabled"), name)
}

// A client takes address, TLS and password from the file of a node.
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
		"redis.conf":    {"port 0\ntls-port 7001\nbind 127.0.0.1\nrequirepass p", "", "127.0.0.1:7001 true  p"},
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
		words := append([]string{"--config", tempFile(t, "lockd.conf", "port 7002\nbind 127.0.0.1\nsave 1 1")}, strings.Fields(args)...)
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

func flagNames(t *testing.T) (list []string) {
	t.Helper()
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flagsBelow(parser.Model.Node) {
		list = append(list, f.Name)
	}
	return list
}

// A node starts with a redis.conf, warns about lines without effect, and clients read the same file.
func TestNodeWithRedisConf(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	file := tempFile(t, "redis.conf", fmt.Sprintf("# of Redis\nbind 127.0.0.1\nport %d\nrequirepass \"hunter 2\"\nmaxclients 77\n"+
		"save 900 1\ndir %q\npeer-listen 127.0.0.1:%d\n", ports[0], t.TempDir(), ports[1]))
	p := launch(t, "single", addr, "serve", "--config", file)
	eventually(t, startTimeout, "it is healthy", func() error {
		var out bytes.Buffer
		if status := run([]string{"health", "--config", file}, nil, &out, &out); status != exitOK {
			return errors.New(out.String())
		}
		return nil
	})
	c := redis.NewClient(&redis.Options{Addr: addr, Password: "hunter 2"})
	defer c.Close()
	if got := c.ConfigGet(context.Background(), "maxclients").Val()["maxclients"]; got != "77" {
		t.Errorf("maxclients is %q", got)
	}
	log := p.log.String()
	if !strings.Contains(log, "level=WARN") || !strings.Contains(log, file+":6: save has no effect: lockd has no such files") ||
		strings.Contains(log, "hunter") {
		t.Errorf("the log:\n%s", log)
	}
}

// A client reads the file of a node that serves TLS only, with a certificate for its name.
func TestTLSNodeWithRedisConf(t *testing.T) {
	t.Parallel()
	p := securetest.NewCA(t, "ca").Write(t, t.TempDir(), month, "db1.example")
	ports := freePorts(t, 2)
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	file := tempFile(t, "redis.conf", strings.Join([]string{
		"port 0", fmt.Sprintf("tls-port %d", ports[0]), "bind 127.0.0.1", "tls-cert-file " + p.Cert, "tls-key-file " + p.Key,
		"tls-ca-cert-file " + p.CA, "requirepass hunter2", "dir " + t.TempDir(),
		fmt.Sprintf("tls-advertise db1.example:%d", ports[0]), fmt.Sprintf("peer-listen 127.0.0.1:%d", ports[1]),
	}, "\n"))
	launch(t, "single", addr, "serve", "--config", file)
	for _, args := range [][]string{{"health"}, {"locks"}, {"locks", "--addr", addr, "--sni", "db1.example"}} {
		eventually(t, startTimeout, strings.Join(args, " "), func() error {
			var out bytes.Buffer
			if status := run(append(args, "--config", file), nil, &out, &out); status != exitOK {
				return errors.New(out.String())
			}
			return nil
		})
	}
	var out bytes.Buffer
	if status := run([]string{"health", "--config", file, "--addr", addr}, nil, &out, &out); status != exitFault {
		t.Errorf("a certificate for another name is good: %d, %s", status, &out)
	}
}
