package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"

	"lockd/cmd/lockd/show"
	"lockd/internal/client"
	"lockd/resp"
)

// nodeFlags say which nodes are asked; health and members share them.
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
	r, err := node.Ask(ctx, "INFO", "raft")
	switch {
	case err != nil:
		return show.Escape(fmt.Sprintf("%s does not answer: %v", node.Addr(), err)), false
	case r.IsErr():
		return show.Escape(node.Addr() + " refuses: " + r.Str), false
	}
	fields, failed := map[string]string{}, []string{}
	for line := range strings.SplitSeq(r.Str, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
		if strings.HasPrefix(name, "ready_") && value != "ok" {
			failed = append(failed, value)
		}
	}
	id := fields["node_id"]
	switch {
	case fields["ready"] == "":
		said = node.Addr() + " does not say whether it is ready: is it a node of lockd?"
	case fields["ready"] != "1":
		said = id + " is not ready: " + strings.Join(failed, "; ")
	case fields["leader_id"] == id:
		return show.Escape(id + " is ready, and leads in term " + fields["term"]), true
	default:
		return show.Escape(id + " is ready, and follows " + fields["leader_id"] + " in term " + fields["term"]), true
	}
	return show.Escape(said), false
}

// membersCmd lists the members of a cluster.
type membersCmd struct {
	nodeFlags `embed:""`
}

// run prints a table, or a line a member where programs read it.
func (c *membersCmd) run(ctx context.Context, stdout, _ io.Writer) error {
	cluster := c.client("lockd-members", c.Addr...)
	defer cluster.Close()
	r, err := cluster.Ask(ctx, "LOCKD", "MEMBERS")
	switch {
	case err != nil:
		return fmt.Errorf("no server answers: %w", err)
	case r.IsErr():
		return refusedError(r.Str)
	}
	table, err := membersTable(r)
	if err != nil {
		return err
	}
	if isTerminal(stdout) {
		_, err = io.WriteString(stdout, strings.Join(table.Lines(outputWidth(stdout)), "\n")+"\n")
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

var errMembersAnswer = errors.New("the answer to LOCKD MEMBERS is not as expected: is it a node of lockd?")

// membersTable is what LOCKD MEMBERS has answered. No cell is empty, so that programs can tell them apart.
func membersTable(r resp.Reply) (*show.Table, error) {
	t := &show.Table{Columns: []show.Column{
		{Title: "MEMBER"}, {Title: "ROLE"}, {Title: "SUFFRAGE"}, {Title: "STATE"}, {Title: "APPLIED", Right: true},
		{Title: "BEHIND", Right: true}, {Title: "PEERS", Min: 12, Middle: true}, {Title: "CLIENTS", Min: 12, Middle: true},
	}}
	if r.Kind != resp.KindArray {
		return nil, errMembersAnswer
	}
	most := int64(0)
	for _, m := range r.Elems {
		most = max(most, memberField(m, "applied").Int)
	}
	for _, m := range r.Elems {
		if m.Kind != resp.KindMap {
			return nil, errMembersAnswer
		}
		var clients []string
		for _, addr := range memberField(m, "clients").Elems {
			clients = append(clients, addr.Str)
		}
		row := []string{
			memberField(m, "id").Str, memberField(m, "role").Str, memberField(m, "suffrage").Str,
			memberField(m, "state").Str, "-", "-", memberField(m, "peer").Str, strings.Join(clients, ","),
		}
		if row[3] == "up" {
			applied := memberField(m, "applied").Int
			row[4], row[5] = strconv.FormatInt(applied, 10), strconv.FormatInt(most-applied, 10)
		}
		for i := range row {
			if row[i] = show.Escape(row[i]); row[i] == "" {
				row[i] = "-"
			}
		}
		t.Rows = append(t.Rows, row)
	}
	slices.SortFunc(t.Rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return t, nil
}

// memberField is a value of a map; nil if there is none.
func memberField(m resp.Reply, name string) resp.Reply {
	for i := 0; i+1 < len(m.Elems); i += 2 {
		if m.Elems[i].Str == name {
			return m.Elems[i+1]
		}
	}
	return resp.Nil()
}
