package keyspace

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockd/internal/testfile"
	"lockd/keyspace/command"
	"lockd/luavm"
	"lockd/resp"
	"lockd/resp/notation"
)

// A transcript is what a person would have typed, and the answers. A file of
// testdata is a list of blocks, which blank lines part:
//
//	# Comments say what is proved.
//	at 1000                  the log clock, in ms; leases that are over end now
//	SET lock me NX PX 30000  commands, quoted as in redis-cli: "\x00 \"", 'it''s'
//	GET lock
//	----
//	OK                       then their replies, in redis-cli's notation
//	"me"
//
// The notation shows what a reply is, so it stands for both protocols: a map is
// numbered 1#, a set 1~, a push 1>, what is a map in RESP3 only 1%, and the items of a
// list of pairs are joined by =>. Besides commands a block may hold
//
//	fresh             a new machine, at tick 0 in database 0 (every file begins so)
//	db N              the database of what follows
//	events            what was published since the block began, as channel, payload
//	news              what was told of locks since the last "news", likewise
//	client NAME ...   the rest is a blocking command of another client, who waits if
//	                  need be
//	ended             what those clients were answered since the last "ended"; a block
//	                  whose client was answered must have it
//	script NAME       the rest of the block is a script, shown as its SHA1; after it
//	                  $NAME is its source, $NAME.sha its SHA1
//
// and, at its head, what the replay against a real server must know, each with
// its reason:
//
//	sorted: why       elements are compared in sorted order
//	approx: why       integers may differ by a little: the real server's clock runs
//	digits: why       numbers are compared by value: Redis 7.0 writes 17 digits of a
//	                  double, 7.2 as many as it needs
//	differs: why      lockd's answer is another on purpose
//	since 7.2: why    the referee, Redis 7.0, does not have this yet: not sent to it
//	lockd: why        only lockd has this: not sent
//
// MULTI ... EXEC stand in one block; only EXEC's reply is shown. WATCH and
// UNWATCH are played as the session plays them, without a reply.
//
// To write the replies anew: go test ./keyspace -run 'TestTranscripts$' -rewrite.
// Read the diff, and commit it only if you understand each line of it.

// transcriptWall is the wall clock at tick 0, in unix ms: 2024-01-01T00:00:00Z.
const transcriptWall = 1704067200000

// step is one line of a block: a command or a directive.
type step struct {
	line  int
	text  string
	words resp.Args
	body  string // of a script: its source
}

// block is what stands between two blank lines.
type block struct {
	line  int
	steps []step
	notes map[string]string // sorted, approx, digits, differs, since, lockd: the reason
	want  []string          // the lines after ----
	from  int               // where these begin, as an index into the file's lines
}

// TestTranscripts plays every transcript and compares each reply.
func TestTranscripts(t *testing.T) {
	for _, file := range transcriptFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			playFile(t, file)
		})
	}
}

// TestTranscriptsThroughImages proves that an image holds all that a client can
// see: every transcript answers the same when the machine is replaced, before each
// of its lines, by one restored from its image. Equal states have equal images.
func TestTranscriptsThroughImages(t *testing.T) {
	for _, file := range transcriptFiles(t) {
		stage := newStage(t)
		stage.before = func() {
			img, next := image(t, stage.m), newMachine()
			if err := next.Restore(bytes.NewReader(img)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(image(t, next), img) {
				t.Fatalf("%s: the image of a restored machine differs", file)
			}
			stage.m = next
		}
		for _, b := range readTranscript(t, file) {
			b.check(t, file, stage.play(b))
		}
	}
}

// TestFamilies proves that no command goes untested: each row of the table
// stands in at least one transcript.
func TestFamilies(t *testing.T) {
	seen := map[*resp.Spec]bool{}
	m := newStage(t).m
	for _, file := range transcriptFiles(t) {
		for _, b := range readTranscript(t, file) {
			for _, s := range b.steps {
				words := s.words
				if words[0] == "client" {
					words = words[2:]
				}
				if spec := lookupSpec(words[0]); spec != nil {
					if leaf, _ := spec.Check(words); leaf != nil {
						seen[leaf] = true
					}
				}
			}
		}
	}
	for _, spec := range m.Specs() {
		for _, leaf := range leaves(spec) {
			if leaf.Keys != (resp.Keys{}) && leaf.Flags&(resp.Changes|resp.ReadOnly) == 0 {
				t.Errorf("%s has keys, and no flag says whether it writes: resp.Write, resp.MayReplicate or resp.ReadOnly", leaf.Name)
			}
			if leaf.Level > command.Level {
				t.Errorf("%s is of level %d, above that of this build: nobody can call it", leaf.Name, leaf.Level)
			}
			if !seen[leaf] {
				t.Errorf("no transcript has the command %q: write a block that calls it at the end of one of "+
					"keyspace/testdata/*.txt, and %s", leaf.Name, howToRewrite)
			}
		}
	}
}

func leaves(spec *resp.Spec) []*resp.Spec {
	if len(spec.Subs) > 0 {
		return spec.Subs
	}
	return []*resp.Spec{spec}
}

func transcriptFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in testdata: %v", err)
	}
	return files
}

