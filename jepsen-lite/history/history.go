package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Type is the kind of an event.
type Type string

// The types of events.
const (
	Invoke Type = "invoke" // an operation is about to be sent
	OK     Type = "ok"     // it was done; Value is its result
	Fail   Type = "fail"   // it was certainly not done; Error says why
	Info   Type = "info"   // it may have been done, may be done later, or never
)

// Nemesis is the process of events about faults.
const Nemesis = -1

// Operations of Nemesis, of type Info, that mark which processes run: Down is written after the process of a node has
// ended, Up before it is started again.
const (
	Down = "down"
	Up   = "up"
)

// Rest is the operation of Nemesis, of type Info, that ends the clients' work, a while after the last fault. Later
// operations finish what clients began, and read the final state. Its value is the time at which that work was to end.
const Rest = "rest"

// Ends is the operation of Nemesis, of type Info, written after the last fault. Its value tells how many processes
// have ended, and how many of these ends another node reported at once.
const Ends = "ends"

// Stood is the operation of Nemesis, of type Info, written when the machine of all nodes goes on after it has stood
// still: its processor, or its disk. Its value is for how long, in nanoseconds.
const Stood = "stood"

// Event is one line of a history.
type Event struct {
	Time    int64    `json:"time"` // monotonic, ns since the run began
	Process int      `json:"process"`
	Type    Type     `json:"type"`
	Op      string   `json:"op"`
	Key     string   `json:"key,omitempty"`
	Value   []string `json:"value"`           // of invoke: the arguments; of ok: the result
	Node    string   `json:"node,omitempty"`  // the node that was asked
	Error   string   `json:"error,omitempty"` // of fail and info
	Slept   int64    `json:"slept,omitempty"` // ns that the client itself paused
}

// Recorder writes a history. Its methods may be called concurrently.
type Recorder struct {
	start time.Time

	mu     sync.Mutex
	last   int64         // time of the last event
	w      *bufio.Writer // nil: the events are kept
	kept   []Event
	close  func() error
	err    error
	counts Counts
}

// Counts are the totals of a history so far.
type Counts struct {
	OK, Fail, Info, Faults int
	LastOK                 int64 // time of the last completion with ok
	LongestGap             int64 // longest time without one, ns
}

// Create makes a Recorder that writes to a new file. Times count from start.
func Create(path string, start time.Time) (*Recorder, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	r := NewRecorder(f, start)
	r.close = f.Close
	return r, nil
}

// NewRecorder makes a Recorder that writes to w.
func NewRecorder(w io.Writer, start time.Time) *Recorder {
	r := &Recorder{start: start, w: bufio.NewWriterSize(w, 1<<16), close: func() error { return nil }}
	r.counts.LastOK = r.now()
	return r
}

func (r *Recorder) now() int64 { return time.Since(r.start).Nanoseconds() }

// Record stamps an event and writes it. An invocation must be recorded before the
// operation is sent, a completion after its answer has come.
func (r *Recorder) Record(e Event) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Time = max(r.now(), r.last+1) // in virtual time, much happens at one instant, in an order
	r.last = e.Time
	if e.Value == nil {
		e.Value = []string{}
	}
	r.counts.add(e)
	if r.w == nil {
		e.Value = slices.Clone(e.Value)
		r.kept = append(r.kept, e)
		return e.Time
	}
	r.write(e)
	return e.Time
}

// write writes a line. mu is held.
func (r *Recorder) write(e Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.w.Write(append(line, '\n'))
	}
	if err != nil && r.err == nil {
		r.err = err
	}
}

// Keep makes a Recorder that keeps its events in memory.
func Keep(start time.Time) *Recorder {
	r := &Recorder{start: start, close: func() error { return nil }}
	r.counts.LastOK = r.now()
	return r
}

// History returns the history of the events that were kept so far.
func (r *Recorder) History() (*History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := newPairing()
	for i, e := range r.kept {
		if err := p.add(e, i+1); err != nil {
			return nil, fmt.Errorf("event %d: %w", i+1, err)
		}
	}
	p.finish()
	return p.h, nil
}

// Save writes the events that were kept so far into a file.
func (r *Recorder) Save(path string) error {
	to, err := Create(path, r.start)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.kept {
		to.write(e)
	}
	return to.Close()
}

func (c *Counts) add(e Event) {
	switch {
	case e.Process == Nemesis:
		if e.Type == Invoke {
			c.Faults++
		}
	case e.Type == OK:
		c.OK++
		c.LongestGap = max(c.LongestGap, e.Time-c.LastOK)
		c.LastOK = e.Time
	case e.Type == Fail:
		c.Fail++
	case e.Type == Info:
		c.Info++
	}
}

