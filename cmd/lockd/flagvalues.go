package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"

	"lockd/cmd/lockd/redisconf"
)

// settings resolve flags that were not on the command line: from the environment first, then from the
// file of --config. They remember where each value was found.
type settings struct {
	args    []string
	environ []string
	file    *configFile // nil: there is no file, or it was not read yet

	origins  map[string]string // of the values that were found, by flag
	leftOut  map[string]bool   // flags whose values here are no good, and were reported
	problems []error           // with those
}

func newSettings(args, environ []string) *settings {
	return &settings{args: args, environ: environ, origins: map[string]string{}, leftOut: map[string]bool{}}
}

// Validate implements kong.Resolver; files are checked when they are read.
func (*settings) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver.
func (s *settings) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if flag.Name == "help" || s.leftOut[flag.Name] {
		return nil, nil
	}
	variables := []string{variableOf(flag.Name)}
	if flag.Name == "auth" { // as other programs name it
		variables = append(variables, "LOCKD_PASSWORD")
	}
	for _, name := range variables {
		if v, ok := s.env(name); ok {
			s.origins[flag.Name] = name
			return v, nil
		}
	}
	if path := s.configPath(ctx); s.file == nil && path != "" {
		s.file = readConfig(path, flagsBelow(ctx.Model.Node))
	}
	v, ok := s.file.value(flag.Name)
	if !ok || flag.Name == "config" {
		return nil, nil
	}
	s.origins[flag.Name] = v.at
	return v.text, nil
}

// variableOf is the variable of the environment for a flag.
func variableOf(flag string) string {
	return "LOCKD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// env is the value of a variable, the last of several.
func (s *settings) env(name string) (string, bool) {
	for i := len(s.environ) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(s.environ[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func (s *settings) configPath(ctx *kong.Context) string {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			return fmt.Sprint(ctx.FlagValue(p.Flag))
		}
	}
	path, _ := s.env(variableOf("config"))
	return path
}

// logLevelNow returns the log level of lockd serve that the file of settings gives now. "": the file does not decide
// it, because there is no file, or a flag or variable sets the level. It fails if the file has become invalid.
func (s *settings) logLevelNow() (string, error) {
	now := newSettings(s.args, s.environ)
	c, kctx, err := read(now, io.Discard)
	if problems := now.all(); err != nil || len(problems) > 0 {
		if err != nil {
			problems = append(problems, now.located(err))
		}
		return "", errors.Join(problems...)
	}
	const flag = "log-level"
	if at := originOf(kctx, now, flag); now.file == nil || at == "flag" || at == variableOf(flag) {
		return "", nil
	}
	return c.Serve.LogLevel, nil
}

// all returns the problems so far, including those of the file.
func (s *settings) all() []error {
	if s.file == nil {
		return s.problems
	}
	return slices.Concat(s.file.problems, s.problems)
}

// warnings returns the warnings about the file.
func (s *settings) warnings() []string {
	if s.file == nil {
		return nil
	}
	return s.file.warnings
}

var flagAtBegin = regexp.MustCompile(`^--([a-z0-9-]+)`)

// located adds the source of the value to an error that begins with a flag, unless the value came from the command
// line.
func (s *settings) located(err error) error {
	m := flagAtBegin.FindStringSubmatch(err.Error())
	if m == nil || s.origins[m[1]] == "" {
		return err
	}
	return fmt.Errorf("%w (from %s)", err, s.origins[m[1]])
}

// leaveOut records an error about a value that was read here, so that the other settings can be checked without it.
// It reports false for other errors.
func (s *settings) leaveOut(err error) bool {
	m := flagAtBegin.FindStringSubmatch(err.Error())
	if m == nil || s.origins[m[1]] == "" || s.leftOut[m[1]] {
		return false
	}
	s.problems = append(s.problems, s.located(err))
	s.leftOut[m[1]] = true
	delete(s.origins, m[1])
	return true
}

// configFile is the content of a file of settings.
type configFile struct {
	values   map[string]setting // by flag
	warnings []string           // of lines without an effect
	problems []error
}

// setting is a value as a flag takes it; a list has commas.
type setting struct {
	text string
	at   string // FILE:LINE
}

// value finds the value for a flag; in no file there is none.
func (f *configFile) value(flag string) (setting, bool) {
	if f == nil {
		return setting{}, false
	}
	v, ok := f.values[flag]
	return v, ok
}

func (f *configFile) fail(format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("config file "+format, args...))
}

// readConfig reads a file of settings, in TOML or in the syntax of redis.conf. A name that is no flag is
// a problem, so that a misspelt setting does not silently keep its default.
func readConfig(path string, flags []*kong.Flag) *configFile {
	f := &configFile{values: map[string]setting{}}
	known := map[string]*kong.Flag{}
	for _, flag := range flags {
		if flag.Name != "help" && flag.Name != "config" {
			known[flag.Name] = flag
		}
	}
	text, err := redisconf.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		f.fail("%s does not exist", path)
	case err != nil:
		f.fail("%s: %w", path, err)
	case redisconf.Is(text):
		f.readRedis(path, text, known)
	default:
		f.readTOML(path, text, known)
	}
	return f
}

func (f *configFile) readTOML(path, text string, flags map[string]*kong.Flag) {
	all := map[string]any{}
	if _, err := toml.Decode(text, &all); err != nil {
		f.fail("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	for _, name := range names(all) {
		at := fmt.Sprintf("%s:%d", path, lineOf(text, name))
		value, ok := flagText(all[name])
		meaning, means := redisconf.MeaningOf(name)
		switch {
		case flags[name] == nil && means:
			f.fail("%s: %s is no setting of a node: %s", at, name, meaning.Instead)
		case flags[name] == nil:
			f.fail("%s: unknown setting %q, did you mean %q?", at, name, nearest(name, names(flags)))
		case !ok:
			f.fail("%s: %s is a table or a time, and no value of a flag", at, name)
		default:
			f.values[name] = setting{value, at}
		}
	}
}

// flagText converts a value of TOML to the text that a flag takes.
func flagText(value any) (text string, ok bool) {
	switch v := value.(type) {
	case string, bool, int64, float64:
		return fmt.Sprint(v), true
	case []any:
		items := make([]string, len(v))
		for i := range v {
			if items[i], ok = flagText(v[i]); !ok {
				return "", false
			}
		}
		return strings.Join(items, ","), true
	}
	return "", false
}

// lineOf is the line in which a name of TOML gets its value, counted from 1; the parser does not tell.
func lineOf(text, name string) int {
	number := 0
	for line := range strings.Lines(text) {
		number++
		word, _, _ := strings.Cut(line, "=")
		if word = strings.TrimSpace(word); strings.Trim(word, `"'[]`) == name {
			return number
		}
	}
	return 1
}
