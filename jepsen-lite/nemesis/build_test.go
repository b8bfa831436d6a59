package nemesis

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// twoBuilds is a target whose nodes are of two builds. The nodes of a majority of one build serve.
type twoBuilds struct {
	target.Target
	other  map[string]bool // nodes of the other build
	orders []string

	mute  string // takes no write, whatever its build
	loose string // takes writes, whatever its build
	quiet bool   // no node logs why it refuses another one
}

func (b *twoBuilds) Net() *target.Net                  { return target.NewNet() }
func (b *twoBuilds) Nodes() []string                   { return []string{"n1", "n2", "n3"} }
func (b *twoBuilds) Leader() string                    { return "n1" }
func (b *twoBuilds) Running(string) bool               { return true }
func (b *twoBuilds) Restart(string) error              { return nil }
func (b *twoBuilds) Logged(string, string) (said bool) { return !b.quiet }

func (b *twoBuilds) SetBuild(node, build string) error {
	b.other[node] = build == target.OtherBuild
	return nil
}

func (b *twoBuilds) Shutdown(node string) { b.orders = append(b.orders, node) }

func (b *twoBuilds) Do(node string, timeout time.Duration, _ ...string) (target.Reply, error) {
	alike := 0
	for _, n := range b.Nodes() {
		if b.other[n] == b.other[node] {
			alike++
		}
	}
	if node != b.loose && (alike < 2 || node == b.mute) {
		time.Sleep(timeout)
		return target.Reply{}, os.ErrDeadlineExceeded
	}
	return target.Reply{Kind: '+', Str: "OK"}, nil
}

// Each change is judged: a majority that does not serve is reported, and a node beside a majority that serves or does
// not log its refusal. In the end all nodes are of their own build.
func TestBuildFinds(t *testing.T) {
	for _, c := range []struct {
		fault  string
		b      twoBuilds
		orders int
		want   []string
	}{
		{"leader", twoBuilds{}, 2, nil},
		{"rolling", twoBuilds{}, 6, nil},
		{"together", twoBuilds{}, 6, nil},
		{"leader", twoBuilds{quiet: true}, 2, []string{"not refused"}},
		{"leader", twoBuilds{loose: "n1"}, 2, []string{"not refused"}},
		{"rolling", twoBuilds{quiet: true}, 6, []string{"not refused"}},
		{"rolling", twoBuilds{loose: "n3"}, 6, []string{"not refused"}},
		{"rolling", twoBuilds{mute: "n2"}, 6, []string{"stuck between builds"}},
		{"together", twoBuilds{mute: "n3"}, 6, []string{"stuck between builds"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.b.other = map[string]bool{}
			f := (&Runner{Target: &c.b}).field(nil)
			if _, undo := build(f, Fault{Kind: "build", Variant: c.fault, Dice: 1}); undo != nil {
				undo()
			}
			var found []string
			for _, x := range f.found.all {
				if !slices.Contains(found, x.Kind) {
					found = append(found, x.Kind)
				}
			}
			if !slices.Equal(found, c.want) {
				t.Errorf("%s with %+v: found %v, want %v", c.fault, c.b, f.found.all, c.want)
			}
			if len(c.b.orders) != c.orders || c.b.other["n1"] || c.b.other["n2"] || c.b.other["n3"] {
				t.Errorf("%s: told to end: %v; of the other build: %v", c.fault, c.b.orders, c.b.other)
			}
		})
	}
}

// When the time of the run ends, no further node is changed, nothing is judged that needs a wait, and changed nodes get
// their own build again.
func TestBuildEndsWithTheRun(t *testing.T) {
	for _, c := range []struct {
		fault  string
		b      twoBuilds
		length time.Duration
		orders int
	}{
		{"rolling", twoBuilds{}, time.Second, 2},     // while the first one is to be refused
		{"rolling", twoBuilds{}, 3 * time.Second, 4}, // the second one
		{"rolling", twoBuilds{}, 5 * time.Second, 6}, // on the way back: two are left
		{"rolling", twoBuilds{}, time.Minute, 6},     // not at all
		{"rolling", twoBuilds{mute: "n2"}, time.Second, 2},
		{"together", twoBuilds{mute: "n3"}, time.Second, 6},
		{"leader", twoBuilds{quiet: true}, time.Second, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.b.other = map[string]bool{}
			f := (&Runner{Target: &c.b}).field(nil)
			ctx, cancel := context.WithTimeout(t.Context(), c.length)
			defer cancel()
			f.over = ctx.Done()
			began := time.Now()
			if _, undo := build(f, Fault{Kind: "build", Variant: c.fault, Dice: 1}); undo != nil {
				undo()
			}
			if took := time.Since(began); took > c.length+2*buildAsk || len(f.found.all) > 0 {
				t.Errorf("%s, over after %s: took %s, found %v", c.fault, c.length, took, f.found.all)
			}
			if len(c.b.orders) != c.orders || c.b.other["n1"] || c.b.other["n2"] || c.b.other["n3"] {
				t.Errorf("%s, over after %s: told to end: %v; of the other build: %v", c.fault, c.length, c.b.orders, c.b.other)
			}
		})
	}
}
