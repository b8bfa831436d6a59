package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// newNode starts a further node.
func (n nodes) newNode(t *testing.T, id string, extra ...string) *proc {
	t.Helper()
	ports := freePorts(t, 2)
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := append([]string{"serve", "--id", id, "--listen", addr, "--peer-listen", fmt.Sprintf("127.0.0.1:%d", ports[1]),
		"--dir", filepath.Join(t.TempDir(), id)}, extra...)
	return launch(t, id, addr, args...)
}

// flagOf is the value that p was started with for a flag.
func (p *proc) flagOf(name string) string {
	for i, a := range p.args {
		if a == name {
			return p.args[i+1]
		}
	}
	return ""
}

// Members are added, removed and replaced while clients work, and a removed or
// wiped node cannot come back under its old id.
func TestMembers(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 3, calm...)
	ctx := context.Background()
	load := startLoad(t, cluster[:1], 10)
	load.awaitWrites(t, 100)

	fourth := cluster.newNode(t, "n4", append([]string{"--join", cluster[1].addr}, calm...)...)
	fourth.awaitServing()
	eventually(t, startTimeout, "n4 has a vote", func() error {
		got, err := fourth.client().Do(ctx, "LOCKD", "MEMBERS").Slice()
		if err != nil {
			return err
		}
		for _, m := range got {
			row := m.(map[any]any)
			if row["id"] == "n4" && row["suffrage"] == "voter" {
				return nil
			}
		}
		return fmt.Errorf("members %v", got)
	})

	if err := fourth.client().Do(ctx, "LOCKD", "REMOVE", "n2").Err(); err != nil {
		t.Fatal(err)
	}
	if status := cluster[1].wait(startTimeout); status != exitFault || !strings.Contains(cluster[1].log.String(), "node n2 was removed from this cluster") {
		t.Errorf("the removed node ended with status %d:\n%s", status, cluster[1].log.tail(5))
	}
	cluster[1].start()
	if status := cluster[1].wait(startTimeout); status != exitFault && status != exitUsage {
		t.Errorf("the removed node came back: status %d:\n%s", status, cluster[1].log.tail(5))
	}

	wiped := cluster[2]
	wiped.Kill()
	if err := os.RemoveAll(wiped.flagOf("--dir")); err != nil {
		t.Fatal(err)
	}
	wiped.start()
	if status := wiped.wait(startTimeout); status != exitFault || !strings.Contains(wiped.log.String(), "node n3 has lost its data") {
		t.Errorf("the wiped node ended with status %d:\n%s", status, wiped.log.tail(5))
	}
	if err := fourth.client().Do(ctx, "LOCKD", "REMOVE", "n3").Err(); err != nil {
		t.Fatal(err)
	}
	fifth := cluster.newNode(t, "n5", append([]string{"--join", cluster[0].addr}, calm...)...)
	fifth.awaitServing()

	load.stop()
	load.check(t, nodes{cluster[0], fourth, fifth}, func(_ *proc, err error) bool { return strings.HasPrefix(err.Error(), "UNKNOWN ") })
}

// A start that fails prints one clear line and exits with status 2.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	p := startSingle(t)
	ports := freePorts(t, 2)
	dir := p.flagOf("--dir")
	client, peer := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	notAFolder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notAFolder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "holiday.jpg"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"folder in use":  {[]string{"--listen", client, "--peer-listen", peer, "--dir", dir}, "is in use by another lockd process (pid " + fmt.Sprint(p.PID()) + ")"},
		"client port":    {[]string{"--listen", p.addr, "--peer-listen", peer, "--dir", t.TempDir()}, "address already in use"},
		"peer port":      {[]string{"--listen", client, "--peer-listen", p.flagOf("--peer-listen"), "--dir", t.TempDir()}, "address already in use"},
		"not a folder":   {[]string{"--listen", client, "--peer-listen", peer, "--dir", notAFolder}, notAFolder},
		"foreign folder": {[]string{"--listen", client, "--peer-listen", peer, "--dir", foreign}, foreign},
		"socket path":    {[]string{"--listen", client, "--peer-listen", peer, "--dir", t.TempDir(), "--unixsocket", "/no/such/folder/s"}, "--unixsocket /no/such/folder/s"},
	} {
		t.Run(name, func(t *testing.T) {
			q := launch(t, name, client, append([]string{"serve"}, tt.args...)...)
			if status := q.wait(startTimeout); status != exitUsage || !strings.Contains(q.log.String(), tt.want) || strings.Count(q.log.String(), "\n") != 1 {
				t.Errorf("status %d, output %q; want status 2 and one line with %q", status, q.log.String(), tt.want)
			}
		})
	}
}

// A node serves a Unix socket, several addresses and clients with a password; what
// CONFIG SET changes is kept over a restart; SIGTERM ends it with status 0.
func TestServeOptions(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 3)
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	first, second := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	config := filepath.Join(dir, "lockd.toml")
	text := fmt.Sprintf("listen = [%q, %q]\npeer-listen = \"127.0.0.1:%d\"\nunixsocket = %q\nrequirepass = \"secret\"\nlog-format = \"json\"\nlog-store = \"boltdb\"\n", first, second, ports[2], socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, "options", first, "--config", config, "--dir", filepath.Join(dir, "data"))
	ctx := context.Background()
	open := func(network, addr, password string) *redis.Client {
		c := redis.NewClient(&redis.Options{Network: network, Addr: addr, Password: password, MaxRetries: -1, ReadTimeout: startTimeout})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	serving := func() {
		t.Helper()
		for network, addr := range map[string]string{"tcp": second, "unix": socket} {
			eventually(t, startTimeout, addr+" serves", func() error { return open(network, addr, "secret").Incr(ctx, "n").Err() })
		}
	}
	serving()
	if err := open("tcp", first, "").Get(ctx, "n").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH ") {
		t.Errorf("without a password: %v", err)
	}
	if err := open("tcp", first, "wrong").Get(ctx, "n").Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS ") {
		t.Errorf("with a wrong password: %v", err)
	}
	c := open("tcp", first, "secret")
	if err := c.ConfigSet(ctx, "maxclients", "3").Err(); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGTERM)
	if status := p.wait(startTimeout); status != exitOK {
		t.Errorf("SIGTERM: status %d\n%s", status, p.log.tail(5))
	}
	if !strings.Contains(p.log.String(), `"level":"INFO"`) {
		t.Errorf("the log is not JSON:\n%s", p.log.tail(3))
	}
	p.start()
	eventually(t, startTimeout, "serves again", func() error { return c.Get(ctx, "n").Err() })
	if got := c.ConfigGet(ctx, "maxclients").Val()["maxclients"]; got != "3" {
		t.Errorf("maxclients is %q after the restart", got)
	}
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	eventually(t, startTimeout, "the fourth client is turned away", func() error {
		conn, err := net.Dial("tcp", first)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
		answer := make([]byte, 64)
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, _ := conn.Read(answer)
		if got := string(answer[:n]); got != "-ERR max number of clients reached\r\n" {
			return fmt.Errorf("it was told %q", got)
		}
		return nil
	})
}
