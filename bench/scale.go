package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lockd/bench/load"
)

type scaleCmd struct {
	Only     []string      `help:"Only these limits: ${limits} (default: all)." placeholder:"NAME,..."`
	Keys     int           `default:"1000000" help:"Keys of memory, snapshot and restart (default: ${default})." placeholder:"N"`
	MostKeys int           `default:"10000000" help:"Keys that the limit keys ends with; ten million need 16 GiB (default: ${default})." placeholder:"N"`
	Expiring int           `default:"100000" help:"Keys that expire at the same time (default: ${default})." placeholder:"N"`
	Idle     int           `default:"5000" help:"Idle connections (default: ${default})." placeholder:"N"`
	Clients  []int         `default:"1,50,300,1000,5000" help:"Clients of the limit clients; the last is held against 300 (default: ${default})." placeholder:"N,..."`
	Soak     time.Duration `default:"10m" help:"Length of the full load."`
	Handover int           `default:"7" help:"How often each of kill, term, transfer and stop takes the leadership from the leader (default: ${default})." placeholder:"N"`
	Costly   int           `default:"60000" help:"How often a script of the limit costly does what it does (default: ${default})." placeholder:"N"`
	Time     time.Duration `default:"3s" help:"Length of one measurement."`
	Rounds   int           `default:"3" help:"How often what is compared is measured, in turn (default: ${default})." placeholder:"N"`
	Rest     time.Duration `default:"10s" help:"How long a server rests before its memory is read."`
	Binary   string        `help:"The lockd to measure (default: built from this repository)." type:"path" placeholder:"FILE"`
	JSON     string        `name:"json" help:"Also write all figures to this file." placeholder:"FILE"`
}

// limit is one row of the table (limits.go): promises of lockd, and their measurement.
type limit struct {
	name     string
	promises []promise
	measure  func(context.Context, *stage) ([]finding, error) // one finding for each promise
}

// promise is the bound of one value.
type promise struct {
	What  string  `json:"what"`
	Bound float64 `json:"bound"`
	Unit  string  `json:"unit"`
	Least bool    `json:"least"` // the value must be at least the bound, instead of at most
}

// finding is a measured value, with its parts.
type finding struct {
	Measured float64 `json:"measured"`
	Detail   string  `json:"detail"`
}

// outcome is the verdict on one promise.
type outcome struct {
	Limit string `json:"limit"`
	promise
	finding
	Met   bool   `json:"met"`
	Error string `json:"error,omitempty"` // why there is no finding
}

// series is the measured values between the ends of a limit.
type series struct {
	Name  string `json:"name"`
	Steps []step `json:"steps"`
}

type step struct {
	At string `json:"at"`
	load.Sample
}

// scaleReport is the result of all measurements, with their conditions.
type scaleReport struct {
	Began    time.Time    `json:"began"`
	Machine  load.Machine `json:"machine"`
	Version  string       `json:"version"`
	Outcomes []outcome    `json:"outcomes"`
	Series   []series     `json:"series"`
}

// stage measures one limit, on separate servers that end before the next limit is measured.
type stage struct {
	*scaleCmd
	*farm
	series []series
}

// run measures the limits one after the other, and judges them. A limit that cannot be measured counts as missed; the
// others are still measured.
func (c *scaleCmd) run(ctx context.Context, stdout, progress io.Writer) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	chosen, err := c.chosen(limits)
	if err != nil {
		return usageError{err}
	}
	base, err := newFarm(ctx, c.Binary, progress)
	if err != nil {
		return err
	}
	defer base.close()
	report := &scaleReport{Began: time.Now().UTC().Truncate(time.Second), Machine: load.ThisMachine()}
	if report.Version, err = version(ctx, base.binary); err != nil {
		return err
	}
	for _, l := range chosen {
		fmt.Fprintf(progress, "limit %s\n", l.name)
		findings, more, err := c.try(ctx, l, base.binary, progress)
		if ctx.Err() != nil {
			report.print(stdout)
			return errors.Join(
				errors.New("interrupted: the figures are those of the limits that were complete"),
				report.save(c.JSON),
			)
		}
		report.Outcomes = append(report.Outcomes, l.judge(findings, err)...)
		report.Series = append(report.Series, more...)
	}
	report.print(stdout)
	return report.save(c.JSON)
}

