package target

import (
	"crypto/rand"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"time"

	"lockd/internal/authority"
)

// waysVar of the environment tells a test build of lockd (package lockd/resp/fault) at which addresses it dials peers.
const waysVar = "LOCKD_FAULT_WAYS"

// certificatesLast is the validity of the certificates, longer than any run.
const certificatesLast = 30 * 24 * time.Hour

// tlsSetup is the certificates and secrets of a cluster whose nodes and clients use TLS only. All nodes and clients show
// the same certificate of the run's own authority; peers also share a secret.
type tlsSetup struct {
	files   authority.Paths
	secret  string // its file
	clients *tls.Config
}

// newTLSSetup makes the certificates and the secret of a run, in a folder. The certificate is valid for the host of the
// nodes and for that of the proxies.
func newTLSSetup(dir, host string) (*tlsSetup, error) {
	ca, err := authority.New("jepsen-lite")
	if err != nil {
		return nil, err
	}
	s := &tlsSetup{secret: filepath.Join(dir, "peer-secret")}
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

// flags returns the flags of a node that listens for clients at addr and announces the address advertised.
func (s *tlsSetup) flags(addr, advertised string) []string {
	if s == nil {
		return []string{"--listen", addr, "--advertise", advertised}
	}
	return []string{
		"--listen=", "--tls-listen", addr, "--tls-advertise", advertised,
		"--tls-cert-file", s.files.Cert, "--tls-key-file", s.files.Key, "--tls-ca-cert-file", s.files.CA,
		"--peer-secret-file", s.secret,
	}
}

// clientFlags returns the flags by which lockd's own commands reach nodes.
func (s *tlsSetup) clientFlags() []string {
	if s == nil {
		return nil
	}
	return []string{"--tls", "--tls-cert-file", s.files.Cert, "--tls-key-file", s.files.Key, "--tls-ca-cert-file",
		s.files.CA}
}

// config returns the TLS configuration of clients, or nil without TLS.
func (s *tlsSetup) config() *tls.Config {
	if s == nil {
		return nil
	}
	return s.clients
}

// joinAddr returns a client address in the form that --join takes.
func (s *tlsSetup) joinAddr(addr string) string {
	if s == nil {
		return addr
	}
	return "tls://" + addr
}

// callerIs returns the caller of a proxy that one node uses alone.
func callerIs(from string) caller {
	return func(net.Conn) (string, []byte, error) { return from, nil, nil }
}

// refuseAll is the caller of a proxy to which nobody should connect.
func refuseAll(net.Conn) (string, []byte, error) { return "", nil, errNoHello }
