package luavm

import (
	"strings"

	"lockd/luavm/compiler"
	"lockd/resp"
)

const (
	programsMax      = 512      // compiled scripts kept
	programsBytesMax = 32 << 20 // their size by estimate
)

// program is a compiled script, or the code of a library.
type program struct {
	kind     *programKind
	source   string
	chunk    *compiler.Chunk
	straight *straightCode // nil for most
}

// programKind is a kind of program; each text has at most one program of a kind.
type programKind struct {
	name    string // in messages
	mark    string // prefix of its keys in the cache
	compile string // prefix of the error of a program that does not compile
	library bool
}

// scriptName is Redis's name of every script in messages.
const scriptName = "user_script"

var (
	scripts   = programKind{name: scriptName, compile: "ERR Error compiling script (new function): "}
	libraries = programKind{
		name: "user_function", mark: "library ", compile: "ERR Error compiling function: ", library: true,
	}
)

// programs caches programs by the marks of their kinds and the SHA1 of their sources.
type programs struct {
	kept  map[string]*program
	bytes int // of the programs, by estimate
}

// program returns the compiled form of a script, from the cache or by compiling it.
func (v *VM) program(kind *programKind, s resp.Script) (*program, error) {
	key := kind.mark + s.SHA
	if p := v.programs.kept[key]; p != nil && p.source == s.Source {
		return p, nil
	}
	key = strings.Clone(key) // the request may alias a whole entry of the log
	p, err := compile(kind, key, strings.Clone(s.Source))
	if err != nil {
		return nil, err
	}
	if v.programs.keep(p, key) {
		clear(v.budget.Chunks)
		if v.box != nil {
			clear(v.box.mains)
		}
	}
	return p, nil
}

func compile(kind *programKind, key, source string) (*program, error) {
	chunk, message := compiler.Compile("@"+kind.name, compiler.KeyMark+key, source)
	if message != "" {
		return nil, resp.Error(kind.compile + message)
	}
	p := &program{kind: kind, source: source, chunk: chunk}
	if !kind.library {
		p.straight = straighten(chunk)
	}
	return p, nil
}

// keep puts a program into the cache. If the cache is full keep empties it first, and reports that.
func (c *programs) keep(p *program, key string) (emptied bool) {
	size := len(p.source) + p.chunk.Bytes() + p.straight.bytes()
	if len(c.kept) >= programsMax || c.bytes+size > programsBytesMax {
		c.kept, c.bytes, emptied = map[string]*program{}, 0, true
	}
	c.kept[key] = p
	c.bytes += size
	return emptied
}
