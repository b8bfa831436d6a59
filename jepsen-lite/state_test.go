package main

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"lockd/jepsen-lite/target"
)

// Every value of the loaded state is checked: a missing or different one is found. A reply that may differ next time is
// no finding.
func TestCheckPiece(t *testing.T) {
	piece := func(change func(r *target.Reply)) error {
		r := target.Reply{Kind: '*'}
		for i := 7; i <= 9; i++ {
			r.Elems = append(r.Elems, target.Reply{Kind: '$', Str: stateValue + strconv.Itoa(i)})
		}
		change(&r)
		return checkPiece(r, 7, 9)
	}
	for name, c := range map[string]struct {
		change func(r *target.Reply)
		want   string // "": nothing is wrong
		again  bool   // it is asked again
	}{
		"as loaded":   {func(*target.Reply) {}, "", false},
		"missing":     {func(r *target.Reply) { r.Elems[2] = target.Reply{Kind: '$', Nil: true} }, "1 of 3 keys from state:7 on do not have the value that was loaded: state:9 is \"nil\"", false},
		"other value": {func(r *target.Reply) { r.Elems[0].Str += "x" }, "1 of 3 keys from state:7 on", false},
		"other order": {func(r *target.Reply) { r.Elems[0], r.Elems[1] = r.Elems[1], r.Elems[0] }, "2 of 3 keys from state:7 on", false},
		"too few":     {func(r *target.Reply) { r.Elems = r.Elems[1:] }, "MGET of 3 keys is answered with 2 values", false},
		"refused":     {func(r *target.Reply) { *r = target.Reply{Kind: '-', Str: "LOADING wait"} }, "LOADING wait", true},
	} {
		err := piece(c.change)
		var wrong wrongState
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || errors.As(err, &wrong) == c.again) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
