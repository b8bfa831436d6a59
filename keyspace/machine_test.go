package keyspace

import (
	"fmt"
	"strings"
	"testing"

	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/luavm"
	"lockd/resp"
	"lockd/resp/lockuse"
)

func at(tick int64) resp.Stamp {
	return resp.Stamp{Tick: tick, Wall: 1_700_000_000_000_000 + tick*1000, Index: uint64(tick)}
}

// do applies one command in an entry of its own and returns its reply in words.
func do(m *Machine, tick int64, line string) string {
	r, _ := apply(m, at(tick), line)
	return plain(r)
}

// A turn is a command at a tick and what it answers.
type turn struct {
	tick      int64
	cmd, want string
}

func play(t *testing.T, m *Machine, steps []turn) {
	t.Helper()
	for _, s := range steps {
		if got := do(m, s.tick, s.cmd); got != s.want {
			t.Errorf("at %d %s: %q, want %q", s.tick, s.cmd, got, s.want)
		}
	}
	checkDerived(t, m)
}

// checkDerived compares what the machine keeps beside its state with what follows
// from the state.
func checkDerived(t testing.TB, m *Machine) {
	t.Helper()
	for i, d := range m.state.Keys.DBs {
		var bytes int64
		leases, locks := 0, 0
		leaseOf := map[*store.Entry]int64{}
		d.Leases.Each(func(l store.Lease) bool {
			leaseOf[l.Of] = l.Tick
			return true
		})
		d.Keys.Each(func(e *store.Entry) bool {
			if is, _ := d.Keys.Get(e.Key()); is != e {
				t.Fatalf("db%d %q: another entry is found", i, e.Key())
			}
			if agg := e.Aggregate(); agg != nil && agg.Size() != e.Value().Size() {
				t.Fatalf("db%d %q: it counts for %d bytes, and takes %d", i, e.Key(), e.Value().Size(), agg.Size())
			}
			bytes += e.Size()
			locks += resp.One(e.IsLocked())
			if e.Leased() {
				leases++
				if tick, ok := leaseOf[e]; !ok || tick != e.Ends() {
					t.Fatalf("db%d %q: its lease is of another entry", i, e.Key())
				}
			}
			return true
		})
		if bytes != d.Bytes || leases != d.Leases.Len() || locks != d.Locks {
			t.Fatalf("db%d: %d bytes in %d leases of %d locks, kept %d in %d of %d",
				i, bytes, leases, locks, d.Bytes, d.Leases.Len(), d.Locks)
		}
	}
	checkBlocked(t, m)
}

// A lease ends strictly after its deadline, and not for a reader's clock.
func TestLeaseEndsStrictlyAfterItsDeadline(t *testing.T) {
	m := New(nil)
	play(t, m, []turn{
		{1000, "SET lock me NX PX 30000", "OK"},
		{31000, "SET lock you NX", "(nil)"},
		{31000, "PTTL lock", "0"},
	})
	if got := plain(view(m, at(99999), 0, "GET lock")); got != "me" {
		t.Errorf("a read with a clock ahead: %q", got)
	}
	if got := plain(view(m, at(99999), 0, "PTTL lock")); got != "0" {
		t.Errorf("its remainder: %q", got)
	}
	play(t, m, []turn{{31001, "SET lock you NX", "OK"}})
}

// The log clock never goes back, whatever stamp an entry carries.
func TestClockNeverGoesBack(t *testing.T) {
	m := New(nil)
	play(t, m, []turn{{5000, "SET k v PX 100", "OK"}, {4000, "PTTL k", "100"}, {5101, "GET k", "(nil)"}, {1, "GET k", "(nil)"}})
	if m.Tick() != 5101 {
		t.Errorf("tick %d", m.Tick())
	}
}

// A deadline in wall time counts as the remainder it had when it was asked for: the
// wall clock may then jump, the lease does not. EXPIRETIME reports what was asked.
func TestWallDeadlineIsARemainder(t *testing.T) {
	m := New(nil)
	wall := int64(1_700_000_000_000) // ms
	stamp := func(tick, wallMs int64) resp.Stamp { return resp.Stamp{Tick: tick, Wall: wallMs * 1000, Index: 1} }
	mustApply(t, m, stamp(1000, wall), 0, "SET k v PXAT 1700000010000")
	for _, c := range []struct {
		at        resp.Stamp
		cmd, want string
	}{
		{stamp(1000, wall), "PTTL k", "10000"},
		{stamp(2000, wall+3_600_000), "PTTL k", "9000"},
		{stamp(2000, wall-3_600_000), "PEXPIRETIME k", "1700000010000"},
		{stamp(11000, wall), "EXISTS k", "1"},
		{stamp(11001, wall), "EXISTS k", "0"},
	} {
		r, _ := apply(m, c.at, c.cmd)
		if got := plain(r); got != c.want {
			t.Errorf("%+v %s: %q, want %q", c.at, c.cmd, got, c.want)
		}
	}
}

