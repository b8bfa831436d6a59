package keyspace

import (
	"fmt"
	"strings"
	"testing"

	"lockd/keyspace/library"
	"lockd/resp"
)

const functionsFull = "ERR the function libraries take more than 4 MB or are more than 512: FUNCTION DELETE makes room"

// wants plays commands and compares what they answer, in words.
func (s *stage) wants(t *testing.T, want string, args ...string) {
	t.Helper()
	if got := plain(s.command(args)); got != want {
		t.Errorf("%.200q answers %.300q, want %q", args, got, want)
	}
}

// libraryOf is the code of a library with one function, which answers a number.
func libraryOf(name, function string, answer int) string {
	return fmt.Sprintf("#!lua name=%s\nredis.register_function('%s', function() return %d end)", name, function, answer)
}

// What FUNCTION DUMP answers comes back by FUNCTION RESTORE, by each of its policies,
// whole or not at all.
func TestFunctionRestore(t *testing.T) {
	s := newStage(t)
	s.wants(t, "lib1", "FUNCTION", "LOAD", libraryOf("lib1", "f1", 1))
	s.wants(t, "lib2", "FUNCTION", "LOAD", libraryOf("lib2", "f2", 2))
	dump := s.command(resp.Args{"FUNCTION", "DUMP"}).Str

	s.wants(t, "ERR Library lib1 already exists", "FUNCTION", "RESTORE", dump)
	s.wants(t, "OK", "FUNCTION", "DELETE", "lib1")
	s.wants(t, "ERR Library lib2 already exists", "FUNCTION", "RESTORE", dump, "append")
	s.wants(t, "ERR Function not found", "FCALL", "f1", "0")

	s.wants(t, "lib2", "FUNCTION", "LOAD", "REPLACE", libraryOf("lib2", "f2", 22))
	s.wants(t, "other", "FUNCTION", "LOAD", libraryOf("other", "F1", 11))
	s.wants(t, "ERR Function f1 already exists", "FUNCTION", "RESTORE", dump, "REPLACE")
	s.wants(t, "22", "FCALL", "f2", "0")
	s.wants(t, "11", "FCALL", "f1", "0")

	s.wants(t, "OK", "FUNCTION", "DELETE", "other")
	s.wants(t, "third", "FUNCTION", "LOAD", libraryOf("third", "f3", 3))
	s.wants(t, "OK", "FUNCTION", "RESTORE", dump, "Replace")
	s.wants(t, "1", "FCALL", "f1", "0")
	s.wants(t, "2", "FCALL", "f2", "0")
	s.wants(t, "3", "FCALL", "f3", "0")

	s.wants(t, "OK", "FUNCTION", "RESTORE", dump, "FLUSH")
	s.wants(t, "ERR Function not found", "FCALL", "f3", "0")
	s.wants(t, "running_script (nil) engines LUA libraries_count 2 functions_count 2", "FUNCTION", "STATS")
	s.wants(t, dump, "FUNCTION", "DUMP")
}

// A dump that is not whole, or not lockd's, is refused and changes nothing.
func TestDamagedFunctionDump(t *testing.T) {
	s := newStage(t)
	s.wants(t, "lib", "FUNCTION", "LOAD", libraryOf("lib", "f", 1))
	dump := s.command(resp.Args{"FUNCTION", "DUMP"}).Str
	want := "ERR DUMP payload version or checksum are wrong"
	for i := range len(dump) {
		bad := []byte(dump)
		bad[i] ^= 1
		s.wants(t, want, "FUNCTION", "RESTORE", string(bad), "FLUSH")
		s.wants(t, want, "FUNCTION", "RESTORE", dump[:i], "FLUSH")
	}
	s.wants(t, want, "FUNCTION", "RESTORE", dump+"x", "FLUSH")
	s.wants(t, want, "FUNCTION", "RESTORE", string(sealed([]byte(dump[:len(dump)-4]+"x1234"))), "FLUSH")
	s.wants(t, "1", "FCALL", "f", "0")
	s.wants(t, "OK", "FUNCTION", "RESTORE", dump, "FLUSH")
}

