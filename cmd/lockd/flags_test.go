package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A wrong flag, address or file is one clear line on standard error, with exit status 2.
func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(bad, []byte("lisen = [\"127.0.0.1:1\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.toml")
	if err := os.WriteFile(broken, []byte("listen = \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("fifteen bytes..  \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		env  []string
		want string
	}{
		{args: []string{"--no-such-flag"}, want: "lockd: unknown flag --no-such-flag"},
		{args: []string{"frobnicate"}, want: "lockd: unknown command frobnicate: lockd --help lists them"},
		{args: []string{"backpu"}, want: "lockd: unknown command backpu, did you mean \"backup\"?"},
		{args: []string{"--dir", "d", "memmbers"}, want: "lockd: unknown command memmbers, did you mean \"members\"?"},
		{args: []string{"dev", "backup"}, want: "lockd: unexpected argument backup"},
		{args: []string{"health", "a:1", "b:1"}, want: "lockd: unexpected argument b:1"},
		{args: []string{"no such command, is it"}, want: "lockd: unknown command no such command, is it: lockd --help lists them"},
		{args: []string{"serve", "backup"}, want: "lockd: unexpected argument backup"},
		{args: []string{"locks", "lsit"}, want: "lockd: unexpected argument lsit, did you mean \"list\"?"},
		{args: []string{"--lisen", "x"}, want: "lockd: unknown flag --lisen, did you mean \"--listen\"?"},
		{args: []string{"--maxclients=4294967296"}, want: "lockd: --maxclients 4294967296 is not between 1 and 4294967295"},
		{args: []string{"--listen", "6379"}, want: `lockd: --listen "6379" is not of the form host:port`},
		{args: []string{"--listen", "127.0.0.1:99999"}, want: `lockd: --listen "127.0.0.1:99999": port "99999" is not between 0 and 65535`},
		{args: []string{"--listen", "127.0.0.1:60000"}, want: "lockd: --listen port 60000 + 10000 is no port: give --peer-listen"},
		{args: []string{"--id", "a b"}, want: `lockd: node id "a b" is not 1 to 64 printable characters without space, comma and equals sign`},
		{args: []string{"--cluster", "n1"}, want: `lockd: --cluster "n1" is not of the form id=host:port`},
		{args: []string{"--id", "n4", "--cluster", "n1=127.0.0.1:1,n2=127.0.0.1:2"}, want: `lockd: --cluster does not list this node's --id "n4"`},
		{args: []string{"--cluster", "n1=127.0.0.1:1,n1=127.0.0.1:2"}, want: `lockd: --cluster lists node "n1" twice`},
		{args: []string{"--cluster", "n1=127.0.0.1:1,n2=127.0.0.1:1"}, want: `lockd: --cluster gives nodes "n1" and "n2" the same address 127.0.0.1:1`},
		{args: []string{"--cluster", "n1=127.0.0.1:1", "--join", "127.0.0.1:2"}, want: "lockd: --join and --cluster exclude each other: a new node joins, the founding nodes are listed"},
		{args: []string{"--expect", "3"}, want: "lockd: --expect and --discover need each other"},
		{args: []string{"--discover", "dns:lockd:16379"}, want: "lockd: --expect and --discover need each other"},
		{args: []string{"--expect", "1", "--discover", "dns:lockd:16379"}, want: "lockd: --expect 1 is not between 2 and 9"},
		{args: []string{"--expect", "3", "--discover", "dns:lockd"}, want: `lockd: --discover "dns:lockd" is neither dns:NAME:PORT nor host:port`},
		{args: []string{"--expect", "3", "--discover", "dns::16379"}, want: `lockd: --discover "dns::16379" is neither dns:NAME:PORT nor host:port`},
		{args: []string{"--expect", "3", "--discover", "dns:lockd:16379", "--join", "127.0.0.1:1"}, want: "lockd: --discover excludes --cluster and --join: it finds out who founds a cluster, or which one to join"},
		{args: []string{"--expect", "3", "--discover", "dns:lockd:16379", "--peer-listen", ":16379"}, want: "lockd: --peer-advertise is needed with --discover: others are told to reach this node at :16379"},
		{args: []string{"--heartbeat", "1ms"}, want: "lockd: --heartbeat 1ms is not between 100ms and 30s"},
		{args: []string{"--heartbeat", "soon"}, want: `lockd: --heartbeat: expected duration but got "soon": time: invalid duration "soon"`},
		{args: []string{"--log-level", "loud"}, want: `lockd: --log-level must be one of "debug","info","warn","error" but got "loud"`},
		{args: []string{"--config", filepath.Join(dir, "none.toml")}, want: "lockd: config file " + filepath.Join(dir, "none.toml") + " does not exist"},
		{args: []string{"--config", bad}, want: "lockd: config file " + bad + `:1: unknown setting "lisen", did you mean "listen"?`},
		{args: []string{"--config", broken}, want: "lockd: config file " + broken + ": toml: line 1"},
		{env: []string{"LOCKD_LISTEN=nowhere"}, want: `lockd: --listen "nowhere" is not of the form host:port (from LOCKD_LISTEN)`},
		{args: []string{"--cluster-redirect"}, want: "lockd: --cluster-redirect needs --cluster-protocol"},
		{args: []string{"--sentinel-listen", "27000"}, want: `lockd: --sentinel-listen "27000" is not of the form host:port`},
		{args: []string{"--http-listen", "8080"}, want: `lockd: --http-listen "8080" is not of the form host:port`},
		{args: []string{"--http-listen", ":8080"}, want: "lockd: --http-listen :8080 is reached from other machines, and there is no password: give --requirepass, or --protected-mode no"},
		{args: []string{"dev", "--http-listen", "10.0.0.1:8080"}, want: "lockd: --http-listen 10.0.0.1:8080 is reached from other machines, and there is no password"},
		{args: []string{"--master-name", "my master"}, want: `lockd: --master-name "my master" is not one or more printable characters without space`},
		{args: []string{"--cluster-protocol", "--listen", "0.0.0.0:6379"}, want: "lockd: --advertise is needed with --cluster-protocol and --sentinel-listen: clients are told to connect to 0.0.0.0:6379"},
		{args: []string{"--sentinel-listen", "127.0.0.1:27000", "--listen", ":6379"}, want: "lockd: --advertise is needed with --cluster-protocol and --sentinel-listen: clients are told to connect to :6379"},
		{args: []string{"--cluster-protocol", "--listen", "127.0.0.1:0"}, want: "lockd: --advertise is needed with --cluster-protocol and --sentinel-listen: clients are told to connect to 127.0.0.1:0"},
		{args: []string{"dev", "--sentinel-listen", "127.0.0.1:65534"}, want: "lockd: --sentinel-listen port 65534 leaves no room for 3 nodes"},
		{args: []string{"dev", "--nodes", "0"}, want: "lockd: --nodes 0 is not between 1 and 9"},
		{args: []string{"--peer-secret-file", filepath.Join(dir, "none")}, want: "lockd: --peer-secret-file: open " + filepath.Join(dir, "none") + ": no such file"},
		{args: []string{"--peer-secret-file", dir}, want: "lockd: --peer-secret-file: read " + dir + ": is a directory"},
		{args: []string{"--peer-secret-file", short}, want: "lockd: --peer-secret-file " + short + " holds 15 bytes besides white space, not 16 to 4096"},
		{args: []string{"--peer-secret-file", "/dev/zero"}, want: "lockd: --peer-secret-file /dev/zero holds 8192 bytes besides white space, not 16 to 4096"},
		{args: []string{"--peer-secret-file", bad}, env: []string{"LOCKD_PEER_SECRET=0123456789abcdef"}, want: "lockd: --peer-secret-file and LOCKD_PEER_SECRET exclude each other"},
		{args: []string{"--peer-secret-file", bad, "--peer-insecure"}, want: "lockd: --peer-insecure is for nodes without a secret, and this one has one"},
		{env: []string{"LOCKD_PEER_SECRET="}, want: "lockd: LOCKD_PEER_SECRET holds 0 bytes besides white space, not 16 to 4096"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(tt.args, tt.env, &stdout, &stderr)
		if status != exitUsage || !strings.Contains(stderr.String(), tt.want) || strings.Count(stderr.String(), "\n") != 1 || stdout.Len() != 0 {
			t.Errorf("lockd %q %q: status %d, stderr %q, stdout %q; want status 2 and one line with %q",
				tt.args, tt.env, status, stderr.String(), stdout.String(), tt.want)
		}
	}
}

// A value comes from the flag, else the environment, else the file, else the
// default.
func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockd.toml")
	text := "listen = [\"127.0.0.1:1001\", \"127.0.0.1:1002\"]\nheartbeat = \"1s\"\ndir = \"from-file\"\nid = \"n9\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, _, err := parse([]string{"--config", file, "--id", "n7"}, []string{"LOCKD_DIR=from-env", "LOCKD_ID=n8"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	got := cmd.(*serveCmd)
	if got.ID != "n7" || got.Dir != "from-env" || got.Heartbeat != time.Second || strings.Join(got.Listen, " ") != "127.0.0.1:1001 127.0.0.1:1002" ||
		got.LeaderWait != 3*time.Second || got.PeerListen != "127.0.0.1:11001" || got.Advertise != "127.0.0.1:1001" {
		t.Errorf("got %+v", got)
	}
}

// The peer port is never open wider than that for clients, unless that was asked for, and
// without a secret not beyond this machine.
func TestPeerListenDefault(t *testing.T) {
	secret := []string{"LOCKD_PEER_SECRET=0123456789abcdef"}
	for _, tt := range []struct {
		args string
		env  []string
		want string
	}{
		{args: "", want: "127.0.0.1:16379"},
		{args: "--listen 0.0.0.0:6379", want: "127.0.0.1:16379"},
		{args: "--listen :6379", want: "127.0.0.1:16379"},
		{args: "--listen db1.example:6379", want: "127.0.0.1:16379"},
		{args: "--listen [::1]:6379", want: "[::1]:16379"},
		{args: "--listen 0.0.0.0:6379 --peer-insecure", want: "0.0.0.0:16379"},
		{args: "--listen 10.0.0.1:6379", env: secret, want: "10.0.0.1:16379"},
		{args: "--listen 127.0.0.1:6379", env: secret, want: "127.0.0.1:16379"},
		{args: "--listen 127.0.0.1:6379 --peer-listen 10.0.0.1:1", env: secret, want: "10.0.0.1:1"},
	} {
		cmd, _, err := parse(strings.Fields(tt.args), tt.env, &bytes.Buffer{})
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		if got := cmd.(*serveCmd).PeerListen; got != tt.want {
			t.Errorf("%s %s: peers on %s, want %s", tt.args, tt.env, got, tt.want)
		}
	}
	cmd, _, err := parse([]string{"dev", "--listen", "0.0.0.0:7001"}, nil, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := cmd.(*devCmd).plan()
	if err != nil || nodes[2].PeerListen != "127.0.0.1:17003" || nodes[0].members["n3"] != "127.0.0.1:17003" {
		t.Errorf("dev: %+v, %v", nodes[2], err)
	}
}

// A sentinel is reached at the node's own host; dev counts ports up.
func TestSentinelAddresses(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--sentinel-listen 127.0.0.1:27000", "127.0.0.1:27000"},
		{"--sentinel-listen 0.0.0.0:27000 --listen 0.0.0.0:6379 --advertise db1.example:6379", "db1.example:27000"},
		{"--sentinel-listen :27000 --listen [::]:6379 --advertise [2001:db8::1]:6379", "[2001:db8::1]:27000"},
	} {
		cmd, _, err := parse(strings.Fields(tt.args), nil, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := cmd.(*serveCmd).sentinelAddr(); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.args, got, err, tt.want)
		}
	}
	cmd, _, err := parse([]string{"dev", "--cluster-protocol", "--sentinel-listen", "127.0.0.1:27001", "--master-name", "m"}, nil, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := cmd.(*devCmd).plan()
	if err != nil || nodes[2].SentinelListen != "127.0.0.1:27003" || !nodes[2].ClusterProtocol || nodes[2].MasterName != "m" {
		t.Errorf("plan: %+v, %v", nodes[2], err)
	}
}

// help and version print to standard output and end with status 0.
func TestHelpAndVersion(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--help"}, "serve"},
		{[]string{"serve", "--help"}, "--leader-wait"},
		{[]string{"dev", "--help"}, "--nodes"},
		{[]string{"locks", "--help"}, "--json"},
		{[]string{"locks", "force", "--help"}, "--reason"},
		{[]string{"top", "--help"}, "--interval"},
		{[]string{"version"}, "lockd " + version},
		{[]string{"--version"}, "lockd " + version},
		{[]string{"-v"}, "lockd " + version},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(tt.args, nil, &stdout, &stderr); status != exitOK || !strings.Contains(stdout.String(), tt.want) || stderr.Len() != 0 {
			t.Errorf("lockd %q: status %d, stdout %q, stderr %q; want %q", tt.args, status, stdout.String(), stderr.String(), tt.want)
		}
	}
}
