package console

import (
	"fmt"

	"github.com/gomodule/redigo/redis"
)

func doctorCommands(*query) [][]string { return [][]string{{"LOCKS", "DOCTOR"}, {"LOCKS", "ADVICE"}} }

// doctorPage is what the doctor's page shows.
type doctorPage struct {
	Missing               bool // this version has none
	Node                  string
	KnownSince, SeenSince string
	Findings              []finding
	More                  bool
	Advice                adviceTable
}

// finding is one of LOCKS DOCTOR: a sentence, and what it rests on.
type finding struct {
	Says   string
	Fields []field
}

type field struct{ Name, Value string }

// adviceTable is what LOCKS ADVICE answers: numbers by template of names.
type adviceTable struct {
	Names []string
	Rows  [][]string
}

func doctorView(_ *Console, _ *query, answers []any) any {
	if _, ok := answers[0].(redis.Error); ok {
		return doctorPage{Missing: true}
	}
	r := recordOf(answers[0])
	p := doctorPage{Node: r.text("node"), KnownSince: r.text("known-since"), SeenSince: r.text("seen-since")}
	findings, _ := r["findings"].([]any)
	p.More = len(findings) > findingsShown
	for _, v := range findings[:min(len(findings), findingsShown)] {
		f := finding{Says: recordOf(v).text("says")}
		for _, of := range fieldsOf(v) {
			if of.Name != "says" && of.Value != "" {
				f.Fields = append(f.Fields, of)
			}
		}
		p.Findings = append(p.Findings, f)
	}
	locks, _ := recordOf(answers[1])["locks"].([]any)
	p.Advice = adviceOf(locks[:min(len(locks), findingsShown)])
	return p
}

// adviceOf has the columns of the first row.
func adviceOf(locks []any) (t adviceTable) {
	for i, v := range locks {
		var row []string
		for _, of := range fieldsOf(v) {
			if i == 0 {
				t.Names = append(t.Names, of.Name)
			}
			row = append(row, of.Value)
		}
		if len(row) == len(t.Names) {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// fieldsOf are the fields of a map in their order.
func fieldsOf(v any) (fields []field) {
	list, _ := v.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		fields = append(fields, field{textOf(list[i]), textOf(list[i+1])})
	}
	return fields
}

// textOf is a value as it is read; "" for none.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
}
