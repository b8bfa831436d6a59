package main

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bounds of what a reader has to know at once.
const (
	methodsMax = 25 // methods of one type
	filesMax   = 25 // files of one package, without doc.go
)

// bounded are the packages, with those below them, that keep the bounds.
var bounded = []string{"lockd/resp"}

// No type has more methods, and no package more files, than a reader can hold.
func TestTypesAndPackagesAreSmall(t *testing.T) {
	files, methods := map[string]int{}, map[string]int{}
	for _, f := range sources(t) {
		if !slices.ContainsFunc(bounded, func(pkg string) bool { return f.pkg == pkg || strings.HasPrefix(f.pkg, pkg+"/") }) {
			continue
		}
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
		t.Fatal("nothing is bounded")
	}
	for _, pkg := range slices.Sorted(maps.Keys(files)) {
		if n := files[pkg]; n > filesMax {
			t.Errorf("%s has %d files, more than %d: what knows less of the others is a package of its own", pkg, n, filesMax)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > methodsMax {
			t.Errorf("%s has %d methods, more than %d: state that belongs together is a type of its own", name, n, methodsMax)
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
