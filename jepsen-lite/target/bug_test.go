package target

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// writeBug writes a file of bugDir.
func writeBug(t *testing.T, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "some.bug")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A file begins with a description of the bug, and continues with its changes.
func TestReadBug(t *testing.T) {
	b, err := readBug(writeBug(t, `It breaks
all.

in a/b, func (s *state) apply:
  kept
- old
+ new
	kept too

- twice
+ once

new file a/c.go:
+ package a
+
+ const c = 1

in a, type state:

- gone
- too
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []*change{
		{folder: "a/b", decl: "func (s *state) apply", old: " kept\n old\nkept too\n", new: " kept\n new\nkept too\n"},
		{folder: "a/b", decl: "func (s *state) apply", old: " twice\n", new: " once\n"},
		{folder: "a", added: "a/c.go", new: " package a\n\n const c = 1\n"},
		{folder: "a", decl: "type state", old: " gone\n too\n"},
	}
	if b.does != "It breaks\nall.\n\n" || !reflect.DeepEqual(b.changes, want) {
		t.Errorf("%q", b.does)
		for _, c := range b.changes {
			t.Errorf("%+v", *c)
		}
	}
}

// A malformed file is refused, with the line of the mistake.
func TestReadBugFails(t *testing.T) {
	const begins = " begins neither with -, + or a space, nor as a change does"
	for text, want := range map[string]string{
		"\nin a, func b:\n- c\n":                      ": it does not begin with what the bug does",
		"It breaks nothing.\n":                        ": it changes nothing",
		"All.\n\nin a, func b:\n+ c\n":                ": in a, func b: there is no old text",
		"All.\n\nnew file a/b.go:\n- c\n":             ": new file a/b.go: there is an old text",
		"All.\n\nin a, func b:\nc\n":                  `:4: "c"` + begins,
		"All.\n\nin a, func b:\n- c\nin a, this c:\n": `:5: "in a, this c:"` + begins,
	} {
		if _, err := readBug(writeBug(t, text)); err == nil || !strings.Contains(err.Error(), "some.bug"+want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if _, err := readBug(filepath.Join(t.TempDir(), "none.bug")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
