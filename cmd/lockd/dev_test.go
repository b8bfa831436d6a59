package main

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"
)

// A node of lockd dev does not take the room of a node that stays: test suites start hundreds.
func TestDevTakesLittleRoom(t *testing.T) {
	const most = 8 << 20
	parsed, _, err := parse([]string{"dev", "--nodes", "1", "--dir", t.TempDir(), "--http-listen", ""}, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := parsed.(*devCmd).plan()
	if err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, 2) // those of dev may be in use
	peers := fmt.Sprintf("127.0.0.1:%d", ports[1])
	nodes[0].Listen, nodes[0].PeerListen = []string{fmt.Sprintf("127.0.0.1:%d", ports[0])}, peers
	nodes[0].members = map[string]string{"n1": peers}
	node, err := start(nodes[0], slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.stop)
	size := int64(0)
	err = filepath.WalkDir(nodes[0].Dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil || size < 1<<20 || size > most {
		t.Errorf("its folder has %d bytes, %v", size, err)
	}
}
