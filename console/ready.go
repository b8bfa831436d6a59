package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// livez says that the process moves: it answers.
func (c *Console) livez(w http.ResponseWriter, _ *http.Request) { answerProbe(w, nil) }

// readyz says whether this node can serve: a leader is known, the node is a member, and it is caught up.
func (c *Console) readyz(w http.ResponseWriter, r *http.Request) {
	answerProbe(w, c.isReady(r.Context()))
}

func answerProbe(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, "not ready: %v\n", err) // whoever asks is gone, or hears it
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// readiness is the last answer: nobody needs a password to ask, so it must cost little.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

func (c *Console) isReady(ctx context.Context) error {
	c.ready.mu.Lock()
	defer c.ready.mu.Unlock()
	if !c.ready.at.IsZero() && time.Since(c.ready.at) < readyKept {
		return c.ready.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeMax) // the answer is for others, too
	defer cancel()
	answers, err := c.askNow(ctx, question{
		visitor:  visitor{addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, password: c.cfg.Password},
		commands: [][]string{{"INFO", "raft"}},
	})
	if err == nil {
		err = readyBy(answers[0].Str)
	}
	c.ready.err, c.ready.at = err, time.Now()
	return err
}

// readyBy says by the section Raft of INFO what the node waits for; nil: nothing.
func readyBy(info string) error {
	fields := map[string]string{}
	for line := range strings.SplitSeq(info, "\n") {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	committed, _ := strconv.ParseInt(fields["commit_index"], 10, 64) // 0 for what is no number: nothing is known
	applied, _ := strconv.ParseInt(fields["machine_index"], 10, 64)
	switch {
	case fields["leader_id"] == "":
		return errors.New("no leader is known")
	case !slices.Contains(strings.Split(fields["members"], ","), fields["node_id"]):
		return errors.New("this node is no member of the cluster yet, or any more")
	case committed == 0:
		return errors.New("this node does not know yet what is committed")
	case committed-applied > readyLagMax:
		return fmt.Errorf("this node is %d entries behind", committed-applied)
	}
	return nil
}
