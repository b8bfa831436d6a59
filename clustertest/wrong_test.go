package clustertest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"lockd/clustertest"
	"lockd/keyspace"
	"lockd/resp"
)

// wrongCalls are the calls in the transcripts of commands whose arguments are wrong whatever the state is, with their
// answers, and of how many rows they are.
func wrongCalls(t *testing.T) (calls []resp.Args, answers []string, rows int) {
	files, err := filepath.Glob("../keyspace/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	m, seen := keyspace.New(nil), map[*resp.Spec]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			args := resp.Args(strings.Fields(line))
			if len(args) == 0 || strings.ContainsAny(line, `"'$`) {
				continue
			}
			spec, _ := m.Find(args)
			if spec == nil {
				continue
			}
			if fail, wrong := m.Check(resp.Cmd{Args: args, Spec: spec}); wrong {
				seen[spec] = true
				calls, answers = append(calls, args), append(answers, "(error) "+fail.Str)
			}
		}
	}
	return calls, answers, len(seen)
}

// Arguments that are wrong never reach the log, and a node says so without asking anybody: on a follower, and where
// nobody leads.
func TestWrongArgumentsAreNotLogged(t *testing.T) {
	calls, answers, rows := wrongCalls(t)
	if len(calls) < 200 || rows < 85 {
		t.Fatalf("only %d wrong calls, of %d rows", len(calls), rows)
	}
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.Start(t, 3)
		leader := c.Leader()
		index := func() string { return c.Node(leader).Do("LOCKD", "INDEX") }
		ask := func(node string) {
			for i, args := range calls {
				if got := c.Node(node).Do(args...); got != answers[i] {
					t.Errorf("%s %q: %s, want %s", node, args, got, answers[i])
				}
			}
		}
		before := index()
		for _, node := range []string{"n1", "n2", "n3"} {
			ask(node)
		}
		if after := index(); after != before {
			t.Errorf("the log has gone on from %s to %s", before, after)
		}
		var left string
		for _, node := range []string{"n1", "n2", "n3"} {
			if node == leader || left != "" {
				c.Kill(node)
			} else {
				left = node
			}
		}
		ask(left)
	})
}
