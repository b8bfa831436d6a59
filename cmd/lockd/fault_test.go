package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"lockd/resp/fault"
)

// A normal build has no door to faults: what opens it is not even in the binary.
// The binary is the test itself, so the words are put together at run time.
func TestNoFaultsInNormalBuild(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range [][]string{{"LOCKD", "_FAULT_LISTEN"}, {"fault:", " no space"}} {
		if has := bytes.Contains(binary, []byte(strings.Join(word, ""))); has != fault.On {
			t.Errorf("the binary has %q: %v; it is a test build: %v", word, has, fault.On)
		}
	}
}
