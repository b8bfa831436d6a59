package main

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
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Nothing logs while it holds a lock: a slow reader of the log would block every user of the lock. The test follows
// every call that a node's code makes between Lock and Unlock of a sync.Mutex or RWMutex, including calls through
// interfaces of this module, function fields and closures. It does not see locks of other modules, or channels used
// as locks.
func TestNothingLogsUnderALock(t *testing.T) {
	for _, problem := range findLoud(t, loadCode(t, nil)) {
		t.Error(problem)
	}
}

// The check finds what it is there for.
func TestLoudCodeIsFound(t *testing.T) {
	const head = `package planted
import ("log/slog"; "sync"; "time")
var _ = time.Second
type part struct { mu sync.Mutex; rw sync.RWMutex; log *slog.Logger; hook func(); to teller; once sync.Once }
type teller interface { tell() }
type loud struct { log *slog.Logger }
func (l loud) tell() { l.log.Warn("x") }
func (p *part) say() { p.log.Info("x") }
func (p *part) deep() { p.say() }
func each(f func()) { f() }
`
	for name, c := range map[string]struct {
		body string
		loud bool
	}{
		"direct":             {`func (p *part) f() { p.mu.Lock(); p.log.Info("x"); p.mu.Unlock() }`, true},
		"deferred unlock":    {`func (p *part) f() { p.mu.Lock(); defer p.mu.Unlock(); p.log.Info("x") }`, true},
		"read lock":          {`func (p *part) f() { p.rw.RLock(); p.log.Info("x"); p.rw.RUnlock() }`, true},
		"after":              {`func (p *part) f() { p.mu.Lock(); p.mu.Unlock(); p.log.Info("x") }`, false},
		"by a function":      {`func (p *part) f() { p.mu.Lock(); defer p.mu.Unlock(); p.deep() }`, true},
		"by an interface":    {`func (p *part) f() { p.mu.Lock(); defer p.mu.Unlock(); p.to.tell() }`, true},
		"by a field":         {`func (p *part) f() { p.hook = p.say; p.mu.Lock(); defer p.mu.Unlock(); p.hook() }`, true},
		"by a closure":       {`func (p *part) f() { p.mu.Lock(); defer p.mu.Unlock(); each(func() { p.say() }) }`, true},
		"by a method value":  {`func (p *part) f() { p.mu.Lock(); defer p.mu.Unlock(); each(p.say) }`, true},
		"by a parameter":     {`func (p *part) under(f func()) { p.mu.Lock(); defer p.mu.Unlock(); f() }; func (p *part) f() { p.under(p.say) }`, true},
		"by none":            {`func (p *part) f() { p.mu.Lock(); each(func() {}); p.mu.Unlock(); each(p.say) }`, false},
		"once":               {`func (p *part) f() { p.mu.Lock(); defer p.mu.Unlock(); p.once.Do(p.say) }`, true},
		"a local function":   {`func (p *part) f() { say := func() { p.say() }; p.mu.Lock(); defer p.mu.Unlock(); say() }`, true},
		"another goroutine":  {`func (p *part) f() { p.mu.Lock(); defer p.mu.Unlock(); go p.say(); time.AfterFunc(1, p.say) }`, false},
		"a branch that ends": {`func (p *part) f(x bool) { p.mu.Lock(); if x { p.mu.Unlock(); p.say(); return }; p.mu.Unlock() }`, false},
		"a branch":           {`func (p *part) f(x bool) { p.mu.Lock(); if x { p.mu.Unlock() }; p.say() }`, true},
		"a loop":             {`func (p *part) f() { for { p.mu.Lock(); select { default: p.say() } ; p.mu.Unlock() } }`, true},
		"deferred":           {`func (p *part) f() { p.mu.Lock(); defer p.mu.Unlock(); defer p.say() }`, true},
		"deferred before":    {`func (p *part) f() { defer p.say(); p.mu.Lock(); defer p.mu.Unlock() }`, false},
		"a lock by a helper": {`func (p *part) lock() { p.mu.Lock() }; func (p *part) f() { p.lock(); p.say(); p.mu.Unlock() }`, true},
		"a condition":        {`func (p *part) f() { if p.mu.TryLock() { p.say(); p.mu.Unlock() } }`, true},
	} {
		found := findLoud(t, loadCode(t, map[string]string{"lockd/planted": head + c.body}))
		if (len(found) > 0) != c.loud {
			t.Errorf("%s: %q", name, found)
		}
	}
}

