package load

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		all  []float64
		want float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 100, 1, 2}, 3},
	} {
		if got := Median(tt.all); got != tt.want {
			t.Errorf("median of %v is %v, want %v", tt.all, got, tt.want)
		}
	}
}

// testReport has two targets; the second is twice as fast at one client, and was not
// measured at 50.
func testReport() *Report {
	r := &Report{
		Began: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Machine: Machine{2, "cpu", "1 GiB", "linux"}, Settings: Settings{3, 3, 1000, 20},
		Targets: []TargetInfo{{Target: Target{Name: "a", Wait: 1}, Servers: []string{"h:1 redis 7"}}, {Target: Target{Name: "b<", Master: true}, Servers: []string{"h:2 lockd 1"}}},
	}
	add := func(workload string, clients int, target string, perSecond ...float64) {
		var rounds []Sample
		for _, x := range perSecond {
			rounds = append(rounds, Sample{PerSecond: x, P50: 1000 * x, P99: 2, P999: 3})
		}
		r.Results = append(r.Results, Result{Workload: workload, Clients: clients, Pipeline: 1, Target: target, Median: Medians(rounds), Rounds: rounds})
	}
	add("set", 1, "a", 10, 1000, 100)
	add("set", 1, "b<", 1, 200, 4000)
	add("set", 50, "a", 12345, 12345, 1)
	return r
}

// Ratios are ratios of medians, and exist only with both.
func TestRatio(t *testing.T) {
	r := testReport()
	if got, ok := r.Ratio("set", 1, 1, "b<", "a"); !ok || got != 2 {
		t.Errorf("ratio %v %v, want 2", got, ok)
	}
	for _, c := range []struct {
		workload          string
		clients, pipeline int
	}{{"set", 50, 1}, {"get", 1, 1}, {"set", 1, 16}} {
		if got, ok := r.Ratio(c.workload, c.clients, c.pipeline, "b<", "a"); ok {
			t.Errorf("%+v has the ratio %v, but was not measured", c, got)
		}
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	testReport().Print(&out)
	for _, want := range []string{
		"2026-11-21 12:00 UTC\n2 cores of cpu, 1 GiB of memory, linux\n",
		"a (WAIT 1 after each write):\n  h:1 redis 7\n", "b< (all clients to the leader):\n  h:2 lockd 1\n",
		"1000 keys, 20 bytes, pipeline 1, medians of 3 rounds of 3s\n",
		"  clients  target   ops/s  ratio      p50      p99    p99.9\n",
		"        1       a     100   1.00    100ms  0.002ms  0.003ms\n",
		"        1      b<     200   2.00    200ms  0.002ms  0.003ms\n",
		"       50       a  12,345   1.00  12345ms  0.002ms  0.003ms\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "CPU") {
		t.Errorf("processor time that nobody has counted:\n%s", out.String())
	}
}

// Processor time has a column if it was counted.
func TestPrintCPU(t *testing.T) {
	r := testReport()
	r.Results[1].Median.CPU = 52.6
	var out strings.Builder
	r.Print(&out)
	for _, want := range []string{
		"  clients  target   ops/s  ratio      p50      p99    p99.9  CPU/op\n",
		"        1       a     100   1.00    100ms  0.002ms  0.003ms       -\n",
		"        1      b<     200   2.00    200ms  0.002ms  0.003ms    53µs\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// The picture is well-formed, and has a bar for each result and a box for each target.
func TestPlot(t *testing.T) {
	var out bytes.Buffer
	if err := testReport().plot(&out); err != nil {
		t.Fatal(err)
	}
	bars, d := 0, xml.NewDecoder(&out)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 1+2+3 {
		t.Errorf("%d rectangles, want a ground, 2 boxes and 3 bars", bars)
	}
	if err := (&Report{}).plot(io.Discard); err == nil {
		t.Error("nothing was drawn without an error")
	}
}

func TestNiceStep(t *testing.T) {
	for x, want := range map[float64]float64{0: 1, 1.5: 2, 3: 5, 7: 10, 1001: 2000} {
		if got := niceStep(x); got != want {
			t.Errorf("niceStep(%v) = %v, want %v", x, got, want)
		}
	}
}

// A run's sample joins all shards.
func TestSample(t *testing.T) {
	r := newRun()
	for i := range 1000 {
		r.shards[i%shardCount].add(time.Duration(i+1)*time.Millisecond, 2)
	}
	s := r.sample(counted{time: 4 * time.Second, cpu: 6 * time.Millisecond})
	if s.Operations != 2000 || s.PerSecond != 500 {
		t.Errorf("%d operations, %v a second; want 2000, 500", s.Operations, s.PerSecond)
	}
	if s.CPU != 3 {
		t.Errorf("%v µs of processor for an operation, want 3", s.CPU)
	}
	for _, q := range []struct{ got, want float64 }{{s.P50, 500_000}, {s.P99, 990_000}, {s.P999, 999_000}, {s.Max, 1_000_000}} {
		if q.got < q.want || q.got > q.want*1.002 {
			t.Errorf("a quantile of %v us, want %v", q.got, q.want)
		}
	}
	if hdrhistogram.New(latencyMin, latencyMax, latencyDigits).RecordValue(latencyMax) != nil {
		t.Error("the bound is out of bounds")
	}
}
