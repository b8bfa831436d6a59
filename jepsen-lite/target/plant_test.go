package target

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes a folder with some files.
func tree(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for path, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// replaced returns the new texts of an overlay, by the paths of the files in the repository.
func replaced(t *testing.T, repo, overlay string) map[string]string {
	t.Helper()
	var o struct{ Replace map[string]string }
	text, err := os.ReadFile(overlay)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil || len(o.Replace) == 0 {
		t.Fatalf("%s replaces %d files: %v", overlay, len(o.Replace), err)
	}
	texts := map[string]string{}
	for from, to := range o.Replace {
		path, err := filepath.Rel(repo, from)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.ToSlash(path)] = string(text)
	}
	return texts
}

// A declaration of each kind, as the tests of anchors have them.
const anchors = `package p

import "sort"

// A set is one.
type set[T any] struct {
	many, more int // how many
}

const (
	low  = 1
	high = 2
)

var table = []int{
	1, // one
	2,
}

// size counts.
func (s *set[T]) size() int {
	// What is many counts.
	if s.many > 0 {
		return s.many // all of them
	}
	return 0
}

func size() int { return 0 }

func init() { sort.Ints(table) }
`

// A change finds its declaration by its name, and its text by the tokens: the code beside the text may change.
func TestAnchors(t *testing.T) {
	const size = "func (s *set) size"
	for name, c := range map[string]struct {
		was, is   string // what is changed in the sources before
		decl      string
		lines     string // of the change
		old, want string // what these make of the sources
	}{
		"func": {
			decl: size, lines: "- return s.many\n+ return -1",
			old: "return s.many //", want: "return -1 //",
		},
		"other func": {
			decl: "func size", lines: "- return 0\n+ return 9",
			old: "int { return 0 }", want: "int { return 9 }",
		},
		"signature": {
			decl: size, lines: "- size()\n+ count()",
			old: "(s *set[T]) size() int", want: "(s *set[T]) count() int",
		},
		"type":  {decl: "type set", lines: "- int\n+ int64", old: "more int ", want: "more int64 "},
		"const": {decl: "const high", lines: "- 2\n+ 3", old: "high = 2", want: "high = 3"},
		"var":   {decl: "var table", lines: "- 1, 2\n+ 2", old: "1, // one\n\t2,", want: "2,"},
		"another comment above": {
			was: "// size counts.", is: "// size does not count.",
			decl: size, lines: "- return s.many\n+ return -1",
			old: "return s.many //", want: "return -1 //",
		},
		"another comment within": {
			was: "What is", is: "That is",
			decl: size, lines: "- int {\n- if s.many > 0 {\n+ int {\n+ if true {",
			old: "\n\t// That is many counts.\n\tif s.many > 0", want: "\n\tif true",
		},
		"another comment behind": {
			was: "all of", is: "some of",
			decl: size, lines: "- return s.many\n- }\n+ return -1\n+ }",
			old: "return s.many // some of them", want: "return -1",
		},
		"another depth": {
			was: "return s.many // all of them", is: "{\n\t\t\treturn s.many\n\t\t}",
			decl: size, lines: "- return s.many\n+ return -1",
			old: "return s.many\n", want: "return -1\n",
		},
		"another name of the receiver": {
			was: "(s *set[T]) size() int {", is: "(all *set[K]) size() int {\n\ts := all",
			decl: size, lines: "- return s.many\n+ return -1",
			old: "return s.many //", want: "return -1 //",
		},
		"another constant before": {
			was: "low  = 1", is: "low  = 2\n\tmost = 2",
			decl: "const high", lines: "- 2\n+ 3",
			old: "high = 2", want: "high = 3",
		},
		"a line more": {
			decl: size, lines: "+ s.more++\n  if s.many > 0 {",
			old: "\tif", want: "\ts.more++\n\tif",
		},
		"a line less": {
			decl: "func init", lines: "- sort.Ints(table)",
			old: "init() { sort.Ints(table) }", want: "init() {}",
		},
		"two changes": {
			decl: size, lines: "- // Another comment.\n- return 0\n+ return 1\n\n- s.many\n- // all of them\n- }\n+ 2\n+ }",
			old: "s.many // all of them\n\t}\n\treturn 0", want: "2\n\t}\n\treturn 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := strings.Replace(anchors, c.was, c.is, 1)
			repo := tree(t, map[string]string{"p/p.go": source})
			overlay, err := plant(repo, "", t.TempDir(), writeBug(t, "All.\n\nin p, "+c.decl+":\n"+c.lines+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(source, c.old) != 1 {
				t.Fatalf("%q is %d times in the source", c.old, strings.Count(source, c.old))
			}
			is := replaced(t, repo, overlay)["p/p.go"]
			if want := strings.Replace(source, c.old, c.want, 1); is != want {
				t.Errorf("it is\n%s\nand not\n%s", is, want)
			}
		})
	}
}

// A change follows its declaration to another file of the package. Files that are not built and tests do not count.
func TestAnchorMoves(t *testing.T) {
	const text = "\n\nfunc f() int { return 1 }\n"
	repo := tree(t, map[string]string{
		"p/p.go":      "package p",
		"p/moved.go":  "//go:build faults\n\npackage p" + text,
		"p/off.go":    "//go:build !faults\n\npackage p" + text,
		"p/p_test.go": "package p_test" + text,
		"p/r/p.go":    "package r" + text,
		"q/p.go":      "package q" + text,
	})
	const change = "in p, func f:\n- 1\n+ 2\n"
	for tags, want := range map[string]string{"faults": "p/moved.go", "more,faults": "p/moved.go", "": "p/off.go"} {
		overlay, err := plant(repo, tags, t.TempDir(), writeBug(t, "All.\n\n"+change))
		if err != nil {
			t.Fatal(err)
		}
		if got := replaced(t, repo, overlay); len(got) != 1 || !strings.Contains(got[want], "return 2") {
			t.Errorf("tags %q: %q", tags, got)
		}
	}
}

// Bugs are planted one after the other, each into the result of the one before, and only copies are changed.
func TestPlantTwo(t *testing.T) {
	repo := tree(t, map[string]string{"p/p.go": anchors})
	overlay, err := plant(repo, "", t.TempDir(),
		writeBug(t, "One.\n\nnew file p/more.go:\n+ package p\n+\n+ func more() int { return 1 }\n\n"+
			"in p, const high:\n- 2\n+ 3\n"),
		writeBug(t, "Two.\n\nin p, func more:\n- 1\n+ high\n\nin p, const high:\n- 3\n+ 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"p/more.go": "package p\n\nfunc more() int { return high }\n",
		"p/p.go":    strings.Replace(anchors, "high = 2", "high = 4", 1),
	}
	for path, text := range replaced(t, repo, overlay) {
		if text != want[path] {
			t.Errorf("%s is\n%s", path, text)
		}
	}
	if text, err := os.ReadFile(filepath.Join(repo, "p", "p.go")); string(text) != anchors {
		t.Errorf("the source is\n%s\n%v", text, err)
	}
}

// An error tells in one line which bug cannot be planted, where, and what is missing.
func TestPlantFails(t *testing.T) {
	repo := tree(t, map[string]string{
		"p/p.go":      anchors,
		"p/q.go":      "package p\n\nfunc init() {}\n",
		"broken/p.go": "package broken\n\nfunc f() {",
	})
	for _, c := range []struct{ at, lines, why string }{
		{"in p, func (s *set) count", "- 1", "the func is gone"},
		{"in p, func (s *sets) size", "- 1", "the func is gone"},
		{"in p, func count", "- 1", "the func is gone"},
		{"in p, type table", "- 1", "the type is gone"},
		{"in p, func init", "- 1", "the func is there 2 times"},
		{"in p, var table", "- 3", "the old text occurs 0 times in it, not once: 3"},
		{"in p, type set", "- how many", "the old text occurs 0 times in it, not once: how many"},
		{"in p, func (s *set) size", "- s.many\n+ 1", "the old text occurs 2 times in it, not once: s.many"},
		{"in p, func size", "- return 0\n+ return return", "p.go does not parse after it: "},
		{"in p, func (s *set) size", "- return s\n+ return 1 // s", "the new text swallows what stands beside it"},
		{"in q, func size", "- return 0", "open "},
		{"in broken, func f", "- 1", filepath.Join(repo, "broken", "p.go") + ":3:"},
		{"new file p/p.go", "+ package p", "there is one already"},
		{"new file p/new.go", "+ pack p", "new.go does not parse after it: "},
	} {
		_, err := plant(repo, "", t.TempDir(), writeBug(t, "All.\n\n"+c.at+":\n"+c.lines+"\n"))
		want := "some.bug: " + c.at + ": " + c.why
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Bugs in bodies of functions are planted beside each other: the environment chooses one. Others are planted alone.
func TestPlantChoices(t *testing.T) {
	const source = `package p

func f(n int) int {
	if n > 0 {
		return 1 // one
	}
	return n
}

func (s *set) g() { s.n = 1 }

type set struct{ n int }

func h() int {
	for {
		return 1
	}
}
`
	repo := tree(t, map[string]string{"p/p.go": source, "q/q.go": "package other\n\nfunc q() {}\n"})
	dir := t.TempDir()
	bug := func(name, changes string) string {
		file := filepath.Join(dir, name+".bug")
		if err := os.WriteFile(file, []byte("All.\n\n"+changes), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	bugs := []string{
		bug("one", "in p, func f:\n- 1\n+ 2\n\n- return n\n+ return added()\n\nin p, func (all *set) g:\n- s.n = 1\n\n"+
			"new file p/added.go:\n+ package p\n+\n+ func added() int { return 7 }\n"),
		bug("renamed", "in p, func h:\n- h()\n+ i()\n\nnew file p/renamed.go:\n+ package p\n+\n+ func h() int { return i() }\n"),
		bug("head", "in p, func f:\n- n int\n+ n, m int\n"),
		bug("other", "in p, func f:\n- n > 0\n+ n > 5\n"),
		bug("type", "in p, type set:\n- int\n+ int64\n"),
		bug("label", "in p, func h:\n- for\n+ again:\n+ for\n"),
		bug("same-file", "new file p/added.go:\n+ package p\n"),
		bug("begins", "new file p/begins.go:\n+ package p\n+\n+ func init() {}\n"),
		bug("elsewhere", "in q, func q:\n- q() {\n+ q() {\n+ panic(1)\n"),
	}
	overlay, planted, err := plantChoices(repo, "", t.TempDir(), "CHOSEN", bugs...)
	if want := []string{bugs[0], bugs[3], bugs[8]}; err != nil || !slices.Equal(planted, want) {
		t.Fatalf("%v: planted %v, want %v", err, planted, want)
	}
	want := map[string]string{
		"p/p.go": `package p

func f(n int) int {
	if plantedIs("other") {
		if n > 5 {
			return 1 // one
		}
		return n

	}

	if plantedIs("one") {
		if n > 0 {
			return 2 // one
		}
		return added()

	}

	if n > 0 {
		return 1 // one
	}
	return n
}

func (s *set) g() {
	if plantedIs("one") {
		return
	}
	s.n = 1
}

type set struct{ n int }

func h() int {
	for {
		return 1
	}
}
`,
		"p/added.go": "package p\n\nfunc added() int { return 7 }\n",
		"p/planted_choice.go": `package p

import "os"

var plantedChoice = os.Getenv("CHOSEN")

func plantedIs(bug string) bool { return plantedChoice == bug }
`,
		"q/q.go": `package other

func q() {
	if plantedIs("elsewhere") {
		panic(1)

		return
	}
}
`,
	}
	want["q/planted_choice.go"] = strings.Replace(want["p/planted_choice.go"], "package p", "package other", 1)
	got := replaced(t, repo, overlay)
	for path, text := range want {
		if got[path] != text {
			t.Errorf("%s is\n%s\nand not\n%s", path, got[path], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files are replaced, not %d", len(got), len(want))
	}
}