// The faults by which a full pipe once stopped a cluster, as they were.
func TestKnownLoudCodeIsFound(t *testing.T) {
	const planted = `package planted
import ("context"; "log/slog"; "sync")
type core struct { log *slog.Logger }
type watch struct { *core; mu sync.Mutex }
func (w *watch) refresh() { w.mu.Lock(); defer w.mu.Unlock(); w.logChange() }
func (w *watch) logChange() { w.log.Log(context.Background(), slog.LevelInfo, "this node leads") }
type state struct { *core; mu sync.Mutex; members *members }
type members struct { *core }
func (s *state) apply() { s.mu.Lock(); defer s.mu.Unlock(); s.setRoster() }
func (s *state) setRoster() { s.members.set() }
func (m *members) set() { m.log.Info("the level in force has risen") }
type hub struct { mu sync.Mutex; srv *core; members map[int]bool }
func (h *hub) DropSubscribers() { h.mu.Lock(); defer h.mu.Unlock(); for range h.members { h.drop() } }
func (h *hub) drop() { h.srv.log.Info("subscriber dropped") }
`
	if found := findLoud(t, loadCode(t, map[string]string{"lockd/planted": planted})); len(found) != 3 {
		t.Errorf("%q", found)
	}
}

// quietly are functions that may be called under a lock though they log, with the reason.
var quietly = map[string]string{
	"(*lockd/cmd/lockd.logFlags).dropNotice": "it writes into memory",
	"(*lockd/cluster.core).fatal":            "the process ends, and the wait for its last words is bounded",
	"(*lockd/resp/server.execution).timed": "under the hub's lock EXEC runs only what asks nobody, and those commands leave " +
		"their lines to session.tell",
	"(*lockd/resp/server.session).runHubLocked": "likewise a command of a row that is hubLocked",
}

// nodeCode is the code of a node, with its types.
type nodeCode struct {
	fset  *token.FileSet
	info  *types.Info
	files []*ast.File
	pkgs  []*types.Package
}

// listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// loadCode reads the packages that a node is made of, or in their place a planted one.
func loadCode(t *testing.T, planted map[string]string) *nodeCode {
	t.Helper()
	h := &nodeCode{fset: token.NewFileSet(), info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	exports, own, known := map[string]string{}, []listed{}, map[string]*types.Package{}
	for _, p := range goList(t) {
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, "lockd/") && planted == nil {
			own = append(own, p)
		}
	}
	gc := importer.ForCompiler(h.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data of " + path)
		}
		return os.Open(exports[path])
	})
	conf := types.Config{Importer: importFunc(func(path string) (*types.Package, error) {
		if p := known[path]; p != nil {
			return p, nil
		}
		return gc.Import(path)
	})}
	check := func(path string, files []*ast.File) {
		p, err := conf.Check(path, h.fset, files, h.info)
		if err != nil {
			t.Fatal(err)
		}
		known[path], h.pkgs, h.files = p, append(h.pkgs, p), append(h.files, files...)
	}
	for _, p := range own { // go list -deps has what is imported first
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(h.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		check(p.ImportPath, files)
	}
	for path, text := range planted {
		f, err := parser.ParseFile(h.fset, path+".go", text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		check(path, []*ast.File{f})
	}
	return h
}

type importFunc func(string) (*types.Package, error)

func (f importFunc) Import(path string) (*types.Package, error) { return f(path) }

var goListed []listed

func goList(t *testing.T) []listed {
	t.Helper()
	if goListed != nil {
		return goListed
	}
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", ".")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.ImportPath != "unsafe" {
			goListed = append(goListed, p)
		}
	}
	return goListed
}

// code is a function: one that is declared, or a closure.
type code struct {
	name string
	body *ast.BlockStmt

	calls []*calling // in the order of the code
	why   string     // how it comes to log; "": it does not
	keeps bool       // it returns with a lock held
}

// calling is a call, with the locks that are held there.
type calling struct {
	at   token.Pos
	held []string
	to   []any // *types.Func, *types.Var of functions, *ast.FuncLit
	log  bool
}

