package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/workload"
)

// The matrix of lockd's promises follows from what stands beside each thing. A sentence of docs that promises something
// has an id (cmd/lockd's TestPromises says how); a rule names the promises that it judges (model.Rule); a planted bug
// those that it breaks, in its file, and the problems by which it is caught, in plantedRuns. What is written here is only
// why a promise has no rule.

// pages are those whose promises are in the matrix.
var pages = []string{"guarantees.md", "locks.md", "clients.md", "backup.md", "upgrade.md"}

// untold are promises that jepsen-lite cannot judge by their nature. A transcript or a test tells each of them.
var untold = []struct{ why, promises string }{
	{"it names what is not promised: a server that never does so is right, too",
		"pipeline-in-pieces not-told jedis-is-told-nothing"},
	{"it is what a program of an operator or a page does, on one machine; jepsen-lite calls servers",
		"force-is-asked-once names-are-escaped top-forces-who-was-seen console-needs-a-password console-password " +
			"wrong-passwords-are-limited console-is-a-client console-and-other-sites run-status run-beside-others " +
			"run-passes-signals-on run-dies-with-its-command who-can-do-what"},
	{"it is about a file or a folder of one machine, and no server runs on it",
		"fences-need-a-number recover-keeps-the-folder recover-can-be-repeated looking-changes-nothing " +
			"inspect-status backup-has-a-level"},
	{"it is what one machine answers to one call: no fault and no other client changes that, and its transcript compares " +
		"each answer",
		"a-type-of-its-own no-key-no-fence tokens-are-shortened lists-in-pieces fields-of-events " +
			"history-is-bounded doctor-names-mistakes doctor-is-silent doctor-changes-nothing advice wake-can-be-off " +
			"ifeq-without-px-takes-the-lease msetex-is-all-or-none"},
	{"it is a figure, or a line of the log, for those who watch a node",
		"wrong-clock-is-named refused-poll-leaves-no-trace"},
	{"nothing can be set that a run could set", "no-setting-for-less"},
	{"it takes longer than a run: an hour, or more than the four seconds for which a client waits",
		"clock-of-a-dead-voter leader-that-commits-nothing"},
	{"it takes an even number of voters, of which half are wrong, and runs have three or five", "lower-of-the-middle"},
	{"its events have times of day, which jepsen-lite does not judge", "who-had-it-then"},
	{"the nodes of a run are neither sentinels nor a Redis Cluster",
		"modes-are-off-by-default sentinel-has-its-own-password redirect-to-the-leader every-node-tells-the-same " +
			"leader-is-named-once-it-serves silent-node-is-left-out counts-follow-the-voters slots-are-crossed " +
			"modes-change-nothing"},
	{"it is about client libraries and their settings, which package clients runs", "libraries-go-on"},
}

// holes are promises that lack a rule or a bug, with what is missing. A hole that is filled must go.
var holes = map[string]string{}

// What a promise lacks.
const (
	noRule = "a rule and a bug"
	noBug  = "a bug"
)

// Forms of what the matrix follows from.
var (
	promiseMark = regexp.MustCompile(`<!-- promise:((?: [a-z0-9-]+)+) -->`)
	breaksLine  = regexp.MustCompile(`(?m)^breaks((?: [a-z0-9-]+)+)$`)
	claimLine   = regexp.MustCompile(`(?m)^# promise:((?: [a-z0-9-]+)+)$`)
	testRow     = regexp.MustCompile(`\{"([a-z0-9-]+)", "(test [^"]+)"`)
)

// promise is a row of the matrix.
type promise struct {
	id                       string
	pages, rules, bugs, told []string
	why                      string // it has no rule
}

// plantedBug is a bug with the promises that it breaks and how it is caught.
type plantedBug struct {
	name, workload string
	as, breaks     []string
}

// matrix is the promises, in the order of the pages, and what is wrong with them.
type matrix struct {
	all    []*promise
	of     map[string]*promise
	faults []string
}

func (m *matrix) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// find returns a promise, or nil if no page makes it, which is a fault.
func (m *matrix) find(id, who string) *promise {
	p := m.of[id]
	if p == nil {
		m.fault("%s: no page promises %s", who, id)
	}
	return p
}

