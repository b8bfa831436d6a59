package target

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockd/internal/process"
)

// proc is the process of one node, which can be started again and again. Its fields runs and paused tell the state of
// the process.
//
// watch waits for the end of each process and decides what it was: ordered (told), expected of this process (expected),
// or a death to report. Methods may be called concurrently.
type proc struct {
	name string
	path string
	args []string
	env  []string // besides that of this program
	processLog

	mu  sync.Mutex
	now Process // the present process, or the last one; nil before the first start
	// the process runs, or watch has not recorded its end yet
	runs     bool
	exited   chan struct{} // closed when watch has recorded the end
	told     bool          // it was ordered to end
	expected []*End        // the ways in which this process may end by itself
	met      *End          // the one in which it did
	deaths   deaths
	// it was stopped by SIGSTOP
	paused  bool
	started int      // number of starts
	onEnd   func()   // called when the process has ended, with mu held
	doors   []*Proxy // before its ports; set before the first start
	// of doors, the one before the port for peers; nil: none
	peerDoor *Proxy
	id       string // of the member that the process is
	lives    []life // all processes so far, in order
}

// setArgs sets the arguments of the next start, and the member id that it starts as.
func (p *proc) setArgs(id string, args []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.args = id, args
}

// setPath sets the program of the next start.
func (p *proc) setPath(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path = path
}

// observe registers do to be called when the process ends.
func (p *proc) observe(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onEnd = do
}

// start starts the process if it does not run. expected are the ways in which the new process may end by itself; those
// of the process before no longer count.
func (p *proc) start(expected ...*End) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs {
		return nil
	}
	p.started++
	now, err := p.where().Start(process.Command{
		Name: p.name, Path: p.path, Args: p.args, Env: p.env, Log: p.logPath,
		Heading: fmt.Sprintf("---- start %d ----", p.started),
	})
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

// watch waits for the end of a process and records it.
func (p *proc) watch(now Process, exited chan struct{}) {
	<-now.Ended()
	ended := time.Now()
	for _, d := range p.doors {
		d.shut() // the kernel has closed the ports behind them
	}
	p.mu.Lock()
	status, code := now.Exit()
	last := now.LastLines(lastLinesMax)
	if i := slices.IndexFunc(p.expected, func(e *End) bool { return e.is(status, last) }); i >= 0 {
		p.met = p.expected[i]
		p.deaths.endRow()
	} else if !p.told || code > 0 { // a process that fails while it obeys an order has died, too
		p.deaths.add(p.name, fmt.Sprintf("%s: %s", status, reasonFirst(now.Output(), last)))
	} else {
		p.deaths.endRow()
	}
	if p.onEnd != nil {
		p.onEnd()
	}
	p.lives[len(p.lives)-1].to = ended
	p.runs = false
	p.mu.Unlock()
	close(exited)
}

