package console

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// check is one condition of a probe. why it is not met; "": it is.
type check struct{ name, why string }

// livez says that the process moves: it answers.
func (c *Console) livez(w http.ResponseWriter, r *http.Request) {
	answerProbe(w, r, "livez", []check{{"ping", ""}})
}

// readyz says whether this node can serve: a leader is known, the node is a member, and it is caught up.
func (c *Console) readyz(w http.ResponseWriter, r *http.Request) {
	answerProbe(w, r, "readyz", c.readyChecks(r.Context()))
}

// answerProbe answers as those of etcd and Kubernetes do: with ?verbose it lists the checks.
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
	_, _ = fmt.Fprintln(w, said) // whoever asks is gone, or hears it
}

// readiness is the last answer: nobody needs a password to ask, so it must cost little.
type readiness struct {
	mu     sync.Mutex
	at     time.Time
	checks []check
}

func (c *Console) readyChecks(ctx context.Context) []check {
	c.ready.mu.Lock()
	defer c.ready.mu.Unlock()
	if !c.ready.at.IsZero() && time.Since(c.ready.at) < readyKept {
		return c.ready.checks
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeMax) // the answer is for others, too
	defer cancel()
	answers, err := c.askNow(ctx, question{
		visitor:  visitor{addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, password: c.cfg.Password},
		commands: [][]string{{"INFO", "raft"}},
	})
	checks := []check{{"node", ""}}
	if err == nil {
		checks = append(checks, checksOf(answers[0].Str)...)
	} else {
		checks[0].why = err.Error()
	}
	c.ready.checks, c.ready.at = checks, time.Now()
	return checks
}

// checksOf are those in the section Raft of INFO, which the node has judged itself.
func checksOf(info string) (checks []check) {
	for line := range strings.SplitSeq(info, "\n") {
		name, said, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name, ok := strings.CutPrefix(name, "ready_"); ok {
			if said == "ok" {
				said = ""
			}
			checks = append(checks, check{name, said})
		}
	}
	if len(checks) == 0 {
		return []check{{"info", "the node does not say whether it is ready"}}
	}
	return checks
}
