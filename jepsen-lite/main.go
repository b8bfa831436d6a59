// Command jepsen-lite starts a cluster, breaks it while clients work on it, and judges what the clients saw.
// README.md tells how to run it.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/nemesis"
	"lockd/jepsen-lite/sim"
	"lockd/jepsen-lite/target"
	"lockd/jepsen-lite/workload"
)

type cli struct {
	Run      runCmd      `cmd:"" default:"withargs" set:"time=0s" help:"Run workloads under faults and judge them (the default command)."`
	Marathon marathonCmd `cmd:"" set:"time=0s" help:"Run with one seed after the other until interrupted, and keep the failed runs."`
	Check    checkCmd    `cmd:"" help:"Judge a recorded run again, without running anything."`
	Shrink   shrinkCmd   `cmd:"" help:"Run a schedule that failed with fewer and fewer faults, as long as it fails."`
	Planted  plantedCmd  `cmd:"" help:"Plant one bug after the other in the server, and report whether it was caught."`
	Mutate   mutateCmd   `cmd:"" help:"Make mutants of packages, and report which ones no test notices."`
}

type runCmd struct {
	Time     time.Duration `default:"${time}" help:"Length of the whole run, which the workloads share, 0s: as long as their rules need; of a marathon: of all its runs, 0s: until it is interrupted."`
	Workload []string      `default:"all" help:"Workloads, in turn." placeholder:"NAME,..."`
	Nemesis  []string      `default:"kill,pause,partition" help:"Kinds of faults, or variants of one, as scenario:save-twice; none: no faults; all: every kind." placeholder:"NAME,..."`
	Mixed    bool          `help:"Up to four faults at once."`
	Swarm    bool          `help:"The seed also decides which one of the workloads runs, which of the faults there are, how often and for how long."`
	Again    int           `help:"Make the run so often, until it fails: a seed decides the faults, not the order of all that happens at once." placeholder:"N"`
	Schedule string        `help:"Play the faults of this schedule.json instead of those that --nemesis and the seed decide." placeholder:"FILE"`
	Nodes    int           `default:"3" help:"Nodes of the cluster."`
	Workers  int           `default:"12" help:"Clients that work at the same time."`
	Rate     int           `default:"300" help:"Operations a second that the clients aim at, together."`
	Judge    string        `default:"all" enum:"all,safety" help:"What is judged: all, or safety only: delays are then noted and fail nothing." placeholder:"WHAT"`
	Seed     uint64        `help:"Decides the faults and the clients' operations (default: random)."`
	Out      string        `help:"Folder for histories, logs and reports (default: a new one in the temporary folder)." placeholder:"DIR"`
	Target   string        `default:"lockd" help:"What to test; see --list."`
	Binary   string        `help:"The server to test (default: built from this repository, as a test build)." placeholder:"FILE"`
	State    int           `help:"Load so many MiB of data, a thousand keys each, before the faults, and check them at the end." placeholder:"MIB"`
	Race     bool          `help:"Build the server with Go's race detector; its reports fail the run, delays do not (--judge safety)."`
	TLS      bool          `name:"tls" help:"Clients and nodes speak TLS, nodes with a secret, by certificates of the run; faults that look into messages between nodes are left out."`
	From     string        `help:"Upgrade nodes (--nemesis upgrade) from this commit or tag to the present tree, instead of from the present tree to a stand-in for the next release." placeholder:"REF"`
	Plant    string        `help:"Build the server with a bug planted in it, to see it caught; see --list." placeholder:"NAME"`
	Keep     bool          `help:"Write the histories of a simulated run that passes, too."`
	Args     []string      `help:"More arguments for the server." placeholder:"ARG,..."`
	built    string        // the server of several runs, which one of them need not build
	outside  func(func())  `kong:"-"` // runs something in real time; of a simulated run
	sim      *simulator    `kong:"-"` // that has the bug of Plant; nil: it is to be built
	List     bool          `help:"List workloads, nemeses, targets, rules and bugs to plant, and do nothing."`
}

// targets is the table of targets.
var targets = append(slices.Clone(target.Kinds), sim.Kind)

type checkCmd struct {
	Dir   string `arg:"" help:"Folder of a recorded run, or of one workload of it."`
	Judge string `default:"all" enum:"all,safety" help:"What is judged: all, or safety only: delays are then noted and fail nothing." placeholder:"WHAT"`
}

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command carries out a command line and returns the exit status.
func command(args []string, stdout, stderr io.Writer) int {
	var c cli
	helped := false
	parser, err := kong.New(
		&c,
		kong.Name("jepsen-lite"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.Description("Breaks a cluster of lockd in every way, and checks what its clients saw."),
	)
	passed := false
	if err == nil {
		var ctx *kong.Context
		ctx, err = parser.Parse(args)
		switch {
		case helped:
			return 0
		case err == nil:
			passed, err = c.do(ctx.Command(), stdout)
		}
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "jepsen-lite:", err)
		return 2
	case !passed:
		return 1
	}
	return 0
}

func (c *cli) do(command string, out io.Writer) (passed bool, err error) {
	switch name, _, _ := strings.Cut(command, " "); {
	case c.Run.List || c.Marathon.Flags.List:
		list(out)
		return true, nil
	case name == "marathon":
		return c.Marathon.run(out)
	case name == "check":
		return c.Check.run(out)
	case name == "shrink":
		return c.Shrink.run(out)
	case name == "planted":
		return c.Planted.run(out)
	case name == "mutate":
		return c.Mutate.run(out)
	}
	return c.Run.run(out)
}

// list prints the tables.
func list(w io.Writer) {
	fmt.Fprintln(w, "workloads:")
	for _, r := range workload.Table {
		fmt.Fprintf(w, "  %-10s %s\n", r.Name, r.Summary)
	}
	fmt.Fprintln(w, "nemeses:")
	for _, r := range nemesis.Table {
		fmt.Fprintf(w, "  %-11s %s (%s)\n", r.Name, r.Summary, strings.Join(r.Variants, ", "))
	}
	fmt.Fprintln(w, "targets:")
	for _, r := range targets {
		fmt.Fprintf(w, "  %-14s %s\n", r.Name, r.Summary)
	}
	fmt.Fprintln(w, "rules, and how often they must be at stake:")
	for _, r := range model.Rules {
		fmt.Fprintf(w, "  %-24s %s (%s)\n", r.ID, r.Says, r.Need)
	}
	fmt.Fprintf(w, "bugs to plant:\n  %s\n", strings.Join(bugs(), ", "))
}

// names resolves a list of names against a table: "all", "none", or names of the table.
func names(what string, given, known []string) ([]string, error) {
	var out []string
	for _, g := range given {
		switch g {
		case "all":
			out = append(out, known...)
		case "none":
		default:
			found := false
			for _, k := range known {
				found = found || k == g
			}
			if !found {
				return nil, fmt.Errorf("there is no %s %q: choose from %s", what, g, strings.Join(known, ", "))
			}
			out = append(out, g)
		}
	}
	return out, nil
}
