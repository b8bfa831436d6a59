package keyspace

import (
	"lockd/keyspace/command"
	"lockd/resp"
)

// Questions of nodes to the machine that do not depend on its state: its rows, and its levels.

// Find looks up the row of a command; see cluster.Machine.
func (m *Machine) Find(args resp.Args) (*resp.Spec, resp.Reply) { return command.Find(args) }

// Check parses a call whose row is known; see cluster.Machine.
func (m *Machine) Check(cmd resp.Cmd) (fail resp.Reply, wrong bool) { return command.Check(cmd) }

// Specs lists the rows of all commands.
func (m *Machine) Specs() []*resp.Spec { return command.Specs() }

// Elsewhere lists the commands that scripts know and the machine does not have.
func Elsewhere() []*resp.Spec { return command.Elsewhere() }

// Levels returns the levels that this build can; see cluster.Machine.
func (m *Machine) Levels() (lowest, highest int) { return command.LevelLowest, command.Level }

// Formats returns the versions of everything, besides the rows, that the state follows from at a level; see
// cluster.Machine.
func (m *Machine) Formats(level int) map[string]uint64 { return command.Formats(level) }

// SetLevel has a level in force; see cluster.Machine.
func (m *Machine) SetLevel(level int) {
	if level != m.state.Level {
		command.SetLevel(&m.state, level)
	}
}
