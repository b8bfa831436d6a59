package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// If a cluster has a secret, or certificates, every connection between nodes is TLS 1.3, and begins with three messages
// of the hello's form, before the hello:
//
//	listener  name    its id
//	dialler   proof   its id, its cluster, and a proof   | (closes)
//	listener  proof   its id, its cluster, and a proof   | refuse  the reason
//
// A proof shows that its sender knows the secret. It covers keys that only the two ends of this one TLS connection
// have, the side, both ids and the sender's cluster: it is worthless on another connection, in the other direction, or
// to a man in the middle, who has two connections. Until the proof is verified nothing that the other side says is
// believed, not even a refusal. The hello then has to name the same node.
//
// A node may know several secrets: it proves itself by the first and accepts any of them, so that a cluster changes its
// secret while it runs. A certificate, which TLS has verified to belong to the other side, replaces a proof if the
// node's authorities have signed it for that node. A node with both a secret and certificates accepts either: so a
// cluster moves from one to the other.

const (
	// SecretMin is the least length of a cluster's secret, in bytes.
	SecretMin = 16

	// UnprovenConnsMax bounds the incoming connections that have not been admitted yet; each has a file descriptor.
	UnprovenConnsMax = 128

	handshakeWaitMax = 2 * time.Second // for TLS and the proofs of an incoming connection

	exporterLabel = "EXPORTER-lockd-peer-proof"
	exporterBytes = 32
)

const (
	helloName  Kind = 'i'
	helloProof Kind = 'p'
)

// The two sides of a connection, as a proof names them.
const (
	sideDialler  = "dialler"
	sideListener = "listener"
)

var errNoProof = fmt.Errorf("%w: it does not know the secret (--peer-secret-file)", ErrUninvited)

// Certificates provides the operator's certificates.
type Certificates struct {
	// Current returns this node's certificate, and the authorities of the other nodes' certificates. It is called for
	// each connection, concurrently.
	Current func() (*tls.Certificate, *x509.CertPool)
	// HostOf returns the host of a node as the cluster knows it, "" for an unknown node. A node's certificate may be
	// for this host instead of its id. It is called concurrently.
	HostOf func(id string) string
}

// peerSecret secures the connections of a cluster with a secret or certificates. A nil peerSecret leaves connections
// plain, and accepts every node. Its methods may be called concurrently.
type peerSecret struct {
	keys  atomic.Pointer[[][]byte] // the secrets; this node proves itself by the first
	certs *Certificates            // nil: there are none
	tls   *tls.Config
}

// newPeerSecret returns nil if there are neither secrets nor certificates.
func newPeerSecret(secrets [][]byte, certs *Certificates) (*peerSecret, error) {
	if len(secrets) == 0 && certs == nil {
		return nil, nil
	}
	s := &peerSecret{certs: certs}
	s.keys.Store(&secrets)
	if certs != nil {
		s.tls = certs.config()
		return s, nil
	}
	cert, err := ephemeralCertificate()
	if err != nil {
		return nil, fmt.Errorf("a certificate for the peers: %w", err)
	}
	s.tls = tlsConfig()
	s.tls.Certificates = []tls.Certificate{cert} // it identifies nobody: the proof does
	return s, nil
}

// tlsConfig returns a configuration without TLS's own verification: the proof, or verify, identifies the other side.
func tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		InsecureSkipVerify:          true,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // messages are read whole
	}
}

// config presents this node's certificate on either side, and requests the other's.
func (c *Certificates) config() *tls.Config {
	cfg := tlsConfig()
	cfg.ClientAuth = tls.RequestClientCert
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		own, _ := c.Current()
		return own, nil
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		own, _ := c.Current()
		return own, nil
	}
	return cfg
}

// verify checks the certificate that node id has presented for a use. It has to be for the id or the host.
func (c *Certificates) verify(shown []*x509.Certificate, use x509.ExtKeyUsage, id, host string) error {
	if len(shown) == 0 {
		return fmt.Errorf("%w: it shows no certificate", ErrUninvited)
	}
	_, roots := c.Current()
	between := x509.NewCertPool()
	for _, cert := range shown[1:] {
		between.AddCert(cert)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use},
	})
	if err != nil {
		return fmt.Errorf("%w: its certificate is no good: %w", ErrUninvited, err)
	}
	for _, name := range []string{host, id} {
		if name != "" && shown[0].VerifyHostname(name) == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: its certificate is neither for the id nor for the host of node %s (%s)",
		ErrUninvited, id, host)
}

// ephemeralCertificate returns a certificate with a key that lasts as long as the process.
func ephemeralCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// secureConn is a TLS connection whose Close does not wait for the other side, as TLS's closing alert may. All messages
// here have a length, so the alert is not needed.
type secureConn struct{ *tls.Conn }

func (c secureConn) Close() error { return c.NetConn().Close() }

// secure wraps a new connection in TLS. Nothing is sent yet.
func (s *peerSecret) secure(conn net.Conn, side string) net.Conn {
	switch {
	case s == nil:
		return conn
	case side == sideDialler:
		return secureConn{tls.Client(conn, s.tls)}
	}
	return secureConn{tls.Server(conn, s.tls)}
}

// peerClaim is the body of a name or a proof message.
type peerClaim struct {
	ID      string
	Cluster string `json:",omitempty"`
	Addr    string `json:",omitempty"` // its peer address, by its own account
	Proof   []byte `json:",omitempty"`
}

