package keyspace

import (
	"strings"

	"github.com/zeebo/xxh3"

	"lockd/resp"
	"lockd/resp/acl"
)

// A cluster has a level, which is part of its state: what an entry does follows from the level in force when it is
// applied, and not from the build that applies it. So two neighbouring builds make one machine: the newer one does
// what the older one did until the level rises, which it does once every member can (package cluster).
//
// What a build adds or changes belongs to its highest level: a row says so (resp.Spec.Level), and so does a parameter
// of CONFIG (parameter.level); other behaviour asks Machine.level and has a word in rulesSince.

// The levels that this build can: all from LevelLowest to Level. A build that adds a command to the machine, or
// changes what an entry does or how it or an image is written, has a Level one higher than the release before.
const (
	LevelLowest = 1
	Level       = 1
)

// rulesSince are versions of everything, besides the rows, that the state follows from. A new one is a new line, with
// its level.
var rulesSince = []resp.Rule{
	{Level: 1, Name: "image", Version: 10},
	{Level: 1, Name: "deadlocks", Version: 1},
	{Level: 1, Name: "full disks", Version: 1},
}

// language is what commands there are at a level, for scripts and for the rules of users.
type language struct {
	table     *resp.Table[command]
	elsewhere *resp.Table[struct{}]
	known     *acl.Commands
}

// languages are those of all levels, by level; init makes them. The last one is that of connections.
var languages [Level + 1]*language

func languageOf(level int) *language {
	l := &language{table: table.At(level), elsewhere: elsewhere.At(level)}
	l.known = acl.NewCommands(l.table.Specs(), l.elsewhere.Specs())
	return l
}

// namesForScripts sums up the names of commands that are elsewhere.
func (l *language) namesForScripts() uint64 {
	var b strings.Builder
	for _, spec := range l.elsewhere.Specs() {
		b.WriteString(spec.Name + ":" + itoa(int64(spec.Arity)) + " ")
		for _, sub := range spec.Subs {
			b.WriteString(sub.Name + ":" + itoa(int64(sub.Arity)) + " ")
		}
	}
	return xxh3.HashString(b.String())
}

// Levels are those that this build can; see cluster.Machine.
func (m *Machine) Levels() (lowest, highest int) { return LevelLowest, Level }

// Formats are the versions of everything, besides the rows, that the state follows from at a level; see
// cluster.Machine.
func (m *Machine) Formats(level int) map[string]uint64 {
	formats := resp.RulesAt(rulesSince, level)
	formats["names for scripts"] = languages[level].namesForScripts()
	formats["settings"] = sumOfParameters(level)
	return formats
}

// SetLevel has a level in force; see cluster.Machine.
func (m *Machine) SetLevel(level int) {
	if level != m.level {
		m.speak(level, languages[level])
	}
}

// speak has a level in force, with its language. Users may have rights to commands that are new.
func (m *Machine) speak(level int, l *language) {
	m.level, m.language = level, l
	users := acl.NewUsers(l.known)
	for _, was := range m.users.All() {
		user, err := acl.Read(l.known, was.Name, was.Text())
		if err != nil { // a level took away what the rules name: nobody is given more than he had
			user = acl.New(l.known, was.Name)
		}
		users = users.With(user)
	}
	m.users = users
}
