package clustertest

import (
	"flag"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// Run looks for this flag.
var _ = flag.Bool("rewrite", false, "write the replies of testdata anew; read the diff as code")

// Every transcript holds.
func TestTranscripts(t *testing.T) {
	for _, file := range transcripts(t) {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt"), func(t *testing.T) { Run(t, file) })
	}
}

func transcripts(t *testing.T) (files []string) {
	for _, pattern := range []string{"testdata/*.txt", "testdata/*/*.txt"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no transcripts %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// The transcript of the package comment holds, and the comment lists every word.
func TestPackageComment(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(file.Doc.Text(), "\n\t", "\n")
	_, doc, _ = strings.Cut(doc, "\n\n")
	begin := strings.Index(doc, "nodes 3\n")
	text, rest, _ := strings.Cut(doc[begin:], "\n\n")
	RunText(t, "doc.go", text)
	text, _, _ = strings.Cut(rest[strings.Index(rest, "client alice n2\n"):], "\n\n")
	RunText(t, "doc.go", "nodes 3\n"+text)
	for word := range (&player{}).words() {
		if !strings.Contains(doc, "\n"+word+" ") {
			t.Errorf("the package comment does not say what the word %s does", word)
		}
	}
}

// Each fault of a transcript is reported with its line.
func TestWrongLines(t *testing.T) {
	const heard = "nodes 1\nclient a n1\n> a SUBSCRIBE k\nsubscribe k 1\n> n1 PUBLISH k v\n(integer) 1"
	for text, want := range map[string]string{
		"kill n1":                      "begins with the line \"nodes N\"",
		"> n1 GET a":                   "begins with the line \"nodes N\"",
		"nodes":                        "begins with the line \"nodes N\"",
		"nodes three":                  "invalid syntax",
		"nodes 1\nhello":               "what is this line?",
		"nodes 1\n> n1":                "a command is written",
		"nodes 1\n> n1 GET \"a":        "a command is written",
		"nodes 1\n> n1 pop: BLPOP a 0": "only a command that ends with & has a name",
		"nodes 1\n> n1 BLPOP &":        "needs a name of its own",
		"nodes 1\n> n1 SET a 1\nKO":    "want  KO\ngot   OK",
		"nodes 1\n> n1 SET a 1":        "want  \ngot   OK",
		"nodes 1\n> n1 ECHO 7\n\"$a\n> n1 ECHO 8\n\"$a": "want  \"$a ($a = 7\")\ngot   \"8\"",
		"nodes 1\nkill":                     "name a node",
		"nodes 1\nheal n1":                  "stands alone",
		"nodes 1\nafter 2":                  "missing unit",
		"nodes 1\nslow n1":                  "name a node and a time",
		"nodes 1\ncut n1 |":                 "write \"cut n1\"",
		"nodes 1\nhangup bob":               "name a client, or a command in the background",
		"nodes 1\nclient bob":               "write a new name and a node",
		"nodes 1\nclient a n1\nclient a n1": "write a new name and a node",
		"nodes 1\nhears bob":                "name a client",
		"nodes 1\ndied":                     "name one node",
		"nodes 1\nclient a n1\n> a BLPOP k 0 &\n> a PING": "a waits for an answer",
		"nodes 1\nclient a n1\n> n1 a: BLPOP k 0 &":       "needs a name of its own",
		heard:                                    "what a has heard is not asserted",
		"nodes 1\ncheck $a < 1":                  "$a stands for nothing yet",
		"nodes 1\ncheck 1 ! 2":                   "does not compare",
		"nodes 1\ncheck 1 < 3 < 2":               "3 is 3, and 2 is 2",
		"nodes 1\n> n1 p: BLPOP a 0 &":           "the answer of p is not asserted",
		"nodes 1\n> n1 p: BLPOP a 0 &\np: \"1\"": "want  \"1\"\ngot   (no answer)",
	} {
		if got := failureOf(t, text); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// failureOf plays a transcript and returns its failure.
func failureOf(t *testing.T, text string) (failure string) {
	synctest.Test(t, func(t *testing.T) {
		if err := newPlayer(t, "x", text).play(); err != nil {
			failure = err.Error()
		}
	})
	return failure
}

// $name stands for one word, * for any text.
func TestMatches(t *testing.T) {
	p := &player{bound: map[string]string{}}
	for _, tt := range []struct {
		want, got string
		matches   bool
	}{
		{"(integer) $a", "(integer) 7", true},
		{"(integer) $a", "(integer) 8", false},
		{"(integer) $b", "(integer) 8", true},
		{"$a and $b", "7 and 8", true},
		{"(integer) *", "(integer) 8", true},
		{"(integer) *", "(nil)", false},
		{"(error) OOM *", "(error) OOM the disk of n1", true},
		{`"$a*"`, `"$a*"`, true},
		{"a.c", "abc", false},
	} {
		if p.matches(tt.want, tt.got) != tt.matches {
			t.Errorf("%q, %q: %v", tt.want, tt.got, !tt.matches)
		}
	}
	for _, tt := range []struct {
		want    string
		matches bool
	}{
		{"a,b,c", true}, {"...", true}, {"a,...", true}, {"...,c", true}, {"a,  ...,c", true}, {"a,...,b,...,c", true},
		{"a,...,c,d", false}, {"b,...", false}, {"a,b", false}, {"a,b,c,d", false},
	} {
		if p.matchLines(strings.Split(tt.want, ","), []string{"a", "b", "c"}) != tt.matches {
			t.Errorf("%s: %v", tt.want, !tt.matches)
		}
	}
	names := []string{}
	for name := range p.bound {
		names = append(names, name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("bound: %q", names)
	}
}
