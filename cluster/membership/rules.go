package membership

import (
	"fmt"
	"hash/crc32"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"lockd/cluster/peer"
	"lockd/resp"
)

// Nodes that would apply one entry with different results must not share a log. What they must have
// in common is written down as their rules: a word for each command and each format, name:sum, in
// order; the names have no space. A rule that begins at a level above the lowest says so, name:sum:level, and goes on until another
// one of its name begins; one that ends has no sum. Nodes with different rules at the level in force
// refuse each other, so nobody has to remember anything when adding a command but the level.

// rulesNamed is how many names an error lists.
const rulesNamed = 5

// ruled is a machine by what its rules follow from, as in cluster.Machine.
type ruled interface {
	Levels() (lowest, highest int)
	Formats(level int) map[string]uint64
	Specs() []*resp.Spec
}

// Rules writes down the rules of this lockd with a machine, at all levels that it can: of the formats that the
// cluster writes, too.
func Rules(m ruled, formats []resp.Rule) string {
	lowest, highest := m.Levels()
	var words []string
	before := map[string]string{}
	for level := lowest; level <= highest; level++ {
		begins := ":" + strconv.Itoa(level)
		if level == lowest {
			begins = ""
		}
		now := rulesAt(m, formats, level)
		for name, sum := range now {
			if before[name] != sum {
				words = append(words, name+":"+sum+begins)
			}
		}
		for name := range before {
			if now[name] == "" {
				words = append(words, name+":"+begins)
			}
		}
		before = now
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// rulesAt are the rules of this lockd with a machine at a level, by name.
func rulesAt(m ruled, formats []resp.Rule, level int) map[string]string {
	rules := map[string]string{}
	for _, versions := range []map[string]uint64{resp.RulesAt(formats, level), m.Formats(level)} {
		for name, version := range versions {
			rules["("+name+")"] = ruleSum(version)
		}
	}
	var add func(specs []*resp.Spec)
	add = func(specs []*resp.Spec) {
		for _, s := range specs {
			if s.Level <= level {
				rules[s.Name] = ruleSum(s.Arity, uint64(s.Flags), s.Keys, s.Waits)
				add(s.Subs)
			}
		}
	}
	add(m.Specs())
	return rules
}

// SayLevels formats some levels for people.
func SayLevels(lowest, highest int) string {
	if lowest == highest {
		return fmt.Sprintf("level %d", lowest)
	}
	return fmt.Sprintf("levels %d to %d", lowest, highest)
}

// TooOld returns why a node cannot go on where a level is in force that it cannot do.
func TooOld(id string, lowest, highest, level int) error {
	return fmt.Errorf("level %d is in force in this cluster, and this lockd can do %s: start a newer one on node %s",
		level, SayLevels(lowest, highest), id)
}

func ruleSum(what ...any) string {
	return fmt.Sprintf("%08x", crc32.Checksum(fmt.Append(nil, what...), resp.CRC32C))
}

// CheckRules reports how a node's rules differ from those of this node, at a level.
func CheckRules(who peer.Identity, self, rules string, level int) error {
	if who.Rules == rules {
		return nil
	}
	theirs, ours := parseRules(who.Rules, level), parseRules(rules, level)
	if maps.Equal(theirs, ours) {
		return nil
	}
	var more, less, other []string
	for name, sum := range theirs {
		switch known, ok := ours[name]; {
		case !ok:
			more = append(more, name)
		case known != sum:
			other = append(other, name)
		}
	}
	for name := range ours {
		if _, ok := theirs[name]; !ok {
			less = append(less, name)
		}
	}
	return fmt.Errorf("node %s is another version of lockd than node %s%s%s%s: they would apply the same log to "+
		"different ends; bring all nodes to one version",
		who.ID, self, named(": it has %s that the latter does not know", more), named(": it does not know %s", less),
		named(": other rules for %s", other))
}

// parseRules reads the rules at a level: by name, the sum of the newest that has begun.
func parseRules(rules string, level int) map[string]string {
	sums, since := map[string]string{}, map[string]int{}
	for word := range strings.FieldsSeq(rules) {
		name, sum, _ := strings.Cut(word, ":")
		sum, begins, _ := strings.Cut(sum, ":")
		begun, _ := strconv.Atoi(begins)
		if begun <= level && begun >= since[name] {
			sums[name], since[name] = sum, begun
		}
	}
	maps.DeleteFunc(sums, func(_, sum string) bool { return sum == "" })
	return sums
}

// Alike is the highest level up to which two nodes have the same rules, of those from a level on at which they do.
func Alike(who peer.Identity, rules string, from, highest int) int {
	for level := from; level < min(highest, who.Highest); level++ {
		if CheckRules(who, "", rules, level+1) != nil {
			return level
		}
	}
	return max(from, min(highest, who.Highest))
}

// named puts some names into a sentence, if there are any.
func named(sentence string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	list := strings.Join(names[:min(len(names), rulesNamed)], ", ")
	if len(names) > rulesNamed {
		list = fmt.Sprintf("%d commands (%s, ...)", len(names), list)
	}
	return fmt.Sprintf(sentence, peer.OneLine(list, peer.NameMax))
}

// OwnArch is this build's architecture, as nodes compare it.
var OwnArch = func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.GOARCH
	}
	return archName(runtime.GOARCH, info.Settings)
}()

// archName is GOARCH, with the level that the build was made for unless that is the
// lowest: "amd64", "amd64v3". Scripts on all nodes must compute the same, to the last bit. For a
// higher level the compiler may use other instructions: from amd64's v3 on it joins a
// product and a sum into one rounding, in Go's sine and logarithm too. An option behind the
// level, "v8.0,lse", brings no instruction for such numbers.
func archName(goarch string, settings []debug.BuildSetting) string {
	for _, s := range settings {
		if s.Key != "GO"+strings.ToUpper(goarch) {
			continue
		}
		level, _, _ := strings.Cut(s.Value, ",")
		if level != "v1" && level != "v8.0" {
			return goarch + level
		}
	}
	return goarch
}
