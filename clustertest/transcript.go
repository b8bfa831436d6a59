package clustertest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/resp"
	"lockd/resp/notation"
)

// Run plays a transcript, a file, in a bubble of virtual time, and compares each reply. If the test has a flag
// "rewrite", and it is set, Run writes the replies into the file instead; lines with * or $name that match stay.
func Run(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	record := flag.Lookup("rewrite")
	rewrite := record != nil && record.Value.String() == "true"
	got := play(t, path, string(text), rewrite)
	if rewrite && !t.Failed() {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// RunText plays a transcript as Run does. name stands before its lines in what the test says.
func RunText(t *testing.T, name, text string) {
	t.Helper()
	play(t, name, text, false)
}

// play runs the transcript and returns it with the actual replies. It stops at the first reply that differs from the
// expected one, unless rewrite is set.
func play(t *testing.T, name, text string, rewrite bool) (got string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t, name, text)
		p.rewrite = rewrite
		if err := p.play(); err != nil {
			t.Fatal(err)
		}
		got = strings.Join(p.out, "\n") + "\n"
	})
	return got
}

// player plays one transcript.
type player struct {
	t       *testing.T
	name    string
	lines   []string
	at      int // the line after the one that is played
	rewrite bool
	out     []string
	cluster *Cluster
	clients map[string]*Client // by name
	calls   map[string]*Call   // by name: those whose answers were not asked for yet
	bound   map[string]string  // what $name stands for
}

func newPlayer(t *testing.T, name, text string) *player {
	return &player{
		t: t, name: name, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n"),
		clients: map[string]*Client{}, calls: map[string]*Call{}, bound: map[string]string{},
	}
}

func (p *player) play() error {
	for p.at < len(p.lines) {
		line := p.lines[p.at]
		p.at++
		p.out = append(p.out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := p.at
		if err := p.line(line); err != nil {
			return fmt.Errorf("%s:%d: %s\n%w", p.name, at, line, err)
		}
	}
	for name := range p.calls {
		return fmt.Errorf("%s: the answer of %s is not asserted: write a line \"%s: REPLY\", or \"hangup %s\"",
			p.name, name, name, name)
	}
	for name, c := range p.clients {
		if pushed := c.Pushed(); len(pushed) > 0 {
			return fmt.Errorf("%s: what %s has heard is not asserted: write \"hears %s\", and below it\n%s",
				p.name, name, name, strings.Join(pushed, "\n"))
		}
	}
	return nil
}

// line plays a line, and compares what it answers.
func (p *player) line(line string) error {
	if rest, ok := strings.CutPrefix(line, "> "); ok {
		return p.command(rest)
	}
	if name, want, ok := p.answerOf(line); ok {
		return p.answer(name, want)
	}
	words := strings.Fields(line)
	run, ok := p.words()[words[0]]
	switch {
	case !ok:
		return errors.New("what is this line? A transcript has commands (> n1 GET key), their replies right below them, " +
			"answers of commands in the background (NAME: REPLY), and the words listed in the comment of package clustertest")
	case p.cluster == nil && words[0] != "nodes":
		return errors.New("a transcript begins with the line \"nodes N\"")
	}
	return run(words[1:])
}

// command sends a command to a node, or for a client: "n1 [name:] WORD ... [&]", "alice WORD ... [&]".
func (p *player) command(text string) error {
	words, ok := resp.SplitWords(text)
	if !ok || len(words) < 2 {
		return errors.New("a command is written \"> n1 WORD ...\"")
	}
	if p.cluster == nil {
		return errors.New("a transcript begins with the line \"nodes N\"")
	}
	whom, words := words[0], p.filled(words[1:])
	c := p.clients[whom]
	name := ""
	if given, isName := strings.CutSuffix(words[0], ":"); isName && c == nil {
		name, words = given, words[1:]
	}
	if p.calls[whom] != nil && c != nil {
		return fmt.Errorf("%s waits for an answer: write a line \"%s: REPLY\" before", whom, whom)
	}
	last := len(words) - 1
	if last < 0 || words[last] != "&" {
		if name != "" {
			return errors.New("only a command that ends with & has a name")
		}
		return p.reply(whom, words)
	}
	words = words[:last]
	switch {
	case c != nil:
		name = whom
	case name == "" && len(words) > 2:
		name = words[2] // LOCK key token
	}
	if name == "" || p.calls[name] != nil || c == nil && p.clients[name] != nil {
		return fmt.Errorf("a command in the background needs a name of its own: > %s NAME: %s &",
			whom, strings.Join(words, " "))
	}
	if c == nil {
		c = p.cluster.Node(whom).Connect()
	}
	p.calls[name] = c.Go(words...)
	settle(p.cluster)
	return nil
}

var variable = regexp.MustCompile(`\$[a-z][a-z0-9]*`)

// filled replaces each $name that is bound by its word.
func (p *player) filled(words []string) []string {
	for i := range words {
		words[i] = variable.ReplaceAllStringFunc(words[i], func(name string) string {
			return cmp.Or(p.bound[name[1:]], name)
		})
	}
	return words
}

// reply sends a command, and compares its reply.
func (p *player) reply(whom string, words []string) error {
	var got string
	if c := p.clients[whom]; c != nil {
		got = c.Do(words...)
	} else {
		got = p.cluster.Node(whom).Do(words...)
	}
	settle(p.cluster)
	return p.compare(p.expected(), "", strings.Split(got, "\n"))
}

// answerOf reports whether a line asserts what a command in the background was answered.
func (p *player) answerOf(line string) (name, want string, ok bool) {
	name, want, ok = strings.Cut(line, ": ")
	return name, want, ok && p.calls[name] != nil
}

func (p *player) answer(name, want string) error {
	call := p.calls[name]
	prefix := name + ": "
	if want == Waits {
		if call.Waits() {
			return nil
		}
		return p.compare([]string{want}, prefix, strings.Split(call.Answer(), "\n"))
	}
	got := strings.Split(call.Answer(), "\n")
	delete(p.calls, name)
	if p.clients[name] == nil {
		call.HangUp()
	}
	settle(p.cluster)
	wanted := []string{want}
	for _, line := range p.expected() {
		wanted = append(wanted, strings.TrimPrefix(line, strings.Repeat(" ", len(prefix))))
	}
	return p.compare(wanted, prefix, got)
}

// expected takes the lines of a reply that follow.
func (p *player) expected() (lines []string) {
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		word, _, _ := strings.Cut(line, " ")
		_, _, isAnswer := p.answerOf(line)
		if line == "" || line[0] == '#' || word == ">" || isAnswer || p.words()[word] != nil {
			break
		}
		lines = append(lines, line)
	}
	return lines
}

