package main

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var rewrite = flag.Bool("rewrite", false, "write what is generated in docs instead of comparing it")

const (
	docsDir    = "../../docs"
	tableStart = "<!-- commands: written by `make gen` from the tables; do not edit -->\n"
	tableEnd   = "<!-- end of commands -->\n"
)

// The table of commands in docs agrees with the tables of the server.
func TestCommandTable(t *testing.T) {
	page := filepath.Join(docsDir, "redis.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), tableStart)
	table, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has lost the marks around its table of commands", page)
	}
	want := commandTable(t)
	if *rewrite {
		if err := os.WriteFile(page, []byte(before+tableStart+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the table of commands in %s is not that of the server: run `make gen`\nthere:\n%s\nserver:\n%s",
			page, otherLines(table, want), otherLines(want, table))
	}
}

// otherLines are the lines of a text that are not in another.
func otherLines(text, other string) string {
	known := strings.Split(other, "\n")
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return slices.Contains(known, line)
	}), "\n")
}

// commandTable asks a running server for its rows by COMMAND DOCS.
func commandTable(t *testing.T) string {
	t.Helper()
	docs, err := startSingle(t).client().Do(context.Background(), "COMMAND", "DOCS").Result()
	if err != nil {
		t.Fatal(err)
	}
	groups := map[string][]string{}
	for name, v := range docs.(map[any]any) {
		doc := v.(map[any]any)
		group := fmt.Sprint(doc["group"])
		words := []string{strings.ToUpper(fmt.Sprint(name))}
		if subs, ok := doc["subcommands"].(map[any]any); ok {
			words = nil
			for sub := range subs {
				words = append(words, strings.ToUpper(strings.ReplaceAll(fmt.Sprint(sub), "|", " ")))
			}
		}
		groups[group] = append(groups[group], words...)
	}
	var b strings.Builder
	b.WriteString("| group | commands |\n|---|---|\n")
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if group == "cluster" {
			b.WriteString("| cluster | `CLUSTER` `READONLY` `READWRITE` `ASKING` answer as Redis does when cluster mode is off, unless `--cluster-protocol` is given |\n")
			continue
		}
		slices.Sort(groups[group])
		fmt.Fprintf(&b, "| %s | `%s` |\n", group, strings.Join(groups[group], "` `"))
	}
	return b.String()
}

const repository = "../.."

// foreign are folders that hold what others have written, and build trees of the clients.
var foreign = []string{"node_modules", "target", "vendor"}

