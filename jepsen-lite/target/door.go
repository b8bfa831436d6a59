package target

import (
	"crypto/tls"
	"net"
	"time"
)

// knockMax bounds the dial of a knock, and the handshake after it.
const knockMax = 5 * time.Second

// knock connects to addr from an address of this machine, and makes a TLS handshake if secure is not nil.
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
