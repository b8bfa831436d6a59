package console

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

func locksCommands(q *query) [][]string {
	command := []string{"LOCKS", "LIST", "COUNT", strconv.Itoa(rowsMax + 1)}
	if q.Search != "" {
		command = append(command, "MATCH", patternOf(q.Search))
	}
	if q.Waited {
		command = append(command, "WAITED")
	}
	return [][]string{command}
}

// patternOf is a pattern as it stands, or one for all names that have a text in them.
func patternOf(search string) string {
	if strings.ContainsAny(search, "*?[") {
		return search
	}
	return "*" + strings.ReplaceAll(search, `\`, `\\`) + "*"
}

// locksPage is what the table of locks shows.
type locksPage struct {
	Query   *query
	Locks   []lock
	Waiters int64
	Limit   int
	More    bool
}

func locksView(_ *Console, q *query, answers []any) any {
	p := locksPage{Query: q, Limit: rowsMax}
	for _, r := range recordsOf(answers[0]) {
		l := lockOf(r, q.DB)
		l.Holders = l.Holders[:min(len(l.Holders), holdersShown)]
		p.Locks = append(p.Locks, l)
		p.Waiters += l.Waiters
	}
	if len(p.Locks) > rowsMax {
		p.Locks, p.More = p.Locks[:rowsMax], true
	}
	switch q.Sort { // the node lists the longest held first
	case sortWaiters:
		slices.SortStableFunc(p.Locks, func(a, b lock) int { return cmp.Compare(b.Waiters, a.Waiters) })
	case sortLease:
		slices.SortStableFunc(p.Locks, func(a, b lock) int { return cmp.Compare(uint64(a.LeastMs), uint64(b.LeastMs)) })
	}
	return p
}

func lockCommands(q *query) [][]string {
	commands := [][]string{{"LOCKS", "INFO", q.Key}, {"LOCKS", "HISTORY", q.Key, "COUNT", strconv.Itoa(eventsShown)}}
	if q.Token != "" {
		commands = append(commands, []string{"LOCKS", "WHY", q.Key, q.Token})
	}
	return commands
}

// lockPage is what the page of a lock shows.
type lockPage struct {
	lock
	Query           *query
	Why, KnownSince string
	Events          []event // the newest first
	Timeline        timeline
	LineCount       int
	MoreLine        int
}

func lockView(_ *Console, q *query, answers []any) any {
	history := recordOf(answers[1])
	p := lockPage{lock: lockOf(recordOf(answers[0]), q.DB), Query: q, KnownSince: history.text("known-since")}
	for _, r := range recordsOf(history["events"]) {
		p.Events = append(p.Events, eventOf(r, q.DB, q.Key))
	}
	p.Timeline = timelineOf(&p.lock, p.Events, time.Now())
	slices.Reverse(p.Events)
	p.Key, p.LineCount = q.Key, len(p.Line)
	p.Holders, p.Line = p.Holders[:min(len(p.Holders), peopleShown)], p.Line[:min(len(p.Line), peopleShown)]
	p.MoreLine = p.LineCount - len(p.Line)
	if len(answers) > 2 {
		switch why := answers[2].(type) {
		case []byte:
			p.Why = string(why)
		case redis.Error:
			p.Why = string(why)
		}
	}
	return &p
}

func membersCommands(*query) [][]string { return [][]string{{"LOCKD", "MEMBERS"}} }

// membersPage is what the page of members shows.
type membersPage struct {
	Leader  string
	Members []member
}

func membersView(c *Console, _ *query, answers []any) any {
	var p membersPage
	most := int64(0)
	for _, r := range recordsOf(answers[0]) {
		m := memberOf(r)
		m.Here = m.ID == c.cfg.Node
		most = max(most, m.Applied)
		if m.Role == "leader" {
			p.Leader = m.ID
		}
		p.Members = append(p.Members, m)
	}
	for i := range p.Members {
		if m := &p.Members[i]; m.State == "up" {
			m.Behind = most - m.Applied
		}
	}
	return p
}