// The same wall deadline asked for again changes nothing: no event, no version.
func TestSameWallDeadlineIsNoChange(t *testing.T) {
	m := New(nil)
	mustApply(t, m, at(1000), 0, "CONFIG SET notify-keyspace-events KEA", "SET k v", "PEXPIREAT k 1700000100000")
	before := version(m, 1000, "k")
	r, msgs := apply(m, at(1500), "PEXPIREAT k 1700000100000")
	if plain(r) != "1" || len(msgs) != 0 || version(m, 1500, "k") != before {
		t.Errorf("reply %s, messages %v", plain(r), msgs)
	}
	if _, msgs := apply(m, at(1500), "PEXPIREAT k 1700000100001"); len(msgs) != 3 {
		t.Errorf("another deadline: messages %v", msgs)
	}
}

// Fences rise with every key that comes into being, also within one entry that
// carries many clients, and are never below the index of their entry. A fence
// stays through renewal, changes inside of a hash, and snapshot; a string with another
// value, and what comes into being anew, by RENAME or COPY too, has a new one.
func TestFence(t *testing.T) {
	m := New(nil)
	reqs := []resp.Request{request(0, "SET a 1 NX PX 1000"), request(0, "DEL a"), request(0, "SET a 2 NX PX 1000"), request(0, "FENCE a")}
	results, _ := m.Apply(resp.Stamp{Tick: 1, Index: 100}, reqs)
	if got := plain(results[3].Replies[0]); got != "101" {
		t.Errorf("second holder in entry 100: %s", got)
	}
	for _, s := range []struct {
		index     uint64
		cmd, want string
	}{
		{101, "SET b 1", "OK"}, {101, "FENCE b", "102"},
		{150, "SET a 2", "OK"}, {151, "FENCE a", "101"}, {200, "SET a 3", "OK"}, {201, "PEXPIRE a 5000", "1"},
		{201, "FENCE a", "200"}, {202, "APPEND a x", "2"}, {203, "FENCE a", "202"},
		{204, "RENAME a b", "OK"}, {205, "FENCE b", "204"}, {205, "FENCE a", "(nil)"},
		{206, "COPY b c", "1"}, {207, "FENCE c", "206"}, {207, "FENCE b", "204"},
		{208, "HSET h f v", "1"}, {209, "HSET h g v", "1"}, {209, "FENCE h", "208"},
	} {
		r, _ := apply(m, resp.Stamp{Tick: 1, Index: s.index}, s.cmd)
		if got := plain(r); got != s.want {
			t.Errorf("entry %d %s: %s, want %s", s.index, s.cmd, got, s.want)
		}
	}
	m = restored(t, image(t, m))
	if got := do(m, 1, "FENCE b"); got != "204" {
		t.Errorf("after a restore: %s", got)
	}
	if do(m, 1, "SET new 1"); do(m, 1, "FENCE new") != "209" {
		t.Errorf("a new key after a restore: %s", do(m, 1, "FENCE new"))
	}
}

