package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lockd/jepsen-lite/model"
)

// Files that a campaign leaves in its folder.
const (
	summaryFile = "summary.txt"  // what it prints at its end; until then that of the runs so far
	totalsFile  = "summary.json" // the sums of the figures of its runs
)

// summarize prints what all runs had together, and keeps it.
func (m *campaign) summarize() error {
	text, err := m.keep()
	fmt.Fprintf(m.out, "%s", text)
	return err
}

// keep writes what the runs so far had together into files, and returns its text. m.mu is held, or no run is being made.
func (m *campaign) keep() (string, error) {
	var text strings.Builder
	m.summary(&text, time.Since(m.began))
	if err := os.WriteFile(filepath.Join(m.cmd.Flags.Out, summaryFile), []byte(text.String()), 0o644); err != nil {
		return text.String(), err
	}
	return text.String(), writeJSON(filepath.Join(m.cmd.Flags.Out, totalsFile), m.sum)
}

// command is the command that makes the same runs once more.
func (m *campaign) command() string {
	c := m.cmd.Flags
	c.Seed = m.first
	words := append(strings.Fields(againCommand), "marathon", "--each", m.cmd.Each.String())
	if m.cmd.Seeds > 0 {
		words = append(words, "--seeds", fmt.Sprint(m.cmd.Seeds))
	}
	for _, word := range c.words() {
		words = append(words, quoted(word))
	}
	return strings.Join(words, " ")
}

// summary writes what all runs had together, in the time that they took.
func (m *campaign) summary(w io.Writer, took time.Duration) {
	sum, cpu := &m.sum, max(m.sum.CPU.Seconds(), 1e-3)
	fmt.Fprintf(w, "%s\n\n", m.command())
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "seeds\t%d passed, %d failed, from %d on\n", m.passed, len(m.failed), m.first)
	fmt.Fprintf(tw, "operations\t%d: %d ok, %d refused, %d unknown\n", sum.operations(), sum.OK, sum.Fail, sum.Info)
	fmt.Fprintf(tw, "faults\t%d; %d processes ended\n", sum.Faults, sum.Ended)
	fmt.Fprintf(tw, "simulated\t%s in %s, and %s of one processor\n", sum.Lasted.Round(time.Second), took.Round(time.Second),
		sum.CPU.Round(time.Second))
	fmt.Fprintf(tw, "rate\t%.0f operations and %.1f simulated seconds per second of one processor\n",
		float64(sum.operations())/cpu, sum.Lasted.Seconds()/cpu)
	fmt.Fprintf(tw, "longest time without a write\t%s (seed %d)\n", sum.Silence.Round(time.Millisecond), m.silent)
	fmt.Fprintf(tw, "undecided\t%d runs were too short for a rule, or had too few faults, or a search gave up; %d searches did\n",
		m.doubtful, sum.GaveUp)
	fmt.Fprintln(tw, "\nworkload\truns\toperations")
	for _, load := range slices.Sorted(maps.Keys(sum.Loads)) {
		fmt.Fprintf(tw, "%s\t%d\t%d\n", load, m.loads[load], sum.Loads[load])
	}
	fmt.Fprintln(tw, "\nfault\ttimes")
	for _, kind := range slices.Sorted(maps.Keys(sum.Kinds)) {
		fmt.Fprintf(tw, "%s\t%d\n", kind, sum.Kinds[kind])
	}
	fmt.Fprintln(tw, "\nrule\tat stake")
	var never []string
	for _, r := range model.Rules {
		if n := sum.AtStake[r.ID]; n > 0 {
			fmt.Fprintf(tw, "%s\t%d\n", r.ID, n)
		} else {
			never = append(never, r.ID)
		}
	}
	_ = tw.Flush()
	if len(never) > 0 {
		fmt.Fprintf(w, "never at stake: %s\n", strings.Join(never, ", "))
	}
	for _, line := range m.failed {
		fmt.Fprintf(w, "%s\n", line)
	}
}
