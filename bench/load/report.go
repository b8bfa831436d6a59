package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the result of all measurements, with their conditions.
type Report struct {
	Began    time.Time    `json:"began"`
	Machine  Machine      `json:"machine"`
	Settings Settings     `json:"settings"`
	Targets  []TargetInfo `json:"targets"`
	Results  []Result     `json:"results"`
}

// Settings are the settings of a Config that affect the results.
type Settings struct {
	Seconds   float64 `json:"seconds"`
	Rounds    int     `json:"rounds"`
	Keys      int     `json:"keys"`
	ValueSize int     `json:"valueSize"`
}

func (c *Config) settings() Settings {
	return Settings{c.Time.Seconds(), c.Rounds, c.Keys, c.ValueSize}
}

// TargetInfo describes a target, by its servers' own account.
type TargetInfo struct {
	Target
	Servers []string `json:"servers"`
}

// Result is the result of one workload at one number of clients on one target.
type Result struct {
	Workload string   `json:"workload"`
	Clients  int      `json:"clients"`
	Pipeline int      `json:"pipeline"`
	Target   string   `json:"target"`
	Median   Sample   `json:"median"` // of each value by itself
	Rounds   []Sample `json:"rounds"`
	Polls    bool     `json:"polls,omitempty"` // the target knows no LOCK, and its clients polled
}

// Medians returns the median of each value.
func Medians(rounds []Sample) Sample {
	of := func(figure func(Sample) float64) float64 {
		var all []float64
		for _, s := range rounds {
			all = append(all, figure(s))
		}
		return Median(all)
	}
	return Sample{
		Operations: int(of(func(s Sample) float64 { return float64(s.Operations) })),
		Seconds:    of(func(s Sample) float64 { return s.Seconds }),
		PerSecond:  of(func(s Sample) float64 { return s.PerSecond }),
		P50:        of(func(s Sample) float64 { return s.P50 }),
		P99:        of(func(s Sample) float64 { return s.P99 }),
		P999:       of(func(s Sample) float64 { return s.P999 }),
		Max:        of(func(s Sample) float64 { return s.Max }),
		SetP50:     of(func(s Sample) float64 { return s.SetP50 }),
		CPU:        of(func(s Sample) float64 { return s.CPU }),
	}
}

// Median returns the middle value, or the mean of the two in the middle; 0 without values.
func Median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Find returns the results in one cell of the tables.
func (r *Report) Find(workload string, clients, pipeline int, target string) (Sample, bool) {
	for _, res := range r.Results {
		if res.Workload == workload && res.Clients == clients && res.Pipeline == pipeline && res.Target == target {
			return res.Median, true
		}
	}
	return Sample{}, false
}

// Ratio returns the throughput of one target divided by that of another.
func (r *Report) Ratio(workload string, clients, pipeline int, target, by string) (float64, bool) {
	a, ok1 := r.Find(workload, clients, pipeline, target)
	b, ok2 := r.Find(workload, clients, pipeline, by)
	if !ok1 || !ok2 || b.PerSecond == 0 {
		return 0, false
	}
	return a.PerSecond / b.PerSecond, true
}

// Print writes the machine, the servers and a table for each workload.
func (r *Report) Print(w io.Writer) {
	r.printHead(w)
	for _, t := range r.tables() {
		r.printTable(w, t)
	}
}

// table is the data of one table, or of one panel of the picture.
type table struct {
	workload string
	pipeline int
}

func (t table) has(res Result) bool { return t == table{res.Workload, res.Pipeline} }

