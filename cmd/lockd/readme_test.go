package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what is generated in the README instead of comparing it")

const (
	readme     = "../../README.md"
	tableStart = "<!-- commands: written by `make gen` from the tables; do not edit -->\n"
	tableEnd   = "<!-- end of commands -->\n"
)

// The README's command table is what the tables of the server say.
func TestCommandTable(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), tableStart)
	table, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok1 || !ok2 {
		t.Fatalf("%s has lost the marks around its command table", readme)
	}
	want := commandTable(t)
	if *rewrite {
		if err := os.WriteFile(readme, []byte(before+tableStart+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("the README's command table is not that of the server: run `make gen`\nREADME:\n%s\nserver:\n%s",
			otherLines(table, want), otherLines(want, table))
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