// What a transaction watched and what happened before EXEC: does it run?
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name, before, between string
		db                    int
		aborted               bool
	}{
		{"nothing", "SET k 1", "", 0, false},
		{"a read", "SET k 1", "GET k", 0, false},
		{"another key", "SET k 1", "SET other 1", 0, false},
		{"the same value again", "SET k 1", "SET k 1", 0, true},
		{"renewal", "SET k 1 PX 5000", "PEXPIRE k 6000", 0, true},
		{"a failed write", "SET k x", "INCR k", 0, false},
		{"delete", "SET k 1", "DEL k", 0, true},
		{"delete and create", "SET k 1", "DEL k|SET k 1", 0, true},
		{"create", "", "SET k 1", 0, true},
		{"create and delete", "", "SET k 1|DEL k", 0, true},
		{"create and flush", "", "SET k 1|FLUSHALL", 0, true},
		{"delete of nothing", "", "DEL k", 0, false},
		{"flush without it", "SET other 1", "FLUSHALL", 0, false},
		{"flush", "SET k 1", "FLUSHDB", 0, true},
		{"expiry", "SET k 1 PX 100", "tick", 0, true},
		{"swap in", "", "swap in", 0, true},
		{"swap out", "SET k 1", "SWAPDB 0 1", 0, true},
		{"swap out and in", "SET k 1", "SWAPDB 0 1|SWAPDB 0 1", 0, true},
		{"swap of others", "SET k 1", "SWAPDB 2 1", 0, false},
		{"swap in and delete", "", "swap in|DEL k", 0, true},
		{"swap in and out", "", "swap in|SWAPDB 0 1", 0, true},
		{"delete after a swap", "SET k 1|SWAPDB 0 1|SWAPDB 0 1", "DEL k", 0, true},
		{"nothing after a swap", "SWAPDB 0 1", "", 0, false},
		{"a field", "HSET k f v", "HSET k f v", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New(nil)
			run := func(tick int64, lines string) {
				for _, line := range strings.Split(lines, "|") {
					switch line {
					case "", "tick":
						m.Apply(at(tick), nil)
					case "swap in":
						m.Apply(at(tick), []resp.Request{request(1, "SET k 1"), request(0, "SWAPDB 0 1")})
					default:
						do(m, tick, line)
					}
				}
			}
			run(1000, c.before)
			version := version(m, 1000, "k")
			run(2000, c.between)
			req := request(0, "SET done 1")
			req.Watch = &resp.Watching{Check: []resp.Watch{{Key: "k", Version: version}}}
			results, _ := m.Apply(at(3000), []resp.Request{req})
			if results[0].Aborted() != c.aborted || (do(m, 3000, "EXISTS done") == "0") != c.aborted {
				t.Errorf("aborted %v, want %v", results[0].Aborted(), c.aborted)
			}
			if results[0].Aborted() && results[0].Replies != nil {
				t.Error("an aborted transaction has replies")
			}
		})
	}
}

// The watched keys that EXEC looks at count for its entry, whether one has changed or not.
func TestWatchedKeysCount(t *testing.T) {
	const keys = 1000
	m := New(nil)
	m.Apply(at(1000), nil)
	watching := &resp.Watching{}
	for i := range keys {
		key := fmt.Sprintf("k%d", i)
		watching.Check = append(watching.Check, resp.Watch{Key: key, Version: version(m, 1000, key)})
	}
	for _, changed := range []bool{false, true} {
		if changed {
			watching.Check[keys-1].Version++
		}
		req := request(0, "GET k")
		req.Watch = watching
		results, _ := m.Apply(at(2000), []resp.Request{req})
		if results[0].Aborted() != changed || m.state.Meter.EntryWork() < keys*2*value.FindWork {
			t.Errorf("aborted %t; %d keys count %d", results[0].Aborted(), keys, m.state.Meter.EntryWork())
		}
	}
}

// version is what WATCH learns of a key.
func version(m *Machine, tick int64, key string) uint64 {
	res := m.View(at(tick), resp.Request{Watch: &resp.Watching{Learn: []resp.Key{{Name: key}}}})
	return res.Watched.Versions[0]
}

// To watch a key whose lease has ended, before the sweep has come to it, and to
// have it swept, is no change: it was absent all the time.
func TestWatchOfAnEndedLease(t *testing.T) {
	m := New(nil)
	for i := range sweepMax + 10 {
		do(m, 1000, fmt.Sprintf("SET a%d v PX 1", i))
	}
	do(m, 1000, "SET z v PX 2")
	m.Apply(at(2000), nil)
	if m.state.Keys.DBs[0].Keys.Len() != 11 {
		t.Fatalf("%d keys wait for the sweep", m.state.Keys.DBs[0].Keys.Len())
	}
	version := version(m, 2000, "z")
	m.Apply(at(2001), nil)
	req := request(0, "PING")
	req.Watch = &resp.Watching{Check: []resp.Watch{{Key: "z", Version: version}}}
	if m.View(at(2001), req).Aborted() {
		t.Error("aborted")
	}
}

