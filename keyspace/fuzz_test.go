package keyspace

import (
	"bytes"
	"strings"
	"testing"

	"lockd/keyspace/store"
	"lockd/resp"
)

// fuzzLinesMax bounds a row of commands: longer ones find nothing more.
const fuzzLinesMax = 100

// FuzzCommands proves of any row of commands that it ends, and that a machine that
// lived through it and one that was restored from its image before each line give
// the same answers and the same image. stage.one compares View with Apply besides.
func FuzzCommands(f *testing.F) {
	for _, file := range transcriptFiles(f) {
		for _, b := range readTranscript(f, file) {
			var lines []string
			for _, s := range b.steps {
				lines = append(lines, s.text)
			}
			f.Add(strings.Join(lines, "\n"))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		lived, moved := newStage(t), newStage(t)
		for _, s := range []*stage{lived, moved} {
			s.command(resp.Args{"CONFIG", "SET", "lockd-script-steps", "10000"})
		}
		for i, line := range strings.Split(text, "\n") {
			words, err := splitWords(line)
			if i == fuzzLinesMax || err != nil || len(words) == 0 || tooMuch(words) {
				break
			}
			if err := moved.m.Restore(bytes.NewReader(image(t, moved.m))); err != nil {
				t.Fatal(err)
			}
			a, b := fuzzStep(lived, words), fuzzStep(moved, words)
			if !bytes.Equal(a.AppendTo(nil, 3), b.AppendTo(nil, 3)) {
				t.Fatalf("%q answers %q, and %q after a restore", words, show(a), show(b))
			}
		}
		if !bytes.Equal(image(t, lived.m), image(t, moved.m)) {
			t.Fatal("the images differ")
		}
	})
}

// tooMuch leaves out what is allowed and only slow: half a gigabyte of zeros.
func tooMuch(words resp.Args) bool {
	n, ok := resp.ParseInt(words[min(2, len(words)-1)])
	draws := resp.Is(words[0], "HRANDFIELD") || resp.Is(words[0], "SRANDMEMBER") || resp.Is(words[0], "ZRANDMEMBER")
	grows := resp.Is(words[0], "SETRANGE")
	return grows && ok && n > 1<<16 || draws && ok && n < -1000
}

// fuzzStep plays a command, "db N", "at N", "client NAME command" or "ended".
func fuzzStep(s *stage, words resp.Args) resp.Reply {
	n, isInt := resp.ParseInt(words[min(1, len(words)-1)])
	switch words[0] {
	case "db":
		if isInt {
			s.db = int(n & (store.Databases - 1))
		}
		return resp.Reply{}
	case "at":
		if isInt && n > 0 && n < 1<<50 {
			s.clock(step{words: words})
		}
		return resp.Reply{}
	case "client":
		if len(words) > 2 {
			s.client(step{words: words})
		}
		return resp.Reply{}
	case "ended":
		return resp.Bulks(s.endings()...)
	}
	return s.command(words)
}