// loud finds the calls that log.
type loud struct {
	*nodeCode
	funcs   map[any]*code // by *types.Func or *ast.FuncLit
	values  map[*types.Var][]any
	params  map[*types.Var]bool
	methods []*types.Func
}

// findLoud says where the log is written under a lock.
func findLoud(t *testing.T, h *nodeCode) []string {
	t.Helper()
	l := &loud{nodeCode: h, funcs: map[any]*code{}, values: map[*types.Var][]any{}, params: map[*types.Var]bool{}}
	l.collect()
	for range 2 { // the second pass knows which functions return with a lock held
		for _, c := range l.funcs {
			c.calls = nil
			w := &walk{l: l, of: c}
			held, ended := w.block(c.body.List, nil)
			c.keeps = !ended && len(held) > len(w.deferred)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, c := range l.sorted() {
			if c.why == "" && quietly[c.name] == "" {
				c.why = l.whyLoud(c)
				changed = changed || c.why != ""
			}
		}
	}
	var found []string
	for _, c := range l.sorted() {
		for _, call := range c.calls {
			if why := l.why(call); why != "" && len(call.held) > 0 {
				found = append(found, fmt.Sprintf("%s: %s logs while it holds %s: %s", l.fset.Position(call.at), c.name,
					strings.Join(call.held, ", "), why))
			}
		}
	}
	return found
}

func (l *loud) sorted() []*code {
	return slices.SortedFunc(maps.Values(l.funcs), func(a, b *code) int { return int(a.body.Pos() - b.body.Pos()) })
}

// whyLoud returns the call by which a function logs.
func (l *loud) whyLoud(c *code) string {
	for _, call := range c.calls {
		if v, ok := first(call.to).(*types.Var); ok && l.params[v] {
			continue // reported at the callers, which know the argument
		}
		if why := l.why(call); why != "" {
			return why
		}
	}
	return ""
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// why returns the chain by which a call logs.
func (l *loud) why(call *calling) string {
	if call.log {
		return "the log"
	}
	for _, to := range l.targets(call.to, map[any]bool{}) {
		if c := l.funcs[to]; c != nil && c.why != "" {
			return c.name + " > " + c.why
		}
	}
	return ""
}

// targets are the functions that are called: those of a variable, those that implement a method.
func (l *loud) targets(to []any, seen map[any]bool) (all []any) {
	for _, one := range to {
		if seen[one] {
			continue
		}
		seen[one] = true
		switch v := one.(type) {
		case *types.Var:
			all = append(all, l.targets(l.values[v], seen)...)
		case *types.Func:
			recv := v.Signature().Recv()
			if recv == nil || !types.IsInterface(recv.Type()) {
				all = append(all, v.Origin())
				continue
			}
			iface, _ := recv.Type().Underlying().(*types.Interface)
			for _, m := range l.methods {
				if m.Name() == v.Name() && iface != nil && types.Implements(m.Signature().Recv().Type(), iface) {
					all = append(all, m)
				}
			}
		default:
			all = append(all, v)
		}
	}
	return all
}

// collect finds all functions, and the variables that functions are assigned to.
func (l *loud) collect() {
	for _, f := range l.files {
		name := ""
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				fn := l.info.Defs[n.Name].(*types.Func)
				if name = fn.FullName(); n.Body != nil {
					l.funcs[fn] = &code{name: name, body: n.Body}
				}
				if fn.Signature().Recv() != nil {
					l.methods = append(l.methods, fn)
				}
			case *ast.FuncLit:
				l.funcs[n] = &code{name: "a closure in " + name, body: n.Body}
			case *ast.CallExpr:
				if fn, ok := l.funcOf(n.Fun).(*types.Func); ok {
					l.pass(fn, n.Args)
				}
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					l.assign(l.info.Uses[id], n.Value)
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if len(n.Lhs) == len(n.Rhs) {
						l.assign(l.objectOf(left), n.Rhs[i])
					}
				}
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if len(n.Names) == len(n.Values) {
						l.assign(l.info.Defs[id], n.Values[i])
					}
				}
			}
			return true
		})
	}
}

func (l *loud) assign(to types.Object, value ast.Expr) {
	if v, ok := to.(*types.Var); ok {
		if f := l.funcOf(value); f != nil && f != any(v) {
			l.values[v] = append(l.values[v], f)
		}
	}
}

