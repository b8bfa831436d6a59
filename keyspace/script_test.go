package keyspace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lockd/keyspace/library"
	"lockd/keyspace/store"
	"lockd/resp"
)

// What scripts are told of calls that are none, in Redis's words.
const (
	scriptUnknown  = "ERR Unknown Redis command called from script"
	scriptArity    = "ERR Wrong number of args calling Redis command from script"
	scriptNotHere  = "ERR This Redis command is not allowed from script"
	scriptReadOnly = "ERR Write commands are not allowed from read-only scripts."
)

// load stores a script and returns the command that runs it.
func load(t *testing.T, m *Machine, lines ...string) string {
	t.Helper()
	r, _ := m.Apply(at(1), []resp.Request{{Cmds: []resp.Cmd{{Args: resp.Args{"SCRIPT", "LOAD", strings.Join(lines, "\n")}}}}})
	if r[0].Replies[0].IsErr() {
		t.Fatal(r[0].Replies[0].Str)
	}
	return "EVALSHA " + r[0].Replies[0].Str + " 0"
}

// A script that meets a limit leaves nothing: no write, no message, no fence, no
// version. Random writes of every kind are run in it, and the image is compared.
func TestLimitedScriptIsTakenBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		m := sample(t)
		lines := make([]string, 1+rng.IntN(60))
		for i := range lines {
			lines[i] = randomWrite(rng)
		}
		run := load(t, m, append(lines, "limit")...)
		m.Apply(at(2000), nil)
		before := untraced(t, m)
		results, msgs := m.Apply(at(2000), []resp.Request{request(0, run)})
		if got := results[0].Replies[0].Str; got != "ERR script limit" {
			t.Fatalf("reply %q", got)
		}
		if !bytes.Equal(untraced(t, m), before) || len(msgs) != 0 {
			t.Fatalf("something is left of\n%s\nmessages %v", strings.Join(lines, "\n"), msgs)
		}
		checkDerived(t, m)
	}
}

// Of a key that a script writes again and again only what was there before it is kept: what
// it has made itself is let go, and what it has made of nothing leaves nothing.
func TestJournalIsBounded(t *testing.T) {
	const piece = 1000
	m := New(fakeScripts{})
	do(m, 1, "SET old v")
	do(m, 1, "RPUSH list v")
	before := untraced(t, m)
	m.state.Applying = true
	m.state.Begin()
	for range 100 {
		for _, line := range []string{"APPEND old " + strings.Repeat("x", piece), "APPEND new " + strings.Repeat("x", piece), "RPUSH list v", "PERSIST old"} {
			if r := run(m, at(1), 0, split(line)); r.IsErr() {
				t.Fatalf("%s: %s", line, r.Str)
			}
		}
	}
	kept := 0
	replaced, _ := m.state.Keys.Kept()
	for _, e := range replaced {
		if e != nil {
			kept += len(e.Str())
		}
	}
	if len(replaced) != 3 || kept != len("v") {
		t.Errorf("%d changes are kept, and strings of %d bytes", len(replaced), kept)
	}
	m.state.Rollback()
	m.state.Applying = false
	if !bytes.Equal(untraced(t, m), before) {
		t.Error("something is left")
	}
}

// So it is where databases are exchanged and flushed in between: the databases that the script
// has found are kept as it has found them, and nothing of those that it has made.
func TestJournalOfDatabasesIsBounded(t *testing.T) {
	m := New(fakeScripts{})
	for db := range store.Databases {
		m.Apply(at(1), []resp.Request{request(db, "SET old v"), request(db, "RPUSH list v")})
	}
	before, bytes0 := untraced(t, m), m.state.UsedBytes()
	m.state.Applying = true
	m.state.Begin()
	long := strings.Repeat("x", 1000)
	for i := range 100 {
		for _, line := range []string{"APPEND old " + long, "RPUSH list " + long, "SET new " + long, "SWAPDB 0 1", "APPEND old " + long, "SWAPDB 1 2"} {
			if r := run(m, at(1), 0, split(line)); r.IsErr() {
				t.Fatalf("%s: %s", line, r.Str)
			}
		}
		for _, line := range []string{"SET old " + long, "SET new " + long, "RPUSH list " + long, "FLUSHDB"} {
			run(m, at(1), 3+i%(store.Databases-3), split(line))
		}
	}
	kept, found := 0, int64(0)
	replaced, databases := m.state.Keys.Kept()
	for _, e := range replaced {
		if e != nil {
			kept += len(e.Str())
		}
	}
	for _, d := range databases[3:] {
		found += d.Bytes
	}
	if want := bytes0 * (store.Databases - 3) / store.Databases; kept > 3*len("v") || found != want {
		t.Errorf("strings of %d bytes are kept, and databases of %d, want %d", kept, found, want)
	}
	m.state.Rollback()
	m.state.Applying = false
	if !bytes.Equal(untraced(t, m), before) || m.state.UsedBytes() != bytes0 {
		t.Error("something is left")
	}
	checkDerived(t, m)
}

