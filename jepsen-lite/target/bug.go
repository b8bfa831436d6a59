package target

import (
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

// bug is a file of bugDir: a description of the bug, the promises that it breaks, by their ids in the pages of docs, and
// the changes of the sources that make it.
//
//	A node that is silent counts as present.
//
//	breaks silent-nodes-are-passed-over places-are-kept
//
//	in cluster, func (s *suspender) isLost:
//	- return s.silent(lead, session.Node) >= s.cfg.Heartbeat
//	+ return never(s)
//
//	new file cluster/never.go:
//	+ package cluster
//	+
//	+ func never(*suspender) bool { return false }
//
// A change names a declaration: the folder of its package, and the func, or one name of a type, const or var. The lines
// below it form a diff: - and space begin the lines of the old text, + and space those of the new text. An
// empty line ends a change; lines after it without a name are another change of the same declaration.
type bug struct {
	file    string
	does    string
	changes []*change
	ended   bool // an empty line has ended the last change
}

// change replaces a text in a declaration, or adds a file to a package.
type change struct {
	folder   string // of the package, as in cluster/store
	decl     string // as in func (s *suspender) isLost; "" if a file is added
	added    string // the file that is added, as in keyspace/more.go
	old, new string // what is replaced, and by what
}

var (
	changeLine = regexp.MustCompile(`^in (\S+), ((?:func|type|const|var) .+):$`)
	addedLine  = regexp.MustCompile(`^new file (\S+\.go):$`)
)

// readBug reads a file of bugDir.
func readBug(file string) (*bug, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b := &bug{file: file}
	for i, line := range strings.Split(string(text), "\n") {
		if err := b.add(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

// add parses the next line of the file.
func (b *bug) add(line string) error {
	if m := changeLine.FindStringSubmatch(line); m != nil {
		b.begin(change{folder: m[1], decl: m[2]})
	} else if m := addedLine.FindStringSubmatch(line); m != nil {
		b.begin(change{folder: path.Dir(m[1]), added: m[1]})
	} else if len(b.changes) == 0 {
		b.does += line + "\n"
	} else if line == "" {
		b.ended = true
	} else {
		return b.last().add(line)
	}
	return nil
}

// begin appends a change.
func (b *bug) begin(c change) {
	b.changes, b.ended = append(b.changes, &c), false
}

// last returns the change to which the next line belongs.
func (b *bug) last() *change {
	last := b.changes[len(b.changes)-1]
	if b.ended && last.old+last.new != "" {
		b.begin(change{folder: last.folder, decl: last.decl, added: last.added})
	}
	b.ended = false
	return b.changes[len(b.changes)-1]
}

// add parses the next line of the change.
func (c *change) add(line string) error {
	switch text := line[1:] + "\n"; line[0] {
	case '+':
		c.new += text
	case '-':
		c.old += text
	case ' ', '\t':
		c.old, c.new = c.old+text, c.new+text
	default:
		return fmt.Errorf("%q begins neither with -, + or a space, nor as a change does", line)
	}
	return nil
}

// check returns an error if a part of the file is missing.
func (b *bug) check() error {
	if strings.TrimSpace(b.does) == "" {
		return errors.New("it does not begin with what the bug does")
	}
	if len(b.changes) == 0 {
		return errors.New("it changes nothing")
	}
	for _, c := range b.changes {
		switch {
		case c.added == "" && len(tokens(c.old)) == 0:
			return fmt.Errorf("%s: there is no old text", c)
		case c.added != "" && c.old != "":
			return fmt.Errorf("%s: there is an old text", c)
		}
	}
	return nil
}

func (c *change) String() string {
	if c.added != "" {
		return "new file " + c.added
	}
	return "in " + c.folder + ", " + c.decl
}
