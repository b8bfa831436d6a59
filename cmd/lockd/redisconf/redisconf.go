// Package redisconf reads redis.conf: its syntax as Redis's own parser has it, and what a line means that lockd has
// no setting for. It knows nothing of lockd's flags: cmd/lockd makes those of the lines.
package redisconf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Limits of the input.
const (
	fileBytesMax    = 1 << 20 // of one file: a larger one is no file of settings
	includeDepthMax = 16      // files that include each other would have no end
	linesMax        = 10000   // of all files
	filesMax        = 100
	problemsMax     = 100 // that are told
)

// Line is a line that says something: a name in lower case, and its arguments.
type Line struct {
	Name string
	Args []string
	At   string // FILE:LINE
}

// Errorf is an error about the line, which names its place.
func (l Line) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", l.At, fmt.Errorf(format, args...))
}

// Is reports whether a text is in the syntax of redis.conf rather than in TOML, which has an equals sign behind
// each name: the first line that says anything tells.
func Is(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return !tomlLine.MatchString(line)
		}
	}
	return false
}

var tomlLine = regexp.MustCompile(`^(\[|[\w.-]+\s*=|"[^"]*"\s*=|'[^']*'\s*=)`)

// ReadFile is the text of a file of settings. The error says why there is none.
func ReadFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err == nil && len(text) > fileBytesMax {
		err = fmt.Errorf("it has more than %d bytes", fileBytesMax)
	}
	return string(text), err
}

// Read parses the text of the file at path, and of the files that it includes, each at its place. Lines that cannot
// be parsed are left out and reported as problems.
func Read(path, text string) (lines []Line, problems []error) {
	var r reader
	r.read(path, text, 0)
	return r.lines, r.problems
}

type reader struct {
	files    int // included so far
	lines    []Line
	problems []error
}

func (r *reader) read(path, text string, depth int) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		at := Line{At: fmt.Sprintf("%s:%d", path, number)}
		if line = strings.Trim(line, " \t\r\n"); line == "" || line[0] == '#' {
			continue
		}
		words, err := Split(line)
		switch {
		case err != nil:
			r.fail(at, err)
		case len(words) == 0:
		case strings.EqualFold(words[0], "include"):
			if err := r.include(words[1:], depth+1); err != nil {
				r.fail(at, err)
			}
		case len(r.lines) >= linesMax:
			r.fail(at, fmt.Errorf("there are more than %d settings", linesMax))
			return
		default:
			at.Name, at.Args = strings.ToLower(words[0]), words[1:]
			r.lines = append(r.lines, at)
		}
	}
}

func (r *reader) fail(at Line, err error) {
	if len(r.problems) < problemsMax {
		r.problems = append(r.problems, at.Errorf("%w", err))
	}
}

// include reads files as Redis does: a relative path starts at the working directory, and one with wildcards
// may match nothing.
func (r *reader) include(args []string, depth int) error {
	switch {
	case len(args) != 1:
		return errors.New("wrong number of arguments")
	case depth > includeDepthMax:
		return fmt.Errorf("files include each other more than %d deep", includeDepthMax)
	}
	paths := args
	if strings.ContainsAny(args[0], "*?[") {
		var err error
		if paths, err = filepath.Glob(args[0]); err != nil {
			return fmt.Errorf("include %s: %w", args[0], err)
		}
	}
	for _, path := range paths {
		if r.files++; r.files > filesMax {
			return fmt.Errorf("there are more than %d files", filesMax)
		}
		text, err := ReadFile(path)
		if err != nil {
			return fmt.Errorf("include %s: %w", path, err)
		}
		r.read(path, text, depth)
	}
	return nil
}

var errUnbalanced = errors.New("Unbalanced quotes in configuration line") //nolint:staticcheck // Redis's text

// Split cuts a line into words as Redis's sdssplitargs does. "..." knows the escapes \n \r \t \b \a and \xHH; a
// backslash before any other character stands for that character. '...' knows only \'. A closing quote must be
// followed by white space or the end. A # inside a line begins no comment.
func Split(line string) (words []string, err error) {
	for at := 0; ; {
		for at < len(line) && isSpace(line[at]) {
			at++
		}
		if at == len(line) {
			return words, nil
		}
		var word []byte
		for at < len(line) && !isSpace(line[at]) {
			switch line[at] {
			case '"':
				word, at, err = doubleQuoted(word, line, at+1)
			case '\'':
				word, at, err = singleQuoted(word, line, at+1)
			default:
				word = append(word, line[at])
				at++
				continue
			}
			if err == nil && at < len(line) && !isSpace(line[at]) {
				err = errUnbalanced
			}
			if err != nil {
				return nil, err
			}
		}
		words = append(words, string(word))
	}
}

// doubleQuoted reads up to the closing quote; next is the offset after it.
func doubleQuoted(word []byte, line string, at int) (read []byte, next int, err error) {
	escapes := map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'b': '\b', 'a': '\a'}
	for ; at < len(line); at++ {
		switch c := line[at]; {
		case c == '"':
			return word, at + 1, nil
		case c == '\\' && at+3 < len(line) && line[at+1] == 'x' && isHex(line[at+2]) && isHex(line[at+3]):
			word = append(word, hexValue(line[at+2])<<4|hexValue(line[at+3]))
			at += 3
		case c == '\\' && at+1 < len(line):
			at++
			if c = line[at]; escapes[c] != 0 {
				c = escapes[c]
			}
			word = append(word, c)
		default:
			word = append(word, c)
		}
	}
	return nil, 0, errUnbalanced
}

func singleQuoted(word []byte, line string, at int) (read []byte, next int, err error) {
	for ; at < len(line); at++ {
		switch {
		case line[at] == '\'':
			return word, at + 1, nil
		case strings.HasPrefix(line[at:], `\'`):
			at++
		}
		word = append(word, line[at])
	}
	return nil, 0, errUnbalanced
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
