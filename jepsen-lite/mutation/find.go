package mutation

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

// Mutant is one mistake.
type Mutant struct {
	// ID is file:function:ordinal:kind. The ordinal counts the mutants of that kind in that function, from 1.
	ID       string
	Line     int    // in its file
	Old, New string // the text that differs, in one line; the beginning of a long one
	number   int    // that chooses it in a build, from 1
}

// Change tells what the mutant changes.
func (m *Mutant) Change() string { return m.Old + " -> " + m.New }

// Set has all mutants of a package.
type Set struct {
	Mutants []*Mutant
	pkg     *loaded
	inserts map[*source][]insertion
}

// Find finds the mutants of a package of the module in root. A name in Of that nothing has is an error.
func Find(root string, of Package) (*Set, error) {
	p, err := load(root, of.Folder)
	if err != nil {
		return nil, err
	}
	s := &Set{pkg: p, inserts: map[*source][]insertion{}}
	found := map[string]bool{}
	for _, file := range p.files {
		for _, decl := range file.ast.Decls {
			f := &finder{Set: s, in: file, function: named(decl), ordinals: map[kind]int{}, not: map[ast.Node]bool{}}
			owner, _, _ := strings.Cut(f.function, ".")
			found[f.function], found[owner] = true, true
			if of.Of == nil || slices.Contains(of.Of, f.function) || slices.Contains(of.Of, owner) {
				ast.Inspect(decl, f.visit)
			}
		}
	}
	for _, name := range of.Of {
		if !found[name] {
			return nil, fmt.Errorf("%s has no %s", of.Folder, name)
		}
	}
	return s, nil
}

// named returns the name of a declaration: of a method with its type, of others the first one that it declares.
func named(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		return receiver(d.Recv.List[0].Type) + "." + d.Name.Name
	case *ast.GenDecl:
		if spec, ok := d.Specs[0].(*ast.ValueSpec); ok {
			return spec.Names[0].Name
		}
	}
	return ""
}

func receiver(of ast.Expr) string {
	switch t := of.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// finder finds the mutants of a declaration.
type finder struct {
	*Set
	in       *source
	function string
	ordinals map[kind]int
	not      map[ast.Node]bool // nodes of which there are no mutants, with all below them
}

// visit finds the mutants of a node, and reports whether there may be more below it.
func (f *finder) visit(n ast.Node) bool {
	if n == nil || f.not[n] {
		return false
	}
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType:
		f.not[n.Len] = n.Len != nil
	case *ast.CompositeLit:
		f.list(n)
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.CommClause:
		f.statements(n.Body)
	case *ast.IfStmt:
		f.condition(n.Cond)
	case *ast.SwitchStmt:
		f.cases(n)
	case *ast.AssignStmt:
		f.added(n)
	case ast.Expr:
		return f.expression(n)
	}
	return true
}

// expression finds the mutants of an expression.
func (f *finder) expression(n ast.Expr) (below bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		return f.call(n)
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.BasicLit:
		f.number(n)
	case *ast.Ident:
		f.word(n)
	}
	return true
}

// list leaves out the indexes of a list, which are constants.
func (f *finder) list(n *ast.CompositeLit) {
	switch f.pkg.info.TypeOf(n).Underlying().(type) {
	case *types.Array, *types.Slice:
		for _, e := range n.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				f.not[pair.Key] = true
			}
		}
	}
}

// statements finds the statements of a list that may be dropped, and those that count.
func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			f.drop(s, s.X)
		case *ast.DeferStmt:
			f.drop(s, s.Call)
		case *ast.GoStmt:
			f.drop(s, s.Call)
		case *ast.AssignStmt:
			if s.Tok == token.ASSIGN {
				f.drop(s, s.Rhs[0])
			}
		case *ast.IncDecStmt:
			f.count(s)
		}
	}
}

