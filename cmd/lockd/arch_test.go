package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The picture of the house: which packages of lockd each one may import. A
// package that is not listed may not exist.
var mayImport = map[string][]string{
	"lockd/resp":              {},
	"lockd/resp/fault":        {}, // empty in a normal build
	"lockd/internal/strict":   {}, // for tests
	"lockd/internal/fakenode": {}, // for tests
	"lockd/internal/testfile": {}, // for tests
	"lockd/resp/server":       {"lockd/internal/loglimit", "lockd/resp", "lockd/resp/acl", "lockd/resp/fault", "lockd/resp/lockuse", "lockd/resp/server/wire", "lockd/resp/server/pubsub", "lockd/resp/server/holders", "lockd/resp/server/settings", "lockd/resp/server/stats", "lockd/resp/server/track", "lockd/resp/server/access", "lockd/resp/server/observer", "lockd/resp/server/describe"},
	"lockd/resp/server/stats": {"lockd/resp"}, // statistics for INFO, SLOWLOG and LATENCY
	"lockd/resp/server/wire":  {"lockd/resp"}, // bytes of a connection, and commands
	"lockd/resp/server/track": {"lockd/resp"}, // keys that clients cache, and invalidations
	"lockd/keyspace":          {"lockd/keyspace/command", "lockd/keyspace/digest", "lockd/keyspace/emit", "lockd/keyspace/lifecycle", "lockd/keyspace/history", "lockd/keyspace/library", "lockd/keyspace/lock", "lockd/keyspace/meter", "lockd/keyspace/settings", "lockd/keyspace/state", "lockd/keyspace/store", "lockd/keyspace/value", "lockd/keyspace/wait", "lockd/resp", "lockd/resp/acl"},
	"lockd/keyspace/algebra":  {"lockd/keyspace/value"},                                      // union, intersection, difference
	"lockd/keyspace/arg":      {"lockd/resp"},                                                // arguments that several families have
	"lockd/keyspace/digest":   {"lockd/resp", "lockd/keyspace/lock", "lockd/keyspace/store"}, // what nodes compare
	"lockd/keyspace/emit":     {"lockd/resp", "lockd/keyspace/value"},                        // messages, and changes of keys
	// The commands: rows, parsers, what runs.
	"lockd/keyspace/command": {"lockd/keyspace/algebra", "lockd/keyspace/arg", "lockd/keyspace/doctor", "lockd/keyspace/emit", "lockd/keyspace/lifecycle", "lockd/keyspace/history", "lockd/keyspace/library", "lockd/keyspace/lock", "lockd/keyspace/meter", "lockd/keyspace/settings", "lockd/keyspace/state", "lockd/keyspace/store", "lockd/keyspace/value", "lockd/keyspace/wait", "lockd/resp", "lockd/resp/acl", "lockd/resp/lockuse"},

	// What is replicated, as a value, and the one function that changes a key.
	"lockd/keyspace/state": {"lockd/keyspace/digest", "lockd/keyspace/emit", "lockd/keyspace/lifecycle", "lockd/keyspace/history", "lockd/keyspace/library", "lockd/keyspace/lock", "lockd/keyspace/meter", "lockd/keyspace/settings", "lockd/keyspace/store", "lockd/keyspace/value", "lockd/keyspace/wait", "lockd/resp", "lockd/resp/acl"},

	// What becomes of locks.
	"lockd/keyspace/lifecycle": {"lockd/resp", "lockd/keyspace/arg", "lockd/keyspace/digest", "lockd/keyspace/emit", "lockd/keyspace/history", "lockd/keyspace/lock", "lockd/keyspace/meter", "lockd/keyspace/settings", "lockd/keyspace/store", "lockd/keyspace/value"},
	"lockd/keyspace/history":   {"lockd/resp", "lockd/keyspace/arg", "lockd/keyspace/value"},                                                    // the history of locks
	"lockd/keyspace/library":   {"lockd/resp", "lockd/keyspace/arg", "lockd/keyspace/value"},                                                    // scripts and functions that are kept
	"lockd/keyspace/lock":      {},                                                                                                              // the order of grants
	"lockd/keyspace/meter":     {"lockd/resp", "lockd/keyspace/arg", "lockd/keyspace/value"},                                                    // what requests and entries may ask for
	"lockd/keyspace/settings":  {"lockd/resp", "lockd/keyspace/emit", "lockd/keyspace/history", "lockd/keyspace/meter", "lockd/keyspace/value"}, // CONFIG
	"lockd/keyspace/store":     {"lockd/resp", "lockd/keyspace/lock", "lockd/keyspace/value"},                                                   // keys with their leases
	"lockd/keyspace/value":     {"lockd/resp", "lockd/keyspace/lock"},                                                                           // data structures, nothing of the machine
	"lockd/keyspace/wait":      {"lockd/resp", "lockd/keyspace/lock", "lockd/keyspace/store", "lockd/keyspace/value"},                           // commands that wait
	"lockd/luavm":              {"lockd/resp", "lockd/luavm/state", "lockd/luavm/lib", "lockd/luavm/lauxlib", "lockd/luavm/compiler", "lockd/luavm/libc"},
	"lockd/cluster":            {"lockd/internal/loglimit", "lockd/resp", "lockd/resp/fault", "lockd/cluster/founding", "lockd/cluster/membership", "lockd/cluster/store", "lockd/cluster/peer", "lockd/cluster/clients", "lockd/cluster/clock", "lockd/cluster/face", "lockd/cluster/figures", "lockd/cluster/followers", "lockd/cluster/group", "lockd/cluster/join", "lockd/cluster/record", "lockd/cluster/refound", "lockd/cluster/replica", "lockd/cluster/request", "lockd/cluster/snapshot", "lockd/cluster/wait", "lockd/cluster/wake"},
	"lockd/clients":            {"lockd/internal/authority", "lockd/internal/freeport", "lockd/internal/process"}, // runs the suites of real clients against the built binary
	"lockd/cmd/lockd":          {"lockd/resp", "lockd/resp/fault", "lockd/resp/server", "lockd/keyspace", "lockd/luavm", "lockd/cluster", "lockd/cluster/face", "lockd/cluster/founding", "lockd/cluster/peer", "lockd/cluster/refound", "lockd/cmd/lockd/drill", "lockd/cmd/lockd/hold", "lockd/cmd/lockd/operate", "lockd/cmd/lockd/redisconf", "lockd/cmd/lockd/system", "lockd/internal/client", "lockd/cmd/lockd/show", "lockd/cmd/lockd/top", "lockd/internal/locks", "lockd/internal/login", "lockd/internal/logwriter", "lockd/internal/node", "lockd/internal/secure", "lockd/console", "lockd/metrics"},

	// Subscriptions, and the delivery of messages and other pushes.
	"lockd/resp/server/pubsub": {"lockd/resp", "lockd/resp/server/stats", "lockd/resp/server/wire"},

	// Locks that clients hold, and pushes about them.
	"lockd/resp/server/holders": {"lockd/resp"},

	// Settings that tune connections.
	"lockd/resp/server/settings": {"lockd/resp", "lockd/resp/server/wire"},

	// A room of resp/server as wire, stats and track are: what COMMAND says of rows.
	"lockd/resp/server/describe": {"lockd/resp", "lockd/resp/acl"},

	// State about users that a node does not replicate.
	"lockd/resp/server/access": {"lockd/resp", "lockd/resp/acl"},

	// Replies as redis-cli writes them: the language of transcripts, in which tests are told.
	"lockd/resp/notation": {"lockd/resp"},

	// Permissions of users: the machine stores the rules, connections and scripts check them.
	"lockd/resp/acl": {"lockd/resp"},

	// Mistakes in the use of locks: observations of a node, their sum, and the diagnosis.
	"lockd/resp/lockuse":         {"lockd/resp"},
	"lockd/resp/server/observer": {"lockd/resp", "lockd/resp/lockuse"},
	"lockd/keyspace/doctor":      {"lockd/resp", "lockd/resp/lockuse"},

	// The rooms of cluster, which know nothing of nodes.
	"lockd/cluster/store":         {"lockd/resp", "lockd/resp/fault"},                                                                                                                                                                                                                       // the disk
	"lockd/cluster/peer":          {"lockd/internal/loglimit", "lockd/resp", "lockd/resp/fault", "lockd/cluster/wake"},                                                                                                                                                                      // the network
	"lockd/cluster/founding":      {"lockd/cluster/peer", "lockd/cluster/store"},                                                                                                                                                                                                            // founding without a list
	"lockd/cluster/membership":    {"lockd/resp", "lockd/cluster/peer", "lockd/cluster/store"},                                                                                                                                                                                              // who may take part
	"lockd/cluster/clock":         {"lockd/internal/loglimit", "lockd/resp/fault", "lockd/cluster/group", "lockd/cluster/peer"},                                                                                                                                                             // the log clock, the wall clocks
	"lockd/cluster/face":          {"lockd/resp", "lockd/cluster/clock", "lockd/cluster/group", "lockd/cluster/membership", "lockd/cluster/peer", "lockd/cluster/wake"},                                                                                                                     // what clients are told of the cluster
	"lockd/cluster/figures":       {"lockd/resp", "lockd/cluster/peer", "lockd/cluster/store"},                                                                                                                                                                                              // what is counted for those who watch a node
	"lockd/cluster/followers":     {"lockd/resp", "lockd/cluster/clock", "lockd/cluster/group", "lockd/cluster/membership", "lockd/cluster/peer", "lockd/cluster/record", "lockd/cluster/wake"},                                                                                             // what a leader knows of the others
	"lockd/cluster/group":         {"lockd/internal/loglimit"},                                                                                                                                                                                                                              // Raft, and who the members are
	"lockd/cluster/record":        {"lockd/resp", "lockd/cluster/membership"},                                                                                                                                                                                                               // entries and images, as stored
	"lockd/cluster/clients":       {"lockd/resp", "lockd/cluster/clock", "lockd/cluster/group", "lockd/cluster/membership", "lockd/cluster/peer", "lockd/cluster/wake"},                                                                                                                     // clients of all nodes
	"lockd/cluster/replica":       {"lockd/resp", "lockd/cluster/clock", "lockd/cluster/figures", "lockd/cluster/membership", "lockd/cluster/peer", "lockd/cluster/record", "lockd/cluster/wake"},                                                                                           // the machine behind its lock
	"lockd/cluster/refound":       {"lockd/resp", "lockd/cluster/clock", "lockd/cluster/membership", "lockd/cluster/record", "lockd/cluster/replica", "lockd/cluster/store"},                                                                                                                // folders of stopped nodes, backups
	"lockd/cluster/request":       {"lockd/resp", "lockd/resp/fault", "lockd/cluster/clock", "lockd/cluster/figures", "lockd/cluster/group", "lockd/cluster/membership", "lockd/cluster/peer", "lockd/cluster/record", "lockd/cluster/replica", "lockd/cluster/wait", "lockd/cluster/wake"}, // the life of a request
	"lockd/cluster/snapshot":      {"lockd/resp", "lockd/cluster/clock", "lockd/cluster/group", "lockd/cluster/replica", "lockd/cluster/store", "lockd/cluster/wake"},                                                                                                                       // when snapshots are taken
	"lockd/cluster/wait":          {"lockd/resp", "lockd/cluster/clock", "lockd/cluster/followers", "lockd/cluster/group", "lockd/cluster/membership", "lockd/cluster/peer", "lockd/cluster/replica", "lockd/cluster/wake"},                                                                 // blocking commands
	"lockd/cluster/join":          {"lockd/internal/loglimit", "lockd/resp", "lockd/cluster/clock", "lockd/cluster/group", "lockd/cluster/membership"},                                                                                                                                      // joining by client addresses
	"lockd/cluster/wake":          {},                                                                                                                                                                                                                                                       // goroutines that wait for each other
	"lockd/cluster/peer/peertest": {},                                                                                                                                                                                                                                                       // a network in memory, for tests and simulated clusters

	// Subpackages of luavm: only lauxlib uses the limits of resp, and only luavm imports them.
	"lockd/luavm/state":    {"lockd/luavm/lauxlib", "lockd/luavm/compiler", "lockd/luavm/libc"},
	"lockd/luavm/lib":      {"lockd/luavm/lauxlib", "lockd/luavm/libc"},
	"lockd/luavm/lauxlib":  {"lockd/resp", "lockd/luavm/compiler", "lockd/luavm/libc"},
	"lockd/luavm/compiler": {"lockd/luavm/libc"},
	"lockd/luavm/libc":     {},

	// Holding a lock for a command needs a TCP client.
	"lockd/cmd/lockd/hold": {"lockd/resp", "lockd/internal/client"},

	// What operators have nodes do: through any client, of a process or of a simulated network.
	"lockd/cmd/lockd/operate": {"lockd/resp", "lockd/cluster/refound", "lockd/internal/client", "lockd/internal/locks", "lockd/cmd/lockd/show"},

	// A drill starts nodes of this binary and talks to them over TCP.
	"lockd/cmd/lockd/drill": {"lockd/resp", "lockd/internal/client", "lockd/internal/process"},

	// Formatting of locks for people.
	"lockd/cmd/lockd/show": {"lockd/resp", "lockd/internal/locks"},
	"lockd/cmd/lockd/top":  {"lockd/resp", "lockd/internal/locks", "lockd/internal/client", "lockd/cmd/lockd/show"},

	// Calls to the operating system and to the service manager.
	"lockd/cmd/lockd/system": {"lockd/resp"},

	// The lines of redis.conf.
	"lockd/cmd/lockd/redisconf": {},

	// Metrics of nodes for Prometheus.
	"lockd/metrics": {"lockd/resp"},

	// The pages for browsers: a client inside the process, which knows nothing of the server.
	"lockd/console": {"lockd/resp", "lockd/internal/client", "lockd/internal/locks"},

	// Measuring speaks TCP to servers and imports nothing of theirs.
	"lockd/bench/load": {"lockd/bench/etcd"},
	"lockd/bench":      {"lockd/bench/load", "lockd/bench/etcd", "lockd/internal/freeport", "lockd/internal/login", "lockd/internal/process"}, // a separate module: starts the built binary and its peers
	"lockd/bench/etcd": {},

	// A client of a cluster, and the answers about locks as Go values.
	"lockd/internal/client": {"lockd/resp"},
	"lockd/internal/locks":  {"lockd/resp"},

	// TLS for clients: certificates, handshakes, connections, and the flags of client commands.
	"lockd/internal/secure":            {},
	"lockd/internal/login":             {"lockd/internal/secure"},
	"lockd/internal/secure/securetest": {"lockd/internal/authority"}, // for tests

	// Logging: repeated lines, and a writer that never blocks.
	"lockd/internal/loglimit":  {},
	"lockd/internal/logwriter": {},

	// The parts of one node, joined: for the process, and for simulated clusters.
	"lockd/internal/node": {"lockd/cluster", "lockd/keyspace", "lockd/luavm", "lockd/resp/server"},

	// For what starts servers, and no part of one.
	"lockd/internal/freeport":  {},
	"lockd/internal/authority": {}, // certificates
	"lockd/internal/process":   {"lockd/internal/freeport"},
	"lockd/internal/crash":     {"lockd/internal/freeport"}, // for tests

	// Whole clusters in virtual time, for tests of any package, and the machines of jepsen-lite/sim.
	"lockd/clustertest": {"lockd/cluster", "lockd/cluster/peer/peertest", "lockd/cluster/store", "lockd/internal/client", "lockd/internal/node", "lockd/resp", "lockd/resp/fault", "lockd/resp/notation", "lockd/resp/server"},

	// The fault injection suite starts the built binary and talks to it over TCP.
	"lockd/jepsen-lite":          {"lockd/jepsen-lite/history", "lockd/jepsen-lite/model", "lockd/jepsen-lite/workload", "lockd/jepsen-lite/nemesis", "lockd/jepsen-lite/target", "lockd/jepsen-lite/report", "lockd/jepsen-lite/sim", "lockd/jepsen-lite/mutation", "lockd/internal/process"},
	"lockd/jepsen-lite/history":  {},
	"lockd/jepsen-lite/model":    {"lockd/jepsen-lite/history"},
	"lockd/jepsen-lite/mutation": {},
	"lockd/jepsen-lite/target":   {"lockd/internal/authority", "lockd/internal/freeport", "lockd/internal/process"},
	"lockd/jepsen-lite/sim":      {"lockd/cluster", "lockd/cluster/refound", "lockd/clustertest", "lockd/cmd/lockd/operate", "lockd/internal/client", "lockd/internal/process", "lockd/jepsen-lite/target", "lockd/keyspace", "lockd/luavm", "lockd/resp/server"}, // simulated machines
	"lockd/jepsen-lite/workload": {"lockd/jepsen-lite/history", "lockd/jepsen-lite/model", "lockd/jepsen-lite/target"},
	"lockd/jepsen-lite/nemesis":  {"lockd/jepsen-lite/history", "lockd/jepsen-lite/target"},
	"lockd/jepsen-lite/report":   {"lockd/jepsen-lite/history", "lockd/jepsen-lite/model"},
}