// isDead reports whether the last two processes or more have ended by themselves, and none runs. A process that runs is
// given some time to end in the same way.
func (p *proc) isDead(within time.Duration) bool {
	p.mu.Lock()
	inRow, runs, exited := p.deaths.inRow, p.runs, p.exited
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

// end ends the process with a signal and waits until it is gone. After patience it kills the process and reports
// false.
func (p *proc) end(sig syscall.Signal, patience time.Duration) bool {
	return p.finish(patience, func(now Process) { now.Signal(sig) })
}

// finish calls order to end the process, and waits as end does.
func (p *proc) finish(patience time.Duration, order func(Process)) bool {
	p.mu.Lock()
	now, exited := p.now, p.exited
	if !p.runs {
		p.mu.Unlock()
		return true
	}
	life := len(p.lives) - 1
	p.told, p.lives[life].ordered, p.lives[life].listened = true, true, time.Now()
	p.mu.Unlock()
	obeyed := stopBy(now, func() {
		turns := make([]int, len(p.doors)) // of this process, which may end at once
		for i, d := range p.doors {
			turns[i] = d.present()
		}
		order(now)
		for i, d := range p.doors {
			d.follow(turns[i], exited, p.listening(life, d))
		}
	}, patience)
	<-exited
	return obeyed
}

// listening returns what notes that a port of a process that was told to end was open at a time. Only the port for
// peers counts.
func (p *proc) listening(life int, d *Proxy) func(at time.Time) {
	return func(at time.Time) {
		if d != p.peerDoor {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lives[life].listened = at
	}
}

// report adds something that a sound process does not do to the deaths.
func (p *proc) report(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaths.list = append(p.deaths.list, p.name+" "+fmt.Sprintf(format, args...))
}

// kill ends the process with SIGKILL.
func (p *proc) kill() { p.end(syscall.SIGKILL, 10*time.Second) }

// pause stops the process (true), or continues it (false).
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

// takeDeaths returns the deaths since the last call.
func (p *proc) takeDeaths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaths.take(p.name)
}

// alive reports whether the node has a process, paused or not.
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

// present returns the number of the start whose process runs. ok is false if none runs, or it is paused.
func (p *proc) present() (start int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started, p.runs && !p.paused
}

// withPID calls do with the id of the running process. No other process takes its place meanwhile.
func (p *proc) withPID(do func(pid int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.runs {
		return errNotRunning
	}
	return do(p.now.PID())
}

// memory returns the bytes of memory that the process uses now, and the most that it used since the last call.
func (p *proc) memory() (now, most int64, err error) {
	err = p.withPID(func(pid int) (err error) {
		now, most, err = memoryOf(pid)
		return err
	})
	return now, most, err
}

// deaths are the ends of processes that nobody asked for or expected, and the orders that were not obeyed. Of several
// deaths in a row the list has the first and the last one: a process that refuses to start dies again and again.
// proc.mu guards it.
type deaths struct {
	list    []string
	inRow   int    // how many processes have died without another end between them
	omitted int    // how many of them are not in the list
	last    string // the end of the last omitted one
}

// add adds the end of a process that has died.
func (d *deaths) add(name, how string) {
	if d.inRow++; d.inRow == 1 {
		d.list = append(d.list, fmt.Sprintf("%s ended by itself: %s", name, how))
		return
	}
	d.omitted++
	d.last = how
}

// endRow records an end that is no death.
func (d *deaths) endRow() { d.inRow = 0 }

// take returns the list, and empties it.
func (d *deaths) take(name string) []string {
	list := d.list
	if d.omitted > 0 {
		list = append(list, fmt.Sprintf("%s ended by itself at each of the next %d starts, too, at last: %s",
			name, d.omitted, d.last))
	}
	d.list, d.omitted = nil, 0
	return list
}

// processLog is the log of all processes of a node. Reports are read from it once. Methods may be called concurrently.
type processLog struct {
	logPath string
	host    Host // nil: thisMachine

	reading  sync.Mutex
	races    int   // reports of the race detector that were taken
	claimsTo int64 // offset up to which the log was searched for claims
}

// where returns the host of the process.
func (l *processLog) where() Host {
	if l.host == nil {
		return thisMachine{}
	}
	return l.host
}

// raceReport begins a report of the race detector.
const raceReport = "WARNING: DATA RACE\n"

// raceReportLines bounds the lines of a report that are kept: the access, its function and its line.
const raceReportLines = 3

// takeRaces returns the reports of the race detector since the last call.
func (l *processLog) takeRaces() (races []string) {
	l.reading.Lock()
	defer l.reading.Unlock()
	reports := strings.Split(l.where().LogFrom(l.logPath, 0), raceReport)[1:]
	for _, r := range reports[min(l.races, len(reports)):] {
		lines := strings.SplitN(r, "\n", raceReportLines+1)
		words := strings.Fields(strings.Join(lines[:min(raceReportLines, len(lines))], " "))
		races = append(races, l.logPath+": "+strings.Join(words, " "))
	}
	l.races = len(reports)
	return races
}