// Counts returns the totals so far.
func (r *Recorder) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Close ends the file; its error is the first one that any event met.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w != nil {
		if err := r.w.Flush(); err != nil && r.err == nil {
			r.err = err
		}
	}
	if err := r.close(); err != nil && r.err == nil {
		r.err = err
	}
	return r.err
}

// Forever is the end of an operation whose outcome is unknown: it may take effect
// at any time after its start.
const Forever = int64(1) << 62

// Op is an operation: an invocation with its completion.
type Op struct {
	Process    int
	Name, Key  string
	In, Out    []string // Out counts if the outcome is OK
	Outcome    Type     // OK, Fail or Info
	Error      string
	Node       string
	Start, End int64 // End is Forever if the outcome is Info
	Told       int64 // when its client knew the outcome, or gave up; Start if there is no completion
	Slept      int64 // part of that in which the client itself paused
	Line       int   // of the completion in the file, from 1; of the invocation if there is no completion
}

// OK reports whether the operation was done.
func (o Op) OK() bool { return o.Outcome == OK }

// Maybe reports whether the operation was done or may have been.
func (o Op) Maybe() bool { return o.Outcome != Fail }

// String names the operation for a person.
func (o Op) String() string {
	s := fmt.Sprintf("line %d: process %d %s %s%q", o.Line, o.Process, o.Name, o.Key, o.In)
	if o.Outcome == OK {
		s += fmt.Sprintf(" = %q", o.Out)
	} else {
		s += fmt.Sprintf(" %s (%s)", o.Outcome, o.Error)
	}
	if o.End == Forever {
		return s + fmt.Sprintf(" from %.6f s", float64(o.Start)/1e9)
	}
	return s + fmt.Sprintf(" in %.6f..%.6f s", float64(o.Start)/1e9, float64(o.End)/1e9)
}

// Window is a time in which the cluster was disturbed.
type Window struct {
	Start, End int64
	Kind, What string
}

// History is a whole run of one workload.
type History struct {
	Marks  []Event  // events of Nemesis of type Info, in order
	Ops    []Op     // in the order of their invocations
	Faults []Window // in the order of their starts
	Halts  []Halt   // in the order of their starts; none overlap
	Stood  []Halt   // times in which the machine itself stood still, in the order of their ends
	End    int64    // time of the last event
	Worked int64    // when the clients' work ended; End, if the recording does not tell
	Asked  int64    // when it was to end: Worked is later if a fault lasted longer; Worked, if the recording does not tell

	Ended, Noticed int // numbers of processes, from the event Ends

	Quorums []Quorum // in the order of their starts; none overlap
	Marked  bool     // the recording has the marks of which Quorums is made
}

// Halt is a time in which certainly no majority of the nodes ran.
type Halt struct {
	Start, End int64
	Dark       bool // no node ran at all
}