// All libraries of a dump are loaded within the limits of one script.
func TestFunctionRestoreHasOneLimit(t *testing.T) {
	s := newStage(t)
	s.command(resp.Args{"CONFIG", "SET", "lockd-script-steps", "10000"})
	for i := range 3 {
		code := fmt.Sprintf("#!lua name=lib%d\nfor i = 1, 250 do local x = {} end redis.register_function('f%[1]d', function() end)", i)
		s.wants(t, fmt.Sprint("lib", i), "FUNCTION", "LOAD", code)
	}
	dump := s.command(resp.Args{"FUNCTION", "DUMP"}).Str
	before := untraced(t, s.m)
	if got := s.command(resp.Args{"FUNCTION", "RESTORE", dump, "FLUSH"}); !strings.HasPrefix(got.Str, "ERR Script stopped: it needs more than its limit of ") {
		t.Errorf("restored with %s", got.Str)
	}
	if string(untraced(t, s.m)) != string(before) {
		t.Error("a restore that failed has changed the state")
	}
	s.command(resp.Args{"CONFIG", "SET", "lockd-script-steps", "100000"})
	s.wants(t, "OK", "FUNCTION", "RESTORE", dump, "FLUSH")
}

// Libraries are bounded in number and in bytes. One that takes the place of another
// needs no more room than there is.
func TestFunctionBounds(t *testing.T) {
	s := newStage(t)
	for i := range library.LibrariesMax {
		s.wants(t, fmt.Sprint("l", i), "FUNCTION", "LOAD", libraryOf(fmt.Sprint("l", i), fmt.Sprint("f", i), i))
	}
	s.wants(t, functionsFull, "FUNCTION", "LOAD", libraryOf("more", "more", 1))
	s.wants(t, "l7", "FUNCTION", "LOAD", "REPLACE", libraryOf("l7", "f7", 70))
	s.wants(t, "70", "FCALL", "f7", "0")
	s.wants(t, "ERR Function not found", "FCALL", "more", "0")
	dump := s.command(resp.Args{"FUNCTION", "DUMP"}).Str
	s.wants(t, "OK", "FUNCTION", "FLUSH")
	s.wants(t, "more", "FUNCTION", "LOAD", libraryOf("more", "more", 1))
	s.wants(t, functionsFull, "FUNCTION", "RESTORE", dump)
	s.wants(t, "OK", "FUNCTION", "FLUSH")

	large := "--" + strings.Repeat("x", 60<<10)
	loaded := 0
	for ; ; loaded++ {
		reply := s.command(resp.Args{"FUNCTION", "LOAD", libraryOf(fmt.Sprint("l", loaded), fmt.Sprint("f", loaded), 1) + large})
		if reply.IsErr() {
			s.wants(t, functionsFull, "FUNCTION", "LOAD", libraryOf(fmt.Sprint("l", loaded), fmt.Sprint("f", loaded), 1)+large)
			break
		}
	}
	if got := s.m.state.Functions.Bytes(); loaded < 60 || got > library.FunctionBytesMax || got < library.FunctionBytesMax-64<<10 {
		t.Errorf("%d libraries of %d bytes are loaded", loaded, got)
	}
	s.wants(t, "OK", "FUNCTION", "FLUSH")
	if s.m.state.Functions.Bytes() != 0 || s.m.state.UsedBytes() != 0 {
		t.Errorf("%d bytes are left", s.m.state.UsedBytes())
	}
}

// What libraries take is told and untold: by load, replacement, failure, deletion.
func TestFunctionBytes(t *testing.T) {
	s := newStage(t)
	s.wants(t, "a", "FUNCTION", "LOAD", libraryOf("a", "a", 1))
	one := s.m.state.Functions.Bytes()
	s.wants(t, "b", "FUNCTION", "LOAD", libraryOf("b", "b", 1))
	s.wants(t, "b", "FUNCTION", "LOAD", "REPLACE", libraryOf("b", "b", 2))
	s.wants(t, "ERR Function a already exists", "FUNCTION", "LOAD", "REPLACE", libraryOf("b", "a", 2))
	if got := s.m.state.Functions.Bytes(); got != 2*one {
		t.Errorf("%d bytes, want %d", got, 2*one)
	}
	s.wants(t, "OK", "FUNCTION", "DELETE", "b")
	if got := s.m.state.Functions.Bytes(); got != one {
		t.Errorf("%d bytes, want %d", got, one)
	}
}

// A snapshot holds the libraries of its moment.
func TestFunctionsInSnapshot(t *testing.T) {
	s := newStage(t)
	s.wants(t, "a", "FUNCTION", "LOAD", libraryOf("a", "a", 1))
	write := s.m.Snapshot()
	want := image(t, s.m)
	s.wants(t, "a", "FUNCTION", "LOAD", "REPLACE", libraryOf("a", "a", 2))
	s.wants(t, "OK", "FUNCTION", "DELETE", "a")
	s.wants(t, "b", "FUNCTION", "LOAD", libraryOf("b", "b", 2))
	var b strings.Builder
	if err := write(&b); err != nil || b.String() != string(want) {
		t.Errorf("the snapshot has changed: %v", err)
	}
}
