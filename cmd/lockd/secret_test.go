package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockd/resp"
)

// writeSecret makes the file of a cluster's secret.
func writeSecret(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockd.secret")
	if err := os.WriteFile(path, []byte("c2l4dGVlbiBieXRlcyBvciBtb3Jl\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Three processes with a secret lock through each other, over the loss of one, and admit a fourth with the same
// secret. A node with another secret is refused, and both sides report it.
func TestSecretCluster(t *testing.T) {
	t.Parallel()
	file := writeSecret(t, 0o600)
	cluster := startCluster(t, 3, append([]string{"--peer-secret-file", file}, calm...)...)
	ctx := context.Background()
	for i, p := range cluster {
		key := fmt.Sprint("lock:", i)
		if ok, err := p.client().SetNX(ctx, key, "holder", time.Minute).Result(); err != nil || !ok {
			t.Fatalf("%s: %v, %v", p.name, ok, err)
		}
		for _, other := range cluster {
			if ok, err := other.client().SetNX(ctx, key, "another", time.Minute).Result(); err != nil || ok {
				t.Errorf("%s is held, and through %s: %v, %v", key, other.name, ok, err)
			}
		}
	}
	cluster[0].Kill()
	rest := cluster[1:]
	eventually(t, startTimeout, "the others go on", func() error { return rest[0].client().Set(ctx, "k", "v", 0).Err() })
	cluster[0].start()
	cluster[0].awaitServing()

	fourth := cluster.newNode(t, "n4", append([]string{"--join", cluster[1].addr, "--peer-secret-file", file}, calm...)...)
	fourth.awaitServing()
	if got, err := fourth.client().Get(ctx, "lock:2").Result(); err != nil || got != "holder" {
		t.Errorf("n4: %q, %v", got, err)
	}

	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, bytes.Repeat([]byte("x"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	fifth := cluster.newNode(t, "n5", "--join", cluster[1].addr, "--peer-secret-file", other)
	leader := append(cluster, fourth).leader(t)
	for _, p := range []*proc{fifth, leader} {
		eventually(t, startTimeout, p.name+" says that n5 has another secret", func() error {
			if text := p.log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "does not know the secret") {
				return fmt.Errorf("log:\n%s", p.log.tail(5))
			}
			return nil
		})
	}
	if err := leader.client().Do(ctx, "LOCKD", "REMOVE", "n5").Err(); err != nil {
		t.Error(err)
	}
}

var strangerWarned = regexp.MustCompile(`level=WARN msg="(peer connection failed|a peer is refused)" peer=127\.0\.0\.1:`)

// A stranger that speaks the peer protocol achieves nothing: not with an invented name, not over TLS, and whether or
// not clients need a password.
func TestPeerPortRefusesStrangers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, args string }{
		{"plain", ""},
		{"password", "--requirepass hunter2"},
		{"secret", "--peer-secret-file " + writeSecret(t, 0o600)},
		{"secret and password", "--requirepass hunter2 --peer-secret-file " + writeSecret(t, 0o600)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startSingle2(t, strings.Fields(tt.args)...)
			peer := p.flagOf("--peer-listen")
			for _, command := range []string{"GET k", "SET k v", "FLUSHALL", "CONFIG SET maxclients 1", "LOCKD MEMBERS"} {
				for _, cluster := range []string{"", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
					forgedCall(t, peer, false, cluster, strings.Fields(command)...)
				}
			}
			if strings.Contains(tt.name, "secret") {
				forgedCall(t, peer, true, "", "FLUSHALL")
			}
			eventually(t, startTimeout, "there is a warning with the stranger's address", func() error {
				if !strangerWarned.MatchString(p.log.String()) {
					return fmt.Errorf("log:\n%s", p.log.tail(10))
				}
				return nil
			})
		})
	}
}

// startSingle2 is startSingle, which a password would keep from seeing the node serve.
func startSingle2(t *testing.T, extra ...string) *proc {
	t.Helper()
	ports := freePorts(t, 2)
	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	p := launch(t, "single", addr, append([]string{"serve", "--listen", addr, "--peer-listen", fmt.Sprintf("127.0.0.1:%d", ports[1]),
		"--dir", filepath.Join(t.TempDir(), "data")}, extra...)...)
	eventually(t, startTimeout, "it leads", func() error {
		if !strings.Contains(p.log.String(), "leads") {
			return fmt.Errorf("log:\n%s", p.log.tail(5))
		}
		return nil
	})
	return p
}

// forgedCall connects to a peer port as a node that there is not, tries to have a command
// run, and wants a refusal and nothing else.
func forgedCall(t *testing.T, addr string, overTLS bool, cluster string, args ...string) {
	t.Helper()
	kind := byte('c')
	if overTLS {
		kind = 'p'
	}
	hello := fmt.Sprintf(`{"Cluster":%q,"ID":"x","Incarnation":"x","PeerAddr":"x:1","Arch":%q,"Format":1}`, cluster, runtime.GOARCH)
	body := resp.AppendRequest([]byte{0, 0, 0}, resp.Request{Cmds: []resp.Cmd{{Args: args}}})
	frame := binary.BigEndian.AppendUint32(nil, uint32(1+8+len(body)))
	frame = binary.BigEndian.AppendUint64(append(frame, 1), 1)
	version := exchange(t, addr, overTLS, peerMessage(0, kind, hello))[len(peerMagic)] // the refusal of a wrong one tells it
	answer := exchange(t, addr, overTLS, peerMessage(version, kind, hello), peerMessage(version, 'a', "{}"), append(frame, body...))
	if answer[len(peerMagic)+1] != 'n' || !bytes.HasSuffix(answer, []byte("}")) {
		t.Errorf("%s, over TLS %v, of cluster %q: answered %q", args, overTLS, cluster, answer)
	}
}

const peerMagic = "\x00lockdN\n"

func peerMessage(version, kind byte, body string) []byte {
	m := append([]byte(peerMagic), version, kind)
	return append(binary.BigEndian.AppendUint32(m, uint32(len(body))), body...)
}

// exchange sends messages to a peer port and returns all that it answers, but for the name
// with which it begins over TLS.
func exchange(t *testing.T, addr string, overTLS bool, messages ...[]byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(startTimeout))
	if overTLS {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		head := make([]byte, len(peerMagic)+6)
		if _, err := io.ReadFull(conn, head); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[len(head)-4:]))); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range messages {
		_, _ = conn.Write(m)
	}
	answer, _ := io.ReadAll(conn)
	if len(answer) < len(peerMagic)+6 {
		t.Fatalf("answered %q", answer)
	}
	return answer
}