// promised adds the promises of a page.
func (m *matrix) promised(page, text string) {
	for _, id := range idsOf(promiseMark, text) {
		if m.of[id] == nil {
			m.of[id] = &promise{id: id}
			m.all = append(m.all, m.of[id])
		}
		if p := m.of[id]; !slices.Contains(p.pages, page) {
			p.pages = append(p.pages, page)
		}
	}
}

// idsOf returns the ids that a text has in such lines.
func idsOf(form *regexp.Regexp, text string) (ids []string) {
	for _, found := range form.FindAllStringSubmatch(text, -1) {
		ids = append(ids, strings.Fields(found[1])...)
	}
	return ids
}

// judged adds the rules.
func (m *matrix) judged(rules []*model.Rule) {
	for _, r := range rules {
		if (len(r.Promises) == 0) != (r.Why != "") {
			m.fault("the rule %s names the promises that it judges (judging), or says why it judges none (judgingNone)", r.ID)
		}
		for _, id := range r.Promises {
			if p := m.find(id, "the rule "+r.ID); p != nil {
				p.rules = append(p.rules, r.ID)
			}
		}
	}
}

// catching returns the rules by which a run of a workload finds such problems.
func catching(rules []*model.Rule, b plantedBug) (by []*model.Rule) {
	for _, r := range rules {
		of := len(r.Workloads) == 0 || slices.Contains(r.Workloads, b.workload)
		if of && slices.ContainsFunc(r.Kinds, func(k string) bool { return slices.Contains(b.as, k) }) {
			by = append(by, r)
		}
	}
	return by
}

// proved adds the bugs. A bug proves a promise only if one of the rules that catch it judges that promise.
func (m *matrix) proved(rules []*model.Rule, bugs []plantedBug) {
	for _, b := range bugs {
		var can []string
		for _, r := range catching(rules, b) {
			can = append(can, r.Promises...)
		}
		if len(b.breaks) == 0 && len(can) > 0 {
			m.fault("planted/%s.bug has no line that says which promises it breaks, of %s", b.name, sortedWords(can))
		}
		for _, id := range b.breaks {
			p := m.find(id, "planted/"+b.name+".bug")
			switch {
			case p == nil:
			case !slices.Contains(can, id):
				m.fault("planted/%s.bug breaks %s, and no rule by which it is caught judges that (%s in %s): these judge %s",
					b.name, id, strings.Join(b.as, ", "), b.workload, sortedWords(can))
			default:
				p.bugs = append(p.bugs, b.name)
			}
		}
	}
}

func sortedWords(words []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(words))), " ")
}

// excuse adds why promises have no rule, and what tells them instead.
func (m *matrix) excuse(why, promises string, told map[string][]string) {
	for _, id := range strings.Fields(promises) {
		p := m.find(id, "untold")
		if p == nil {
			continue
		}
		p.why, p.told = why, told[id]
		if len(p.rules) > 0 {
			m.fault("%s has a rule (%s): it is not untold", id, strings.Join(p.rules, " "))
		}
		if len(p.told) == 0 {
			m.fault("%s is not judged, and neither a transcript nor a test tells it", id)
		}
	}
}

// missing returns what a promise lacks.
func (p *promise) missing() string {
	switch {
	case p.why != "":
		return ""
	case len(p.rules) == 0:
		return noRule
	case len(p.bugs) == 0:
		return noBug
	}
	return ""
}