// Apply must compute a pure function of the log (law 1), so its packages may not use anything that differs between
// nodes.
var (
	purePackages = []string{
		"lockd/resp", "lockd/luavm",
		"lockd/keyspace", "lockd/keyspace/algebra", "lockd/keyspace/arg", "lockd/keyspace/command", "lockd/keyspace/digest", "lockd/keyspace/emit", "lockd/keyspace/lifecycle", "lockd/keyspace/history",
		"lockd/keyspace/library", "lockd/keyspace/lock", "lockd/keyspace/meter", "lockd/keyspace/settings", "lockd/keyspace/state", "lockd/keyspace/store", "lockd/keyspace/value", "lockd/keyspace/wait",
		"lockd/keyspace/doctor", "lockd/resp/acl", "lockd/resp/lockuse",
		"lockd/luavm/state", "lockd/luavm/lib", "lockd/luavm/lauxlib", "lockd/luavm/compiler", "lockd/luavm/libc",
	}
	impureImports = []string{"time", "os", "net", "math/rand", "math/rand/v2", "crypto/rand", "sync", "sync/atomic", "hash/maphash", "runtime"}
)

// Doors to danger that may stand in one file only (law 2).
var doors = []struct {
	pkg, call, file, why string
}{
	{"lockd/cluster/request", "raft.Apply", "propose.go", "one door to the log: everything is stamped, joined and bounded there"},
	{"lockd/cluster/request", "Raft.Apply", "propose.go", "the same door"},
	{"lockd/cluster/request", "g.Apply", "propose.go", "the same door"},
	{"lockd/cluster", "raft.Apply", "nowhere", "package request has the door to the log"},
	{"lockd/cluster", "Raft.Apply", "nowhere", "the same door"},
	{"lockd/cluster", "g.Apply", "nowhere", "the same door"},
	{"lockd/cluster", "time.Now", "nowhere", "package clock reads the clocks"},
	{"lockd/cluster/clock", "time.Now", "clock.go", "one place reads the clocks"},
	{"lockd/cluster/store", "time.Now", "fault.go", "a store reads no clock; only the faults of a test build do"},
	{"lockd/cluster/peer", "time.Now", "clock.go", "one place reads the clocks"},
}

