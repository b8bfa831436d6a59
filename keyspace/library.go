package keyspace

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/value"
	"lockd/resp"
)

// The bounds of the script library. Beyond them the EVAL scripts that were used
// the longest ago are forgotten; EVALSHA answers NOSCRIPT, and clients send EVAL.
const (
	evalScriptsMax  = 500
	libraryBytesMax = 64 << 20
	scriptBytes     = 128 // overhead of one script in the estimate of memory
)

// errLibraryFull answers SCRIPT LOAD, whose scripts are kept until SCRIPT FLUSH.
const errLibraryFull = "ERR the loaded scripts take more than 64 MB: SCRIPT FLUSH frees them"

// library holds the scripts, in the replicated state, so that EVALSHA finds the
// same ones on every node. Scripts are immutable and replaced as a whole.
type library struct {
	bySHA btree.Map[string, *script]
	evals int    // how many came by EVAL
	bytes int64  // of all
	turn  uint64 // counts the scripts that were added: the measure of age
}

// script is a script and what its first line asks for.
type script struct {
	source string
	loaded bool   // by SCRIPT LOAD: kept until SCRIPT FLUSH
	turn   uint64 // library.turn when it was last used

	shebang  int // bytes of a first line that starts with #!
	noWrites bool
	allowOOM bool
}

func newLibrary() library { return library{} }

func newScript(source string) *script { return &script{source: strings.Clone(source)} }

func scriptSHA(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func (s *script) bytes() int64 { return scriptBytes + int64(len(s.source)) }

// compile checks a new script: its first line, then the rest.
func (m *Machine) compile(sha string, s *script) error {
	if err := s.readShebang(); err != nil {
		return err
	}
	if !m.affordsProgram(sha, len(s.source)) {
		return resp.Error(errWorkMeter)
	}
	if fail, ok := m.scripts.Compile(s.body(sha)); !ok {
		delete(m.entry.compiled, sha) // it is not kept: the next use pays again
		return resp.Error(fail.Str)
	}
	return nil
}

// body is what is compiled: the first line is cut off, but not its end, so that
// the lines keep their numbers.
func (s *script) body(sha string) resp.Script {
	return resp.Script{SHA: sha, Source: s.source[s.shebang:]}
}

// readShebang reads a first line such as "#!lua flags=no-writes,allow-oom".
func (s *script) readShebang() error {
	if !strings.HasPrefix(s.source, "#!") {
		return nil
	}
	s.shebang = strings.IndexByte(s.source, '\n')
	if s.shebang < 0 {
		return resp.Error("ERR Invalid script shebang")
	}
	words := strings.Fields(s.source[:s.shebang])
	if words[0] != "#!lua" {
		return resp.Error("ERR Unexpected engine in script shebang: " + words[0])
	}
	for _, word := range words[1:] {
		flags, found := strings.CutPrefix(word, "flags=")
		if !found {
			return resp.Error("ERR Unknown lua shebang option: " + word)
		}
		if err := s.readFlags(flags); err != nil {
			return err
		}
	}
	return nil
}

func (s *script) readFlags(flags string) error {
	if flags == "" {
		return nil
	}
	for _, flag := range strings.Split(flags, ",") {
		switch flag {
		case "no-writes":
			s.noWrites = true
		case "allow-oom":
			s.allowOOM = true
		case "allow-stale", "no-cluster", "allow-cross-slot-keys":
		default:
			return resp.Error("ERR Unexpected flag in script shebang: " + flag)
		}
	}
	return nil
}

func (l *library) find(sha string) *script {
	s, _ := l.bySHA.Get(sha)
	return s
}

// used marks a script as used lately. Age is counted in scripts added since, so
// that scripts that run again and again, with nothing added, cost nothing here.
func (l *library) used(sha string, s *script) {
	if s.loaded || s.turn == l.turn {
		return
	}
	younger := *s
	younger.turn = l.turn
	l.bySHA.Set(sha, &younger)
}

// remember adds a script that came by EVAL. One that is too large for the library
// runs all the same.
func (l *library) remember(sha string, s *script) {
	if !l.makeRoom(s.bytes(), 1) {
		return
	}
	l.evals++
	l.add(sha, s)
}

// spendLibrary counts the work of adding a script: for each that it has to forget, all
// are visited.
func (m *Machine) spendLibrary(add func(l *library)) {
	l := &m.library
	before, n := l.evals, l.bySHA.Len()
	add(l)
	m.spend(value.TreeWork(n) + value.VisitWork*int64(n*max(0, before+1-l.evals)))
}

// keep adds a script that came by SCRIPT LOAD, or makes one that is there stay.
func (l *library) keep(sha string, s *script) bool {
	if l.find(sha) != nil {
		if !s.loaded {
			l.evals--
			stays := *s
			stays.loaded = true
			l.bySHA.Set(sha, &stays)
		}
		return true
	}
	if !l.makeRoom(s.bytes(), 0) {
		return false
	}
	s.loaded = true
	l.add(sha, s)
	return true
}

func (l *library) add(sha string, s *script) {
	l.turn++
	s.turn = l.turn
	l.bytes += s.bytes()
	l.bySHA.Set(sha, s)
}

// makeRoom forgets old EVAL scripts until one of so many bytes, and so many EVAL
// scripts, fit; false if they never will.
func (l *library) makeRoom(bytes int64, evals int) bool {
	for l.bytes+bytes > libraryBytesMax || l.evals+evals > evalScriptsMax {
		if l.evals == 0 {
			return false
		}
		l.forgetOldest()
	}
	return true
}

func (l *library) forgetOldest() {
	var oldest *script
	var sha string
	l.bySHA.Scan(func(k string, s *script) bool {
		if !s.loaded && (oldest == nil || s.turn < oldest.turn) {
			sha, oldest = k, s
		}
		return true
	})
	l.bySHA.Delete(sha)
	l.evals--
	l.bytes -= oldest.bytes()
}

// copy is O(1), see Map.Copy.
func (l *library) copy() library {
	c := *l
	c.bySHA = *l.bySHA.Copy()
	return c
}

func (l *library) write(w *value.Writer) {
	w.U64(l.turn)
	w.U64(uint64(l.bySHA.Len()))
	l.bySHA.Scan(func(sha string, s *script) bool {
		w.Text(sha)
		w.Text(s.source)
		w.Flag(s.loaded)
		w.U64(s.turn)
		return w.OK()
	})
}

func readLibrary(r *value.Reader) library {
	l, last := library{turn: r.U64()}, ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		sha, s := r.Text(), &script{source: r.Text()}
		s.loaded, s.turn = r.Flag(), r.U64()
		if sha <= last || sha != scriptSHA(s.source) || s.turn > l.turn || s.readShebang() != nil {
			r.Fail("a script is not what its name says")
			break
		}
		if !s.loaded {
			l.evals++
		}
		l.bytes += s.bytes()
		l.bySHA.Set(sha, s)
		last = sha
	}
	return l
}
