package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/model"
	"lockd/jepsen-lite/nemesis"
	"lockd/jepsen-lite/report"
	"lockd/jepsen-lite/target"
)

// portless is a target whose nodes have no fault ports if err is set.
type portless struct {
	target.Target
	err error
}

func (portless) Nodes() []string { return []string{"n1"} }

func (p portless) Fault(string, string) (string, error) { return "", p.err }

// Without fault ports, nemeses that need them are refused, or left out if only "all" chose them.
func TestFaultPorts(t *testing.T) {
	none := errors.New("connection refused")
	for _, c := range []struct {
		nemesis []string
		err     error
		want    string // of the error
		left    []string
	}{
		{[]string{"kill", "point"}, nil, "", []string{"kill", "point"}},
		{[]string{"kill", "point"}, none, "--nemesis point: the fault port of node n1 does not answer (connection refused)", nil},
		{[]string{"all", "point"}, none, "--nemesis point: ", nil},
		{[]string{"kill"}, none, "", []string{"kill"}},
	} {
		var out strings.Builder
		s := &session{cmd: &runCmd{Nemesis: c.nemesis}, out: &out, target: portless{err: c.err}, kinds: slices.DeleteFunc(slices.Clone(c.nemesis), func(k string) bool { return k == "all" })}
		err := s.checkFaultPorts()
		if c.want == "" && (err != nil || !slices.Equal(s.kinds, c.left) || out.Len() > 0) || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%v: %v, left %v, said %q", c.nemesis, err, s.kinds, out.String())
		}
	}
	var out strings.Builder
	s := &session{cmd: &runCmd{Nemesis: []string{"all"}}, out: &out, target: portless{err: none}, kinds: []string{"kill", "point", "clock"}}
	if err := s.checkFaultPorts(); err != nil || !slices.Equal(s.kinds, []string{"kill"}) || !strings.HasPrefix(out.String(), "left out: point, clock: ") {
		t.Errorf("all: %v, left %v, said %q", err, s.kinds, out.String())
	}
}

// stillborn is a target whose node ends at each start.
type stillborn struct {
	target.Target
	deaths []string
}

func (s *stillborn) Deaths() []string { return s.deaths }

func (s *stillborn) Start(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A node that ends at its start is not waited for; the error has its last lines.
func TestStartOfNodeThatEnds(t *testing.T) {
	for _, c := range []struct {
		deaths []string
		want   string
		after  time.Duration
	}{
		{[]string{"n1 ended by itself: exit status 1: address already in use"}, "the nodes do not start: n1 ended by itself: exit status 1: address already in use", startLook},
		{nil, context.DeadlineExceeded.Error(), startMax},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := (&session{target: &stillborn{deaths: c.deaths}}).start(t.Context())
			if err == nil || err.Error() != c.want || time.Since(began) != c.after {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		})
	}
}

// graveyard is a target with nodes that have died and refuse to start.
type graveyard struct {
	target.Target
	dead   []string
	deaths []string // until they are taken
	fork   error
}

func (g *graveyard) Nodes() []string                 { return []string{"n1", "n2", "n3"} }
func (g *graveyard) Dead() []string                  { return g.dead }
func (g *graveyard) Converged(context.Context) error { return g.fork }
func (g *graveyard) Races() []string                 { return nil }
func (g *graveyard) Ends() (e target.Ends)           { return e }
func (g *graveyard) Net() *target.Net                { return target.NewNet() }

func (g *graveyard) Healthy(context.Context) error {
	if len(g.deaths) > 0 {
		return errors.New("node n2 takes no write: it does not run")
	}
	return nil
}

func (g *graveyard) Deaths() (taken []string) {
	taken, g.deaths = g.deaths, nil
	return taken
}

