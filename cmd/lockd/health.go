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
	fields, said := infoOf(ctx, node, "raft")
	if said != "" {
		return show.Escape(said), false
	}
	failed := []string{}
	for _, f := range fields {
		if strings.HasPrefix(f.Name, "ready_") && f.Value != "ok" {
			failed = append(failed, f.Value)
		}
	}
	id := fields.value("node_id")
	switch {
	case fields.value("ready") == "":
		said = node.Addr() + " does not say whether it is ready: is it a node of lockd?"
	case fields.value("ready") != "1":
		said = id + " is not ready: " + strings.Join(failed, "; ")
	case fields.value("leader_id") == id:
		return show.Escape(id + " is ready, and leads in term " + fields.value("term")), true
	default:
		return show.Escape(id + " is ready, and follows " + fields.value("leader_id") + " in term " + fields.value("term")), true
	}
	return show.Escape(said), false
}

// infoFields are those of a section of INFO, in its order.
type infoFields []resp.Field

// value is that of a field, "" if there is none.
func (f infoFields) value(name string) string {
	for _, field := range f {
		if field.Name == name {
			return field.Value
		}
	}
	return ""
}

// infoOf asks a node for a section of INFO; said is why there is none.
func infoOf(ctx context.Context, node *client.Cluster, section string) (fields infoFields, said string) {
	r, err := node.Ask(ctx, "INFO", section)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%s does not answer: %v", node.Addr(), err)
	case r.IsErr():
		return nil, node.Addr() + " refuses: " + r.Str
	}
	for line := range strings.SplitSeq(r.Str, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields = append(fields, resp.Field{Name: name, Value: value})
	}
	return fields, ""
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

// memberState is a member as LOCKD MEMBERS tells of it.
type memberState struct {
	id, peer, role, suffrage, state string
	clients                         []string
	applied                         int64
}

// The words of LOCKD MEMBERS that count.
const (
	roleLeader    = "leader"
	suffrageVoter = "voter"
	stateUp       = "up"
)

// readMembers reads what LOCKD MEMBERS has answered.
func readMembers(r resp.Reply) (members []memberState, err error) {
	if r.Kind != resp.KindArray {
		return nil, errMembersAnswer
	}
	for _, m := range r.Elems {
		if m.Kind != resp.KindMap {
			return nil, errMembersAnswer
		}
		s := memberState{
			id: memberField(m, "id").Str, peer: memberField(m, "peer").Str, role: memberField(m, "role").Str,
			suffrage: memberField(m, "suffrage").Str, state: memberField(m, "state").Str,
			applied: memberField(m, "applied").Int,
		}
		for _, addr := range memberField(m, "clients").Elems {
			s.clients = append(s.clients, addr.Str)
		}
		members = append(members, s)
	}
	return members, nil
}

// membersTable is what LOCKD MEMBERS has answered. No cell is empty, so that programs can tell them apart.
func membersTable(r resp.Reply) (*show.Table, error) {
	t := &show.Table{Columns: []show.Column{
		{Title: "MEMBER"}, {Title: "ROLE"}, {Title: "SUFFRAGE"}, {Title: "STATE"}, {Title: "APPLIED", Right: true},
		{Title: "BEHIND", Right: true}, {Title: "PEERS", Min: 12, Middle: true}, {Title: "CLIENTS", Min: 12, Middle: true},
	}}
	members, err := readMembers(r)
	most := int64(0)
	for _, m := range members {
		most = max(most, m.applied)
	}
	for _, m := range members {
		row := []string{m.id, m.role, m.suffrage, m.state, "-", "-", m.peer, strings.Join(m.clients, ",")}
		if m.state == stateUp {
			row[4], row[5] = strconv.FormatInt(m.applied, 10), strconv.FormatInt(most-m.applied, 10)
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

// memberField is a value of a map; nil if there is none.
func memberField(m resp.Reply, name string) resp.Reply {
	for i := 0; i+1 < len(m.Elems); i += 2 {
		if m.Elems[i].Str == name {
			return m.Elems[i+1]
		}
	}
	return resp.Nil()
}