// drop adds the mutant without a statement, if what it does is a call.
func (f *finder) drop(s ast.Stmt, what ast.Expr) {
	call, ok := what.(*ast.CallExpr)
	if !ok || f.isBuiltin(call.Fun, "panic") || f.logs(call) || f.pkg.info.Types[call.Fun].IsType() {
		return
	}
	m := f.add(drop, s, f.text(s), "")
	f.around(s, fmt.Sprintf("if mutantNot(%d) { ", m.number), " }")
}

// count adds the mutant of x++ and x--.
func (f *finder) count(s *ast.IncDecStmt) {
	to := counted[s.Tok]
	other := f.text(s.X) + to.to.String()
	m := f.add(to.kind, s, f.text(s), other)
	f.around(s, fmt.Sprintf("if mutantIs(%d) { %s } else { ", m.number, other), " }")
}

// added adds the mutant of += and -=.
func (f *finder) added(s *ast.AssignStmt) {
	if to, ok := counted[s.Tok]; ok {
		f.negative(to.kind, s, s.Lhs[0], to.to, s.Rhs[0])
	}
}

// condition adds the mutant that swaps the branches of a condition. Of == and != the comparison has the same one.
func (f *finder) condition(cond ast.Expr) {
	if b, ok := ast.Unparen(cond).(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return
	}
	if f.isConstant(cond) {
		return
	}
	m := f.add(swap, cond, f.text(cond), "!("+f.text(cond)+")")
	f.around(cond, "((", fmt.Sprintf(") != mutantIs(%d))", m.number))
}

// cases adds the mutants of the conditions of a switch.
func (f *finder) cases(n *ast.SwitchStmt) {
	if n.Tag != nil {
		return
	}
	for _, c := range n.Body.List {
		for _, cond := range c.(*ast.CaseClause).List {
			f.condition(cond)
		}
	}
}

// call adds the mutants of min and max, and leaves out numbers that only make room.
func (f *finder) call(n *ast.CallExpr) (below bool) {
	if f.isConstant(n) || f.logs(n) {
		return false
	}
	switch {
	case f.isBuiltin(n.Fun, "make"):
		room := 1 // of a map; a channel has it, too, which clients notice
		switch f.pkg.info.TypeOf(n).Underlying().(type) {
		case *types.Slice:
			room = 2
		case *types.Chan:
			room = 3
		}
		for i := room; i < len(n.Args); i++ {
			f.not[n.Args[i]] = true
		}
	case f.isBuiltin(n.Fun, "min"), f.isBuiltin(n.Fun, "max"):
		f.least(n)
	}
	return true
}

// least adds the mutant of min and max.
func (f *finder) least(n *ast.CallExpr) {
	name, ok := f.pkg.spelled(f.in, f.pkg.info.TypeOf(n))
	if !ok {
		return
	}
	to := words[f.text(n.Fun)]
	m := f.add(to.kind, n, f.text(n), to.to+strings.TrimPrefix(f.text(n), f.text(n.Fun)))
	end := f.offset(n.Fun.End())
	f.insert(end, end, "Mutant["+name+"]", "")
	f.insert(f.offset(n.Lparen)+1, f.offset(n.Rparen), fmt.Sprintf("%d, ", m.number), "")
}

// binary adds the mutant of an operator.
func (f *finder) binary(n *ast.BinaryExpr) {
	if f.isConstant(n) {
		return
	}
	to, ok := compared[n.Op]
	if !ok {
		to, ok = joined[n.Op]
	}
	if ok {
		other := f.text(n.X) + " " + to.to.String() + " " + f.text(n.Y)
		m := f.add(to.kind, n, f.text(n), other)
		f.around(n, fmt.Sprintf("(mutantIs(%[1]d) && (%[2]s) || mutantNot(%[1]d) && (", m.number, other), "))")
		return
	}
	if to, ok := counted[n.Op]; ok {
		f.negative(to.kind, n, n.X, to.to, n.Y)
	}
}

