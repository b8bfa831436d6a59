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

// Nodes that would apply one entry with different results must not share a log. Each node states its rules as a list of
// words, name:sum, sorted: one for each command and each format; names have no space. A rule that begins at a level
// above the lowest is name:sum:level, and applies until another rule of that name begins; a rule that ends has no sum.
// Nodes with different rules at the level in force refuse each other, so a new command needs no further care than its
// level.

// rulesNamed bounds the names that an error lists.
const rulesNamed = 5

// ruled is the part of cluster.Machine that determines the rules.
type ruled interface {
	Levels() (lowest, highest int)
	Formats(level int) map[string]uint64
	Specs() []*resp.Spec
}

// Rules returns the rules of this lockd with a machine, at all levels that it supports. formats lists the formats that
// package cluster writes.
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

// rulesAt returns the rules of this lockd with a machine at a level, by name.
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

// SayLevels formats a range of levels, for people.
func SayLevels(lowest, highest int) string {
	if lowest == highest {
		return fmt.Sprintf("level %d", lowest)
	}
	return fmt.Sprintf("levels %d to %d", lowest, highest)
}

// TooOld returns the error of a node that does not support the level in force.
func TooOld(id string, lowest, highest, level int) error {
	return fmt.Errorf("level %d is in force in this cluster, and this lockd can do %s: start a newer one on node %s",
		level, SayLevels(lowest, highest), id)
}

func ruleSum(what ...any) string {
	return fmt.Sprintf("%08x", crc32.Checksum(fmt.Append(nil, what...), resp.CRC32C))
}

// CheckRules returns an error that describes how a node's rules differ from this node's at a level; nil: they do not.
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

// parseRules returns the sums of the rules in force at a level, by name.
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

// CompatibleLevel returns the highest level up to which two nodes have the same rules; from is a level at which they have.
func CompatibleLevel(who peer.Identity, rules string, from, highest int) int {
	for level := from; level < min(highest, who.Highest); level++ {
		if CheckRules(who, "", rules, level+1) != nil {
			return level
		}
	}
	return max(from, min(highest, who.Highest))
}

// named formats names into a sentence; "" without names.
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

// OwnArch is the architecture of this build, in the form that nodes compare.
var OwnArch = func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.GOARCH
	}
	return archName(runtime.GOARCH, info.Settings)
}()

// archName returns GOARCH with the level of the build, unless that is the lowest: "amd64", "amd64v3". Scripts must
// compute the same on all nodes, to the last bit, and for a higher level the compiler may use other instructions: from
// amd64's v3 on it joins a product and a sum into one rounding, also in Go's sine and logarithm. An option behind the
// level, "v8.0,lse", adds no such instruction.
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