// An entry sweeps a bounded number of leases, in the order of (deadline, database,
// key). What is left counts as absent for everybody, stays due, and is ended by
// the first entry that touches it.
func TestSweep(t *testing.T) {
	m := New(nil)
	mustApply(t, m, at(1000), 0, "CONFIG SET notify-keyspace-events Ex")
	mustApply(t, m, at(1000), 1, "SET b v PX 20", "SET a v PX 20", "SET late v PX 30")
	mustApply(t, m, at(1000), 0, "SET c v PX 20", "SET early v PX 10")
	for i := range sweepMax - 3 {
		do(m, 1000, fmt.Sprintf("SET k%04d v PX 15", i))
	}
	_, msgs := m.Apply(at(5000), nil)
	var got []string
	for _, msg := range published(msgs) {
		got = append(got, msg.Channel+" "+msg.Payload)
	}
	if len(got) != sweepMax || got[0] != "__keyevent@0__:expired early" || got[1] != "__keyevent@0__:expired k0000" ||
		got[sweepMax-2] != "__keyevent@0__:expired c" || got[sweepMax-1] != "__keyevent@1__:expired a" {
		t.Fatalf("%d events: %v ... %v", len(got), got[:2], got[len(got)-2:])
	}
	if tick, ok := m.NextDeadline(); !ok || tick != 1020 {
		t.Errorf("next deadline %d %v: b is due", tick, ok)
	}
	if got := plain(view(m, at(5000), 1, "EXISTS b late")); got != "0" {
		t.Errorf("a reader sees %s of them", got)
	}
	if m.state.Keys.DBs[1].Keys.Len() != 2 {
		t.Error("a reader has changed the state")
	}
	_, msgs = m.Apply(at(5000), []resp.Request{request(1, "EXISTS late")})
	msgs = published(msgs)
	if len(msgs) != 2 || msgs[0].Payload != "b" || msgs[1].Payload != "late" {
		t.Errorf("second entry: %v", msgs)
	}
	if _, ok := m.NextDeadline(); ok {
		t.Error("a lease is left")
	}
	checkDerived(t, m)
}

