package resp

import (
	"encoding/binary"
	"unsafe"
)

// Client is one client of a node.
type Client struct {
	ID               uint64
	Name, Addr, Node string // as CLIENT SETNAME set it, or ""; host:port; the node's id
}

// Same reports whether both are known to be one client, under any name; nil is no client.
func (c *Client) Same(other *Client) bool {
	return c != nil && other != nil && c.ID == other.ID && c.Node == other.Node && c.Addr == other.Addr
}

// Sender is a Client in the binary form of requests; "" is none. Every write carries it and few use it: a session
// encodes it once, and nodes and log pass it on undecoded.
type Sender string

// Sender returns the binary form of a client.
func (c Client) Sender() Sender {
	b := AppendText(binary.AppendUvarint(nil, c.ID), c.Name)
	return Sender(AppendText(AppendText(b, c.Addr), c.Node))
}

// Client decodes the sender; its texts alias it. It returns the zero Client for "".
func (s Sender) Client() Client {
	d := NewDecoder(unsafe.Slice(unsafe.StringData(string(s)), len(s)))
	return Client{ID: d.Uvarint(), Name: d.Text(), Addr: d.Text(), Node: d.Text()}
}

// Known decodes the sender; nil for "".
func (s Sender) Known() *Client {
	if s == "" {
		return nil
	}
	c := s.Client()
	return &c
}

// Sender reads a sender that is not "".
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
