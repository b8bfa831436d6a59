package target

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockd/internal/process"
)

// Ends is what has become of processes, and what nodes have said of it.
type Ends struct {
	Ended   int      // so many processes have ended
	Noticed int      // and of so many of these another node said so at once
	Wrong   []string // what was said of processes that lived
}

// life is one process.
type life struct {
	id       string    // of the member
	from, to time.Time // to is zero while it lasts
	told     bool      // that it has ended was counted
}

// claim is what a node has written into its log: the process of a member has ended.
type claim struct {
	by, of string
	at     time.Time
	line   string
}

var claimLine = regexp.MustCompile(`^time=(\S+) .*msg="the process of (?:the leader|a member) has ended\b[^"]*" ` +
	`(?:leader|member)=(\S+)`)

const (
	// noticedIn is how soon after its end a process is found to have ended, if it is by that and not by its silence.
	noticedIn = time.Second
	// claimEarly is by how much the end of a process may be seen before this program knows of it.
	claimEarly = 100 * time.Millisecond
	// claimLate is how late a node may say so: it may be paused before it does, and the next process have begun. Of the
	// first process of a member nothing can be said that was meant for another one.
	claimLate = 15 * time.Second
	// claimAfter is for how long what members found of a node that looked dead may still be told: they ask each other
	// first.
	claimAfter = 2 * time.Second
)

// Ends implements Target.
func (t *lockd) Ends() Ends {
	var lives []life
	var claims []claim
	for _, name := range t.names {
		p := &t.nodes[name].proc
		lives = append(lives, p.takeLives()...)
		claims = append(claims, p.takeClaims()...)
	}
	return ends(lives, claims, t.net.lookedDead)
}

// takeLives returns the processes so far; of each that has ended only the first time that it has.
func (p *proc) takeLives() []life {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := slices.Clone(p.lives)
	for i := range p.lives {
		p.lives[i].told = !p.lives[i].to.IsZero()
	}
	return taken
}

// takeClaims returns what the node has claimed since the last time.
func (p *proc) takeClaims() (claims []claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := process.LogFrom(p.logPath, p.claimsTo)
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

// ends judges claims by the processes that there were. Those that ended and were counted before are counted no more. A
// claim is not wrong about a node that looked dead, by what faults did to its port and its connections.
func ends(lives []life, claims []claim, lookedDead func(node string, at time.Time) bool) (e Ends) {
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
		if node, _, _ := strings.Cut(c.of, "-"); lookedDead(node, c.at) {
			continue
		}
		first := slices.IndexFunc(lives, func(l life) bool { return l.id == c.of })
		lived := func(l life) bool {
			return l.id == c.of && (l == lives[first] || l.from.Before(c.at.Add(-claimLate))) && l.from.Before(c.at) &&
				(l.to.IsZero() || l.to.After(c.at.Add(claimEarly)))
		}
		if i := slices.IndexFunc(lives, lived); i >= 0 {
			e.Wrong = append(e.Wrong, fmt.Sprintf("%s says so of a process that ran since %.1f s: %s", c.by,
				c.at.Sub(lives[i].from).Seconds(), c.line))
		}
	}
	return e
}
