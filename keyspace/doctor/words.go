package doctor

import (
	"cmp"
	"strconv"
	"strings"
)

// Mistake is a kind of mistake.
type Mistake uint8

// The mistakes.
const (
	SetNXNoLease Mistake = iota
	SetNXExpire
	GetThenSet
	DelOfAnothers
	ExpireOfAnothers
	GetThenDel
	ConstantToken
	SharedToken
	LateRelease
	LeaseDropped
	Polling
	Zombie
	Redlock
)

// words describe a mistake: its name, what happens, the consequence and the cure. $ stands for a number of
// milliseconds.
type words struct{ name, what, why, cure string }

var mistakeWords = [...]words{
	SetNXNoLease: {
		"setnx-without-lease", "is taken without a lease", "if a holder dies, nobody gets it any more",
		"take it by SET key token NX PX milliseconds",
	},
	SetNXExpire: {
		"setnx-then-expire", "is taken by SETNX, and gets its lease by EXPIRE",
		"who dies in between keeps it for ever", "SET key token NX PX milliseconds does both at once",
	},
	GetThenSet: {
		"get-then-set", "is taken by GET and then SET", "two that ask at the same moment both get it",
		"SET key token NX PX milliseconds looks and takes in one step",
	},
	DelOfAnothers: {
		"del-of-anothers-lock",
		"was freed by DEL for another client, by one whose own lease had ended up to $ ms before",
		"two were at work, and a third could come", "UNLOCK key token, or a script that compares, frees only one's own",
	},
	ExpireOfAnothers: {
		"expire-of-anothers-lock",
		"was renewed by EXPIRE for another client, by one whose own lease had ended up to $ ms before",
		"two were at work, and LOCKS WHY counts it as a renewal by the other one",
		"RENEW key token, SET IFEQ, or a script that compares, renews only one's own",
	},
	GetThenDel: {
		"get-then-del", "is compared by GET and then freed by DEL",
		"if the lease ends in between, DEL frees another's lock",
		"UNLOCK key token, or a script, does both at once",
	},
	ConstantToken: {
		"constant-token", "always has the same token", "no client can tell its own lock from another's",
		"draw a new token for each lock",
	},
	SharedToken: {
		"shared-token", "was released by a client that had lost it, with the token of the one that had it",
		"two were at work, and a third could come", "draw a new token for each lock",
	},
	LateRelease: {
		"late-release", "was released, or renewed, up to $ ms after its lease had ended",
		"work was done without the lock",
		"give it a longer lease (LOCKS ADVICE), or renew it in time",
	},
	LeaseDropped: {
		"renewal-drops-lease", "is renewed by SET IFEQ without PX, which takes the lease away",
		"if the holder dies, nobody gets it any more", "use SET key token IFEQ token PX milliseconds, or RENEW",
	},
	Polling: {
		"fast-polling", "is asked for more often than every 10 ms", "the tries only slow others down",
		"wait in line: LOCK key token PX milliseconds WAIT milliseconds",
	},
	Zombie: {
		"zombie-watchdog",
		"has been renewed for $ ms, far longer than others hold such a lock, by a program that does nothing else with locks",
		"its work may have ended long ago", "end the watchdog with the work, and this lock by LOCKS FORCE",
	},
	Redlock: {
		"redlock-masters", "is asked for at several nodes with one token, as Redlock does with masters of their own",
		"the nodes are one server, and all but one refuse",
		"give the library one address, or a client that knows several",
	},
}

// String returns the name of a mistake.
func (m Mistake) String() string { return mistakeWords[m].name }

// ClientName returns the client of the example: its name, or its address, or "" if it is not known.
func (f *Finding) ClientName() string {
	if f.Client == nil {
		return ""
	}
	return cmp.Or(f.Client.Name, f.Client.Addr)
}

// Sentence returns the finding as a sentence.
func (f *Finding) Sentence() string {
	w := &mistakeWords[f.Mistake]
	what := strings.Replace(w.what, "$", strconv.FormatInt(f.Ms, 10), 1)
	text := f.Template + " " + what + " (" + times(f.Count) + ", such as " + f.Example
	if by := f.ClientName(); by != "" {
		text += " by " + by
	}
	return text + "): " + w.why + "; " + w.cure + "."
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return strconv.FormatInt(n, 10) + " times"
}
