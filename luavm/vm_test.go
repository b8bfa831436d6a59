package luavm

import (
	"bufio"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"lockd/luavm/compiler"
	"lockd/resp"
)

// limits are the limits of the tests, about those of a server.
var limits = resp.ScriptLimits{Steps: 10_000_000, MemBytes: 64 << 20}

func script(source string) resp.Script {
	sum := sha1.Sum([]byte(source))
	return resp.Script{SHA: hex.EncodeToString(sum[:]), Source: source}
}

// stubCall knows as much of Redis as the tests need.
func stubCall(args resp.Args, left int64) (resp.Reply, int64) { return stubReply(args), left }

func stubReply(args resp.Args) resp.Reply {
	switch strings.ToLower(args[0]) {
	case "echo":
		return resp.Bulk(args[1])
	case "ping":
		return resp.Status("PONG")
	case "get":
		if len(args) != 2 {
			return resp.Err("ERR Wrong number of args calling Redis command from script")
		}
		return resp.Nil()
	}
	if args[0] == resp.ScriptMay {
		return resp.Int(1)
	}
	return resp.Err("ERR Unknown Redis command called from script")
}

// render writes a reply as the probes do.
func render(r resp.Reply) string {
	switch r.Kind {
	case resp.KindError:
		return "(error) " + strings.NewReplacer("\r", " ", "\n", " ").Replace(r.Str)
	case resp.KindInt:
		return fmt.Sprintf("(integer) %d", r.Int)
	case resp.KindStatus:
		return r.Str
	case resp.KindBulk:
		return `"` + pythonEscape(r.Str) + `"`
	case resp.KindNil, resp.KindNilArray:
		return "(nil)"
	case resp.KindDouble:
		return `"` + resp.FormatDouble(r.Float()) + `"`
	case resp.KindVerbatim, resp.KindBigNumber:
		return `"` + r.Str + `"`
	case resp.KindArray, resp.KindMap, resp.KindSet:
		var parts []string
		for _, e := range r.Elems {
			parts = append(parts, render(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprintf("(kind %d) %v", r.Kind, r)
}

// pythonEscape is Python's unicode_escape of Latin-1.
func pythonEscape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			b.WriteString(`\\`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

const prelude = "local function S(...) local o={} for i=1,select('#',...) do o[#o+1]=tostring((select(i,...))) end return table.concat(o,',') end "

// probeDifferences are the probes where lockd answers otherwise, and why.
var probeDifferences = map[string]string{
	`local o={} for k in pairs({a=1,b=2,c=3,d=4,e=5}) do o[#o+1]=k end return table.concat(o,",")`:                       pairsOrder,
	`local o={} for k in pairs({z=1,y=2,10,20,x=3,[5]=1,[1.5]=2}) do o[#o+1]=tostring(k) end return table.concat(o,",")`: pairsOrder,
	`return S(coroutine.resume(coroutine.create(function(a) local b = coroutine.yield(a+1) return b*2 end), 1))`:         noCoroutines,
	`return S(pcall(coroutine.wrap(function() error("e") end)))`:                                                         noCoroutines,
}

const (
	pairsOrder   = "pairs goes in the order of insertion, which is the same on every node; Redis goes by hash"
	noCoroutines = "there are no coroutines"
)

// replay runs the scripts of a file against the answers of Redis 7.0.15 beside
// them, and returns how many agree and how many there are. In a script, \N stands
// for a line feed.
func replay(t *testing.T, file, prelude string, differences map[string]string) (agree, total int) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v := New()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		total++
		tab := strings.LastIndexByte(line, '\t')
		source, want := line[:tab], line[tab+1:]
		reply, _, _ := v.Run(script(prelude+strings.ReplaceAll(source, `\N`, "\n")), nil, nil, limits, stubCall)
		got := render(reply)
		why, listed := differences[source]
		switch {
		case got == want && listed:
			t.Errorf("%s\n agrees now, yet is listed: %s", source, why)
		case got == want:
			agree++
		case !listed:
			t.Errorf("%s\n got %s\nwant %s", source, got, want)
		}
	}
	return agree, total
}

// The shared probes are answered as Redis 7.0.15 answers them, to the byte, error
// texts and positions included.
func TestProbes(t *testing.T) {
	agree, total := replay(t, "testdata/probes.tsv", prelude, probeDifferences)
	t.Logf("%d of %d agree", agree, total)
	if agree < 260 {
		t.Errorf("only %d probes agree", agree)
	}
}

// So are the API, errors, limits of the language and generated scripts: random
// expressions, mutated sources, and nests of functions, loops and metatables.
func TestScripts(t *testing.T) {
	agree, total := replay(t, "testdata/scripts.tsv", "", nil)
	if agree != total || total == 0 {
		t.Errorf("%d of %d agree", agree, total)
	}
}

// An error of a script that begins like one of gopher-lua's own messages stays unchanged, caught or not.
func TestErrorsAreNotForged(t *testing.T) {
	const forged = compiler.KeyMark + "abc:1: def"
	for _, source := range []string{
		`error("\27abc:1: def", 0)`, `error({err = "\27abc:1: def"})`, `return {err = "\27abc:1: def"}`,
		`local _, e = pcall(error, "\27abc:1: def", 0) error(e, 0)`,
		`local _, e = xpcall(function() error("\27abc:1: def", 0) end, function(e) return e end) return {err = e}`,
	} {
		reply, _, _ := New().Run(script(source), nil, nil, limits, stubCall)
		if !strings.Contains(reply.Str, forged) {
			t.Errorf("%s gives %q", source, reply.Str)
		}
	}
	reply, _, _ := New().Run(script("local f = nil f('\x1babc')"), nil, nil, limits, stubCall)
	if want := "ERR user_script:1: attempt to call local 'f' (a nil value) script: "; !strings.HasPrefix(reply.Str, want) {
		t.Errorf("gopher-lua's own message is %q", reply.Str)
	}
}
