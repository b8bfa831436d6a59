package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// scraped is the content of /metrics of one node, without metrics of the Go runtime.
type scraped struct {
	help, kind map[string]string   // by name
	values     map[string]float64  // by name with labels
	labels     map[string][]string // name="value", by label
	text       string
}

var sampleLine = regexp.MustCompile(`^(lockd_\w+)(\{(.*)\})? (\S+)$`)

// scrape reads /metrics.
func (p *proc) scrape() scraped {
	p.t.Helper()
	status, text, err := p.browse(http.MethodGet, "/metrics", "", nil)
	if err != nil || status != http.StatusOK {
		p.t.Fatalf("%s: status %d, %v\n%s", p.name, status, err, text)
	}
	s := scraped{help: map[string]string{}, kind: map[string]string{}, values: map[string]float64{}, labels: map[string][]string{}, text: text}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.SplitN(line, " ", 4)
		if words[0] == "#" && strings.HasPrefix(words[2], "lockd_") {
			of := map[string]map[string]string{"HELP": s.help, "TYPE": s.kind}[words[1]]
			of[words[2]] = strings.Join(words[3:], "")
			continue
		}
		if !strings.HasPrefix(line, "lockd_") {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			p.t.Fatalf("what is %q", line)
		}
		var value float64
		if _, err := fmt.Sscan(m[4], &value); err != nil {
			p.t.Fatalf("%q: %v", line, err)
		}
		s.values[m[1]+m[2]] = value
		for _, pair := range regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(m[3], -1) {
			s.labels[pair[1]] = append(s.labels[pair[1]], pair[2])
		}
	}
	return s
}

// The values that labels may have: those of lockd's own words, and of the members. None is a client's.
var labelValues = map[string]string{
	"family":   "cluster connection generic hash list lockd pubsub scripting server set sorted-set stream string transactions",
	"code":     "BUSY CLUSTERDOWN ERR EXECABORT LOADING MASTERDOWN MOVED NOAUTH NOPERM NOSCRIPT OOM READONLY UNBLOCKED UNKNOWN WRONGPASS WRONGTYPE other",
	"event":    "leads follows lost leaderless granted released expired deleted overwritten forced moved flushed swapped gave-up left gone replaced refused",
	"reason":   "limit password protected slow missed pattern unsure elected succeeded only-voter handed-over stopping resigned disk deposed silent gave-up ended",
	"state":    "blocked executing idle",
	"queue":    "read write",
	"suffrage": "voter nonvoter",
	"result":   "ok failed",
	"member":   "n1 n2 n3",
}

// Metrics of three nodes report the work of clients: the same number of commands as INFO, the history of a lock, and
// the other nodes. No label contains data of clients, and every metric has a help text.
func TestMetrics(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cluster := startClusterOf(t, 3, func(int) []string { return append(consoleFlag(t), calm...) })
	leader := cluster.leader(t)
	c := leader.client().Conn()
	for _, args := range [][]any{
		{"CLIENT", "SETNAME", "evil"}, {"LOCK", "evil", "evil-token", "PX", "600000", "NOTE", "evil"}, {"NO-SUCH-evil", "evil"},
		{"EVAL", "return redis.error_reply('EVIL evil')", "0"}, {"AUTH", "evil", "evil"}, {"LPUSH", "evil", "x"},
		{"SUBSCRIBE", "evil"}, {"UNSUBSCRIBE", "evil"}, {"UNLOCK", "evil", "evil-token"}, {"LOCK", "evil", "evil-2", "PX", "600000"},
		{"GET", "evil-2"}, {"CLIENT", "NO-EVICT", "on"}, {"CONFIG", "GET", "evil*"},
	} {
		_ = c.Do(ctx, args...).Err()
	}
	all := scraped{help: map[string]string{}, labels: map[string][]string{}}
	for _, p := range cluster {
		var s scraped
		eventually(t, startTimeout, p.name+" has applied all and sees all", func() error {
			s = p.scrape()
			if n := s.values[`lockd_lock_events_total{event="granted"}`]; n != 2 {
				return fmt.Errorf("%v grants", n)
			}
			for _, m := range cluster {
				if s.values[`lockd_member_up{member="`+m.name+`"}`] != 1 {
					return errors.New("it does not see " + m.name)
				}
			}
			return nil
		})
		for name := range s.kind {
			if len(s.help[name]) < 5 {
				t.Errorf("%s: %s has no help", p.name, name)
			}
		}
		maps.Copy(all.help, s.help)
		for name, values := range s.labels {
			all.labels[name] = append(all.labels[name], values...)
		}
		if strings.Contains(s.text, "evil") || strings.Contains(strings.ToLower(s.text), "evil") {
			t.Errorf("%s shows what a client has sent:\n%s", p.name, s.text)
		}
		leads := 0.0
		if p == leader {
			leads = 1
		}
		for name, want := range map[string]float64{
			"lockd_leader": leads, "lockd_leader_known": 1, `lockd_members{suffrage="voter"}`: 3, "lockd_locks_held": 1, "lockd_leases": 1,
			`lockd_lock_events_total{event="granted"}`: 2, `lockd_lock_events_total{event="released"}`: 1,
		} {
			if got, ok := s.values[name]; !ok || got != want {
				t.Errorf("%s: %s is %v, want %v", p.name, name, got, want)
			}
		}
		for _, name := range []string{"lockd_sync_duration_seconds_count", "lockd_apply_duration_seconds_count", "lockd_last_fence", "lockd_log_clock_seconds", "lockd_monotonic_seconds", `lockd_command_execution_seconds_count{family="lockd"}`} {
			if s.values[name] <= 0 {
				t.Errorf("%s: %s is %v", p.name, name, s.values[name])
			}
		}
	}
	for name, values := range all.labels {
		if name == "le" || name == "version" || name == "go" {
			continue
		}
		for _, v := range values {
			if !slices.Contains(strings.Fields(labelValues[name]), v) {
				t.Errorf("the label %s has the value %q, which is not in the list", name, v)
			}
		}
	}
	s := leader.scrape()
	if s.values["lockd_commit_duration_seconds_count"] <= 0 || s.values[`lockd_connections_denied_total{reason="password"}`] != 1 ||
		s.values[`lockd_error_replies_total{code="other"}`] < 1 || s.values[`lockd_error_replies_total{code="WRONGPASS"}`] != 1 {
		t.Errorf("the leader shows\n%s", s.text)
	}
	checkSameAsInfo(t, leader, c)
	checkOpsKnow(t, all.help)
}