// pass notes what the parameters of a function are given. The caller is held to what they do, see runsArgs; the function
// only where it has taken a lock itself.
func (l *loud) pass(fn *types.Func, args []ast.Expr) {
	params := fn.Origin().Signature().Params()
	for i, a := range args {
		if i < params.Len() {
			l.assign(params.At(i), a)
			l.params[params.At(i)] = true
		}
	}
}

// objectOf returns the object of a name or a selector.
func (l *loud) objectOf(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if o := l.info.Defs[e]; o != nil {
			return o
		}
		return l.info.Uses[e]
	case *ast.SelectorExpr:
		return l.info.Uses[e.Sel]
	case *ast.IndexExpr: // of a generic function
		return l.objectOf(e.X)
	}
	return nil
}

// funcOf is the function that an expression is, or the variable that has one; nil if it is none.
func (l *loud) funcOf(e ast.Expr) any {
	if lit, ok := ast.Unparen(e).(*ast.FuncLit); ok {
		return lit
	}
	switch o := l.objectOf(e).(type) {
	case *types.Func:
		return o
	case *types.Var:
		if _, ok := o.Type().Underlying().(*types.Signature); ok {
			return o
		}
	}
	return nil
}

// walk goes through the code of one function.
type walk struct {
	l        *loud
	of       *code
	deferred []string // locks that are given back at the end
}

// block walks statements, and returns the locks held after them, unless they never end there.
func (w *walk) block(list []ast.Stmt, held []string) (after []string, ended bool) {
	for _, s := range list {
		if held, ended = w.stmt(s, held); ended {
			return held, true
		}
	}
	return held, false
}

// branches joins what is held after each.
func (w *walk) branches(held []string, all bool, lists ...[]ast.Stmt) ([]string, bool) {
	var after []string
	open := !all
	if open {
		after = held
	}
	for _, list := range lists {
		if one, ended := w.block(list, held); !ended {
			open = true
			for _, lock := range one {
				if !slices.Contains(after, lock) {
					after = append(slices.Clone(after), lock)
				}
			}
		}
	}
	return after, !open
}

func (w *walk) stmt(s ast.Stmt, held []string) ([]string, bool) {
	switch s := s.(type) {
	case nil:
	case *ast.BlockStmt:
		return w.block(s.List, held)
	case *ast.LabeledStmt:
		return w.stmt(s.Stmt, held)
	case *ast.IfStmt:
		held, _ = w.stmt(s.Init, held)
		after := w.expr(s.Cond, held)
		if s.Else == nil {
			return w.branches(after, false, s.Body.List)
		}
		return w.branches(after, true, s.Body.List, []ast.Stmt{s.Else})
	case *ast.ForStmt:
		held, _ = w.stmt(s.Init, held)
		held = w.expr(s.Cond, held)
		after, _ := w.branches(held, false, s.Body.List)
		return after, false
	case *ast.RangeStmt:
		held = w.expr(s.X, held)
		after, _ := w.branches(held, false, s.Body.List)
		return after, false
	case *ast.SwitchStmt:
		held, _ = w.stmt(s.Init, held)
		return w.cases(s.Body, w.expr(s.Tag, held))
	case *ast.TypeSwitchStmt:
		held, _ = w.stmt(s.Init, held)
		held, _ = w.stmt(s.Assign, held)
		return w.cases(s.Body, held)
	case *ast.SelectStmt:
		return w.cases(s.Body, held)
	case *ast.ReturnStmt:
		for _, e := range s.Results {
			held = w.expr(e, held)
		}
		return held, true
	case *ast.BranchStmt:
		return held, true
	case *ast.GoStmt:
		for _, e := range s.Call.Args {
			held = w.expr(e, held)
		}
	case *ast.DeferStmt:
		if name, lock := w.lockOf(s.Call); lock == "unlock" {
			w.deferred = append(w.deferred, name)
			return held, false
		}
		w.call(s.Call, held)
	case *ast.ExprStmt:
		return w.expr(s.X, held), false
	case *ast.AssignStmt:
		for _, e := range s.Rhs {
			held = w.expr(e, held)
		}
	case *ast.DeclStmt:
		ast.Inspect(s, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for _, e := range spec.Values {
					held = w.expr(e, held)
				}
			}
			return true
		})
	case *ast.SendStmt:
		held = w.expr(s.Value, w.expr(s.Chan, held))
	}
	return held, false
}

