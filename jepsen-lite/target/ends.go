package target

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Ends are the ends of processes, and what the other nodes logged about them: a node that finds that the process of a
// member has ended need not wait until the member is silent for long.
type Ends struct {
	Ended   int      // processes that have ended
	Noticed int      // how many of these ends another node logged at once
	Wrong   []string // log lines about processes that had not ended
}

// life is one process of a node.
type life struct {
	id       string    // of the member
	from, to time.Time // to is zero while the process runs
	ordered  bool      // it was told to end
	listened time.Time // when its peer port was last found open after that; zero: never
	told     bool      // its end was counted
}

// claim is a log line of one node: the process of another member has ended.
type claim struct {
	by, of string
	at     time.Time
	line   string
}

var claimLine = regexp.MustCompile(`^time=(\S+) .*msg="the process of (?:the leader|a member) has ended\b[^"]*" ` +
	`(?:leader|member)=(\S+)`)

const (
	// noticedIn bounds the time between an end and a claim that was made because of it. Later claims follow from the
	// silence of the member.
	noticedIn = time.Second
	// claimEarly bounds how much earlier than this program a node may see an end.
	claimEarly = 100 * time.Millisecond
	// claimLate bounds how late a node may claim an end: it may be paused before it does, and by then the next process of
	// the member runs. Times in which the two were apart do not count: it learns of the end when it meets that process.
	// The first process of a member has none before it that the claim could be about.
	claimLate = 15 * time.Second
	// claimAfter bounds how long after a node looked dead others may still claim its end, since they ask each other
	// first.
	claimAfter = 2 * time.Second
)

// takeLives returns all processes so far, and marks those that have ended as told.
func (p *proc) takeLives() []life {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := slices.Clone(p.lives)
	for i := range p.lives {
		p.lives[i].told = !p.lives[i].to.IsZero()
	}
	return taken
}

// takeClaims returns what the node has claimed since the last call.
func (p *proc) takeClaims() (claims []claim) {
	p.reading.Lock()
	defer p.reading.Unlock()
	text := p.where().LogFrom(p.logPath, p.claimsTo)
	text = text[:strings.LastIndexByte(text, '\n')+1]
	p.claimsTo += int64(len(text))
	for line := range strings.Lines(text) {
		found := claimLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		if at, err := time.Parse(time.RFC3339, found[1]); err == nil {
			claims = append(claims, claim{p.name, found[2], at, strings.TrimSpace(line)})
		}
	}
	return claims
}

// livedAt reports whether the process certainly lived at a time, for its peers: one that was told to end serves them until
// it closes its peer port, and its process may live on for seconds then, as while its disk hangs.
func (l *life) livedAt(t time.Time) bool {
	if l.ordered {
		return l.listened.After(t)
	}
	return l.to.IsZero() || l.to.After(t.Add(claimEarly))
}

// judgeEnds counts the ends of lives that were not told before, and judges claims. A claim is wrong if the process that
// it is about lived on for its peers, unless the node looked dead because of faults to its port and its connections.
func judgeEnds(lives []life, claims []claim, n *Net) (e Ends) {
	for _, l := range lives {
		if l.to.IsZero() || l.told {
			continue
		}
		e.Ended++
		at := func(c claim) bool {
			return c.of == l.id && c.at.After(l.to.Add(-claimEarly)) && c.at.Before(l.to.Add(noticedIn))
		}
		if slices.ContainsFunc(claims, at) {
			e.Noticed++
		}
	}
	for _, c := range claims {
		node, _, _ := strings.Cut(c.of, "-")
		if n.lookedDead(node, c.at) {
			continue
		}
		first := slices.IndexFunc(lives, func(l life) bool { return l.id == c.of })
		lived := func(l life) bool {
			return l.id == c.of && l.from.Before(c.at) && l.livedAt(c.at) &&
				(l == lives[first] || n.together(c.by, node, l.from, c.at) > claimLate)
		}
		if i := slices.IndexFunc(lives, lived); i >= 0 {
			e.Wrong = append(e.Wrong, fmt.Sprintf("%s says so of a process that ran since %.1f s: %s", c.by,
				c.at.Sub(lives[i].from).Seconds(), c.line))
		}
	}
	return e
}
