package console

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockd/internal/locks"
	"lockd/resp"
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

// patternOf returns a pattern unchanged, and for other text the pattern of all names that contain it.
func patternOf(search string) string {
	if strings.ContainsAny(search, "*?[") {
		return search
	}
	return "*" + strings.ReplaceAll(search, `\`, `\\`) + "*"
}

// locksPage is the data of the table of locks.
type locksPage struct {
	Query   *query
	Locks   []lock
	Waiters int64
	Limit   int
	More    bool
}

func locksView(_ *Console, q *query, answers []resp.Reply) (any, error) {
	list, err := locks.ParseList(answers[0])
	p := locksPage{Query: q, Limit: rowsMax, More: len(list) > rowsMax}
	list = list[:min(len(list), rowsMax)]
	switch q.Sort { // the node lists the longest held first
	case sortWaiters:
		slices.SortStableFunc(list, func(a, b locks.Lock) int { return cmp.Compare(b.Waiters, a.Waiters) })
	case sortLease:
		slices.SortStableFunc(list, func(a, b locks.Lock) int { return cmp.Compare(leastLeft(&a), leastLeft(&b)) })
	}
	for _, l := range list {
		p.Locks = append(p.Locks, lockOf(l, holdersShown))
		p.Waiters += l.Waiters
	}
	return p, err
}

func lockCommands(q *query) [][]string {
	commands := [][]string{{"LOCKS", "INFO", q.Key}, {"LOCKS", "HISTORY", q.Key, "COUNT", strconv.Itoa(eventsShown)}}
	if q.Token != "" {
		commands = append(commands, []string{"LOCKS", "WHY", q.Key, q.Token})
	}
	return commands
}

// lockPage is the data of a lock's page.
type lockPage struct {
	lock
	Query      *query
	Why        string
	KnownSince time.Time
	Events     []locks.Event // the newest first
	Timeline   timeline
	Line       []locks.Waiter
	MoreLine   int
}

func lockView(_ *Console, q *query, answers []resp.Reply) (any, error) {
	info, err := locks.ParseInfo(q.Key, answers[0])
	if err != nil {
		return nil, err
	}
	if info == nil {
		info = &locks.Info{}
	}
	history, err := locks.ParseHistory(answers[1])
	if err != nil {
		return nil, err
	}
	p := &lockPage{
		lock: lockOf(info.Lock, peopleShown), Query: q, KnownSince: history.KnownSince, Events: history.Events,
		Timeline: timelineOf(info, history.Events, time.Now()), Line: info.Line[:min(len(info.Line), peopleShown)],
	}
	p.MoreLine = len(info.Line) - len(p.Line)
	slices.Reverse(p.Events)
	if len(answers) > 2 {
		p.Why = answers[2].Str // or the error of the node
	}
	return p, nil
}

func membersCommands(*query) [][]string { return [][]string{{"LOCKD", "MEMBERS"}} }

// membersPage is the data of the members' page.
type membersPage struct {
	Leader  string
	Level   int64
	Members []member
}

type member struct {
	locks.Member
	Behind int64
	Here   bool
}

func membersView(c *Console, _ *query, answers []resp.Reply) (any, error) {
	list, err := locks.ParseMembers(answers[0])
	var p membersPage
	most := int64(0)
	for _, m := range list {
		most = max(most, m.Applied)
	}
	for _, m := range list {
		if m.Role == "leader" {
			p.Leader = m.ID
		}
		p.Level = max(p.Level, m.Level)
		shown := member{Member: m, Here: m.ID == c.cfg.Node}
		if m.State == "up" {
			shown.Behind = most - m.Applied
		}
		p.Members = append(p.Members, shown)
	}
	return p, err
}

func doctorCommands(*query) [][]string { return [][]string{{"LOCKS", "DOCTOR"}, {"LOCKS", "ADVICE"}} }

// doctorPage is the data of the doctor's page.
type doctorPage struct {
	locks.Diagnosis
	Advice [][]locks.Field // all rows have the columns of the first
}

func doctorView(_ *Console, _ *query, answers []resp.Reply) (any, error) {
	said, err := locks.ParseDoctor(answers[0])
	if err != nil {
		return nil, err
	}
	advice, err := locks.ParseAdvice(answers[1])
	said.Findings = said.Findings[:min(len(said.Findings), findingsShown)]
	return doctorPage{said, advice[:min(len(advice), findingsShown)]}, err
}

// lock is a lock with some of its holders.
type lock struct {
	locks.Lock
	HolderCount int
}

// lockOf keeps at most most holders.
func lockOf(l locks.Lock, most int) lock {
	n := len(l.Holders)
	l.Holders = l.Holders[:min(n, most)]
	return lock{l, n}
}

// More returns the number of holders that are not shown.
func (l lock) More() int { return l.HolderCount - len(l.Holders) }

// leastLeft returns the time left of the lease that ends first; the maximum if none ends.
func leastLeft(l *locks.Lock) time.Duration {
	least := time.Duration(1<<63 - 1)
	for i := range l.Holders {
		if h := &l.Holders[i]; h.HasLease {
			least = min(least, h.LeaseLeft)
		}
	}
	return least
}

// whose returns the shortest name that identifies a holder.
func whose(h locks.Holder) string { return cmp.Or(who(h.Owner, h.Token, h.Client), h.Token) }

// percent returns the rest of a lease in percent.
func percent(h locks.Holder) int64 {
	switch {
	case !h.HasLease:
		return 100
	case h.Lease <= 0:
		return 0
	}
	return min(100, int64(h.LeaseLeft/(h.Lease/100)))
}

// isBad reports whether an event is the loss of a lock that its holder did not give up.
func isBad(e locks.Event) bool { return e.Lost() && e.Event != "released" && e.Event != "moved" }
