package peer

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"lockd/cluster/peer/peertest"
	"lockd/internal/secure/securetest"
)

// A node that knows the secret learns the identity of any node, also its own and that of one that would refuse it; a
// node that does not know it learns nothing, and no connection stays.
func TestIdentify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a := startSecretPeer(t, n.From("a:1"), "a", "a:1", testSecret)
		b := startSecretPeer(t, n.From("b:1"), "b", "b:1", testSecret)
		x := startSecretPeer(t, n.From("x:1"), "x", "x:1", "another secret, as long")
		defer x.Close()
		defer b.Close()
		defer a.Close()
		b.fake.admits = func(Identity) error { return errors.New("b admits nobody") }
		for _, id := range []string{"a", "b"} {
			if who, err := a.Identify(id + ":1"); err != nil || who.ID != id || who.Incarnation != "i-"+id || who.Cluster != "c" {
				t.Errorf("%s: %+v, %v", id, who, err)
			}
		}
		synctest.Wait()
		if len(a.conns.open) != 0 || len(b.conns.open) != 0 || len(b.conns.unproven) != 0 || b.conns.served != 0 {
			t.Errorf("connections stay: %v, %v", a.conns.open, b.conns.open)
		}
		if w := append(a.log.Warnings(), b.log.Warnings()...); len(w) > 0 || a.admitted.Load() > 0 {
			t.Errorf("warnings %q, %d judged", w, a.admitted.Load())
		}
		if who, err := x.Identify("a:1"); !errors.Is(err, ErrUninvited) || who.ID != "" {
			t.Errorf("a stranger: %+v, %v", who, err)
		}
		if who, err := a.Identify("x:1"); !errors.Is(err, ErrUninvited) || who.ID != "" {
			t.Errorf("at a stranger: %+v, %v", who, err)
		}
		if _, err := a.Identify("nobody:1"); err == nil {
			t.Error("somebody answers where nobody is")
		}
	})
}

// An address that a name has led to is in no certificate: the certificate has to be for the id, or for the host that
// the node claims.
func TestIdentifyByCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := securetest.NewCA(t, "ours")
		const year = 300 * 24 * 60 * 60 * 1e9
		n := peertest.NewNetwork()
		of := func(id, listen, addr string, names ...string) *Port {
			p, err := Open(Config{
				Network: n.From(listen), Listen: listen, Certs: certificatesOf(t, ca.Write(t, t.TempDir(), year, names...), ca.PEM()),
				Self: func() Identity { return Identity{ID: id, PeerAddr: addr} },
			}, (&fakePeer{}).handler())
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		a, b, c := of("n1", "10.0.0.1:1", "a:1", "n1"), of("n2", "10.0.0.2:1", "b:1", "b"), of("n3", "10.0.0.3:1", "c:1", "d")
		defer c.Close()
		defer b.Close()
		defer a.Close()
		if who, err := a.Identify("10.0.0.2:1"); err != nil || who.ID != "n2" {
			t.Errorf("%+v, %v", who, err)
		}
		if _, err := a.Identify("10.0.0.3:1"); err == nil || !strings.Contains(err.Error(), "neither for the id nor for the host of node n3 (c)") {
			t.Errorf("got %v", err)
		}
	})
}

// A promise has limits, like every field of an identity.
func TestPromiseLimits(t *testing.T) {
	long := strings.Repeat("x", NameMax)
	for name, tt := range map[string]struct {
		p    Promise
		good bool
	}{
		"none":            {Promise{}, true},
		"the largest":     {Promise{Round: RoundMax, Members: make([]Founder, FoundersMax)}, true},
		"round":           {Promise{Round: RoundMax + 1}, false},
		"members":         {Promise{Members: make([]Founder, FoundersMax+1)}, false},
		"a long name":     {Promise{Members: []Founder{{ID: long + "x"}}}, false},
		"a strange one":   {Promise{Members: []Founder{{PeerAddr: "a\nb"}}}, false},
		"long names":      {Promise{Members: []Founder{{long, long, long}, {long, long, long}, {long, long, ""}}}, true},
		"too many of one": {Promise{Members: []Founder{{long, long, long}, {long, long, long}, {long, long, "x"}}}, false},
	} {
		if err := (Identity{ID: "n", Promise: tt.p}).Check(); (err == nil) != tt.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
