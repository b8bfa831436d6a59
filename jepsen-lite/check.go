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

// Parts of the judgement of a run.
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
	return judgeHistory(dir, h, w, what)
}

// judgeHistory judges a history, with what dir tells of the cluster.
func judgeHistory(dir string, h *history.History, w *workload.Workload, what string) (report.Result, error) {
	v := model.All(w.Check, model.Errors, model.Live, model.Least(w.Least...))(h)
	var cluster model.Verdict
	text, err := os.ReadFile(filepath.Join(dir, clusterFile))
	if err == nil {
		err = json.Unmarshal(text, &cluster)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return report.Result{}, fmt.Errorf("%s: %w", filepath.Join(dir, clusterFile), err)
	}
	v.Count(cluster.AtStake)
	v.Problems = append(v.Problems, cluster.Problems...)
	v.Undecided = append(v.Undecided, cluster.Undecided...)
	v.Notes = append(v.Notes, cluster.Notes...)
	if what == judgeSafety {
		v.SafetyOnly()
	}
	v.Weigh(h, w.Name, what == judgeSafety)
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
	runs, err := recorded(c.Dir)
	if err != nil {
		return false, err
	}
	var results []report.Result
	for _, run := range runs {
		r, err := run.judge(c.Judge)
		if err != nil {
			return false, err
		}
		results = append(results, r)
	}
	report.Table(out, results)
	return report.Passed(results), nil
}

// recording is the folder of a workload of a run.
type recording struct {
	dir      string
	workload *workload.Workload
}

// judge judges the recording. Its history may come from another program, so content that makes a checker panic is an
// error.
func (r recording) judge(what string) (result report.Result, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("%s is damaged, or no history of %s: %v",
				filepath.Join(r.dir, historyFile), r.workload.Name, why)
		}
	}()
	result, err = judge(r.dir, r.workload, what)
	if err == nil && len(result.History.Ops) == 0 {
		err = fmt.Errorf("%s holds no operation", filepath.Join(r.dir, historyFile))
	}
	return result, err
}

// recorded finds the recordings in the folder of a run, or of one of its workloads.
func recorded(name string) (found []recording, err error) {
	dir, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil, err
	}
	has := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, historyFile))
		return err == nil
	}
	if has(dir) {
		w := workload.Find(filepath.Base(dir))
		if w == nil {
			return nil, fmt.Errorf("%s holds a %s, and there is no workload %q", name, historyFile, filepath.Base(dir))
		}
		return []recording{{dir, w}}, nil
	}
	for i := range workload.Table {
		w := &workload.Table[i]
		if d := filepath.Join(dir, w.Name); has(d) {
			found = append(found, recording{d, w})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s holds no recorded run: a run's folder has one folder per workload, with a %s",
			name, historyFile)
	}
	return found, nil
}
