package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/report"
	"lockd/jepsen-lite/workload"
)

// Files in the folder of a workload; the folder has the workload's name.
const (
	historyFile = "history.jsonl"
	clusterFile = "cluster.json"
	pictureFile = "timeline.html"
)

// What is judged of a run.
const (
	judgeAll    = "all"
	judgeSafety = "safety" // not what depends on how fast the machine is
)

// judge judges the recorded history in dir.
func judge(dir string, w *workload.Workload, what string) (report.Result, error) {
	h, err := history.Load(filepath.Join(dir, historyFile))
	if err != nil {
		return report.Result{}, err
	}
	v := model.All(w.Check, model.Errors)(h)
	var cluster model.Verdict
	text, err := os.ReadFile(filepath.Join(dir, clusterFile))
	if err == nil {
		err = json.Unmarshal(text, &cluster)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return report.Result{}, fmt.Errorf("%s: %w", filepath.Join(dir, clusterFile), err)
	}
	v.Problems = append(v.Problems, cluster.Problems...)
	v.Undecided = append(v.Undecided, cluster.Undecided...)
	if what == judgeSafety {
		v.SafetyOnly()
	}
	if w.Machine != nil {
		if i := slices.IndexFunc(v.Problems, func(p model.Problem) bool { return p.Line > 0 }); i >= 0 {
			if err := model.Picture(h, v.Problems[i].Line, *w.Machine, filepath.Join(dir, pictureFile)); err != nil {
				v.Note("no timeline: %v", err)
			}
		}
	}
	return report.Result{Workload: w.Name, History: h, Verdict: v}, nil
}

func (c *checkCmd) run(out io.Writer) (passed bool, err error) {
	var results []report.Result
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return false, err
	}
	dirs := []string{dir}
	for _, w := range workload.Table {
		dirs = append(dirs, filepath.Join(dir, w.Name))
	}
	for _, d := range dirs {
		w := workload.Find(filepath.Base(d))
		if _, err := os.Stat(filepath.Join(d, historyFile)); err != nil || w == nil {
			continue
		}
		r, err := judge(d, w, c.Judge)
		if err != nil {
			return false, err
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return false, fmt.Errorf("%s holds no recorded run: a run's folder has one folder per workload, with a %s", c.Dir, historyFile)
	}
	report.Table(out, results)
	return report.Passed(results), nil
}
