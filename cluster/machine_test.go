package cluster

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockd/cluster/face"
	"lockd/resp"
)

// testMachine is a small machine of registers with leases: SET key value [ms], GET,
// INCR, PTTL, TIME (in microseconds), PUBLISH, CONFIG value, CONFIG SET lockd-full-disks nodes. It holds Node to the Machine's contract.
type testMachine struct {
	calls sync.Mutex // TryLock fails if two methods run at once

	tick  int64
	wall  int64   // the latest of the entries
	backs []int64 // by how much the wall time of an entry was before the one of an earlier entry, in microseconds
	index uint64
	vars  map[string]testVar
	conf  string
	empty int           // Apply calls without a request
	more  []*resp.Spec  // rows that others do not have
	sum   uint64        // the digest
	most  int           // commands it executes of one entry, or read; 0: all
	finds atomic.Int64  // calls of Find
	slow  time.Duration // of each entry, and read
	users []string      // whose rights the scripts of each request have
	steps []int         // of walks through the keys: how many keys each might look at
	can   int           // the highest level; 0: 1
	level int           // in force; from 2 on INCR adds 10
}

type testVar struct {
	Value    string
	Deadline int64 // 0: none
}

func newTestMachine() *testMachine { return &testMachine{vars: map[string]testVar{}} }

func (m *testMachine) enter() func() {
	if !m.calls.TryLock() {
		panic("two calls of the machine at once")
	}
	return m.calls.Unlock
}

var testTable = resp.NewTable([]resp.Row[struct{}]{
	{Spec: resp.Spec{Name: "set", Arity: -3, Flags: resp.Write | resp.DenyOOM}},
	{Spec: resp.Spec{Name: "setnx", Arity: 3, Flags: resp.Write | resp.DenyOOM, Refuses: "*", Keys: resp.FirstKey}},
	{Spec: resp.Spec{Name: "incr", Arity: 2, Flags: resp.Write}},
	{Spec: resp.Spec{Name: "get", Arity: 2, Flags: resp.ReadOnly}},
	{Spec: resp.Spec{Name: "pttl", Arity: 2, Flags: resp.ReadOnly}},
	{Spec: resp.Spec{Name: "time", Arity: 1, Flags: resp.ReadOnly}},
	{Spec: resp.Spec{Name: "publish", Arity: 3, Flags: resp.PubSub | resp.MayReplicate | resp.CountsReceivers}},
	{Spec: resp.Spec{Name: "config", Arity: -2, Flags: resp.Write}},
})

func (m *testMachine) Find(args resp.Args) (*resp.Spec, resp.Reply) {
	m.finds.Add(1)
	for _, s := range m.more {
		if resp.Is(args[0], s.Name) {
			return s.Check(args)
		}
	}
	row, fail := testTable.Find(args)
	if row == nil {
		return nil, fail
	}
	return &row.Spec, fail
}

// Check finds fault with the words of SET WRONG.
func (m *testMachine) Check(cmd resp.Cmd) (fail resp.Reply, wrong bool) {
	if cmd.Spec.Name == "set" && cmd.Args[1] == "WRONG" {
		return resp.Err(resp.ErrSyntax), true
	}
	return resp.Reply{}, false
}

func (m *testMachine) Specs() []*resp.Spec { return slices.Concat(testTable.Specs(), m.more) }

func (m *testMachine) Formats(level int) map[string]uint64 {
	return map[string]uint64{"image": 1, "incr": uint64(min(level, 2))}
}

func (m *testMachine) Levels() (lowest, highest int) { return 1, max(m.can, 1) }

func (m *testMachine) SetLevel(level int) {
	defer m.enter()()
	m.level = level
}

