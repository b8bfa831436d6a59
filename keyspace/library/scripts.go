// Package library keeps scripts in the replicated state: those that EVALSHA finds, and the libraries of functions. It
// names, describes, bounds and dumps them and writes them into images, but runs none.
package library

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"github.com/tidwall/btree"

	"lockd/keyspace/value"
	"lockd/resp"
)

// The bounds of the script library. Beyond them the library forgets the EVAL scripts that were used least recently:
// EVALSHA answers NOSCRIPT, and clients send EVAL.
const (
	EvalScriptsMax  = 500
	ScriptsBytesMax = 64 << 20
	scriptBytes     = 128 // overhead of one script in the estimate of memory
)

// Scripts holds the scripts. It is part of the replicated state, so that EVALSHA finds the same scripts on every node.
// A Script is immutable and replaced as a whole.
type Scripts struct {
	bySHA btree.Map[string, *Script]
	evals int    // how many came by EVAL
	bytes int64  // of all
	turn  uint64 // counts the scripts that were added: the measure of age
}

// Script is a script with the flags of its first line.
type Script struct {
	Source             string
	Shebang            int // bytes of a first line that starts with #!
	NoWrites, AllowOOM bool

	loaded bool   // by SCRIPT LOAD: kept until SCRIPT FLUSH
	turn   uint64 // Scripts.turn when it was last used
}

// NewScript returns the script of a source, and reads its first line.
func NewScript(source string) (*Script, error) {
	s := &Script{Source: strings.Clone(source)}
	return s, s.readShebang()
}

// SHA returns the SHA1 of a source, in hexadecimal digits.
func SHA(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func (s *Script) bytes() int64 { return scriptBytes + int64(len(s.Source)) }

// Body returns the source to compile: without the first line, but with its end, so that lines keep their numbers.
func (s *Script) Body(sha string) resp.Script {
	return resp.Script{SHA: sha, Source: s.Source[s.Shebang:]}
}

// readShebang reads a first line such as "#!lua flags=no-writes,allow-oom".
func (s *Script) readShebang() error {
	if !strings.HasPrefix(s.Source, "#!") {
		return nil
	}
	s.Shebang = strings.IndexByte(s.Source, '\n')
	if s.Shebang < 0 {
		return resp.Error("ERR Invalid script shebang")
	}
	words := strings.Fields(s.Source[:s.Shebang])
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

func (s *Script) readFlags(flags string) error {
	if flags == "" {
		return nil
	}
	for flag := range strings.SplitSeq(flags, ",") {
		switch flag {
		case "no-writes":
			s.NoWrites = true
		case "allow-oom":
			s.AllowOOM = true
		case "allow-stale", "no-cluster", "allow-cross-slot-keys":
		default:
			return resp.Error("ERR Unexpected flag in script shebang: " + flag)
		}
	}
	return nil
}

// Len returns the number of scripts.
func (l *Scripts) Len() int { return l.bySHA.Len() }

// Bytes returns the memory of the scripts, by estimate.
func (l *Scripts) Bytes() int64 { return l.bytes }

// Find finds a script by its SHA1, or returns nil. The zero value of Scripts has no script.
func (l *Scripts) Find(sha string) *Script {
	s, _ := l.bySHA.Get(sha)
	return s
}

// Used marks a script as used. Age is the number of scripts added since, so running the same scripts again and again
// costs nothing here.
func (l *Scripts) Used(sha string, s *Script) {
	if s.loaded || s.turn == l.turn {
		return
	}
	younger := *s
	younger.turn = l.turn
	l.bySHA.Set(sha, &younger)
}

// Remember adds a script that came by EVAL, and returns the work of adding it. It does not add a script that is too
// large for the library, which runs all the same.
func (l *Scripts) Remember(sha string, s *Script) (work int64) {
	n, evals := l.bySHA.Len(), l.evals
	if l.makeRoom(s.bytes(), 1) {
		l.evals++
		l.add(sha, s)
	}
	return l.workSince(n, evals)
}

// workSince returns the work of adding a script to n, evals of which came by EVAL: to forget one, all are visited.
func (l *Scripts) workSince(n, evals int) int64 {
	return value.TreeWork(n) + value.VisitWork*int64(n*max(0, evals+1-l.evals))
}

// Keep adds a script that came by SCRIPT LOAD, or makes an existing one permanent, and returns the work. kept is false
// if there is no room.
func (l *Scripts) Keep(sha string, s *Script) (kept bool, work int64) {
	n, evals := l.bySHA.Len(), l.evals
	kept = l.keep(sha, s)
	return kept, l.workSince(n, evals)
}

func (l *Scripts) keep(sha string, s *Script) bool {
	if l.Find(sha) != nil {
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

func (l *Scripts) add(sha string, s *Script) {
	l.turn++
	s.turn = l.turn
	l.bytes += s.bytes()
	l.bySHA.Set(sha, s)
}

// makeRoom forgets old EVAL scripts until a number of bytes and a number of EVAL scripts fit. It returns false if they
// can never fit.
func (l *Scripts) makeRoom(bytes int64, evals int) bool {
	for l.bytes+bytes > ScriptsBytesMax || l.evals+evals > EvalScriptsMax {
		if l.evals == 0 {
			return false
		}
		l.forgetOldest()
	}
	return true
}

func (l *Scripts) forgetOldest() {
	var oldest *Script
	var sha string
	for k, s := range l.bySHA.Scan {
		if !s.loaded && (oldest == nil || s.turn < oldest.turn) {
			sha, oldest = k, s
		}
	}
	l.bySHA.Delete(sha)
	l.evals--
	l.bytes -= oldest.bytes()
}

// Copy is O(1), see Map.Copy.
func (l *Scripts) Copy() Scripts {
	c := *l
	c.bySHA = *l.bySHA.Copy()
	return c
}

// Write writes the library into an image.
func (l *Scripts) Write(w *value.Writer) {
	w.U64(l.turn)
	w.U64(uint64(l.bySHA.Len()))
	l.bySHA.Scan(func(sha string, s *Script) bool {
		w.Text(sha)
		w.Text(s.Source)
		w.Flag(s.loaded)
		w.U64(s.turn)
		return w.OK()
	})
}

// ReadScripts reads a script library from an image.
func ReadScripts(r *value.Reader) Scripts {
	l, last := Scripts{turn: r.U64()}, ""
	for n := r.U64(); n > 0 && r.OK(); n-- {
		sha, s := r.Text(), &Script{Source: r.Text()}
		s.loaded, s.turn = r.Flag(), r.U64()
		if sha <= last || sha != SHA(s.Source) || s.turn > l.turn || s.readShebang() != nil {
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
