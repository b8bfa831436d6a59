package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Variables that are no flags and no mistakes: those of tests and test builds, and what
// Kubernetes tells each container of a service whose name begins with lockd.
var notFlags = regexp.MustCompile(`^LOCKD_(TEST_.*|FAULT_(LISTEN|FULL|WAYS)|FENCE|PEER_SECRET|PASSWORD|LOGS|FUZZ_SEEDS|` +
	`SEGMENT_BYTES|GOLDEN_REDIS|STRICT_TIMES|(.*_)?SERVICE_(HOST|PORT).*|(.*_)?PORT(_.*)?)$`)

// misspelt are the problems with variables of the environment that look like flags and are none.
func misspelt(environ []string) (problems []error) {
	known := flagVariables()
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "LOCKD_") || known[name] || notFlags.MatchString(name) {
			continue
		}
		problems = append(problems, fmt.Errorf("the environment variable %s is not known, did you mean %s?", name,
			nearest(name, names(known))))
	}
	return problems
}

// flagVariables are the names under which flags are looked for in the environment.
func flagVariables() map[string]bool {
	known := map[string]bool{"LOCKD_PASSWORD": true}
	parser, err := kong.New(&cli{})
	if err != nil {
		panic(err) // of the tags of cli, which any test finds
	}
	for _, f := range flagsBelow(parser.Model.Node) {
		if f.Name != "help" {
			known[variableOf(f.Name)] = true
		}
	}
	return known
}

// flagsBelow are the flags of a command and of all its subcommands.
func flagsBelow(node *kong.Node) []*kong.Flag {
	flags := slices.Clone(node.Flags)
	for _, child := range node.Children {
		flags = append(flags, flagsBelow(child)...)
	}
	return flags
}

// names are the keys of a map, in order.
func names[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// nearest is the known name that takes the fewest edits, the first of several.
func nearest(name string, known []string) (best string) {
	least := 0
	for _, k := range known {
		if n := edits(name, k); best == "" || n < least || n == least && k < best {
			best, least = k, n
		}
	}
	return best
}

// edits returns the number of bytes to change, add or remove to turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
