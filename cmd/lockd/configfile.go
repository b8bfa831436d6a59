package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"
)

// configCmd is about the settings of a node, without starting it: it takes the flags, variables and files of
// lockd serve.
type configCmd struct {
	Show  configShowCmd  `cmd:"" help:"Print every setting of a node, as a file of settings."`
	Check configCheckCmd `cmd:"" help:"Say what is wrong with the settings of a node. The exit status is 0 if nothing is, else 2."`
}

type configCheckCmd struct {
	Node serveCmd `embed:""`
}

// run has nothing to find: what is wrong is found before anything runs.
func (c *configCheckCmd) run(_ context.Context, stdout, stderr io.Writer) error {
	for _, warning := range c.Node.warnings {
		fmt.Fprintf(stderr, "lockd: %s\n", warning)
	}
	_, err := fmt.Fprintln(stdout, "The settings are good.")
	return err
}

type configShowCmd struct {
	Origin bool `help:"Say behind each setting where it comes from: flag, a variable, the line of a file, or default."`

	Node serveCmd `embed:""`

	shown []shownSetting
}

// shownSetting is a setting in the syntax of a file.
type shownSetting struct{ line, origin string }

// run prints what parse has found.
func (c *configShowCmd) run(_ context.Context, stdout, stderr io.Writer) error {
	for _, warning := range c.Node.warnings {
		fmt.Fprintf(stderr, "lockd: %s\n", warning)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, s := range c.shown {
		if c.Origin {
			s.line += "\t# " + s.origin
		}
		if _, err := fmt.Fprintln(w, s.line); err != nil {
			return err
		}
	}
	return w.Flush()
}

// check checks the node's settings and records them: the given values, and the values that the node fills in.
func (c *configShowCmd) check(kctx *kong.Context, given *settings) error {
	flags := slices.DeleteFunc(slices.Clone(kctx.Selected().Flags), func(f *kong.Flag) bool { return f.Name == "origin" })
	lines := make([]string, len(flags))
	for i, flag := range flags {
		switch {
		case flag.Target.IsZero():
		case flag.Tag.Has("secret"):
			lines[i] = "# " + flag.Name + " is not shown"
		default:
			lines[i] = tomlLine(flag)
		}
	}
	err := c.Node.check()
	if path := given.configPath(kctx); path != "" {
		c.note("# config = "+quoted(path), originOf(kctx, given, "config"))
	}
	for i, flag := range flags {
		switch {
		case lines[i] != "":
		case flag.Tag.Has("secret"): // it may have been read from its file
			lines[i] = flag.Name + ` = ""`
		default:
			lines[i] = tomlLine(flag)
		}
		c.note(lines[i], originOf(kctx, given, flag.Name))
	}
	if c.Node.secret.inEnv {
		c.note("# LOCKD_PEER_SECRET is not shown", "LOCKD_PEER_SECRET")
	}
	return err
}

func (c *configShowCmd) note(line, origin string) {
	c.shown = append(c.shown, shownSetting{line, origin})
}

// originOf names the source of a flag's value.
func originOf(kctx *kong.Context, given *settings, flag string) string {
	for _, p := range kctx.Path {
		if p.Flag != nil && p.Flag.Name == flag && !p.Resolved {
			return "flag"
		}
	}
	if at := given.origins[flag]; at != "" {
		return at
	}
	return "default"
}

// tomlLine is a line of a file that gives a flag its value.
func tomlLine(flag *kong.Flag) string {
	value := flag.Target.Interface()
	switch v := value.(type) {
	case []string:
		items := make([]string, len(v))
		for i := range v {
			items[i] = quoted(v[i])
		}
		return flag.Name + " = [" + strings.Join(items, ", ") + "]"
	case string:
		return flag.Name + " = " + quoted(v)
	case time.Duration:
		return flag.Name + " = " + quoted(v.String())
	}
	return fmt.Sprintf("%s = %v", flag.Name, value)
}

// quoted returns a text as TOML writes it.
func quoted(text string) string {
	line, err := toml.Marshal(map[string]string{"x": text})
	if err != nil {
		return `""`
	}
	return strings.TrimSpace(strings.TrimPrefix(string(line), "x = "))
}
