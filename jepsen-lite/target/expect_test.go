package target

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockd/internal/process"
)

// shell makes a process that runs a script. It is killed at the end of the test.
func shell(t *testing.T, script string) *proc {
	t.Helper()
	p := &proc{name: "n1", path: "/bin/sh", args: []string{"-c", script}, processLog: processLog{logPath: filepath.Join(t.TempDir(), "n1.log")}}
	t.Cleanup(p.kill)
	return p
}

// waitEnd waits until the present process has ended.
func waitEnd(t *testing.T, p *proc) {
	t.Helper()
	for until := time.Now().Add(time.Minute); p.running(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the process does not end")
		}
	}
}

// Each report of the race detector is returned once, with the path of the log and the place in the code.
func TestRacesAreTold(t *testing.T) {
	p := shell(t, "")
	report := func(n int) string {
		return fmt.Sprintf("==================\nWARNING: DATA RACE\nWrite at 0x00c%d by goroutine 8:\n  lockd/x.f%d()\n      /x.go:%d +0x1\n\nPrevious read\n==================\n", n, n, n)
	}
	var text string
	for i, want := range [][]int{{}, {1, 2}, {}, {3}} {
		text += "---- start ----\n"
		for _, n := range want {
			text += report(n)
		}
		if err := os.WriteFile(p.logPath, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var wanted []string
		for _, n := range want {
			wanted = append(wanted, fmt.Sprintf("%s: Write at 0x00c%d by goroutine 8: lockd/x.f%d() /x.go:%d +0x1", p.logPath, n, n, n))
		}
		if got := p.takeRaces(); !slices.Equal(got, wanted) {
			t.Errorf("time %d: %q, want %q", i, got, wanted)
		}
	}
}

// An end is expected only if both its status and the end of its log match.
func TestExpectedEnd(t *testing.T) {
	struck := Strike{Point: LogSync, Act: ActKill}
	full := Strike{Point: LogSync, Act: ActFull}
	const trust = "the disk is full, this node stops: StoreLogs: ENOSPC"
	many := strings.Repeat("echo talk;", lastLinesMax)
	for _, c := range []struct {
		name, script string
		expect       Strike
		death        bool
	}{
		{"killed at its point", "echo fault: kill at log.sync; kill -9 $$", struck, false},
		{"killed without a word", "kill -9 $$", struck, true},
		{"killed at another point", "echo fault: kill at log.write; kill -9 $$", struck, true},
		{"struck long ago", "echo fault: kill at log.sync;" + many + "kill -9 $$", struck, true},
		{"exit instead of a kill", "echo fault: kill at log.sync; exit 1", struck, true},
		{"a failed disk", "echo fault: full at log.sync; echo '" + trust + "'; exit 1", full, false},
		{"a failed disk without its sentence", "echo fault: full at log.sync; exit 1", full, true},
		{"a panic with the sentence", "echo 'panic: " + trust + "'; exit 1", full, true},
		{"a good end that nobody asked for", "echo '" + trust + "'; exit 0", full, true},
	} {
		// The script waits for the expectation.
		p := shell(t, "while [ ! -e $LOG.go ]; do sleep 0.01; done; "+c.script)
		p.env = []string{"LOG=" + p.logPath}
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		if _, ok := p.expect(c.expect.end()); !ok {
			t.Fatal(c.name, "does not run")
		}
		if err := os.WriteFile(p.logPath+".go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		waitEnd(t, p)
		if deaths := p.takeDeaths(); len(deaths) > 0 != c.death {
			t.Errorf("%s: deaths %q", c.name, deaths)
		}
	}
}

// A death begins with its reason, whatever was written before and after it.
func TestReasonFirst(t *testing.T) {
	const warn = "time=1 level=WARN msg=\"--peer-listen is not on loopback\""
	const fails, slow = "time=2 level=ERROR msg=\"this node stops\" why=digest", "time=3 level=INFO msg=slow"
	for _, c := range []struct {
		output string
		last   int
		want   string
	}{
		{warn + "\n" + slow + "\nlockd: the port is in use\n", 9, "lockd: the port is in use | its last lines: " + warn + " | " + slow},
		{warn + "\n" + fails + "\n" + slow + "\nlockd: it was told to\n", 9, "lockd: it was told to | its last lines: " + warn + " | " + fails + " | " + slow},
		{warn + "\n" + fails + "\n" + slow + "\n", 9, fails + " | its last lines: " + warn + " | " + slow},
		{"time=1 level=ERROR msg=once\n" + fails + "\n", 1, fails},
		{warn + "\npanic: nil\n\npanic: again\ngoroutine 1 [running]:\nmain.f()\n", 2, "panic: nil | its last lines: goroutine 1 [running]: | main.f()"},
		{warn + "\nfatal error: out of memory\n" + fails + "\n", 1, "fatal error: out of memory | its last lines: " + fails},
		{"lockd: warning: old\n" + warn + "\n", 2, "lockd: warning: old | " + warn},
		{"", 3, ""},
	} {
		lines := strings.Split(strings.TrimSuffix(c.output, "\n"), "\n")
		if got := reasonFirst(c.output, lines[max(0, len(lines)-c.last):]); got != c.want {
			t.Errorf("%q\nsays %q\nwant %q", c.output, got, c.want)
		}
	}
}

// So does that of a process.
func TestDeathBeginsWithItsReason(t *testing.T) {
	p := shell(t, "echo level=WARN; echo 'lockd: the port is in use'; exit 1")
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	waitEnd(t, p)
	const want = "ended by itself: exit status 1: lockd: the port is in use | its last lines: ---- start 1 ---- | level=WARN"
	if deaths := p.takeDeaths(); len(deaths) != 1 || !strings.HasSuffix(deaths[0], want) {
		t.Errorf("%q", deaths)
	}
}

// An expectation holds for one process: not for the next one, and not after it was taken back.
func TestExpectedOnce(t *testing.T) {
	const script = "while [ ! -e $LOG.go ]; do sleep 0.01; done; echo fault: kill at log.sync; kill -9 $$"
	for _, forget := range []bool{false, true} {
		p := shell(t, script)
		p.env = []string{"LOG=" + p.logPath}
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		x, _ := p.expect(Strike{Point: LogSync, Act: ActKill}.end())
		if forget {
			p.forget(x)
		}
		if err := os.WriteFile(p.logPath+".go", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		waitEnd(t, p)
		if deaths := p.takeDeaths(); len(deaths) > 0 != forget {
			t.Errorf("forgotten %v: deaths %q", forget, deaths)
		}
		if !x.hasEnded() || !p.loggedSince(x, "fault: kill at log.sync") {
			t.Error("the strike was not seen")
		}
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		waitEnd(t, p)
		if deaths := p.takeDeaths(); len(deaths) != 1 {
			t.Errorf("the next process: deaths %q", deaths)
		}
	}
}

// A node that refuses a folder that was damaged on purpose is no death, and refused reports it. A node that panics over
// the folder is a death.
func TestRefusal(t *testing.T) {
	for script, refused := range map[string]bool{
		"echo 'lockd: data folder /x is damaged: entry 7 of the log: checksum'; exit 2":           true,
		"echo 'panic: data folder /x is damaged: index out of range'; echo 'goroutine 1'; exit 2": false,
		"echo 'lockd: --peer-listen: address already in use'; exit 2":                             false,
	} {
		p := shell(t, script)
		if err := p.start(&folderDamaged); err != nil {
			t.Fatal(err)
		}
		waitEnd(t, p)
		if deaths := p.takeDeaths(); p.refused() != refused || len(deaths) > 0 == refused {
			t.Errorf("%s: refused %v, deaths %q", script, p.refused(), deaths)
		}
	}
}

// A node that ends by itself at each start is dead, until it obeys an order to end or ends as expected. Of these ends
// the first and the last one are reported.
func TestDeadProcess(t *testing.T) {
	p := shell(t, "if [ -e $LOG.go ]; then echo up; exec sleep 60; fi; echo no; exit 3")
	p.env = []string{"LOG=" + p.logPath}
	start := func() {
		t.Helper()
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	for starts := 1; starts <= 4; starts++ {
		start()
		waitEnd(t, p)
		if p.isDead(0) != (starts > 1) {
			t.Errorf("after %d starts: dead %v", starts, p.isDead(0))
		}
	}
	deaths := p.takeDeaths()
	if len(deaths) != 2 || !strings.Contains(deaths[1], "at each of the next 3 starts, too, at last: exit status 3: ") {
		t.Errorf("deaths %q", deaths)
	}
	start()
	if !p.isDead(time.Minute) { // it is waited for
		t.Error("not dead while it ends")
	}
	if deaths := p.takeDeaths(); len(deaths) != 1 {
		t.Errorf("later deaths %q", deaths)
	}
	if err := os.WriteFile(p.logPath+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	start()
	if p.isDead(0) {
		t.Error("dead while it runs")
	}
	p.kill()
	if p.isDead(0) {
		t.Error("dead after an order to end")
	}
}

// A process that fails while it obeys an order to end is reported.
func TestFailureWhileEnding(t *testing.T) {
	p := shell(t, "trap 'echo panic: late; exit 2' TERM; echo up; while :; do sleep 0.01; done")
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); !strings.Contains(process.LogFrom(p.logPath, 0), "up\n"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the script does not start")
		}
	}
	if !p.end(syscall.SIGTERM, time.Minute) {
		t.Fatal("it did not end")
	}
	if deaths := p.takeDeaths(); len(deaths) != 1 || !strings.Contains(deaths[0], "panic: late") {
		t.Errorf("deaths %q", deaths)
	}
}

// The names of fault points are those of the server, which is not imported.
func TestNamesAreTheServers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "resp", "fault", "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	var theirs []string
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ += "([a-z.-]+)"`).FindAllStringSubmatch(string(text), -1) {
		theirs = append(theirs, m[1])
	}
	if !slices.Equal(theirs, Points) {
		t.Errorf("the server has %q, we have %q", theirs, Points)
	}
}
