//go:build golden

package keyspace

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
)

// rowExceptions lists, with the reason, what a row says otherwise than Redis 7.0:
// "name what".
var rowExceptions = map[string]string{
	"zrank arity":    "since 7.2 it takes WITHSCORE",
	"zrevrank arity": "since 7.2 it takes WITHSCORE",
	"acl|load arity": "connections add what the file says",
}

// newerRows lists the commands that Redis 7.0 does not have.
var newerRows = map[string]string{
	"delex":   "8.4",
	"delifeq": "Valkey 9.0",
	"digest":  "8.4",
	"msetex":  "8.4",
}

// TestRows proves that the table says of each command what Redis says: arity,
// flags and key positions as in COMMAND INFO, group, since and summary as in
// COMMAND DOCS.
func TestRows(t *testing.T) {
	redis := dialReferee(t)
	redis.do("HELLO", "3")
	for _, spec := range newStage(t).m.Specs() {
		for _, row := range append(spec.Subs, spec) {
			if row.Group == "lockd" || newerRows[row.Name] != "" {
				continue
			}
			checkRow(t, redis, row)
		}
	}
}

func checkRow(t *testing.T, redis *referee, row *resp.Spec) {
	info, _ := redis.do("COMMAND", "INFO", row.Name)
	docs, _ := redis.do("COMMAND", "DOCS", row.Name)
	if info.Elems[0].IsNil() {
		t.Errorf("%s: not a command of Redis 7.0: write it into newerRows of keyspace/rows_test.go if a newer one has "+
			"it; if only lockd does, its row says Group: \"lockd\"", row.Name)
		return
	}
	check := func(what, mine, theirs string) {
		why := rowExceptions[row.Name+" "+what]
		if mine != theirs && why == "" {
			t.Errorf("%s, %s: lockd %q, redis %q: mend the row, or write why they differ into rowExceptions of "+
				"keyspace/rows_test.go", row.Name, what, mine, theirs)
		}
		if mine == theirs && why != "" {
			t.Errorf("%s, %s: is no exception any more", row.Name, what)
		}
	}
	fields := info.Elems[0].Elems
	check("name", row.Name, fields[0].Str)
	check("arity", fmt.Sprint(row.Arity), fmt.Sprint(fields[1].Int))
	check("flags", words(row.Flags.Names()), words(texts(fields[2].Elems)))
	check("keys", fmt.Sprint(row.Keys.First, row.Keys.Last, row.Keys.Step),
		fmt.Sprint(fields[3].Int, fields[4].Int, fields[5].Int))
	for i := 0; i+1 < len(docs.Elems[1].Elems); i += 2 {
		value := docs.Elems[1].Elems[i+1].Str
		switch docs.Elems[1].Elems[i].Str {
		case "group":
			check("group", row.Group, value)
		case "since":
			check("since", row.Since, value)
		case "summary":
			check("summary", row.Summary, value)
		}
	}
}

func texts(elems []resp.Reply) (texts []string) {
	for _, e := range elems {
		texts = append(texts, e.Str)
	}
	return texts
}

func words(list []string) string {
	slices.Sort(list)
	return strings.Join(list, " ")
}
