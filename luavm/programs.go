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

// program returns the compiled form of a script, from the cache or by compiling it.
func (v *VM) program(kind *programKind, s resp.Script) (*program, error) {
	key := kind.mark + s.SHA
	if p := v.programs[key]; p != nil && p.source == s.Source {
		return p, nil
	}
	text := strings.Clone(s.Source) // the request may alias a whole entry of the log
	chunk, message := compiler.Compile("@"+kind.name, compiler.KeyMark+key, text)
	if message != "" {
		return nil, resp.Error(kind.compile + message)
	}
	p := &program{kind: kind, source: text, chunk: chunk}
	if !kind.library {
		p.straight = straighten(chunk)
	}
	v.keep(p, strings.Clone(key))
	return p, nil
}

// keep puts a program into the cache, which it empties first if it is full.
func (v *VM) keep(p *program, key string) {
	size := len(p.source) + p.chunk.Bytes() + p.straight.bytes()
	if len(v.programs) >= programsMax || v.bytes+size > programsBytesMax {
		v.programs, v.bytes = map[string]*program{}, 0
		clear(v.mains)
		clear(v.b.Chunks)
	}
	v.programs[key] = p
	v.bytes += size
}
