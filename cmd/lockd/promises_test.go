package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockd/jepsen-lite/model"
)

// Sentences of docs that promise something have an id, in a comment at the end of their paragraph, in the order of the
// sentences: <!-- promise: never-held-twice lease-never-early -->. What shows a promise claims its id: a transcript by
// a comment above the lines that tell it, # promise: never-held-twice; a rule of jepsen-lite by model.Rule.Promises,
// which does not suffice everywhere (ruleSuffices); anything else by a row of notInTranscripts. jepsen-lite's TestMatrix
// asks more: a rule, and a bug that it finds.

// promising are the pages whose promises are shown, each with its translation, which has the same ids. A page may have
// its translation below a heading.
var promising = map[string]string{
	"guarantees.md": "guarantees.zh-CN.md",
	"locks.md":      "locks.zh-CN.md",
	"clients.md":    "clients.zh-CN.md",
	"backup.md":     "backup.zh-CN.md",
	"upgrade.md":    "## 中文\n",
}

// ruleSuffices are the pages whose promises a rule of jepsen-lite may show alone. Those of the others are about locks,
// and each has a transcript that reads like its sentence, or a reason why not.
var ruleSuffices = map[string]bool{"clients.md": true, "backup.md": true, "upgrade.md": true}

// promisesOf returns the text of a page and its translation.
func promisesOf(t *testing.T, page, translation string) (text, translated string) {
	text = readText(t, filepath.Join(docsDir, page))
	if !strings.HasPrefix(translation, "#") {
		return text, readText(t, filepath.Join(docsDir, translation))
	}
	text, translated, found := strings.Cut(text, translation)
	if !found {
		t.Errorf("%s has no %q", page, translation)
	}
	return text, translated
}

// telling are the folders with transcripts.
var telling = []string{"clustertest/testdata", "cluster/testdata", "keyspace/testdata", "resp/server/testdata"}

// shown is what shows a promise where no transcript does, or not all of it.
type shown struct {
	promise string
	by      string // a test of a package: "test cluster TestRestart"
	why     string // why no transcript tells it
}

