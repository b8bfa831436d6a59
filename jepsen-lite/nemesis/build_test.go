package nemesis

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// twoBuilds is a target whose nodes are of two builds. Those of a majority of one build serve.
type twoBuilds struct {
	target.Target
	other  map[string]bool // nodes of the other build
	orders []string

	mute  string // takes no write, whatever its build
	loose string // takes writes, whatever its build
	quiet bool   // nobody says why it refuses another one
}

func (b *twoBuilds) Net() *target.Net                { return target.NewNet() }
func (b *twoBuilds) Nodes() []string                 { return []string{"n1", "n2", "n3"} }
func (b *twoBuilds) Leader() string                  { return "n1" }
func (b *twoBuilds) Running(string) bool             { return true }
func (b *twoBuilds) Restart(string) error            { return nil }
func (b *twoBuilds) Said(string, string) (said bool) { return !b.quiet }

func (b *twoBuilds) SetBuild(node string, other bool) error {
	b.other[node] = other
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

// Each change is judged: a majority that does not serve is found, and so is who serves beside
// one, or does not say why it does not. In the end all nodes have their own build.
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
			f := (&Field{Target: &c.b}).own(nil)
			if _, undo := build(f, Fault{Kind: "build", Variant: c.fault, Dice: 1}); undo != nil {
				undo()
			}
			var found []string
			for _, x := range f.Found() {
				if !slices.Contains(found, x.Kind) {
					found = append(found, x.Kind)
				}
			}
			if !slices.Equal(found, c.want) {
				t.Errorf("%s with %+v: found %v, want %v", c.fault, c.b, f.Found(), c.want)
			}
			if len(c.b.orders) != c.orders || c.b.other["n1"] || c.b.other["n2"] || c.b.other["n3"] {
				t.Errorf("%s: told to end: %v; of the other build: %v", c.fault, c.b.orders, c.b.other)
			}
		})
	}
}