func (w *walk) cases(body *ast.BlockStmt, held []string) ([]string, bool) {
	var lists [][]ast.Stmt
	all := false
	for _, c := range body.List {
		switch c := c.(type) {
		case *ast.CaseClause:
			all = all || c.List == nil
			for _, e := range c.List {
				held = w.expr(e, held)
			}
			lists = append(lists, c.Body)
		case *ast.CommClause:
			all = true
			lists = append(lists, append([]ast.Stmt{c.Comm}, c.Body...))
		}
	}
	after, _ := w.branches(held, all, lists...) // a break ends only its case
	return after, false
}

// expr walks the calls in an expression, the inner ones first.
func (w *walk) expr(e ast.Expr, held []string) []string {
	if e == nil {
		return held
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // walked by itself
		case *ast.CallExpr:
			held = w.expr(n.Fun, held)
			for _, a := range n.Args {
				held = w.expr(a, held)
			}
			held = w.call(n, held)
			return false
		}
		return true
	})
	return held
}

// call notes a call, and takes or gives back a lock.
func (w *walk) call(call *ast.CallExpr, held []string) []string {
	switch name, lock := w.lockOf(call); lock {
	case "lock":
		if !slices.Contains(held, name) {
			held = append(slices.Clone(held), name)
		}
		return held
	case "unlock":
		return slices.DeleteFunc(slices.Clone(held), func(s string) bool { return s == name || strings.HasPrefix(s, "what ") })
	}
	c := &calling{at: call.Pos(), held: held}
	f := w.l.funcOf(call.Fun)
	if f != nil {
		c.to = append(c.to, f)
	}
	fn, _ := f.(*types.Func)
	if fn != nil && fn.Pkg() != nil {
		c.log = fn.Pkg().Path() == "log/slog" && logMethods[fn.Name()] || w.isStderr(fn, call)
	}
	if runsArgs(fn) {
		for _, a := range call.Args {
			if f := w.l.funcOf(a); f != nil {
				c.to = append(c.to, f)
			}
		}
	}
	w.of.calls = append(w.of.calls, c)
	if kept := w.l.funcs[f]; kept != nil && kept.keeps {
		held = append(slices.Clone(held), "what "+kept.name+" locks")
	}
	return held
}

// logMethods are the methods of slog.Logger, and functions of slog, that write.
var logMethods = map[string]bool{
	"Debug": true, "Info": true, "Warn": true, "Error": true, "Log": true, "LogAttrs": true,
	"DebugContext": true, "InfoContext": true, "WarnContext": true, "ErrorContext": true,
}

// isStderr reports whether a call writes to os.Stderr by fmt.
func (w *walk) isStderr(fn *types.Func, call *ast.CallExpr) bool {
	if fn.Pkg().Path() != "fmt" || !strings.HasPrefix(fn.Name(), "Fprint") || len(call.Args) == 0 {
		return false
	}
	o := w.l.objectOf(call.Args[0])
	return o != nil && o.Pkg() != nil && o.Pkg().Path() == "os" && o.Name() == "Stderr"
}

// runsArgs reports whether a function may call those that it is given before it returns. Of the standard library
// few do.
func runsArgs(fn *types.Func) bool {
	if fn == nil || fn.Pkg() == nil {
		return true
	}
	switch pkg := fn.Pkg().Path(); {
	case strings.HasPrefix(pkg, "lockd/"), pkg == "slices", pkg == "maps", pkg == "sort", pkg == "strings", pkg == "bytes":
		return true
	case pkg == "sync":
		return fn.Name() == "Do" // of Once; Go of WaitGroup starts a goroutine
	}
	return false
}

// lockOf says whether a call takes or gives back a lock, and which.
func (w *walk) lockOf(call *ast.CallExpr) (name, what string) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	fn, ok := w.l.info.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Pkg().Path() != "sync" {
		return "", ""
	}
	switch fn.Name() {
	case "Lock", "RLock", "TryLock", "TryRLock":
		return types.ExprString(sel.X), "lock"
	case "Unlock", "RUnlock":
		return types.ExprString(sel.X), "unlock"
	}
	return "", ""
}