func (m *testMachine) Apply(at resp.Stamp, reqs []resp.Request) ([]resp.Result, []resp.Message) {
	defer m.enter()()
	time.Sleep(m.slow)
	if at.Index <= m.index {
		panic("an entry came twice")
	}
	m.index = at.Index
	m.tick = max(m.tick, at.Tick)
	if at.Wall < m.wall {
		m.backs = append(m.backs, m.wall-at.Wall)
	}
	m.wall = max(m.wall, at.Wall)
	if len(reqs) == 0 {
		m.empty++
	}
	var msgs []resp.Message
	for _, key := range slices.Sorted(maps.Keys(m.vars)) {
		if v := m.vars[key]; v.Deadline != 0 && m.tick > v.Deadline {
			delete(m.vars, key)
			msgs = append(msgs, resp.Message{Channel: "expired", Payload: key})
		}
	}
	results, done := make([]resp.Result, len(reqs)), 0
	for i, req := range reqs {
		m.users = append(m.users, req.User)
		for _, c := range req.Cmds {
			if m.most > 0 && done >= m.most {
				break
			}
			done++
			r, pub := m.run(c.Args)
			results[i].Replies = append(results[i].Replies, r)
			msgs = append(msgs, pub...)
		}
	}
	m.sum = mix(m.sum ^ uint64(crc32.ChecksumIEEE(fmt.Append(nil, at, m.tick, results, msgs, m.vars))))
	return results, msgs
}

func (m *testMachine) Digest() uint64 { return m.sum }

func (m *testMachine) run(args resp.Args) (resp.Reply, []resp.Message) {
	if len(args) == 1 {
		return m.look(m.tick, m.wall, args), nil
	}
	key := strings.Clone(args[1])
	switch strings.ToLower(args[0]) {
	case "set":
		v := testVar{Value: strings.Clone(args[2])}
		if len(args) > 3 {
			ms, _ := strconv.ParseInt(args[3], 10, 64)
			v.Deadline = m.tick + ms
		}
		m.vars[key] = v
		return resp.OK(), nil
	case "setnx":
		if _, taken := m.vars[key]; taken {
			return resp.Int(0), nil
		}
		m.vars[key] = testVar{Value: strings.Clone(args[2])}
		return resp.Int(1), nil
	case "incr":
		v := m.vars[key]
		n, _ := strconv.ParseInt(v.Value, 10, 64)
		by := int64(1)
		if m.level >= 2 {
			by = 10
		}
		v.Value = strconv.FormatInt(n+by, 10)
		m.vars[key] = v
		return resp.Int(n + by), nil
	case "double":
		n, _ := strconv.ParseInt(m.vars[key].Value, 10, 64)
		m.vars[key] = testVar{Value: strconv.FormatInt(2*n, 10)}
		return resp.Int(2 * n), nil
	case "publish":
		return resp.Int(0), []resp.Message{{Channel: key, Payload: strings.Clone(args[2])}}
	case "config":
		if len(args) == 4 {
			m.vars[strings.Clone(args[2])] = testVar{Value: strings.Clone(args[3])}
			return resp.OK(), nil
		}
		m.conf = key
		return resp.OK(), []resp.Message{{Kind: resp.MessageConfig, Channel: "conf", Payload: key}}
	}
	return m.look(m.tick, m.wall, args), nil
}

func (m *testMachine) look(tick, wall int64, args resp.Args) resp.Reply {
	if resp.Is(args[0], "TIME") {
		return resp.Int(wall)
	}
	v, ok := m.vars[args[1]]
	switch {
	case resp.Is(args[0], "GET") && ok:
		return resp.Bulk(v.Value)
	case resp.Is(args[0], "GET"):
		return resp.Nil()
	case resp.Is(args[0], "PTTL") && ok:
		return resp.Int(max(v.Deadline-tick, 0))
	case resp.Is(args[0], "PTTL"):
		return resp.Int(-2)
	}
	return resp.UnknownCommand(args)
}

func (m *testMachine) View(at resp.Stamp, req resp.Request) resp.Result {
	defer m.enter()()
	time.Sleep(m.slow)
	var res resp.Result
	m.users = append(m.users, req.User)
	for i, c := range req.Cmds {
		if m.most > 0 && i >= m.most {
			break
		}
		res.Replies = append(res.Replies, m.look(at.Tick, max(m.wall, at.Wall), c.Args))
	}
	return res
}

func (m *testMachine) DryRun(at resp.Stamp, req resp.Request) (resp.Result, bool) {
	defer m.enter()()
	v, taken := m.vars[req.Cmds[0].Args[1]]
	if !taken || v.Deadline != 0 && at.Tick > v.Deadline {
		return resp.Result{}, false
	}
	return resp.Result{Replies: []resp.Reply{resp.Int(0)}}, true
}

func (m *testMachine) Tick() int64 {
	defer m.enter()()
	return m.tick
}

func (m *testMachine) Wall() int64 {
	defer m.enter()()
	return m.wall
}

