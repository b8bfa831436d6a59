package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sources are the files of the repository in a build with tags, with the changes of bugs.
type sources struct {
	repo    string
	tags    string
	planted map[string]string // file of the repository -> its changed text
}

// plant plants bugs, each into the result of the one before, and writes the changed and added files into dir. It
// returns the overlay file for go build.
func plant(repo, tags, dir string, bugs ...string) (overlay string, err error) {
	s := &sources{repo: repo, tags: tags, planted: map[string]string{}}
	for _, file := range bugs {
		if err := s.plant(file); err != nil {
			return "", err
		}
	}
	return s.write(dir)
}

// plant plants one bug.
func (s *sources) plant(file string) error {
	b, err := readBug(file)
	if err != nil {
		return err
	}
	for _, c := range b.changes {
		if err := s.apply(c); err != nil {
			return fmt.Errorf("%s: %s: %w", file, c, err)
		}
	}
	return nil
}

// apply makes one change.
func (s *sources) apply(c *change) error {
	if c.added != "" {
		return s.add(c)
	}
	at, err := s.find(c)
	if err != nil {
		return err
	}
	text, err := s.text(at.file)
	if err != nil {
		return err
	}
	changed, err := replaceTokens(text[at.from:at.to], c.old, c.new)
	if err != nil {
		return err
	}
	return s.set(at.file, text[:at.from]+changed+text[at.to:])
}

// add adds a file.
func (s *sources) add(c *change) error {
	file := filepath.Join(s.repo, filepath.FromSlash(c.added))
	if _, err := s.text(file); err == nil {
		return errors.New("there is one already")
	}
	return s.set(file, c.new)
}

// choiceFile is the name of the file that is added to a package whose functions ask which bug is chosen.
const choiceFile = "planted_choice.go"

// choiceText is that file: name of the package, variable of the environment.
const choiceText = `package %s

import "os"

var plantedChoice = os.Getenv(%q)

func plantedIs(bug string) bool { return plantedChoice == bug }
`

// choices are sources with many bugs, of which the environment chooses one when the program starts: a function that bugs
// change has its body, and one more for each of them.
type choices struct {
	sources
	variable string                  // of the environment; its value is the name of a bug
	bodies   map[string][]chosenBody // by file
}

// chosenBody is the body of a function with a bug.
type chosenBody struct {
	bug, text string
	at        int // offset of the body that the function has
	results   bool
}

// plantChoices plants bugs so that variable chooses among them. It returns the overlay file for go build, and those that
// are planted: a bug that changes anything but bodies of functions must be planted alone.
func plantChoices(repo, tags, dir, variable string, bugs ...string) (overlay string, planted []string, err error) {
	c := newChoices(repo, tags, variable)
	for _, file := range bugs {
		fits, err := c.choose(file)
		if err != nil {
			return "", nil, err
		}
		if fits {
			planted = append(planted, file)
		}
	}
	if err := c.join(); err != nil {
		return "", nil, err
	}
	overlay, err = c.write(dir)
	return overlay, planted, err
}

func newChoices(repo, tags, variable string) *choices {
	return &choices{sources{repo, tags, map[string]string{}}, variable, map[string][]chosenBody{}}
}

// choose adds one bug, if it fits beside others.
func (c *choices) choose(file string) (fits bool, err error) {
	b, err := readBug(file)
	if err != nil {
		return false, err
	}
	clean, alone := &sources{c.repo, c.tags, map[string]string{}}, &sources{c.repo, c.tags, map[string]string{}}
	if err := alone.plant(file); err != nil {
		return false, err
	}
	files, bodies := map[string]string{}, map[string][]chosenBody{}
	seen := map[string]bool{}
	for _, change := range b.changes {
		if change.added != "" {
			path := filepath.Join(c.repo, filepath.FromSlash(change.added))
			if files[path] = alone.planted[path]; c.planted[path] != "" || strings.Contains(change.new, "func init()") {
				return false, nil
			}
			continue
		}
		at, err := clean.find(change)
		if err != nil {
			return false, err
		}
		body, fits, err := changedBody(clean, alone, change, at)
		if !fits || err != nil {
			return false, err
		}
		if where := fmt.Sprint(at); !seen[where] {
			seen[where] = true
			body.bug = strings.TrimSuffix(filepath.Base(file), ".bug")
			bodies[at.file] = append(bodies[at.file], body)
		}
	}
	for path, text := range files {
		c.planted[path] = text
	}
	for path, some := range bodies {
		c.bodies[path] = append(c.bodies[path], some...)
	}
	return true, nil
}

