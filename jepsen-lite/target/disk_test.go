package target

import (
	"os"
	"path/filepath"
	"testing"
)

// A damaged folder is in doubt until the node has served from it. A file that may be found damaged later keeps it in
// doubt until the file is removed.
func TestDoubt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.bin")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n := &lockdNode{}
	step := func(what string, want bool) {
		t.Helper()
		if n.doubtful() != want {
			t.Errorf("%s: in doubt is %v", what, !want)
		}
	}
	n.answered.Store(3)
	step("at first", false)
	n.disk.hurt = 4
	step("damaged before start 4", true)
	n.answered.Store(4)
	step("start 4 serves", false)
	n.disk.damaged = []string{file}
	step("a damaged snapshot", true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	step("the snapshot is gone", false)
	n.disk.lost = true
	step("lost", true)
}
