package target

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The other build compiles, and has one file more.
func TestOtherBuild(t *testing.T) {
	flags, err := OtherBuild(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command("go", slices.Concat([]string{"list", "-f", "{{.GoFiles}}"}, flags, []string{otherPackage})...).Output()
	if table, other := strings.Index(string(list), " command.go"), strings.Index(string(list), otherFile); err != nil || other < 0 || other > table {
		t.Errorf("%v; files %s", err, list)
	}
	if out, err := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{otherPackage})...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
