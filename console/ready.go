package console

import (
	"fmt"
	"net/http"
	"strings"
)

// check is one condition of a probe; why tells why it fails, "": it passes.
type check struct{ name, why string }

// livez answers that the process is alive.
func (c *Console) livez(w http.ResponseWriter, r *http.Request) {
	answerProbe(w, r, "livez", []check{{"ping", ""}})
}

// readyz answers whether this node can serve: a leader is known, the node is a member, and it is caught up.
func (c *Console) readyz(w http.ResponseWriter, r *http.Request) {
	var checks []check
	for _, f := range c.cfg.Ready() {
		checks = append(checks, check{f.Name, f.Value})
	}
	answerProbe(w, r, "readyz", checks)
}

// answerProbe answers as the probes of etcd and Kubernetes do: with ?verbose it lists the checks.
func answerProbe(w http.ResponseWriter, r *http.Request, name string, checks []check) {
	var list, failed []string
	for _, c := range checks {
		if c.why == "" {
			list = append(list, "[+]"+c.name+" ok")
			continue
		}
		list, failed = append(list, "[-]"+c.name+" failed: "+c.why), append(failed, c.why)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	said := "ok"
	if len(failed) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		said = "not ready: " + strings.Join(failed, "; ")
	}
	if r.URL.Query().Has("verbose") {
		result := "passed"
		if len(failed) > 0 {
			result = "failed"
		}
		said = strings.Join(list, "\n") + "\n" + name + " check " + result
	}
	_, _ = fmt.Fprintln(w, said) // the caller has disconnected, or reads it
}