func (m *testMachine) NextDeadline() (int64, bool) {
	defer m.enter()()
	var next int64
	for _, v := range m.vars {
		if v.Deadline != 0 && (next == 0 || v.Deadline < next) {
			next = v.Deadline
		}
	}
	return next, next != 0
}

func (m *testMachine) Blocks() resp.BlockView { return noBlocks{} }

// noBlocks knows of no blocking commands.
type noBlocks struct{}

func (noBlocks) State(resp.BlockID) resp.BlockState { return resp.BlockOver }
func (noBlocks) Sessions() []resp.BlockSession      { return nil }
func (noBlocks) Revision() uint64                   { return 0 }
func (noBlocks) Gifts(uint64) []resp.BlockGift      { return nil }
func (noBlocks) Given(resp.BlockID) bool            { return false }

// KeysInSlot visits variables in their order; a cursor is how many it has visited.
func (m *testMachine) KeysInSlot(slot int, cursor uint64, most int) (keys []string, next uint64) {
	defer m.enter()()
	m.steps = append(m.steps, most)
	for i, key := range slices.Sorted(maps.Keys(m.vars)) {
		switch {
		case uint64(i) < cursor:
		case uint64(i) >= cursor+uint64(most):
			return keys, uint64(i)
		case resp.Slot(key) == slot:
			keys = append(keys, key)
		}
	}
	return keys, 0
}

// Leases knows of the variables that run out by themselves: Key.
func (m *testMachine) Leases(locks []resp.HeldLock) []resp.Lease {
	defer m.enter()()
	leases := make([]resp.Lease, len(locks))
	for i, l := range locks {
		if v, ok := m.vars[l.Key]; ok {
			leases[i] = resp.Lease{Held: true, Until: v.Deadline}
		}
	}
	return leases
}

func (m *testMachine) Settings() []resp.Message {
	return []resp.Message{{Kind: resp.MessageConfig, Channel: "conf", Payload: m.conf}}
}

func (m *testMachine) FullDisks() (nodes, refusal string) {
	if nodes = m.vars[fullDisks].Value; nodes != "" {
		refusal = "OOM the disk of " + nodes
	}
	return nodes, refusal
}

const fullDisks = "lockd-full-disks"

func (m *testMachine) NameFullDisks(nodes string) resp.Request {
	return resp.Request{Cmds: []resp.Cmd{{Args: resp.Args{"CONFIG", "SET", fullDisks, nodes}}}}
}

func (m *testMachine) Metrics() []resp.Metric {
	return []resp.Metric{resp.GaugeOf("lockd_keys", "Keys.", len(m.vars))}
}

func (m *testMachine) Info() []resp.Section {
	return []resp.Section{face.Section("Keyspace", "keys", strconv.Itoa(len(m.vars)))}
}

type testImage struct {
	Tick int64
	Wall int64 `json:",omitempty"`
	Conf string
	Vars map[string]testVar
	Sum  uint64 `json:",omitempty"`
}

func (m *testMachine) Snapshot() func(io.Writer) error {
	defer m.enter()()
	i := testImage{m.tick, m.wall, m.conf, maps.Clone(m.vars), m.sum}
	return func(w io.Writer) error { return json.NewEncoder(w).Encode(i) }
}

func (m *testMachine) Restore(r io.Reader) error {
	defer m.enter()()
	var i testImage
	if err := json.NewDecoder(r).Decode(&i); err != nil {
		return err
	}
	m.tick, m.wall, m.conf, m.vars, m.sum = i.Tick, i.Wall, i.Conf, i.Vars, i.Sum
	if m.vars == nil {
		m.vars = map[string]testVar{}
	}
	return nil
}

// testPublisher records what a node's clients would see.
type testPublisher struct {
	mu    sync.Mutex
	heard []string
	deaf  bool          // nobody listens
	hold  chan struct{} // Publish waits until it is closed; nil: it does not
}

func (p *testPublisher) Publish(msgs []resp.Message) {
	p.mu.Lock()
	if hold := p.hold; hold != nil {
		p.mu.Unlock()
		<-hold
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	for _, m := range msgs {
		p.heard = append(p.heard, m.Channel+"="+m.Payload)
	}
}

func (p *testPublisher) Listening() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.deaf
}

func (p *testPublisher) DropSubscribers(string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, "DROP")
}

func (p *testPublisher) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.heard, " ")
}

// mix spreads a number over 64 bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	return x ^ x>>31
}
