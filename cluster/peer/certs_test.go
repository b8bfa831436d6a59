package peer

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/peer/peertest"
	"lockd/internal/secure/securetest"
)

// credentials are the secrets and certificates of a test's node.
type credentials struct {
	secrets [][]byte
	certs   *Certificates
}

// hosts are the hosts at which the cluster knows its nodes.
var hosts = map[string]string{"n1": "a", "n2": "b"}

// certificatesOf reads a node's certificate and the authority that it trusts.
func certificatesOf(t *testing.T, p securetest.Paths, ca []byte) *Certificates {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &Certificates{
		Current: func() (*tls.Certificate, *x509.CertPool) { return &pair, roots },
		HostOf:  func(id string) string { return hosts[id] },
	}
}

func startWith(t *testing.T, n Network, id, addr string, c credentials) *secretPeer {
	t.Helper()
	s := &secretPeer{}
	s.fake.admits = func(Identity) error { return nil }
	var err error
	s.Port, err = Open(Config{
		Network: n, Listen: addr, Secrets: c.secrets, Certs: c.certs, Log: slog.New(slog.NewTextHandler(&s.log, nil)),
		Self: func() Identity { return Identity{Cluster: "c", ID: id, Incarnation: "i-" + id, PeerAddr: addr} },
	}, s.fake.handler())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The secrets and certificates of both sides determine which nodes are believed.
func TestPeerCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := securetest.NewCA(t, "ours"), securetest.NewCA(t, "theirs")
		const year = 300 * 24 * time.Hour
		own := func(ca *securetest.CA, lasts time.Duration, names ...string) *Certificates {
			return certificatesOf(t, ca.Write(t, t.TempDir(), lasts, names...), ours.PEM())
		}
		id1, id2 := credentials{certs: own(ours, year, "n1")}, credentials{certs: own(ours, year, "n2")}
		host1, host2 := credentials{certs: own(ours, year, "a")}, credentials{certs: own(ours, year, "b")}
		with := func(certs *Certificates, secrets ...string) credentials {
			c := credentials{certs: certs}
			for _, s := range secrets {
				c.secrets = append(c.secrets, []byte(s))
			}
			return c
		}
		const before, after = "the secret of before", "the secret of later"
		for name, tt := range map[string]struct {
			a, b credentials
			want string // in the warning of either; "": they talk
		}{
			"ids":                      {id1, id2, ""},
			"hosts":                    {host1, host2, ""},
			"an id and a host":         {id1, host2, ""},
			"moving, a is first":       {with(id1.certs, before), with(nil, before), ""},
			"moving, b is first":       {with(nil, before), with(id2.certs, before), ""},
			"moved on, a is first":     {id1, with(id2.certs, before), ""},
			"moved on, b is first":     {with(id1.certs, before), id2, ""},
			"too early, a":             {id1, with(nil, before), "does not know the secret"},
			"too early, b":             {with(nil, before), id2, "its certificate is no good"},
			"another secret, one back": {with(nil, before, after), with(nil, before), ""},
			"another secret, half way": {with(nil, after, before), with(nil, before, after), ""},
			"another secret, one on":   {with(nil, after), with(nil, after, before), ""},
			"another secret, too far":  {with(nil, after), with(nil, before, after), "does not know the secret"},
			"two secrets":              {with(nil, after), with(nil, before), "does not know the secret"},
			"another authority":        {credentials{certs: own(theirs, year, "n1")}, id2, "its certificate is no good"},
			"an expired one":           {credentials{certs: own(ours, -time.Hour, "n1")}, id2, "expired"},
			"an expired one at b":      {id1, credentials{certs: own(ours, -time.Hour, "n2")}, "expired"},
			"that of another node":     {credentials{certs: own(ours, year, "n3", "c")}, id2, "neither for the id nor for the host of node n1 (a)"},
			"that of the other":        {id1, id1, "neither for the id nor for the host of node n2 (b)"},
			"none":                     {credentials{}, id2, "one side has a secret"},
		} {
			n := peertest.NewNetwork()
			a := startWith(t, n.From("a:1"), "n1", "a:1", tt.a)
			b := startWith(t, n.From("b:1"), "n2", "b:1", tt.b)
			o, _ := forward(t.Context(), a.Port, "b:1", command("get", "k"))
			warned := strings.Join(append(a.log.Warnings(), b.log.Warnings()...), "\n")
			if (o == Done) != (tt.want == "") || !strings.Contains(warned, tt.want) || o == Done && warned != "" {
				t.Errorf("%s: %v, %s", name, o, warned)
			}
			a.Close()
			b.Close()
		}
	})
}

// A replaced secret applies to new connections, and existing ones stay.
func TestSetSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a := startSecretPeer(t, n.From("a:1"), "a", "a:1", testSecret)
		b := startSecretPeer(t, n.From("b:1"), "b", "b:1", testSecret)
		defer a.Close()
		defer b.Close()
		talks := func(from *secretPeer, addr string) bool {
			o, _ := forward(t.Context(), from.Port, addr, command("get", "k"))
			return o == Done
		}
		if !talks(a, "b:1") {
			t.Fatal("they do not talk")
		}
		b.SetSecrets(secretsOf("another secret, as long"))
		if !talks(a, "b:1") {
			t.Error("a connection did not stay")
		}
		if talks(b, "a:1") {
			t.Error("a believes a secret that it does not know")
		}
		a.SetSecrets([][]byte{[]byte(testSecret), []byte("another secret, as long")})
		b.SetSecrets([][]byte{[]byte("another secret, as long"), []byte(testSecret)})
		time.Sleep(time.Minute)
		if !talks(b, "a:1") {
			t.Error("they do not talk with two secrets")
		}
		b.SetSecrets(nil)
		if len(*b.secret.keys.Load()) == 0 {
			t.Error("a node is left without a secret")
		}
	})
}