// check returns what is wrong with the sizes.
func (c *scaleCmd) check() error {
	for _, b := range []struct {
		flag  string
		value int
	}{
		{"--keys", c.Keys}, {"--most-keys", c.MostKeys}, {"--expiring", c.Expiring}, {"--idle", c.Idle},
		{"--handover", c.Handover}, {"--costly", c.Costly}, {"--rounds", c.Rounds}, {"--time", int(c.Time)}, {"--soak", int(c.Soak)},
	} {
		if b.value < 1 {
			return fmt.Errorf("%s must be more than nothing", b.flag)
		}
	}
	if !slices.Contains(c.Clients, fullClients) {
		return fmt.Errorf("--clients %v lacks %d, which the last is held against", c.Clients, fullClients)
	}
	return nil
}

// chosen returns the limits to measure.
func (c *scaleCmd) chosen(all []limit) ([]limit, error) {
	if len(c.Only) == 0 {
		return all, nil
	}
	var chosen []limit
	for _, name := range c.Only {
		i := slices.IndexFunc(all, func(l limit) bool { return l.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no limit %q, only %s", name, limitNames(all))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func limitNames(all []limit) string {
	var names []string
	for _, l := range all {
		names = append(names, l.name)
	}
	return strings.Join(names, ", ")
}

// try measures one limit on a separate stage.
func (c *scaleCmd) try(ctx context.Context, l limit, binary string, progress io.Writer) ([]finding, []series, error) {
	f, err := newFarm(ctx, binary, progress)
	if err != nil {
		return nil, nil, err
	}
	defer f.close()
	s := &stage{scaleCmd: c, farm: f}
	findings, err := l.measure(ctx, s)
	return findings, s.series, err
}

// judge compares the findings with the promises.
func (l limit) judge(findings []finding, err error) []outcome {
	var all []outcome
	for i, p := range l.promises {
		o := outcome{Limit: l.name, promise: p}
		if err != nil {
			o.Error = err.Error()
		} else {
			o.finding, o.Met = findings[i], p.met(findings[i].Measured)
		}
		all = append(all, o)
	}
	return all
}

func (p promise) met(measured float64) bool {
	if p.Least {
		return measured >= p.Bound
	}
	return measured <= p.Bound
}

// print writes the table of the limits, the values in between, and the number of missed limits.
func (r *scaleReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n%s\n\n", r.Began.Format("2006-01-02 15:04 MST"), r.Machine, r.Version)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "limit\twhat\tmeasured\tbound\t\tdetail")
	missed := 0
	for _, o := range r.Outcomes {
		verdict, measured, detail, than := "met", fmt.Sprintf("%.2f %s", o.Measured, o.Unit), o.Detail, "<="
		if o.Error != "" {
			measured, detail = "-", o.Error
		}
		if o.Least {
			than = ">="
		}
		if !o.Met {
			verdict = "MISSED"
			missed++
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s %g %s\t%s\t%s\n",
			o.Limit, o.What, measured, than, o.Bound, o.Unit, verdict, detail)
	}
	_ = tw.Flush() // to a terminal: there is nowhere left to report to
	for _, s := range r.Series {
		s.print(w)
	}
	fmt.Fprintf(w, "\n%d missed\n", missed)
}

func (s series) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", s.Name)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tops/s\tp50 ms\tp99 ms\tp99.9 ms\tmax ms\t")
	for _, x := range s.Steps {
		fmt.Fprintf(tw, "%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t\n",
			x.At, x.PerSecond, ms(x.P50), ms(x.P99), ms(x.P999), ms(x.Max))
	}
	_ = tw.Flush() // to a terminal: there is nowhere left to report to
}

// ms turns the microseconds of a sample into milliseconds.
func ms(us float64) float64 { return us / 1000 }

// save writes the file, if one was asked for.
func (r *scaleReport) save(path string) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// version returns the version that the binary reports.
func version(ctx context.Context, binary string) (string, error) {
	out, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", binary, err)
	}
	return strings.TrimSpace(string(out)), nil
}