// compare compares the lines of a reply. prefix stands before the first of them in the transcript.
func (p *player) compare(want []string, prefix string, got []string) error {
	matches := p.matchLines(want, got)
	written := got
	if matches {
		written = want
	}
	if prefix != "" {
		p.out = p.out[:len(p.out)-1] // the line with the first of them
	}
	p.out = append(p.out, notation.Indent(prefix, written)...)
	if matches || p.rewrite {
		return nil
	}
	return fmt.Errorf("want  %s%s\ngot   %s", strings.Join(want, "\n      "), p.meaning(want), strings.Join(got, "\n      "))
}

// meaning says what the names in expected lines are bound to, for whoever reads that they differ.
func (p *player) meaning(want []string) (text string) {
	for _, name := range wild.FindAllString(strings.Join(want, " "), -1) {
		if value, known := p.bound[name[1:]]; known {
			text += fmt.Sprintf(" (%s = %s)", name, value)
		}
	}
	return text
}

// matchLines compares the lines of a reply. A line of dots stands for any lines.
func (p *player) matchLines(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case strings.TrimLeft(want[0], " ") == "...":
		return p.matchLines(want[1:], got) || len(got) > 0 && p.matchLines(want, got[1:])
	}
	return len(got) > 0 && p.matches(want[0], got[0]) && p.matchLines(want[1:], got[1:])
}

var wild = regexp.MustCompile(`\$[a-z][a-z0-9]*|\*`)

