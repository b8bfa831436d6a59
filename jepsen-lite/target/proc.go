package target

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockd/internal/process"
)

// proc is one server process that can be started again and again. Its methods may
// be called concurrently.
type proc struct {
	name    string
	path    string
	args    []string
	env     []string // besides our own
	logPath string

	mu       sync.Mutex
	now      *process.Process // the present one, or the last; nil: there was none
	runs     bool             // it runs, or its end is not noted yet
	exited   chan struct{}    // closed when that is noted
	told     bool             // it was told to end
	expected []*End           // how this process may end by itself
	met      *End             // how it did, if that was expected
	deaths   []string         // ends nobody asked for, and orders that were not obeyed
	inRow    int              // so many processes, the last one too, have ended so
	repeats  int              // how many of them are not in deaths, as they came after another one
	repeated string           // the last of these
	paused   bool
	started  int      // how often
	races    int      // reports of the race detector in its log that were taken
	onEnd    func()   // called when the process has ended; with mu held
	doors    []*Proxy // before its ports; set before the first start
	id       string   // of the member that it is
	lives    []life   // in their order
	claimsTo int64    // so far its log was read for claims
}

// setArgs changes what the next start is told, and as which member it starts.
func (p *proc) setArgs(id string, args []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.args = id, args
}

// setPath changes which program the next start runs.
func (p *proc) setPath(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path = path
}

// observe has do called when the process ends.
func (p *proc) observe(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onEnd = do
}

// start starts the process if it does not run. The new process may end by itself
// in the ways that are given; what was expected of the one before is forgotten.
func (p *proc) start(expected ...*End) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs {
		return nil
	}
	p.started++
	now, err := process.Command{
		Name: p.name, Path: p.path, Args: p.args, Env: append(os.Environ(), p.env...), Log: p.logPath,
		Heading: fmt.Sprintf("---- start %d ----", p.started),
	}.Start()
	if err != nil {
		return err
	}
	p.now, p.runs, p.exited, p.told, p.paused = now, true, make(chan struct{}), false, false
	p.expected, p.met = expected, nil
	p.lives = append(p.lives, life{id: p.id, from: time.Now()})
	for _, d := range p.doors {
		d.await(p.exited)
	}
	go p.watch(now, p.exited)
	return nil
}

// watch notes how a process ends.
func (p *proc) watch(now *process.Process, exited chan struct{}) {
	<-now.Ended()
	ended := time.Now()
	for _, d := range p.doors { // as the kernel does with the ports of a process
		d.shut()
	}
	p.mu.Lock()
	status, last := now.State().String(), now.LastLines(lastLinesMax)
	if i := slices.IndexFunc(p.expected, func(e *End) bool { return e.is(status, last) }); i >= 0 {
		p.met = p.expected[i]
		p.inRow = 0
	} else if !p.told || now.State().ExitCode() > 0 { // also one that fails while it obeys
		p.died(fmt.Sprintf("%s: %s", status, strings.Join(last, " | ")))
	} else {
		p.inRow = 0
	}
	if p.onEnd != nil {
		p.onEnd()
	}
	p.lives[len(p.lives)-1].to = ended
	p.runs = false
	p.mu.Unlock()
	close(exited)
}

// died notes that a process has ended by itself. Of several in a row the first one is told, and
// the last one: whoever refuses to start does so again and again. p.mu is held.
func (p *proc) died(how string) {
	if p.inRow++; p.inRow == 1 {
		p.deaths = append(p.deaths, fmt.Sprintf("%s ended by itself: %s", p.name, how))
		return
	}
	p.repeats++
	p.repeated = how
}

// isDead reports whether two processes in a row have ended by themselves, and no other one
// runs, or one that ends within a time.
func (p *proc) isDead(within time.Duration) bool {
	p.mu.Lock()
	inRow, runs, exited := p.inRow, p.runs, p.exited
	p.mu.Unlock()
	if inRow < 2 || !runs {
		return inRow >= 2
	}
	select {
	case <-exited:
		return true
	case <-time.After(within):
		return false
	}
}

// end ends the process with a signal and waits until it is gone; after patience
// it is killed, and end reports false.
func (p *proc) end(sig syscall.Signal, patience time.Duration) bool {
	return p.finish(patience, func(now *process.Process) { now.Signal(sig) })
}

// finish has order end the process, and waits as end does.
func (p *proc) finish(patience time.Duration, order func(*process.Process)) bool {
	p.mu.Lock()
	now, exited := p.now, p.exited
	if !p.runs {
		p.mu.Unlock()
		return true
	}
	p.told = true
	p.mu.Unlock()
	obeyed := now.StopBy(func() {
		order(now)
		for _, d := range p.doors {
			d.follow(exited)
		}
	}, patience)
	<-exited
	return obeyed
}

// accuse notes something that a good process does not do.
func (p *proc) accuse(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaths = append(p.deaths, p.name+" "+fmt.Sprintf(format, args...))
}

// kill ends the process with SIGKILL.
func (p *proc) kill() { p.end(syscall.SIGKILL, 10*time.Second) }

// pause stops the process, or lets it go on.
func (p *proc) pause(stop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runs || p.paused == stop {
		return
	}
	if stop {
		p.now.Pause()
	} else {
		p.now.Resume()
	}
	p.paused = stop
}

// takeDeaths returns the ends that nobody expected, and forgets them.
func (p *proc) takeDeaths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.deaths
	if p.repeats > 0 {
		d = append(d, fmt.Sprintf("%s ended by itself at each of the next %d starts, too, at last: %s",
			p.name, p.repeats, p.repeated))
	}
	p.deaths, p.repeats = nil, 0
	return d
}

// raceReport begins a report of the race detector, and so many lines of it say enough.
const (
	raceReport      = "WARNING: DATA RACE\n"
	raceReportLines = 3 // what was done, in which function, on which line
)

// takeRaces returns the reports of the race detector that were not taken before.
func (p *proc) takeRaces() (races []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reports := strings.Split(process.LogFrom(p.logPath, 0), raceReport)[1:]
	for _, r := range reports[min(p.races, len(reports)):] {
		lines := strings.SplitN(r, "\n", raceReportLines+1)
		races = append(
			races,
			fmt.Sprintf("%s: %s",
				p.logPath,
				strings.Join(strings.Fields(strings.Join(lines[:min(raceReportLines, len(lines))], " ")), " ")),
		)
	}
	p.races = len(reports)
	return races
}

// alive reports whether there is a process.
func (p *proc) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs
}

// running reports whether the process runs and is not paused.
func (p *proc) running() bool {
	_, ok := p.present()
	return ok
}

// present is the number of the start whose process runs; false if none does, or it
// is paused.
func (p *proc) present() (start int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started, p.runs && !p.paused
}
