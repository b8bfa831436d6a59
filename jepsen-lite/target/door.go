package target

import (
	"fmt"
	"net"
	"time"

	"crypto/tls"
)

// knockMax bounds a knock, and the handshake that may follow it.
const knockMax = 5 * time.Second

// knock connects to addr from a host of this machine, and speaks TLS if secure is not nil.
func knock(from, addr string, secure *tls.Config) (net.Conn, error) {
	d := net.Dialer{Timeout: knockMax, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", addr)
	if err != nil || secure == nil {
		return conn, err
	}
	c := tlsConn{tls.Client(conn, secure)}
	_ = conn.SetDeadline(time.Now().Add(knockMax))
	if err := c.Handshake(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, conn.SetDeadline(time.Time{})
}

// Knock implements Target.
func (t *lockd) Knock(node string, d Door) (net.Conn, error) {
	n := t.nodes[node]
	switch d {
	case Inside:
		return knock(t.strangers, n.addr, t.tls.config())
	case ForPeers:
		return knock(t.strangers, n.peerAddr, nil)
	case ForHTTP:
		return knock(t.strangers, n.httpAddr, nil)
	}
	return knock(t.strangers, n.addr, nil)
}

// Knock implements Target. Redis has one door.
func (t *redis) Knock(node string, d Door) (net.Conn, error) {
	if d == ForPeers || d == ForHTTP {
		return nil, fmt.Errorf("Redis has no door %s", d)
	}
	return knock(onlyHost, t.nodes[node].addr, nil)
}

// Memory implements Target.
func (t *lockd) Memory(node string) (now, most int64, err error) { return t.nodes[node].memory() }

// Memory implements Target.
func (t *redis) Memory(node string) (now, most int64, err error) {
	return t.nodes[node].server.memory()
}
