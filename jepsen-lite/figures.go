package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/report"
)

// figuresFile is the name of the file with the figures of a simulated run.
const figuresFile = "figures.json"

// figures sums up a simulated run whose histories were not written.
type figures struct {
	Verdict  string         `json:"verdict,omitempty"` // what is wrong first; "": nothing
	Problems int            `json:"problems"`
	OK       int            `json:"ok"`
	Fail     int            `json:"fail"`
	Info     int            `json:"unknown"`
	Faults   int            `json:"faults"`
	Ended    int            `json:"ended"` // processes
	Silence  time.Duration  `json:"silence"`
	Lasted   time.Duration  `json:"lasted"`             // in virtual time, of all workloads
	Share    float64        `json:"share"`              // of the time with faults in which a majority served; -1: unknown
	CPU      time.Duration  `json:"cpu,omitempty"`      // of the process that made the run
	GaveUp   int            `json:"gaveUp,omitempty"`   // searches for an order that found no answer in time
	AtStake  map[string]int `json:"atStake,omitempty"`  // by rule
	Kinds    map[string]int `json:"kinds,omitempty"`    // of faults
	Loads    map[string]int `json:"loads,omitempty"`    // operations by workload
	Complete bool           `json:"complete,omitempty"` // the run was not interrupted
}

func newFigures(results []report.Result, complete bool) figures {
	o := figures{Share: -1, AtStake: map[string]int{}, Kinds: map[string]int{}, Loads: map[string]int{}, Complete: complete}
	if share, ok := report.QuorumShare(results); ok {
		o.Share = share
	}
	for _, r := range results {
		f := report.Count(r.History)
		o.OK, o.Fail, o.Info, o.Faults = o.OK+f.OK, o.Fail+f.Fail, o.Info+f.Info, o.Faults+f.Faults
		for kind, n := range f.Kinds {
			o.Kinds[kind] += n
		}
		o.Loads[r.Workload] += f.OK + f.Fail + f.Info
		o.Ended += r.History.Ended
		o.Silence = max(o.Silence, report.Silence(r.History))
		o.Lasted += time.Duration(r.History.End)
		o.add(r.Workload, r.Verdict)
	}
	return o
}

func (o *figures) add(workload string, v *model.Verdict) {
	for id, n := range v.AtStake {
		o.AtStake[id] += n
	}
	for _, s := range v.Stakes { // by faults that none has counted
		if _, counted := v.AtStake[s.Rule.ID]; !counted {
			o.AtStake[s.Rule.ID] += s.Times
		}
	}
	o.GaveUp += v.GaveUp
	o.Problems += len(v.Problems)
	if o.Verdict == "" && !v.OK() {
		o.Verdict = workload + " " + report.Word(v)
	}
}

// operations returns how many operations there were, whatever became of them.
func (o *figures) operations() int { return o.OK + o.Fail + o.Info }

// join adds the figures of another run.
func (o *figures) join(more *figures) {
	o.OK, o.Fail, o.Info, o.Faults = o.OK+more.OK, o.Fail+more.Fail, o.Info+more.Info, o.Faults+more.Faults
	o.Ended, o.Lasted, o.Silence = o.Ended+more.Ended, o.Lasted+more.Lasted, max(o.Silence, more.Silence)
	o.CPU, o.GaveUp = o.CPU+more.CPU, o.GaveUp+more.GaveUp
	for _, sum := range []struct{ own, more map[string]int }{
		{o.AtStake, more.AtStake}, {o.Kinds, more.Kinds}, {o.Loads, more.Loads},
	} {
		for name, n := range sum.more {
			sum.own[name] += n
		}
	}
}

// loadFigures reads the figures of a run in a folder.
func loadFigures(dir string) (o figures, err error) {
	text, err := os.ReadFile(filepath.Join(dir, figuresFile))
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}