// notInTranscripts are the promises that no transcript can tell, or not to the end.
var notInTranscripts = []shown{
	{"pipeline-in-pieces", "test resp/server TestPipelineIsBounded", "a pipeline of so many commands is no text"},
	{"clock-of-a-dead-voter", "test cluster TestTwoClocksLeft", "an hour of a cluster with sessions takes a minute"},
	{"wrong-clock-is-named", "test cluster TestWrongClockIsNamed", "it is a figure for Prometheus"},
	{"failover-in-order", "test cluster TestStoppedLeaderElectsOnce", "an election takes as long in a transcript"},
	{"loading-is-not-done", "test cluster TestClusterDown", "a transcript has no flags, and so no cluster mode"},
	{"leader-that-commits-nothing", "test cluster TestLeaderThatCommitsNothing",
		"its links carry heartbeats, and too little of an entry"},
	{"unknown-is-not-resent", "test cluster TestNothingAcknowledgedIsLost", "it takes many kills and cuts to be certain"},
	{"fences-rise-over-restores", "test cluster/refound TestFencesOfNewCluster", "a restore is a command for a folder"},
	{"half-close-is-hanging-up", "test resp/server TestBlockedClientIsGone", "clients of transcripts close both ways"},
	{"who-had-it-then", "test cmd/lockd TestWhoHadItThen", "moments differ from run to run"},
	{"libraries-are-woken", "test cmd/lockd TestRedissonsWaitersAreWoken", "the waiter is a library"},
	{"force-is-asked-once", "test internal/client TestAskAndTell", programs},
	{"names-are-escaped", "test cmd/lockd/show TestEscape", programs},
	{"top-forces-who-was-seen", "test cmd/lockd/top TestForce", programs},
	{"console-needs-a-password", "test cmd/lockd TestUsageErrors", programs},
	{"console-password", "test console TestPassword", programs},
	{"wrong-passwords-are-limited", "test console TestWrongPasswordsAreLimited", programs},
	{"console-is-a-client", "test cmd/lockd TestConsole", programs},
	{"console-and-other-sites", "test console TestOtherSites", programs},
	{"doctor-names-mistakes", "test cmd/lockd TestDoctorNamesMistakes", "the mistakes are those of programs"},
	{"each-connection-is-told", "test resp/server TestWhoIsTold", "all the ways in which a lock is lost are a table"},
	{"not-told", "test resp/server TestHoldersAreBounded", "1,024 locks are no text to read"},
	{"jedis-is-told-nothing", "test resp/server TestHolderWhoConfusesPushes", programs},
	{"run-holds-the-lock", "test cmd/lockd TestRunHoldsTheLock", programs},
	{"run-outlives-a-node", "test cmd/lockd TestRunOutlivesTheLeader", programs},
	{"run-status", "test cmd/lockd TestRunDoesNotRun", programs},
	{"run-beside-others", "test cmd/lockd TestRunBesideOthers", programs},
	{"run-ends-with-the-lock", "test cmd/lockd TestRunLosesTheLock", programs},
	{"run-passes-signals-on", "test cmd/lockd TestRunPassesSignalsOn", programs},
	{"run-dies-with-its-command", "test cmd/lockd TestRunIsKilled", programs},
	{"lost-leadership-closes-nothing", "test cluster TestDeposedLeaderKeepsSubscribers", "it takes servers beside the nodes"},
	{"sentinel-has-its-own-password", "test cmd/lockd TestSentinels", flags},
	{"modes-are-off-by-default", "test cmd/lockd TestModesAreOff", flags},
	{"slots-are-crossed", "test cmd/lockd TestClusterKeys", flags},
	{"libraries-go-on", "test cmd/lockd TestModesLeaderKilled", "the clients are libraries"},
	{"backup-is-complete", "test cluster TestBackup", files},
	{"backup-blocks-nobody", "test cluster TestBackup", files},
	{"backup-is-whole", "test cluster TestDamagedBackupIsRefused", files},
	{"backup-needs-a-majority", "test cluster TestBackupLimits", files},
	{"backup-has-a-level", "test cluster TestRecoverKeepsTheLevel", files},
	{"restored-cluster-is-new", "test cmd/lockd TestBackupAndRecovery", files},
	{"restored-lock-keeps-its-fence", "test cmd/lockd TestBackupAndRecovery", files},
	{"fences-need-a-number", "test cluster/refound TestFencesOfNewCluster", files},
	{"recover-goes-on-with-the-log", "test cmd/lockd TestBackupAndRecovery", files},
	{"recover-keeps-the-folder", "test cluster TestFoldersOfEachVersion", files},
	{"recover-can-be-repeated", "test cluster TestRecoverCanBeRepeated", files},
	{"looking-changes-nothing", "test cmd/lockd TestBackupAndRecovery", files},
	{"inspect-status", "test cmd/lockd TestSaveRefuses", files},
	{"drain-says-whether-it-may", "test cmd/lockd TestDrain", programs},
	{"taken-is-answered", "test cmd/lockd TestTerminateLeaderUnderLoad", "it takes many clients at a time"},
	{"who-can-do-what", "test cmd/lockd TestMembersSayTheLevel", programs},
	{"level-can-be-asked-for", "test cluster TestLevelRises", builds},
	{"level-never-falls", "test cluster TestLevelRises", builds},
	{"older-release-stops", "test cluster TestOldBuildAfterTheRise", builds},
}

// Why no transcript tells several promises.
const (
	programs = "transcripts have commands of clients, and no programs"
	flags    = "transcripts have commands of clients, and nodes without flags"
	files    = "it is about a file or a folder"
	builds   = "the nodes of a transcript are of one build"
)

// Each promise is shown, in a transcript or by what notInTranscripts names; nothing shows what is not promised.
func TestPromises(t *testing.T) {
	pages := map[string]string{}
	for page, translation := range promising {
		text, translated := promisesOf(t, page, translation)
		pages[page] = text
		for _, id := range unlike(idsOf(marker, text), idsOf(marker, translated)) {
			t.Errorf("the promise %s is in one of %s and %q only", id, page, translation)
		}
	}
	told := map[string]string{}
	for _, folder := range telling {
		for _, path := range filesOf(t, ".txt") {
			if strings.HasPrefix(path, filepath.Join(repository, folder)+"/") {
				told[path] = readText(t, path)
			}
		}
	}
	judged := map[string]bool{}
	for _, rule := range model.Rules {
		for _, id := range rule.Promises {
			judged[id] = true
		}
	}
	for _, fault := range faultsOf(pages, told, judged, notInTranscripts) {
		t.Error(fault)
	}
	if n := len(idsOf(marker, strings.Join(slices.Collect(maps.Values(pages)), "\n"))); n < 150 {
		t.Errorf("only %d promises were found", n)
	}
}

