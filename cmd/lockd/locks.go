package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"lockd/cmd/lockd/operate"
	"lockd/cmd/lockd/show"
	"lockd/internal/client"
	"lockd/internal/locks"
	"lockd/resp"
)

// askFlags select the cluster and the database to ask about; locks and top share them.
type askFlags struct {
	clusterFlags `embed:""`

	DB int `name:"db" default:"0" help:"Database of the locks (default: ${default})." placeholder:"N"`
}

func (f *askFlags) check() error {
	if f.DB < 0 {
		return usagef("--db %d is negative", f.DB)
	}
	return f.clusterFlags.check()
}

// cluster is a client of the database that is asked about.
func (f *askFlags) cluster(program string) *client.Cluster {
	c := f.client(program, f.Addr...)
	c.DB = f.DB
	return c
}

// client returns a client whose name appears in the history of a lock that it ends.
func (f *clusterFlags) client(program string, addrs ...string) *client.Cluster {
	host, _ := os.Hostname() // "" will do
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, program+":"+os.Getenv("USER")+"@"+host)
	return &client.Cluster{Addrs: addrs, User: f.User, Password: f.Auth, TLS: f.secured, Name: name}
}

// locksCmd asks one question about locks, in the words of LOCKS.
type locksCmd struct {
	askFlags `embed:""`

	JSON bool `name:"json" help:"Print the whole answer as JSON instead of a table."`

	List    locksListCmd    `cmd:"" default:"1" help:"List the locks that are held now, the longest first (the default)."`
	Info    locksKeyCmd     `cmd:"" help:"Show who holds a lock, and who waits for it."`
	History locksHistoryCmd `cmd:"" help:"Show what has become of a lock, the newest last."`
	Why     locksWhyCmd     `cmd:"" help:"Say in a sentence what has become of a token's lock."`
	Force   locksForceCmd   `cmd:"" help:"End a lock for all who hold it, or for one, and write down why."`
	Graph   locksBareCmd    `cmd:"" help:"Show who waits for whom."`
	Doctor  locksBareCmd    `cmd:"" help:"Say what is wrong with how the programs lock."`
	Advice  locksAdviceCmd  `cmd:"" help:"Show how long locks are held and waited for, and the lease that would do."`

	asked locksQuestion // the one of them that was asked
}

// locksQuestion is one subcommand of lockd locks.
type locksQuestion interface {
	// words returns the arguments of LOCKS.
	words() []string
	// lines formats the answer, which is no error. A non-empty none is printed instead of lines, with exit status 1:
	// there is nothing to show.
	lines(r resp.Reply, width int) (lines []string, none string, err error)
}

// longQuestion is a question whose answer may exceed one reply.
type longQuestion interface {
	locksQuestion
	// all reports whether all of it is wanted.
	all() bool
	// join joins the pieces of an answer, at least one.
	join(pieces []resp.Reply) resp.Reply
}

// pieceCount is the COUNT of a piece.
const pieceCount = 1000

type locksListCmd struct {
	Match  string        `help:"Only keys that match a pattern." placeholder:"PATTERN"`
	Count  int           `default:"100" help:"No more locks than this (default: ${default})." placeholder:"N"`
	All    bool          `help:"All locks, whatever --count is: they are asked for in pieces."`
	Held   time.Duration `help:"Only locks that have been held for so long, such as 1m." placeholder:"DURATION"`
	Waited bool          `help:"Only locks that somebody waits for."`
}

type locksKeyCmd struct {
	Key string `arg:"" help:"Key of the lock."`
}

type locksHistoryCmd struct {
	Key   string `arg:"" help:"Key of the lock."`
	From  string `help:"The first time: 14:03, 2026-11-22T14:03:07.212Z (UTC) or -10m." placeholder:"TIME"`
	To    string `help:"The last time, likewise." placeholder:"TIME"`
	Count int    `default:"100" help:"No more events than this, the newest (default: ${default})." placeholder:"N"`
	All   bool   `help:"All events, whatever --count is: they are asked for in pieces."`
}

type locksWhyCmd struct {
	Key   string `arg:"" help:"Key of the lock."`
	Token string `arg:"" help:"The token, in full or as much as is shown of it."`
}

type locksForceCmd struct {
	Key    string `arg:"" help:"Key of the lock."`
	Token  string `help:"End it for the holder of this token only, in full or as much as is shown of it." placeholder:"TOKEN"`
	Fence  uint64 `help:"End it only if it is held with this fence still." placeholder:"N"`
	Reason string `required:"" help:"Why; it is written down." placeholder:"TEXT"`
}

