package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"lockd/cmd/lockd/operate"
	"lockd/cmd/lockd/show"
	"lockd/internal/client"
	"lockd/internal/locks"
	"lockd/resp"
)

// nodeFlags select the nodes to ask; health and members share them.
type nodeFlags struct {
	clusterFlags `embed:""`

	At string `arg:"" optional:"" name:"addr" help:"The node, instead of --addr." placeholder:"HOST:PORT"`
}

func (f *nodeFlags) check() error {
	if f.At != "" {
		f.Addr = []string{f.At}
	}
	return f.clusterFlags.check()
}

// healthCmd says whether nodes can serve.
type healthCmd struct {
	nodeFlags `embed:""`
}

// run prints a sentence for each node.
func (c *healthCmd) run(ctx context.Context, stdout, _ io.Writer) error {
	sick := false
	for _, addr := range c.Addr {
		said, healthy := healthOf(ctx, c.client("lockd-health", addr))
		sick = sick || !healthy
		if _, err := fmt.Fprintln(stdout, said); err != nil {
			return err
		}
	}
	if sick {
		return exitError{status: exitFault}
	}
	return nil
}

// healthOf asks one node whether it is ready.
func healthOf(ctx context.Context, node *client.Cluster) (said string, healthy bool) {
	defer node.Close()
	fields, said := operate.InfoOf(ctx, node, "raft")
	if said != "" {
		return show.Escape(said), false
	}
	failed := []string{}
	for _, f := range fields {
		if strings.HasPrefix(f.Name, "ready_") && f.Value != "ok" {
			failed = append(failed, f.Value)
		}
	}
	id := fields.Value("node_id")
	switch {
	case fields.Value("ready") == "":
		said = node.Addr() + " does not say whether it is ready: is it a node of lockd?"
	case fields.Value("ready") != "1":
		said = id + " is not ready: " + strings.Join(failed, "; ")
	case fields.Value("leader_id") == id:
		return show.Escape(id + " is ready, and leads in term " + fields.Value("term")), true
	default:
		return show.Escape(id + " is ready, and follows " + fields.Value("leader_id") + " in term " + fields.Value("term")), true
	}
	return show.Escape(said), false
}

// membersCmd lists the members of a cluster.
type membersCmd struct {
	nodeFlags `embed:""`
}

// run prints a table, or a line for each member if a program reads the output.
func (c *membersCmd) run(ctx context.Context, stdout, _ io.Writer) error {
	cluster := c.client("lockd-members", c.Addr...)
	defer cluster.Close()
	r, err := cluster.DoIdempotent(ctx, "LOCKD", "MEMBERS")
	switch {
	case err != nil:
		return fmt.Errorf("no server answers: %w", err)
	case r.IsErr():
		return operate.Refused(r.Str)
	}
	table, err := membersTable(r)
	if err != nil {
		return err
	}
	if isTerminal(stdout) {
		_, err = io.WriteString(stdout, strings.Join(membersLines(table, outputWidth(stdout)), "\n")+"\n")
		return err
	}
	for _, row := range table.Rows {
		if _, err := fmt.Fprintln(stdout, strings.Join(row, " ")); err != nil {
			return err
		}
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// membersTable converts a reply of LOCKD MEMBERS. No cell is empty, so that programs can split lines into columns.
func membersTable(r resp.Reply) (*show.Table, error) {
	t := &show.Table{Columns: []show.Column{
		{Title: "MEMBER"}, {Title: "ROLE"}, {Title: "SUFFRAGE"}, {Title: "STATE"}, {Title: "APPLIED", Right: true},
		{Title: "BEHIND", Right: true}, {Title: "PEERS", Min: 12, Middle: true}, {Title: "CLIENTS", Min: 12, Middle: true},
		{Title: "LEVEL"}, {Title: "CAN"}, {Title: "VERSION"},
	}}
	members, err := operate.ReadMembers(r)
	most := int64(0)
	for _, m := range members {
		most = max(most, m.Applied)
	}
	for _, m := range members {
		row := []string{m.ID, m.Role, m.Suffrage, m.State, "-", "-", m.Peer, strings.Join(m.Clients, ","), "", "", m.Version}
		if m.State == operate.StateUp {
			row[4], row[5] = strconv.FormatInt(m.Applied, 10), strconv.FormatInt(most-m.Applied, 10)
		}
		if m.Level > 0 {
			row[columnLevel] = strconv.FormatInt(m.Level, 10)
		}
		if m.Highest > 0 {
			row[columnCan] = levelsOf(m)
		}
		for i := range row {
			if row[i] = show.Escape(row[i]); row[i] == "" {
				row[i] = "-"
			}
		}
		t.Rows = append(t.Rows, row)
	}
	slices.SortFunc(t.Rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return t, err
}

// levelsOf are the levels that a member can do: "1", "1-2".
func levelsOf(m locks.Member) string {
	if m.Lowest == m.Highest {
		return strconv.FormatInt(m.Highest, 10)
	}
	return fmt.Sprintf("%d-%d", m.Lowest, m.Highest)
}

// The columns of membersTable that are a sentence where people read it: they would make the lines too long.
const (
	columnLevel = 8 + iota
	columnCan
	columnVersion
)

// membersLines are the table of members for people.
func membersLines(t *show.Table, width int) []string {
	cells := &show.Table{Columns: t.Columns[:columnLevel], Rows: t.Rows}
	lines := cells.Lines(width)
	if said := saidOfLevels(t.Rows); said != "" {
		lines = append(lines, show.Wrap(said, "", "  ", width)...)
	}
	return lines
}

// saidOfLevels describes the level in force and the levels that members support, with equal members together.
func saidOfLevels(rows [][]string) string {
	if len(rows) == 0 || rows[0][columnLevel] == "-" {
		return ""
	}
	can, alike := []string{}, map[string]string{}
	for _, row := range rows {
		what := fmt.Sprintf("%s (lockd %s)", row[columnCan], row[columnVersion])
		if alike[what] == "" {
			can, alike[what] = append(can, what), row[0]
		} else {
			alike[what] += ", " + row[0]
		}
	}
	for i, what := range can {
		can[i] = alike[what] + " can do " + what
	}
	return "level " + rows[0][columnLevel] + " is in force; " + strings.Join(can, "; ")
}