// changedBody returns the body that a function has with a bug; it does not fit if more than the body is another one.
func changedBody(clean, alone *sources, c *change, at place) (body chosenBody, fits bool, err error) {
	is, err := alone.find(c)
	if err != nil || is.file != at.file || !strings.HasPrefix(c.decl, "func ") || declName(c.decl) == "func init" {
		return body, false, nil // another name is not found any more
	}
	before, err := clean.function(at)
	if err != nil {
		return body, false, err
	}
	after, err := alone.function(is)
	if err != nil || !slices.EqualFunc(tokens(before.head), tokens(after.head), func(a, b word) bool { return a.is == b.is }) {
		return body, false, err
	}
	return chosenBody{text: after.body, at: at.from + len(before.head), results: after.results}, !after.labels, nil
}

// function is a function in two parts.
type function struct {
	head, body      string // up to and with {, and from there to }
	results, labels bool
}

// function returns the function at a place.
func (s *sources) function(at place) (f function, err error) {
	text, err := s.text(at.file)
	if err != nil {
		return f, err
	}
	const before = "package p; "
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "", before+text[at.from:at.to], parser.SkipObjectResolution)
	if err != nil {
		return f, err
	}
	d := parsed.Decls[0].(*ast.FuncDecl)
	offset := func(pos token.Pos) int { return fset.Position(pos).Offset - len(before) + at.from }
	opens, closes := offset(d.Body.Lbrace)+1, offset(d.Body.Rbrace)
	f = function{head: text[at.from:opens], body: text[opens:closes], results: d.Type.Results != nil}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		_, label := n.(*ast.LabeledStmt)
		f.labels = f.labels || label
		return true
	})
	return f, nil
}

// join writes all bodies into their functions.
func (c *choices) join() error {
	for file, bodies := range c.bodies {
		text, err := c.text(file)
		if err != nil {
			return err
		}
		slices.SortStableFunc(bodies, func(a, b chosenBody) int { return b.at - a.at })
		for _, b := range bodies {
			ends := "\n"
			if !b.results {
				ends = "\nreturn\n"
			}
			text = text[:b.at] + fmt.Sprintf("\nif plantedIs(%q) {", b.bug) + b.text + ends + "}\n" + text[b.at:]
		}
		if err := c.set(file, text); err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		err = c.set(filepath.Join(filepath.Dir(file), choiceFile), fmt.Sprintf(choiceText, parsed.Name.Name, c.variable))
		if err != nil {
			return err
		}
	}
	return nil
}

// text returns the text of a file, with its changes.
func (s *sources) text(file string) (string, error) {
	if text, ok := s.planted[file]; ok {
		return text, nil
	}
	text, err := os.ReadFile(file)
	return string(text), err
}

// set changes the text of a file, formatted by gofmt.
func (s *sources) set(file, text string) error {
	neat, err := format.Source([]byte(text))
	if err != nil {
		return fmt.Errorf("%s does not parse after it: %w", filepath.Base(file), err)
	}
	s.planted[file] = string(neat)
	return nil
}

// place is the position of a declaration: a range of bytes of a file, without the comment above it.
type place struct {
	file     string
	from, to int
}

// find finds the declaration of a change in any file of the package.
func (s *sources) find(c *change) (place, error) {
	files, err := s.files(c.folder)
	if err != nil {
		return place{}, err
	}
	var found []place
	for _, file := range files {
		some, err := s.declared(file, c.decl)
		if err != nil {
			return place{}, err
		}
		found = append(found, some...)
	}
	switch kind, _, _ := strings.Cut(c.decl, " "); len(found) {
	case 0:
		return place{}, fmt.Errorf("the %s is gone", kind)
	case 1:
		return found[0], nil
	default:
		return place{}, fmt.Errorf("the %s is there %d times", kind, len(found))
	}
}

