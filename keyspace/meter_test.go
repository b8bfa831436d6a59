package keyspace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/luavm"
	"lockd/resp"
)

const longestString = 16 << 20 // the bytes that APPEND and SETRANGE may make

// ask runs a transaction on a machine at tick 1.
func ask(m *Machine, lines ...[]string) []resp.Reply {
	req := resp.Request{Multi: true}
	for _, l := range lines {
		req.Cmds = append(req.Cmds, resp.Cmd{Args: l})
	}
	results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 1}, []resp.Request{req})
	return results[0].Replies
}

func repeat(n int, lines ...[]string) [][]string {
	var all [][]string
	for range n {
		all = append(all, lines...)
	}
	return all
}

// A few bytes of one request cannot take the memory or the time of every replica:
// what goes beyond a limit is refused, and nothing else is.
func TestMeter(t *testing.T) {
	large := fmt.Sprint(longestString - 1)
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	var grow [][]string
	for _, k := range keys {
		grow = append(grow, []string{"SETRANGE", k, large, "x"})
	}
	for name, tt := range map[string]struct {
		lines [][]string
		want  string
		done  int // commands executed before the first refusal
	}{
		"replies":       {repeat(30, []string{"SETRANGE", "k", large, "x"}, []string{"GETDEL", "k"}), meter.ErrReplies, 8},
		"growth":        {grow, meter.ErrGrowth, 16},
		"work":          {append([][]string{{"SETRANGE", "k", large, "x"}}, repeat(300, []string{"SETRANGE", "k", "0", "y"})...), meter.ErrWork, 96},
		"reply of one":  {[][]string{{"SETRANGE", "k", large, "x"}, append([]string{"MGET"}, strings.Fields(strings.Repeat("k ", 10))...)}, meter.ErrReplyTooLarge, 1},
		"script growth": {[][]string{{"EVAL", "for i=1,1e6 do redis.pcall('SETRANGE', 'k'..i, " + large + ", 'x') end", "0"}}, meter.ErrGrowth, 0},
		"script work":   {[][]string{{"EVAL", "redis.call('SETRANGE', 'k', " + large + ", 'x') for i=1,1e6 do redis.pcall('SETRANGE', 'k', 0, 'x') end", "0"}}, meter.ErrWork, 0},
		"script reply":  {[][]string{{"EVAL", "redis.call('SETRANGE', 'k', " + large + ", 'x') local s = redis.call('GET', 'k') return {s,s,s,s,s}", "0"}}, meter.ErrReplyTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(luavm.New())
			replies := ask(m, tt.lines...)
			done := 0
			for done < len(replies) && !replies[done].IsErr() {
				done++
			}
			if done == len(replies) || done != tt.done || replies[done].Str != tt.want {
				t.Fatalf("%d commands done, then %.120q; want %d, then %q", done, fmt.Sprint(replies[min(done, len(replies)-1)]), tt.done, tt.want)
			}
			if strings.HasPrefix(name, "script") && m.state.UsedBytes() > 1<<20 {
				t.Errorf("the script was not undone: %d bytes of data", m.state.UsedBytes())
			}
			if got := ask(m, []string{"SET", "after", "v"})[0]; got.IsErr() {
				t.Errorf("the next request: %s", got.Str)
			}
		})
	}
}

// A request that comes after too large ones of its entry is not executed, and is left
// for another.
func TestEntryMeter(t *testing.T) {
	m := New(nil)
	large := resp.Cmd{Args: resp.Args{"SETRANGE", "k", fmt.Sprint(longestString - 1), "x"}}
	var reqs []resp.Request
	for i := range 40 {
		grow := large
		grow.Args = resp.Args{"SETRANGE", fmt.Sprint("k", i), large.Args[2], "x"}
		reqs = append(reqs, resp.Request{Cmds: []resp.Cmd{grow}})
	}
	reqs = append(reqs, resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"SET", "late", "v"}}}})
	results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 1}, reqs)
	if last := results[len(results)-1]; last.Left(reqs[len(reqs)-1]) != 1 {
		t.Errorf("the last request: %v", last.Replies)
	}
	if m.state.Keys.DBs[0].Keys.Len() > 40 {
		t.Errorf("%d keys: a refused request was executed", m.state.Keys.DBs[0].Keys.Len())
	}
}

// endless are requests that use all steps of a script.
var endless = [][]string{
	{"EVAL", "while true do end", "0"},
	{"FCALL", "spin", "0"},
	{"FUNCTION", "LOAD", "#!lua name=more\nwhile true do end"},
}