type locksBareCmd struct{ command string }

type locksAdviceCmd struct {
	Pattern string `arg:"" optional:"" help:"Only keys that match a pattern."`
}

// check takes the question out of the words of the command line.
func (c *locksCmd) check(words string) error {
	name, _, _ := strings.Cut(words, " ")
	c.Graph.command, c.Doctor.command = "GRAPH", "DOCTOR"
	c.asked = map[string]locksQuestion{
		"list": c.List, "info": c.Info, "history": c.History, "why": c.Why, "force": c.Force,
		"graph": c.Graph, "doctor": c.Doctor, "advice": c.Advice,
	}[name]
	switch {
	case c.List.Count < 1:
		return usagef("--count %d is not positive", c.List.Count)
	case c.History.Count < 1:
		return usagef("--count %d is not positive", c.History.Count)
	case c.List.Held < 0:
		return usagef("--held %s is negative", c.List.Held)
	case name == "force" && c.Force.Reason == "":
		return usagef("--reason is empty")
	}
	return c.askFlags.check()
}

// run asks, and prints the answer.
func (c *locksCmd) run(ctx context.Context, stdout, _ io.Writer) error {
	cluster := c.cluster("lockd-locks")
	defer cluster.Close()
	r, err := c.ask(ctx, cluster)
	switch {
	case errors.Is(err, client.ErrUnknown):
		return fmt.Errorf("%w: lockd locks history says it", err)
	case err != nil:
		return fmt.Errorf("no server answers: %w", err)
	case r.IsErr():
		return operate.Refused(r.Str)
	}
	lines, none, err := c.asked.lines(r, outputWidth(stdout))
	switch {
	case err != nil:
		return err
	case c.JSON:
		_, err = io.WriteString(stdout, show.JSON(r))
	case len(lines) > 0:
		_, err = io.WriteString(stdout, strings.Join(lines, "\n")+"\n")
	}
	if err == nil && none != "" {
		return errors.New(none)
	}
	return err
}

// ask sends the question, and repeats it for the further pieces of a long answer.
func (c *locksCmd) ask(ctx context.Context, cluster *client.Cluster) (resp.Reply, error) {
	words := append([]string{"LOCKS"}, c.asked.words()...)
	if _, once := c.asked.(locksForceCmd); once {
		return cluster.DoOnce(ctx, words...)
	}
	long, ok := c.asked.(longQuestion)
	if !ok || !long.all() {
		return cluster.DoIdempotent(ctx, words...)
	}
	var pieces []resp.Reply
	for cursor := "0"; ; {
		r, err := cluster.DoIdempotent(ctx, slices.Concat(words, []string{"CURSOR", cursor})...)
		if err != nil || r.IsErr() {
			return r, err
		}
		next, piece := locks.Piece(r)
		if pieces = append(pieces, piece); next == "0" {
			return long.join(pieces), nil
		}
		cursor = next
	}
}

// plainWidth is the width of output that does not go to a terminal.
const plainWidth = 80

// outputWidth is the width of the terminal that w is, or plainWidth.
func outputWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return plainWidth
}

func (c locksListCmd) words() []string {
	words := []string{"LIST", "COUNT", strconv.Itoa(countOf(c.All, c.Count))}
	if c.Match != "" {
		words = append(words, "MATCH", c.Match)
	}
	if c.Held > 0 {
		words = append(words, "HELD", strconv.FormatInt(c.Held.Milliseconds(), 10))
	}
	if c.Waited {
		words = append(words, "WAITED")
	}
	return words
}

// countOf is the COUNT of a question.
func countOf(all bool, count int) int {
	if all {
		return pieceCount
	}
	return count
}

func (c locksListCmd) all() bool { return c.All }

// join puts the locks of all pieces in the order of one list: the longest first.
func (c locksListCmd) join(pieces []resp.Reply) resp.Reply {
	var all []resp.Reply
	for _, p := range pieces {
		all = append(all, p.Elems...)
	}
	list, err := locks.ParseList(resp.Array(all...))
	if err != nil {
		return resp.Array(all...) // the formatter of the answer reports the fault
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return list[a].Since().Compare(list[b].Since()) })
	sorted := make([]resp.Reply, len(all))
	for i, from := range order {
		sorted[i] = all[from]
	}
	return resp.Array(sorted...)
}

