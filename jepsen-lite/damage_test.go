package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever a folder contains, check and shrink report in one sentence that it is no recorded run, with exit status 2.
func TestDamagedFolder(t *testing.T) {
	const (
		asked    = `{"time":1,"process":1,"type":"invoke","op":"set","key":"r","value":["1"]}` + "\n"
		answered = `{"time":2,"process":1,"type":"ok","op":"set","key":"r","value":["OK"]}` + "\n"
		nobody   = `{"time":3,"process":9,"type":"ok","op":"get","key":"r","value":["1"]}` + "\n"
		nothing  = `{"time":4,"process":2,"type":"invoke","op":"get","key":"r"}` + "\n" + `{"time":5,"process":2,"type":"ok","op":"get","key":"r"}` + "\n"
	)
	for _, c := range []struct {
		workload, history, cluster, want string
	}{
		{"", "", "", " holds no recorded run: "},
		{"register", "", "", "history.jsonl holds no operation"},
		{"register", "PK\x03\x04", "", "history.jsonl: line 1: invalid character"},
		{"register", asked + answered[:20], "", "history.jsonl: line 2: unexpected end of JSON input"},
		{"register", asked + answered + nobody, "", "history.jsonl: line 3: process 9 completes get, which it has not invoked"},
		{"register", asked + strings.Replace(answered, "2", "0", 1), "", "history.jsonl: line 2: time 0 lies before that of the line above"},
		{"register", asked + answered + nothing, "", "history.jsonl is damaged, or no history of register: "},
		{"register", asked + answered, "[1]", "cluster.json: json: cannot unmarshal"},
		{"register", asked + answered, "{", "cluster.json: unexpected end of JSON input"},
	} {
		dir := t.TempDir()
		if c.workload != "" {
			fill(t, filepath.Join(dir, c.workload), map[string]string{historyFile: c.history, clusterFile: c.cluster, scheduleFile: `{"nodes":3,"length":1}`})
		}
		for _, name := range []string{"check", "shrink"} {
			refused(t, c.want, name, dir)
		}
	}
	dir := t.TempDir()
	fill(t, filepath.Join(dir, "poetry"), map[string]string{historyFile: asked})
	fill(t, dir, map[string]string{"file": asked})
	for _, name := range []string{"check", "shrink"} {
		refused(t, `there is no workload "poetry"`, name, filepath.Join(dir, "poetry"))
		refused(t, " holds no recorded run: ", name, dir)
		refused(t, "no such file or directory", name, filepath.Join(dir, "missing"))
		refused(t, "not a directory", name, filepath.Join(dir, "file"))
		refused(t, "expected", name)
	}
}

// A schedule that cannot be played, and a run that did not fail, are reported.
func TestDamagedSchedule(t *testing.T) {
	const step = `{"After":1,"For":1,"Faults":[{"Kind":"kill","Variant":"leader","Dice":1}]}`
	for _, c := range []struct{ schedule, want string }{
		{"", "schedule.json: no such file or directory"},
		{"steps", "schedule.json: invalid character"},
		{`{"steps":[` + step, "schedule.json: unexpected end of JSON input"},
		{`{"steps":[` + strings.Replace(step, "kill", "flood", 1) + `]}`, `schedule.json: step 1: there is no nemesis "flood"`},
		{`{"seed":1,"steps":[` + step + `]}`, "schedule.json does not say how the run was made"},
		{`{"nodes":3,"workers":1,"rate":1,"length":1,"target":"abacus","steps":[` + step + `]}`, `there is no target "abacus"`},
		{`{"nodes":3,"length":1,"target":"lockd","steps":[]}`, "--workers and --rate must be at least 1"},
		{`{"nodes":3,"workers":1,"rate":1,"length":1,"target":"lockd","plant":"weed","steps":[]}`, `there is no bug "weed" to plant`},
	} {
		dir := recordFailure(t, planned(), 0, 1)
		path := filepath.Join(dir, "register", scheduleFile)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if c.schedule != "" {
			fill(t, filepath.Dir(path), map[string]string{scheduleFile: c.schedule})
		}
		refused(t, c.want, "shrink", dir)
	}
	dir := recordFailure(t, planned(), 0, 1)
	refused(t, "--tries must be at least 1", "shrink", dir, "--tries", "0")
	refused(t, "--time greater than 0", "shrink", dir, "--time", "0s")
	refused(t, "no such file or directory", "run", "--schedule", filepath.Join(dir, scheduleFile))
	if err := os.Remove(filepath.Join(dir, "register", clusterFile)); err != nil {
		t.Fatal(err)
	}
	refused(t, "did not fail: there is nothing to shrink", "shrink", dir)
}

// fill writes files into a folder.
func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if text == "" && name == clusterFile {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
