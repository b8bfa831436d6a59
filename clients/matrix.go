package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// matrix is all results: client, version, mode and scene by target.
type matrix struct{ results []result }

func (m *matrix) add(r result) { m.results = append(m.results, r) }

// passed reports whether something was seen and nothing failed.
func (m *matrix) passed() bool {
	failed := slices.ContainsFunc(m.results, func(r result) bool { return r.verdict == verdictFail })
	return len(m.results) > 0 && !failed
}

// row is a client in a mode against a target.
type row struct{ suite, client, version, mode, target string }

// rows sorts the results: rows in the order in which they came, scenes likewise.
func (m *matrix) rows() (rows []row, scenes []string, at map[row]map[string]result) {
	at = map[row]map[string]result{}
	for _, r := range m.results {
		k := row{r.suite, r.client, r.version, r.mode, r.target}
		if at[k] == nil {
			at[k] = map[string]result{}
			rows = append(rows, k)
		}
		if old, ok := at[k][r.scene]; !ok || old.verdict != verdictFail {
			at[k][r.scene] = r
		}
		if !slices.Contains(scenes, r.scene) {
			scenes = append(scenes, r.scene)
		}
	}
	return rows, scenes, at
}

// table prints the results, and at its end what failed and how many there were.
func (m *matrix) table(out io.Writer) {
	rows, scenes, at := m.rows()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "client\tversion\tmode\tserver\t%s\n", strings.Join(scenes, "\t"))
	for _, k := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s", k.client, k.version, k.mode, k.target)
		for _, s := range scenes {
			fmt.Fprintf(w, "\t%s", at[k][s].verdict)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	failed := 0
	for _, r := range m.results {
		if r.verdict == verdictFail {
			failed++
			fmt.Fprintf(out, "FAILED %s %s %s %s against %s: %s\n", r.client, r.version, r.mode, r.scene, r.target, r.words)
		}
	}
	fmt.Fprintf(out, "clients: %d results, %d failed\n", len(m.results), failed)
}

// Where the matrix stands in the README.
const (
	readme      = "clients/README.md"
	matrixBegin = "<!-- matrix: written by go run ./clients --write -->"
	matrixEnd   = "<!-- end of matrix -->"
)

// writeReadme replaces the matrix in the README.
func (m *matrix) writeReadme() error {
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(matrixBegin))
	_, after, closed := bytes.Cut(rest, []byte(matrixEnd))
	if !found || !closed {
		return fmt.Errorf("%s has no place for the matrix", readme)
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(matrixBegin + "\n")
	m.markdown(&b)
	b.WriteString(matrixEnd)
	b.Write(after)
	return os.WriteFile(readme, b.Bytes(), 0o644)
}

func (m *matrix) markdown(b *bytes.Buffer) {
	rows, scenes, at := m.rows()
	fmt.Fprintf(b, "\n| client | version | mode | server | %s |\n|%s\n", strings.Join(scenes, " | "), strings.Repeat("---|", 4+len(scenes)))
	var notes []string
	for _, k := range rows {
		fmt.Fprintf(b, "| %s | %s | %s | %s |", k.client, k.version, k.mode, k.target)
		for _, s := range scenes {
			r := at[k][s]
			word := r.verdict
			if r.verdict == verdictNone {
				word = "–"
				if n := fmt.Sprintf("%s, %s: %s", k.client, s, r.words); !slices.Contains(notes, n) {
					notes = append(notes, n)
				}
			}
			fmt.Fprintf(b, " %s |", word)
		}
		b.WriteByte('\n')
	}
	if len(notes) > 0 {
		fmt.Fprintf(b, "\nWhere a dash stands:\n\n- %s\n", strings.Join(notes, "\n- "))
	}
	b.WriteByte('\n')
}
