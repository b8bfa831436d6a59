// Package testfile compares what is written with files of testdata. Only tests import it.
package testfile

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

// Rewrite has files of testdata written anew instead of compared. Read the diff as code.
var Rewrite = flag.Bool("rewrite", false, "write the files of testdata anew; read the diff as code")

// Compare compares what is written today with a file, and returns what the file has. With Rewrite it writes the file
// first.
//
// The files of a format may be written anew until a release has it. Afterwards they are never written again, and a
// change of the format is another version, with files of its own.
func Compare(t testing.TB, path string, written []byte) []byte {
	t.Helper()
	if *Rewrite {
		if err := os.WriteFile(path, written, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, written) {
		t.Errorf("the format of %s has changed", path)
	}
	return kept
}
