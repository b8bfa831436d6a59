package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"lockd/jepsen-lite/nemesis"
)

// scheduleFile is the name of the file with the planned faults of a workload.
const scheduleFile = "schedule.json"

// schedule is the content of a scheduleFile: the faults, and the settings of the run, so that it can be repeated.
type schedule struct {
	Seed    uint64         `json:"seed"`   // of the clients' operations, and of the faults unless they are listed
	Began   time.Time      `json:"began"`  // time of day at time 0 of the history, by which the nodes' logs are read
	Length  time.Duration  `json:"length"` // of the workload, ns
	Target  string         `json:"target"`
	Nodes   int            `json:"nodes"`
	Workers int            `json:"workers"`
	Rate    int            `json:"rate"`
	Judge   string         `json:"judge"`
	Plant   string         `json:"plant,omitempty"`
	State   int            `json:"state,omitempty"` // MiB
	Race    bool           `json:"race,omitempty"`
	TLS     bool           `json:"tls,omitempty"`
	Args    []string       `json:"args,omitempty"`
	Steps   []nemesis.Step `json:"steps"`
}

// scheduleOf returns the schedule of a workload that begins now.
func (c *runCmd) scheduleOf(seed uint64, began time.Time, length time.Duration, steps []nemesis.Step) schedule {
	return schedule{
		Seed: seed, Began: began, Length: length, Target: c.Target, Nodes: c.Nodes, Workers: c.Workers,
		Rate: c.Rate, Judge: c.Judge, Plant: c.Plant, State: c.State, Race: c.Race, TLS: c.TLS, Args: c.Args, Steps: steps,
	}
}

// loadSchedule reads a schedule whose faults can be played.
func loadSchedule(path string) (s schedule, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err = json.Unmarshal(text, &s); err == nil {
		err = nemesis.Check(s.Steps)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// plan takes the faults of the run from its --schedule, if it has one.
func (s *session) plan() error {
	c := s.cmd
	if c.Schedule == "" {
		return nil
	}
	given, err := loadSchedule(c.Schedule)
	if err != nil {
		return err
	}
	s.steps = given.Steps
	if c.Nemesis = nemesis.Kinds(s.steps); len(c.Nemesis) == 0 {
		c.Nemesis = []string{"none"}
	}
	return nil
}

// schedule returns the faults of the workload of a turn, for this length.
func (s *session) schedule(turn int, length time.Duration) []nemesis.Step {
	seed := s.cmd.Seed + uint64(turn)
	if s.cmd.Schedule != "" {
		return s.steps
	}
	var hidden func(*nemesis.Kind) []string
	if s.unfit != nil {
		hidden = s.unfit.of
	}
	if s.swarm != nil {
		return s.swarm.plan(seed, length, s.kinds, hidden)
	}
	first := s.needs().first(s.workloads, turn, s.cmd.Time)
	return nemesis.Plan(seed, length, s.kinds, s.cmd.Mixed, hidden, first...)
}
