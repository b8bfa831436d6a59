package record

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

var rewrite = flag.Bool("rewrite-entries", false, "write the files of version 1")

// golden compares what is written today with a file of version 1, and returns what the file has. Until a release has
// the version it may still change: go test ./cluster/record -run Version1Opens -rewrite. Once it is released, files of it are
// never written again, and a change of the format is version 2 with a folder of its own.
func golden(t *testing.T, name string, written []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "v1", name)
	if *rewrite {
		if err := os.WriteFile(path, written, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, written) {
		t.Errorf("the format of %s has changed", name)
	}
	return b
}

// The entries that version 1 has written open, for ever, with all that they hold.
func TestVersion1EntriesOpen(t *testing.T) {
	for i, want := range sampleEntries() {
		got, err := Decode(golden(t, fmt.Sprintf("entry%d.bin", i), Append(nil, &want)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("entry%d.bin: got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
}
