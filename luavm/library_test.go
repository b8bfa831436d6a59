package luavm

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"lockd/resp"
)

var plenty = resp.ScriptLimits{Steps: 1e7, MemBytes: 64 << 20}

// runLib runs a script with the probes' S.
func runLib(src string) string {
	reply, _, _ := New().Run(script(prelude+src), nil, nil, plenty, stubCall)
	return render(reply)
}

// libDifferences are the probes on which the libraries differ, with the reason.
var libDifferences = map[string]string{
	`return #cmsgpack.unpack("\147\1\192\3")`: "# of a table with holes: any border is right, and gopher-lua finds the last",
}

// The four libraries answer as Redis 7.0.15 does (testdata/libs.tsv holds its
// answers), error texts included.
func TestLibraryProbes(t *testing.T) {
	f, err := os.Open("testdata/libs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		tab := strings.LastIndexByte(line, '\t')
		script, want := line[:tab], line[tab+1:]
		if libDifferences[script] != "" {
			continue
		}
		if got := runLib(script); got != want {
			t.Errorf("%s\n got %s\nwant %s", script, got, want)
		}
	}
}
