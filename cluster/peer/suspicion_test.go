package peer

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"lockd/cluster/peer/peertest"
)

// A node answers a suspicion beside other calls.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		b := &fakePeer{}
		b.term.Store(7)
		pa := startPeers(t, n.From("a:1"), "a", "a:1", &fakePeer{})
		pb := startPeers(t, n.From("b:1"), "b", "b:1", b)
		defer pb.Close()
		defer pa.Close()
		for id, want := range map[string]Report{
			"c":     {Sees: Ended, Term: 7, LastTerm: 3, LastIndex: 1 << 63},
			"short": {Sees: Ended, Term: 7, LastTerm: 3, LastIndex: 1 << 63, Short: true},
		} {
			if got, err := pa.Suspect(t.Context(), "b:1", Suspicion{ID: id, Process: 1 << 63}); err != nil || got != want {
				t.Errorf("%s: %+v, %v", id, got, err)
			}
		}
		if st, err := pa.Status(t.Context(), "b:1", 0); err != nil || st.Term != 7 {
			t.Errorf("status: %+v, %v", st, err)
		}
	})
}

// Malformed suspicions and reports are refused.
func TestDoubtBodies(t *testing.T) {
	whole := appendSuspicion(nil, Suspicion{ID: "n1", Process: 5})
	for _, body := range [][]byte{nil, whole[:len(whole)-1], append(whole, 0), appendSuspicion(nil, Suspicion{ID: "n1"}), appendSuspicion(nil, Suspicion{Process: 5})} {
		if q, err := decodeSuspicion(body); !errors.Is(err, ErrFrame) {
			t.Errorf("%q is %+v, %v", body, q, err)
		}
	}
	said := appendReport(nil, Report{Sees: Alive, Term: 1, Able: true})
	for _, body := range [][]byte{nil, said[:len(said)-1], append(said, 0), {byte(livenesses), 1, 0, 1, 1}, {0, 1, reportFlags + 1, 1, 1}} {
		if f, err := decodeReport(body); !errors.Is(err, ErrFrame) {
			t.Errorf("%q is %+v, %v", body, f, err)
		}
	}
	if f, err := decodeReport(said); err != nil || f != (Report{Sees: Alive, Term: 1, Able: true}) {
		t.Errorf("%+v, %v", f, err)
	}
}

// A node hears of a peer that introduces itself, and of the end of a connection if the other side ended it.
func TestHeardAndEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(n *peertest.Network, pa, pb *Port)
		want string // what b is told
	}{
		"its process ends":     {func(n *peertest.Network, _, _ *Port) { n.Kill("a:1") }, "ended a"},
		"it closes its port":   {func(_ *peertest.Network, pa, _ *Port) { pa.Close() }, "ended a"},
		"the connection broke": {func(n *peertest.Network, _, _ *Port) { n.Reset("a:1", "b:1") }, "ended a"},
		"this one closes it":   {func(_ *peertest.Network, _, pb *Port) { pb.Disconnect("a") }, ""},
		"it is silent":         {func(n *peertest.Network, _, _ *Port) { n.Stall("b:1", "a:1") }, ""},
		"it is paused":         {func(n *peertest.Network, _, _ *Port) { n.SetPaused(true, "a:1") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := peertest.NewNetwork()
				b := &fakePeer{}
				open := func(id string, process uint64, f *fakePeer) *Port {
					p, err := Open(Config{
						Network: n.From(id + ":1"), Listen: id + ":1",
						Self: func() Identity { return Identity{Cluster: "c", ID: id, Process: process} },
					}, f.handler())
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
				pa, pb := open("a", 8, &fakePeer{}), open("b", 9, b)
				defer pb.Close()
				defer pa.Close()
				defer n.Heal()
				if _, err := pa.Identify("b:1"); err != nil {
					t.Fatal(err)
				}
				if _, err := pa.Status(t.Context(), "b:1", 0); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := b.told(); got != "heard a 8 false, heard a 8 true" {
					t.Errorf("told %q", got)
				}
				if n := pb.Open("a", 8); n != 1 || pb.Open("a", 7) != 0 || pb.Open("c", 8) != 0 {
					t.Errorf("%d connections", n)
				}
				tt.end(n, pa, pb)
				time.Sleep(10 * time.Millisecond)
				if got := b.told(); got != tt.want {
					t.Errorf("told %q, want %q", got, tt.want)
				}
				if open := pb.Open("a", 8) > 0; open != (name == "it is silent" || name == "it is paused") {
					t.Errorf("there is a connection: %v", open)
				}
			})
		})
	}
}

// Only a port without a listener refuses: not one that nobody accepts at, a name that leads nowhere, or a process
// that speaks another protocol.
func TestRefuses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	p, err := Open(Config{
		Network: TCPNetwork{}, Listen: "127.0.0.1:0", Self: func() Identity { return Identity{ID: "a"} },
	}, (&fakePeer{}).handler())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	who := func(addr string) bool {
		_, err := p.IdentifyWithin(addr, 50*time.Millisecond)
		if err == nil {
			t.Errorf("somebody is at %s", addr)
		}
		return Refuses(err)
	}
	for _, addr := range []string{ln.Addr().String(), "localhost:" + port, "name.invalid:" + port} {
		if who(addr) {
			t.Errorf("%s refuses", addr)
		}
	}
	_ = ln.Close()
	for _, addr := range []string{ln.Addr().String(), "localhost:" + port} {
		if !who(addr) {
			t.Errorf("%s does not refuse", addr)
		}
	}
}