// The packages import each other only downwards, as drawn in DESIGN.md.
func TestArchitecture(t *testing.T) {
	for _, f := range sources(t) {
		allowed, known := mayImport[f.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the picture; add it to mayImport with its place", f.path, f.pkg)
			continue
		}
		for _, imp := range f.imports() {
			if strings.HasPrefix(imp, "lockd/") && !slices.Contains(allowed, imp) {
				t.Errorf("%s imports %s: %s may import only %v; declare the interface you need and let cmd/lockd join the two", f.path, imp, f.pkg, allowed)
			}
		}
	}
}

// keyspace, luavm and resp are still: no clock, no chance, no goroutine, no lock.
func TestPurePackages(t *testing.T) {
	for _, f := range sources(t) {
		if !slices.Contains(purePackages, f.pkg) {
			continue
		}
		for _, imp := range f.imports() {
			if slices.Contains(impureImports, imp) {
				t.Errorf("%s imports %s: what Apply computes must be the same on every node, so time and chance are arguments (resp.Stamp)", f.path, imp)
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: a go statement: the machine is used by one goroutine at a time", f.set.Position(g.Pos()))
			}
			return true
		})
	}
}

// Each danger has one door.
func TestDoors(t *testing.T) {
	for _, door := range doors {
		recv, name, _ := strings.Cut(door.call, ".")
		for _, f := range sources(t) {
			if !leadsTo(door.pkg, door.call, f.pkg) || f.pkg == door.pkg && filepath.Base(f.path) == door.file {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != name {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == recv {
					t.Errorf("%s: %s belongs into %s: %s", f.set.Position(sel.Pos()), door.call, door.file, door.why)
				}
				if x, ok := sel.X.(*ast.SelectorExpr); ok && x.Sel.Name == recv {
					t.Errorf("%s: %s belongs into %s: %s", f.set.Position(sel.Pos()), door.call, door.file, door.why)
				}
				return true
			})
		}
	}
}

