package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"lockd/internal/secure"
	"lockd/resp"
)

// tlsFlags configure TLS for clients; the names are those of Redis.
type tlsFlags struct {
	TLSListen      []string `name:"tls-listen" help:"Address for clients that speak TLS, beside --listen, or instead of it with --listen=''; may be given more than once." placeholder:"HOST:PORT"`
	TLSAdvertise   string   `name:"tls-advertise" help:"Client address as others reach it by TLS (default: the host of --advertise, if that is given, and the port of the first --tls-listen)." placeholder:"HOST:PORT"`
	TLSCertFile    string   `name:"tls-cert-file" help:"Certificate of this node, and those between it and its authority, in PEM." placeholder:"FILE"`
	TLSKeyFile     string   `name:"tls-key-file" help:"Private key of the certificate, in PEM." placeholder:"FILE"`
	TLSCACertFile  string   `name:"tls-ca-cert-file" help:"Authorities whose certificates clients may have, in PEM." placeholder:"FILE"`
	TLSAuthClients string   `name:"tls-auth-clients" enum:"yes,no,optional" default:"yes" help:"Whether clients must have a certificate of --tls-ca-cert-file: yes, no or optional (default: ${default})."`
	TLSSentinel    bool     `name:"tls-sentinel" help:"Speak TLS at --sentinel-listen; clients are told the addresses for TLS there."`
	TLSHTTP        bool     `name:"tls-http" help:"Speak TLS at --http-listen."`
}

// used reports whether a node speaks TLS to any client.
func (f *tlsFlags) used() bool { return len(f.TLSListen) > 0 || f.TLSSentinel || f.TLSHTTP }

func (f *tlsFlags) files() secure.Files {
	return secure.Files{Cert: f.TLSCertFile, Key: f.TLSKeyFile, CA: f.TLSCACertFile}
}

// auth is --tls-auth-clients in Go's words.
func (f *tlsFlags) auth() tls.ClientAuthType {
	switch f.TLSAuthClients {
	case "no":
		return tls.NoClientCert
	case "optional":
		return tls.VerifyClientCertIfGiven
	}
	return tls.RequireAndVerifyClientCert
}

// checkTLS holds the flags against each other, and looks into the files.
func (c *serveCmd) checkTLS() error {
	c.TLSListen = given(c.TLSListen)
	for _, addr := range c.TLSListen {
		if _, _, err := splitAddr("--tls-listen", addr); err != nil {
			return err
		}
	}
	switch {
	case c.TLSSentinel && c.SentinelListen == "":
		return usagef("--tls-sentinel needs --sentinel-listen")
	case c.TLSHTTP && c.HTTPListen == "":
		return usagef("--tls-http needs --http-listen")
	case !c.used() && c.joinTLS() == "":
		return nil
	case c.used() && (c.TLSCertFile == "" || c.TLSKeyFile == ""):
		return usagef("--tls-listen, --tls-sentinel and --tls-http need --tls-cert-file and --tls-key-file")
	case c.used() && c.TLSAuthClients != "no" && c.TLSCACertFile == "":
		return usagef("--tls-auth-clients %s needs --tls-ca-cert-file: clients' certificates are held against it "+
			"(--tls-auth-clients no asks for none)", c.TLSAuthClients)
	}
	if _, err := secure.Load(c.files()); err != nil {
		return usagef("the certificates are no good: %w", err)
	}
	return nil
}

// given leaves out what is empty: --listen=” is no address.
func given(addrs []string) (list []string) {
	for _, addr := range addrs {
		if addr != "" {
			list = append(list, addr)
		}
	}
	return list
}

// tlsJoinScheme marks an address of --join at which TLS is spoken.
const tlsJoinScheme = "tls://"

// joinTLS returns the address of --join if it uses TLS, else "".
func (c *serveCmd) joinTLS() string {
	if addr, ok := strings.CutPrefix(c.Join, tlsJoinScheme); ok {
		return addr
	}
	return ""
}

// fillTLSAddrs gives --tls-advertise its default, and a node without --listen its other addresses.
func (c *serveCmd) fillTLSAddrs(advertised bool) error {
	if len(c.TLSListen) == 0 {
		return nil
	}
	host, port, err := splitAddr("--tls-listen", c.TLSListen[0])
	if err != nil {
		return err
	}
	if advertised && len(c.Listen) == 0 {
		c.TLSAdvertise = cmp.Or(c.TLSAdvertise, c.Advertise)
	} else if advertised {
		if host, _, err = splitAddr("--advertise", c.Advertise); err != nil {
			return err
		}
	}
	c.TLSAdvertise = cmp.Or(c.TLSAdvertise, net.JoinHostPort(host, strconv.Itoa(port)))
	if len(c.Listen) == 0 && !advertised {
		c.Advertise = c.TLSAdvertise
	}
	_, _, err = splitAddr("--tls-advertise", c.TLSAdvertise)
	return err
}

