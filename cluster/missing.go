package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// missing are the voters that did not answer a node without a leader. Its methods may be called
// concurrently.
type missing struct {
	mu sync.Mutex
	of map[string]missed
}

// missed is a member that does not answer.
type missed struct {
	addr   string
	since  time.Duration // monotonic: when it was first found so
	silent time.Duration // until the last question
	why    string
}

// note takes the answers to a question that was asked at a monotonic time, and says how many voters there
// are, and how many of them do not answer.
func (m *missing) note(answers []surveyed, now time.Duration, why func(surveyed) string) (voters, away int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.of
	m.of = map[string]missed{}
	for _, a := range answers {
		if a.Suffrage != raft.Voter {
			continue
		}
		voters++
		if a.err == nil {
			continue
		}
		away++
		since := now
		if known, ok := was[string(a.ID)]; ok {
			since = known.since
		}
		m.of[string(a.ID)] = missed{addr: string(a.Address), since: since, silent: now - since, why: why(a)}
	}
	return voters, away
}

// forget is called when there is a leader.
func (m *missing) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of = nil
}

// list says who is missed, since when and why.
func (m *missing) list() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for id, of := range m.of {
		list = append(list, fmt.Sprintf("%s (%s, for %s: %s)", id, of.addr, of.silent.Round(time.Second), of.why))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// sentence is what follows a sentence about this node.
func (m *missing) sentence() string {
	if list := m.list(); list != "" {
		return ": this node waits for " + list
	}
	return ""
}
