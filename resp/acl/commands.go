package acl

import (
	"strings"

	"lockd/resp"
)

// Command is a command as rules and checks see it. It is immutable.
type Command struct {
	Spec       *resp.Spec
	Categories Category

	id       int // its bit in selectors
	parent   *Command
	subs     []*Command
	uses     []Use
	channels channels
}

// channels tells which arguments of a command are channels.
type channels uint8

const (
	noChannels    channels = iota
	firstChannel           // the first argument: PUBLISH
	allChannels            // all: SUBSCRIBE
	patternsOfAll          // all, as patterns: PSUBSCRIBE
	leftChannels           // all, and every user may leave them: SUNSUBSCRIBE, whose row lists them as keys
)

var channelsOf = map[string]channels{
	"publish": firstChannel, "spublish": firstChannel,
	"subscribe": allChannels, "ssubscribe": allChannels, "psubscribe": patternsOfAll,
	"sunsubscribe": leftChannels,
}

// Commands holds every command that rules can name. It is immutable.
type Commands struct {
	byName map[string]*Command
	all    []*Command // each container before its subcommands; Command.id is the index
}

// NewCommands joins the rows of several tables. If two rows have one name, the first counts.
func NewCommands(tables ...[]*resp.Spec) *Commands {
	c := &Commands{byName: map[string]*Command{}}
	for _, specs := range tables {
		for _, spec := range specs {
			if c.byName[spec.Name] == nil {
				c.add(spec, nil)
			}
		}
	}
	return c
}

func (c *Commands) add(spec *resp.Spec, parent *Command) *Command {
	cmd := &Command{
		Spec: spec, Categories: CategoriesOf(spec), id: len(c.all), parent: parent,
		uses: usesForCheck(spec), channels: channelsOf[spec.Name],
	}
	c.all = append(c.all, cmd)
	c.byName[spec.Name] = cmd
	for _, sub := range spec.Subs {
		cmd.subs = append(cmd.subs, c.add(sub, cmd))
	}
	return cmd
}

// lookup finds a command by its name in any case, a subcommand as "config|get"; nil if there is none.
func (c *Commands) lookup(name string) *Command {
	if cmd := c.byName[name]; cmd != nil {
		return cmd
	}
	return c.byName[strings.ToLower(name)]
}

// Of returns the command of a row of one of the tables.
func (c *Commands) Of(spec *resp.Spec) *Command { return c.byName[spec.Name] }

// Called returns the command that a call names, a subcommand where there is one; nil if there is none. It does not
// check the number of arguments.
func (c *Commands) Called(args resp.Args) *Command {
	cmd := c.lookup(args[0])
	if cmd == nil || len(cmd.subs) == 0 || len(args) < 2 {
		return cmd
	}
	return c.lookup(args[0] + "|" + args[1])
}

// In lists the names of the commands of a category.
func (c *Commands) In(category Category) []string {
	names := []string{}
	for _, cmd := range c.all {
		if cmd.Categories&category != 0 {
			names = append(names, cmd.Spec.Name)
		}
	}
	return names
}
