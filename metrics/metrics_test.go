package metrics

import (
	"bytes"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"lockd/resp"
)

func read(t *testing.T, log io.Writer, sources ...Source) (status int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(slog.New(slog.NewTextHandler(log, nil)), sources...).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Code, w.Body.String()
}

// Each kind is exported in Prometheus's form, with its help and its labels, and collected again at each scrape.
func TestKinds(t *testing.T) {
	n := 0
	counts := make([]int64, 30)
	counts[0], counts[3], counts[11], counts[24], counts[29] = 1, 1, 2, 3, 4 // less than 1, 8 and 2048 us, 17 s; longer
	of := resp.Metric{Name: "lockd_of", Help: "By label.", Kind: resp.Counter, Labels: []string{"a", "b"}}
	of.Add(3, "x", "y")
	of.Add(4, "x", "\"\n")
	source := func() []resp.Metric {
		n++
		return []resp.Metric{
			resp.GaugeOf("lockd_now", "How often it was asked.", n), resp.CounterOf("lockd_all", "All.", uint64(7)), of,
			{Name: "lockd_took_seconds", Help: "Durations.", Kind: resp.Histogram, Of: []resp.Sample{{Value: 1.5, Counts: counts}}},
			{Name: "lockd_work_seconds", Help: "Work.", Kind: resp.Summary, Of: []resp.Sample{{Value: 2.5, Count: 9}}},
		}
	}
	var log bytes.Buffer
	status, text := read(t, &log, source)
	for _, want := range []string{
		"# HELP lockd_now How often it was asked.\n# TYPE lockd_now gauge\nlockd_now 1\n",
		"# TYPE lockd_all counter\nlockd_all 7\n",
		`lockd_of{a="x",b="y"} 3`, `lockd_of{a="x",b="\"\n"} 4`,
		"# TYPE lockd_took_seconds histogram\n" + `lockd_took_seconds_bucket{le="1.6e-05"} 2` + "\n",
		`lockd_took_seconds_bucket{le="0.001024"} 2` + "\n" + `lockd_took_seconds_bucket{le="0.002048"} 4` + "\n",
		`lockd_took_seconds_bucket{le="16.777216"} 7` + "\n" + `lockd_took_seconds_bucket{le="+Inf"} 11` + "\n",
		"lockd_took_seconds_sum 1.5\nlockd_took_seconds_count 11\n",
		"# TYPE lockd_work_seconds summary\nlockd_work_seconds_sum 2.5\nlockd_work_seconds_count 9\n",
		"go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if status != 200 || log.Len() > 0 {
		t.Errorf("status %d: %s", status, &log)
	}
	if _, text := read(t, &log, source); !strings.Contains(text, "lockd_now 2\n") {
		t.Errorf("it is not asked again:\n%s", text)
	}
}

// A figure that is given wrongly is told in the log, and does not end the process.
func TestMistakesAreTold(t *testing.T) {
	for name, m := range map[string][]resp.Metric{
		"labels": {{Name: "lockd_x", Help: "x", Labels: []string{"a"}, Of: []resp.Sample{{}}}},
		"bytes":  {{Name: "lockd_x", Help: "x", Labels: []string{"a"}, Of: []resp.Sample{{Labels: []string{"\xff"}}}}},
		"twice":  {resp.GaugeOf("lockd_x", "x", 1), resp.GaugeOf("lockd_x", "x", 1)},
	} {
		var log bytes.Buffer
		status, text := read(t, &log, func() []resp.Metric { return m })
		if status != 500 || !strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("%s: status %d, log %s\n%s", name, status, &log, text)
		}
	}
}