// A write that comes upon a lease that has ended, before the sweep, ends it first.
func TestWriteEndsALeaseThatIsDue(t *testing.T) {
	m := New(nil)
	mustApply(t, m, at(1000), 0, "CONFIG SET notify-keyspace-events Exg$n")
	for i := range sweepMax {
		do(m, 1000, fmt.Sprintf("SET a%d v PX 1", i))
	}
	do(m, 1000, "SET lock me PX 2")
	_, msgs := m.Apply(at(2000), []resp.Request{request(0, "SET lock you NX")})
	var got []string
	for _, msg := range published(msgs)[sweepMax:] {
		got = append(got, strings.TrimPrefix(msg.Channel, "__keyevent@0__:")+" "+msg.Payload)
	}
	if want := "expired lock, new lock, set lock"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// A read changes nothing, and a write that is sent as one is not run.
func TestViewChangesNothing(t *testing.T) {
	m := sample(t)
	before := image(t, m)
	for _, line := range []string{
		"GET lock", "HGETALL small", "KEYS *", "SCAN 0", "RANDOMKEY", "DBSIZE", "TYPE lock", "OBJECT ENCODING lock",
		"EVAL_RO 'GET lock' 0", "EVAL_RO 'SET lock x' 0", "TTL lock", "MEMORY USAGE lock", "CONFIG GET *", "SCRIPT EXISTS x",
	} {
		view(m, at(1<<40), 0, line)
	}
	for _, line := range []string{"SET lock x", "DEL lock", "PUBLISH a b", "CONFIG SET timeout 1", "EVAL 'DEL lock' 0", "SCRIPT FLUSH", "FLUSHALL"} {
		if got := view(m, at(1<<40), 0, line); got.Str != "ERR a command that writes was sent as a read: nothing was executed" {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if string(image(t, m)) != string(before) || len(m.state.Out.Messages()) != 0 {
		t.Error("the state has changed")
	}
}

// Over maxmemory what needs memory is refused, what frees it is not.
func TestMaxMemory(t *testing.T) {
	m := New(fakeScripts{})
	play(t, m, []turn{
		{1, "SET big " + strings.Repeat("x", 2000), "OK"},
		{1, "CONFIG SET maxmemory 1kb", "OK"},
		{1, "SET k v", resp.ErrOOM},
		{1, "HSET h f v", resp.ErrOOM},
		{1, "PEXPIRE big 1000", "1"},
		{1, "EVAL 'SET k v' 0", resp.ErrOOM},
		{1, "EVAL 'DEL nothing\nSET k v' 0", "OK"}, // as in Redis: asked before the first write only
		{1, "DEL k", "1"},
		{1, "EVAL '#!lua flags=allow-oom\nSET k v' 0", "OK"},
		{1, "EVAL '#!lua\nGET k' 0", "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"},
		{1, "EVAL '#!lua flags=no-writes\nGET k' 0", "v"},
		{1, "DEL big", "1"},
		{1, "SET k v", "OK"},
	})
}

// No database but the sixteen can be reached, and no empty or unknown command harms.
func TestBadRequests(t *testing.T) {
	m := New(nil)
	results, _ := m.Apply(at(1), []resp.Request{request(16, "SET k v"), request(-1, "GET k"), request(0, "NOSUCH a"), request(0, "GET"), {}})
	want := []string{resp.ErrDBIndex, resp.ErrDBIndex, "ERR unknown command 'NOSUCH', with args beginning with: 'a' ", "ERR wrong number of arguments for 'get' command"}
	for i, w := range want {
		if got := results[i].Replies[0].Str; got != w {
			t.Errorf("%q, want %q", got, w)
		}
	}
	req := request(0, "GET k")
	req.Watch = &resp.Watching{Check: []resp.Watch{{DB: 99, Key: "k"}}}
	if !m.View(at(1), req).Aborted() {
		t.Error("a watch of no database holds")
	}
}

// The fence of a name never goes down, whatever takes the place of its database, and it
// is not the same again for another key.
func TestFenceNeverGoesDown(t *testing.T) {
	m := New(luavm.New())
	index := uint64(0)
	apply := func(line string) {
		index++
		req := request(0, line)
		if line == "move" { // what another client does in database 1
			req = request(1, "SET k other", "SET only other")
		}
		m.Apply(resp.Stamp{Tick: 1, Index: index}, []resp.Request{req})
	}
	last := map[string]int64{}
	holds := map[string]string{}
	for i, line := range []string{
		"move", "SET k mine", "SWAPDB 0 1", "SWAPDB 0 1", "SET k mine", "DEL only", "SWAPDB 1 0", "restore", "SWAPDB 0 1",
		"FLUSHALL", "SET k mine", "SWAPDB 0 1", "move", "SWAPDB 0 1", "EVAL 'redis.call([[SWAPDB]], 0, 1) while true do end' 0", "SET only mine", "MOVE k 1", "SWAPDB 0 1",
	} {
		if line == "restore" {
			m = restored(t, image(t, m))
			m.state.Scripts = luavm.New()
		} else {
			apply(line)
		}
		for _, name := range []string{"k", "only"} {
			fence := view(m, at(1), 0, "FENCE "+name)
			if fence.IsNil() {
				continue
			}
			value := plain(view(m, at(1), 0, "GET "+name))
			other := strings.Contains(line, "SWAPDB") && value != holds[name] // to overwrite a key keeps its fence
			if fence.Int < last[name] || fence.Int == last[name] && other {
				t.Errorf("after %d, %s: the fence of %s was %d for %q, and is %d for %q", i, line, name, last[name], holds[name], fence.Int, value)
			}
			last[name], holds[name] = fence.Int, value
		}
	}
}

// What the node that was asked has seen is told, and since when; what cannot be read is an error.
func TestDoctorTakesObservations(t *testing.T) {
	m, at := newMachine(), resp.Stamp{Index: 1, Tick: 1, Wall: 1e15}
	mustApply(t, m, at, 0, "SET k v")
	report := lockuse.Report{Node: "n1", SinceMs: 1e12, Observations: []lockuse.Observation{
		{Kind: lockuse.Polls, Key: "order:7", Hash: lockuse.Hash("order:7"), Tokens: []uint64{1}, Count: 60},
	}}
	for observations, want := range map[string]string{
		report.String(): `"node" => "n1" 3# "seen-since" => "2001-09-09T01:46:40.000Z"`,
		"":              `"node" => (nil) 3# "seen-since" => (nil)`,
		"\x05none":      "ERR what the node has seen cannot be read: string exceeds the input",
	} {
		for _, command := range []string{"LOCKS DOCTOR", "LOCKS ADVICE"} {
			req := request(0, command)
			req.Observations = observations
			got := strings.Join(show(m.View(at, req).Replies[0]), " ")
			if !strings.Contains(got, want) {
				t.Errorf("%s with %q answers %s", command, observations, got)
			}
			if finds := strings.Contains(got, "polling"); finds != (command == "LOCKS DOCTOR" && observations == report.String()) {
				t.Errorf("%s with %q finds: %v", command, observations, finds)
			}
		}
	}
}