// Load reads a history from a file.
func Load(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// lineBytesMax bounds a line of a history.
const lineBytesMax = 16 << 20

// Read reads a history and pairs its events. A process that completes an operation that it did not invoke, or invokes
// two at once, is an error with its line.
func Read(r io.Reader) (*History, error) {
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 1<<16), lineBytesMax)
	p := newPairing()
	line := 0
	for scan.Scan() {
		line++
		var e Event
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if err := p.add(e, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	p.finish()
	return p.h, scan.Err()
}

// pairing joins events to operations as they come.
type pairing struct {
	open    map[int]int    // process -> index of its operation that has not completed
	faults  map[string]int // a fault's name -> index of its window that has not ended
	nodes   map[string]bool
	halted  bool // the last of h.Halts has not ended
	quorums quorums
	h       *History
}

func newPairing() *pairing {
	return &pairing{
		open: map[int]int{}, faults: map[string]int{}, nodes: map[string]bool{}, quorums: newQuorums(), h: &History{},
	}
}

func (p *pairing) add(e Event, line int) error {
	if e.Process == Nemesis && e.Type == Info {
		p.h.Marks = append(p.h.Marks, e)
	}
	if e.Time < p.h.End {
		return fmt.Errorf("time %d lies before that of the line above", e.Time)
	}
	p.h.End = e.Time
	switch {
	case e.Process == Nemesis && e.Type == Info && (e.Op == Down || e.Op == Up):
		p.nodes[e.Node] = e.Op == Up
		p.halt(e.Time)
		return nil
	case p.quorums.add(e):
		return nil
	case e.Process == Nemesis && e.Type == Info && e.Op == Rest:
		p.h.Worked, p.h.Asked = e.Time, e.Time
		if len(e.Value) == 0 {
			return nil
		}
		asked, err := strconv.ParseInt(e.Value[0], 10, 64)
		p.h.Asked = min(e.Time, asked)
		return err
	case e.Process == Nemesis && e.Type == Info && e.Op == Ends:
		return p.ends(e.Value)
	case e.Process == Nemesis && e.Type == Info && e.Op == Stood:
		return p.stood(e)
	case e.Process == Nemesis:
		p.fault(e)
		return nil
	}
	i, open := p.open[e.Process]
	switch {
	case e.Type == Invoke && open:
		return fmt.Errorf("process %d invokes %s while its %s has not completed", e.Process, e.Op, p.h.Ops[i].Name)
	case e.Type == Invoke:
		p.open[e.Process] = len(p.h.Ops)
		p.h.Ops = append(p.h.Ops, Op{
			Process: e.Process, Name: e.Op, Key: e.Key, In: e.Value, Node: e.Node,
			Outcome: Info, Error: "no completion", Start: e.Time, End: Forever, Told: e.Time, Line: line,
		})
		return nil
	case !open || p.h.Ops[i].Name != e.Op:
		return fmt.Errorf("process %d completes %s, which it has not invoked", e.Process, e.Op)
	}
	delete(p.open, e.Process)
	o := &p.h.Ops[i]
	o.Outcome, o.Out, o.Error, o.Line, o.Told, o.Slept = e.Type, e.Value, e.Error, line, e.Time, e.Slept
	if e.Type != Info {
		o.End = e.Time
	}
	return nil
}

func (p *pairing) ends(value []string) error {
	_, err := fmt.Sscan(strings.Join(value, " "), &p.h.Ended, &p.h.Noticed)
	return err
}

func (p *pairing) stood(e Event) error {
	var took int64
	if _, err := fmt.Sscan(strings.Join(e.Value, " "), &took); err != nil {
		return fmt.Errorf("the machine stood still for how long? %w", err)
	}
	p.h.Stood = append(p.h.Stood, Halt{Start: e.Time - took, End: e.Time})
	return nil
}

func (p *pairing) fault(e Event) {
	if e.Type == Invoke {
		p.faults[e.Key] = len(p.h.Faults)
		what := ""
		if len(e.Value) > 0 {
			what = e.Value[0]
		}
		p.h.Faults = append(p.h.Faults, Window{Start: e.Time, End: Forever, Kind: e.Op, What: what})
		return
	}
	if i, ok := p.faults[e.Key]; ok {
		p.h.Faults[i].End = e.Time
		if len(e.Value) > 0 {
			p.h.Faults[i].What = e.Value[0] // it names the victim, which is known now
		}
		delete(p.faults, e.Key)
	}
}

// halt tracks whether a majority can run. A node that is being replaced is no member for a while, so a majority of one
// node less counts, too.
func (p *pairing) halt(now int64) {
	run := 0
	for _, up := range p.nodes {
		if up {
			run++
		}
	}
	halted := run < (len(p.nodes)-1)/2+1
	last := len(p.h.Halts) - 1
	if p.halted {
		if halted && p.h.Halts[last].Dark == (run == 0) {
			return
		}
		p.h.Halts[last].End = now
	}
	if halted {
		p.h.Halts = append(p.h.Halts, Halt{Start: now, Dark: run == 0})
	}
	p.halted = halted
}

func (p *pairing) finish() {
	if p.halted {
		p.h.Halts[len(p.h.Halts)-1].End = p.h.End
	}
	if p.h.Worked == 0 {
		p.h.Worked, p.h.Asked = p.h.End, p.h.End
	}
	p.h.Quorums, p.h.Marked = p.quorums.finish(p.h.End), len(p.quorums.serving) > 0
	for i := range p.h.Faults {
		p.h.Faults[i].End = min(p.h.Faults[i].End, p.h.End)
	}
}

// At returns the operation of a line, or nil.
func (h *History) At(line int) *Op {
	for i := range h.Ops {
		if h.Ops[i].Line == line {
			return &h.Ops[i]
		}
	}
	return nil
}

// Disturbed returns how much of the time from a to b lies in a fault, or within after of its end, while elections and
// retries may still go on.
func (h *History) Disturbed(a, b, after int64) int64 {
	var sum, reach int64
	for _, w := range h.Faults {
		start, end := max(w.Start, a, reach), min(w.End+after, b)
		if end > start {
			sum += end - start
		}
		reach = max(reach, end)
	}
	return sum
}
