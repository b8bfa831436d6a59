package membership

import (
	"runtime/debug"
	"strings"
	"testing"

	"lockd/cluster/peer"
	"lockd/resp"
)

// oneRow is a machine of one command.
type oneRow struct{ spec *resp.Spec }

func (oneRow) Levels() (lowest, highest int) { return 1, 1 }
func (oneRow) Formats(int) map[string]uint64 { return map[string]uint64{"image": 1} }
func (m oneRow) Specs() []*resp.Spec         { return []*resp.Spec{m.spec} }

// The rules follow from what a command does with a log, subcommands too, and from the formats.
func TestRules(t *testing.T) {
	formats := []resp.Rule{{Level: 1, Name: "entry", Version: 8}}
	alone := func(s *resp.Spec) string { return Rules(oneRow{s}, formats) }
	base := resp.Spec{Name: "x", Arity: 2, Flags: resp.Write, Keys: resp.FirstKey}
	for what, change := range map[string]func(*resp.Spec){
		"arity": func(s *resp.Spec) { s.Arity = 3 }, "flags": func(s *resp.Spec) { s.Flags |= resp.DenyOOM },
		"keys": func(s *resp.Spec) { s.Keys.Last = -1 }, "subcommand": func(s *resp.Spec) { s.Subs = []*resp.Spec{{Name: "x|y"}} },
	} {
		other := base
		if change(&other); alone(&other) == alone(&base) {
			t.Errorf("%s makes no difference", what)
		}
	}
	if newer := []resp.Rule{{Level: 1, Name: "entry", Version: 9}}; Rules(oneRow{&base}, newer) == alone(&base) {
		t.Error("the version of a format makes no difference")
	}
	summary := base
	if summary.Summary = "other words"; alone(&summary) != alone(&base) {
		t.Error("the summary makes a difference")
	}
	err := CheckRules(peer.Identity{ID: "n2", Rules: "a:1 b:1 c:1 d:1 e:1 f:1 g:1"}, "n1", "a:2", 1)
	if want := "it has 6 commands (b, c, d, e, f, ...) that the latter does not know: other rules for a:"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// Builds for different levels of one architecture have different names, and those for the
// lowest the name that they always had.
func TestArchName(t *testing.T) {
	for _, c := range []struct{ goarch, key, value, want string }{
		{"amd64", "GOAMD64", "v1", "amd64"},
		{"amd64", "GOAMD64", "v3", "amd64v3"},
		{"amd64", "GOARM64", "v9.0", "amd64"}, // another architecture's
		{"amd64", "GOOS", "linux", "amd64"},
		{"arm64", "GOARM64", "v8.0", "arm64"},
		{"arm64", "GOARM64", "v8.0,lse", "arm64"},
		{"arm64", "GOARM64", "v9.0,crypto", "arm64v9.0"},
	} {
		settings := []debug.BuildSetting{{Key: "-compiler", Value: "gc"}, {Key: c.key, Value: c.value}}
		if got := archName(c.goarch, settings); got != c.want {
			t.Errorf("%s with %s=%s is %q, want %q", c.goarch, c.key, c.value, got, c.want)
		}
	}
}