var (
	marker = regexp.MustCompile(`<!-- promise:((?: [a-z0-9-]+)+) -->`)
	claim  = regexp.MustCompile(`(?m)^# promise:((?: [a-z0-9-]+)+)$`)
	near   = regexp.MustCompile(`(?mi)(?:<!--|^#) *promises?\b.*`) // whatever looks like one of them
)

// idsOf returns the ids that a text has in such comments.
func idsOf(form *regexp.Regexp, text string) map[string]bool {
	ids := map[string]bool{}
	for _, found := range form.FindAllStringSubmatch(text, -1) {
		for _, id := range strings.Fields(found[1]) {
			ids[id] = true
		}
	}
	return ids
}

// unlike returns what is in one of two sets only.
func unlike(a, b map[string]bool) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(a)) {
		if !b[id] {
			ids = append(ids, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b)) {
		if !a[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// faultsOf compares the promises of pages with what shows them: transcripts, by path, rules, and a table.
func faultsOf(pages, told map[string]string, judged map[string]bool, table []shown) (faults []string) {
	promised, proved, needsTelling := map[string]bool{}, map[string]bool{}, map[string]bool{}
	add := func(to map[string]bool, form *regexp.Regexp, path, text string) {
		maps.Copy(to, idsOf(form, text))
		for _, line := range near.FindAllString(text, -1) {
			if !form.MatchString(line) {
				faults = append(faults, fmt.Sprintf("%s: %q is no mark of a promise", path, line))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(pages)) {
		add(promised, marker, path, pages[path])
		if !ruleSuffices[path] {
			for id := range idsOf(marker, pages[path]) {
				needsTelling[id] = true
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(told)) {
		add(proved, claim, path, told[path])
	}
	for _, row := range table {
		proved[row.promise] = true
		if by := strings.Fields(row.by); len(by) != 3 || by[0] != "test" || !hasTest(by[1], by[2]) {
			faults = append(faults, fmt.Sprintf("%s: there is no %s", row.promise, row.by))
		}
		if row.why == "" {
			faults = append(faults, fmt.Sprintf("%s: why does no transcript tell it?", row.promise))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(promised)) {
		if !proved[id] && (needsTelling[id] || !judged[id]) {
			faults = append(faults, fmt.Sprintf("nothing shows the promise %s: write a transcript with the line "+
				"\"# promise: %s\" in clustertest/testdata/promises, or a row in notInTranscripts", id, id))
		}
	}
	maps.Copy(proved, judged)
	for _, id := range slices.Sorted(maps.Keys(proved)) {
		if !promised[id] {
			faults = append(faults, fmt.Sprintf("no page promises %s, which something shows", id))
		}
	}
	return faults
}

// Promises that nothing shows are found, and so is what shows nothing that is promised.
func TestPromisesFindsFaults(t *testing.T) {
	pages := map[string]string{"p.md": "A.\n<!-- promise: a b judged -->\n\nB.\n<!-- promises: c -->\n"}
	told := map[string]string{"t.txt": "# What is told.\n# promise: a d\n# Promise: a\n"}
	got := strings.Join(faultsOf(pages, told, map[string]bool{"judged": true, "f": true}, []shown{
		{"e", "test cmd/lockd TestPromises", "why"}, {"a", "test cmd/lockd TestNone", "why"}, {"a", "magic x", "why"},
		{"a", "test cmd/lockd TestPromises", ""},
	}), "\n")
	for _, want := range []string{
		"nothing shows the promise b:", "nothing shows the promise judged:", "no page promises d,", "no page promises e,", "no page promises f,",
		"a: there is no test cmd/lockd TestNone", "a: there is no magic x", "a: why does no transcript",
		`p.md: "<!-- promises: c -->" is no mark`, `t.txt: "# Promise: a" is no mark`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("nothing says %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 10 {
		t.Errorf("%d faults, not 10:\n%s", n, got)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hasTest reports whether a package, named by its folder, has a test.
func hasTest(folder, name string) bool {
	files, _ := filepath.Glob(filepath.Join(repository, folder, "*_test.go"))
	return slices.ContainsFunc(files, func(path string) bool {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		return err == nil && slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Recv == nil && f.Name.Name == name && strings.HasPrefix(name, "Test")
		})
	})
}