// gaps reports promises that lack something, unless that is a known hole.
func (m *matrix) gaps(known map[string]string) {
	for _, p := range m.all {
		switch lacks := p.missing(); {
		case lacks == known[p.id]:
		case lacks == "":
			m.fault("the promise %s has a rule and a bug: it is no hole any more", p.id)
		case known[p.id] == "":
			m.fault("the promise %s lacks %s", p.id, lacks)
		default:
			m.fault("the promise %s lacks %s now, and not %s: say so in holes", p.id, lacks, known[p.id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		m.find(id, "holes")
	}
}

// theMatrix reads everything.
func theMatrix(t *testing.T) *matrix {
	m := &matrix{of: map[string]*promise{}}
	for _, page := range pages {
		m.promised(page, fileText(t, "../docs/"+page))
	}
	m.judged(model.Rules)
	var bugs []plantedBug
	for _, p := range plantedRuns {
		run, err := p.parse(false)
		if err != nil {
			t.Fatal(err)
		}
		breaks := idsOf(breaksLine, fileText(t, "planted/"+p.bug+".bug"))
		bugs = append(bugs, plantedBug{p.bug, run.Workload[0], p.as, breaks})
	}
	m.proved(model.Rules, bugs)
	told := toldElsewhere(t)
	for _, u := range untold {
		m.excuse(u.why, u.promises, told)
	}
	m.gaps(holes)
	return m
}

// toldElsewhere returns the transcripts and tests that claim a promise: cmd/lockd's TestPromises holds that they exist.
func toldElsewhere(t *testing.T) map[string][]string {
	told := map[string][]string{}
	for _, folder := range []string{"clustertest", "cluster", "keyspace", "resp/server"} {
		err := filepath.WalkDir("../"+folder+"/testdata", func(path string, d os.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".txt" {
				for _, id := range idsOf(claimLine, fileText(t, path)) {
					if name := strings.TrimPrefix(path, "../"); !slices.Contains(told[id], name) {
						told[id] = append(told[id], name)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range testRow.FindAllStringSubmatch(fileText(t, "../cmd/lockd/promises_test.go"), -1) {
		told[row[1]] = append(told[row[1]], row[2])
	}
	return told
}

func fileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each promise of the pages has rules that judge it and a planted bug that proves it, or says why it has none; and
// nothing judges, or breaks, what is not promised.
func TestMatrix(t *testing.T) {
	m := theMatrix(t)
	for _, fault := range m.faults {
		t.Error(fault)
	}
	if len(m.all) < 150 {
		t.Errorf("only %d promises were found", len(m.all))
	}
}

// Every way in which the matrix can be wrong is found.
func TestMatrixFindsFaults(t *testing.T) {
	rules := []*model.Rule{
		{ID: "r1", Kinds: []string{"k1"}, Promises: []string{"a", "b"}}, {ID: "r2", Kinds: []string{"k2"}, Workloads: []string{"w"}, Promises: []string{"c"}},
		{ID: "r3", Promises: []string{"none"}}, {ID: "r4"}, {ID: "r5", Promises: []string{"d"}, Why: "so"}, {ID: "r6", Why: "so", Kinds: []string{"k3"}},
	}
	bugs := []plantedBug{
		{"b1", "v", []string{"k1", "k2"}, []string{"a", "c"}}, {"b2", "v", []string{"k1"}, nil}, {"b3", "v", []string{"k1"}, []string{"gone"}},
		{"b4", "v", []string{"k3"}, nil}, {"b5", "w", []string{"k2"}, []string{"c"}},
	}
	m := &matrix{of: map[string]*promise{}}
	m.promised("p.md", "A. <!-- promise: a b -->\n<!-- promise: c d -->")
	m.promised("q.md", "B.\n<!-- promise: e a f g h -->\n")
	m.judged(rules)
	m.proved(rules, bugs)
	m.excuse("why", "d e f x", map[string][]string{"e": {"test p TestE"}, "d": {"t.txt"}})
	m.gaps(map[string]string{"a": noBug, "b": noRule, "g": noRule, "y": noBug})
	want := []string{
		"the rule r3: no page promises none",
		"the rule r4 names the promises that it judges (judging), or says why it judges none (judgingNone)",
		"the rule r5 names the promises that it judges (judging), or says why it judges none (judgingNone)",
		"planted/b1.bug breaks c, and no rule by which it is caught judges that (k1, k2 in v): these judge a b",
		"planted/b2.bug has no line that says which promises it breaks, of a b",
		"planted/b3.bug: no page promises gone",
		"d has a rule (r5): it is not untold",
		"f is not judged, and neither a transcript nor a test tells it",
		"untold: no page promises x",
		"the promise a has a rule and a bug: it is no hole any more",
		"the promise b lacks a bug now, and not a rule and a bug: say so in holes",
		"the promise h lacks a rule and a bug",
		"holes: no page promises y",
	}
	if !slices.Equal(m.faults, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(m.faults, "\n"), strings.Join(want, "\n"))
	}
	if p := m.of["a"]; !slices.Equal(p.pages, []string{"p.md", "q.md"}) || !slices.Equal(p.rules, []string{"r1"}) || !slices.Equal(p.bugs, []string{"b1"}) {
		t.Errorf("%+v", *p)
	}
}

var rewrite = flag.Bool("rewrite", false, "write what is generated in REFERENCE.md instead of comparing it")

// REFERENCE.md has the tables that follow from the code: rules, the matrix of promises, planted bugs. With -rewrite they
// are written. Each workload has rules of its own, and no rule is of a workload that there is not.
func TestReference(t *testing.T) {
	tables := map[string]string{"rules": rulesTable(t), "bugs": bugsTable(t), "promises": theMatrix(t).table()}
	text := fileText(t, "REFERENCE.md")
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		start, end := "<!-- generated: "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok1 := strings.Cut(text, start)
		there, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("REFERENCE.md has lost the marks around its table of %s", name)
		}
		if there != tables[name] && !*rewrite {
			t.Errorf("the table of %s in REFERENCE.md is another: run `go test ./jepsen-lite -run TestReference -rewrite`\n%s", name,
				unlike(there, tables[name]))
		}
		text = before + start + tables[name] + end + after
	}
	if *rewrite {
		if err := os.WriteFile("REFERENCE.md", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// unlike returns the lines that only one of two texts has.
func unlike(there, want string) string {
	var b strings.Builder
	only := func(sign, text, other string) {
		known := strings.Split(other, "\n")
		for _, line := range strings.Split(text, "\n") {
			if !slices.Contains(known, line) {
				fmt.Fprintln(&b, sign, line)
			}
		}
	}
	only("-", there, want)
	only("+", want, there)
	return b.String()
}

func rulesTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| rule | what it says | workloads | at least | for safety |\n|---|---|---|---|---|\n")
	own := map[string]bool{}
	for _, r := range model.Rules {
		of := "all"
		if len(r.Workloads) > 0 {
			of = strings.Join(r.Workloads, ", ")
		}
		for _, w := range r.Workloads {
			if own[w] = true; workload.Find(w) == nil {
				t.Errorf("%s: there is no workload %q", r.ID, w)
			}
		}
		safety := "yes"
		if r.Late {
			safety = "no"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.ID, r.Says, of, r.Need, safety)
	}
	for _, w := range workload.Table {
		if !own[w.Name] {
			t.Errorf("%s has no rule of its own", w.Name)
		}
	}
	return b.String()
}

func bugsTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| planted bug | what it does | run (`go run ./jepsen-lite --plant NAME ...`) | one of these must be found | simulated |\n" +
		"|---|---|---|---|---|\n")
	for _, p := range plantedRuns {
		why, err := p.grounded()
		if err != nil {
			t.Fatal(err)
		}
		simulated := "yes"
		switch aim := aimed[p.bug]; {
		case why != "":
			simulated = "no: it " + why
		case aim != "":
			simulated = "`" + aim + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s |\n", p.bug, p.breaks, p.flags, strings.Join(p.as, ", "), simulated)
	}
	return b.String()
}

// table returns the matrix: promises with their rules and bugs, then those that others tell, then those that lack
// something.
func (m *matrix) table() string {
	var b strings.Builder
	b.WriteString("| promise | page | rules that judge it | bugs that prove it |\n|---|---|---|---|\n")
	for _, p := range m.all {
		if p.why == "" && p.missing() == "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.id, links(p.pages), codes(p.rules), strings.Join(p.bugs, ", "))
		}
	}
	b.WriteString("\nWhat jepsen-lite cannot judge by its nature, and what tells it instead:\n")
	for _, u := range untold {
		fmt.Fprintf(&b, "\n*Why: %s.*\n\n| promise | page | told by |\n|---|---|---|\n", u.why)
		for _, id := range strings.Fields(u.promises) {
			if p := m.of[id]; p != nil {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", id, links(p.pages), codes(p.told))
			}
		}
	}
	if len(holes) > 0 {
		b.WriteString("\nHoles, which are to be filled:\n\n| promise | page | what is missing |\n|---|---|---|\n")
	}
	for _, p := range m.all {
		if lacks := holes[p.id]; lacks != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.id, links(p.pages), lacks)
		}
	}
	return b.String()
}

func links(pages []string) string {
	var all []string
	for _, page := range pages {
		all = append(all, fmt.Sprintf("[%s](../docs/%s)", strings.TrimSuffix(page, ".md"), page))
	}
	return strings.Join(all, ", ")
}

func codes(words []string) string {
	var all []string
	for _, w := range words {
		all = append(all, "`"+w+"`")
	}
	return strings.Join(all, ", ")
}
