package testfile

import (
	"fmt"
	"path/filepath"
	"testing"
)

// recorder is a test that records its failures.
type recorder struct {
	testing.TB
	told string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Errorf(format string, args ...any) { r.told += fmt.Sprintf(format, args...) }

// A file that differs is reported, and rewritten only on request.
func TestCompare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.bin")
	for _, step := range []struct {
		rewrite       bool
		written, kept string
		differs       bool
	}{
		{true, "one", "one", false}, {false, "one", "one", false}, {false, "two", "one", true}, {true, "two", "two", false},
	} {
		*Rewrite = step.rewrite
		r := &recorder{TB: t}
		if kept := Compare(r, path, []byte(step.written)); string(kept) != step.kept || (r.told != "") != step.differs {
			t.Errorf("%+v: kept %q, told %q", step, kept, r.told)
		}
	}
	*Rewrite = false
}