// newSpinner is a machine with the function that endless calls.
func newSpinner(t *testing.T) *Machine {
	t.Helper()
	m := New(luavm.New())
	lib := "#!lua name=lib\nredis.register_function{function_name='spin', callback=function() while true do end end, flags={'no-writes'}}"
	if got := ask(m, []string{"FUNCTION", "LOAD", lib})[0]; got.IsErr() {
		t.Fatal(got.Str)
	}
	return m
}

const stepsMet = "ERR Script stopped: it needs more than its limit of 10000000 steps"

// The steps of scripts count: a transaction may use those of one script, and then
// nothing of it is executed.
func TestScriptsTireARequest(t *testing.T) {
	for _, line := range endless {
		t.Run(line[0], func(t *testing.T) {
			m := newSpinner(t)
			replies := ask(m, append(repeat(3, line), []string{"SET", "k", "v"})...)
			for i, want := range []string{stepsMet, meter.ErrWork, meter.ErrWork, meter.ErrWork} {
				if got := replies[i].Str; got != want {
					t.Errorf("command %d: %s, want %s", i, got, want)
				}
			}
		})
	}
}

// A script may do what its request has left, in steps and in commands together: where that
// is not enough it is undone at once, whatever it catches, and what is left is enough for
// one that needs less.
func TestScriptTakesWhatItsRequestLeaves(t *testing.T) {
	const spin = "for i = 1, 1e9 do end"
	for name, tt := range map[string]struct {
		left string // steps
		line resp.Args
		want string
	}{
		"enough":                 {"1000", resp.Args{"EVAL", "return redis.call('set', 'k', 'v')", "0"}, "OK"},
		"none":                   {"0", resp.Args{"EVAL", "return redis.call('set', 'k', 'v')", "0"}, meter.ErrWork},
		"steps":                  {"1000", resp.Args{"EVAL", "redis.call('set', 'k', 'v') " + spin, "0"}, meter.ErrWork},
		"most steps":             {"90000", resp.Args{"EVAL", "redis.call('set', 'k', 'v') " + spin, "0"}, "ERR Script stopped: it needs more than its limit of 100000 steps"},
		"caught":                 {"5000", resp.Args{"EVAL", "redis.call('set', 'k', 'v') while true do pcall(function() " + spin + " end) end", "0"}, meter.ErrWork},
		"work":                   {"5000", resp.Args{"EVAL", "redis.call('set', 'k', 'v') for i = 1, 9 do redis.pcall('setrange', 'k', 999999, 'x') end", "0"}, meter.ErrWork},
		"work before steps":      {"60000", resp.Args{"EVAL", "redis.call('setrange', 'k', 9999999, 'x') " + spin, "0"}, meter.ErrWork},
		"steps before work":      {"6000", resp.Args{"EVAL", "for i = 1, 3000 do end redis.call('setrange', 'k', 999999, 'x')", "0"}, meter.ErrWork},
		"work alone":             {"6000", resp.Args{"EVAL", "redis.call('setrange', 'k', 999999, 'x') return 'done'", "0"}, "done"},
		"a function":             {"1000", resp.Args{"FCALL", "spin", "0"}, meter.ErrWork},
		"a library":              {"5000", resp.Args{"FUNCTION", "LOAD", "#!lua name=more\n" + spin}, meter.ErrWork},
		"many small commands":    {"40000", resp.Args{"EVAL", "for i = 1, 400 do redis.call('set', 'k', 'v') end return 'done'", "0"}, "done"},
		"too many small of them": {"40000", resp.Args{"EVAL", "for i = 1, 900 do redis.call('set', 'k', 'v') end return 'done'", "0"}, meter.ErrWork},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSpinner(t)
			ask(m, []string{"CONFIG", "SET", "lockd-script-steps", "100000"})
			m.state.Applying = true
			m.state.Meter.BeginRequest(m.state.UsedBytes())
			steps, _ := strconv.ParseInt(tt.left, 10, 64)
			const program = meter.CompileWork + 100*meter.SourceWork
			work := meter.WorkMax - steps*m.state.Settings.StepWork
			if steps > 0 {
				work -= program
			}
			m.state.Meter.Spend(work)
			if got := run(m, resp.Stamp{}, 0, tt.line).Str; got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if m.state.Meter.Work() > meter.WorkMax+meter.LimitWork+program+4<<20 { // a command may end what it has begun
				t.Errorf("the request has done %d more than it may", m.state.Meter.Work()-meter.WorkMax)
			}
			if e, _ := m.state.Keys.DBs[0].Keys.Get("k"); strings.HasPrefix(tt.want, "ERR") && e != nil {
				t.Error("the script was not undone")
			}
		})
	}
}