// is returns an error unless an identity is that of the node that has proven itself.
func (c *peerClaim) is(who Identity) error {
	if c != nil && (c.ID != who.ID || c.Cluster != who.Cluster) {
		return fmt.Errorf("%w: node %s of cluster %q has proven itself as node %s of cluster %q",
			ErrUninvited, who.ID, who.Cluster, c.ID, c.Cluster)
	}
	return nil
}

// introduce performs the listener's side, and returns the proven claim of the dialler.
func (s *peerSecret) introduce(conn net.Conn, self Identity) (*peerClaim, error) {
	if s == nil {
		return nil, nil
	}
	tc := conn.(secureConn)
	if err := handshake(tc); err != nil {
		if errors.Is(err, errHello) || errors.Is(err, ErrUninvited) {
			refuse(tc.NetConn(), self.ID, err)
		}
		return nil, err
	}
	if _, err := tc.Write(appendHello(nil, helloName, peerClaim{ID: self.ID})); err != nil {
		return nil, err
	}
	who, err := readClaim(tc, helloProof)
	if err == nil {
		err = s.verify(tc, who, sideDialler, who.ID, self.ID, s.hostOf(who))
	}
	if err != nil {
		refuse(tc, self.ID, err)
		return nil, err
	}
	return who, s.send(tc, self, sideListener, who.ID, self.ID)
}

// hostOf returns the host that a connecting node's certificate may be for: the one that the cluster knows or, for an
// unknown node, the one that the node claims.
func (s *peerSecret) hostOf(who *peerClaim) string {
	if s.certs == nil {
		return ""
	}
	if host := s.certs.HostOf(who.ID); host != "" {
		return host
	}
	return hostOf(who.Addr)
}

// hostOf returns the host of an address, or "".
func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// approach performs the dialler's side, and returns the proven claim of the listener at a host; host "": the one that
// the listener claims.
func (s *peerSecret) approach(conn net.Conn, self Identity, host string) (*peerClaim, error) {
	if s == nil {
		return nil, nil
	}
	tc := conn.(secureConn)
	if err := handshake(tc); err != nil {
		return nil, err
	}
	named, err := readClaim(tc, helloName)
	if err != nil {
		return nil, err
	}
	if err := s.send(tc, self, sideDialler, self.ID, named.ID); err != nil {
		return nil, err
	}
	who, err := readClaim(tc, helloProof)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = hostOf(who.Addr)
	}
	return who, s.verify(tc, who, sideListener, self.ID, who.ID, host)
}

// handshake performs TLS's handshake. Its error names a peer that uses no TLS.
func handshake(tc secureConn) error {
	err := tc.Handshake()
	var plain tls.RecordHeaderError
	switch {
	case !errors.As(err, &plain):
		return err
	case strings.HasPrefix(helloMagic, string(plain.RecordHeader[:])):
		return errPlainPeer
	}
	return fmt.Errorf("%w: %q", errStranger, plain.RecordHeader[:])
}

// readClaim reads a message of the given kind. A refusal is an error like any other: the other side has proven nothing.
func readClaim(r io.Reader, want Kind) (*peerClaim, error) {
	kind, body, err := readHello(r)
	if err != nil {
		return nil, err
	}
	if kind == helloRefuse {
		return nil, fmt.Errorf("%w: it says %q", ErrUninvited, decodeRefusal(body).Text)
	}
	claim := &peerClaim{}
	if err := json.Unmarshal(body, claim); err != nil || kind != want {
		return nil, fmt.Errorf("%w: a message of kind %q where %q is due", errHello, byte(kind), byte(want))
	}
	if err := (Identity{ID: claim.ID, Cluster: claim.Cluster, PeerAddr: claim.Addr}).Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errHello, err)
	}
	return claim, nil
}

func (s *peerSecret) send(tc secureConn, self Identity, side, dialler, listener string) error {
	claim := peerClaim{ID: self.ID, Cluster: self.Cluster, Addr: self.PeerAddr}
	if keys := *s.keys.Load(); len(keys) > 0 {
		var err error
		if claim.Proof, err = proof(keys[0], tc, side, dialler, listener, self.Cluster); err != nil {
			return err
		}
	}
	_, err := tc.Write(appendHello(nil, helloProof, claim))
	return err
}

// verify checks the proof of the node on one side, and its certificate if the proof fails.
func (s *peerSecret) verify(tc secureConn, who *peerClaim, side, dialler, listener, host string) error {
	keys := *s.keys.Load()
	for _, key := range keys {
		want, err := proof(key, tc, side, dialler, listener, who.Cluster)
		if err != nil {
			return err
		}
		if hmac.Equal(want, who.Proof) {
			return nil
		}
	}
	if s.certs == nil {
		return errNoProof
	}
	use := x509.ExtKeyUsageServerAuth
	if side == sideDialler {
		use = x509.ExtKeyUsageClientAuth
	}
	err := s.certs.verify(tc.ConnectionState().PeerCertificates, use, who.ID, host)
	if err != nil && len(keys) > 0 {
		return fmt.Errorf("%w, and %w", errNoProof, err)
	}
	return err
}

// proof returns the proof of the node on one side of a connection, which claims to be in cluster.
func proof(key []byte, tc secureConn, side, dialler, listener, cluster string) ([]byte, error) {
	state := tc.ConnectionState()
	keys, err := state.ExportKeyingMaterial(exporterLabel, nil, exporterBytes)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	covers := []string{side, dialler, listener, cluster, string(keys)}
	text := binary.AppendUvarint(nil, uint64(len(covers)))
	for _, s := range covers {
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
	}
	_, _ = mac.Write(text) // never fails
	return mac.Sum(nil), nil
}
