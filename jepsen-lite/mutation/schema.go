package mutation

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Variables of the environment of a build that has mutants.
const (
	chosenVar  = "JEPSEN_LITE_MUTANT"  // the number of the one that is in force; none: the code as it is
	reachedVar = "JEPSEN_LITE_REACHED" // a file to which the numbers of those are added that are reached
)

// insertion has the texts to insert before and behind a part of a file.
type insertion struct {
	from, to       int
	before, behind string
}

// helpersFile is the name of the file that is added to a package with mutants.
const helpersFile = "mutants.go"

// helpersUse are the packages that it imports.
var helpersUse = []string{"cmp", "os", "slices", "strconv", "sync/atomic"}

// helpers is that file: name of the package, greatest number, variables of the environment.
const helpers = `package %s

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
)

var (
	mutantChosen, _ = strconv.Atoi(os.Getenv(%q))
	mutantsFile     = os.Getenv(%q)
	mutantsReached  [%d]atomic.Bool
)

func mutantIs(number int) bool {
	if mutantsFile != "" {
		mutantReached(number)
	}
	return number == mutantChosen
}

func mutantNot(number int) bool { return !mutantIs(number) }

func mutantReached(number int) {
	if mutantsReached[number].Swap(true) {
		return
	}
	f, err := os.OpenFile(mutantsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(number) + "\n")
		_ = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

type mutantNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutantPlus[T mutantNumber](number int, n T) T {
	if mutantIs(number) {
		n++
	}
	return n
}

func mutantMinus[T mutantNumber](number int, n T) T {
	if mutantIs(number) {
		return -n
	}
	return n
}

func minMutant[T cmp.Ordered](number int, of ...T) T {
	if mutantIs(number) {
		return slices.Max(of)
	}
	return slices.Min(of)
}

func maxMutant[T cmp.Ordered](number int, of ...T) T {
	if mutantIs(number) {
		return slices.Min(of)
	}
	return slices.Max(of)
}
`

// sources returns the files of the package with all mutants, by their paths, without those that have none.
func (s *Set) sources() map[string]string {
	texts := map[string]string{
		filepath.Join(s.pkg.dir, helpersFile): fmt.Sprintf(helpers, s.pkg.name, chosenVar, reachedVar, len(s.Mutants)+1),
	}
	for file, all := range s.inserts {
		texts[file.file] = inserted(file.text, all)
	}
	return texts
}

// inserted inserts texts around parts of a text, each of which lies within another one or apart from it.
func inserted(text string, all []insertion) string {
	type piece struct {
		at, span, order int // a piece that ends a part has a negative span
		text            string
	}
	var pieces []piece
	for i, in := range all {
		pieces = append(pieces,
			piece{in.from, in.to - in.from + 1, i, in.before}, piece{in.to, -(in.to - in.from + 1), len(all) - i, in.behind})
	}
	slices.SortStableFunc(pieces, func(a, b piece) int {
		switch {
		case a.at != b.at:
			return a.at - b.at
		case (a.span < 0) != (b.span < 0): // what ends here comes first
			return a.span - b.span
		case a.span != b.span:
			return b.span - a.span // the outer one begins first, and ends last
		}
		return a.order - b.order
	})
	var out strings.Builder
	done := 0
	for _, p := range pieces {
		out.WriteString(text[done:p.at])
		out.WriteString(p.text)
		done = p.at
	}
	out.WriteString(text[done:])
	return out.String()
}

// Overlay writes the package with all its mutants into dir, and returns the overlay for go build.
func (s *Set) Overlay(dir string) (overlay string, err error) {
	replace := map[string]string{}
	for file, text := range s.sources() {
		to := filepath.Join(dir, filepath.Base(file))
		if replace[file] = to; err == nil {
			err = os.WriteFile(to, []byte(text), 0o644)
		}
	}
	list, _ := json.Marshal(map[string]any{"Replace": replace})
	overlay = filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(overlay, list, 0o644)
	}
	return overlay, err
}
