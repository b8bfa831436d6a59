package main

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// Bounds of what a reader has to know at once.
const (
	methodsMax = 25 // methods of one type
	filesMax   = 25 // files of one package, without doc.go
)

// larger lists what does not keep the bounds, with the number that it may not pass. The parser has a method for each
// production of Lua's grammar.
var larger = map[string]int{
	"lockd/luavm/compiler.parser": 36,
}

// most returns the bound of a type or a package.
func most(name string, usual int) int {
	if n, ok := larger[name]; ok {
		return n
	}
	return usual
}

// No type has more methods, and no package more files, than a reader can hold.
func TestTypesAndPackagesAreSmall(t *testing.T) {
	files, methods := map[string]int{}, map[string]int{}
	for _, f := range sources(t) {
		if filepath.Base(f.path) != "doc.go" {
			files[f.pkg]++
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[f.pkg+"."+receiver(fn.Recv.List[0].Type)]++
			}
		}
	}
	if len(files) == 0 || len(methods) == 0 {
		t.Fatal("nothing was counted")
	}
	for _, pkg := range slices.Sorted(maps.Keys(files)) {
		if n, bound := files[pkg], most(pkg, filesMax); n > bound {
			t.Errorf("%s has %d files, more than %d: what knows less of the others is a package of its own", pkg, n, bound)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n, bound := methods[name], most(name, methodsMax); n > bound {
			t.Errorf("%s has %d methods, more than %d: state that belongs together is a type of its own", name, n, bound)
		}
	}
}

// receiver returns the name of a method's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
