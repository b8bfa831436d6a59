package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every bug applies to the present sources, and the types of the changed packages are right. Whether the whole server
// builds is tested by the run that catches the bug. The same holds for nearly all bugs beside each other.
func TestBugsApply(t *testing.T) {
	repo, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(repo, bugDir, "*.bug"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are %d bugs in %s: %v", len(files), bugDir, err)
	}
	c := &checker{fset: token.NewFileSet(), parsed: map[string]*ast.File{}}
	planted := map[string]*sources{}
	for _, file := range files {
		s := &sources{repo: repo, tags: Kinds[0].Tags, planted: map[string]string{}}
		if err := s.plant(file); err != nil {
			t.Error(err)
			continue
		}
		planted[filepath.Base(file)] = s
	}
	all := newChoices(repo, Kinds[0].Tags, "SOME_VARIABLE")
	fit := 0
	for _, file := range files {
		if fits, err := all.choose(file); err != nil {
			t.Error(err)
		} else if fits {
			fit++
		}
	}
	if err := all.join(); err != nil || fit < len(files)*9/10 {
		t.Errorf("%d of %d bugs fit beside each other: %v", fit, len(files), err)
	}
	planted["all that fit"] = &all.sources
	c.readExports(t, planted)
	for _, name := range slices.Sorted(maps.Keys(planted)) {
		s := planted[name]
		for _, folder := range s.folders() {
			if err := c.check(s, folder); err != nil {
				t.Errorf("%s: %s: %v", name, folder, err)
			}
		}
	}
}

// folders returns the folders of the changed packages.
func (s *sources) folders() (folders []string) {
	for file := range s.planted {
		folder, err := filepath.Rel(s.repo, filepath.Dir(file))
		if err == nil && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	return folders
}

// checker checks the types of packages.
type checker struct {
	fset    *token.FileSet
	parsed  map[string]*ast.File // files as they are in the sources
	exports types.Importer
}

// readExports has the go command build the imports of the changed packages.
func (c *checker) readExports(t *testing.T, planted map[string]*sources) {
	t.Helper()
	var need []string
	for _, s := range planted {
		for _, text := range s.planted {
			f, err := parser.ParseFile(c.fset, "", text, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				need = append(need, path)
			}
		}
		for _, folder := range s.folders() {
			need = append(need, "lockd/"+filepath.ToSlash(folder))
		}
	}
	slices.Sort(need)
	args := []string{"list", "-export", "-deps", "-tags", Kinds[0].Tags, "-json=ImportPath,Export"}
	cmd := exec.Command("go", append(args, slices.Compact(need)...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	c.exports = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data of " + path)
		}
		return os.Open(exports[path])
	})
}

// check checks the types of a package with its changes.
func (c *checker) check(s *sources, folder string) error {
	names, err := s.files(folder)
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, name := range names {
		f, err := c.parse(s, name)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: c.exports}
	_, err = conf.Check("lockd/"+filepath.ToSlash(folder), c.fset, files, nil)
	return err
}

// parse reads a source file. Unchanged files are read once.
func (c *checker) parse(s *sources, file string) (*ast.File, error) {
	if text, changed := s.planted[file]; changed {
		return parser.ParseFile(c.fset, file, text, parser.SkipObjectResolution)
	}
	if c.parsed[file] == nil {
		f, err := parser.ParseFile(c.fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c.parsed[file] = f
	}
	return c.parsed[file], nil
}

// plantBuild plants one of the builds without a bug, builds package keyspace with it, and returns the changed texts.
func plantBuild(t *testing.T, name string) (texts map[string]string) {
	t.Helper()
	repo, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := plant(repo, Kinds[0].Tags, t.TempDir(), filepath.Join(repo, bugDir, name+".bug"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "lockd/keyspace").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return replaced(t, repo, overlay)
}

// The next build has its command and its setting, in a file that sorts before that of the table.
func TestNextBuild(t *testing.T) {
	texts := plantBuild(t, NextBuild)
	added := texts["keyspace/command/cmd_jepsenlite.go"]
	if len(texts) != 4 || !strings.Contains(added, strconv.Quote(NextCommand)) ||
		!strings.Contains(added, strconv.Quote(NextSetting)) {
		t.Errorf("%d files\n%s", len(texts), added)
	}
}

// The other build has its additional command, in a file that sorts before that of the table.
func TestOtherBuild(t *testing.T) {
	for path, text := range plantBuild(t, OtherBuild) {
		if !strings.Contains(text, strconv.Quote(OtherCommand)) || path > "keyspace/command/table.go" {
			t.Errorf("%s:\n%s", path, text)
		}
	}
}