// A node that refuses to start is one problem, of the workload in which it died; problems that follow from it are not
// added. The states of the others are compared while they are a majority.
func TestInspectDead(t *testing.T) {
	died := []string{"n2 ended by itself: exit status 1"}
	fork := errors.New("states differ at index 7")
	for _, c := range []struct {
		target    graveyard
		kinds     string
		undecided int
	}{
		{graveyard{}, "", 0},
		{graveyard{fork: fork}, "states differ", 0},
		{graveyard{deaths: died}, "a node died, not healthy", 0},
		{graveyard{deaths: died, dead: []string{"n2"}}, "a node died", 0},
		{graveyard{deaths: died, dead: []string{"n2"}, fork: fork}, "a node died, states differ", 0},
		{graveyard{deaths: died, dead: []string{"n2", "n3"}, fork: fork}, "a node died", 1},
	} {
		s, v := &session{cmd: &runCmd{}, target: &c.target}, &model.Verdict{}
		s.inspect(t.Context(), history.NewRecorder(io.Discard, time.Now()), v)
		var kinds []string
		for _, p := range v.Problems {
			kinds = append(kinds, p.Kind)
		}
		if got := strings.Join(kinds, ", "); got != c.kinds || len(v.Undecided) != c.undecided || !slices.Equal(s.dead, c.target.dead) {
			t.Errorf("%+v: %s, undecided %q, dead %q", c.target, got, v.Undecided, s.dead)
		}
		want := map[string]int{"nodes-healthy": 3, "processes-live": 3, "states-equal": 1, "deaths-are-true": 0}
		if c.undecided == 0 && !maps.Equal(v.AtStake, want) {
			t.Errorf("%+v: at stake %v", c.target, v.AtStake)
		}
	}
}

// A run whose proxies met a message that they cannot read is undecided.
func TestUnreadStreams(t *testing.T) {
	for n, undecided := range []int{0, 1, 1} {
		v := &model.Verdict{}
		if unreadStreams(v, n); len(v.Undecided) != undecided {
			t.Errorf("%d streams: %q", n, v.Undecided)
		}
	}
}

// The workloads after the one in which a node died for good are skipped. The report says so once, with the name of that
// workload, and the run has not passed.
func TestDeadNodeSpoilsNoVerdict(t *testing.T) {
	s := &session{workloads: []string{"register", "lock", "set", "list"}}
	ran := ""
	results, err := s.each(t.Context(), func(name string, turn uint64) (report.Result, error) {
		ran += fmt.Sprint(name, turn, " ")
		v := &model.Verdict{}
		if name == "lock" {
			s.dead = []string{"n2"}
			v.Add("a node died", nil, "n2 ended by itself")
		}
		return report.Result{Workload: name, History: &history.History{}, Verdict: v}, nil
	})
	if err != nil || ran != "register0 lock1 " || len(results) != 4 || report.Passed(results) || report.Passed(results[2:]) {
		t.Errorf("%v, ran %s, results %+v", err, ran, results)
	}
	var said strings.Builder
	report.Table(&said, results)
	const why = "n2 died in lock and refuses to start"
	for text, times := range map[string]int{
		why + ": not run, and so undecided: set, list\n": 1, why: 1, "UNDECIDED\n": 2, "FAILED: a node died\n": 1, "lock: a node died: ": 1,
	} {
		if strings.Count(said.String(), text) != times {
			t.Errorf("not %d times %q in\n%s", times, text, said.String())
		}
	}
	page := filepath.Join(t.TempDir(), "report.html")
	if err := report.Page(page, "", results); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(page); err != nil || strings.Count(string(text), "Not run: "+why) != 2 {
		t.Errorf("%v: %s", err, text)
	}
}

