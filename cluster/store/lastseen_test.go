package store

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files with a node's identity and the starts that it has met have the same text in every version.
func TestTextOfFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := OpenFolder(dir, "n1", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	meta := Meta{Program: metaProgram, Format: 1, ID: "n1", Incarnation: "I", Cluster: "C", Arch: "amd64", LogStore: WAL}
	meta.History = History{Starts: 2, Tokens: "T"}
	want := `{"program":"lockd data","format":1,"id":"n1","incarnation":"I","cluster":"C","arch":"amd64",` +
		`"log_store":"wal","starts":2,"tokens":"T"}` + "\ncrc32c 1a37006a\n"
	if got := string(encodeMeta(meta)); got != want {
		t.Errorf("lockd.json is %q, want %q", got, want)
	}
	seen := []LastSeen{{ID: "n2", Incarnation: "J", Start: 3, Token: "U"}, {ID: "n3", Incarnation: "K", Lost: "L"}}
	if err := d.SaveLastSeen(seen); err != nil {
		t.Fatal(err)
	}
	want = `{"program":"lockd peers","seen":[{"id":"n2","incarnation":"J","start":3,"token":"U"},` +
		`{"id":"n3","incarnation":"K","start":0,"token":"","lost":"L"}]}` + "\ncrc32c 2d296f91\n"
	if got := readFile(t, filepath.Join(dir, lastSeenFile)); got != want {
		t.Errorf("peers.json is %q, want %q", got, want)
	}
	if got, err := d.LastSeen(); err != nil || !slices.Equal(got, seen) {
		t.Errorf("read back: %v, %v", got, err)
	}
}

// The stored starts of other nodes read back equal, or the folder is refused.
func TestLastSeenIsChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := OpenFolder(dir, "n1", "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := d.LastSeen(); err != nil || len(got) > 0 {
		t.Errorf("without a file: %v, %v", got, err)
	}
	if err := d.SaveLastSeen([]LastSeen{{ID: "n2", Incarnation: "J", Start: 3, Token: "U"}}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, lastSeenFile)
	whole := readFile(t, path)
	for name, text := range map[string]string{
		"altered":           strings.Replace(whole, `"start":3`, `"start":2`, 1),
		"another program's": string(withChecksum([]byte(`{"program":"x","seen":[]}`))),
		"cut":               whole[:len(whole)-1],
		"empty":             "",
		"huge":              strings.Repeat(" ", lastSeenMax+1),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.LastSeen(); err == nil || !strings.Contains(err.Error(), "is damaged: peers.json: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An applied index is found after a restart; one that cannot be read promises nothing.
func TestAppliedMark(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := OpenFolder(dir, "n1", "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	begin := func(note uint64) uint64 {
		t.Helper()
		m, err := OpenApplied(d)
		if err != nil {
			t.Fatal(err)
		}
		m.Note(note)
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		return m.Begin()
	}
	for _, step := range []struct{ note, want uint64 }{{7, 0}, {5, 7}, {0, 7}} { // it never goes back
		if got := begin(step.note); got != step.want {
			t.Errorf("before %d is noted: %d, want %d", step.note, got, step.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, appliedFile), []byte("rubbish, and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := begin(0); got != 0 {
		t.Errorf("a damaged mark promises %d", got)
	}
	var none *AppliedMark
	none.Note(1)
	if err := none.Close(); err != nil || none.Begin() != 0 {
		t.Errorf("in memory: %d, %v", none.Begin(), err)
	}
}
