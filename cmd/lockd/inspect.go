package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"lockd/cluster/refound"
)

// inspectCmd shows the content of a data folder or a backup.
type inspectCmd struct {
	Path string `arg:"" help:"A data folder, or a backup." placeholder:"DIR"`
}

func (c *inspectCmd) run(_ context.Context, stdout, _ io.Writer) error {
	if info, err := os.Stat(c.Path); err == nil && info.Mode().IsRegular() {
		return c.backup(stdout)
	}
	in, err := refound.Inspect(c.Path, newMachine())
	if err != nil {
		return usageError{err}
	}
	for _, line := range inspected(in) {
		fmt.Fprintln(stdout, line)
	}
	if in.Damage != nil {
		return fmt.Errorf("%s is damaged: %w", c.Path, in.Damage)
	}
	fmt.Fprintln(stdout, "sound       every checksum matches, and a node starts here")
	return nil
}

func (c *inspectCmd) backup(stdout io.Writer) error {
	machine := newMachine()
	head, err := refound.ReadBackup(c.Path, machine)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "backup      format %d, by lockd %s\n", head.Format, head.Version)
	fmt.Fprintf(stdout, "made        %s, by node %s\n", wallTime(head.MadeMs), head.Node)
	fmt.Fprintf(stdout, "cluster     %s\n", head.Cluster)
	keys, lastFence := machine.Totals()
	fmt.Fprintf(stdout, "state       %d keys as of entry %d, fences up to %d\n", keys, head.Index, lastFence)
	fmt.Fprintln(stdout, "sound       every checksum matches")
	return nil
}

// inspected formats an inspection. Damaged data may lack some of the lines.
func inspected(in *refound.Inspection) []string {
	var lines []string
	add := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%-11s ", name)+fmt.Sprintf(format, args...))
	}
	add("node", "%s, incarnation %s, %d starts, on %s", in.Meta.ID, in.Meta.Incarnation, in.Meta.Starts, in.Meta.Arch)
	add("cluster", "%s", orNone(in.Cluster))
	add("folder", "format %d, log in %s", in.Meta.Format, orNone(in.Meta.LogStore))
	if in.Last > 0 {
		add("log", "entries %d to %d, the last of term %d: %s", in.First, in.Last, in.LastTerm, kinds(in.Kinds))
	} else {
		add("log", "empty")
	}
	for _, s := range in.Snapshots {
		state := "sound"
		if s.Err != nil {
			state = "cannot be read: " + s.Err.Error()
		}
		add("snapshot", "entry %d of term %d, %d bytes, %s", s.Index, s.Term, s.Size, state)
	}
	vote := "no vote in it"
	if in.VotedIn == in.Term && in.VoteFor != "" {
		vote = "voted for " + in.VoteFor
	}
	add("votes", "term %d, %s", in.Term, vote)
	if in.Applied > 0 {
		add("applied", "up to entry %d at least; what is behind may not be committed", in.Applied)
	}
	if in.Damage == nil {
		add("state", "%d keys, fences up to %d, newest entry from %s", in.Keys, in.Fence, wallTime(in.WallMs))
	}
	for _, s := range in.Servers {
		add("member", "%s %s %s", s.ID, s.Address, suffrage(s))
	}
	if len(in.Removed) > 0 {
		add("removed", "%s", strings.Join(in.Removed, " "))
	}
	for _, note := range in.Notes {
		add("note", "%s", note)
	}
	return lines
}

func suffrage(s raft.Server) string { return strings.ToLower(s.Suffrage.String()) }

func orNone(s string) string { return cmp.Or(s, "none yet") }

func kinds(of map[string]int) string {
	var parts []string
	for _, name := range []string{"writes", "ticks", "members", "raft", "void"} {
		if of[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", of[name], name))
		}
	}
	if len(parts) == 0 {
		return "all in the snapshot"
	}
	return "behind the snapshot " + strings.Join(parts, ", ")
}

// recoverCmd makes a cluster of one of a data folder.
type recoverCmd struct {
	foundFlags `embed:""`

	Dir   string   `required:"" help:"Data folder of a node that is left, and stopped." placeholder:"DIR"`
	Other []string `help:"Folders of other nodes that are left, or copies of them: it is said which knows most." placeholder:"DIR"`
	Yes   bool     `help:"Do it. Without it nothing is changed."`
}

func (c *recoverCmd) run(_ context.Context, stdout, _ io.Writer) error {
	in, err := refound.Inspect(c.Dir, newMachine())
	if err != nil {
		return usageError{err}
	}
	for _, line := range inspected(in) {
		fmt.Fprintln(stdout, line)
	}
	if err := in.Unusable(); err != nil {
		return fmt.Errorf("nothing can be recovered of %s: %w", c.Dir, err)
	}
	better, err := c.compare(stdout, in)
	if err != nil {
		return err
	}
	if !c.Yes {
		sayLosses(stdout, in)
		return nil
	}
	if better != "" {
		return fmt.Errorf("%s knows more than %s: recover that one, as what is only in it would be lost; nothing was changed",
			better, c.Dir)
	}
	done, kept, err := refound.Recover(refound.Fork{
		Dir: c.Dir, PeerAddr: c.PeerAdvertise, Hold: c.Hold, FenceAbove: c.above, Machine: newMachine(),
	})
	if err != nil {
		return foundError(err)
	}
	fmt.Fprintf(stdout, "\nThe folder as it was is kept as %s.\n", kept)
	explain(stdout, done, in.Meta.ID, c.Dir)
	return nil
}

// compare reports which of the other folders is better than the inspected one, and returns the best of them; "" if
// none is better.
func (c *recoverCmd) compare(stdout io.Writer, in *refound.Inspection) (better string, err error) {
	best := in
	for _, dir := range c.Other {
		other, err := refound.Inspect(dir, newMachine())
		if err != nil {
			return "", usageError{err}
		}
		say := "it knows no more"
		switch {
		case other.Unusable() != nil:
			say = "it is of no use: " + other.Unusable().Error()
		case other.Cluster != in.Cluster:
			say = "it belongs to another cluster, " + orNone(other.Cluster)
		case other.Newer(in):
			if say = "it is better"; other.Newer(best) {
				best, better = other, dir
			}
		}
		fmt.Fprintf(stdout, "%-11s %s: node %s, entry %d, of term %d: %s\n", "other", dir, other.Meta.ID, other.Index,
			other.LastTerm, say)
	}
	return better, nil
}

// sayLosses prints the consequences of --yes.
func sayLosses(stdout io.Writer, in *refound.Inspection) {
	var others []string
	for _, s := range in.Servers {
		if string(s.ID) != in.Meta.ID {
			others = append(others, fmt.Sprintf("%s (%s)", s.ID, s.Address))
		}
	}
	fmt.Fprintln(stdout, "\nNothing was changed. With --yes this folder becomes a new cluster of one node, with all of its "+
		"log.")
	if len(others) > 0 {
		slices.Sort(others)
		fmt.Fprintf(stdout, "What was acknowledged and is only on %s is lost then. Of the folders that are left, the one with "+
			"the highest term of its log, and then with the highest entry, is the best: compare them by lockd inspect, or "+
			"by --other. Recover only if most nodes are lost for good: where a majority can start again, start it.\n",
			strings.Join(others, ", "))
	}
}
