package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The packages whose doc.go lists their files from top to bottom.
var ordered = []string{"keyspace", "keyspace/command", "keyspace/state", "resp/server", "cluster"}

// Each file calls those below it, as its package's doc.go lists them, but for the calls that doc.go
// names: "\tlow.go -> high.go". A function that is handed on counts as called where it is named, and
// a method of an interface as one of the file that declares the interface.
func TestFilesCallDownwards(t *testing.T) {
	for _, folder := range ordered {
		t.Run(folder, func(t *testing.T) {
			all := readFiles(t, folder)
			places, allowed := drawn(all)
			for name := range all.syntax {
				if _, listed := places[name]; !listed && name != "doc.go" {
					t.Errorf("doc.go does not list %s", name)
				}
			}
			for name := range places {
				if all.syntax[name] == nil {
					t.Errorf("doc.go lists %s, which is not there", name)
				}
			}
			up := map[string]bool{}
			for _, c := range all.calls() {
				if places[c.to] >= places[c.from] {
					continue
				}
				arrow := c.from + " -> " + c.to
				if up[arrow] = true; !slices.Contains(allowed, arrow) {
					t.Errorf("%s calls %s of %s, which doc.go lists above it", c.from, c.what, c.to)
				}
			}
			for _, arrow := range allowed {
				if !up[arrow] {
					t.Errorf("doc.go excepts %s, and there is no such call", arrow)
				}
			}
		})
	}
}

// drawn reads the list in doc.go: the place of each file from the top, where all that match one
// pattern have the same place, and the calls that may go up.
func drawn(all *sourceFiles) (places map[string]int, allowed []string) {
	places = map[string]int{}
	for line := range strings.Lines(all.syntax["doc.go"].Doc.Text()) {
		if !strings.HasPrefix(line, "\t") {
			continue
		}
		words := strings.Fields(line)
		if len(words) > 2 && words[1] == "->" {
			allowed = append(allowed, strings.Join(words[:3], " "))
			continue
		}
		for _, word := range words {
			if !strings.HasSuffix(word, ".go") {
				continue
			}
			place := len(places)
			places[word] = place
			for name := range all.syntax {
				if ok, _ := path.Match(word, name); ok && word != name {
					delete(places, word)
					places[name] = place
				}
			}
		}
	}
	return places, allowed
}

// sourceFiles are the files of a package with their type information.
type sourceFiles struct {
	syntax map[string]*ast.File // by name
	info   *types.Info
}

// call is a use of a function of another file.
type call struct{ from, to, what string }

// calls lists them, file by file.
func (all *sourceFiles) calls() []call {
	declared := map[types.Object]string{}
	for name, file := range all.syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && all.info.Defs[id] != nil {
				declared[all.info.Defs[id]] = name
			}
			return true
		})
	}
	var calls []call
	for name, file := range all.syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			f, ok := all.info.Uses[id].(*types.Func)
			if !ok {
				return true
			}
			if to, own := declared[f.Origin()]; own && to != name {
				calls = append(calls, call{from: name, to: to, what: f.Name()})
			}
			return true
		})
	}
	slices.SortFunc(calls, func(a, b call) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return slices.Compact(calls)
}

// readFiles reads a package of the house.
func readFiles(t *testing.T, folder string) *sourceFiles {
	t.Helper()
	h := &house{set: token.NewFileSet(), known: map[string]*types.Package{"unsafe": types.Unsafe}}
	all := &sourceFiles{
		syntax: map[string]*ast.File{},
		info:   &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}},
	}
	if _, err := h.check("lockd/"+folder, all); err != nil {
		t.Fatal(err)
	}
	return all
}

// house imports packages for the type checker. It reads only packages of this module, and so needs no compiler and
// little time. Calls through results of other modules' functions are lost, so atomic.Pointer, which is common, is
// declared here.
type house struct {
	set   *token.FileSet
	known map[string]*types.Package
}

const pointerSource = `package atomic

type Pointer[T any] struct{ _ *T }

func (*Pointer[T]) Load() *T                { return nil }
func (*Pointer[T]) Swap(*T) *T              { return nil }
func (*Pointer[T]) Store(*T)                {}
func (*Pointer[T]) CompareAndSwap(_, _ *T) bool { return false }
`

// Import implements types.Importer.
func (h *house) Import(name string) (*types.Package, error) {
	if p := h.known[name]; p != nil {
		return p, nil
	}
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	var err error
	switch {
	case name == "sync/atomic":
		p, err = h.checkFiles(name, nil, map[string]any{"atomic.go": pointerSource})
	case strings.HasPrefix(name, "lockd/"):
		p, err = h.check(name, nil)
	}
	h.known[name] = p
	return p, err
}

// check reads a package of the house. That types are unknown is no error.
func (h *house) check(name string, into *sourceFiles) (*types.Package, error) {
	dir := filepath.Join("..", "..", filepath.FromSlash(strings.TrimPrefix(name, "lockd/")))
	found, err := build.Default.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	sources := map[string]any{}
	for _, file := range found.GoFiles {
		sources[filepath.Join(dir, file)] = nil // the disk has it
	}
	return h.checkFiles(name, into, sources)
}

func (h *house) checkFiles(name string, into *sourceFiles, sources map[string]any) (*types.Package, error) {
	var list []*ast.File
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		f, err := parser.ParseFile(h.set, file, sources[file], parser.ParseComments)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
		if into != nil {
			into.syntax[filepath.Base(file)] = f
		}
	}
	config := types.Config{Importer: h, Error: func(error) {}, IgnoreFuncBodies: into == nil}
	info := &types.Info{}
	if into != nil {
		info = into.info
	}
	p, _ := config.Check(name, h.set, list, info)
	if p == nil {
		return nil, errors.New(name + " cannot be read")
	}
	return p, nil
}
