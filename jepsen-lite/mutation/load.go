package mutation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// loaded is a package with its types.
type loaded struct {
	folder string // of the repository, as in keyspace/lock
	dir    string
	name   string
	fset   *token.FileSet
	files  []*source
	info   *types.Info
	of     *types.Package
	deps   types.Importer
}

// source is a file of a package.
type source struct {
	path string // in the repository, with slashes
	file string // on this machine
	text string
	ast  *ast.File
}

// listed has the fields of a package that go list prints.
type listed struct {
	Dir, ImportPath, Name, Export string
	GoFiles                       []string
}

// load parses and checks a package of the module in root.
func load(root, folder string) (*loaded, error) {
	cmd := exec.Command("go", append(
		[]string{"list", "-export", "-deps", "-json=Dir,ImportPath,Name,Export,GoFiles", "./" + folder}, helpersUse...,
	)...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = root, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w\n%s", folder, err, &stderr)
	}
	p, exports := &loaded{folder: folder, fset: token.NewFileSet()}, map[string]string{}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := in.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if exports[l.ImportPath] = l.Export; l.ImportPath == "lockd/"+folder {
			if err := p.parse(l); err != nil {
				return nil, err
			}
		}
	}
	p.deps = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	p.of, p.info, err = p.check(p.asts())
	return p, err
}

// parse parses the files of the package.
func (p *loaded) parse(l listed) error {
	p.dir, p.name = l.Dir, l.Name
	for _, name := range l.GoFiles {
		s := &source{path: path.Join(p.folder, name), file: filepath.Join(l.Dir, name)}
		text, err := os.ReadFile(s.file)
		if err == nil {
			s.text = string(text)
			s.ast, err = parser.ParseFile(p.fset, s.file, text, parser.ParseComments|parser.SkipObjectResolution)
		}
		if err != nil {
			return err
		}
		p.files = append(p.files, s)
	}
	return nil
}

func (p *loaded) asts() (files []*ast.File) {
	for _, s := range p.files {
		files = append(files, s.ast)
	}
	return files
}

// check finds the types of files of the package.
func (p *loaded) check(files []*ast.File) (*types.Package, *types.Info, error) {
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Implicits: map[ast.Node]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	of, err := (&types.Config{Importer: p.deps}).Check("lockd/"+p.folder, p.fset, files, info)
	return of, info, err
}

// spelled returns a type as the file spells it; false: the file cannot name it.
func (p *loaded) spelled(in *source, t types.Type) (name string, ok bool) {
	ok = true
	name = types.TypeString(t, func(of *types.Package) string {
		if of == p.of {
			return ""
		}
		for _, spec := range in.ast.Imports {
			if imported := p.info.PkgNameOf(spec); imported != nil && imported.Imported() == of {
				return imported.Name()
			}
		}
		ok = false
		return of.Name()
	})
	return name, ok
}
