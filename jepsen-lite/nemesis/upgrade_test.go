package nemesis

import (
	"context"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/target"
)

// twoReleases is a target whose nodes are of two releases, which serve together. The level rises when all nodes are of
// the next release.
type twoReleases struct {
	target.Target
	next   map[string]bool // nodes of the next release
	orders []string
	level  int
	own    string // after Adopt

	mute  string // takes no write beside nodes of the other release
	hasty bool   // the level rises too early
	slow  bool   // the level never rises
	loose bool   // a node accepts commands of the next level
	flat  bool   // both releases are of level 1, without later commands

	eager   bool // LOCKD LEVEL asks nobody whether he is behind
	deaf    bool // LOCKD LEVEL does nothing where it must
	vague   bool // LOCKD LEVEL does not say who is behind
	falling bool // LOCKD LEVEL takes a lower level
	older   bool // a node of the release before goes on at any level
	mum     bool // it ends, and does not say why
	former  string
}

func (b *twoReleases) Net() *target.Net     { return target.NewNet() }
func (b *twoReleases) Nodes() []string      { return []string{"n1", "n2", "n3"} }
func (b *twoReleases) Restart(string) error { return nil }
func (b *twoReleases) Adopt(build string)   { b.own = build }
func (b *twoReleases) NotDone(string) bool  { return false }
func (b *twoReleases) Unknown(string) bool  { return false }
func (b *twoReleases) Leader() string       { return "n1" }
func (b *twoReleases) ID(node string) string {
	return node
}
func (b *twoReleases) Logged(string, string) bool { return !b.mum }
func (b *twoReleases) Running(node string) bool   { return node != b.former || b.older }

func (b *twoReleases) SetBuild(node, build string) error {
	if b.former = ""; build == target.FormerBuild {
		b.former = node
	}
	b.next[node] = build == target.NextBuild || b.own == target.NextBuild
	return nil
}

func (b *twoReleases) Shutdown(node string) { b.orders = append(b.orders, node) }

func (b *twoReleases) count() (n int) {
	for _, node := range b.Nodes() {
		if b.next[node] {
			n++
		}
	}
	return n
}

func (b *twoReleases) Do(node string, timeout time.Duration, args ...string) (target.Reply, error) {
	if !b.slow && !b.flat && b.count() == 3 || b.hasty && b.count() == 2 {
		b.level = 2
	}
	switch {
	case args[0] == "LOCKD" && len(args) == 3:
		return b.ask(args[2]), nil
	case args[0] == "LOCKD":
		return target.Reply{Kind: '*', Elems: []target.Reply{{Kind: '$', Str: "level"}, {Kind: ':', Int: int64(b.level)}}}, nil
	case args[0] == "SET" && node == b.mute && b.count()%3 != 0:
		time.Sleep(timeout)
		return target.Reply{}, os.ErrDeadlineExceeded
	case args[0] == "SET":
		return target.Reply{Kind: '+', Str: "OK"}, nil
	case b.flat:
		return target.Reply{Kind: '-', Str: "ERR unknown command"}, nil
	case b.level < 2 && !b.loose:
		return target.Reply{Kind: '-', Str: "ERR '" + target.NextCommand + "' comes with level 2"}, nil
	}
	return target.Reply{Kind: ':', Int: 1}, nil
}

// ask is LOCKD LEVEL with a level.
func (b *twoReleases) ask(level string) target.Reply {
	asked, _ := strconv.Atoi(level)
	switch refused := func(why string) target.Reply { return target.Reply{Kind: '-', Str: "ERR " + why} }; {
	case asked < b.level && b.falling:
		b.level = asked
	case asked < b.level:
		return refused("a level never falls")
	case asked == b.level || b.deaf:
	case b.eager:
		b.level = asked
	case b.count() < 3 && b.vague:
		return refused("a member is behind")
	case b.count() < 3:
		return refused("level 2 cannot be in force yet: node " + b.behind() + " can do level 1")
	}
	return target.Reply{Kind: '+', Str: "OK"}
}

// behind is a node that is not of the next release.
func (b *twoReleases) behind() string {
	for _, n := range b.Nodes() {
		if !b.next[n] {
			return n
		}
	}
	return ""
}

// An upgrade reports a node that does not serve, a level that rises too early or never, and commands that work too
// early. After it all nodes are of the intended release.
func TestUpgradeFinds(t *testing.T) {
	for _, c := range []struct {
		fault      string
		b          twoReleases
		orders, up int
		want       []string
	}{
		{"back", twoReleases{}, 4, 0, nil},
		{"up", twoReleases{}, 9, 3, nil},
		{"up", twoReleases{own: target.NextBuild, level: 2}, 9, 3, nil},
		{"up", twoReleases{flat: true}, 9, 3, nil},
		{"up", twoReleases{eager: true}, 9, 3, []string{"level not as asked for"}},
		{"up", twoReleases{deaf: true}, 9, 3, []string{"level not as asked for"}},
		{"up", twoReleases{vague: true}, 9, 3, []string{"level not as asked for"}},
		{"up", twoReleases{falling: true}, 9, 3, []string{"wrong level"}},
		{"up", twoReleases{older: true}, 9, 3, []string{"older release goes on"}},
		{"up", twoReleases{mum: true}, 9, 3, []string{"older release says nothing"}},
		{"back", twoReleases{mute: "n2"}, 4, 0, []string{"stuck in an upgrade"}},
		{"back", twoReleases{hasty: true}, 4, 0, []string{"wrong level"}},
		{"back", twoReleases{loose: true}, 4, 0, []string{"wrong level"}},
		{"up", twoReleases{slow: true}, 7, 3, []string{"level not as asked for", "wrong level"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.b.next, c.b.level = map[string]bool{}, max(c.b.level, 1)
			f := (&Runner{Target: &c.b}).field(nil)
			if c.b.flat {
				f.nextLevel = 1
			}
			if _, undo := upgrade(f, Fault{Kind: Upgrade, Variant: c.fault, Dice: 1}); undo != nil {
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
			if len(c.b.orders) != c.orders || c.b.count() != c.up || (c.up == 3) != (c.b.own == target.NextBuild) {
				t.Errorf("%s: told to end: %v; of the next release: %v, and %q from now on", c.fault, c.b.orders, c.b.next, c.b.own)
			}
		})
	}
}

// When the time of the run ends, no further node is changed, and nothing is judged that needs a wait. No node stays at
// the next release, since a later upgrade could complete them to all.
func TestUpgradeEndsWithTheRun(t *testing.T) {
	for _, c := range []struct {
		length time.Duration
		mute   string
	}{{0, ""}, {time.Second, "n2"}, {time.Second, "n1"}} {
		synctest.Test(t, func(t *testing.T) {
			b := &twoReleases{next: map[string]bool{}, level: 1, mute: c.mute}
			f := (&Runner{Target: b}).field(nil)
			ctx, cancel := context.WithTimeout(t.Context(), c.length)
			defer cancel()
			f.over = ctx.Done()
			began := time.Now()
			_, undo := upgrade(f, Fault{Kind: Upgrade, Variant: "up", Dice: 1})
			if took := time.Since(began); took > c.length+2*buildAsk || len(f.found.all) > 0 || b.count() == 3 || b.own != "" {
				t.Errorf("%+v: took %s, found %v, %v", c, took, f.found.all, b)
			}
			if undo(); b.count() > 0 {
				t.Errorf("%+v: of the next release when all is undone: %v", c, b.next)
			}
		})
	}
}