func playFile(t *testing.T, file string) {
	stage := newStage(t)
	blocks := readTranscript(t, file)
	got := make([][]answer, len(blocks))
	for i, b := range blocks {
		got[i] = stage.play(b)
		if !*testfile.Rewrite {
			b.check(t, file, got[i])
		}
	}
	if *testfile.Rewrite {
		rewriteTranscript(t, file, blocks, got)
	} else if t.Failed() {
		t.Log("if what it got is right,", howToRewrite)
	}
}

const howToRewrite = "have the replies written: go test ./keyspace -run 'TestTranscripts$' -rewrite"

// answer is a line of what a block answers, and the step it belongs to.
type answer struct {
	step step
	text string
}

// check compares what a block answers, and shows the first line that differs, with
// the command that it answers.
func (b block) check(t *testing.T, file string, got []answer) {
	t.Helper()
	if b.from == 0 && len(got) > 0 {
		t.Errorf(noReplies, file, b.line)
		return
	}
	for i := range max(len(b.want), len(got)) {
		want, is := "(nothing)", answer{step: b.steps[len(b.steps)-1], text: "(nothing)"}
		if i < len(b.want) {
			want = b.want[i]
		}
		if i < len(got) {
			is = got[i]
		}
		if want != is.text {
			t.Errorf("%s:%d: %s\nwant  %s (line %d)\ngot   %s", file, is.step.line, is.step.text, want, b.from+i+1, is.text)
			return
		}
	}
}

// noReplies is said of a block that answers, and does not say what.
const noReplies = "%s:%d: end this block with a line ----: below it stand the replies"