// files returns the files of a package that are built, without tests.
func (s *sources) files(folder string) (files []string, err error) {
	dir := filepath.Join(s.repo, filepath.FromSlash(folder))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	context := build.Default
	context.BuildTags = strings.Split(s.tags, ",")
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if fits, err := context.MatchFile(dir, e.Name()); err != nil {
			return nil, err
		} else if fits {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	for file := range s.planted {
		if filepath.Dir(file) == dir && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files, nil
}

// declared returns the declarations of a name in a file.
func (s *sources) declared(file, decl string) (found []place, err error) {
	text, err := s.text(file)
	want := declName(decl)
	if err != nil || !strings.Contains(text, want[strings.LastIndex(want, " ")+1:]) {
		return nil, err // most files need not be parsed
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range parsed.Decls {
		for name, node := range declarations(d) {
			if name == want {
				found = append(found, place{file, fset.Position(node.Pos()).Offset, fset.Position(node.End()).Offset})
			}
		}
	}
	return found, nil
}

// receiver matches the receiver of a func. The name of its type counts, and that of its variable does not.
var receiver = regexp.MustCompile(`^func \((?:\w+ )?\*?(\w+)(?:\[.*\])?\) `)

// declName returns the name that declarations gives to the declaration of a change.
func declName(decl string) string { return receiver.ReplaceAllString(decl, "func ($1) ") }

// declarations returns the names that a declaration introduces, with their nodes: func (suspender) isLost, func
// startNode, type state, const Level, var languages.
func declarations(d ast.Decl) map[string]ast.Node {
	names := map[string]ast.Node{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		names[funcName(d)] = d
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names["type "+spec.Name.Name] = spec
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					names[d.Tok.String()+" "+name.Name] = spec
				}
			}
		}
	}
	return names
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return "func " + d.Name.Name
	}
	of := d.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return "func (" + t.Name + ") " + d.Name.Name
		default:
			return ""
		}
	}
}

// word is a token of Go with its position.
type word struct {
	is       string
	from, to int
}

// tokens returns the tokens of a text of Go, without comments, spaces and ends of lines.
func tokens(text string) (words []word) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, tok, is := s.Scan()
		if tok == token.EOF {
			return words
		}
		if tok == token.SEMICOLON && is == "\n" {
			continue
		}
		if tok.IsOperator() {
			is = tok.String()
		}
		at := file.Offset(pos)
		words = append(words, word{is, at, at + len(is)})
	}
}

// replaceTokens replaces the one place of a text that has the tokens of old.
func replaceTokens(text, old, other string) (string, error) {
	have, want := tokens(text), tokens(old)
	same := func(a, b word) bool { return a.is == b.is }
	var found []int
	for i := 0; i+len(want) <= len(have); i++ {
		if slices.EqualFunc(have[i:i+len(want)], want, same) {
			found = append(found, i)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the old text occurs %d times in it, not once: %s",
			len(found), strings.Join(strings.Fields(old), " "))
	}
	first, last := have[found[0]], have[found[0]+len(want)-1]
	changed := text[:first.from] + strings.TrimSpace(other) + text[last.to:]
	if len(tokens(changed)) != len(have)-len(want)+len(tokens(other)) {
		return "", errors.New("the new text swallows what stands beside it")
	}
	return changed, nil
}

// write writes the files into dir, and the list of them for go build -overlay.
func (s *sources) write(dir string) (overlay string, err error) {
	replace := map[string]string{}
	for file, text := range s.planted {
		within, err := filepath.Rel(s.repo, file)
		if err != nil {
			return "", err
		}
		replace[file] = filepath.Join(dir, within)
		if err := os.MkdirAll(filepath.Dir(replace[file]), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(replace[file], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, list, 0o644)
}