// The command that repeats a run has all that its command line had, in words that a shell gives to jepsen-lite as they
// were. The folder of the run is not among them: what it has would be lost. Nor is a server that was built for the run.
func TestAgain(t *testing.T) {
	const always = " --nodes 3 --workers 12 --rate 300 --seed 7"
	for given, want := range map[string]string{
		"--time 1m --workload lock --nemesis none --mixed --plant skip-sync --out x": "--time 1m0s --workload lock --nemesis none" + always + " --mixed --plant skip-sync",
		"--workload lock,set --nemesis scenario:save-twice --nodes 5 --workers 1 --rate 9 --schedule a/b.json --judge safety --state 5 --race --target redis-sentinel --tls --from v0.1.0 --keep --again 3": "--time 0s --workload lock,set --nemesis scenario:save-twice --nodes 5 --workers 1 --rate 9 --seed 7 --schedule a/b.json --judge safety --state 5 --race --target redis-sentinel --tls --from v0.1.0 --keep --again 3",
		`--binary 'my servers/lockd' '--args=--save,--name="it'\''s",--a\,b'`: "--time 0s --workload all --nemesis kill,pause,partition" + always + ` --binary 'my servers/lockd' --args=--save '--args=--name="it'\''s"' '--args=--a\,b'`,
	} {
		c := parsed(t, given+" --seed 7")
		c.built = "server"
		got := c.again()
		if got != "go run ./jepsen-lite "+want {
			t.Errorf("%s\nagain: %s\nwant:  %s", given, got, want)
		}
		again := parsed(t, strings.TrimPrefix(got, "go run ./jepsen-lite "))
		if again.Out, again.built = c.Out, c.built; !reflect.DeepEqual(again, c) {
			t.Errorf("%s\nis %+v\nwas %+v", got, again, c)
		}
	}
}

