package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The file with the last starts of other nodes lies beside the meta file.
const (
	lastSeenFile  = "peers.json"
	lastSeenMax   = 1 << 20 // bytes
	lastSeenTitle = "lockd peers"
)

// LastSeen is the last start of another node's data folder that this node has met.
type LastSeen struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`
	Start       uint64 `json:"start"`
	Token       string `json:"token"`
	Lost        string `json:"lost,omitempty"` // what it was found to have lost, for which it is refused for ever
}

// lastSeenText is the content of the file: a line of JSON, and one with its checksum.
type lastSeenText struct {
	Program string     `json:"program"` // lastSeenTitle
	Seen    []LastSeen `json:"seen"`
}

// LastSeen returns the stored starts of other nodes; none if there is no file yet. An unreadable file is damage of the
// folder.
func (d *Folder) LastSeen() ([]LastSeen, error) {
	text, err := readFileMax(filepath.Join(d.path, lastSeenFile), lastSeenMax)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var seen []LastSeen
	if err == nil {
		seen, err = decodeLastSeen(text)
	}
	if err != nil {
		return nil, d.damaged(fmt.Errorf("%s: %w", lastSeenFile, err))
	}
	return seen, nil
}

// SaveLastSeen replaces the stored starts of other nodes. They are on the disk when it returns nil. One call at a time.
func (d *Folder) SaveLastSeen(seen []LastSeen) error {
	line, err := json.Marshal(lastSeenText{Program: lastSeenTitle, Seen: seen})
	if err != nil {
		return err
	}
	return replaceFile(d.path, lastSeenFile, withChecksum(line))
}

func decodeLastSeen(text []byte) ([]LastSeen, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var t lastSeenText
	if err := json.Unmarshal(line, &t); err != nil {
		return nil, fmt.Errorf("unreadable: %w", err)
	}
	if !bytes.Equal(text, withChecksum(line)) || t.Program != lastSeenTitle {
		return nil, errChecksum
	}
	return t.Seen, nil
}
