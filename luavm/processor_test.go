package luavm

import (
	"crypto/sha1"
	"fmt"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// childEnv is set in a test's second process, which prints its results.
const childEnv = "LOCKD_TEST_PRINT_NUMBERS"

// Two processors of one architecture compute the same, to the last bit. The runtime takes
// GODEBUG's word for what the processor cannot do: here that it has no fused multiply-add
// (Go's own math.Exp answers otherwise then), and that it has no extension at all.
func TestOtherProcessor(t *testing.T) {
	mine := numbers()
	if os.Getenv(childEnv) != "" {
		for _, line := range mine {
			fmt.Println(line)
		}
		return
	}
	for _, debug := range []string{"cpu.fma=off", "cpu.all=off"} {
		child := exec.Command(os.Args[0], "-test.run=^TestOtherProcessor$")
		child.Env = append(os.Environ(), childEnv+"=1", "GODEBUG="+debug)
		out, err := child.Output()
		if err != nil {
			t.Fatal(debug, err)
		}
		theirs := strings.Split(string(out), "\n")
		for i, line := range mine {
			if i >= len(theirs) || theirs[i] != line {
				t.Errorf("%s: here %s, there %q", debug, line, theirs[min(i, len(theirs)-1)])
			}
		}
	}
}

// numbers gives a line for each function of numbers that a script can reach, with a
// hash of its results for thousands of arguments.
func numbers() (lines []string) {
	functions := []string{"tonumber", "tostring", "bit.tobit", "bit.tohex", "cjson.encode",
		"function(a) return struct.pack('fd', a, a) end", "function(a) return cmsgpack.pack(a) end",
		"function(a) return -a end", "function(a, b) return a < b, a <= b end",
		"function(a, b) local n = 0 for i = a, a + 3 * b, b do n = n + 1 if n > 3 then return i end end return n end"}
	for _, op := range []string{"+", "-", "*", "/", "%", "^"} {
		functions = append(functions, "function(a, b) return a "+op+" b end", "function(a, b) return tostring(a) "+op+" tostring(b) end")
	}
	v := New()
	names, _, _ := v.Run(script(`local o = {} for name, f in pairs(math) do if type(f) == 'function' then o[#o + 1] = name end end return o`), nil, nil, plenty, stubCall)
	for _, name := range names.Elems {
		functions = append(functions, "math."+name.Str)
	}
	argv := numberPairs()
	for _, f := range functions {
		reply, _, _ := v.Run(script(`local f, all = `+f+`, {}
			local function text(x)
				if type(x) ~= 'number' then return tostring(x) end
				return string.format('%.17g', x)
			end
			for i = 1, #ARGV, 2 do
				local _, x, y = pcall(f, tonumber(ARGV[i]), tonumber(ARGV[i + 1]))
				all[#all + 1] = text(x) .. ' ' .. text(y)
			end
			return #all .. table.concat(all, ',')`), nil, argv, plenty, stubCall)
		text := render(reply)
		if !strings.HasPrefix(text, `"`+strconv.Itoa(len(argv)/2)) {
			panic(f + ": " + text)
		}
		lines = append(lines, fmt.Sprintf("%s: %x", f, sha1.Sum([]byte(text))))
	}
	return lines
}

// numberPairs are pairs of arguments of all kinds, as text.
func numberPairs() (argv []string) {
	add := func(a, b float64) {
		argv = append(argv, strconv.FormatFloat(a, 'g', -1, 64), strconv.FormatFloat(b, 'g', -1, 64))
	}
	edges := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3, -8, 1.0 / 3, 1369, 1.5, -0.14, 700, 1e300, 1e-300, 5e-324, math.Inf(1), math.Inf(-1)}
	for _, a := range edges {
		for _, b := range edges {
			add(a, b)
		}
	}
	random := rand.New(rand.NewSource(1))
	for range 700 {
		add(random.Float64(), 4*random.NormFloat64())
		add(20*random.NormFloat64(), float64(random.Intn(9)))
		add(float64(random.Intn(1000)), float64(random.Intn(13)-6)/2)
		add(math.Float64frombits(random.Uint64()), math.Float64frombits(random.Uint64()))
	}
	return argv
}
