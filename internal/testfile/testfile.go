// Package testfile compares output with files of testdata. Only tests import it.
package testfile

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

// Rewrite makes Compare write the files of testdata. Read the diff as code.
var Rewrite = flag.Bool("rewrite", false, "write the files of testdata anew; read the diff as code")

// Compare compares output with a file, and returns the content of the file. With Rewrite it writes the file first.
//
// The files of a format may be rewritten until a release has it. Afterwards they are never rewritten, and a change of
// the format is another version, with files of its own.
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