// matches compares a line of the answer with the expected line. In the expected line $name matches the word bound to
// name, or binds it to any word the first time; * matches any text.
func (p *player) matches(want, got string) bool {
	if want == got {
		return true
	}
	var fresh []string
	form, from := "^", 0
	for _, at := range wild.FindAllStringIndex(want, -1) {
		form += regexp.QuoteMeta(want[from:at[0]])
		name := want[at[0]+1 : at[1]]
		value, known := p.bound[name]
		switch {
		case name == "":
			form += ".*"
		case known:
			form += regexp.QuoteMeta(value)
		default:
			form += `(\S+)`
			fresh = append(fresh, name)
		}
		from = at[1]
	}
	found := regexp.MustCompile(form + regexp.QuoteMeta(want[from:]) + "$").FindStringSubmatch(got)
	for i, name := range fresh {
		if found != nil {
			p.bound[name] = found[i+1]
		}
	}
	return found != nil
}

// words are the words that a line may begin with, and what they do.
func (p *player) words() map[string]func(args []string) error {
	c := p.cluster
	return map[string]func(args []string) error{
		"nodes":         p.start,
		"kill":          each(c.Kill),
		"stop":          each(c.Stop),
		"lose-unsynced": each(c.LoseUnsynced),
		"start":         each(c.Start),
		"restart":       each(c.Restart),
		"pause":         each(c.Pause),
		"resume":        each(c.Resume),
		"cut":           p.cut,
		"heal":          none(c.Heal),
		"slow":          timed(c.Slow),
		"step-clock":    timed(c.StepClock),
		"drift-clock":   of(c, driftClock),
		"rot":           of(c, rot),
		"hang":          hang(c, true),
		"unhang":        hang(c, false),
		"strike":        of(c, strike),
		"full":          p.full(true),
		"room":          p.full(false),
		"new":           each(c.New),
		"wipe":          each(c.Wipe),
		"died":          p.died,
		"leader":        one(c.Lead),
		"transfer":      none(c.Transfer),
		"after":         p.after,
		"client":        p.client,
		"hears":         p.hears,
		"hangup":        p.hangup,
		"check":         p.check,
	}
}

func of(c *Cluster, do func(*Cluster, []string) error) func([]string) error {
	return func(args []string) error { return do(c, args) }
}

func each(do func(...string)) func([]string) error {
	return func(args []string) error {
		if len(args) == 0 {
			return errors.New("name a node, or several")
		}
		do(args...)
		return nil
	}
}

func one(do func(string)) func([]string) error {
	return func(args []string) error {
		if len(args) != 1 {
			return errors.New("name one node")
		}
		do(args[0])
		return nil
	}
}

func none(do func()) func([]string) error {
	return func(args []string) error {
		if len(args) != 0 {
			return errors.New("the word stands alone")
		}
		do()
		return nil
	}
}

func timed(do func(string, time.Duration)) func([]string) error {
	return func(args []string) error {
		if len(args) != 2 {
			return errors.New("name a node and a time, such as n1 200ms")
		}
		d, err := time.ParseDuration(args[1])
		if err == nil {
			do(args[0], d)
		}
		return err
	}
}

func (p *player) start(args []string) error {
	if len(args) != 1 || p.cluster != nil {
		return errors.New("a transcript begins with the line \"nodes N\", and has no other")
	}
	n, err := strconv.Atoi(args[0])
	if err == nil {
		p.cluster = Start(p.t, n)
	}
	return err
}

// cut separates those before the bar from those behind it; without a bar, from all that are not named.
func (p *player) cut(args []string) error {
	left, right := args, slices.DeleteFunc(p.cluster.ids(), func(id string) bool { return slices.Contains(args, id) })
	if bar := slices.Index(args, "|"); bar >= 0 {
		left, right = args[:bar], args[bar+1:]
	}
	if len(left) == 0 || len(right) == 0 {
		return errors.New("write \"cut n1\", or \"cut n1 n2 | n3\"")
	}
	for _, id := range left {
		p.cluster.Cut(id, right...)
	}
	return nil
}

func (p *player) full(full bool) func([]string) error {
	return each(func(ids ...string) {
		for _, id := range ids {
			p.cluster.Full(id, full)
		}
		time.Sleep(lookEvery)
		settle(p.cluster)
	})
}

// hang makes disks hang, or go on.
func hang(c *Cluster, hung bool) func([]string) error {
	return each(func(ids ...string) {
		for _, id := range ids {
			c.Node(id).machine.diskNow().SetHung(hung)
		}
		settle(c)
	})
}

