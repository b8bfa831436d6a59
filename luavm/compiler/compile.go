package compiler

import (
	"slices"
	"strings"

	"lockd/luavm/libc"

	lua "github.com/yuin/gopher-lua"
)

func init() {
	lua.CompatVarArg = false // the lowered tree makes "arg", only where it is used
	if lua.FieldsPerFlush != fieldsPerFlush {
		panic("compiler: lua.FieldsPerFlush changed")
	}
}

// Compile compiles a source for gopher-lua's machine. name is the chunk's name in Lua's form ("@file", "=text", or
// the source itself); key is the machine's name for the code. message is the error of luaL_loadbuffer, "" if there is
// none.
func Compile(name, key, source string) (c *Chunk, message string) {
	shown := ChunkID(name)
	defer func() {
		// No source may crash the node; on a panic all nodes report the same error.
		if recover() != nil {
			c, message = nil, shown+":1: internal error"
		}
	}()
	tree, message := parse(shown, source)
	if message != "" {
		return nil, message
	}
	stmts, sites, message := lower(shown, tree)
	if message != "" {
		return nil, message
	}
	proto, err := lua.Compile(stmts, key)
	if err != nil {
		return nil, shown + ":1: function or expression too complex"
	}
	compact(proto)
	return &Chunk{Name: shown, Source: name, Key: key, Sites: slices.Clone(sites), Proto: proto}, ""
}

// Chunk is a compiled source: the code of a function that takes the functions of Intrinsics and returns the function
// of the source. The other fields serve to explain its errors.
type Chunk struct {
	Name   string // as messages show it
	Source string // as Redis's error handler shows it: "@user_script"
	Key    string
	Sites  []Site // the code has the index of a site where gopher-lua expects a line
	Proto  *lua.FunctionProto
}

// Bytes returns an upper estimate of the memory of a chunk.
func (c *Chunk) Bytes() int {
	size := 1 << 10
	for _, s := range c.Sites {
		size += 128 + 32*len(s.Operands)
	}
	return size + protoBytes(c.Proto)
}

func protoBytes(f *lua.FunctionProto) int {
	size := 1<<10 + 12*cap(f.Code) + 64*cap(f.Constants)
	for _, inner := range f.FunctionPrototypes {
		size += protoBytes(inner)
	}
	return size
}

// compact drops the data that only gopher-lua's debug library reads, and the spare capacity that its compiler leaves,
// 12 KiB for each function.
func compact(f *lua.FunctionProto) {
	f.Code = slices.Clone(f.Code)
	f.Constants = slices.Clone(f.Constants)
	f.DbgSourcePositions = slices.Clone(f.DbgSourcePositions)
	f.DbgLocals, f.DbgCalls = nil, nil
	for _, inner := range f.FunctionPrototypes {
		compact(inner)
	}
}

// KeyMark begins the key of each chunk, and so each position that gopher-lua itself writes before a message.
const KeyMark = "\x1b"

// ChunkID is luaO_chunkid: it returns the name of a chunk as messages show it.
func ChunkID(name string) string {
	const idSize = 60
	name = libc.CString(name)
	switch {
	case strings.HasPrefix(name, "="):
		return name[1:min(len(name), idSize)]
	case strings.HasPrefix(name, "@"):
		name = name[1:]
		if most := idSize - len(" '...' ") - 1; len(name) > most {
			return "..." + name[len(name)-most:]
		}
		return name
	}
	line := name
	if i := strings.IndexAny(line, "\n\r"); i >= 0 {
		line = line[:i]
	}
	line = line[:min(len(line), idSize-len(` [string "..."] `)-1)]
	if len(line) < len(name) {
		line += "..."
	}
	return `[string "` + line + `"]`
}
