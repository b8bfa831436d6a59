package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// matrix holds all results in order of arrival. A suite always reports in the same order.
type matrix struct{ results []result }

// passed reports whether something was seen and nothing failed.
func (m *matrix) passed() bool { return len(m.results) > 0 && len(m.failed()) == 0 }

func (m *matrix) failed() (failed []result) {
	for _, r := range m.results {
		if r.verdict == verdictFail {
			failed = append(failed, r)
		}
	}
	return failed
}

// summary prints how many results each suite had at each server, and what failed.
func (m *matrix) summary(out io.Writer) {
	type at struct{ suite, target string }
	var order []at
	counts := map[at]map[string]int{}
	for _, r := range m.results {
		k := at{r.suite, r.target}
		if counts[k] == nil {
			counts[k] = map[string]int{}
			order = append(order, k)
		}
		counts[k][r.verdict]++
	}
	for _, k := range order {
		c := counts[k]
		fmt.Fprintf(out, "%-7s %-6s %4d ok %4d with nothing to show %4d failed\n",
			k.suite, k.target, c[verdictOK], c[verdictNone], c[verdictFail])
	}
	failed := m.failed()
	for _, r := range failed {
		fmt.Fprintf(out, "FAILED %s %s %s %s against %s: %s\n", r.client, r.version, r.mode, r.scene, r.target, r.words)
	}
	fmt.Fprintf(out, "clients: %d results, %d failed\n", len(m.results), len(failed))
}

// line is a line of a suite's table: a client in versions and modes with the same results.
type line struct {
	client          string
	versions, modes []string
	cells           []string // by scene
}

// cell sums up a scene's results on all servers in one word.
func cell(seen []result) string {
	var ok, failed, none []string
	for _, r := range seen {
		switch r.verdict {
		case verdictOK:
			ok = append(ok, r.target)
		case verdictNone:
			none = append(none, r.target)
		default:
			failed = append(failed, r.target)
		}
	}
	switch {
	case len(failed) > 0:
		return "**fails on " + strings.Join(failed, ", ") + "**"
	case len(ok) > 0 && len(none) > 0:
		return "ok on " + strings.Join(ok, ", ")
	case len(ok) > 0:
		return "ok"
	case len(none) > 0:
		return "–"
	}
	return ""
}

// lines returns the table of a suite in its shortest form: one line for all versions and modes of a client with the
// same cells.
func lines(results []result) (all []line, scenes []string) {
	type key struct{ client, version, mode string }
	var order []key
	seen := map[key]map[string][]result{}
	for _, r := range results {
		k := key{r.client, r.version, r.mode}
		if seen[k] == nil {
			seen[k] = map[string][]result{}
			order = append(order, k)
		}
		seen[k][r.scene] = append(seen[k][r.scene], r)
		if !slices.Contains(scenes, r.scene) {
			scenes = append(scenes, r.scene)
		}
	}
	for _, k := range order {
		l := line{client: k.client, versions: []string{k.version}, modes: []string{k.mode}}
		for _, s := range scenes {
			l.cells = append(l.cells, cell(seen[k][s]))
		}
		all = append(all, l)
	}
	all = merge(
		all,
		func(a, b *line) bool { return slices.Equal(a.versions, b.versions) },
		func(a, b *line) { a.modes = append(a.modes, b.modes...) },
	)
	all = merge(
		all,
		func(a, b *line) bool { return slices.Equal(a.modes, b.modes) },
		func(a, b *line) { a.versions = append(a.versions, b.versions...) },
	)
	return all, scenes
}

// merge joins lines of one client for which alike returns true.
func merge(all []line, alike func(a, b *line) bool, join func(a, b *line)) (merged []line) {
	for _, l := range all {
		i := slices.IndexFunc(merged, func(o line) bool {
			return o.client == l.client && slices.Equal(o.cells, l.cells) && alike(&o, &l)
		})
		if i < 0 {
			merged = append(merged, l)
		} else {
			join(&merged[i], &l)
		}
	}
	return merged
}

