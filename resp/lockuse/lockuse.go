// Package lockuse holds observations: what a node sees its clients do with locks and the log does not tell, such as
// reads, refusals and keys found missing. LOCKS DOCTOR and LOCKS ADVICE get them as a Report of the node that
// received the command, beside their arguments. Texts are hashed where recognizing them suffices.
package lockuse

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"lockd/resp"
)

// Kind is the kind of an observation.
type Kind uint8

// The kinds of observation.
const (
	LeaseAfterwards Kind = iota + 1 // SETNX without a lease, and EXPIRE right behind it
	NoLease                         // a key was taken without a lease, freed and taken again
	StillTaken                      // such a key was asked for again and again, without success
	Polls                           // a lock was asked for more often than every 10 ms
	GetThenDel                      // a client read its own token, and then deleted the key
	LeaseDropped                    // SET IFEQ stored a token again, without a lease
	Refused                         // a conditional SET, or LOCK, found the key taken
	Missed                          // a command that compares a token with the key found another token, or none
	MissedDel                       // DEL found nothing
	Extended                        // EXPIRE on a key that the client had taken, after its lease
	GetThenSet                      // GET found nothing, SET without a condition stored a token, the client freed it

	kindsEnd
)

// Observation counts one kind of use of a key by a client.
type Observation struct {
	Kind   Kind
	DB     int
	Key    string   // "": only its hash is known
	Hash   uint64   // of the key
	Tokens []uint64 // hashes of the tokens that it may concern
	AtMs   int64    // the wall time of the node, of the latest
	Count  int64
	Client resp.Client // its Node is that of the Report
}

// Report holds the observations of a node since a wall time.
type Report struct {
	Node         string
	SinceMs      int64
	Observations []Observation
}

// Hash returns the hash of a key or a token.
func Hash(text string) uint64 { return xxh3.HashString(text) }

// String returns the binary form, for Request.Observations.
func (r *Report) String() string {
	b := resp.AppendText(nil, r.Node)
	b = binary.AppendVarint(b, r.SinceMs)
	b = binary.AppendUvarint(b, uint64(len(r.Observations)))
	for i := range r.Observations {
		b = r.Observations[i].append(b)
	}
	return string(b)
}

func (s *Observation) append(b []byte) []byte {
	b = append(b, byte(s.Kind))
	b = binary.AppendUvarint(b, uint64(s.DB))
	b = resp.AppendText(b, s.Key)
	b = binary.LittleEndian.AppendUint64(b, s.Hash)
	b = binary.AppendUvarint(b, uint64(len(s.Tokens)))
	for _, t := range s.Tokens {
		b = binary.LittleEndian.AppendUint64(b, t)
	}
	b = binary.AppendVarint(binary.AppendVarint(b, s.AtMs), s.Count)
	b = binary.AppendUvarint(b, s.Client.ID)
	return resp.AppendText(resp.AppendText(b, s.Client.Name), s.Client.Addr)
}

const observationBytesMin = 16

// Read parses the binary form; "" is an empty Report. The texts of the Report alias a copy of it.
func Read(text string) (r Report, err error) {
	if text == "" {
		return r, nil
	}
	d := resp.NewDecoder([]byte(text))
	r.Node, r.SinceMs = d.Text(), d.Varint()
	n := d.Count(observationBytesMin)
	for range n {
		d.Item(observationBytesMin)
		s := Observation{Kind: Kind(d.Byte()), DB: int(d.Uvarint() & 0xffff), Key: d.Text(), Hash: d.Uint64()}
		s.Tokens = make([]uint64, d.Count(8))
		for i := range s.Tokens {
			d.Item(8)
			s.Tokens[i] = d.Uint64()
		}
		s.AtMs, s.Count = d.Varint(), d.Varint()
		s.Client = resp.Client{ID: d.Uvarint(), Name: d.Text(), Addr: d.Text(), Node: r.Node}
		if s.Kind == 0 || s.Kind >= kindsEnd {
			d.Fail("an observation that can not be")
		}
		r.Observations = append(r.Observations, s)
	}
	return r, d.End()
}
