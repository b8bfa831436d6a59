package resp

import (
	"encoding/binary"
	"unsafe"
)

// Client is one client of a node.
type Client struct {
	ID               uint64
	Name, Addr, Node string // as CLIENT SETNAME has it, or ""; host:port; the node's id
}

// Same reports whether two are known to be one client, which may have changed its name; nil is nobody.
func (c *Client) Same(other *Client) bool {
	return c != nil && other != nil && c.ID == other.ID && c.Node == other.Node && c.Addr == other.Addr
}

// Sender is a Client in the binary form of requests; "" is none. Every write carries it, and few of them need it:
// a session makes it once, and on its way through nodes and the log nobody takes it apart.
type Sender string

// Sender is the binary form of a client.
func (c Client) Sender() Sender {
	b := AppendText(binary.AppendUvarint(nil, c.ID), c.Name)
	return Sender(AppendText(AppendText(b, c.Addr), c.Node))
}

// Client is who the sender is. Its texts alias it. It has nothing in it if there is none.
func (s Sender) Client() Client {
	d := NewDecoder(unsafe.Slice(unsafe.StringData(string(s)), len(s)))
	return Client{ID: d.Uvarint(), Name: d.Text(), Addr: d.Text(), Node: d.Text()}
}

// Known is who the sender is; nil if there is none.
func (s Sender) Known() *Client {
	if s == "" {
		return nil
	}
	c := s.Client()
	return &c
}

// Sender reads a sender, which is not "".
func (d *Decoder) Sender() Sender {
	from := d.rest
	d.Uvarint()
	for range 3 {
		d.Bytes()
	}
	if d.err != nil {
		return ""
	}
	return Sender(unsafe.String(unsafe.SliceData(from), len(from)-len(d.rest)))
}
