package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	"lockd/internal/loglimit"
)

// greeter exchanges proofs and hellos on a port's new connections. All methods may be called concurrently.
type greeter struct {
	cfg     Config
	secret  *peerSecret // nil: there is none
	handler Handler
	conns   *conns

	warned  loglimit.Limiter
	refused atomic.Int64 // failed hellos that are warned of
}

// receive introduces a node that has connected, and returns the purpose of the connection.
func (g *greeter) receive(conn net.Conn) (Kind, error) {
	self := g.cfg.Self()
	_ = conn.SetDeadline(after(handshakeWaitMax))
	claim, err := g.secret.introduce(conn, self)
	if err != nil {
		return 0, err
	}
	_ = conn.SetDeadline(after(helloWaitMax))
	kind, _, err := welcome(conn, self, func(kind Kind, who Identity) error {
		if err := claim.is(who); err != nil {
			return refusing(err)
		}
		if kind == ForIdentity {
			g.handler.Heard(who, false)
			return nil
		}
		if err := g.handler.Admit(who, kind); err != nil {
			return refusing(err)
		}
		g.handler.Heard(who, true)
		return g.conns.keep(conn, who, kind)
	})
	return kind, err
}

// approach introduces this node on a connection that it has dialled.
func (g *greeter) approach(conn net.Conn, addr string, kind Kind) (Identity, error) {
	self := g.cfg.Self()
	host := hostOf(addr)
	if kind == ForIdentity {
		host = "" // the address was found by a name
	}
	claim, err := g.secret.approach(conn, self, host)
	if err != nil {
		return Identity{}, err
	}
	return greet(conn, kind, self, func(who Identity) error {
		err := claim.is(who)
		if err == nil && kind != ForIdentity {
			err = g.admitAt(addr, who, self.Cluster)
		}
		if err == nil && kind != ForIdentity {
			g.handler.Heard(who, true)
		}
		return refusing(err)
	})
}

// admitAt checks the node that answers at an address. A node that joins is in no cluster yet: it must be the one that
// was added with this address.
func (g *greeter) admitAt(addr string, who Identity, cluster string) error {
	if g.cfg.Expect != nil {
		id := g.cfg.Expect(addr)
		if id != "" && id != who.ID {
			return fmt.Errorf("node %s answers at %s, which is the address of node %s", who.ID, addr, id)
		}
		if id == "" && who.Cluster == "" && cluster != "" {
			return fmt.Errorf("%w: node %s at %s is in no cluster", ErrUninvited, who.ID, addr)
		}
	}
	return g.handler.Admit(who, 0)
}

// failed logs a failed connection. It warns of one source only once in a while, since a stranger may try to fill the
// log.
func (g *greeter) failed(addr, source string, err error) {
	var refused *Refusal
	var refuses *unwelcome
	level, what := slog.LevelDebug, "peer connection failed"
	if errors.As(err, &refuses) {
		what = "a peer is refused"
	}
	// An unwanted node, a wrong address, or a client on the wrong port.
	if errors.As(err, &refused) || refuses != nil || errors.Is(err, errHello) || errors.Is(err, ErrUninvited) {
		g.refused.Add(1)
		if _, ok := g.warned.Allow(source); ok {
			level = slog.LevelWarn
		}
	}
	g.cfg.Log.Log(context.Background(), level, what, "peer", addr, "error", err)
	if refused != nil {
		g.handler.Refused(refused)
	}
}