// The place of the matrix in the README.
const (
	readme      = "clients/README.md"
	matrixBegin = "<!-- matrix: written by go run ./clients --write -->"
	matrixEnd   = "<!-- end of matrix -->"
)

// legend explains the cells of all tables.
const legend = "`ok`: on lockd and on redis-server. `ok on lockd`: a single redis-server has nothing to show. `–`: the\n" +
	"client has nothing to show, for the reason below the table. Empty: no scene of this client.\n"

// writeReadme writes the sections of the suites that have run into the README, and keeps those of the others.
func (m *matrix) writeReadme(ctx context.Context) error {
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), matrixBegin)
	were, after, closed := strings.Cut(rest, matrixEnd)
	if !found || !closed {
		return fmt.Errorf("%s has no place for the matrix", readme)
	}
	var b bytes.Buffer
	b.WriteString(before + matrixBegin + "\n\n" + legend)
	for _, s := range suites {
		if results := m.of(s); len(results) > 0 {
			markdown(ctx, &b, s, results)
		} else {
			b.WriteString(sectionOf(were, s))
		}
	}
	b.WriteString(matrixEnd + after)
	return os.WriteFile(readme, b.Bytes(), 0o644)
}

// sectionOf returns the section of a suite, as the README has it; "" if it has none.
func sectionOf(sections string, s *suite) string {
	const title = "\n### "
	_, section, found := strings.Cut(sections, title+s.name+"\n")
	if !found {
		return ""
	}
	section, _, _ = strings.Cut(section, title)
	return title + s.name + "\n" + section
}

// of returns the results of a suite.
func (m *matrix) of(s *suite) (results []result) {
	for _, r := range m.results {
		if r.suite == s.name {
			results = append(results, r)
		}
	}
	return results
}

// firstLine returns the first line of a program's output.
func firstLine(ctx context.Context, command []string) string {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
	if err != nil {
		return command[0] + " of an unknown version"
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return first
}

// markdown writes the section of a suite: the run, and a table.
func markdown(ctx context.Context, b *bytes.Buffer, s *suite, results []result) {
	failed := len((&matrix{results}).failed())
	fmt.Fprintf(b, "\n### %s\n\n%s, lockd %s, %d CPUs, %s: %d results, %d failed.\n", s.name,
		time.Now().UTC().Format(time.DateOnly), firstLine(ctx, []string{"git", "describe", "--always", "--dirty"}),
		runtime.NumCPU(), firstLine(ctx, s.runtime), len(results), failed)
	all, scenes := lines(results)
	fmt.Fprintf(b, "\n| client | version | mode | %s |\n|%s\n", strings.Join(scenes, " | "), strings.Repeat("---|", 3+len(scenes)))
	for _, l := range all {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n",
			l.client, strings.Join(l.versions, ", "), strings.Join(l.modes, ", "), strings.Join(l.cells, " | "))
	}
	if why := reasons(results); len(why) > 0 {
		fmt.Fprintf(b, "\nWhere a dash stands:\n\n- %s\n", strings.Join(why, "\n- "))
	}
}

// reasons lists, without duplicates, the reasons why scenes do not apply to clients.
func reasons(results []result) (why []string) {
	for _, r := range results {
		if r.verdict != verdictNone || r.target == "redis" && alsoElsewhere(results, r) {
			continue // lockd supports more; only the client's reason counts
		}
		if text := r.scene + ": " + r.words; !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	return why
}

// alsoElsewhere reports whether another server has a result of the same scene.
func alsoElsewhere(results []result, r result) bool {
	return slices.ContainsFunc(results, func(o result) bool {
		return o.target != r.target && o.client == r.client && o.version == r.version && o.mode == r.mode &&
			o.scene == r.scene
	})
}
