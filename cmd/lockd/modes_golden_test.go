//go:build golden

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/internal/process"
	"lockd/resp"
)

// The referees of the client modes: a real sentinel group and a real one-node cluster of redis-server 7.0.15. Replies
// must have the same shape: the same kinds, names and words, in both protocols. Counters, durations and names are not
// compared.

// startRedis starts a redis-server on a free port with the given settings.
func startRedis(t *testing.T, settings ...string) string {
	t.Helper()
	port := freePorts(t, 1)[0]
	file := filepath.Join(t.TempDir(), "redis.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n%s\n", port, filepath.Dir(file), strings.Join(settings, "\n"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{file}
	if strings.Contains(text, "sentinel monitor") {
		args = append(args, "--sentinel")
	}
	background(t, process.Command{
		Name: "redis-server", Path: "redis-server", Args: args, Log: filepath.Join(filepath.Dir(file), "log"),
	})
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	eventually(t, startTimeout, "redis-server answers", func() error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return addr
}

// wire asks servers and writes replies as text that compares.
type wire struct {
	t     *testing.T
	proto int
	conn  net.Conn
	in    *bufio.Reader
}

func openWire(t *testing.T, addr string, proto int) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	w := &wire{t: t, proto: proto, conn: conn, in: bufio.NewReader(conn)}
	w.ask("HELLO", strconv.Itoa(proto))
	return w
}

// ask sends a command and returns the shape of its reply.
func (w *wire) ask(words ...string) string {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(startTimeout))
	if _, err := w.conn.Write(resp.AppendCommand(nil, words...)); err != nil {
		w.t.Fatal(err)
	}
	return w.reply()
}

var blurs = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{40}`), "<id>"},
	{regexp.MustCompile(`\d+`), "N"},
}

func blur(text string) string {
	for _, b := range blurs {
		text = b.what.ReplaceAllString(text, b.with)
	}
	return text
}

// reply reads one reply: kind and blurred text, or kind, count and elements.
func (w *wire) reply() string {
	w.t.Helper()
	line, err := w.in.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	n, _ := strconv.Atoi(rest)
	switch kind {
	case '$', '=':
		if n < 0 {
			return line
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(w.in, body); err != nil {
			w.t.Fatal(err)
		}
		return string(kind) + blur(string(bytes.TrimSuffix(body, []byte("\r\n"))))
	case '*', '%', '~', '>':
		elems := n
		if kind == '%' {
			elems *= 2
		}
		out := line[:len(line)-2] + "("
		for range elems {
			out += w.reply() + " "
		}
		return out + ")"
	case '-', '+':
		return string(kind) + blur(rest)
	}
	return string(kind) + blur(rest)
}

// sameShapes sends the same commands to both servers. ID among the words stands for
// the run id of a server's own node.
func sameShapes(t *testing.T, redis, ours string, idOf []string, commands ...string) {
	t.Helper()
	for _, proto := range []int{2, 3} {
		theirs, mine := openWire(t, redis, proto), openWire(t, ours, proto)
		for _, command := range commands {
			want, got := theirs.askWithID(idOf, command), mine.askWithID(idOf, command)
			if got != want {
				t.Errorf("RESP%d %s:\nredis %s\nlockd %s", proto, command, want, got)
			}
		}
	}
}

func (w *wire) askWithID(idOf []string, command string) string {
	w.t.Helper()
	words := strings.Fields(command)
	for i, word := range words {
		if word == "ID" {
			words[i] = w.ownID(idOf)
		}
	}
	return w.ask(words...)
}

// ownID asks for the id itself, which reply would blur.
func (w *wire) ownID(ask []string) string {
	w.t.Helper()
	if _, err := w.conn.Write(resp.AppendCommand(nil, ask...)); err != nil {
		w.t.Fatal(err)
	}
	var id string
	if _, err := fmt.Fscanf(w.in, "$40\r\n%s\r\n", &id); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// The commands of a sentinel.
func TestGoldenSentinel(t *testing.T) {
	master := startRedis(t, "save ''")
	host, port, _ := net.SplitHostPort(master)
	for range 2 {
		replica := startRedis(t, "save ''", "replicaof "+host+" "+port)
		eventually(t, startTimeout, "the replica is in step", func() error {
			return has(openWire(t, replica, 2), "master_link_status:up", "INFO", "replication")
		})
	}
	monitor := fmt.Sprintf("sentinel monitor mymaster %s %s 2", host, port)
	redis := startRedis(t, monitor)
	startRedis(t, monitor)
	startRedis(t, monitor)
	cluster := startClusterOf(t, 3, sentinelFlags(freePorts(t, 3)))
	ours := cluster[0].flagOf("--sentinel-listen")
	for _, addr := range []string{redis, ours} {
		eventually(t, startTimeout, addr+" knows all", func() error {
			w := openWire(t, addr, 2)
			if err := has(w, "*2(", "SENTINEL", "SENTINELS", "mymaster"); err != nil {
				return err
			}
			// A sentinel that was only just discovered is still disconnected, and reported as such.
			if got := w.ask("SENTINEL", "SENTINELS", "mymaster"); strings.Contains(got, "disconnected") {
				return errors.New(got)
			}
			if err := has(w, "$master-link-status $ok", "SENTINEL", "REPLICAS", "mymaster"); err != nil {
				return err
			}
			return has(w, "*2(", "SENTINEL", "REPLICAS", "mymaster")
		})
	}
	sameShapes(t, redis, ours, []string{"SENTINEL", "MYID"},
		"HELLO", "PING", "PING x", "ROLE", "INFO sentinel",
		"SENTINEL MASTERS", "SENTINEL MASTER mymaster", "SENTINEL MASTER nosuch", "SENTINEL REPLICAS mymaster", "SENTINEL SLAVES mymaster",
		"SENTINEL SLAVES nosuch", "SENTINEL SENTINELS mymaster", "SENTINEL SENTINELS nosuch", "SENTINEL MYID",
		"SENTINEL GET-MASTER-ADDR-BY-NAME mymaster", "SENTINEL GET-MASTER-ADDR-BY-NAME nosuch",
		"SENTINEL CKQUORUM mymaster", "SENTINEL CKQUORUM nosuch",
		"SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 0 *", "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 x 0 *",
		"SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 x *", "SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1",
		"SENTINEL CONFIG GET sentinel-user", "SENTINEL CONFIG GET nosuch", "SENTINEL PENDING-SCRIPTS", "SENTINEL FLUSHCONFIG",
		"SENTINEL RESET nosuch*", "SENTINEL FOO", "SENTINEL", "SENTINEL MASTER", "SENTINEL MASTERS x", "SENTINEL SET mymaster",
		"PUBLISH a b", "GET a", "SET a b", "ECHO a", "SELECT 0", "MULTI", "CONFIG GET *", "SLOWLOG LEN", "PUBSUB CHANNELS", "SSUBSCRIBE a",
		"SUBSCRIBE +switch-master", "PSUBSCRIBE *",
	)
}

func sentinelFlags(ports []int) func(int) []string {
	return func(i int) []string {
		return []string{"--sentinel-listen", fmt.Sprintf("127.0.0.1:%d", ports[i])}
	}
}

// has reports whether a reply holds a text.
func has(w *wire, text string, words ...string) error {
	if got := w.ask(words...); !strings.Contains(got, text) {
		return fmt.Errorf("no %q in %s", text, got)
	}
	return nil
}

// The commands of a cluster of one node.
func TestGoldenCluster(t *testing.T) {
	redis := startRedis(t, "save ''", "cluster-enabled yes", "cluster-announce-ip 127.0.0.1", fmt.Sprintf("cluster-port %d", freePorts(t, 1)[0]))
	w := openWire(t, redis, 2)
	if got := w.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383"); got != "+OK" {
		t.Fatal(got)
	}
	eventually(t, startTimeout, "the cluster is up", func() error { return has(w, "cluster_state:ok", "CLUSTER", "INFO") })
	ours := startSingle(t, "--cluster-protocol").addr
	for _, addr := range []string{redis, ours} {
		for _, key := range []string{"a", "b{a}"} {
			if got := openWire(t, addr, 2).ask("SET", key, "1"); got != "+OK" {
				t.Fatalf("%s: %s", addr, got)
			}
		}
	}
	sameShapes(t, redis, ours, []string{"CLUSTER", "MYID"},
		"HELLO", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER MYID", "CLUSTER LINKS",
		"CLUSTER KEYSLOT a{b}", "CLUSTER KEYSLOT", "CLUSTER REPLICAS ID", "CLUSTER SLAVES ID", "CLUSTER REPLICAS nosuch",
		"CLUSTER COUNT-FAILURE-REPORTS ID", "CLUSTER COUNT-FAILURE-REPORTS nosuch",
		"CLUSTER COUNTKEYSINSLOT 15495", "CLUSTER COUNTKEYSINSLOT 1", "CLUSTER COUNTKEYSINSLOT x", "CLUSTER COUNTKEYSINSLOT 16384", "CLUSTER COUNTKEYSINSLOT -1",
		"CLUSTER GETKEYSINSLOT 1 10", "CLUSTER GETKEYSINSLOT 15495 0", "CLUSTER GETKEYSINSLOT 1 -1", "CLUSTER GETKEYSINSLOT 1 x", "CLUSTER GETKEYSINSLOT 16384 1",
		"CLUSTER FOO", "CLUSTER", "CLUSTER SLOTS x", "READONLY", "READWRITE", "ASKING", "READONLY x", "SELECT 0", "SELECT 1", "SELECT x",
		"INFO cluster", "CONFIG GET cluster-enabled", "PUBSUB SHARDNUMSUB x",
		"MULTI", "SELECT 1", "EXEC",
	)
	for _, addr := range []string{redis, ours} { // the order of keys in a slot is unspecified
		got := openWire(t, addr, 2).ask("CLUSTER", "GETKEYSINSLOT", "15495", "10")
		if got != "*2($a $b{a} )" && got != "*2($b{a} $a )" {
			t.Errorf("%s: CLUSTER GETKEYSINSLOT: %s", addr, got)
		}
	}
}

// redis-cli follows the redirects of a follower.
func TestGoldenRedisCLI(t *testing.T) {
	cluster := startCluster(t, 3, append([]string{"--cluster-protocol", "--cluster-redirect"}, calm...)...)
	leader := cluster.leader(t)
	follower := cluster.others(leader)[0]
	eventually(t, startTimeout, "the follower redirects", func() error {
		return has(openWire(t, follower.addr, 2), "-MOVED N N.N.N.N:N", "GET", "a")
	})
	_, port, _ := net.SplitHostPort(follower.addr)
	cli := func(args ...string) string {
		out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := cli("SET", "a", "1", "NX", "PX", "30000"); got != "MOVED 15495 "+leader.addr {
		t.Errorf("without -c: %q", got)
	}
	if got := cli("-c", "SET", "a", "1", "NX", "PX", "30000"); got != "OK" {
		t.Errorf("with -c: %q", got)
	}
	if got := cli("-c", "GET", "a"); got != "1" {
		t.Errorf("with -c: %q", got)
	}
	if got := cli("--cluster", "check", leader.addr); !strings.Contains(got, "[OK] All 16384 slots covered.") || !strings.Contains(got, "2 additional replica(s)") {
		t.Errorf("--cluster check: %s", got)
	}
}
