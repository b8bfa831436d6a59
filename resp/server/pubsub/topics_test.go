package pubsub

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
)

// Patterns are found by what they begin with, in the order in which they came, whatever was taken away.
func TestCandidates(t *testing.T) {
	l, s := newPatterns(), &Subscriber{}
	globs := []string{"*", "ab*", "abc", "a?c", "b*", "abc*", "[a]*", "", strings.Repeat("x", patternHeadMax+9) + "*"}
	for _, glob := range globs {
		l.add(glob, s, 0)
	}
	want := func(channel string, globs ...string) {
		t.Helper()
		var got []string
		list := l.candidates(channel)
		slices.SortFunc(list, comparePatterns)
		for _, p := range list {
			got = append(got, p.glob)
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", globs) {
			t.Errorf("%q: %q, want %q", channel, got, globs)
		}
	}
	want("abc", "*", "ab*", "abc", "a?c", "abc*", "[a]*", "")
	want("b", "*", "b*", "[a]*", "")
	want("", "*", "[a]*", "")
	want(strings.Repeat("x", patternHeadMax), "*", "[a]*", "", globs[8])
	l.remove("[a]*", s)
	l.remove("abc", s)
	l.remove("nosuch", s)
	want("abc", "*", "ab*", "a?c", "abc*", "")
	for _, glob := range globs {
		l.remove(glob, s)
	}
	if want("abc"); len(l.byGlob)+len(l.byHead) != 0 || l.lens != [patternHeadMax + 1]int{} {
		t.Errorf("left: %+v", l)
	}
}

// Others use the broker while the channels are listed: they subscribe and leave, and the list has all channels that had
// subscribers all the time.
func TestListingChannelsLetsOthersUseTheBroker(t *testing.T) {
	b, s := newBroker(), &Subscriber{}
	const n = 4 * listedAtOnce
	for i := range n {
		b.channels.add(fmt.Sprintf("c%d", i), s, 0)
	}
	pauses := 0
	left := globStepsPerListMax
	b.Lock()
	reply := b.about(resp.Args{Channels, "c*"}, &left, func() {
		pauses++
		b.Unlock()
		b.receivers("c", false)
		b.Lock()
		for i := range 100 {
			b.channels.remove(fmt.Sprintf("c%d", pauses*100+i), s)
			b.channels.add(fmt.Sprintf("d%d", pauses*100+i), s, 0)
			b.channels.add(fmt.Sprintf("c-%d", pauses*100+i), s, 0)
		}
	})
	b.Unlock()
	if pauses < 4 {
		t.Errorf("others could use the broker %d times", pauses)
	}
	listed := map[string]int{}
	for _, name := range reply.Elems {
		listed[name.Str]++
	}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		if _, stays := b.channels[name]; listed[name] > 1 || stays && listed[name] == 0 {
			t.Fatalf("%s is listed %d times", name, listed[name])
		}
	}
	if listed["d150"] > 0 {
		t.Error("d150 does not match")
	}
}
