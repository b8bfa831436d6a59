package state

import (
	"strconv"
	"strings"

	"lockd/luavm/compiler"
	"lockd/luavm/lauxlib"

	lua "github.com/yuin/gopher-lua"
)

// loadSteps and loadBytes are the cost of compiling a byte of source.
const loadSteps, loadBytes = 16, 64

func (lib baseLib) loadString(c lauxlib.Call) int {
	source := c.Arg(1).Text()
	return lib.loadChunk(c, source, c.Arg(2).OptText(source))
}

// load compiles the pieces that a function returns.
func (lib baseLib) load(c lauxlib.Call) int {
	fn := c.Arg(1).Function()
	name := c.Arg(2).OptText("=(load)")
	var source strings.Builder
	for {
		piece := c.Call(fn)
		if piece == lua.LNil {
			break
		}
		text, ok := lauxlib.AsText(piece)
		if !ok {
			return c.Push(lua.LNil, lua.LString("reader function must return a string"))
		}
		if text == "" {
			break
		}
		c.Need(2 * len(text))
		source.WriteString(text)
	}
	return lib.loadChunk(c, source.String(), name)
}

func (lib baseLib) loadChunk(c lauxlib.Call, source, name string) int {
	size := min(len(source), compiler.SourceBytesMax) + 256
	c.Charge(size * loadSteps)
	c.Alloc(size * loadBytes)
	if strings.HasPrefix(source, "\x1bLua") {
		return c.Push(lua.LNil, lua.LString(compiler.ChunkID(name)+": bad header in precompiled chunk"))
	}
	lib.st.loaded++
	chunk, message := compiler.Compile(name, loadedKey(lib.st.loaded), source)
	if message != "" {
		return c.Push(lua.LNil, lua.LString(message))
	}
	return c.Push(lib.st.Instantiate(chunk))
}

// loadedMark begins the keys of chunks that loadstring compiled.
const loadedMark = compiler.KeyMark + "+"

func loadedKey(n int) string { return loadedMark + strconv.Itoa(n) }