// negative adds the mutant that adds instead of subtracting, or the reverse: the right side is negative in it.
func (f *finder) negative(k kind, n ast.Node, x ast.Expr, op token.Token, y ast.Expr) {
	t := f.pkg.info.TypeOf(x)
	if basic, ok := t.Underlying().(*types.Basic); !ok || basic.Info()&types.IsNumeric == 0 || isUntyped(t) {
		return
	}
	name, ok := f.pkg.spelled(f.in, t)
	if !ok {
		return
	}
	m := f.add(k, n, f.text(n), f.text(x)+" "+op.String()+" "+f.text(y))
	f.around(y, fmt.Sprintf("mutantMinus[%s](%d, ", name, m.number), ")")
}

// number adds the mutant of a number.
func (f *finder) number(n *ast.BasicLit) {
	t := f.pkg.info.TypeOf(n)
	if n.Kind != token.INT || isUntyped(t) {
		return
	}
	name, ok := f.pkg.spelled(f.in, t)
	if !ok {
		return
	}
	m := f.add(plusOne, n, n.Value, n.Value+"+1")
	f.around(n, fmt.Sprintf("mutantPlus[%s](%d, ", name, m.number), ")")
}

// word adds the mutant of true and false.
func (f *finder) word(n *ast.Ident) {
	if f.pkg.info.Uses[n] != types.Universe.Lookup(n.Name) || n.Name != "true" && n.Name != "false" {
		return
	}
	to := words[n.Name]
	m := f.add(to.kind, n, n.Name, to.to)
	f.around(n, "(", fmt.Sprintf(" != mutantIs(%d))", m.number))
}

func isUntyped(t types.Type) bool {
	basic, ok := t.(*types.Basic)
	return ok && basic.Info()&types.IsUntyped != 0
}

// isConstant reports whether the compiler knows the value of an expression.
func (f *finder) isConstant(e ast.Expr) bool { return f.pkg.info.Types[e].Value != nil }

func (f *finder) isBuiltin(e ast.Expr, name string) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok || id.Name != name {
		return false
	}
	_, ok = f.pkg.info.Uses[id].(*types.Builtin)
	return ok
}

// loggers are packages whose calls tell people something.
var loggers = []string{"hclog", "slog", "log", "loglimit"}

// logs reports whether a call writes to a log: of that there are no mutants.
func (f *finder) logs(call *ast.CallExpr) bool {
	chosen, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of := f.pkg.info.Uses[chosen.Sel]
	return of != nil && of.Pkg() != nil && slices.Contains(loggers, path.Base(of.Pkg().Path()))
}

// add adds a mutant. The caller adds what makes it.
func (f *finder) add(k kind, n ast.Node, old, other string) *Mutant {
	f.ordinals[k]++
	m := &Mutant{
		ID:     fmt.Sprintf("%s:%s:%d:%s", f.in.path, f.function, f.ordinals[k], k),
		Line:   f.pkg.fset.Position(n.Pos()).Line,
		Old:    brief(old),
		New:    cmp.Or(brief(other), "nothing"),
		number: len(f.Mutants) + 1,
	}
	f.Mutants = append(f.Mutants, m)
	return m
}

// changeMax bounds the characters of a text that a mutant shows.
const changeMax = 100

// brief returns the beginning of a text in one line.
func brief(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if chars := []rune(text); len(chars) > changeMax {
		return string(chars[:changeMax]) + " ..."
	}
	return text
}

func (f *finder) offset(p token.Pos) int { return f.pkg.fset.Position(p).Offset }

// text returns the text of a node.
func (f *finder) text(n ast.Node) string { return f.in.text[f.offset(n.Pos()):f.offset(n.End())] }

// around has texts inserted before and behind a node.
func (f *finder) around(n ast.Node, before, behind string) {
	f.insert(f.offset(n.Pos()), f.offset(n.End()), before, behind)
}

func (f *finder) insert(from, to int, before, behind string) {
	f.inserts[f.in] = append(f.inserts[f.in], insertion{from, to, before, behind})
}