func (r *Report) tables() []table {
	var all []table
	for _, res := range r.Results {
		if t := (table{res.Workload, res.Pipeline}); !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// printHead writes what stands above the tables.
func (r *Report) printHead(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n", r.Began.Format("2006-01-02 15:04 MST"), r.Machine)
	for _, t := range r.Targets {
		fmt.Fprintf(w, "%s", t.Name)
		if t.Wait > 0 {
			fmt.Fprintf(w, " (WAIT %d after each write)", t.Wait)
		}
		if t.Master {
			fmt.Fprintf(w, " (all clients to the leader)")
		}
		fmt.Fprintf(w, ":\n  %s\n", strings.Join(t.Servers, "\n  "))
	}
}

func (r *Report) printTable(w io.Writer, t table) {
	var row workload
	if w, err := findWorkload(t.workload); err == nil {
		row = *w
	}
	operations, beside := "ops/s", ""
	if row.hands {
		operations, beside = "hand-overs/s", "one SET's p50\t"
	}
	cpu := slices.ContainsFunc(r.Results, func(res Result) bool { return t.has(res) && res.Median.CPU > 0 })
	if cpu {
		beside = "CPU/op\t" + beside
	}
	fmt.Fprintf(w, "\n%s: %s\n%d keys, %d bytes, pipeline %d, medians of %d rounds of %gs\n", t.workload, row.summary,
		r.Settings.Keys, r.Settings.ValueSize, t.pipeline, r.Settings.Rounds, r.Settings.Seconds)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "clients\ttarget\t%s\tratio\tp50\tp99\tp99.9\t%s\n", operations, beside)
	for _, res := range r.Results {
		if !t.has(res) {
			continue
		}
		ratio := "-"
		if x, ok := r.Ratio(t.workload, res.Clients, t.pipeline, res.Target, r.Targets[0].Name); ok {
			ratio = strconv.FormatFloat(x, 'f', 2, 64)
		}
		m := res.Median
		beside = ""
		if cpu {
			beside = micros(m.CPU) + "\t"
		}
		if row.hands {
			beside += latency(m.SetP50) + "\t"
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", res.Clients, res.Target, thousands(m.PerSecond), ratio,
			latency(m.P50), latency(m.P99), latency(m.P999), beside)
	}
	_ = tw.Flush() // to a terminal: there is nowhere left to report to
	for _, target := range r.Targets {
		if slices.ContainsFunc(r.Results, func(res Result) bool {
			return t.has(res) && res.Target == target.Name && res.Polls
		}) {
			fmt.Fprintf(w, "%s knows no LOCK, so it is a Redis: its clients poll by SET NX PX without pause, and release by "+
				"script\n", target.Name)
		}
	}
}

// thousands writes a number as 28,600.
func thousands(x float64) string {
	text := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// latency writes microseconds as milliseconds with three digits that count.
func latency(us float64) string {
	ms := us / 1000
	digits := 2
	switch {
	case ms < 1:
		digits = 3
	case ms >= 100:
		digits = 0
	case ms >= 10:
		digits = 1
	}
	return strconv.FormatFloat(ms, 'f', digits, 64) + "ms"
}

// micros writes microseconds; a dash if there was no measurement.
func micros(us float64) string {
	if us == 0 {
		return "-"
	}
	return strconv.FormatFloat(us, 'f', 0, 64) + "µs"
}

// Save writes the files that were asked for.
func (r *Report) Save(json, plot string) error {
	return errors.Join(r.save(json, (*Report).writeJSON), r.save(plot, (*Report).plot))
}

// save writes a file, if one was asked for.
func (r *Report) save(path string, write func(*Report, io.Writer) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(r, f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}

func (r *Report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// countFrom is the least amount of work whose progress is printed.
const countFrom = 100_000

// counter reports the progress of some work, every tenth.
type counter struct {
	w    io.Writer
	what string
	n    int
	done chan int
}

func newCounter(w io.Writer, what string, n int) *counter {
	c := &counter{w: w, what: what, n: n, done: make(chan int, 1)}
	c.done <- 0
	return c
}

// add may be called concurrently.
func (c *counter) add(n int) {
	before := <-c.done
	now := before + n
	if c.n >= countFrom && now*10/c.n > before*10/c.n {
		fmt.Fprintf(c.w, "%s: %s of %s\n", c.what, thousands(float64(now)), thousands(float64(c.n)))
	}
	c.done <- now
}
