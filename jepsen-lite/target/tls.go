package target

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockd/internal/authority"
)

// waysVar of the environment of a test build of lockd (package lockd/resp/fault) says where it dials its peers.
const waysVar = "LOCKD_FAULT_WAYS"

// certificatesLast is longer than any run.
const certificatesLast = 30 * 24 * time.Hour

// sealed is what a cluster has whose nodes and clients speak nothing but TLS: an authority of its own, of which
// everybody has the same certificate and shows it, and a secret of the peers.
type sealed struct {
	files   authority.Paths
	secret  string // its file
	clients *tls.Config
}

// newSealed makes the certificates and the secret of a run, in a folder. The certificate is for the host of the nodes
// and for that of the proxies.
func newSealed(dir, host string) (*sealed, error) {
	ca, err := authority.New("jepsen-lite")
	if err != nil {
		return nil, err
	}
	s := &sealed{secret: filepath.Join(dir, "peer-secret")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if s.files, err = ca.Write(dir, certificatesLast, host, onlyHost); err != nil {
		return nil, err
	}
	own, err := tls.LoadX509KeyPair(s.files.Cert, s.files.Key)
	if err != nil {
		return nil, err
	}
	s.clients = &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{own}, ServerName: onlyHost}
	return s, os.WriteFile(s.secret, []byte(rand.Text()), 0o600)
}

// flags are those of a node that listens for clients at addr, where others reach it at advertised; its own commands
// need none.
func (s *sealed) flags(addr, advertised string) []string {
	if s == nil {
		return []string{"--listen", addr, "--advertise", advertised}
	}
	return []string{
		"--listen=", "--tls-listen", addr, "--tls-advertise", advertised,
		"--tls-cert-file", s.files.Cert, "--tls-key-file", s.files.Key, "--tls-ca-cert-file", s.files.CA,
		"--peer-secret-file", s.secret,
	}
}

// config is what clients speak TLS with, nil: they do not.
func (s *sealed) config() *tls.Config {
	if s == nil {
		return nil
	}
	return s.clients
}

// joinable is the address of clients as a node that joins is told.
func (s *sealed) joinable(addr string) string {
	if s == nil {
		return addr
	}
	return "tls://" + addr
}

// lay opens, for each node, a way from every node to it, itself too: a proxy cannot see in TLS who connects, so it has
// to be known by the port. The address that the members know leads nowhere.
func (t *lockd) lay() error {
	for _, from := range t.names {
		var ways []string
		for _, to := range t.names {
			n := t.nodes[to]
			way, err := newProxy(t.net, to, n.peerAddr, by(from))
			if err != nil {
				return err
			}
			t.ways = append(t.ways, way)
			n.doors = append(n.doors, way)
			ways = append(ways, n.peer.Addr()+"="+way.Addr())
		}
		t.nodes[from].env = append(t.nodes[from].env, waysVar+"="+strings.Join(ways, ","))
	}
	return nil
}

// by is the caller of a way that one node has alone.
func by(from string) caller {
	return func(net.Conn) (string, []byte, error) { return from, nil, nil }
}

// stranger is the caller of a port at which nobody should connect.
func stranger(net.Conn) (string, []byte, error) { return "", nil, errNoHello }

// waysMax bounds the wait for a node that has just been started to listen at its fault port.
const waysMax = 10 * time.Second

// checkWays has the nodes be ones that dial by their ways: test builds. Others would never find each other.
func (t *lockd) checkWays() error {
	for until := time.Now().Add(waysMax); t.tls != nil; time.Sleep(50 * time.Millisecond) {
		silent := slices.IndexFunc(t.names, func(name string) bool {
			_, err := t.Fault(name, "stat")
			return err != nil
		})
		if silent < 0 {
			return nil
		}
		if name := t.names[silent]; time.Now().After(until) {
			return fmt.Errorf("--tls needs a server that is built with -tags faults: the fault port of node %s does "+
				"not answer", name)
		}
	}
	return nil
}
