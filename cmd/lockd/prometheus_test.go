//go:build prometheus

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockd/internal/process"
)

// lockd's metrics and rules in a real Prometheus, which the step ops of .ci/verify installs.

// alertTimeout bounds the wait for an alert: more than twice the longest "for" of a rule.
const alertTimeout = 3 * time.Minute

// prometheus is a Prometheus that scrapes a cluster.
type prometheus struct {
	t    *testing.T
	addr string
}

// watchedBy starts a Prometheus with the rules of ops/.
func watchedBy(t *testing.T, cluster nodes) *prometheus {
	t.Helper()
	rules, err := filepath.Abs(filepath.Join("../../ops", rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, p := range cluster {
		targets = append(targets, fmt.Sprintf("%q", p.flagOf("--http-listen")))
	}
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: lockd, static_configs: [{targets: [%s]}]}]\n", rules, strings.Join(targets, ", "))
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &prometheus{t: t, addr: fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])}
	background(t, process.Command{
		Name: "prometheus", Path: "prometheus", Log: filepath.Join(dir, "log"),
		Args: []string{"--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", w.addr},
	})
	return w
}

// ask is an answer of Prometheus's API.
func (w *prometheus) ask(path string, answer any) error {
	res, err := http.Get("http://" + w.addr + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(answer)
}

// firing are the names of the alerts that fire, and of those that have what a template could not fill.
func (w *prometheus) firing() (names []string, err error) {
	var answer struct {
		Data struct {
			Alerts []struct {
				State               string
				Labels, Annotations map[string]string
			}
		}
	}
	err = w.ask("/api/v1/alerts", &answer)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
		if said := a.Annotations["summary"]; said == "" || strings.Contains(said, "error expanding") || strings.Contains(said, "{{") {
			w.t.Errorf("%s says %q", a.Labels["alertname"], said)
		}
	}
	return names, err
}

func (w *prometheus) awaitAlert(name string, fires bool) {
	w.t.Helper()
	eventually(w.t, alertTimeout, fmt.Sprintf("%s fires: %v", name, fires), func() error {
		names, err := w.firing()
		if err == nil && slices.Contains(names, name) != fires {
			err = fmt.Errorf("there are %v", names)
		}
		return err
	})
}

// promtool accepts the metrics of a node, and Prometheus scrapes three nodes. No alert fires while all is well. One
// fires when the leader is killed, another when a second node is killed and no node leads; all end when the nodes are
// back.
func TestPrometheus(t *testing.T) {
	cluster := startClusterOf(t, 3, func(int) []string { return append(consoleFlag(t), patient()...) })
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(cluster[0].scrape().text)
	if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	w := watchedBy(t, cluster)
	eventually(t, alertTimeout, "three nodes are read", func() error {
		var answer struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		err := w.ask("/api/v1/query?query=count(lockd_build_info)", &answer)
		if err == nil && (len(answer.Data.Result) != 1 || answer.Data.Result[0].Value[1] != "3") {
			err = fmt.Errorf("%v", answer)
		}
		return err
	})
	if names, err := w.firing(); err != nil || len(names) > 0 {
		t.Errorf("there is nothing wrong, and %v fire (%v)", names, err)
	}
	lost := cluster.leader(t)
	lost.Kill()
	w.awaitAlert("LockdNodeDown", true)
	w.awaitAlert("LockdNoMoreFailures", true)
	next := cluster.others(lost).leader(t)
	next.Kill()
	w.awaitAlert("LockdLeaderless", true)
	lost.start()
	next.start()
	w.awaitAlert("LockdLeaderless", false)
	w.awaitAlert("LockdNodeDown", false)
}
