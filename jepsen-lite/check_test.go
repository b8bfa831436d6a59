package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/workload"
)

// record writes a history of one register, with writes and reads, and of a second one, so that all necessary operations
// occur.
func record(t *testing.T, dir string, answers []string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	rec, err := history.Create(filepath.Join(dir, historyFile), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	rec.Record(history.Event{Process: 3, Type: history.Invoke, Op: "versions", Key: "r"})
	rec.Record(history.Event{Process: 3, Type: history.OK, Op: "versions", Key: "r"})
	for i, answer := range answers {
		v := fmt.Sprint(i)
		rec.Record(history.Event{Process: 1, Type: history.Invoke, Op: "set", Key: "r", Value: []string{v}, Node: "n1"})
		rec.Record(history.Event{Process: 1, Type: history.OK, Op: "set", Key: "r", Value: []string{"OK"}})
		rec.Record(history.Event{Process: 2, Type: history.Invoke, Op: "get", Key: "r", Node: "n1"})
		rec.Record(history.Event{Process: 2, Type: history.OK, Op: "get", Key: "r", Value: []string{answer}})
	}
	var versions []string
	for i := range answers {
		versions = append(versions, fmt.Sprint(i))
	}
	for _, o := range []struct {
		op, key string
		in, out []string
	}{
		{"setnx", "s", []string{"a"}, []string{"OK"}},
		{"cas", "s", []string{"a", "b"}, []string{"1"}},
		{"swap", "s", []string{"c"}, []string{"b"}},
		{"del", "s", nil, []string{"1"}},
		{"setnx", "s", []string{"d"}, []string{"OK"}},
		{"cas", "s", []string{"d", "e"}, []string{"1"}},
		{"swap", "s", []string{"f"}, []string{"e"}},
		{"del", "s", nil, []string{"1"}},
		{"versions", "s", nil, []string{"b", "e"}},
		{"versions", "r", nil, versions},
	} {
		rec.Record(history.Event{Process: 3, Type: history.Invoke, Op: o.op, Key: o.key, Value: o.in})
		rec.Record(history.Event{Process: 3, Type: history.OK, Op: o.op, Key: o.key, Value: o.out})
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
}

// A recorded history is judged again from its file. If a single event is altered, that event is named by its line.
func TestCheckNamesTheAlteredEvent(t *testing.T) {
	dir := t.TempDir()
	var answers []string
	for i := range 25 {
		answers = append(answers, fmt.Sprint(i))
	}
	record(t, filepath.Join(dir, "register"), answers)
	var out strings.Builder
	passed, err := (&checkCmd{Dir: dir}).run(&out)
	if err != nil || !passed {
		t.Fatalf("a good history: passed %v, error %v\n%s", passed, err, out.String())
	}
	answers[3] = "2" // the read of the fourth pair, on line 18, saw what had been overwritten
	record(t, filepath.Join(dir, "register"), answers)
	out.Reset()
	passed, err = (&checkCmd{Dir: dir}).run(&out)
	if err != nil || passed || !strings.Contains(out.String(), "register: acknowledged write lost: line 18: process 2 get") {
		t.Fatalf("an altered history: passed %v, error %v\n%s", passed, err, out.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "register", pictureFile)); err != nil {
		t.Errorf("no picture of the failure: %v", err)
	}
}

// Problems of the nodes themselves (a death, a fork) fail the check, too.
func TestCheckKeepsWhatTheClusterShowed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "register")
	record(t, dir, []string{"0"})
	if err := os.WriteFile(filepath.Join(dir, clusterFile), []byte(`{"Problems":[{"Kind":"states differ","Text":"at index 7"}],"Notes":["the machine, at 3.0 s: the disk took 1s to sync a block"]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	passed, err := (&checkCmd{Dir: dir}).run(&out)
	if err != nil || passed || !strings.Contains(out.String(), "states differ: at index 7") {
		t.Fatalf("passed %v, error %v\n%s", passed, err, out.String())
	}
	r, err := judge(dir, workload.Find("register"), "all")
	if err != nil || !slices.Contains(r.Verdict.Notes, "the machine, at 3.0 s: the disk took 1s to sync a block") {
		t.Errorf("%v: notes %q", err, r.Verdict.Notes)
	}
}

// Judged for safety alone, delays are noted and fail nothing.
func TestCheckOfSafety(t *testing.T) {
	for _, c := range []struct {
		cluster, what string
		passes        bool
	}{
		{`{"Problems":[{"Kind":"memory not back","Text":"n1"}]}`, judgeAll, false},
		{`{"Problems":[{"Kind":"memory not back","Text":"n1"}]}`, judgeSafety, true},
		{`{"Problems":[{"Kind":"memory not back","Text":"n1"},{"Kind":"a node died","Text":"n1"}]}`, judgeSafety, false},
	} {
		dir := filepath.Join(t.TempDir(), "register")
		record(t, dir, []string{"0"})
		if err := os.WriteFile(filepath.Join(dir, clusterFile), []byte(c.cluster), 0o644); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		passed, err := (&checkCmd{Dir: dir, Judge: c.what}).run(&out)
		told := strings.Contains(out.String(), "register: not judged: memory not back: n1")
		if err != nil || passed != c.passes || told != (c.what == judgeSafety) {
			t.Errorf("%s of %s: passed %v, error %v\n%s", c.what, c.cluster, passed, err, out.String())
		}
	}
}

// A folder without a history is an error, not a pass.
func TestCheckOfNothing(t *testing.T) {
	if passed, err := (&checkCmd{Dir: t.TempDir()}).run(&strings.Builder{}); err == nil || passed {
		t.Errorf("passed %v, error %v", passed, err)
	}
}

// A history that put rules at stake too few times is no pass. Judged for safety a tenth of that is enough, since the
// machine may have been slow, but not if nothing was answered.
func TestCheckOfLittle(t *testing.T) {
	for _, c := range []struct {
		what   string
		events string // the last ones of the history; "": all of record
		passes bool
		told   string
	}{
		{judgeAll, "", false, "register: undecided: change-kept was at stake 3 times, and 5 are the least (it needs 5s, and had 0s): "},
		{judgeAll, "", false, "answered 2 of 10  UNDECIDED\n"},
		{judgeSafety, "", true, "each-request 1 of 0  ok\n"},
		{judgeAll, "info", false, "register: undecided: answered was at stake 0 times, and 10 are the least: "},
		{judgeSafety, "info", false, "register: undecided: answered was at stake 0 times, and 1 are the least: "},
		{judgeSafety, "fail", false, "register: undecided: answered was at stake 0 times, and 1 are the least: "},
	} {
		dir := filepath.Join(t.TempDir(), "register")
		record(t, dir, []string{"0"})
		if file := filepath.Join(dir, historyFile); c.events != "" {
			text, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(file, bytes.ReplaceAll(text, []byte(`"ok"`), []byte(`"`+c.events+`"`)), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		passed, err := (&checkCmd{Dir: dir, Judge: c.what}).run(&out)
		if err != nil || passed != c.passes || !strings.Contains(out.String(), c.told) {
			t.Errorf("%s %s: passed %v, error %v, want %q in\n%s", c.what, c.events, passed, err, c.told, out.String())
		}
	}
}
