package main

import (
	"context"
	"fmt"
	"testing"

	"lockd/keyspace"
	"lockd/resp"
)

// A script that calls a command of a connection or of a node gets the error of Redis that scripts may not call it,
// rather than that it is unknown. The machine has a list of these names, because its answers may not depend on a
// node's flags: the list equals COMMAND in the two modes.
func TestScriptsKnowTheCommandsElsewhere(t *testing.T) {
	t.Parallel()
	shown := map[string]int64{}
	for _, extra := range [][]string{nil, {"--cluster-protocol"}} {
		list, err := startSingle(t, extra...).client().Do(context.Background(), "COMMAND").Slice()
		if err != nil {
			t.Fatal(err)
		}
		noteArities(shown, list)
	}
	own := map[string]int64{}
	noteSpecs(own, keyspace.New(nil).Specs())
	listed := map[string]int64{}
	noteSpecs(listed, keyspace.Elsewhere())
	for name, arity := range shown {
		if _, ok := own[name]; !ok && listed[name] != arity {
			t.Errorf("scripts must know the commands of connections and nodes: write %s:%d into elsewhereList of "+
				"keyspace/command/table.go", name, arity)
		}
	}
	for name := range listed {
		if _, ok := shown[name]; !ok {
			t.Errorf("elsewhereList of keyspace/command/table.go has %s, which nobody has: take it out", name)
		}
	}
}

// noteArities notes what COMMAND shows.
func noteArities(by map[string]int64, list []any) {
	for _, c := range list {
		row := c.([]any)
		by[fmt.Sprint(row[0])] = row[1].(int64)
		noteArities(by, row[9].([]any))
	}
}

func noteSpecs(by map[string]int64, specs []*resp.Spec) {
	for _, s := range specs {
		by[s.Name] = int64(s.Arity)
		noteSpecs(by, s.Subs)
	}
}