// However many steps a script is allowed, it may take all of them. What they are for its
// request, they are not for its entry: there they count for the time that they take.
func TestStepsCountForTheirEntry(t *testing.T) {
	for _, most := range []int64{1000, 10_000_000, 1_000_000_000} {
		m := New(luavm.New())
		ask(m, []string{"CONFIG", "SET", "lockd-script-steps", strconv.FormatInt(most, 10)})
		if lim := m.state.Meter.BeginScript(m.state.Settings.Script, m.state.Settings.StepWork); lim.Steps != most {
			t.Errorf("of %d steps a script may take %d", most, lim.Steps)
		}
		ask(m, []string{"EVAL", "for i = 1, 900 do end return redis.call('set', 'k', 'v')", "0"})
		if steps := int64(900); m.state.Meter.EntryWork() < meter.StepWork*steps || m.state.Meter.EntryWork() > meter.StepWork*steps*3/2+meter.CompileWork+100*meter.SourceWork {
			t.Errorf("of %d steps, %d count for %d", most, steps, m.state.Meter.EntryWork())
		}
	}
}

// A pipelined run that has done much goes on in other entries, up to its end, and
// always comes further.
func TestPipelineGoesOnInOtherEntries(t *testing.T) {
	m := newSpinner(t)
	var req resp.Request
	for range 5 {
		req.Cmds = append(req.Cmds, resp.Cmd{Args: endless[0]})
	}
	req.Cmds = append(req.Cmds, resp.Cmd{Args: resp.Args{"SET", "k", "v"}})
	var parts []int
	for tick := int64(1); len(req.Cmds) > 0 && tick < 10; tick++ {
		results, _ := m.Apply(resp.Stamp{Tick: tick, Index: uint64(tick)}, []resp.Request{req})
		n := len(results[0].Replies)
		if left := results[0].Left(req); left != len(req.Cmds)-n {
			t.Errorf("%d commands left, %d of %d done", left, n, len(req.Cmds))
		}
		parts, req.Cmds = append(parts, n), req.Cmds[n:]
	}
	if fmt.Sprint(parts) != "[1 1 1 1 1 1]" {
		t.Errorf("executed in parts of %v", parts)
	}
	if got := ask(m, []string{"GET", "k"})[0].Str; got != "v" {
		t.Errorf("k is %q", got)
	}
}

// A pipelined run whose replies are large goes on elsewhere as well; a read does so too.
func TestPipelineOfLargeRepliesGoesOn(t *testing.T) {
	m := New(luavm.New())
	ask(m, []string{"SETRANGE", "k", fmt.Sprint(1<<20 - 1), "x"})
	get, incr := resp.Cmd{Args: resp.Args{"GET", "k"}}, resp.Cmd{Args: resp.Args{"INCR", "n"}}
	read, write := resp.Request{}, resp.Request{}
	for range 100 {
		read.Cmds, write.Cmds = append(read.Cmds, get), append(write.Cmds, get)
	}
	write.Cmds = append(write.Cmds, incr)
	if res := m.View(resp.Stamp{Tick: 1}, read); res.Left(read) != 36 {
		t.Errorf("a read: %d commands left", res.Left(read))
	}
	results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 2}, []resp.Request{write})
	if left := results[0].Left(write); left != 37 {
		t.Errorf("a write: %d commands left", left)
	}
	write.Cmds = write.Cmds[64:]
	results, _ = m.Apply(resp.Stamp{Tick: 2, Index: 3}, []resp.Request{write})
	if got := results[0].Replies; len(got) != 37 || got[36].Int != 1 {
		t.Errorf("the rest: %d replies", len(got))
	}
}

// Scripts of many clients in one entry: one that does as much as it may is run, and those
// behind it are left for another entry with nothing done.
func TestScriptsTireAnEntry(t *testing.T) {
	m := newSpinner(t)
	var reqs []resp.Request
	for range 6 {
		reqs = append(reqs, resp.Request{Cmds: []resp.Cmd{{Args: endless[0]}}})
	}
	reqs = append(reqs,
		resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"INCR", "n"}}}},
		resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"INCR", "n"}}, {Args: resp.Args{"INCR", "n"}}}, Multi: true})
	results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 1}, reqs)
	for i, want := range []int{0, 1, 1, 1, 1, 1, 1, 2} {
		if got := results[i].Left(reqs[i]); got != want {
			t.Errorf("request %d: %d commands left, want %d", i, got, want)
		}
	}
	if got := ask(m, []string{"EXISTS", "n"})[0]; got.Int != 0 {
		t.Error("what was left was executed")
	}
	results, _ = m.Apply(resp.Stamp{Tick: 2, Index: 2}, reqs[6:])
	if got := results[1].Replies[1]; got.Int != 3 {
		t.Errorf("in the next entry: %v", got)
	}
}

