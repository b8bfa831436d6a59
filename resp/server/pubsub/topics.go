package pubsub

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"lockd/resp"
)

// The lock of the broker guards topics and patterns.

// topics maps names to the subscribers of them.
type topics map[string]subscribers

// subscribers are subscribers, each with the number of the last parcel published before it subscribed: it does not get
// earlier messages.
type subscribers map[*Subscriber]uint64

func (t topics) add(name string, s *Subscriber, since uint64) {
	subs := t[name]
	if subs == nil {
		subs = subscribers{}
		t[name] = subs
	}
	subs[s] = since
}

func (t topics) remove(name string, s *Subscriber) {
	subs := t[name]
	delete(subs, s)
	if len(subs) == 0 {
		delete(t, name)
	}
}

// names lists the channels that match. It calls pause now and then, during which the topics may change: the result
// has every channel with subscribers throughout, and some of those with subscribers part of the time.
func (t topics) names(matching string, left *int, pause func()) resp.Reply {
	size, next := 0, *left-listedAtOnce
	var names []string
	for name := range t {
		*left-- // the cost of looking at a name
		if resp.Glob(matching, name, left) {
			names = append(names, name)
			size += len(name)
		}
		switch {
		case *left < 0:
			return resp.Err(errPatternWork)
		case size > listedBytesMax:
			return resp.Err(errListed)
		case *left < next:
			next = *left - listedAtOnce
			pause()
		}
	}
	return resp.Bulks(names...)
}

// counts returns the number of subscribers of each name.
func (t topics) counts(names resp.Args) resp.Reply {
	counts := make([]resp.Reply, len(names))
	for i, name := range names {
		counts[i] = resp.Int(int64(len(t[name])))
	}
	return resp.Array(counts...)
}

type pattern struct {
	number uint64 // patterns are ordered by their creation
	glob   string
	head   string // the prefix of all matching channels, by which candidates are found
	rest   string // the pattern after the head
	sum    string // hash by which nodes recognize equal patterns
	subs   subscribers

	run   uint64 // see matching
	steps int
}

func newPattern(glob string) *pattern {
	head := glob
	if i := strings.IndexAny(glob, `*?[\`); i >= 0 {
		head = glob[:i]
	}
	head = head[:min(len(head), patternHeadMax)]
	sum := sha256.Sum256([]byte(glob))
	return &pattern{
		glob: glob, head: head, rest: glob[len(head):], sum: string(sum[:patternSumBytes]), subs: subscribers{},
	}
}

// patterns are the patterns of all clients.
type patterns struct {
	byGlob map[string]*pattern
	byHead map[string][]*pattern   // each in the order of numbers
	lens   [patternHeadMax + 1]int // number of heads of each length
	last   uint64
}

func newPatterns() patterns {
	return patterns{byGlob: map[string]*pattern{}, byHead: map[string][]*pattern{}}
}

// add adds a subscriber, and reports whether there was room for the pattern.
func (l *patterns) add(glob string, s *Subscriber, since uint64) bool {
	p := l.byGlob[glob]
	if p == nil {
		if len(l.byGlob) >= patternsMax {
			return false
		}
		p = newPattern(glob)
		l.insert(p)
	}
	p.subs[s] = since
	return true
}

func (l *patterns) remove(glob string, s *Subscriber) {
	if p := l.byGlob[glob]; p != nil {
		if delete(p.subs, s); len(p.subs) == 0 {
			l.delete(p)
		}
	}
}

func (l *patterns) insert(p *pattern) {
	l.last++
	p.number = l.last
	l.byGlob[p.glob] = p
	if len(l.byHead[p.head]) == 0 {
		l.lens[len(p.head)]++
	}
	l.byHead[p.head] = append(l.byHead[p.head], p)
}

func (l *patterns) delete(p *pattern) {
	delete(l.byGlob, p.glob)
	list := l.byHead[p.head]
	at, _ := slices.BinarySearchFunc(list, p, comparePatterns)
	if list = slices.Delete(list, at, at+1); len(list) > 0 {
		l.byHead[p.head] = list
		return
	}
	delete(l.byHead, p.head)
	l.lens[len(p.head)]--
}

func comparePatterns(p, q *pattern) int { return cmp.Compare(p.number, q.number) }

// candidates returns the patterns whose heads are prefixes of the channel, in any order: match sorts them, without
// the broker's lock.
func (l *patterns) candidates(channel string) (list []*pattern) {
	for n := range min(len(l.lens), len(channel)+1) {
		if l.lens[n] == 0 {
			continue
		}
		list = append(list, l.byHead[channel[:n]]...)
	}
	return list
}

// sums returns the hashes by which nodes recognize equal patterns.
func (l *patterns) sums() resp.Reply {
	sums := make([]string, 0, len(l.byGlob))
	for _, p := range l.byGlob {
		sums = append(sums, p.sum)
	}
	return resp.Bulks(sums...)
}