// filesOf are the files of the repository whose name ends so.
func filesOf(t *testing.T, suffix string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != repository && (strings.HasPrefix(d.Name(), ".") || slices.Contains(foreign, d.Name())):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, suffix):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Every link of a Markdown file leads to an existing file, and to a heading in it.
func TestLinks(t *testing.T) {
	pages := map[string]page{}
	for _, path := range filesOf(t, ".md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = readPage(string(text))
	}
	links := 0
	for path, p := range pages {
		for _, link := range p.links {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			links++
			if why := dead(path, link, pages); why != "" {
				t.Errorf("%s: the link %s is dead: %s", path, link, why)
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// dead says why a link of a page leads nowhere, and nothing if it leads somewhere.
func dead(from, link string, pages map[string]page) string {
	link, err := url.PathUnescape(link)
	if err != nil {
		return err.Error()
	}
	file, heading, _ := strings.Cut(link, "#")
	path := from
	if file != "" {
		path = filepath.Join(filepath.Dir(from), file)
	}
	if _, err := os.Stat(path); err != nil {
		return "there is no such file"
	}
	if p, ok := pages[path]; heading != "" && (!ok || !p.anchors[heading]) {
		return "there is no such heading"
	}
	return ""
}

// page is the links and the link targets of a Markdown file.
type page struct {
	links   []string
	anchors map[string]bool
}

var (
	codeBlock = regexp.MustCompile("(?ms)^[ ]*```.*?^[ ]*```[ ]*$")
	codeSpan  = regexp.MustCompile("`[^`]+`")
	linkEnd   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

func readPage(text string) page {
	text = codeBlock.ReplaceAllString(text, "")
	p := page{anchors: map[string]bool{}}
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		p.addAnchor(found[1])
	}
	for _, found := range linkEnd.FindAllStringSubmatch(codeSpan.ReplaceAllString(text, "code"), -1) {
		p.links = append(p.links, found[1])
	}
	return p
}

// addAnchor notes the name that GitHub gives a heading.
func (p *page) addAnchor(heading string) {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	again := name
	for i := 1; p.anchors[again]; i++ {
		again = fmt.Sprintf("%s-%d", name, i)
	}
	p.anchors[again] = true
}

// nameOfCode is a name between backticks that only code has: one with a capital inside, or behind a dot.
var nameOfCode = regexp.MustCompile("`((?:[A-Za-z]+\\.)?[a-z]+[A-Z]\\w*|[a-zA-Z]+\\.[A-Z]\\w+)(?:\\(\\))?`")

// The names of code that the pages about the design have are in the code.
func TestDesignNamesCode(t *testing.T) {
	names := map[string]bool{}
	word := regexp.MustCompile(`[A-Za-z_]\w*`)
	for _, path := range filesOf(t, ".go") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range word.FindAll(text, -1) {
			names[string(w)] = true
		}
	}
	checked := 0
	for _, path := range filesOf(t, ".md") {
		if name := filepath.Base(path); name != "DESIGN.md" && name != "CONTRIBUTING.md" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range nameOfCode.FindAllStringSubmatch(string(text), -1) {
			checked++
			for part := range strings.SplitSeq(m[1], ".") {
				if !names[part] {
					t.Errorf("%s: there is no %s in the code (%s)", path, part, m[1])
				}
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d names were found", checked)
	}
}

// Dead links are found, and working links are not reported.
func TestLinksFindsDead(t *testing.T) {
	here := filepath.Join(repository, "README.md")
	text := "# A *b*, `c`\n## A b c\n## 结果：未知\n[x](#a-b-c) [x](#a-b-c-1) [x](#结果未知) [`x`](docs) [x](#none) [x](none.md)" +
		" [x](docs/none.md#a) [x](LICENSE.none) [x](docs#a)\n`[x](code)`\n```\n# not\n[x](code)\n```\n"
	p := readPage(text)
	var found []string
	for _, link := range p.links {
		if dead(here, link, map[string]page{here: p}) != "" {
			found = append(found, link)
		}
	}
	want := []string{"#none", "none.md", "docs/none.md#a", "LICENSE.none", "docs#a"}
	if !slices.Equal(found, want) {
		t.Errorf("dead are %q, not %q", found, want)
	}
}

// Every text of docs/errors.md is in the code; "..." stands for varying parts.
func TestErrorTexts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docsDir, "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	texts := textsOfTheCode(t)
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 50 {
		t.Errorf("only %d texts were found", len(rows))
	}
	for _, row := range rows {
		parts := strings.Split(row[1], "...")
		if len(slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) })) < 8 {
			t.Errorf("%q says too little to be looked for", row[1])
		}
		if !slices.ContainsFunc(texts, func(text string) bool { return holds(text, parts) }) {
			t.Errorf("%q is nowhere in the code", row[1])
		}
	}
}

// holds reports whether a text has these parts, in this order.
func holds(text string, parts []string) bool {
	for _, part := range parts {
		_, after, ok := strings.Cut(text, strings.TrimSpace(part))
		if !ok {
			return false
		}
		text = after
	}
	return true
}

// textsOfTheCode are the strings of the code that is not a test, those that are joined by + as one.
func textsOfTheCode(t *testing.T) []string {
	t.Helper()
	var texts []string
	for _, path := range filesOf(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			if text := textOf(e); text != "" {
				texts = append(texts, text)
			}
			return true
		})
	}
	return texts
}

// textOf is a string, or the strings of a sum, whose other terms count as nothing.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return textOf(e.X) + textOf(e.Y)
		}
	}
	return ""
}