// A scan asks for no more than there is, whatever its COUNT.
func TestScanOfLargeCountIsNoWork(t *testing.T) {
	m := New(luavm.New())
	ask(m, []string{"HSET", "h", "f", "v"}, []string{"ZADD", "z", "1", "m"}, []string{"SADD", "s", "m"})
	for _, call := range []string{"'scan','0'", "'hscan','h','0'", "'sscan','s','0'", "'zscan','z','0'"} {
		if got := ask(m, []string{"EVAL", "redis.call(" + call + ",'COUNT','100000000') return redis.call('set','q','2')", "0"})[0]; got.Str != "OK" {
			t.Errorf("%s: %s", call, got.Str)
		}
	}
}

// Who looks for an element of a small aggregate looks at all of them, and each such
// search is counted, of elements that are not there too.
func TestSearchesAreCounted(t *testing.T) {
	m := New(nil)
	for i := range 100 {
		do(m, 1, fmt.Sprintf("HSET h f%d v", i))
		do(m, 1, fmt.Sprintf("SADD s m%d", i))
		do(m, 1, fmt.Sprintf("ZADD z 1 m%d", i))
	}
	for _, name := range []string{"h", "s", "z"} {
		if got := do(m, 1, "OBJECT ENCODING "+name); got != "listpack" {
			t.Fatalf("%s is a %s", name, got)
		}
	}
	const search = 101 * value.CompareWork
	for _, tt := range []struct {
		line     string
		searches int64
	}{
		{"HGET h none", 1},
		{"HMGET h none f1 f2", 3},
		{"HEXISTS h none", 1},
		{"HSET h f1 v f2 v", 2},
		{"HDEL h none never nowhere", 3},
		{"HDEL h f1 f2", 2},
		{"SISMEMBER s none", 1},
		{"SMISMEMBER s none m1 m2", 3},
		{"SADD s m1 m2 m3", 3},
		{"SADD s new", 2},
		{"SREM s none never nowhere", 3},
		{"SREM s m1 new", 2},
		{"SMOVE s other none", 1},
		{"SPOP s", 1},
		{"ZREM z none never nowhere", 3},
	} {
		m.state.Applying = true
		m.state.Meter.BeginRequest(m.state.UsedBytes())
		if r := run(m, resp.Stamp{}, 0, split(tt.line)); r.IsErr() {
			t.Fatalf("%s: %s", tt.line, r.Str)
		}
		keys := 6 * m.state.Keys.DBs[0].FindWork("s") // at the most: the key is found and stored
		if got := m.state.Meter.Work(); got < tt.searches*search*9/10 || got > 3*tt.searches*search+keys {
			t.Errorf("%s: work %d, want about %d", tt.line, got, tt.searches*search)
		}
	}
}

// The commands of a pipeline do not pay for each other's work, nor do those who wait for
// what one of them brings.
func TestOthersDoNotPay(t *testing.T) {
	m := New(luavm.New())
	at := resp.Stamp{Tick: 1}
	do := func(lines ...resp.Args) (resp.Result, []resp.Message) {
		var req resp.Request
		for _, l := range lines {
			req.Cmds = append(req.Cmds, resp.Cmd{Args: l})
		}
		at.Index++
		results, messages := m.Apply(at, []resp.Request{req})
		return results[0], messages
	}
	m.Apply(at, []resp.Request{resp.BlockOpening("", 0), asking(1, 1, 0, resp.Args{"BLPOP", "list", "0"})})
	const spin = " for i = 1, 3000000 do local a = i end " // nearly all that one request may do
	res, messages := do(
		resp.Args{"EVAL", spin + "return 'done'", "0"},
		resp.Args{"EVAL", "for i = 1, 8 do redis.call('SETRANGE', 'large' .. i, 9999999, 'x') end redis.call('LPUSH', 'list', 'v')" + spin + "return 'done'", "0"})
	if m.state.Meter.Work() < meter.WorkMax*3/2 {
		t.Errorf("they need no more than one request may do: %d", m.state.Meter.Work())
	}
	for i, reply := range res.Replies {
		if reply.Str != "done" {
			t.Errorf("script %d: %s", i, reply.Str)
		}
	}
	messages = slices.DeleteFunc(messages, func(msg resp.Message) bool { return msg.Kind != resp.MessageBlock })
	if len(messages) != 1 || messages[0].Block.How != resp.BlockServed {
		t.Errorf("who waits hears %+v", messages)
	}
}