// driftClock makes the clocks of a machine fast by parts of a million.
func driftClock(c *Cluster, args []string) error {
	if len(args) != 2 || !strings.HasSuffix(args[1], "ppm") {
		return errors.New("write a node and how fast its clocks are, such as \"drift-clock n1 100ppm\"")
	}
	ppm, err := strconv.ParseInt(strings.TrimSuffix(args[1], "ppm"), 10, 32)
	if err == nil {
		c.Node(args[0]).machine.clock.Drift(float64(ppm) / 1e6)
		settle(c)
	}
	return err
}

// rot flips a bit in a store of a node that does not run.
func rot(c *Cluster, args []string) error {
	if len(args) != 2 || !slices.Contains([]Store{Log, Votes, Snapshots}, Store(args[1])) {
		return errors.New("write a node and log, votes or snapshots, such as \"rot n1 log\"")
	}
	if c.Node(args[0]).machine.diskNow().Rot(Store(args[1])) == "" {
		return errors.New("there is nothing that could rot")
	}
	return nil
}

// strike arms a fault at a point of a node.
func strike(c *Cluster, args []string) error {
	if len(args) != 3 {
		return errors.New("write a node, a point and what happens there, such as \"strike n1 log.sync kill\"")
	}
	_, err := c.world.Arm(args[0], Strike{Point: args[1], Act: args[2]})
	return err
}

// lookEvery is longer than all nodes take to hear of a full disk: each node checks its disk once a second, then the
// leader collects the results.
const lookEvery = 3 * time.Second

func (p *player) after(args []string) error {
	if len(args) != 1 {
		return errors.New("write how long, such as \"after 2s\"")
	}
	d, err := time.ParseDuration(args[0])
	if err == nil {
		time.Sleep(d)
		synctest.Wait()
	}
	return err
}

// client opens a connection that has a name.
func (p *player) client(args []string) error {
	if len(args) != 2 || p.clients[args[0]] != nil || p.calls[args[0]] != nil {
		return errors.New("write a new name and a node, such as \"client alice n2\"")
	}
	p.clients[args[0]] = p.cluster.Node(args[1]).Connect()
	settle(p.cluster)
	return nil
}

// hears compares what a client was sent without being asked.
func (p *player) hears(args []string) error {
	if len(args) != 1 || p.clients[args[0]] == nil {
		return errors.New("name a client, such as \"hears alice\" after \"client alice n2\"")
	}
	got := p.clients[args[0]].Pushed()
	if len(got) == 0 {
		got = []string{Nothing}
	}
	return p.compare(p.expected(), "", got)
}

// died compares why a process has ended itself.
func (p *player) died(args []string) error {
	if len(args) != 1 {
		return errors.New("name one node")
	}
	return p.compare(p.expected(), "", []string{p.cluster.Died(args[0])})
}

func (p *player) hangup(args []string) error {
	if len(args) != 1 || p.calls[args[0]] == nil && p.clients[args[0]] == nil {
		return errors.New("name a client, or a command in the background")
	}
	if call := p.calls[args[0]]; call != nil {
		call.HangUp()
	} else {
		p.clients[args[0]].HangUp()
	}
	delete(p.calls, args[0])
	delete(p.clients, args[0])
	settle(p.cluster)
	return nil
}

// check compares numbers: "check $a < $b < 30".
func (p *player) check(args []string) error {
	if len(args) < 3 || len(args)%2 == 0 {
		return errors.New("write what to compare, such as \"check $a < $b\"")
	}
	for i := 0; i+2 < len(args); i += 2 {
		a, errA := p.number(args[i])
		b, errB := p.number(args[i+2])
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
		holds, known := map[string]bool{"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "=": a == b}[args[i+1]]
		if !known {
			return fmt.Errorf("%s does not compare: < > <= >= = do", args[i+1])
		}
		if !holds {
			return fmt.Errorf("%s is %d, and %s is %d", args[i], a, args[i+2], b)
		}
	}
	return nil
}

func (p *player) number(word string) (int64, error) {
	text := word
	if name, isName := strings.CutPrefix(word, "$"); isName {
		bound, known := p.bound[name]
		if !known {
			return 0, fmt.Errorf("%s stands for nothing yet", word)
		}
		text = bound
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %s, which is no number", word, text)
	}
	return n, nil
}
