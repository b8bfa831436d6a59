package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lockd/jepsen-lite/mutation"
	"lockd/jepsen-lite/target"
)

type mutateCmd struct {
	Package  []string      `default:"all" help:"Packages that have mutants, in turn; see --list." placeholder:"FOLDER,..."`
	Mutant   []string      `help:"Only these." placeholder:"ID,..."`
	Sample   int           `help:"Only so many of each package (default: all)." placeholder:"N"`
	Seed     uint64        `default:"1" help:"Decides which ones --sample draws."`
	TestTime time.Duration `default:"1m" help:"Leave out tests that take longer; 0s: all tests, as to see what --sim catches."`
	Sim      time.Duration `help:"Look so long for each mutant that no test notices in simulated runs (default: not at all)."`
	Again    bool          `help:"Run the mutants that are judged equivalent, too: one that is noticed is an error."`
	Side     int           `default:"1" help:"Processes that run tests, or simulated runs, beside each other." placeholder:"N"`
	Out      string        `help:"Folder for what is built (default: a new one in the temporary folder)." placeholder:"DIR"`
	List     bool          `help:"List the mutants, and run nothing."`
}

// run runs the tests with each mutant, and passes if each one is noticed or judged.
func (c *mutateCmd) run(out io.Writer) (passed bool, err error) {
	ctx, stop := untilTold()
	defer stop()
	var known []string
	for _, p := range mutation.Packages {
		known = append(known, p.Folder)
	}
	if c.Package, err = names("package", c.Package, known); err != nil {
		return false, err
	}
	r := &mutation.Runner{Out: out, TestTime: c.TestTime, Sim: c.Sim, Again: c.Again, Side: max(c.Side, 1)}
	if r.Root, err = target.Repository(); err != nil {
		return false, err
	}
	if r.Judged, err = mutation.Judge(); err != nil {
		return false, err
	}
	if r.Dir, err = folder(c.Out, "mutate"); err != nil {
		return false, err
	}
	var rows []mutantsRow
	for _, p := range mutation.Packages {
		if !slices.Contains(c.Package, p.Folder) {
			continue
		}
		results, err := c.one(ctx, r, p)
		if err != nil {
			return false, err
		}
		rows = append(rows, mutantsRow{p.Folder, results})
	}
	return c.List || mutantsTable(out, r.Judged, rows), nil
}

// mutantsRow has what became of the mutants of a package.
type mutantsRow struct {
	folder  string
	results []*mutation.Result
}

// one runs the mutants of a package.
func (c *mutateCmd) one(ctx context.Context, r *mutation.Runner, p mutation.Package) ([]*mutation.Result, error) {
	s, err := mutation.Find(r.Root, p)
	if err != nil {
		return nil, err
	}
	if wrong := r.Judged.Stale(p.Folder, s); len(wrong) > 0 {
		return nil, errors.New("equivalent.txt: " + strings.Join(wrong, "; "))
	}
	chosen := mutation.Sample(s.Mutants, c.Sample, c.Seed)
	if len(c.Mutant) > 0 {
		chosen = slices.DeleteFunc(slices.Clone(s.Mutants), func(m *mutation.Mutant) bool { return !slices.Contains(c.Mutant, m.ID) })
	}
	if c.List {
		for _, m := range chosen {
			fmt.Fprintf(r.Out, "%s (line %d): %s\n", m.ID, m.Line, m.Change())
		}
		return nil, nil
	}
	return r.Run(ctx, p, s, chosen)
}

// mutantsTable prints what became of mutants, and passes if nothing is left to do about them.
func mutantsTable(out io.Writer, judged mutation.Judgements, rows []mutantsRow) (passed bool) {
	passed = true
	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "package\tmutants\tkilled by tests\tcaught in the simulator\tequivalent\talive")
	for _, row := range rows {
		n := map[mutation.Fate]int{}
		for _, r := range row.results {
			n[r.Fate]++
			switch noticed := r.Fate == mutation.Killed || r.Fate == mutation.Caught; {
			case r.Fate == mutation.Alive:
				fmt.Fprintf(out, "ALIVE %s (line %d, %s): %s\n", r.ID, r.Line, r.By, r.Change())
				passed = false
			case noticed && judged[r.ID] != nil:
				fmt.Fprintf(out, "JUDGED equivalent, and noticed by %s: %s\n", r.By, r.ID)
				passed = false
			}
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\n", row.folder, len(row.results),
			n[mutation.Killed], n[mutation.Caught], n[mutation.Equal], n[mutation.Alive])
	}
	_ = tw.Flush()
	fmt.Fprintf(out, "%s", &table)
	return passed
}