// checkSameAsInfo compares the calls of families that nothing calls at present.
func checkSameAsInfo(t *testing.T, p *proc, c *redis.Conn) {
	t.Helper()
	info, err := c.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	s := p.scrape()
	calls := func(name string) (n float64) {
		for _, m := range regexp.MustCompile(`cmdstat_`+name+`:calls=(\d+)`).FindAllStringSubmatch(info, -1) {
			var one float64
			_, _ = fmt.Sscan(m[1], &one)
			n += one
		}
		return n
	}
	if got, want := s.values[`lockd_commands_total{family="scripting"}`], calls(`(?:eval|evalsha|script\|\w+)`); got != want || want != 1 {
		t.Errorf("%v calls of scripts, INFO says %v", got, want)
	}
	if got := s.values[`lockd_command_duration_seconds_count{family="scripting"}`]; got != 1 {
		t.Errorf("the durations of %v scripts", got)
	}
}

var metricName = regexp.MustCompile(`\blockd_[a-z_]+\b`)

// checkOpsKnow compares the names in the rules and the dashboard with those that there are.
func checkOpsKnow(t *testing.T, help map[string]string) {
	t.Helper()
	for _, file := range opsFiles {
		text, err := os.ReadFile(filepath.Join("../../ops", file))
		if err != nil {
			t.Error(err)
			continue
		}
		found := metricName.FindAllString(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no figure", file)
		}
		for _, name := range found {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if cut, ok := strings.CutSuffix(name, suffix); ok && help[cut] != "" {
					base = cut
				}
			}
			if help[base] == "" {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
	}
}

// Files for Prometheus and Grafana in ops/.
const (
	rulesFile     = "prometheus/lockd.rules.yml"
	ruleTestsFile = "prometheus/lockd.rules.test.yml"
	dashboardFile = "grafana/lockd.json"
)

var opsFiles = []string{rulesFile, ruleTestsFile, dashboardFile}

// Each alert has a meaning and advice, links to a section of docs/monitoring.md, and has a test in which it fires.
// Each such section belongs to an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join("../../ops", rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(filepath.Join("../../ops", ruleTestsFile))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docsDir, "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := strings.Split(string(rules), "- alert: ")[1:]
	if len(alerts) < 15 {
		t.Fatalf("%d alerts", len(alerts))
	}
	if sections := strings.Count(string(page), "\n### Lockd"); sections != len(alerts) {
		t.Errorf("docs/monitoring.md has %d sections for %d alerts", sections, len(alerts))
	}
	for _, alert := range alerts {
		name, _, _ := strings.Cut(alert, "\n")
		if !strings.Contains(string(page), "\n### "+name+"\n") {
			t.Errorf("%s has no section in docs/monitoring.md", name)
		}
		if url := "runbook_url: docs/monitoring.md#" + strings.ToLower(name) + "\n"; !strings.Contains(alert, url) {
			t.Errorf("%s has no %s", name, url)
		}
		for _, part := range []string{"expr:", "severity:", "summary:", "runbook:"} {
			if !strings.Contains(alert, part) {
				t.Errorf("%s has no %s", name, part)
			}
		}
		fires := `labels: 'ALERTS{alertname="` + name + `", alertstate="firing"`
		if !strings.Contains(string(tests), fires) {
			t.Errorf("%s has no test in which it fires", name)
		}
	}
}

// Grafana can read the dashboard: panels with titles, which do not overlap, and queries.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../../ops", dashboardFile))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title, UID string
		Panels     []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || len(d.Panels) < 12 {
		t.Errorf("%q, %q, %d panels", d.Title, d.UID, len(d.Panels))
	}
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] {
			t.Errorf("panel %d %q has no title, or the id of another", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := places[at]; other != "" || at[0] >= 24 {
					t.Fatalf("%q lies over %q, or beyond the edge", p.Title, other)
				}
				places[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			if target.Expr == "" || target.RefID == "" {
				t.Errorf("%q asks for nothing", p.Title)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%q shows nothing", p.Title)
		}
	}
}
