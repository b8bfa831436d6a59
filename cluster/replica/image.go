package replica

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"lockd/cluster/membership"
	"lockd/cluster/record"
)

// Image is the whole state at one point in time. Writing it does not block Apply.
type Image struct {
	Applied uint64             // index of the last entry in it
	Roster  *membership.Roster // as of that entry
	Write   func(io.Writer) error
}

// Save writes the image, with its head.
func (i *Image) Save(w io.Writer) error {
	if _, err := w.Write(record.AppendImageHead(nil, i.Applied, i.Roster)); err != nil {
		return err
	}
	return i.Write(w)
}

// Hash returns the hash of the state alone. It is equal on nodes that have applied the same entries.
func (i *Image) Hash() (string, error) {
	h := sha256.New()
	h.Write(i.Roster.Append(nil))
	w := bufio.NewWriterSize(h, 256<<10)
	if err := i.Write(w); err != nil {
		return "", err
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