// parsed returns a run as a shell and jepsen-lite take a command line.
func parsed(t *testing.T, line string) *runCmd {
	t.Helper()
	words, err := exec.Command("sh", "-c", `printf '%s\n' `+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	var c cli
	parser, err := kong.New(&c)
	if err == nil {
		_, err = parser.Parse(strings.Split(strings.TrimSuffix(string(words), "\n"), "\n"))
	}
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return &c.Run
}

// Faults that need a second build are refused beside a server that is given, or left out if only "all" chose them. A
// server that was built for several runs is not given.
func TestBuildsBesideBinary(t *testing.T) {
	for _, c := range []struct{ nemesis, refused string }{
		{"build", "--nemesis build: it takes a build like the server's own"},
		{"kill,upgrade:back", "--nemesis upgrade: it takes a build like the server's own"},
		{"all", ""},
	} {
		var out strings.Builder
		s := &session{out: &out, cmd: &runCmd{Binary: "/bin/lockd", Workload: []string{"lock"}, Nemesis: strings.Split(c.nemesis, ","),
			Nodes: 3, Workers: 1, Rate: 1, Target: "lockd"}}
		kind, err := s.check()
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.moreBuilds(kind, s.cmd.Binary)
		if (err != nil) != (c.refused != "") || err != nil && !strings.HasPrefix(err.Error(), c.refused) {
			t.Errorf("%s: %v", c.nemesis, err)
		}
		left := slices.ContainsFunc(s.kinds, func(k string) bool { return k == "build" || k == "upgrade" })
		if said := out.String(); c.refused == "" && (left || !strings.Contains(said, "left out: build: it takes") || !strings.Contains(said, "left out: upgrade: it takes")) {
			t.Errorf("%s: kinds %q, said %s", c.nemesis, s.kinds, said)
		}
	}
	if c := (&runCmd{built: "x"}); c.server() != "x" || (&runCmd{built: "x", Binary: "y"}).server() != "y" {
		t.Error("the server of several runs is not used")
	}
}

// With the race detector the server is built so, also in the command that repeats the run, and only safety is judged.
func TestRaceRun(t *testing.T) {
	c := &runCmd{Workload: []string{"nothing"}, Target: "lockd", Judge: "all", Race: true}
	if err := (&session{cmd: c}).prepare(); err == nil {
		t.Error("a workload that nobody knows")
	}
	if !slices.Equal(c.buildFlags(), []string{"-race"}) || c.Judge != judgeSafety || !strings.Contains(c.again(), " --judge safety --race") {
		t.Errorf("flags %q, judged for %s, again %s", c.buildFlags(), c.Judge, c.again())
	}
}

// A nemesis may be one variant of a kind; "all" contains it already.
func TestNemesisVariant(t *testing.T) {
	for given, want := range map[string]string{
		"kill:leader,slow": "kill:leader,slow", "kill:nobody": "", "leader": "",
	} {
		s := &session{cmd: &runCmd{Time: time.Second, Workload: []string{"lock"}, Nemesis: strings.Split(given, ","), Nodes: 1, Workers: 1, Rate: 1, Target: "lockd"}}
		if _, err := s.check(); (err == nil) != (want != "") || err == nil && strings.Join(s.kinds, ",") != want {
			t.Errorf("%s: %v, %v", given, s.kinds, err)
		}
	}
}

// With TLS no fault looks into messages between nodes: a named one is refused, and those of "all" or of a kind are left
// out, which the run tells.
func TestSealed(t *testing.T) {
	check := func(given string, c *runCmd) (*session, error) {
		c.Time, c.Workload, c.Nodes, c.Workers, c.Rate, c.TLS = time.Second, []string{"lock"}, 1, 1, 1, true
		c.Nemesis = strings.Split(given, ",")
		s := &session{cmd: c}
		_, err := s.check()
		return s, err
	}
	for given, refused := range map[string]string{
		"kill,frame":          "--tls: the nemesis frame looks into the messages between nodes, which TLS hides",
		"frame:vote":          "--tls: the nemesis frame:vote looks into",
		"scenario:save-twice": "--tls: the nemesis scenario:save-twice looks into",
		"scenario:join":       "",
		"scenario":            "",
		"all":                 "",
	} {
		s, err := check(given, &runCmd{Target: "lockd"})
		if (err != nil) != (refused != "") || err != nil && !strings.HasPrefix(err.Error(), refused) {
			t.Errorf("%s: %v", given, err)
		}
		if err != nil {
			continue
		}
		for _, step := range nemesis.Plan(1, time.Hour, s.kinds, true, (*nemesis.Kind).Reads) {
			for _, f := range step.Faults {
				if slices.Contains(nemesis.Find(f.Kind).Reads(), f.Variant) {
					t.Errorf("%s: the plan has %s %s", given, f.Kind, f.Variant)
				}
			}
		}
		if left := strings.Join(s.hidden, " "); given == "scenario" && left != "scenario:save-twice scenario:mute scenario:stale" ||
			given == "all" && left != "late:overtaken-hand-over frame scenario:save-twice scenario:mute scenario:stale deposed" {
			t.Errorf("%s: leaves out %q", given, left)
		}
	}
	if _, err := check("kill", &runCmd{Target: "redis-sentinel"}); err == nil || !strings.Contains(err.Error(), "no TLS here") {
		t.Errorf("the control: %v", err)
	}
	for variant, ok := range map[string]bool{"stale": false, "join": true} {
		file := filepath.Join(t.TempDir(), scheduleFile)
		if err := writeJSON(file, schedule{Steps: []nemesis.Step{{Faults: []nemesis.Fault{{Kind: "scenario", Variant: variant}}}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := check("none", &runCmd{Target: "lockd", Schedule: file}); (err == nil) != ok {
			t.Errorf("a schedule with the scenario %s: %v", variant, err)
		}
	}
	if c := (&runCmd{TLS: true, Target: "lockd"}); !strings.HasSuffix(c.again(), " --tls") || !c.scheduleOf(1, time.Time{}, 0, nil).TLS {
		t.Errorf("again: %s", c.again())
	}
}

// An unknown bug is refused with the list of the known ones.
func TestPlantUnknown(t *testing.T) {
	s := &session{cmd: &runCmd{Plant: "nothing"}}
	if err := s.prepare(); err == nil || !strings.Contains(err.Error(), `there is no bug "nothing" to plant: choose from ack-before-commit, `) {
		t.Errorf("error %v", err)
	}
}