// leadsTo reports whether the door of a package to a call is also that of another one: of those below it which have no
// door of their own. Packages that only tests import have none.
func leadsTo(door, call, pkg string) bool {
	if pkg == door {
		return true
	}
	for _, own := range doors {
		if own.call == call && len(own.pkg) > len(door) && (pkg == own.pkg || strings.HasPrefix(pkg, own.pkg+"/")) {
			return false
		}
	}
	return strings.HasPrefix(pkg, door+"/") && !strings.HasSuffix(pkg, "test")
}

type source struct {
	path, pkg string
	set       *token.FileSet
	syntax    *ast.File
}

func (s source) imports() []string {
	var paths []string
	for _, imp := range s.syntax.Imports {
		p, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			panic(err)
		}
		paths = append(paths, p)
	}
	return paths
}

// isStrange reports whether a folder is a module that has no place in the picture
// (clients/go): it can import nothing of the house. Those of the house are named by
// their folders (lockd/bench).
func isStrange(path string) bool {
	text, err := os.ReadFile(filepath.Join(path, "go.mod"))
	return err == nil && !strings.HasPrefix(string(text), "module lockd/")
}

// sources parses the non-test Go files of the house.
func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || isStrange(path)) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		all = append(all, source{path: path, pkg: "lockd/" + filepath.ToSlash(rel), set: set, syntax: syntax})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("found only %d Go files: the walk is broken", len(all))
	}
	return all
}
