package mutation

import (
	"bytes"
	"go/ast"
	"go/parser"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// calc is a package whose tests notice some mistakes.
const calc = `package calc

import "time"

const Most = 3

type Counter struct{ n int }

// Add adds, up to Most.
func (c *Counter) Add(by int) bool {
	if c.n+by > Most {
		return false
	}
	c.n += by
	return true
}

func (c *Counter) reset() { c.n = zero() }

func (c *Counter) Again() { c.reset() }

func zero() int { return 0 }

func Wait(d time.Duration) time.Duration { return max(d, 2*time.Second) }

func Endless(n int) (sum int) {
	for i := n; i > 0; {
		sum, i = sum+1, i-1
	}
	return sum
}

func unused(a, b bool) bool { return a && b }
`

const calcTest = `package calc

import (
	"testing"
	"time"
)

func TestAdd(t *testing.T) {
	var c Counter
	if !c.Add(3) || c.Add(1) {
		t.Error(c.n)
	}
}

func TestAgain(t *testing.T) {
	c := Counter{1}
	if c.Again(); c.n != 0 {
		t.Error(c.n)
	}
}

func TestWait(t *testing.T) {
	if Wait(time.Minute) != time.Minute {
		t.Error()
	}
}

func TestEndless(t *testing.T) {
	if Endless(2) != 2 {
		t.Error()
	}
}

func TestBroken(t *testing.T) { t.Error("it fails without a mutant, too") }
`

// calcRuns stands for jepsen-lite, and finds some mistakes of calc.
const calcRuns = `package main

import (
	"fmt"
	"os"

	"lockd/calc"
)

func main() {
	fmt.Println("output in a folder")
	if calc.Endless(2); !new(calc.Counter).Add(3) {
		fmt.Println("seed 7: too few: a folder")
		os.Exit(1)
	}
}
`

// module writes a module with the package calc.
func module(t *testing.T, text string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module lockd\n\ngo 1.26\n", "calc/calc.go": text, "calc/calc_test.go": calcTest,
		"jepsen-lite/main.go": calcRuns,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func changes(s *Set) (all []string) {
	for _, m := range s.Mutants {
		all = append(all, m.ID+" "+m.Change())
	}
	return all
}

// Mutants have ids by function, ordinal and kind, which lines above and other functions do not change.
func TestFind(t *testing.T) {
	s, err := Find(module(t, calc), Package{Folder: "calc"})
	if err != nil {
		t.Fatal(err)
	}
	have := changes(s)
	want := []string{
		"calc/calc.go:Counter.Add:1:swap c.n+by > Most -> !(c.n+by > Most)",
		"calc/calc.go:Counter.Add:1:gt-ge c.n+by > Most -> c.n+by >= Most",
		"calc/calc.go:Counter.Add:1:plus-minus c.n+by -> c.n - by",
		"calc/calc.go:Counter.Add:1:false-true false -> true",
		"calc/calc.go:Counter.Add:2:plus-minus c.n += by -> c.n -= by",
		"calc/calc.go:Counter.Add:1:true-false true -> false",
		"calc/calc.go:Counter.reset:1:drop c.n = zero() -> nothing",
		"calc/calc.go:Counter.Again:1:drop c.reset() -> nothing",
		"calc/calc.go:zero:1:plus-one 0 -> 0+1",
		"calc/calc.go:Wait:1:max-min max(d, 2*time.Second) -> min(d, 2*time.Second)",
		"calc/calc.go:Wait:1:plus-one 2 -> 2+1",
		"calc/calc.go:Endless:1:gt-ge i > 0 -> i >= 0",
		"calc/calc.go:Endless:1:plus-one 0 -> 0+1",
		"calc/calc.go:Endless:1:plus-minus sum+1 -> sum - 1",
		"calc/calc.go:Endless:2:plus-one 1 -> 1+1",
		"calc/calc.go:Endless:1:minus-plus i-1 -> i + 1",
		"calc/calc.go:Endless:3:plus-one 1 -> 1+1",
		"calc/calc.go:unused:1:and-or a && b -> a || b",
	}
	if !slices.Equal(have, want) {
		t.Errorf("%s", strings.Join(have, "\n"))
	}
	moved := strings.Replace(calc, "const Most", "func more(n int) bool { return n < 1 }\n\nconst Most", 1)
	s, err = Find(module(t, moved), Package{Folder: "calc"})
	if err != nil {
		t.Fatal(err)
	}
	after := slices.DeleteFunc(changes(s), func(c string) bool { return strings.Contains(c, ":more:") })
	if !slices.Equal(after, want) {
		t.Errorf("with a function more:\n%s", strings.Join(after, "\n"))
	}
}

// Of a package that names functions, methods or types only those have mutants, with the ids that they have anyway.
func TestFindOf(t *testing.T) {
	root := module(t, calc)
	all, err := Find(root, Package{Folder: "calc"})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct{ of, has []string }{
		{[]string{"Counter"}, []string{"Counter.Add", "Counter.reset", "Counter.Again"}},
		{[]string{"Counter.reset", "Wait"}, []string{"Counter.reset", "Wait"}},
	} {
		s, err := Find(root, Package{Folder: "calc", Of: one.of})
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(changes(all), func(c string) bool { return !slices.Contains(one.has, strings.Split(c, ":")[1]) })
		if have := changes(s); !slices.Equal(have, want) {
			t.Errorf("%v:\n%s", one.of, strings.Join(have, "\n"))
		}
	}
	if _, err := Find(root, Package{Folder: "calc", Of: []string{"Wait", "gone"}}); err == nil {
		t.Error("a name that nothing has is found")
	}
}

// A mutant that no test notices lives, one that makes a test fail or run for ever is killed, one that is judged is not
// run.
func TestRun(t *testing.T) {
	root := module(t, calc)
	s, err := Find(root, Package{Folder: "calc"})
	if err != nil {
		t.Fatal(err)
	}
	judged, err := judge("calc/calc.go:Wait:1:plus-one\n\t2 -> 2+1\n\tA reason\n\tin two lines.\n")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	r := &Runner{Root: root, Dir: t.TempDir(), Out: &said, TestTime: time.Minute, Judged: judged, Side: 2}
	results, err := r.Run(t.Context(), Package{Folder: "calc", Tests: []string{"calc"}}, s, s.Mutants)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ // the others are killed
		"calc/calc.go:Wait:1:plus-one":      "equivalent",
		"calc/calc.go:Endless:1:gt-ge":      "killed by calc TestEndless",
		"calc/calc.go:Endless:1:plus-one":   "killed by calc TestEndless",
		"calc/calc.go:unused:1:and-or":      "ALIVE by no test reaches it",
		"calc/calc.go:Counter.Again:1:drop": "killed by calc TestAgain",
	}
	for _, one := range results {
		have := one.Fate.String()
		if one.Fate != Equal {
			have += " by " + one.By
		}
		if w := want[one.ID]; w != "" && w != have || w == "" && one.Fate != Killed {
			t.Errorf("%s: %s", one.ID, have)
		}
	}
	if !strings.Contains(said.String(), "calc: without TestBroken") {
		t.Errorf("a test that fails without a mutant: %s", &said)
	}
}

// A mutant that no test notices is looked for in simulated runs, which may fail, or go on for ever.
func TestSimulate(t *testing.T) {
	s, err := Find(module(t, calc), Package{Folder: "calc"})
	if err != nil {
		t.Fatal(err)
	}
	of := func(id string) *Mutant {
		return s.Mutants[slices.IndexFunc(s.Mutants, func(m *Mutant) bool { return m.ID == "calc/calc.go:"+id })]
	}
	var said bytes.Buffer
	r := &Runner{Root: filepath.Dir(s.pkg.dir), Dir: t.TempDir(), Out: &said, Sim: time.Second, Side: 1}
	results, err := r.Run(t.Context(), Package{Folder: "calc", Tests: []string{"calc"}}, s, []*Mutant{of("Counter.Add:1:gt-ge"), of("unused:1:and-or")})
	if err != nil {
		t.Fatal(err)
	}
	if one := results[0]; one.Fate != Caught || one.By != "seed 7: too few: a folder" || !strings.Contains(said.String(), one.By) {
		t.Errorf("%s by %s: %s", one.Fate, one.By, &said)
	}
	if strings.Contains(said.String(), "without a mutant") {
		t.Errorf("tests run without a time for them: %s", &said)
	}
	if one := results[1]; one.Fate != Alive {
		t.Errorf("%s by %s", one.Fate, one.By)
	}
	built, err := filepath.Glob(filepath.Join(r.Dir, "*", "jepsen-lite"))
	if err != nil || len(built) != 1 {
		t.Fatalf("%v, %v", built, err)
	}
	problem, err := r.campaign(t.Context(), built[0], r.Dir, of("Endless:1:minus-plus").number, 100*time.Millisecond)
	if problem != "a run does not end" || err != nil {
		t.Errorf("a run without an end: %q, %v", problem, err)
	}
}

// What lockd's packages become with mutants has the right types, and what is judged is there.
func TestPackages(t *testing.T) {
	judged, err := Judge()
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, p := range Packages {
		s, err := Find("../..", p)
		if err != nil {
			t.Fatal(err)
		}
		for _, wrong := range judged.Stale(p.Folder, s) {
			t.Errorf("equivalent.txt: %s", wrong)
		}
		for _, m := range s.Mutants {
			if judged[m.ID] != nil {
				known++
			}
		}
		var files []*ast.File
		for _, file := range s.pkg.files {
			if s.inserts[file] == nil {
				files = append(files, file.ast)
			}
		}
		for name, text := range s.sources() {
			file, err := parser.ParseFile(s.pkg.fset, name, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		slices.SortFunc(files, func(a, b *ast.File) int {
			return strings.Compare(s.pkg.fset.File(a.Pos()).Name(), s.pkg.fset.File(b.Pos()).Name())
		})
		if _, _, err := s.pkg.check(files); err != nil {
			t.Errorf("%s: %v", p.Folder, err)
		}
	}
	if known != len(judged) {
		t.Errorf("%d mutants are judged, %d of them are in no package", len(judged), len(judged)-known)
	}
}

// A line of equivalent.txt that nobody can check is an error.
func TestJudge(t *testing.T) {
	for _, wrong := range []string{
		"a\n\tx -> y\n", "\tx -> y\n", "a\n\tx -> y\n\twhy\na\n\tx -> y\n\twhy\n",
	} {
		if _, err := judge(wrong); err == nil {
			t.Errorf("%q is read", wrong)
		}
	}
	stale, err := judge("calc/calc.go:zero:1:plus-one\n\t1 -> 1+1\n\twhy\n\ncalc/calc.go:gone:1:drop\n\tf() -> nothing\n\twhy\n")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Find(module(t, calc), Package{Folder: "calc"})
	if err != nil {
		t.Fatal(err)
	}
	wrong := stale.Stale("calc", s)
	slices.Sort(wrong)
	want := []string{"calc/calc.go:gone:1:drop is no more", "calc/calc.go:zero:1:plus-one changes 0 -> 0+1, not 1 -> 1+1"}
	if !slices.Equal(wrong, want) {
		t.Errorf("%q", wrong)
	}
}