// A lease that a limited script came upon, and ended, is there again, to be ended by
// the sweep: with its event, and counted once.
func TestLimitedScriptEndsNoLease(t *testing.T) {
	m := New(fakeScripts{})
	for i := range sweepMax {
		do(m, 1, fmt.Sprintf("SET a%d v PX 1", i))
	}
	do(m, 1, "SET z v PX 2")
	do(m, 1000, "EVAL 'GET z\nlimit' 0")
	if n := m.state.Stats.ExpiredKeys; n != sweepMax {
		t.Errorf("%d leases have ended", n)
	}
	m.Apply(at(1001), nil)
	if n := m.state.Stats.ExpiredKeys; n != sweepMax+1 || m.state.Keys.DBs[0].Keys.Len() != 0 {
		t.Errorf("%d leases have ended, %d keys are left", n, m.state.Keys.DBs[0].Keys.Len())
	}
}

// randomWrite draws a command that a script may run and that may change something.
func randomWrite(rng *rand.Rand) string {
	key := func() string {
		return []string{"lock", "forever", "small", "large", "new", "other", "wall", "numbers", "words", "members"}[rng.IntN(10)]
	}
	n := rng.IntN(5)
	switch rng.IntN(30) {
	case 28:
		return fmt.Sprintf("LOCK door t%d PX 200 WAIT 100", n)
	case 29:
		return fmt.Sprintf("UNLOCK door t%d", n)
	case 0:
		return fmt.Sprintf("SET %s v%d", key(), n)
	case 1:
		return fmt.Sprintf("SET %s v PX %d", key(), 1+n*100)
	case 2:
		return "DEL " + key()
	case 3:
		return fmt.Sprintf("HSET %s f%d v", key(), n)
	case 4:
		return fmt.Sprintf("HDEL %s field a m z f%d", key(), n)
	case 5:
		return fmt.Sprintf("RENAME %s %s", key(), key())
	case 6:
		return fmt.Sprintf("COPY %s %s DB %d REPLACE", key(), key(), n)
	case 7:
		return fmt.Sprintf("PEXPIRE %s %d", key(), n*100-100)
	case 8:
		return "PERSIST " + key()
	case 9:
		return fmt.Sprintf("SWAPDB %d %d", rng.IntN(3), n)
	case 10:
		return []string{"FLUSHDB", "FLUSHALL"}[rng.IntN(2)]
	case 11:
		return fmt.Sprintf("SELECT %d", n)
	case 12:
		return fmt.Sprintf("MOVE %s %d", key(), n)
	case 13:
		return "PUBLISH channel text"
	case 14:
		return fmt.Sprintf("APPEND %s x", key())
	case 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26:
		return kindWrites[rng.IntN(len(kindWrites))](rng, key())
	}
	return fmt.Sprintf("HINCRBY %s n%d 1", key(), n)
}

// An error of a script's own keeps what it wrote before, as in Redis.
func TestFailedScriptKeepsItsWrites(t *testing.T) {
	m := New(fakeScripts{})
	play(t, m, []turn{
		{1, "EVAL 'SET k v\nfail' 0", "ERR script failed"},
		{1, "GET k", "v"},
	})
}