func rewriteTranscript(t *testing.T, file string, blocks []block, got [][]answer) {
	t.Helper()
	old := fileLines(t, file)
	var out []string
	at := 0
	for i, b := range blocks {
		if b.from == 0 {
			if len(got[i]) > 0 {
				t.Errorf(noReplies, file, b.line)
			}
			continue
		}
		out = append(out, old[at:b.from]...)
		for _, a := range got[i] {
			out = append(out, a.text)
		}
		at = b.from + len(b.want)
	}
	out = append(out, old[at:]...)
	if err := os.WriteFile(file, []byte(strings.Join(out, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fileLines(t testing.TB, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}

// readTranscript parses a file into its blocks.
func readTranscript(t testing.TB, file string) []block {
	t.Helper()
	var blocks []block
	lines := fileLines(t, file)
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" || lines[i][0] == '#' {
			continue
		}
		b := block{line: i + 1, notes: map[string]string{}}
		for ; i < len(lines) && lines[i] != "" && lines[i] != "----"; i++ {
			if err := b.add(i+1, lines[i]); err != nil {
				t.Fatalf("%s:%d: %v", file, i+1, err)
			}
		}
		if i < len(lines) && lines[i] == "----" {
			b.from = i + 1
			for i++; i < len(lines) && lines[i] != ""; i++ {
				b.want = append(b.want, lines[i])
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// add takes one line of a block's upper half.
func (b *block) add(line int, text string) error {
	if n := len(b.steps); n > 0 && b.steps[n-1].words[0] == "script" {
		b.steps[n-1].body += text + "\n"
		return nil
	}
	if text[0] == '#' {
		return nil
	}
	if name, why, ok := strings.Cut(text, ": "); ok {
		switch note := strings.Fields(name)[0]; note {
		case "sorted", "approx", "digits", "differs", "since", "lockd":
			b.notes[note] = why
			return nil
		}
	}
	words, err := splitWords(text)
	if err == nil {
		b.steps = append(b.steps, step{line: line, text: text, words: words})
	}
	return err
}

// splitWords splits a line as redis-cli does.
func splitWords(text string) (words resp.Args, err error) {
	for rest := strings.TrimLeft(text, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		var word string
		if word, rest, err = nextWord(rest); err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func nextWord(s string) (word, rest string, err error) {
	quote := s[0]
	if quote != '"' && quote != '\'' {
		word, rest, _ = strings.Cut(s, " ")
		return word, rest, nil
	}
	end := 1
	for ; end < len(s) && s[end] != quote; end++ {
		if s[end] == '\\' {
			end++
		}
	}
	if end >= len(s) {
		return "", "", fmt.Errorf("unbalanced quotes: %s", s)
	}
	if quote == '\'' {
		return strings.ReplaceAll(s[1:end], `\'`, `'`), s[end+1:], nil
	}
	word, err = strconv.Unquote(s[:end+1])
	return word, s[end+1:], err
}

// stage is a machine and all that a transcript may set around it.
type stage struct {
	t       testing.TB
	m       *Machine
	at      resp.Stamp
	db      int
	events  []resp.Message
	news    []string
	changed []string // keys, as those who track them hear it
	scripts map[string]string
	session uint64 // of those who wait; 0: not opened yet
	asked   uint64 // numbers given in it
	waiting map[resp.BlockID]waitingClient
	ended   map[string]resp.Reply
	multi   []resp.Cmd // the commands since MULTI; nil outside
	watch   []resp.Watch
	before  func() // is called before each step
}

// waitingClient is a client in a blocking command.
type waitingClient struct {
	name    string
	nilBulk bool // see resp.Spec
}

func newMachine() *Machine { return New(luavm.New()) }

func newStage(t testing.TB) *stage {
	s := &stage{t: t, scripts: map[string]string{}}
	s.fresh()
	return s
}

func (s *stage) fresh() {
	s.m = newMachine()
	s.at = resp.Stamp{Wall: transcriptWall * 1000}
	s.db, s.events, s.news, s.multi, s.watch = 0, nil, nil, nil, nil
	s.session, s.asked, s.waiting, s.ended = 0, 0, map[resp.BlockID]waitingClient{}, map[string]resp.Reply{}
}

// play runs a block and returns the lines it answers.
func (s *stage) play(b block) (got []answer) {
	s.events = nil
	for _, st := range b.steps {
		for _, text := range s.step(st) {
			got = append(got, answer{st, text})
		}
	}
	if len(s.ended) > 0 {
		s.t.Errorf("line %d: a client of this block was answered: end the block with a line \"ended\"", b.line)
		clear(s.ended)
	}
	return got
}

func (s *stage) step(st step) []string {
	if s.before != nil {
		s.before()
	}
	switch st.words[0] {
	case "fresh":
		s.fresh()
	case "at":
		s.clock(st)
	case "db":
		s.db = int(s.number(st))
	case "events":
		return s.published()
	case "news":
		news := s.news
		s.news = nil
		return news
	case "client":
		s.client(st)
	case "ended":
		return s.endings()
	case "script":
		s.scripts[st.words[1]] = strings.TrimSuffix(st.body, "\n")
		return []string{sha(s.scripts[st.words[1]])}
	default:
		if r := s.command(s.args(st.words)); r.Kind != resp.KindNone {
			return show(r)
		}
	}
	return nil
}

func (s *stage) number(st step) int64 {
	n, ok := resp.ParseInt(st.words[1])
	if !ok {
		s.t.Fatalf("line %d: %s needs a number", st.line, st.words[0])
	}
	return n
}

// clock moves the log clock as an empty entry of the log does.
func (s *stage) clock(st step) {
	s.at.Tick = s.number(st)
	s.at.Wall = (transcriptWall + s.at.Tick) * 1000
	s.apply(nil)
}

// args fills in the scripts that the words name.
func (s *stage) args(words resp.Args) resp.Args {
	args := make(resp.Args, len(words))
	for i, w := range words {
		args[i] = w
		if name, ok := strings.CutPrefix(w, "$"); ok {
			if src, ok := s.scripts[name]; ok {
				args[i] = src
			} else if src, ok := s.scripts[strings.TrimSuffix(name, ".sha")]; ok {
				args[i] = sha(src)
			}
		}
	}
	return args
}

func sha(src string) string {
	sum := sha1.Sum([]byte(src))
	return hex.EncodeToString(sum[:])
}

// client has another client ask for a blocking command.
func (s *stage) client(st step) {
	ask := func(req resp.Request) resp.Reply { return s.apply([]resp.Request{req})[0].Replies[0] }
	if s.session == 0 {
		s.session = uint64(ask(resp.BlockOpening("", 0)).Int)
	}
	s.asked++
	id := resp.BlockID{Session: s.session, Number: s.asked}
	spec, _ := s.m.Find(st.words[2:])
	s.waiting[id] = waitingClient{st.words[1], spec != nil && spec.NilBulk}
	if r := ask(resp.BlockAsking(id, 0, resp.Cmd{DB: s.db, Args: st.words[2:]})); r.IsErr() {
		s.t.Fatalf("line %d: %s", st.line, r.Str)
	}
}

// hear notes how commands of other clients have ended.
func (s *stage) hear(msgs []resp.Message) {
	for _, m := range msgs {
		if m.Kind != resp.MessageBlock {
			continue
		}
		client, waits := s.waiting[m.Block.ID]
		if !waits {
			s.t.Fatalf("%+v has ended, which does not wait", m.Block.ID)
		}
		delete(s.waiting, m.Block.ID)
		s.ended[client.name] = m.Block.Reply
		switch {
		case m.Block.How == resp.BlockTimedOut && client.nilBulk:
			s.ended[client.name] = resp.Nil()
		case m.Block.How == resp.BlockTimedOut:
			s.ended[client.name] = resp.NilArray()
		}
	}
}

func (s *stage) endings() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(s.ended)) {
		lines = append(lines, notation.Indent(name+": ", show(s.ended[name]))...)
	}
	s.ended = map[string]resp.Reply{}
	return lines
}

func (s *stage) published() (lines []string) {
	for _, e := range s.events {
		mark := map[resp.MessageKind]string{resp.MessageShard: "shard ", resp.MessageConfig: "config "}[e.Kind]
		lines = append(lines, mark+strconv.Quote(e.Channel)+" "+strconv.Quote(e.Payload))
	}
	s.events = nil
	return lines
}

// command plays one command as a session and the log would.
func (s *stage) command(args resp.Args) resp.Reply {
	switch strings.ToUpper(args[0]) {
	case "MULTI":
		s.multi = []resp.Cmd{}
		return resp.Reply{}
	case "EXEC":
		req := resp.Request{Cmds: s.multi, Watch: &resp.Watching{Check: s.watch}, Multi: true}
		s.multi, s.watch = nil, nil
		res := s.apply([]resp.Request{req})[0]
		if res.Aborted() {
			return resp.NilArray()
		}
		return resp.Array(res.Replies...)
	case "WATCH":
		for _, key := range args[1:] {
			s.watch = append(s.watch, resp.Watch{DB: s.db, Key: key, Version: s.m.state.Version(s.db, key)})
		}
		return resp.Reply{}
	case "UNWATCH":
		s.watch = nil
		return resp.Reply{}
	}
	if s.multi != nil {
		s.multi = append(s.multi, resp.Cmd{DB: s.db, Args: args})
		return resp.Reply{}
	}
	return s.one(args)
}

// one runs a command by itself. What only reads is run by View too, and both
// must agree: a client cannot tell by which way its read went.
func (s *stage) one(args resp.Args) resp.Reply {
	spec := lookupSpec(args[0])
	if spec == nil {
		return resp.UnknownCommand(args)
	}
	leaf, fail := spec.Check(args)
	if leaf == nil {
		return fail
	}
	req := resp.Request{Cmds: []resp.Cmd{{DB: s.db, Args: args}}}
	if leaf.Flags&(resp.Write|resp.MayReplicate) != 0 {
		return s.apply([]resp.Request{req})[0].Replies[0]
	}
	at := s.at
	at.Index, at.Seed = 0, seed(s.at.Index+1)
	seen := s.m.View(at, req).Replies[0]
	applied := s.apply([]resp.Request{req})
	if b := applied[0].Replies[0]; !bytes.Equal(seen.AppendTo(nil, 3), b.AppendTo(nil, 3)) {
		s.t.Errorf("%q: View answers %q, Apply %q", args, show(seen), show(b))
	}
	return seen
}

// apply is one entry of the log.
func (s *stage) apply(reqs []resp.Request) []resp.Result {
	s.at.Index++
	s.at.Seed = seed(s.at.Index)
	results, msgs := s.m.Apply(s.at, reqs)
	s.events = append(s.events, published(msgs)...)
	s.news = append(s.news, newsIn(msgs)...)
	s.changed = append(s.changed, changedKeys(msgs)...)
	s.hear(msgs)
	return results
}

func seed(index uint64) uint64 { return index * 0x9e3779b97f4a7c15 }

// show writes a reply in redis-cli's notation.
func show(r resp.Reply) []string { return notation.Lines(r) }