// clientAddrs returns the announced addresses of clients, without and with TLS.
func (c *serveCmd) clientAddrs() (plain []string, tls string) {
	if len(c.TLSListen) > 0 && len(c.Listen) == 0 {
		return []string{c.TLSAdvertise}, c.TLSAdvertise
	}
	return []string{c.Advertise}, c.TLSAdvertise
}

// openTLS reads the certificates and follows them until the instance stops.
func (i *instance) openTLS(c *serveCmd) error {
	i.handshakes = secure.NewHandshakes(i.log)
	ctx, cancel := context.WithCancel(context.Background())
	i.unfollow = cancel
	if c.used() || c.joinTLS() != "" {
		var err error
		if i.certs, err = secure.Open(c.files(), i.log); err != nil {
			return err
		}
		warnOfMode(i.log, "the private key of --tls-key-file", c.TLSKeyFile)
		i.serving.Go(func() { i.certs.Watch(ctx) })
	}
	if c.PeerTLSCertFile != "" {
		var err error
		if i.peerCerts, err = secure.Open(c.peerFiles(), i.log.With("of", "peers")); err != nil {
			return err
		}
		warnOfMode(i.log, "the private key of --peer-tls-key-file", c.PeerTLSKeyFile)
		i.serving.Go(func() { i.peerCerts.Watch(ctx) })
	}
	return nil
}

func (c *serveCmd) peerFiles() secure.Files {
	return secure.Files{Cert: c.PeerTLSCertFile, Key: c.PeerTLSKeyFile, CA: c.PeerTLSCACertFile}
}

// checkPeerTLS looks into the files of the peers' certificates.
func (c *serveCmd) checkPeerTLS() error {
	given := 0
	for _, path := range []string{c.PeerTLSCertFile, c.PeerTLSKeyFile, c.PeerTLSCACertFile} {
		if path != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return nil
	case given < 3:
		return usagef("--peer-tls-cert-file, --peer-tls-key-file and --peer-tls-ca-cert-file need each other")
	case c.PeerInsecure:
		return usagef("--peer-insecure is for nodes without certificates for peers, and this one has one")
	}
	if _, err := secure.Load(c.peerFiles()); err != nil {
		return usagef("the certificates for peers are no good: %w", err)
	}
	return nil
}

// peerCertificates returns the certificate shown to peers and the pool that verifies theirs; nil: the node has none.
func (i *instance) peerCertificates() func() (*tls.Certificate, *x509.CertPool) {
	if i.peerCerts == nil {
		return nil
	}
	return func() (*tls.Certificate, *x509.CertPool) {
		m := i.peerCerts.Current()
		return m.Certificate, m.Roots
	}
}

// secured is a listener whose clients speak TLS if they are to.
func (i *instance) secured(c *serveCmd, l net.Listener, with bool) net.Listener {
	if !with {
		return l
	}
	return i.handshakes.Listen(l, i.certs.Server(c.auth()))
}

// joinConfig returns the TLS configuration with which a joining node dials a member; nil: the node has no
// certificates.
func (i *instance) joinConfig() func() *tls.Config {
	if i.certs == nil {
		return nil
	}
	return func() *tls.Config { return i.certs.Current().Client() }
}

// tlsSection returns the section tls of INFO: the fields of Valkey, and the results of handshakes.
func (i *instance) tlsSection() []resp.Section {
	section := resp.Section{Name: "TLS"}
	add := func(name, value string) {
		section.Fields = append(section.Fields, resp.Field{Name: name, Value: value})
	}
	for _, of := range []struct {
		prefix string
		certs  *secure.Source
	}{{"tls_", i.certs}, {"tls_peer_", i.peerCerts}} {
		if of.certs == nil {
			continue
		}
		for _, cert := range of.certs.Current().Certificates() {
			left := cert.Left(time.Now()) / time.Second
			name := strings.Replace(of.prefix+cert.What+"_cert", "peer_server", "peer", 1)
			add(name+"_serial", fmt.Sprintf("%X", cert.SerialNumber))
			add(name+"_expires_in_seconds", strconv.FormatInt(int64(left), 10))
		}
	}
	if len(section.Fields) == 0 {
		return nil
	}
	add("tls_handshakes_failed", strconv.FormatInt(i.handshakes.Failed(), 10))
	add("tls_handshakes_ousted", strconv.FormatInt(i.handshakes.Ousted(), 10))
	return []resp.Section{section}
}

// tlsSettings are the values of CONFIG GET about TLS.
func tlsSettings(c *serveCmd, listeners []net.Listener) map[string]string {
	port := "0"
	if len(listeners) > 0 {
		port = portOf(listeners[0])
	}
	return map[string]string{
		"tls-port": port, "tls-cert-file": c.TLSCertFile, "tls-key-file": c.TLSKeyFile,
		"tls-ca-cert-file": c.TLSCACertFile, "tls-auth-clients": c.TLSAuthClients,
	}
}

// warnOfMode warns of a file that every user of the machine can read.
func warnOfMode(log *slog.Logger, what, path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&readableByOthers != 0 {
		log.Warn(what+" is open to every user of this machine: chmod o= "+path,
			"mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}