// A command inside a script: what is refused, and with which words.
func TestCallInScript(t *testing.T) {
	m := New(fakeScripts{})
	play(t, m, []turn{
		{1, "EVAL 'NOSUCH' 0", scriptUnknown},
		{1, "EVAL 'OBJECT NOSUCH k' 0", scriptUnknown},
		{1, "EVAL 'GET' 0", scriptArity},
		{1, "EVAL 'CONFIG' 0", scriptArity},
		{1, "EVAL 'EVAL x 0' 0", scriptNotHere},
		{1, "EVAL 'CONFIG SET timeout 1' 0", scriptNotHere},
		{1, "EVAL 'SCRIPT FLUSH' 0", scriptNotHere},
		{1, "EVAL 'watch k' 0", scriptNotHere},
		{1, "EVAL 'subscribe' 0", scriptArity},
		{1, "EVAL 'SUBSCRIBE c' 0", scriptNotHere},
		{1, "EVAL 'multi' 0", scriptNotHere},
		{1, "EVAL 'multi x' 0", scriptArity},
		{1, "EVAL 'wait 1 1' 0", scriptNotHere},
		{1, "EVAL 'wait' 0", scriptArity},
		{1, "EVAL 'client id' 0", scriptNotHere},
		{1, "EVAL 'client' 0", scriptArity},
		{1, "EVAL 'client nosuch' 0", scriptUnknown},
		{1, "EVAL 'hello' 0", scriptNotHere},
		{1, "EVAL 'reset' 0", scriptNotHere},
		{1, "EVAL 'quit' 0", scriptNotHere},
		{1, "EVAL 'auth' 0", scriptArity},
		{1, "EVAL 'auth x' 0", scriptNotHere},
		{1, "EVAL 'role' 0", scriptNotHere},
		{1, "EVAL 'role x' 0", scriptArity},
		{1, "EVAL_RO 'SET k v' 0", scriptReadOnly},
		{1, "EVAL_RO 'PUBLISH k v' 0", scriptReadOnly},
		{1, "EVAL '#!lua flags=no-writes\nSET k v' 0", scriptReadOnly},
		{1, "EVAL_RO '#!lua\nGET k' 0", "ERR Can not execute a script with write flag using *_ro command."},
		{1, "EVAL 'PUBLISH c m' 0", "0"},
		{1, "EVAL 'SELECT 5\nSET k five\nGET k' 0", "five"},
		{1, "EVAL 'SELECT 16' 0", resp.ErrDBIndex},
		{1, "GET k", "(nil)"},
		{1, "EVAL 'SET KEYS[1] ARGV[1]' 1 key arg", "OK"},
		{1, "GET key", "arg"},
		{1, "EVAL 'x(' 0", "ERR Error compiling script"},
		{1, "SCRIPT LOAD 'x('", "ERR Error compiling script"},
		{1, "SCRIPT EXISTS " + library.SHA("x("), "0"},
	})
}

// The library keeps what SCRIPT LOAD brought, and of EVAL's scripts the ones used
// last: five hundred, and as many bytes as fit.
func TestLibraryForgetsTheOldest(t *testing.T) {
	m := New(fakeScripts{})
	kept := load(t, m, "return loaded")
	for i := range library.EvalScriptsMax {
		do(m, 1, fmt.Sprintf("EVAL 'return %d' 0", i))
	}
	play(t, m, []turn{
		{1, "EVALSHA " + library.SHA("return 0") + " 0", "0"}, // used again: now the youngest
		{1, "EVAL 'return more' 0", "more"},
		{1, "EVAL 'return most' 0", "most"},
		{1, "EVALSHA " + library.SHA("return 0") + " 0", "0"},
		{1, "EVALSHA " + library.SHA("return 1") + " 0", resp.ErrNoScript},
		{1, "EVALSHA " + library.SHA("return 2") + " 0", resp.ErrNoScript},
		{1, "EVALSHA " + strings.ToUpper(library.SHA("return 3")) + " 0", "3"},
		{1, kept, "loaded"},
	})
	big := strings.Repeat(" ", library.ScriptsBytesMax/2)
	do(m, 1, "EVAL 'return big"+big+"' 0")
	if got := do(m, 1, "SCRIPT LOAD 'return big2"+big+"'"); len(got) != 40 {
		t.Errorf("load: %s", got)
	}
	if got := do(m, 1, "SCRIPT LOAD 'return big3"+big+"'"); got != "ERR the loaded scripts take more than 64 MB: SCRIPT FLUSH frees them" {
		t.Errorf("load of too much: %s", got)
	}
	if m.state.Library.Bytes() > library.ScriptsBytesMax || m.state.Library.Len() != 2 {
		t.Errorf("%d bytes, %d scripts", m.state.Library.Bytes(), m.state.Library.Len())
	}
	play(t, m, []turn{{1, kept, "loaded"}, {1, "SCRIPT FLUSH", "OK"}, {1, kept, resp.ErrNoScript}})
	if m.state.UsedBytes() != 0 {
		t.Errorf("%d bytes are left", m.state.UsedBytes())
	}
}
