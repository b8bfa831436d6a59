package keyspace

import "lockd/resp"

// What nodes ask of the machine whatever its state is: its rows, and its levels.

// Find looks up the row of a command; see cluster.Machine.
func (m *Machine) Find(args resp.Args) (*resp.Spec, resp.Reply) { return find(args) }

// Check parses a call whose row is known; see cluster.Machine.
func (m *Machine) Check(cmd resp.Cmd) (fail resp.Reply, wrong bool) {
	row := table.Row(cmd.Spec)
	if row == nil {
		return resp.Reply{}, false
	}
	if _, err := row.Run(cmd.Args); err != nil {
		return resp.Fail(err), true
	}
	return resp.Reply{}, false
}

// Specs lists the rows of all commands.
func (m *Machine) Specs() []*resp.Spec { return table.Specs() }

// Levels returns the levels that this build can; see cluster.Machine.
func (m *Machine) Levels() (lowest, highest int) { return LevelLowest, Level }

// Formats returns the versions of everything, besides the rows, that the state follows from at a level; see
// cluster.Machine.
func (m *Machine) Formats(level int) map[string]uint64 { return formats(level) }

// SetLevel has a level in force; see cluster.Machine.
func (m *Machine) SetLevel(level int) {
	if level != m.state.Level {
		setLevel(&m.state, level)
	}
}
