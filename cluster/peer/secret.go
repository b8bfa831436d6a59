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

// Where a cluster has a secret, or certificates, every connection between nodes is TLS 1.3, and begins
// with three messages of the hello's form, before the hello:
//
//	listener  name    who I am
//	dialler   proof   who I am, in which cluster, and a proof   | (closes)
//	listener  proof   likewise                                  | refuse  why not
//
// A proof shows that its sender knows the secret. It covers keys that only the two ends
// of this one TLS connection have, the side, both ids and the sender's cluster: it is
// worth nothing on another connection, in the other direction, or to somebody in the
// middle, who has two connections. Until it has been verified nothing that the other side
// says is believed, not even a refusal. The hello then has to name the same node.
//
// A node may know several secrets: it proves itself by the first and believes who knows any, so that a
// cluster gets another one while it runs. A certificate, which TLS has verified to be the other side's own, does
// instead of a proof if the node's authorities have signed it for that node. A node that has both a secret and
// certificates believes who has either: so a cluster moves from the one to the other.

const (
	// SecretMin is how many bytes the secret of a cluster has at least.
	SecretMin = 16

	// UnprovenConnsMax bounds the incoming connections on which nobody has been admitted
	// yet; each has a file descriptor.
	UnprovenConnsMax = 128

	handshakeWaitMax = 2 * time.Second // for TLS and the proofs of who has connected

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

// Certificates are an operator's.
type Certificates struct {
	// Current returns this node's certificate, and the authorities that those of the others are of. It is asked
	// at each connection, concurrently.
	Current func() (*tls.Certificate, *x509.CertPool)
	// HostOf is the host at which the cluster knows a node, "" if it does not know it: besides the id a
	// name that the node's certificate may be for. It is called concurrently.
	HostOf func(id string) string
}

// peerSecret is what a node of a cluster with a secret or certificates needs for its connections. A
// nil one leaves connections as they are, and believes everybody. Its methods may be
// called concurrently.
type peerSecret struct {
	keys  atomic.Pointer[[][]byte] // the secrets; the first proves
	certs *Certificates            // nil: there are none
	tls   *tls.Config
}

// newPeerSecret returns nil where there is neither.
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
	s.tls.Certificates = []tls.Certificate{cert} // it says nothing about who has it: the proof does
	return s, nil
}

// tlsConfig has nothing verified: who somebody is follows from what he proves, or from verify.
func tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		InsecureSkipVerify:          true,
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true, // messages are read whole
	}
}

// config shows this node's certificate on either side, and asks for the other's.
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

// verify judges the certificate that the other side, which says that it is node id, has shown for one use. It
// has to be for the id or the host.
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

// ephemeralCertificate makes a key that lives as long as the process.
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

// secureConn is a TLS connection whose Close never waits for the other side, as TLS's
// own word of farewell may. Nobody needs that: what is read here has a length.
type secureConn struct{ *tls.Conn }

func (c secureConn) Close() error { return c.NetConn().Close() }

// secure makes a TLS connection of a new one. Nothing is sent yet.
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
	Addr    string `json:",omitempty"` // where peers reach it, as it says itself
	Proof   []byte `json:",omitempty"`
}

// is reports whether an identity is that of the node that has proven itself.
func (c *peerClaim) is(who Identity) error {
	if c != nil && (c.ID != who.ID || c.Cluster != who.Cluster) {
		return fmt.Errorf("%w: node %s of cluster %q has proven itself as node %s of cluster %q",
			ErrUninvited, who.ID, who.Cluster, c.ID, c.Cluster)
	}
	return nil
}

// introduce is the listener's side: it returns what the dialler has proven itself as.
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

// hostOf is the host that the certificate of a node may be for which has connected: the one that the cluster knows,
// or, of a node that it does not know yet, the one that the node says itself.
func (s *peerSecret) hostOf(who *peerClaim) string {
	if s.certs == nil {
		return ""
	}
	if host := s.certs.HostOf(who.ID); host != "" {
		return host
	}
	return hostOf(who.Addr)
}

// hostOf is the host of an address, or "".
func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// approach is the dialler's side: it returns what the listener at a host has proven itself as; host "": at the one that
// it says itself.
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

// handshake does TLS's own, and says in our words that the other side speaks no TLS.
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

// readClaim reads a message of the given kind. A refusal is an error like any other: the
// other side has proven nothing.
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

// verify judges the proof of the node on one side, and, if that is none, its certificate.
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

// proof is what the node on one side of a connection, which says that it is in cluster,
// has to show.
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