func (c locksListCmd) lines(r resp.Reply, width int) (lines []string, none string, err error) {
	list, err := locks.ParseList(r)
	switch {
	case err != nil:
		return nil, "", err
	case len(list) == 0:
		return []string{"No such lock is held now."}, "", nil
	case len(list) == c.Count && !c.All:
		more := fmt.Sprintf("These are the first %d: --all shows the others too.", c.Count)
		return append(show.List(list, width), "", more), "", nil
	}
	return show.List(list, width), "", nil
}

func (c locksKeyCmd) words() []string { return []string{"INFO", c.Key} }

func (c locksKeyCmd) lines(r resp.Reply, width int) (lines []string, none string, err error) {
	info, err := locks.ParseInfo(c.Key, r)
	switch {
	case err != nil:
		return nil, "", err
	case info == nil:
		return nil, show.Escape(c.Key) + " is no lock now: lockd locks history says what it was", nil
	}
	return show.Info(info, time.Now(), width), "", nil
}

func (c locksHistoryCmd) words() []string {
	words := []string{"HISTORY", c.Key, "COUNT", strconv.Itoa(countOf(c.All, c.Count))}
	if c.From != "" {
		words = append(words, "FROM", c.From)
	}
	if c.To != "" {
		words = append(words, "TO", c.To)
	}
	return words
}

func (c locksHistoryCmd) all() bool { return c.All }

// join puts the events of all pieces behind each other. The last piece knows since when nothing is missing.
func (c locksHistoryCmd) join(pieces []resp.Reply) resp.Reply {
	var events []resp.Reply
	for _, p := range pieces {
		events = append(events, locks.FieldOf(p, "events").Elems...)
	}
	since := locks.FieldOf(pieces[len(pieces)-1], "known-since")
	return resp.Map(resp.Bulk("known-since"), since, resp.Bulk("events"), resp.Array(events...))
}

func (c locksHistoryCmd) lines(r resp.Reply, width int) (lines []string, none string, err error) {
	h, err := locks.ParseHistory(r)
	switch {
	case err != nil:
		return nil, "", err
	case h.KnownSince.IsZero():
		return nil, "no history of locks is kept: see lock-history-max-events", nil
	case len(h.Events) == 0:
		return nil, "nothing is known of " + show.Escape(c.Key) + " in that time: what is known begins at " +
			h.KnownSince.Format(time.RFC3339), nil
	}
	return show.History(&h, time.Now(), width), "", nil
}

func (c locksWhyCmd) words() []string { return []string{"WHY", c.Key, c.Token} }

func (c locksWhyCmd) lines(r resp.Reply, width int) (lines []string, none string, err error) {
	if said, known := locks.ParseWhy(r); !known {
		return nil, show.Escape(said), nil
	}
	return show.Value(r, width), "", nil
}

func (c locksForceCmd) words() []string {
	words := []string{"FORCE", c.Key, "REASON", c.Reason}
	if c.Token != "" {
		words = append(words, "TOKEN", c.Token)
	}
	if c.Fence > 0 {
		words = append(words, "FENCE", strconv.FormatUint(c.Fence, 10))
	}
	return words
}

func (c locksForceCmd) lines(r resp.Reply, _ int) (lines []string, none string, err error) {
	switch r.Int {
	case 0:
		return nil, "nobody held " + show.Escape(c.Key) + ", or not by that token: nothing was done", nil
	case 1:
		return []string{show.Escape(c.Key) + " has been taken from its holder."}, "", nil
	}
	return []string{fmt.Sprintf("%s has been taken from its %d holders.", show.Escape(c.Key), r.Int)}, "", nil
}

func (c locksBareCmd) words() []string { return []string{c.command} }

func (c locksBareCmd) lines(r resp.Reply, width int) (lines []string, none string, err error) {
	return anyLines(r, width), "", nil
}

// anyLines are the lines of an answer whose form is not known.
func anyLines(r resp.Reply, width int) []string {
	if lines := show.Value(r, width); len(lines) > 0 {
		return lines
	}
	return []string{"There is nothing to say."}
}

func (c locksAdviceCmd) words() []string {
	if c.Pattern == "" {
		return []string{"ADVICE"}
	}
	return []string{"ADVICE", c.Pattern}
}

func (c locksAdviceCmd) lines(r resp.Reply, width int) (lines []string, none string, err error) {
	return anyLines(r, width), "", nil
}
